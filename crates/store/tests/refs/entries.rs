//! Entries of one reflog, compared with `git stash` and `git reflog delete`.

use super::*;

const NAME: &str = "refs/stash";

/// Records the three commits in `refs/stash` of both repositories.
fn stashed() -> Twins {
    let twins = Twins::new();
    let mut before = Expected::Missing;
    for (number, commit) in twins.commits.iter().enumerate() {
        let message = format!("stash  {number}");
        let stored = ["update-ref", "--create-reflog", "-m", &message, NAME, &commit.to_string()];
        let git = twins.git();
        git.git(
            &[&["-c", "user.name=C O Mitter", "-c", "user.email=committer@example.com"], &stored[..]]
                .concat(),
        );
        refs::record(&twins.options(), NAME.into(), *commit, before, message.as_str().into())
            .expect("recorded");
        before = Expected::Is(*commit);
    }
    // The dates of Git's commands differ.
    let log = twins.ours().read(".git/logs/refs/stash");
    twins.git().write(".git/logs/refs/stash", log);
    twins
}

fn state(repo: &Repo<'_>) -> (Option<BString>, Option<BString>) {
    let read = |path: &str| repo.exists(path).then(|| repo.read(path));
    (read(".git/refs/stash"), read(".git/logs/refs/stash"))
}

#[test]
fn drops_entries_like_git() {
    for order in [[0, 0, 0], [2, 1, 0], [1, 0, 0], [1, 1, 0]] {
        let twins = stashed();
        let mut left: Vec<ObjectId> = twins.commits.iter().rev().copied().collect();
        for index in order {
            let entry = left.remove(index);
            refs::drop_entry(&twins.options(), NAME.into(), index, entry).expect("dropped");
            twins.git().git(&[
                "reflog",
                "delete",
                "--rewrite",
                "--updateref",
                &format!("{NAME}@{{{index}}}"),
            ]);
            if left.is_empty() {
                twins.git().git(&["update-ref", "-d", NAME]);
            }
            assert_eq!(state(&twins.ours()), state(&twins.git()), "{order:?} at {index}");
        }
        assert_eq!(state(&twins.ours()), (None, None));
    }
}

#[test]
fn refuses_an_entry_that_is_another_one() {
    let twins = stashed();
    let before = state(&twins.ours());
    for (index, entry) in [(0, twins.commits[1]), (1, twins.commits[2]), (3, twins.commits[0])] {
        let error = refs::drop_entry(&twins.options(), NAME.into(), index, entry).expect_err("refused");
        assert_eq!(error.to_string(), "reflog of 'refs/stash' was changed by another process");
    }
    assert_eq!(state(&twins.ours()), before);
    assert!(!twins.ours().exists(".git/refs/stash.lock"));
}

#[test]
fn keeps_lines_that_are_no_entries_and_completes_the_last() {
    let twins = stashed();
    let path = twins.ours().join(".git/logs/refs/stash");
    let log = fs::read_to_string(&path).expect("a log");
    fs::write(&path, format!("odd\r\n{}", log.trim_end())).expect("written");
    refs::drop_entry(&twins.options(), NAME.into(), 1, twins.commits[1]).expect("dropped");
    let log = fs::read_to_string(&path).expect("a log");
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    assert_eq!((lines.len(), lines[0]), (3, "odd\r\n"));
    assert!(lines[2].starts_with(&format!("{} {}", twins.commits[0], twins.commits[2])), "{log}");
    assert!(lines[2].ends_with("stash 2\n"), "{log}");
}
