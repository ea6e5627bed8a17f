//! Workspaces whose base was not on the disk when the machine stopped.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::create::{Place, leftovers};
use crate::SAPWOOD;

/// Returns the directory of the only base.
fn base_dir(place: &Place) -> PathBuf {
    let all = fs::read_dir(place.bases()).expect("listed").map(|entry| entry.expect("an entry").path());
    let mut found = all.filter(|path| path.join("record").exists());
    let base = found.next().expect("a base");
    assert_eq!(found.next(), None);
    base
}

fn is_pending(base: &Path) -> bool {
    fs::read_to_string(base.join("record")).expect("read").contains("pending")
}

/// Waits for the process in the background that makes the base durable.
pub(super) fn wait_until_durable(base: &Path) {
    let begun = Instant::now();
    while is_pending(base) {
        assert!(begun.elapsed() < Duration::from_secs(120), "it does not become durable");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Makes the state of a machine that was started again before the base was durable.
fn lose(place: &Place, base: &Path) {
    wait_until_durable(base);
    place.reboot();
    let record = base.join("record");
    let text = fs::read_to_string(&record).expect("read");
    fs::write(&record, format!("{text}\tpending = another-boot\n")).expect("written");
}

#[test]
fn the_base_of_a_new_workspace_becomes_durable_by_itself() {
    for backend in ["image", "overlay"] {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        let base = base_dir(&place);
        wait_until_durable(&base);
        assert!(!place.bases().join("blobs/1.pending").exists(), "{backend}");
        place.done(&["base", "verify"]);
        // `base add` returns when the base is durable.
        place.done(&["base", "add", "--backend", backend, "HEAD~1"]);
        let records = fs::read_dir(place.bases()).expect("listed");
        let records = records.map(|entry| entry.expect("an entry").path().join("record"));
        let records: Vec<_> = records.filter(|path| path.exists()).collect();
        assert_eq!(records.len(), 2, "{backend}");
        assert!(records.iter().all(|path| !is_pending(path.parent().expect("a base"))), "{backend}");
        place.done(&["remove", "one"]);
    }
}

#[test]
fn a_workspace_whose_base_was_lost_is_mounted_on_a_new_one() {
    for backend in ["image", "overlay", "overlay-user"] {
        let place = Place::new();
        place.done(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
        place.done(&["exec", "one", "--", "sh", "-c", "echo mine >kept; echo mine >>file"]);
        let base = base_dir(&place);
        if backend == "overlay-user" {
            // The holder would keep the mount.
            place.done(&["unmount", "one"]);
        }
        lose(&place, &base);
        let torn = match backend {
            "image" => {
                let index = place.bases().join("blobs/1.index");
                fs::File::options().write(true).open(index).expect("opened").set_len(16).expect("truncated");
                base.join("image")
            }
            _ => base.join("files/dir/deep/file"),
        };
        fs::write(&torn, "").expect("torn");
        fs::write(place.repo().join(".git/worktrees/one/index"), "").expect("torn");
        let run = place.run(&["mount", "one"]);
        assert_eq!(run.code, 0, "{backend}: {run:?}");
        let said = run.stderr.to_string();
        assert!(said.contains("The base of 'one' was not on the disk"), "{backend}: {said}");
        let shown = place.done(&["exec", "one", "--", "cat", "dir/deep/file", "file", "kept"]);
        assert_eq!(shown, "more\nchanged\nmine\nmine\n", "{backend}");
        for program in ["git", SAPWOOD] {
            let status = ["exec", "one", "--", program, "status", "--porcelain"];
            assert_eq!(place.done(&status), " M file\n?? kept\n", "{backend}, {program}");
        }
        place.done(&["base", "verify"]);
        place.git("one", &["commit", "-q", "-a", "-m", "mine"]);
        wait_until_durable(&base);
        place.done(&["unmount", "one"]);
        let run = place.run(&["mount", "one"]);
        assert!(run.code == 0 && !run.stderr.to_string().contains("built again"), "{backend}: {run:?}");
        place.done(&["remove", "--force", "one"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
    }
}

#[test]
fn a_lost_base_that_cannot_be_built_again_is_named() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
    place.done(&["exec", "one", "--", "sh", "-c", "echo mine >kept"]);
    let base = base_dir(&place);
    lose(&place, &base);
    place.repo().git(&["config", "core.autocrlf", "true"]);
    let run = place.run(&["mount", "one"]);
    assert_ne!(run.code, 0, "{run:?}");
    let said = run.stderr.to_string();
    assert!(said.contains("settings that decide its files have changed"), "{said}");
    assert!(said.contains(base.to_str().expect("plain")), "{said}");
    place.repo().git(&["config", "--unset", "core.autocrlf"]);
    place.done(&["mount", "one"]);
    assert_eq!(place.done(&["exec", "one", "--", "cat", "kept"]), "mine\n");
}

#[test]
fn progress_is_shown_soon_or_when_it_is_asked_for() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let mut command = place.repo().command(SAPWOOD.as_ref());
        let output = command.env("GIT_PROGRESS_DELAY", "0").arg("workspace").args(args).output();
        String::from_utf8(output.expect("it runs").stderr).expect("text")
    };
    let shown = run(&["create", "--progress", "one", "--detach", "--backend", "overlay"]);
    assert!(shown.contains("Adding base: 100%"), "{shown}");
    assert!(run(&["base", "add", "--progress", "--backend", "image"]).contains("Adding base: 100%"));
    let quiet = run(&["create", "two", "--detach", "--backend", "overlay", "HEAD~1"]);
    assert!(!quiet.contains("Adding base"), "{quiet}");
}
