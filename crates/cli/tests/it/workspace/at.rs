//! `exec --at`: a workspace at another path, for the processes of one command.

use std::fs;

use super::create::Place;

const BACKENDS: [&str; 5] = ["image", "overlay", "overlay-user", "fuse", "copy"];

#[test]
fn a_command_sees_the_workspace_at_the_path_of_the_main_worktree() {
    for backend in BACKENDS {
        let place = Place::new();
        let repo = place.repo();
        if backend != "image" {
            // The bases are in the directory that the session hides.
            repo.git(&["config", "--unset", "sapwood.baseDir"]);
        }
        place.done(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
        let at = |script: &str| {
            let top = repo.path.to_str().expect("a plain name");
            place.done(&["exec", "--at", top, "one", "--", "sh", "-ec", script])
        };
        repo.write("file", "of the main worktree\n");
        let top = format!("{}\n", repo.path.display());
        assert_eq!(at("pwd; cat file"), format!("{top}changed\n"), "{backend}");
        // Git and sapwood work there, and look only at the changes.
        assert_eq!(at("git status --porcelain; git rev-parse --show-toplevel"), top, "{backend}");
        let sapwood = crate::SAPWOOD;
        assert_eq!(at(&format!("{sapwood} status --porcelain 2>&1")), "", "{backend}");
        assert_eq!(at("git status --porcelain 2>&1"), "", "{backend}: no warning of the monitor");
        at("echo new > new; echo more >> dir/deep/file; git add new dir; git commit -qm inside");
        assert_eq!(place.git("one", &["log", "-1", "--format=%s %D"]), "inside HEAD -> topic\n", "{backend}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        assert_eq!(at("git stash list; git status --porcelain 2>&1"), "", "{backend}");
        // Other processes see the main worktree there.
        assert_eq!(repo.read("file"), "of the main worktree\n");
        assert!(!repo.exists("new") && repo.join(".git").is_dir(), "{backend}");
        place.done(&["remove", "one"]);
        assert!(!place.workspace("one").path.exists(), "{backend}");
    }
}

#[test]
fn a_workspace_may_always_be_shown_at_a_path() {
    let place = Place::new();
    let other = place.sandbox.path().join("other");
    fs::create_dir(&other).expect("a new directory");
    let other = other.to_str().expect("a plain name");
    place.done(&["create", "-q", "one", "-d", "--backend", "overlay", "--at", other]);
    let inside = |script: &str| place.done(&["exec", "one", "--", "sh", "-ec", script]);
    assert_eq!(inside("pwd; cat file; git status --porcelain 2>&1"), format!("{other}\nchanged\n"));
    inside("echo mine > file");
    assert_eq!(place.workspace("one").read("file"), "mine\n");
    assert!(fs::read_dir(other).expect("listed").next().is_none());
    // One directory inside of the other would hide what is mounted.
    for at in ["../repo.workspaces", "../repo.workspaces/one/dir"] {
        let run = place.run(&["exec", "--at", at, "one", "--", "true"]);
        assert!(run.code == 128 && run.stderr.to_string().contains("one contains the other"), "{run:?}");
    }
    let run = place.run(&["exec", "--at", "../none", "one", "--", "true"]);
    assert!(run.code == 128 && run.stderr.to_string().contains("/none'"), "{run:?}");
}

#[test]
fn a_session_is_a_user_of_the_workspace() {
    for backend in ["image", "overlay-user"] {
        let place = Place::new();
        let repo = place.repo();
        place.done(&["create", "-q", "one", "-d", "--backend", backend]);
        let top = repo.path.to_str().expect("a plain name");
        let sapwood = crate::SAPWOOD;
        // Commands that change workspaces are for outside.
        let script =
            format!("{sapwood} workspace rebase -d one HEAD~1 2>&1; {sapwood} workspace remove one 2>&1; :");
        let said = place.done(&["exec", "--at", top, "one", "--", "sh", "-c", &script]);
        assert_eq!(said.matches("outside").count(), 2, "{backend}: {said}");
        let mut session = repo
            .command(sapwood.as_ref())
            .args(["workspace", "exec", "--at", top, "one", "--", "sh", "-c", "touch ready; exec sleep 1000"])
            .spawn()
            .expect("started");
        let seen = || place.done(&["exec", "one", "--", "sh", "-c", "test ! -e ready || echo yes"]);
        while seen().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        for command in ["unmount", "rebase"] {
            let rest: &[&str] = if command == "rebase" { &["-d", "one", "HEAD~1"] } else { &["one"] };
            let run = place.run(&[&[command], rest].concat());
            let said = run.stderr.to_string();
            assert!(run.code != 0 && said.contains("sleep"), "{backend}, {command}: {run:?}");
        }
        session.kill().and_then(|()| session.wait()).expect("it is ours");
        place.done(&["rebase", "-q", "-d", "one", "HEAD~1"]);
        place.done(&["unmount", "one"]);
    }
}

#[test]
fn a_search_in_a_workspace_finds_no_state() {
    for program in ["find", "grep", "rg", "inotifywait"] {
        testkit::need_program(program);
    }
    for backend in ["image", "overlay", "overlay-user", "fuse"] {
        let place = Place::new();
        place.done(&["create", "-q", "one", "-d", "--backend", backend]);
        let inside = |script: &str| place.done(&["exec", "one", "--", "sh", "-c", script]);
        inside("echo needle >> dir/deep/file");
        let files = ["./.git", "./.gitignore", "./dir/deep/file", "./dir/empty", "./file", "./link", "./run"];
        assert_eq!(inside("find . ! -type d | sort").lines().collect::<Vec<_>>(), files, "{backend}");
        assert_eq!(inside("grep -rl needle ."), "./dir/deep/file\n", "{backend}");
        assert_eq!(inside("rg -uu -l needle"), "dir/deep/file\n", "{backend}");
        // The output names each directory that is watched.
        let watched = "timeout 20 inotifywait -r -t 1 . 2>&1 | grep -c sapwood; :";
        assert_eq!(inside(watched), "0\n", "{backend}");
    }
}

/// The user's directories may have the name under which a session shows the common directory, and a
/// file beside them that of the session's file.
#[test]
fn a_directory_of_the_user_may_have_the_name_of_a_session() {
    for backend in ["overlay", "overlay-user"] {
        let place = Place::new();
        let repo = place.sandbox.repo("sapwood-common/repo");
        place.sandbox.repo("").write("hidden", "/nowhere");
        let top = repo.path.to_str().expect("a plain name");
        place.repo().git(&["clone", "-q", ".", top]);
        repo.write("sapwood-common/file", "tracked\n");
        repo.write("hidden", "/nowhere");
        repo.commit("three");
        let workspace = |args: &[&str]| {
            let run = repo.run(crate::SAPWOOD.as_ref(), &[&["workspace"], args].concat());
            assert_eq!(run.code, 0, "{backend}, {args:?}: {run:?}");
            run.stdout.to_string()
        };
        workspace(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
        let script = format!(
            "cat sapwood-common/file; echo more >>sapwood-common/file; git status --porcelain 2>&1
            {} status --porcelain 2>&1; git commit -qam more; git status --porcelain 2>&1",
            crate::SAPWOOD
        );
        let changed = " M sapwood-common/file\n";
        let mut shown = "tracked\n".to_owned();
        for at in [&[][..], &["--at", top]] {
            let said = workspace(&[&["exec"], at, &["one", "--", "sh", "-ec", &script]].concat());
            assert_eq!(said, [&shown, changed, changed].concat(), "{backend}, {at:?}");
            shown.push_str("more\n");
            let mut enter = repo.command(crate::SAPWOOD.as_ref());
            enter.args(["workspace", "enter"]).args(at).arg("one").env("SHELL", "/bin/sh");
            let input = repo.join("../script");
            fs::write(&input, &script).expect("written");
            let output = enter.stdin(fs::File::open(&input).expect("opened")).output().expect("it runs");
            assert!(output.status.success(), "{backend}, {at:?}: {output:?}");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said, [&shown, changed, changed].concat(), "{backend}, {at:?}");
            shown.push_str("more\n");
        }
        // These commands are refused inside a session.
        workspace(&["rebase", "-q", "-d", "one", "HEAD"]);
        workspace(&["unmount", "-q", "one"]);
        workspace(&["remove", "--force", "one"]);
    }
}
