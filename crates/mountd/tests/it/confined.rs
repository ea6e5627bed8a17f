//! The rights of the process that serves a user.

use std::{fs, path::Path, process};

use mountd::wire::{Code, Request};
use rustix::{
    io::Errno,
    process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit, setpriority_process},
};
use testkit::disk::ORDINARY;

use crate::scene::{code, play};

/// Returns the value of a line of `/proc/PID/status`.
fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line of the kernel").trim().to_owned()
}

fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Returns true if the process, or its parent, is the service at this socket.
fn serves_at(pid: u32, socket: &Path) -> bool {
    let socket = socket.as_os_str().as_encoded_bytes();
    let names = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|word| word == socket)
    };
    names(pid) || parent(pid).is_some_and(names)
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// `CAP_DAC_OVERRIDE`, `CAP_SYS_CHROOT` and `CAP_SYS_ADMIN`.
const MAY_HAVE: u64 = 1 << 1 | 1 << 18 | 1 << 21;

#[test]
fn a_worker_has_the_files_of_the_user_and_no_effective_capability() {
    let test = "confined::a_worker_has_the_files_of_the_user_and_no_effective_capability";
    let Some(stage) = play(test, &[], |scene| {
        let service = scene.service();
        assert_eq!(code(service.call(&Request::Hello, &[])), Code::Done);
        // A worker lives as long as its connection.
        let all = sys::namespace::process_ids().expect("listed").into_iter();
        let mut workers: Vec<u32> = all
            .filter(|&pid| name(pid).starts_with("exe") || name(pid).starts_with("sapwood-mountd"))
            .collect();
        // Other tests have services too.
        let socket = fs::read_link(scene.at("socket")).expect("a link");
        workers.retain(|&pid| pid != process::id() && serves_at(pid, &socket));
        let ids = format!("0\t0\t0\t{ORDINARY}");
        workers.retain(|&pid| status(pid, "Uid") == ids);
        assert!(!workers.is_empty(), "it serves this user");
        for worker in workers {
            let number = |name: &str| u64::from_str_radix(&status(worker, name), 16).expect("a number");
            assert_eq!(status(worker, "Gid"), ids);
            assert_eq!(status(worker, "Groups"), ORDINARY.to_string());
            assert_eq!(number("CapPrm"), MAY_HAVE);
            assert_eq!(number("CapEff") | number("CapInh") | number("CapAmb"), 0);
            assert_eq!(
                (status(worker, "NoNewPrivs").as_str(), status(worker, "Seccomp").as_str()),
                ("1", "2")
            );
            assert!(parent(worker).is_some());
            // The user may neither look into it, nor stop or end it, nor take its memory.
            assert!(fs::read_link(format!("/proc/{worker}/exe")).is_err());
            assert!(fs::read_dir(format!("/proc/{worker}/fd")).is_err());
            let pid = Pid::from_raw(worker as i32).expect("a process");
            for signal in [Signal::STOP, Signal::KILL, Signal::TERM] {
                assert_eq!(kill_process(pid, signal), Err(Errno::PERM));
            }
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            assert_eq!(prlimit(Some(pid), Resource::As, none).map(drop), Err(Errno::PERM));
            assert_eq!(setpriority_process(Some(pid), 19).map(drop), Err(Errno::PERM));
        }
        assert_eq!(code(service.call(&Request::Hello, &[])), Code::Done);
        assert_eq!(
            kill_process(Pid::from_raw(process::id() as i32).expect("this one"), Signal::CONT),
            Ok(())
        );
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty());
}
