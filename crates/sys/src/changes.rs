//! A latch: this process has changed something, so another program would not find everything as it
//! was before.
//!
//! Promise: each call of this crate that creates, links, renames or removes a name, opens a file
//! for writing, or changes a file's mode, times or attributes sets the latch before the system
//! call. A failed call sets it too. Nothing resets it. A file that is open for writing was counted
//! when it was opened, so writes are not counted again.
//!
//! The exception is [`aside`]: the caller states that the next program does not notice the calls in
//! it. `clippy.toml` forbids it, and each place that uses it gives its reason. New code counts
//! without a line of its own.
//!
//! Mounts and namespaces do not count: only commands that Git does not have make them.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::profile::Phase;

/// It belongs to the process, as the changes do.
static CHANGED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this process has changed something.
pub fn were_made() -> bool {
    CHANGED.load(Ordering::Relaxed)
}

/// Sets the latch, also within [`aside`]. Call it before a program is started that may change
/// something: no call of this crate does it then.
pub fn note() {
    CHANGED.store(true, Ordering::Relaxed);
}

/// Makes calls that do not count on this thread: their effect is gone when their owner is dropped,
/// or the next program does not notice it. Lock files and temporary files are examples. Other
/// threads that `work` starts are not excepted.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            ASIDE.set(self.0);
        }
    }
    let _restored = Restored(ASIDE.replace(true));
    work()
}

/// Called before each system call of this kind.
#[inline]
pub(crate) fn before(kind: Phase) {
    if matches!(kind, Phase::Remove | Phase::MakeDir | Phase::Link) {
        before_change();
    }
}

/// Called before each change whose kind does not tell.
#[inline]
pub(crate) fn before_change() {
    if !were_made() && !ASIDE.get() {
        note();
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::*;
    use crate::{Dir, DirMut, by_path};

    /// Set in the processes that the test starts: the latch belongs to a process.
    const STEP: &str = "SAPWOOD_TEST_CHANGE";

    type Step = (&'static str, bool, fn(&Path));

    const STEPS: &[Step] = &[
        ("read", false, |dir| {
            by_path::read(&dir.join("file")).expect("read");
            by_path::list(dir).expect("listed");
            Dir::open(dir).expect("opened").open_file(b"file").expect("opened");
        }),
        ("flock", false, |dir| drop(by_path::lock_file(&dir.join("lock"), 0o600).expect("opened"))),
        ("aside", false, |dir| {
            aside(|| drop(by_path::create_new(&dir.join("new"), 0o600).expect("created")));
            aside(|| by_path::remove_file(&dir.join("new")).expect("removed"));
        }),
        ("aside ends", true, |dir| {
            aside(|| ());
            by_path::remove_file(&dir.join("file")).expect("removed");
        }),
        ("aside is of a thread", true, |dir| {
            let dir = dir.to_owned();
            let work = move || by_path::remove_file(&dir.join("file")).expect("removed");
            aside(|| std::thread::spawn(work).join().expect("it ends"));
        }),
        ("aside and a program", true, |_| aside(note)),
        ("create", true, |dir| drop(by_path::create_new(&dir.join("new"), 0o600).expect("created"))),
        ("append", true, |dir| drop(by_path::append(&dir.join("file"), false, 0).expect("opened"))),
        ("edit", true, |dir| drop(by_path::open_to_edit(&dir.join("file")).expect("opened"))),
        ("rename", true, |dir| by_path::rename(&dir.join("file"), &dir.join("new")).expect("renamed")),
        ("rename new", true, |dir| {
            by_path::rename_new(&dir.join("file"), &dir.join("new")).expect("renamed");
        }),
        ("link", true, |dir| by_path::hard_link(&dir.join("file"), &dir.join("new")).expect("linked")),
        ("symlink", true, |dir| by_path::symlink("file".as_ref(), &dir.join("new")).expect("linked")),
        ("mkdir", true, |dir| by_path::create_dir(&dir.join("new")).expect("created")),
        ("rmdir", true, |dir| by_path::remove_dir(&dir.join("dir")).expect("removed")),
        ("chmod", true, |dir| by_path::set_mode(&dir.join("file"), 0o600).expect("set")),
        ("fchmod", true, |dir| {
            crate::set_mode(&by_path::open(&dir.join("file")).expect("opened"), 0o600).expect("set");
        }),
        ("touch", true, |dir| by_path::touch(&dir.join("file")).expect("touched")),
        ("create beneath", true, |dir| drop(beneath(dir).create_new(b"new", false).expect("created"))),
        ("edit beneath", true, |dir| drop(beneath(dir).open_to_edit(b"file").expect("opened"))),
        ("rename beneath", true, |dir| beneath(dir).rename(b"file", b"new").expect("renamed")),
        ("remove beneath", true, |dir| beneath(dir).remove_file(b"file").expect("removed")),
        ("mkdir beneath", true, |dir| beneath(dir).create_dir(b"new").expect("created")),
        ("symlink beneath", true, |dir| beneath(dir).symlink(b"file", b"new").expect("linked")),
        ("time beneath", true, |dir| beneath(dir).set_modified(b"file", (1, 0)).expect("set")),
        ("failed", true, |dir| assert!(by_path::remove_file(&dir.join("none")).is_err())),
    ];

    fn beneath(dir: &Path) -> DirMut {
        DirMut::of(Dir::open(dir).expect("opened"))
    }

    #[test]
    fn changes_set_the_latch() {
        if let Some(name) = std::env::var_os(STEP) {
            let (_, counts, step) = STEPS.iter().find(|(step, ..)| name == *step).expect("one of the steps");
            let place = tempfile::tempdir().expect("a directory for tests");
            std::fs::write(place.path().join("file"), "content").expect("written");
            std::fs::create_dir(place.path().join("dir")).expect("made");
            assert!(!were_made());
            step(place.path());
            assert_eq!(were_made(), *counts);
            return;
        }
        for (name, ..) in STEPS {
            let mut test = Command::new(std::env::current_exe().expect("this program"));
            test.args(["--exact", "changes::tests::changes_set_the_latch"]).env(STEP, name);
            let output = test.output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{name}: {said}");
        }
    }
}
