//! Signals: finished work is recorded, no lock is left, and the command can be run
//! again.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command},
    time::Duration,
};

use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

/// Creates the branch `slow` with ten files whose filter is slow.
fn slow_branch(repo: &Repo<'_>) {
    repo.git(&["config", "filter.slow.smudge", "sleep 0.2; cat"]);
    repo.git(&["config", "filter.slow.clean", "cat"]);
    repo.write(".gitattributes", "*.slow filter=slow\n");
    repo.commit("first");
    repo.git(&["switch", "-q", "-c", "slow"]);
    for number in 0..10 {
        repo.write(format!("{number}.slow"), format!("{number}\n"));
    }
    repo.commit("slow files");
    repo.git(&["switch", "-q", "main"]);
}

/// Switches to `slow`, and returns after the first file.
fn start_switch(repo: &Repo<'_>, command: &mut Command) -> Child {
    let mut child = command.args(["switch", "-q", "slow"]).spawn().expect("it runs");
    while !(0..10).any(|number| repo.exists(format!("{number}.slow"))) {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended before the first file");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn stops_cleanly_at_a_signal() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        slow_branch(&repo);
        let mut child = start_switch(&repo, &mut repo.interruptible(SAPWOOD.as_ref()));
        send(name, &child);
        let status = child.wait().expect("a child");
        assert_eq!(status.signal(), Some(number), "{name}: {status}");
        assert!(!repo.exists(".git/index.lock"), "{name}: a lock stays");
        assert!(!repo.exists("9.slow") || !repo.exists("0.slow"), "{name}: it was not stopped");
        assert_eq!(repo.read(".git/HEAD"), "ref: refs/heads/main\n", "{name}");
        let again = repo.run(SAPWOOD.as_ref(), &["switch", "slow"]);
        assert_eq!(again.code, 0, "{name}: {}", again.stderr);
        assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "", "{name}");
        assert_eq!(repo.git(&["ls-files"]).stdout.iter().filter(|&&byte| byte == b'\n').count(), 11);
    }
}

/// As under `nohup`, and in the background of a script.
#[test]
fn ignored_signals_do_not_stop_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    slow_branch(&repo);
    let mut command = repo.command("env".as_ref());
    let mut child = start_switch(&repo, command.arg("--ignore-signal=HUP,INT,QUIT,TERM").arg(SAPWOOD));
    for name in ["HUP", "INT", "QUIT", "TERM"] {
        send(name, &child);
    }
    let status = child.wait().expect("a child");
    assert!(status.success(), "{status}");
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(repo.read(".git/HEAD"), "ref: refs/heads/slow\n");
}

/// Sends a signal to a program.
fn send(name: &str, child: &Child) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.expect("kill can be run").success());
}

#[test]
fn a_signal_ends_the_wait_for_input() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)] {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        repo.write("a", "1\n");
        repo.commit("first");
        let mut command = repo.interruptible(SAPWOOD.as_ref());
        command.args(["update-index", "--add", "--stdin"]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        while !repo.exists(".git/index.lock") {
            assert_eq!(child.try_wait().expect("a child"), None, "it ended before it took the lock");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Standard input stays open and empty.
        send(name, &child);
        let stdin = child.stdin.take();
        let ended = |child: &mut Child| child.try_wait().expect("a child");
        for _ in 0..6000 {
            if ended(&mut child).is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = ended(&mut child);
        drop(stdin);
        let status = status.unwrap_or_else(|| panic!("{name}: it goes on"));
        assert_eq!(status.signal(), Some(number), "{name}: {status}");
        assert!(!repo.exists(".git/index.lock"), "{name}: a lock stays");
    }
}
