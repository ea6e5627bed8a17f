//! Transactions over several edits: late failures, rejected edits, and damaged logs.

use store::refs::{Edit, Failures, Follow, New, Old, RefTransaction, Rejection};

use super::*;

fn set(name: &str, new: ObjectId) -> Edit {
    Edit::set(name.into(), new, "moved".into())
}

/// The refs and logs of our repository.
fn files(twins: &Twins) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in ["refs", "logs"] {
        collect(&twins.ours().join(".git").join(dir), &mut found);
    }
    found
}

fn collect(dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found)
        } else {
            drop(found.insert(path.display().to_string(), fs::read(&path).expect("a file")))
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_leaves_all_refs_as_they_were() {
    for fsync in [Fsync::default(), Fsync::default().for_recording()] {
        let twins = Twins::new();
        let ours = twins.ours();
        // A log has the name of another log's directory.
        ours.write(".git/logs/refs/heads/b/x", "");
        let before = files(&twins);
        let options = Options { fsync, ..twins.options() };
        let mut transaction = RefTransaction::new(&options, Failures::EndAll);
        for name in ["refs/heads/main", "refs/heads/a/new", "refs/heads/b"] {
            transaction.add(set(name, twins.commits[0])).expect("a good name");
        }
        let error = transaction.commit().expect_err("a log is in the way");
        assert!(error.to_string().contains("there are still logs under"), "{error}");
        assert_eq!(files(&twins), before);
    }
}

#[test]
fn a_line_that_was_cut_off_does_not_swallow_the_next() {
    let twins = Twins::new();
    let path = twins.ours().join(".git/logs/refs/heads/main");
    let log = fs::read(&path).expect("a log");
    fs::write(&path, &log[..log.len() - 10]).expect("written");
    let options = Options { fsync: Fsync::default().for_recording(), ..twins.options() };
    let mut transaction = RefTransaction::new(&options, Failures::EndAll);
    transaction.add(set("refs/heads/main", twins.commits[0])).expect("a good name");
    assert_eq!(transaction.commit().expect("committed"), []);
    let after = fs::read(&path).expect("a log");
    assert_eq!(after[..log.len() - 10], log[..log.len() - 10]);
    let added = after[log.len() - 10..].to_str().expect("text");
    let expected = format!("\n{} {} ", twins.commits[2], twins.commits[0]);
    assert!(added.starts_with(&expected) && added.ends_with("\tmoved\n"), "{added}");
}

#[test]
fn a_batch_makes_the_edits_that_can_be_made() {
    let twins = Twins::new();
    let options = twins.options();
    let mut transaction = RefTransaction::new(&options, Failures::RejectOne);
    let [one, two] = [twins.commits[0], twins.commits[1]];
    let null = ObjectId::null(HashKind::Sha1);
    for edit in [
        Edit { old: Old::Id(one), ..set("refs/heads/main", two) },
        Edit { old: Old::Id(null), ..set("refs/heads/new", one) },
        Edit { old: Old::Id(one), ..set("refs/heads/missing", two) },
        Edit { old: Old::Id(null), ..set("refs/tags/annotated", two) },
        set("refs/heads/main/below", one),
        Edit {
            new: New::Keep,
            old: Old::Symbolic("refs/heads/x".into()),
            follow: Follow::No,
            ..set("refs/heads/main2", null)
        },
    ] {
        transaction.add(edit).expect("a good name");
    }
    let rejected = transaction.commit().expect("committed");
    let kinds: Vec<(&str, Rejection)> =
        rejected.iter().map(|one| (one.name.to_str().expect("text"), one.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("refs/heads/main", Rejection::IncorrectOldValue),
            ("refs/heads/missing", Rejection::NonexistentRef),
            ("refs/tags/annotated", Rejection::CreateExists),
            ("refs/heads/main/below", Rejection::NameConflict),
            ("refs/heads/main2", Rejection::NonexistentRef),
        ]
    );
    assert_eq!(twins.ours().read(".git/refs/heads/new"), format!("{one}\n"));
    assert!(!twins.ours().exists(".git/refs/heads/main.lock"));
}

#[test]
fn an_observer_can_end_it_before_anything_changes() {
    let twins = Twins::new();
    let before = files(&twins);
    let options = twins.options();
    let mut told = Vec::new();
    let mut transaction = RefTransaction::new(&options, Failures::EndAll);
    transaction.observed_by(Box::new(|stage, _| {
        told.push(stage.to_string());
        stage.to_string() != "prepared"
    }));
    transaction.add(set("refs/heads/main", twins.commits[0])).expect("a good name");
    let error = transaction.commit().expect_err("ended");
    assert_eq!(error.to_string(), "in 'prepared' phase, update aborted by the reference-transaction hook");
    assert_eq!(told, ["preparing", "prepared", "aborted"]);
    assert_eq!(files(&twins), before);
}
