//! Full disks, missing objects, few descriptors, interrupts.

use std::{fs, process::Command};

use engine::checkout::{Action, Outcome, Plan, Premise, StepError, record_interrupted};

use super::fixture::{Fixture, Item, Mount, kinds, tree};

#[test]
fn a_missing_blob_fails_only_its_own_file() {
    for workers in [1, 8] {
        let fixture = Fixture::new(workers);
        fixture.put("old", "kept, as there is nothing to put in its place");
        let plan = fixture.writes(&[
            ("a", Item::File("a"), Premise::Absent),
            ("lost", Item::MissingBlob, Premise::Absent),
            ("old", Item::MissingBlob, fixture.unchanged("old")),
            ("z", Item::File("z"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["written", "failed", "failed", "written"]);
        let Outcome::Failed(error) = &report.writes[1] else { unreachable!("just compared") };
        let name = "1".repeat(40);
        assert_eq!(error.message("lost".into()), format!("unable to read sha1 file of lost ({name})"));
        let kept = "kept, as there is nothing to put in its place";
        assert_eq!(fixture.tree(), tree(&[("a", "a"), ("old", kept), ("z", "z")]));
    }
}

#[test]
fn a_full_disk_fails_only_files_that_do_not_fit() {
    for workers in [1, 8] {
        let Some(fixture) = Fixture::on(|sandbox| Mount::tmpfs(sandbox, "256k"), workers) else { return };
        let large = "x".repeat(100 << 10);
        let names: Vec<String> = (0..8).map(|n| format!("dir/{n}")).collect();
        let entries: Vec<_> =
            names.iter().map(|name| (name.as_str(), Item::File(&large), Premise::Absent)).collect();
        let plan = fixture.writes(&entries);
        let report = fixture.execute(&plan);
        for (step, outcome) in report.writes.iter().enumerate() {
            let path = fixture.path(&names[step]);
            match outcome {
                Outcome::Written(_) => assert_eq!(fs::read(path).expect("written").len(), large.len()),
                Outcome::Failed(StepError::Io { action: Action::WriteFile | Action::CreateFile, source }) => {
                    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
                    assert!(!path.exists(), "what could not be finished is removed");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(!report.is_complete());
        if workers == 1 {
            assert_eq!(kinds(&report.writes).iter().filter(|kind| **kind == "written").count(), 2);
        }
    }
}

#[test]
fn an_interrupted_run_leaves_whole_files_and_can_resume() {
    for workers in [1, 8] {
        let fixture = Fixture::new(workers);
        let names: Vec<String> = (0..400).map(|n| format!("{}/{n}", n % 5)).collect();
        let entries: Vec<_> =
            names.iter().map(|name| (name.as_str(), Item::File(name), Premise::Absent)).collect();
        let mut plan = fixture.writes(&entries);
        let report = fixture.execute_until(&plan, 50);
        assert!(report.interrupted && !report.is_complete());
        let written = kinds(&report.writes).iter().filter(|kind| **kind == "written").count();
        assert!((50..50 + workers).contains(&written), "{written}");
        let found = fixture.tree();
        assert_eq!(found.len(), written);
        assert!(found.iter().all(|(path, content)| path == content));

        // The index of an interrupted run holds exactly the written entries.
        let before = format::index::Index::empty(format::HashKind::Sha1);
        let copy = Plan {
            index: plan.index.clone(),
            writes: plan.writes.clone(),
            removals: Vec::new(),
            warnings: Vec::new(),
        };
        let index = record_interrupted(before, copy, &report);
        let recorded: Vec<String> =
            index.entries().iter().map(|entry| index.path(entry).to_string()).collect();
        assert_eq!(recorded, found.keys().cloned().collect::<Vec<_>>());
        assert!(index.entries().iter().all(|entry| entry.stat.mtime.0 != 0));

        let mut outcomes = report.writes.iter();
        plan.writes.retain(|_| matches!(outcomes.next(), Some(Outcome::Skipped)));
        assert_eq!(fixture.complete(&plan).len(), 400);
    }
}

#[test]
fn an_interrupt_stops_removals() {
    let fixture = Fixture::new(1);
    let names: Vec<String> = (0..20).map(|n| format!("d/{n:02}")).collect();
    for name in &names {
        fixture.put(name, "");
    }
    let removals: Vec<_> = names.iter().map(|name| (name.as_str(), Premise::Anything)).collect();
    let mut plan = fixture.writes(&[("new", Item::File(""), Premise::Absent)]);
    plan.removals = fixture.removals(&removals).removals;
    let report = fixture.execute_until(&plan, 5);
    assert_eq!(kinds(&report.removals).iter().filter(|kind| **kind == "removed").count(), 5);
    assert_eq!(kinds(&report.writes), ["skipped"]);
    assert_eq!(fixture.tree().len(), 15);
}

#[test]
fn works_with_few_descriptors() {
    let program = std::env::current_exe().expect("this program");
    let script = "ulimit -n 40; exec \"$0\" --exact --ignored execute::trouble::few_descriptors_child";
    let output = Command::new("sh").args(["-c", script]).arg(program).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "run by works_with_few_descriptors, which sets the limit"]
fn few_descriptors_child() {
    let fixture = Fixture::new(16);
    let names: Vec<String> = (0..500).map(|n| format!("{}/{}/{n}", n % 40, n % 3)).collect();
    let entries: Vec<_> =
        names.iter().map(|name| (name.as_str(), Item::File(name), Premise::Absent)).collect();
    assert_eq!(fixture.complete(&fixture.writes(&entries)).len(), 500);
}

#[test]
fn an_unwritable_directory_fails_its_files() {
    if !testkit::has_program("chattr") {
        return;
    }
    let fixture = Fixture::new(1);
    fixture.put("dir/there", "");
    let sealed = Command::new("chattr").arg("+i").arg(fixture.path("dir")).status();
    if !sealed.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no immutable directories here");
        return;
    }
    let plan = fixture.writes(&[
        ("dir/new", Item::File(""), Premise::Absent),
        ("dir/sub/new", Item::File(""), Premise::Absent),
        ("other", Item::File(""), Premise::Absent),
    ]);
    let report = fixture.execute(&plan);
    Command::new("chattr").arg("-i").arg(fixture.path("dir")).status().expect("unsealed");
    assert_eq!(kinds(&report.writes), ["failed", "failed", "written"]);
    let Outcome::Failed(error) = &report.writes[0] else { unreachable!("just compared") };
    assert_eq!(error.message("dir/new".into()), "unable to create file dir/new: Operation not permitted");
}
