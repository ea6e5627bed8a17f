#![allow(clippy::disallowed_methods)]

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use super::*;

fn temp() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let path = dir.path().join("file");
    (dir, path)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .expect("reads")
        .map(|entry| entry.expect("reads").file_name().into_string().expect("plain"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_lock_is_committed_or_removed() {
    let (dir, path) = temp();
    fs::write(&path, b"old").expect("written");
    let mut lock = Lock::take(&path, &LockOptions::default()).expect("free");
    lock.write(b"new").expect("written");
    assert_eq!(fs::read(&path).expect("reads"), b"old");
    drop(lock);
    assert_eq!(names(dir.path()), ["file"]);
    assert_eq!(fs::read(&path).expect("reads"), b"old");

    let mut lock = Lock::take(&path, &LockOptions::default()).expect("free again");
    lock.write(b"ne").expect("written");
    lock.write(b"w").expect("written");
    let all = Fsync { components: Components::all(), ..Fsync::default() };
    lock.commit_synced(&all, Components::INDEX).expect("renamed");
    assert_eq!(names(dir.path()), ["file"]);
    assert_eq!(fs::read(&path).expect("reads"), b"new");
}

#[test]
fn a_lock_that_cannot_be_renamed_is_removed() {
    let (dir, path) = temp();
    fs::create_dir(&path).expect("made");
    let lock = Lock::take(&path, &LockOptions::default()).expect("free");
    assert!(matches!(lock.commit(), Err(Error::Io { what: "rename", .. })));
    assert_eq!(names(dir.path()), ["file"]);
}

#[test]
fn a_second_lock_is_refused_with_gits_message() {
    let (_dir, path) = temp();
    let shown = |options| Lock::take(&path, &options).expect_err("held").to_string();
    let head = format!("Unable to create '{}.lock': File exists.\n\n", path.display());
    let _held = Lock::take(&path, &LockOptions::default()).expect("free");
    assert_eq!(
        shown(LockOptions::default()),
        format!(
            "{head}Another git process seems to be running in this repository, or the lock file may be stale"
        )
    );
    let pid_path = with_suffix(&path, "~pid.lock");
    fs::write(&pid_path, format!("pid {}\n", std::process::id())).expect("written");
    assert!(shown(LockOptions::default()).contains("Lock may be held by process "));
    fs::write(&pid_path, format!("pid {}\n", i32::MAX)).expect("written");
    assert!(shown(LockOptions::default()).contains(", which is no longer running"));

    let missing = path.join("below/file");
    let error = Lock::take(&missing, &LockOptions::default()).expect_err("no directory");
    let expected = format!("Unable to create '{}.lock': No such file or directory", missing.display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn waits_for_a_lock_that_becomes_free() {
    let (_dir, path) = temp();
    let held = Lock::take(&path, &LockOptions::default()).expect("free");
    let start = Instant::now();
    let options = LockOptions { wait: Wait::Millis(50), ..LockOptions::default() };
    Lock::take(&path, &options).expect_err("held all the time");
    assert!(start.elapsed() >= Duration::from_millis(45), "{:?}", start.elapsed());
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        drop(held);
    });
    let options = LockOptions { wait: Wait::from_config(-1), ..LockOptions::default() };
    Lock::take(&path, &options).expect("free in the end");
    release.join().expect("does not panic");
}

#[test]
fn follows_symbolic_links_unless_asked_not_to() {
    let (dir, path) = temp();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("file", &link).expect("linked");
    let mut lock = Lock::take(&link, &LockOptions::default()).expect("free");
    lock.write(b"through").expect("written");
    lock.commit().expect("renamed");
    assert_eq!(fs::read(&path).expect("reads"), b"through");
    assert!(link.is_symlink());
    let mut lock = Lock::take_no_follow(&link, &LockOptions::default()).expect("free");
    lock.write(b"instead").expect("written");
    lock.commit().expect("renamed");
    assert!(!link.is_symlink());
    assert_eq!(fs::read(&path).expect("reads"), b"through");
}

#[test]
fn sets_shared_permissions_and_records_the_holder() {
    let (dir, path) = temp();
    let options =
        LockOptions { shared: SharedRepository::Exactly(0o666), record_pid: true, ..LockOptions::default() };
    let lock = Lock::take(&path, &options).expect("free");
    let record = fs::read_to_string(dir.path().join("file~pid.lock")).expect("recorded");
    assert_eq!(record, format!("pid {}\n", std::process::id()));
    lock.commit().expect("renamed");
    assert_eq!(names(dir.path()), ["file"]);
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o666);
}
