//! `land --check`: what the command may do, and what ends it.

use std::{
    fs,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::Command,
    time::Duration,
};

use super::super::create::Place;
use crate::{SAPWOOD, killed::sapwood};

/// A repository with the branch `trunk`, and a sealed workspace with a commit.
fn place() -> Place {
    let place = Place::new();
    place.repo().git(&["branch", "trunk"]);
    place.done(&["create", "-q", "--sealed", "one", "--backend", "overlay"]);
    place.workspace("one").write("own", "own\n");
    place.workspace("one").commit("own");
    place
}

/// Returns a shell command that runs `sapwood workspace` in the repository, and not for ever.
fn inner(place: &Place, command: &str) -> String {
    format!("timeout 60 {SAPWOOD} -C {} workspace {command}", place.repo().path.display())
}

fn trunk(place: &Place) -> String {
    place.repo().git(&["rev-parse", "trunk"]).stdout.to_string()
}

fn names(place: &Place) -> Vec<String> {
    let all = place.json();
    let all = all.as_array().expect("a list").iter();
    all.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_check_may_use_its_workspace() {
    let place = place();
    let check = format!(
        "{} && {} && {}",
        inner(&place, "unmount -q one"),
        inner(&place, "mount -q --all"),
        inner(&place, "land -q one --onto other"),
    );
    place.done(&["land", "-q", "one", "--onto", "trunk", "--check", &check]);
    for branch in ["trunk", "other"] {
        assert_eq!(place.repo().git(&["show", &format!("{branch}:own")]).stdout, "own\n");
    }
    assert_eq!(names(&place), ["one"]);
}

#[test]
fn a_workspace_that_changed_during_its_check_is_not_landed() {
    let place = place();
    let before = trunk(&place);
    for (check, words) in [
        (inner(&place, "freeze -q one"), "was changed meanwhile"),
        (inner(&place, "remove -q --force one"), "is not a workspace"),
    ] {
        let run = place.run(&["land", "one", "--onto", "trunk", "--check", &check]);
        assert!(run.code != 0 && run.stderr.to_string().contains(words), "{check}: {}", run.stderr);
        assert_eq!(trunk(&place), before, "{check}");
    }
    assert!(names(&place).is_empty());
}

#[test]
fn what_another_check_has_left_stops_no_landing() {
    let place = place();
    let mut killed = sapwood(&place.repo(), &["workspace", "land", "-q", "one", "--onto", "trunk"]);
    killed.args(["--check", "kill -KILL $PPID; sleep 0.1"]);
    assert!(!killed.status().expect("it runs").success());
    let left = names(&place).into_iter().find(|name| name.starts_with("land-check-")).expect("a rest");
    // The mark of its removal cannot be made.
    let mark = place.repo().join(format!(".git/sapwood/workspaces/{left}/removing"));
    fs::create_dir(&mark).expect("a new directory");
    let run = place.run(&["land", "-q", "one", "--onto", "trunk", "--check", "test -e own"]);
    let text = run.stderr.to_string();
    assert_eq!(run.code, 0, "{text}");
    assert!(text.contains(&format!("warning: cannot remove '{left}'")), "{text}");
    fs::remove_dir(&mark).expect("removed");
    place.done(&["gc", "-q"]);
    assert_eq!(names(&place), ["one"]);
}

/// The terminal sends the signal to the landing and to the command.
#[test]
fn a_signal_ends_the_landing_and_its_check() {
    let place = place();
    let before = trunk(&place);
    let begun = place.sandbox.path().join("begun");
    let mut land = place.repo().interruptible(SAPWOOD.as_ref());
    land.args(["workspace", "land", "-q", "one", "--onto", "trunk"]);
    // The command has no code of its own for a signal.
    let check = format!("trap 'exit 0' INT; touch {}; sleep 30", begun.display());
    let mut land = land.args(["--check", &check]).process_group(0).spawn().expect("it runs");
    while !begun.exists() {
        assert_eq!(land.try_wait().expect("a child"), None, "it ended before its check");
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", land.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status().expect("kill can be run");
    assert!(sent.success());
    let status = land.wait().expect("it ends");
    assert_eq!(status.signal(), Some(2), "{status}");
    assert_eq!((trunk(&place), names(&place)), (before, vec!["one".to_owned()]));
}
