//! Bases that are replaced by others, and bases that somebody changes although nobody may.

use std::{fs, path::Path, process::Command};

use testkit::has_program;

use super::create::Place;
use crate::SAPWOOD;

fn has_fuse() -> bool {
    let has = has_program("fuse-overlayfs") && Path::new("/dev/fuse").exists();
    if !has {
        println!("skipped: 'fuse-overlayfs' is not here");
    }
    has
}

/// Runs a shell script in the workspace `one`.
fn inside(place: &Place, script: &str) -> String {
    place.done(&["exec", "one", "--", "sh", "-ec", script])
}

fn status(place: &Place) -> String {
    let plain = place.git("one", &["status", "--porcelain"]);
    let ours = place.done(&["exec", "one", "--", SAPWOOD, "status", "--porcelain"]);
    assert_eq!(plain, ours);
    plain
}

const EDITS: &str = "echo mine >>dir/deep/file; rm dir/empty; mkdir own; echo new >own/new; echo x >x.o; \
                     rm -rf tree; mkdir tree; echo again >tree/other; chmod +x link/file";
const FILES: &str = "find . -name .git -prune -o -type f -printf '%p %m\\n' | sort; \
                     find . -name .git -prune -o -type f -print | sort | xargs cksum";

#[test]
fn a_rebase_is_a_switch_for_every_backend_with_an_upper_layer() {
    for backend in ["image", "overlay", "overlay-user", "fuse"] {
        if backend == "fuse" && !has_fuse() {
            continue;
        }
        let place = Place::new();
        let repo = place.repo();
        repo.write("tree/one", "1\n");
        repo.write("tree/two", "2\n");
        repo.write("late", "late\n");
        repo.commit("three");
        place.done(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
        repo.git(&["worktree", "add", "-q", "-b", "plain", "../plain"]);
        let plain = place.sandbox.repo("plain");
        let both = |script: &str| {
            let ran = Command::new("sh").args(["-ec", script]).current_dir(&plain.path).output();
            let ran = ran.expect("it can be run");
            let expected = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert_eq!(inside(&place, script), expected, "{backend}: {script}");
        };
        both(EDITS);
        both(FILES);
        for to in ["HEAD~1", "HEAD@{1}", "HEAD~2"] {
            let run = plain.try_git(&["switch", "-q", "--detach", to]);
            let rebased = place.run(&["rebase", "-q", "-d", "one", to]);
            assert_eq!(run.code, rebased.code, "{backend} {to}: {run:?} {rebased:?}");
            both(FILES);
            both("git status --porcelain; git log --format=%s");
            status(&place);
        }
        // The workspace is on the base of the commit: its upper layer has only the edits.
        both("git stash -qu; rm -f x.o");
        assert_eq!(status(&place), "", "{backend}");
        place.done(&["unmount", "one"]);
        place.done(&["mount", "one"]);
        both(FILES);
        both("git stash pop -q");
        both(FILES);
        place.done(&["remove", "--force", "one"]);
    }
}

#[test]
fn a_rebase_keeps_the_namespace_of_a_holder() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay-user"]);
    let namespace = inside(&place, "readlink /proc/self/ns/mnt");
    place.done(&["rebase", "-q", "-d", "one", "HEAD~1"]);
    assert_eq!(inside(&place, "cat file; readlink /proc/self/ns/mnt"), format!("content\n{namespace}"));
    place.done(&["rebase", "-q", "-d", "one", "main"]);
    assert_eq!(inside(&place, "cat file; readlink /proc/self/ns/mnt"), format!("changed\n{namespace}"));
    // A process in the directory keeps it.
    let mut user = Command::new(SAPWOOD)
        .args(["workspace", "exec", "one", "--", "sleep", "60"])
        .current_dir(&place.repo().path)
        .spawn()
        .expect("it can be run");
    let is_inside = || {
        let ns = fs::read_link(format!("/proc/{}/ns/mnt", user.id()));
        ns.is_ok_and(|ns| format!("{}\n", ns.display()) == namespace)
            && fs::read(format!("/proc/{}/comm", user.id())).is_ok_and(|name| name == b"sleep\n")
    };
    while !is_inside() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let run = place.run(&["rebase", "-d", "one", "HEAD~1"]);
    user.kill().expect("our child");
    user.wait().expect("our child");
    assert_eq!(run.code, 128, "{run:?}");
    assert!(run.stderr.to_string().contains("is in use by process"), "{}", run.stderr);
    assert_eq!(inside(&place, "cat file"), "changed\n");
    place.done(&["unmount", "one"]);
    place.done(&["remove", "one"]);
}

