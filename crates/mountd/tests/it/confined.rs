//! The rights of the process that serves a user.

use std::{fs, process};

use mountd::wire::{Code, Request};
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

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// `CAP_DAC_OVERRIDE` and `CAP_SYS_ADMIN`.
const KEPT: u64 = 1 << 1 | 1 << 21;
/// `CAP_SYS_CHROOT`
const JOINING: u64 = 1 << 18;

#[test]
fn a_worker_is_the_user_with_two_capabilities() {
    let Some(stage) = play("confined::a_worker_is_the_user_with_two_capabilities", &[], |scene| {
        let service = scene.service();
        assert_eq!(code(service.call(&Request::Hello, &[])), Code::Done);
        // A worker lives as long as its connection.
        let all = sys::namespace::process_ids().expect("listed").into_iter();
        let mut workers: Vec<u32> = all
            .filter(|&pid| name(pid).starts_with("exe") || name(pid).starts_with("sapwood-mountd"))
            .collect();
        workers.retain(|&pid| pid != process::id() && status(pid, "Uid").starts_with(&ORDINARY.to_string()));
        assert!(!workers.is_empty(), "it serves this user");
        for worker in workers {
            let number = |name: &str| u64::from_str_radix(&status(worker, name), 16).expect("a number");
            assert_eq!(status(worker, "Uid"), [ORDINARY.to_string().as_str(); 4].join("\t"));
            assert_eq!(status(worker, "Gid"), [ORDINARY.to_string().as_str(); 4].join("\t"));
            assert_eq!(status(worker, "Groups"), "");
            assert_eq!(number("CapEff"), KEPT);
            assert_eq!(number("CapPrm"), KEPT | JOINING);
            assert_eq!(number("CapInh") | number("CapAmb"), 0);
            assert_eq!(
                (status(worker, "NoNewPrivs").as_str(), status(worker, "Seccomp").as_str()),
                ("1", "2")
            );
            assert!(parent(worker).is_some());
            // The user may end it, and not look into it.
            assert!(fs::read_link(format!("/proc/{worker}/exe")).is_err());
            assert!(fs::read_dir(format!("/proc/{worker}/fd")).is_err());
        }
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty());
}
