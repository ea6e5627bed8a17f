//! Transfers that end early: by a signal, by a kill, by a full disk. The next one completes them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use testkit::{
    crash::{Crash, CrashPoints},
    disk::Disk,
};

use super::*;

/// Variables with which this program runs one transfer, to be killed.
const REPOSITORY: &str = "FLEET_CHILD_REPOSITORY";
const REMOTE: &str = "FLEET_CHILD_REMOTE";
const BASES: &str = "FLEET_CHILD_BASES";
const COMMIT: &str = "FLEET_CHILD_COMMIT";
const VERB: &str = "FLEET_CHILD_VERB";

/// Does nothing unless another test here starts it.
#[test]
fn transfer_of_a_child() {
    let Some(repository) = std::env::var_os(REPOSITORY) else { return };
    let remote = remote_at(Path::new(&std::env::var_os(REMOTE).expect("set with the other")));
    let hex = std::env::var(COMMIT).expect("set with the other");
    let commit = ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).expect("a commit");
    let bases = Bases::at(Path::new(&std::env::var_os(BASES).expect("set with the other")));
    let host = Host::with_bases(PathBuf::from(repository), bases);
    if std::env::var(VERB).expect("set with the other") == "push" {
        host.push(&remote, commit, &push::Options::default());
    } else {
        host.pull(&remote, commit).expect("pulled");
    }
}

/// A transfer as a command to be killed: this program, with another test.
fn transfer(verb: &str, host: &Host, remote: &Remote, commit: ObjectId) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "fleet::faults::transfer_of_a_child", "--test-threads=1"])
        .env(REPOSITORY, &host.repository)
        .env(REMOTE, remote.directory().expect("a directory"))
        .env(BASES, host.bases.dir())
        .env(COMMIT, commit.to_string())
        .env(VERB, verb);
    command
}

#[test]
fn a_kill_before_any_change_is_made_good_by_the_next_transfer() {
    let sandbox = Sandbox::new();
    let (source, whole) = (project(&sandbox), remote_in(&sandbox));
    let head = commit(&source, "HEAD");
    let sender = Host::at(source.path.clone());
    // The first push leaves tables at the sender.
    sender.push(&whole, head, &push::Options::default());
    let other = |name: &str| remote_at(&sandbox.path().join(name));
    let works = |host: &Host, remote: &Remote| {
        let (base, _) = host.pull(remote, head).expect("pulled");
        check(&source, host, &base, head);
        let left = fs::read_dir(host.bases.dir()).expect("listed").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.as_bytes().starts_with(b".transfer-")
        });
        assert_eq!(left.count(), 0);
    };
    let numbers = CrashPoints::of(&transfer("push", &sender, &other("counted"), head)).sample(6);
    let mut kills = 0;
    for number in &numbers {
        let remote = other(&format!("push{number}"));
        let crash = Crash::before(*number, &transfer("push", &sender, &remote, head));
        kills += usize::from(crash.happened());
        let read = base_transfer::records::manifest(&remote, &head).expect("whole or not there");
        if let Some(read) = read {
            // A manifest is written last.
            assert!(read.manifest.files().all(|file| remote.has(&file.digest).expect("read")), "{crash}");
        }
        sender.push(&remote, head, &push::Options::default());
        works(&Host::new(&sandbox, &format!("after{number}")), &remote);
    }
    assert!(2 * kills > numbers.len(), "{kills} pushes were killed at {numbers:?}");
    let counted = Host::new(&sandbox, "counted-host");
    let numbers = CrashPoints::of(&transfer("pull", &counted, &whole, head)).sample(8);
    kills = 0;
    for number in &numbers {
        let host = Host::new(&sandbox, &format!("host{number}"));
        let crash = Crash::before(*number, &transfer("pull", &host, &whole, head));
        kills += usize::from(crash.happened());
        works(&host, &whole);
    }
    assert!(2 * kills > numbers.len(), "{kills} pulls were killed at {numbers:?}");
}

#[test]
fn an_interrupted_transfer_keeps_what_it_brought() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let head = commit(&source, "HEAD");
    let sender = Host::at(source.path.clone());
    let small = || push::Options { segment: 1 << 20, ..push::Options::default() };
    // Small segments, so that some are sent before the last report.
    for stop in [1, 2] {
        let reports = AtomicUsize::new(0);
        let progress = |progress: Progress| {
            if progress.done > 0 && reports.fetch_add(1, Ordering::Relaxed) + 1 == stop {
                let is_sent = || stop == 1 || data(&remote).len() >= 2;
                let waits = (0..600).take_while(|_| !is_sent());
                waits.for_each(|_| std::thread::sleep(Duration::from_millis(100)));
                sender.interrupt.store(true, Ordering::Relaxed);
            }
        };
        let ended = sender.with(&remote, &progress, |context| push::push(context, head, &small()));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        sender.interrupt.store(false, Ordering::Relaxed);
    }
    assert!(base_transfer::records::manifest(&remote, &head).expect("read").is_none());
    let before = data(&remote).len();
    assert!(before > 0, "nothing was sent before the interruption");
    let pushed = sender.push(&remote, head, &small());
    assert!(pushed.known > 0, "{pushed:?}");
    // Everything that the interrupted pushes sent is of use.
    assert_eq!(
        base_transfer::records::manifest(&remote, &head)
            .expect("read")
            .expect("there")
            .manifest
            .files()
            .count(),
        data(&remote).len()
    );
    let host = Host { connections: 1, ..Host::new(&sandbox, "host") };
    let (reports, stop) = (AtomicUsize::new(0), 12);
    let progress = |progress: Progress| {
        if progress.done > 0 && reports.fetch_add(1, Ordering::Relaxed) == stop {
            host.interrupt.store(true, Ordering::Relaxed);
        }
    };
    let ended = host.pull_with(&remote, head, &pull::Options::default(), &progress);
    assert!(matches!(ended, Err(Error::Interrupted)), "{:?}", ended.err());
    host.interrupt.store(false, Ordering::Relaxed);
    let (base, report) = host.pull(&remote, head).expect("pulled");
    assert!(report.known > 0 && report.packs == 0, "{report:?}");
    check(&source, &host, &base, head);
}

#[test]
fn a_full_disk_is_an_error_that_names_both_sides() {
    let sandbox = Sandbox::new();
    let (source, remote) = (project(&sandbox), remote_in(&sandbox));
    let head = commit(&source, "HEAD");
    Host::at(source.path.clone()).push(&remote, head, &push::Options::default());
    let point = sandbox.path().join("small");
    fs::create_dir(&point).expect("created");
    let Some(_disk) = Disk::in_memory(20, &point) else { return };
    let host = Host::new(&sandbox, "host");
    let small = Host::with_bases(host.repository.clone(), Bases::at(&point.join("bases")));
    let error = small.pull(&remote, head).expect_err("it has 20 MiB");
    let message = error.to_string();
    assert!(matches!(error, Error::Contents { .. }), "{message}");
    assert!(
        message.contains("No space left") && message.contains("small") && message.contains("remote"),
        "{message}"
    );
    let (base, report) = host.pull(&remote, head).expect("pulled");
    assert_eq!(report.packs, 0, "the history came before");
    check(&source, &host, &base, head);
}