/// A rebase that is killed after its unmount leaves a holder whose namespace has no mount.
#[test]
fn a_holder_without_a_mount_is_replaced() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay-user"]);
    inside(&place, "echo mine >kept");
    let marker = place.repo().read(".git/sapwood/workspaces/one/mounted").to_string();
    let holder = marker.lines().find_map(|line| line.strip_prefix("holder ")).expect("it has a holder");
    let holder = holder.split(' ').next().expect("a process id");
    let top = place.workspace("one").path;
    let unmounted = Command::new("nsenter").args(["-t", holder, "-U", "-m", "umount"]).arg(&top).status();
    assert!(unmounted.expect("nsenter runs").success());
    let listed = place.json();
    assert_eq!(listed[0]["mounted"], false, "{listed:#}");
    place.done(&["mount", "one"]);
    assert_eq!(inside(&place, "cat kept"), "mine\n");
    assert_eq!(status(&place), "?? kept\n");
    place.done(&["remove", "--force", "one"]);
}

#[test]
fn a_rebase_builds_where_it_can_write() {
    for backend in ["image", "overlay", "overlay-user"] {
        for is_built in [true, false] {
            let place = Place::new();
            // The base directory of the repository has the other one as an alternate.
            let theirs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
            let _mounts = testkit::disk::NoMountsBelow::new(theirs.path());
            let (there, shown) = (theirs.path().join("bases"), theirs.path().join("ro"));
            fs::create_dir(&shown).expect("a new directory");
            let dir = there.to_str().expect("a plain name");
            place.done(&["base", "add", "-q", "--backend", backend, "--base-dir", dir]);
            let script = "mount --bind bases ro && mount -o remount,bind,ro ro";
            let mounted = Command::new("sh").args(["-ec", script]).current_dir(theirs.path()).status();
            assert!(mounted.expect("it can be run").success());
            fs::write(place.bases().join("alternates"), format!("{}\n", shown.display())).expect("written");
            place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
            let record = place.repo().read(".git/sapwood/workspaces/one/record").to_string();
            assert!(record.contains(shown.to_str().expect("a plain name")), "{record}");
            if is_built {
                place.done(&["base", "add", "-q", "--backend", backend, "HEAD~1"]);
            }
            place.done(&["rebase", "-q", "-d", "one", "HEAD~1"]);
            assert_eq!(inside(&place, "cat file"), "content\n", "{backend}");
            assert_eq!(status(&place), "", "{backend}");
            place.done(&["rebase", "-q", "-d", "one", "main"]);
            assert_eq!(inside(&place, "cat file"), "changed\n", "{backend}");
            place.done(&["remove", "one"]);
        }
    }
}

/// Returns the directory of the files of the only base.
fn base_files(place: &Place) -> std::path::PathBuf {
    let list = place.done(&["base", "list"]);
    place.bases().join(list.split(' ').next().expect("a name")).join("files")
}

#[test]
fn a_changed_base_is_noticed() {
    for backend in ["overlay", "overlay-user", "fuse"] {
        if backend == "fuse" && !has_fuse() {
            continue;
        }
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        let files = base_files(&place);
        let refresh = |code: i32| {
            let run = place.run(&["exec", "one", "--", SAPWOOD, "update-index", "--really-refresh"]);
            assert_eq!(run.code, code, "{backend}: {run:?}");
            run.stdout.to_string()
        };
        assert_eq!(refresh(0), "");
        // A write in place changes only the time of the file.
        let append =
            Command::new("sh").args(["-c", "echo more >>dir/deep/file"]).current_dir(&files).status();
        assert!(append.expect("it can be run").success());
        place.done(&["unmount", "-q", "one"]);
        place.done(&["mount", "-q", "one"]);
        assert_eq!(refresh(1), "dir/deep/file: needs update\n", "{backend}");
        assert_eq!(status(&place), " M dir/deep/file\n", "{backend}");
        // Everything else changes the time of a directory.
        for (change, expected) in [
            ("echo new >dir/new", " M dir/deep/file\n?? dir/new\n"),
            ("rm dir/new; mv dir/empty dir/full", " M dir/deep/file\n D dir/empty\n?? dir/full\n"),
            ("echo other >next; mv next file", " M dir/deep/file\n D dir/empty\n M file\n?? dir/full\n"),
        ] {
            place.done(&["unmount", "-q", "one"]);
            let changed = Command::new("sh").args(["-ec", change]).current_dir(&files).status();
            assert!(changed.expect("it can be run").success());
            let run = place.run(&["mount", "-q", "one"]);
            assert_eq!(run.code, 0, "{backend}: {run:?}");
            let words = format!("warning: somebody changed '{}", files.display());
            assert!(run.stderr.to_string().contains(&words), "{backend}: {}", run.stderr);
            assert_eq!(status(&place), expected, "{backend}: {change}");
        }
        place.done(&["remove", "--force", "one"]);
    }
}

#[test]
fn an_unchanged_base_is_trusted() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
    let run = place.run(&["mount", "one"]);
    assert_eq!((run.code, run.stderr.to_string().contains("somebody")), (0, false), "{run:?}");
    assert!(!place.repo().exists(".git/sapwood/workspaces/one/base-changed"));
    place.done(&["remove", "one"]);
}
