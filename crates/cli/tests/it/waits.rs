//! A signal ends the wait for the writer of a FIFO, wherever the user names one.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use testkit::Sandbox;

use crate::SAPWOOD;

/// Returns true if the process waits for something else than the disk.
fn sleeps(child: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

#[test]
fn a_signal_ends_the_wait_for_the_writer_of_a_fifo() {
    let cases: &[(&[&str], Option<&str>)] = &[
        (&["config", "-f", "f", "--get", "x.y"], None),
        (&["commit", "--allow-empty", "-F", "f"], None),
        (&["commit", "--allow-empty", "-t", "f"], None),
        (&["add", "--pathspec-from-file=f"], None),
        (&["-c", "core.excludesFile=f", "status"], None),
        (&["hash-object", "f"], None),
        (&["status"], Some("GIT_INDEX_FILE")),
        (&["status"], Some("GIT_CONFIG_GLOBAL")),
    ];
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("first");
    let made = Command::new("mkfifo").arg(repo.join("f")).status();
    assert!(made.expect("mkfifo can be run").success());
    // With a trace, sapwood has handlers from the start.
    for (trace, (args, variable)) in
        [false, true].into_iter().flat_map(|trace| cases.iter().map(move |case| (trace, case)))
    {
        let what = format!("{args:?} {variable:?}, trace {trace}");
        let mut command = repo.command(SAPWOOD.as_ref());
        command.args(*args).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(variable) = variable {
            command.env(variable, repo.join("f"));
        }
        if trace {
            command.env("GIT_TRACE2_EVENT", repo.join(".git/trace"));
        }
        let mut child = command.spawn().expect("it runs");
        let mut asleep = 0;
        while asleep < 5 {
            let status = child.try_wait().expect("a child");
            assert_eq!(status, None, "{what}: it does not wait");
            asleep = if sleeps(&child) { asleep + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(10));
        }
        let sent = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
        assert!(sent.expect("kill can be run").success());
        let mut status = None;
        for _ in 0..6000 {
            status = child.try_wait().expect("a child");
            if status.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
        let status = status.unwrap_or_else(|| panic!("{what}: it waits on"));
        assert_eq!(status.signal(), Some(15), "{what}: {status}");
        assert!(!repo.exists(".git/index.lock"), "{what}: a lock stays");
    }
}

#[test]
fn rule_files_that_are_fifos_are_not_waited_for() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("first");
    for name in [".gitignore", ".gitattributes"] {
        assert!(Command::new("mkfifo").arg(repo.join(name)).status().expect("mkfifo can be run").success());
    }
    repo.write("a", "2\n");
    let status = repo.run(SAPWOOD.as_ref(), &["status", "--porcelain"]);
    assert_eq!((status.code, status.stdout), (0, " M a\n".into()), "{}", status.stderr);
}
