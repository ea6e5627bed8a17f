//! Kills before each change on disk of a sealed creation and of a landing, with a reboot.

use std::{fs, process::Command};

use testkit::crash::{Crash, CrashPoints};

use super::{super::create::Place, leftovers};
use crate::killed::{ALL, Most, at_crash_points, sapwood};

fn command(place: &Place, args: &[&str]) -> Command {
    sapwood(&place.repo(), &[&["workspace"], args].concat())
}

/// Lets `gc` complete what was left, and mounts everything again.
fn recover(place: &Place, context: &str) {
    place.reboot();
    for args in [&["gc"][..], &["mount", "--all"]] {
        let run = place.run(args);
        assert_eq!(run.code, 0, "{context}: {args:?}: {}", run.stderr);
    }
    assert_eq!(place.done(&["gc", "--json"]), "[]\n", "{context}: the first gc left something");
    let fsck = place.repo().try_git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!((fsck.code, fsck.stdout.to_string()), (0, String::new()), "{context}: {}", fsck.stderr);
}

#[test]
fn a_killed_creation_leaves_a_whole_sealed_workspace_or_none() {
    for backend in ["overlay", "copy"] {
        let place = Place::new();
        let args = ["create", "-q", "--sealed", "one", "--backend", backend];
        place.done(&args);
        place.done(&["remove", "--force", "one"]);
        let create = command(&place, &args);
        let points = CrashPoints::of(&create);
        place.done(&["remove", "--force", "one"]);
        let (mut whole, mut none) = (0, 0);
        at_crash_points(&points, &Most(24, ALL), |number| {
            let crash = Crash::before(number, &create);
            let context = format!("{backend}, {crash}");
            recover(&place, &context);
            if place.json().as_array().expect("a list").is_empty() {
                none += 1;
            } else {
                whole += 1;
                let workspace = place.workspace("one");
                if backend == "copy" {
                    // Files in the directory may be a user's, so gc keeps it as it is, with the
                    // locks of the killed creation.
                    let run = workspace.run("find".as_ref(), &[".git", "-name", "*.lock", "-delete"]);
                    assert_eq!(run.code, 0, "{}", run.stderr);
                    workspace.git(&["reset", "-q", "--hard"]);
                }
                assert_eq!(workspace.git(&["status", "--porcelain"]).stdout, "", "{context}");
                assert_eq!(workspace.git(&["fsck", "--strict"]).stdout, "", "{context}");
                place.done(&["remove", "--force", "one"]);
            }
            let left = leftovers(&place);
            assert!(left.is_empty(), "{context}: {left:?}");
            place.done(&args);
            place.done(&["remove", "--force", "one"]);
            crash.happened()
        });
        println!("{backend}: {whole} workspaces, {none} times none");
        assert!(none > 0, "{backend}: each kill left a workspace");
        assert!(whole > 0 || backend == "overlay", "{backend}: no kill left a workspace");
    }
}

/// Files of a user at the place of a workspace whose creation was killed: before it had claimed the
/// directory, or later.
#[test]
fn what_follows_a_killed_creation_takes_no_file_of_a_user() {
    let place = Place::new();
    let args = ["create", "-q", "--sealed", "one", "--backend", "copy"];
    place.done(&args);
    place.done(&["remove", "--force", "one"]);
    let create = command(&place, &args);
    let points = CrashPoints::of(&create).only("open");
    place.done(&["remove", "--force", "one"]);
    let state = place.repo().join(".git/sapwood/workspaces/one");
    let workspace = place.workspace("one");
    let (mut unclaimed, mut claimed) = (0, 0);
    at_crash_points(&points, &Most(ALL, ALL), |number| {
        let crash = Crash::before(number, &create);
        if state.exists() {
            let count = if state.join("claimed").exists() { &mut claimed } else { &mut unclaimed };
            *count += 1;
        }
        workspace.write("mine", "mine\n");
        let mut commands = [&["gc", "-q"][..], &["remove", "one"]];
        if number % 2 == 0 {
            commands.reverse();
        }
        for args in commands {
            let run = place.run(args);
            let context = format!("{crash}, {args:?}: {}", run.stderr);
            assert!(workspace.exists("mine"), "{context}");
        }
        if state.exists() {
            place.done(&["remove", "--force", "one"]);
        }
        let _ = fs::remove_dir_all(&workspace.path);
        crash.happened()
    });
    assert!(unclaimed > 0 && claimed > 0, "{unclaimed} kills before the claim, {claimed} after it");
}

#[test]
fn a_killed_landing_loses_nothing() {
    for args in [
        &["land", "-q", "one"][..],
        &["land", "-q", "one", "--onto", "trunk"],
        &["land", "-q", "one", "--onto", "trunk", "--rebase"],
    ] {
        let place = Place::new();
        let repo = place.repo();
        repo.git(&["branch", "trunk"]);
        place.done(&["create", "-q", "--sealed", "--backend", "overlay", "one"]);
        let workspace = place.workspace("one");
        for number in 0..5 {
            workspace.write(format!("own/{number}"), format!("{number}\n"));
        }
        workspace.commit("mine");
        workspace.write("half", "half\n");
        repo.git(&["checkout", "-q", "trunk"]);
        repo.write("theirs", "theirs\n");
        repo.commit("theirs");
        repo.git(&["checkout", "-q", "-"]);
        let trunk = repo.git(&["rev-parse", "trunk"]).stdout.to_string();
        let tip = workspace.git(&["rev-parse", "HEAD"]).stdout.to_string();
        let land = command(&place, args);
        let forget = || {
            repo.try_git(&["branch", "-D", "one"]);
            repo.git(&["update-ref", "refs/heads/trunk", trunk.trim_end()]);
            repo.git(&["reflog", "expire", "--expire=now", "--all"]);
            repo.git(&["prune", "--expire=now"]);
        };
        let points = CrashPoints::of(&land);
        at_crash_points(&points, &Most(20, ALL), |number| {
            forget();
            let crash = Crash::before(number, &land);
            let context = format!("{args:?}, {crash}");
            recover(&place, &context);
            assert_eq!(workspace.git(&["rev-parse", "HEAD"]).stdout.to_string(), tip, "{context}");
            assert_eq!(workspace.git(&["status", "--porcelain"]).stdout, "?? half\n", "{context}");
            place.done(args);
            let branch = args.get(4).unwrap_or(&"one");
            if !args.contains(&"--rebase") {
                repo.git(&["merge-base", "--is-ancestor", tip.trim_end(), branch]);
            }
            assert_eq!(repo.git(&["show", &format!("{branch}:own/4")]).stdout, "4\n", "{context}");
            crash.happened()
        });
    }
}
