//! Git's maintenance, which a commit starts in the background, in the current directory: it does
//! not keep a workspace from being unmounted.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use super::create::Place;
use crate::SAPWOOD;

/// Returns a place in which `git maintenance run --auto` has work to do. It waits until the file
/// `go` exists in the sandbox, and then gives up.
fn place() -> Place {
    let place = Place::new();
    let repo = place.repo();
    for (key, value) in [
        ("maintenance.auto", "true"),
        ("maintenance.autoDetach", "true"),
        ("maintenance.strategy", "gc"),
        ("gc.auto", "1"),
    ] {
        repo.git(&["config", key, value]);
    }
    // Git estimates the number of loose objects by those in one directory.
    let objects = repo.join(".git/objects/17");
    fs::create_dir_all(&objects).expect("made");
    for number in 0..4 {
        fs::write(objects.join(format!("{number:038}")), "").expect("written");
    }
    let sandbox = place.sandbox.path().display().to_string();
    // Git calls the hook before it goes to the background, and again there.
    let hook = format!(
        "#!/bin/sh\ncd '{sandbox}'\ntest -e first || {{ touch first; exit 1; }}\ntouch begun\n\
         for turn in $(seq 3000); do test -e go && exit 1; sleep 0.02; done\nexit 1\n"
    );
    repo.write_executable(".git/hooks/pre-auto-gc", hook);
    place
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no maintenance was started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Commits with a program, and returns when the maintenance is running.
fn commit(place: &Place, program: &str) {
    for name in ["go", "begun", "first"] {
        let _ = fs::remove_file(place.sandbox.path().join(name));
    }
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let git = Path::new(&git).parent().expect("a program in a directory").display().to_string();
    let script = format!("echo more >>file; PATH=\"{git}:$PATH\" '{program}' commit -q -a -m more");
    place.done(&["exec", "one", "--", "sh", "-ec", &script]);
    wait_for(&place.sandbox.path().join("begun"));
}

#[test]
fn an_unmount_waits_for_maintenance() {
    for (backend, command) in [
        ("overlay", &["remove", "one"][..]),
        ("image", &["rebase", "-q", "one", "main"]),
        ("overlay-user", &["unmount", "-q", "one"]),
        ("fuse", &["move", "-q", "one", "../moved"]),
        ("overlay", &["freeze", "-q", "one"]),
    ] {
        let place = place();
        place.done(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        commit(&place, &git);
        if command[0] == "rebase" {
            place.repo().git(&["switch", "-q", "--detach"]);
        }
        let mut waiting = place.repo().command(SAPWOOD.as_ref());
        let waiting = waiting.arg("workspace").args(command).stderr(std::process::Stdio::piped());
        let waiting = waiting.spawn().expect("sapwood runs");
        // The command cannot succeed before the maintenance ends.
        std::thread::sleep(Duration::from_millis(50));
        fs::write(place.sandbox.path().join("go"), "").expect("written");
        let ended = waiting.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{backend}, {command:?}: {ended:?}");
    }
}

#[test]
fn a_signal_ends_the_wait_for_maintenance() {
    let place = place();
    place.done(&["create", "-q", "one", "-b", "topic", "--backend", "overlay"]);
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    commit(&place, &git);
    let mut waiting = place.repo().interruptible(SAPWOOD.as_ref());
    let waiting = waiting.args(["workspace", "remove", "one"]).stderr(std::process::Stdio::piped());
    let mut waiting = waiting.spawn().expect("sapwood runs");
    // The message says that it waits.
    let mut said = std::io::BufReader::new(waiting.stderr.take().expect("it is a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("read");
    assert!(line.starts_with("Waiting for work in the background, process "), "{line}");
    let pid = waiting.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    assert!(!waiting.wait().expect("it ends").success());
    fs::write(place.sandbox.path().join("go"), "").expect("written");
    assert_eq!(place.git("one", &["status", "--porcelain"]), "", "it is still there");
}

/// The maintenance that sapwood starts works outside of the workspace.
#[test]
fn our_own_maintenance_does_not_use_the_workspace() {
    let place = place();
    place.done(&["create", "-q", "one", "-b", "topic", "--backend", "overlay"]);
    commit(&place, SAPWOOD);
    place.done(&["remove", "one"]);
    fs::write(place.sandbox.path().join("go"), "").expect("written");
}

/// Fifty commits in fifty workspaces, at once, start one process of Git.
#[test]
fn many_workspaces_start_one_maintenance() {
    const MANY: usize = 50;
    let place = Place::new();
    place.repo().git(&["config", "maintenance.auto", "true"]);
    let log = place.sandbox.path().join("log");
    let git = "#!/bin/sh\ncase $1 in maintenance) echo \"$@\" >>\"$LOG\";; esac\n";
    place.repo().write_executable("../real/git", git);
    for number in 0..MANY {
        place.done(&["create", &format!("w{number}"), "-q", "--backend", "overlay"]);
    }
    let commit_everywhere = || {
        let start = |number: usize| {
            let workspace = place.workspace(&format!("w{number}"));
            let mut command = workspace.command(SAPWOOD.as_ref());
            command.env("SAPWOOD_GIT", place.sandbox.path().join("real/git")).env("LOG", &log);
            command.args(["commit", "-q", "--allow-empty", "-m", "x"]).spawn().expect("it runs")
        };
        let running: Vec<_> = (0..MANY).map(start).collect();
        for mut child in running {
            assert!(child.wait().expect("it ends").success());
        }
        fs::read_to_string(&log).unwrap_or_default().lines().count()
    };
    assert_eq!(commit_everywhere(), 1);
    assert_eq!(commit_everywhere(), 1, "within a minute");
    let stamp = place.repo().join(".git/sapwood/maintenance");
    let past = std::time::SystemTime::now() - Duration::from_secs(61);
    let age = || fs::File::options().write(true).open(&stamp).and_then(|file| file.set_modified(past));
    age().expect("it is there");
    let lock = place.repo().join(".git/objects/maintenance.lock");
    fs::write(&lock, "").expect("written");
    assert_eq!(commit_everywhere(), 1, "Git's maintenance runs");
    fs::remove_file(&lock).expect("it was there");
    // A command that changes a workspace holds its lock.
    let state = fs::File::options().write(true).open(place.repo().join(".git/sapwood/workspaces/w0/lock"));
    let state = state.or_else(|_| fs::File::create(place.repo().join(".git/sapwood/workspaces/w0/lock")));
    let state = state.expect("opened");
    state.lock().expect("nobody has it");
    assert_eq!(commit_everywhere(), 1, "a workspace is being changed");
    drop(state);
    assert_eq!(commit_everywhere(), 2);
}
