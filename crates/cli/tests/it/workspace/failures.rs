//! Failures around a workspace: the error names the cause and the remedy, no status is wrong, and
//! no byte is lost.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use testkit::{
    Disk,
    disk::{ORDINARY, as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
};

use super::create::{Place, leftovers};
use crate::SAPWOOD;

const BACKENDS: [&str; 2] = ["overlay", "image"];

fn status(place: &Place) -> String {
    place.git("one", &["status", "--porcelain"])
}

#[test]
fn a_full_disk_under_the_upper_layer_loses_nothing() {
    for backend in BACKENDS {
        let place = Place::new();
        let repo = place.repo();
        repo.write("big", vec![b'b'; 3 << 20]);
        repo.commit("big");
        let disk = place.sandbox.path().join("disk");
        fs::create_dir(&disk).expect("a directory");
        let Some(disk) = Disk::in_memory(2, &disk) else { return };
        let upper = disk.point().to_str().expect("a plain name");
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "--upper-dir", upper]);
        let workspace = place.workspace("one");
        workspace.write("kept", "mine\n");
        assert!(fs::write(workspace.join("filler"), vec![b'x'; 4 << 20]).is_err(), "the disk is full");
        assert!(
            fs::OpenOptions::new().append(true).open(workspace.join("big")).is_err(),
            "no room for a copy"
        );
        assert_eq!(status(&place), "?? filler\n?? kept\n", "{backend}");
        assert_eq!(
            place.done(&["exec", "one", "--", SAPWOOD, "status", "--porcelain"]),
            "?? filler\n?? kept\n"
        );
        // A rebase must copy this file of the base, which is no longer tracked.
        place.git("one", &["rm", "-q", "--cached", "big"]);
        place.git("one", &["commit", "-q", "-m", "forget it"]);
        let run = place.run(&["rebase", "-d", "one", "HEAD~2"]);
        assert_eq!(run.code, 128, "{run:?}");
        let error = run.stderr.to_string();
        assert!(error.contains("upper.new/big") && error.contains("No space left on device"), "{error}");
        let layer = disk.point().join("one");
        assert!(!layer.join("upper.new").exists(), "{backend}: something is left");
        assert_eq!(status(&place), "?? big\n?? filler\n?? kept\n", "{backend}");
        assert_eq!(workspace.read("kept"), "mine\n");
        workspace.remove("filler");
        workspace.remove("big");
        place.done(&["rebase", "-q", "-d", "one", "HEAD~2"]);
        assert_eq!(workspace.read("kept"), "mine\n");
        assert_eq!(status(&place), "?? kept\n", "{backend}");
        place.done(&["remove", "--force", "one"]);
    }
}

#[test]
fn a_vanished_base_is_named_and_comes_back() {
    for backend in BACKENDS {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        let workspace = place.workspace("one");
        workspace.write("kept", "mine\n");
        place.done(&["unmount", "-q", "one"]);
        place.reboot();
        let bases = place.repo().git(&["config", "sapwood.baseDir"]).stdout.to_string();
        let bases = std::path::Path::new(bases.trim_end());
        let away = bases.with_extension("away");
        fs::rename(bases, &away).expect("moved away");
        for args in
            [&["mount", "one"][..], &["exec", "one", "--", "true"], &["rebase", "-d", "one", "HEAD~1"]]
        {
            let run = place.run(args);
            assert_ne!(run.code, 0, "{args:?}");
            let error = run.stderr.to_string();
            assert!(
                error.contains(bases.to_str().expect("plain")),
                "{args:?}: the base is not named: {error}"
            );
        }
        // The empty directory must not look like a worktree in which all files were deleted.
        let run = workspace.try_git(&["status"]);
        assert_ne!(run.code, 0, "{run:?}");
        let list = place.done(&["list"]);
        assert!(list.contains("one"), "{list}");
        fs::rename(&away, bases).expect("moved back");
        place.done(&["mount", "-q", "one"]);
        assert_eq!(workspace.read("kept"), "mine\n");
        assert_eq!(status(&place), "?? kept\n", "{backend}");
        place.done(&["unmount", "-q", "one"]);
        place.reboot();
        fs::rename(bases, &away).expect("moved away");
        let run = place.run(&["remove", "one"]);
        assert_ne!(run.code, 0, "unsaved work cannot be looked for");
        assert!(place.repo().exists(".git/sapwood/workspaces/one/upper/kept"));
        place.done(&["remove", "--force", "one"]);
        assert!(!place.repo().exists(".git/worktrees/one"), "{backend}");
        fs::rename(&away, bases).expect("moved back");
    }
}

