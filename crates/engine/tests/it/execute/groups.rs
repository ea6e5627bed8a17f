//! XFS, where all directories are created before the first file.

use std::{collections::BTreeMap, fs};

use engine::checkout::{Plan, Premise};

use super::fixture::{Fixture, Item, Mount, kinds};

/// Returns 1,200 paths in 60 directories, some of them nested.
fn files() -> Vec<String> {
    let dir = |number: usize| match number % 3 {
        0 => format!("d{number:02}"),
        _ => format!("d{:02}/e{number:02}", number / 3 * 3),
    };
    (0..60).flat_map(|number| (0..20).map(move |file| format!("{}/f{file:02}", dir(number)))).collect()
}

fn plan(fixture: &Fixture, files: &[String]) -> Plan {
    let entries: Vec<_> =
        files.iter().map(|name| (name.as_str(), Item::File(name), Premise::Absent)).collect();
    fixture.writes(&entries)
}

fn on_xfs(workers: usize, test: impl Fn(&Fixture, &[String])) {
    let Some(fixture) = Fixture::on(Mount::xfs, workers) else { return };
    test(&fixture, &files());
}

#[test]
fn writes_each_file_once_into_its_directory() {
    for workers in [1, 2, 8] {
        on_xfs(workers, |fixture, files| {
            fs::create_dir_all(fixture.path("d03/e04")).expect("directories that are there already");
            let expected: BTreeMap<_, _> = files.iter().map(|name| (name.clone(), name.clone())).collect();
            assert_eq!(fixture.complete(&plan(fixture, files)), expected);
        });
    }
}

#[test]
fn an_unusable_directory_fails_only_its_own_files() {
    on_xfs(4, |fixture, files| {
        fixture.put("d06", "in the way of a directory and those in it");
        let report = fixture.execute(&plan(fixture, files));
        let mut blocked = 0;
        let mut sorted = files.to_vec();
        sorted.sort();
        for (name, kind) in sorted.iter().zip(kinds(&report.writes)) {
            let below = name.starts_with("d06/");
            blocked += usize::from(below);
            assert_eq!(kind == "written", !below, "{name}: {kind}");
        }
        assert_eq!(blocked, 60);
        assert_eq!(fs::read_to_string(fixture.path("d06")).expect("still a file").len(), 41);
    });
}

#[test]
fn creates_directories_first() {
    on_xfs(2, |fixture, files| {
        let report = fixture.execute_until(&plan(fixture, files), 1);
        assert!(report.interrupted);
        let written = kinds(&report.writes).iter().filter(|kind| **kind == "written").count();
        assert!((1..files.len()).contains(&written), "{written}");
        assert!(files.iter().all(|name| fixture.path(name).parent().is_some_and(|dir| dir.is_dir())));
        let all = fixture.complete(&plan(fixture, &files_missing(fixture, files)));
        assert_eq!(all.len(), files.len());
    });
}

fn files_missing(fixture: &Fixture, files: &[String]) -> Vec<String> {
    files.iter().filter(|name| !fixture.path(name).exists()).cloned().collect()
}
