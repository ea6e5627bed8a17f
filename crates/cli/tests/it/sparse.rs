//! Sparse worktrees: files added and removed, files kept, the output, and `sparse-checkout` itself.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates directories, and a branch on which files in all of them differ.
fn history(repo: &Repo<'_>) {
    for path in ["top", "a/x", "a/b/x", "a/c/x", "d/x", "d/e/x", "d*/x"] {
        repo.write(path, "one\n");
    }
    repo.commit("first");
    repo.git(&["switch", "-q", "-c", "topic"]);
    for path in ["top", "a/x", "a/b/x", "d/new", "new"] {
        repo.write(path, "two\n");
    }
    repo.remove("d/e");
    repo.commit("second");
    repo.git(&["switch", "-q", "main"]);
}

fn file(repo: &Repo<'_>) -> Vec<u8> {
    std::fs::read(repo.path.join(".git/info/sparse-checkout")).unwrap_or_default()
}

/// Compares the worktree, the index with its flags, and the sparse configuration files.
fn same(oracle: &Oracle, args: &[&str]) {
    oracle.same(args);
    let marks = |repo: &Repo<'_>| repo.git(&["ls-files", "-t", "--stage"]).stdout;
    let config = |repo: &Repo<'_>| std::fs::read(repo.path.join(".git/config.worktree")).unwrap_or_default();
    let (git, ours) = (oracle.git(), oracle.ours());
    assert_eq!(marks(&git), marks(&ours), "{args:?}");
    assert_eq!(file(&git), file(&ours), "{args:?}");
    assert_eq!(config(&git), config(&ours), "{args:?}");
}

#[test]
fn a_cone_from_beginning_to_end() {
    let oracle = Oracle::new(SAPWOOD, history);
    for args in [
        &["sparse-checkout", "list"][..],
        &["sparse-checkout", "add", "a"],
        &["sparse-checkout", "init", "--cone"],
        &["sparse-checkout", "set", "a/b", "d*"],
        &["sparse-checkout", "set", "--skip-checks", "a/b", "d*"],
        &["sparse-checkout", "list"],
        &["sparse-checkout", "add", "./d/", "a"],
        &["sparse-checkout", "add", "top"],
        &["sparse-checkout", "set", "/a"],
        &["sparse-checkout", "set", "a/b"],
        &["switch", "topic"],
        &["sparse-checkout", "add", "d"],
        &["checkout", "main"],
        &["reset", "topic"],
        &["reset", "--hard"],
        &["sparse-checkout", "set", "--no-cone", "*x", "!/d/"],
        &["sparse-checkout", "reapply", "--cone"],
        &["sparse-checkout", "clean"],
        &["sparse-checkout", "disable"],
    ] {
        same(&oracle, args);
    }
}

#[test]
fn keeps_changed_files_with_a_warning() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.write("a/x", "mine\n");
        repo.write("d/untracked", "mine\n");
    });
    same(&oracle, &["sparse-checkout", "set", "d/e"]);
    same(&oracle, &["sparse-checkout", "set", "a/b"]);
    oracle.both(|repo| repo.write("d/x", "mine\n"));
    same(&oracle, &["sparse-checkout", "add", "d"]);
    same(&oracle, &["switch", "topic"]);
    same(&oracle, &["reset", "--hard"]);
    same(&oracle, &["sparse-checkout", "reapply"]);
}

#[test]
fn directories_outside_are_cleaned() {
    let oracle = Oracle::new(SAPWOOD, history);
    same(&oracle, &["sparse-checkout", "set", "a/b"]);
    oracle.both(|repo| repo.write("d/e/untracked", "mine\n"));
    for args in [
        &["sparse-checkout", "clean"][..],
        &["sparse-checkout", "clean", "--dry-run", "--verbose"],
        &["sparse-checkout", "clean", "--force"],
    ] {
        same(&oracle, args);
    }
}

/// A switch drops the old tree's entries, whose marks Git does not know; `reset` drops those of the
/// index.
#[test]
fn an_empty_directory_outside_goes_with_its_last_entry() {
    let oracle = Oracle::new(SAPWOOD, history);
    same(&oracle, &["sparse-checkout", "set", "a/b"]);
    for (args, stays) in [(&["switch", "topic"][..], false), (&["reset", "--hard", "topic"], true)] {
        oracle.both(|repo| {
            repo.git(&["switch", "-q", "-f", "main"]);
            std::fs::create_dir_all(repo.path.join("d/e")).expect("a new directory");
        });
        same(&oracle, args);
        oracle.both(|repo| assert_eq!(repo.path.join("d").exists(), stays, "{args:?}"));
    }
}

/// A file outside of the cone that somebody wrote there is a change.
#[test]
fn a_changed_file_outside_keeps_its_worktree() {
    for index in ["--no-sparse-index", "--sparse-index"] {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            history(repo);
            repo.git(&["worktree", "add", "-q", "--detach", "wt"]);
            repo.git(&["-C", "wt", "sparse-checkout", "set", index, "a/b"]);
            repo.write("wt/d/x", "mine\n");
        });
        let remove = ["worktree", "remove", "wt"];
        let refused =
            |code: i32, text: String| code == 128 && text.contains("contains modified or untracked");
        let git = oracle.git().try_git(&remove);
        assert!(refused(git.code, git.stderr.to_string()), "{index}: {}", git.stderr);
        let ours = oracle.ours().run(SAPWOOD.as_ref(), &remove);
        assert!(refused(ours.code, ours.stderr.to_string()), "{index}: {}", ours.stderr);
        assert_eq!(oracle.ours().read("wt/d/x"), "mine\n", "{index}");
        oracle.both(|repo| repo.write("wt/d/x", "one\n"));
        let codes = [oracle.git().try_git(&remove), oracle.ours().run(SAPWOOD.as_ref(), &remove)];
        assert_eq!(codes.map(|run| run.code), [0, 0], "{index}");
        assert!(!oracle.ours().exists("wt"), "{index}");
    }
}

#[test]
fn a_changed_file_outside_shows_in_the_superproject() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        repo.git(&["init", "-q", "sub"]);
        repo.write("sub/a/x", "one\n");
        repo.write("sub/b/x", "one\n");
        repo.git(&["-C", "sub", "add", "."]);
        repo.git(&["-C", "sub", "commit", "-q", "-m", "one"]);
        repo.git(&["add", "sub"]);
        repo.git(&["commit", "-q", "-m", "sub"]);
        repo.git(&["-C", "sub", "sparse-checkout", "set", "a"]);
        repo.write("sub/b/x", "mine\n");
    });
    let status = oracle.same_answer_in("sub", "", &["status", "--porcelain"]);
    assert_eq!(status.stdout, " M sub\n");
}