#[test]
fn another_host_is_named() {
    for backend in BACKENDS {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        place.reboot();
        let mark = ".git/sapwood/workspaces/one/mounted";
        place.repo().write(mark, "host elsewhere\nboot 0\nnamespace mnt:[1]\n");
        for args in [&["mount", "one"][..], &["exec", "one", "--", "true"]] {
            let run = place.run(args);
            assert_ne!(run.code, 0, "{args:?}");
            let error = run.stderr.to_string();
            assert!(error.contains("'elsewhere'") && error.contains(mark), "{args:?}: {error}");
        }
        place.repo().remove(mark);
        assert_eq!(status(&place), "", "{backend}");
    }
}

#[test]
fn a_rebase_refuses_what_a_switch_refuses() {
    for backend in BACKENDS {
        let place = Place::new();
        place.done(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
        let workspace = place.workspace("one");
        workspace.write("file", "mine\n");
        workspace.write("kept", "mine\n");
        let refused = |args: &[&str], code: i32, words: &str| {
            let run = place.run(args);
            assert_eq!(run.code, code, "{args:?}: {run:?}");
            assert!(run.stderr.to_string().contains(words), "{args:?}: {}", run.stderr);
            assert_eq!(status(&place), " M file\n?? kept\n", "{args:?}");
            assert_eq!(workspace.read("file"), "mine\n", "{args:?}");
        };
        let words = "Your local changes to the following files would be overwritten by checkout:\n\tfile";
        refused(&["rebase", "one", "HEAD~1"], 1, words);
        refused(&["rebase", "one", "nowhere"], 128, "invalid reference: nowhere");
        refused(&["rebase", "one", "main"], 128, "'main' is already used by worktree at");
        let mut user = std::process::Command::new("sleep")
            .arg("60")
            .current_dir(&workspace.path)
            .stdout(Stdio::null())
            .spawn()
            .expect("sleep can be run");
        workspace.git(&["checkout", "-q", "file"]);
        let run = place.run(&["rebase", "one", "HEAD~1"]);
        user.kill().expect("our child");
        user.wait().expect("our child");
        assert_eq!(run.code, 128, "{run:?}");
        let words = format!("is in use by process {}", user.id());
        assert!(run.stderr.to_string().contains(&words), "{}", run.stderr);
        assert_eq!(status(&place), "?? kept\n", "{backend}");
        assert_eq!(place.git("one", &["branch", "--show-current"]), "topic\n");
        place
            .repo()
            .write_executable(".git/hooks/post-checkout", "#!/bin/sh\ncat file >told; echo $3 >>told\n");
        place.done(&["rebase", "-q", "one", "HEAD~1"]);
        assert_eq!(workspace.read("told"), "content\n1\n", "the hook sees the files");
        assert_eq!(
            place.git("one", &["reflog", "-1", "--format=%gs"]),
            "checkout: moving from topic to HEAD~1\n"
        );
        place.repo().git(&["branch", "other", "HEAD~1"]);
        place.done(&["rebase", "-q", "one", "other"]);
        assert_eq!(place.git("one", &["branch", "--show-current"]), "other\n");
    }
}

#[test]
fn a_frozen_workspace_is_left_alone() {
    for backend in BACKENDS {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        place.workspace("one").write("kept", "mine\n");
        place.done(&["freeze", "-q", "one"]);
        place.done(&["mount", "--all"]);
        assert!(!place.workspace("one").exists("kept"));
        for args in [&["exec", "one", "--", "true"][..], &["mount", "one"], &["remove", "one"]] {
            let run = place.run(args);
            assert_ne!(run.code, 0, "{args:?}");
            assert!(
                run.stderr.to_string().contains("sapwood workspace thaw one"),
                "{args:?}: {}",
                run.stderr
            );
        }
        place.done(&["thaw", "-q", "one"]);
        assert_eq!(place.workspace("one").read("kept"), "mine\n");
        place.done(&["freeze", "-q", "one"]);
        place.done(&["remove", "--force", "one"]);
        let left = fs::read_dir(place.repo().join(".git/sapwood/workspaces")).into_iter().flatten().count();
        assert_eq!(left, 0, "{backend}");
    }
}

#[test]
fn git_worktree_move_moves_a_workspace() {
    for backend in ["overlay", "image", "overlay-user", "copy"] {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        place.done(&["exec", "one", "--", "sh", "-c", "echo mine >kept"]);
        let from = place.workspace("one").path;
        let to = place.sandbox.path().join("else/where");
        let args = ["worktree", "move", from.to_str().expect("plain"), to.to_str().expect("plain")];
        fs::create_dir(to.parent().expect("below the sandbox")).expect("made");
        let run = place.repo().run(SAPWOOD.as_ref(), &args);
        assert_eq!(run.code, 0, "{backend}: {run:?}");
        assert!(!from.exists(), "{backend}");
        assert_eq!(place.done(&["exec", "one", "--", "pwd"]), format!("{}\n", to.display()), "{backend}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "?? kept\n", "{backend}");
        place.done(&["remove", "--force", "one"]);
        assert!(!to.exists(), "{backend}");
    }
}

/// overlayfs needs CAP_DAC_OVERRIDE for its own directory. Without it the mount fails, and nothing
/// is left.
#[test]
fn a_user_who_may_mount_but_not_override_permissions_leaves_nothing() {
    let place = Place::new();
    let sapwood = place.sandbox.path().join("bin/sapwood");
    fs::create_dir_all(sapwood.parent().expect("it has one")).expect("a new directory");
    testkit::copy_program(SAPWOOD.as_ref(), &sapwood);
    fs::create_dir_all(place.sandbox.path().join("home")).expect("a directory");
    if !as_ordinary_user(&mut Command::new("true")).status().is_ok_and(|status| status.success()) {
        println!("skipped: only root can become another user");
        return;
    }
    for dir in [place.sandbox.path(), place.bases().to_owned()] {
        give_to_ordinary_user(&dir);
    }
    if ![place.bases(), &sapwood].into_iter().all(ordinary_user_reaches) {
        println!("skipped: an ordinary user cannot reach the directories of tests");
        return;
    }
    let mut command = place.repo().command("setpriv".as_ref());
    command.args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}"), "--clear-groups".to_owned()]);
    command.args(["--inh-caps=+sys_admin", "--ambient-caps=+sys_admin", "--"]).arg(&sapwood);
    command.args(["workspace", "create", "-q", "one", "--detach", "--backend", "image"]);
    let output = command.output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128), "{said}");
    assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{said}");
}

#[test]
fn a_changed_file_outside_of_the_cone_is_unsaved() {
    for backend in ["overlay", "copy"] {
        for kind in [&["--sealed"][..], &[]] {
            let place = Place::new();
            place.repo().write("out/file", "out\n");
            place.repo().commit("out");
            place.done(&[&["create", "-q", "one", "--backend", backend, "--sparse", "dir"], kind].concat());
            let one = place.workspace("one");
            assert!(one.exists("dir/deep/file") && !one.exists("out"), "{backend} {kind:?}");
            one.write("out/file", "mine\n");
            let refused = place.run(&["remove", "one"]);
            let text = refused.stderr.to_string();
            assert!(text.contains("contains modified or untracked files"), "{backend} {kind:?}: {text}");
            assert_eq!(one.read("out/file"), "mine\n", "{backend} {kind:?}");
            one.write("out/file", "out\n");
            place.done(&["remove", "one"]);
        }
    }
}
