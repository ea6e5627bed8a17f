//! Working directories of single threads, to look at many files of one directory without opening it.
//!
//! Names are found fastest from where a thread stands (`AT_FDCWD`), and to go there costs less than to open and close a directory. For that the thread
//! stops sharing its working directory with others (`unshare(CLONE_FS)`), and goes back as soon as it has looked: whatever else it does goes by the
//! working directory it always had. Where that is forbidden (containers may) there is no [`ThreadCwd`].

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    path::Arg,
    process::{chdir, fchdir},
    thread::{UnshareFlags, unshare_unsafe},
};

use crate::{
    Dir, Stat,
    file::Closing,
    profile::{Phase, call, retried},
    stat::lstat_at,
};

/// Where a process stands, to be known before one of its threads goes elsewhere.
#[derive(Debug)]
pub struct ProcessCwd<'r> {
    root: &'r Dir,
    /// `None` if it is `root`.
    elsewhere: Option<Closing<OwnedFd>>,
}

impl<'r> ProcessCwd<'r> {
    /// For threads that go to directories beneath `root`.
    pub fn of(root: &'r Dir) -> io::Result<ProcessCwd<'r>> {
        let (here, there) = (lstat_at(CWD, c".")?, root.stat_self()?);
        let is_root = here.is_some_and(|here| (here.dev, here.ino) == (there.dev, there.ino));
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            retried(Phase::Open, || rustix::fs::openat(CWD, c".", flags, Mode::empty())).map(Closing::new)
        };
        Ok(ProcessCwd { root, elsewhere: if is_root { None } else { Some(open()?) } })
    }

    fn go(&self) -> io::Result<()> {
        let process_cwd = self.elsewhere.as_ref().map_or(self.root.as_fd(), |fd| fd.get().as_fd());
        Ok(call(Phase::Open, || fchdir(process_cwd))?)
    }
}

/// That a thread has a working directory of its own. It is at process_cwd while it does not look.
#[derive(Debug)]
pub struct ThreadCwd<'h> {
    process_cwd: &'h ProcessCwd<'h>,
    /// It is this thread's.
    thread: PhantomData<*const ()>,
}

impl<'h> ThreadCwd<'h> {
    /// Of the calling thread.
    pub fn new(process_cwd: &'h ProcessCwd<'h>) -> io::Result<ThreadCwd<'h>> {
        // SAFETY: only sharing descriptors, which this does not end, is relied on by what is safe.
        call(Phase::Other, || unsafe { unshare_unsafe(UnshareFlags::FS) })?;
        // Whom it was shared with may have been elsewhere just then.
        process_cwd.go()?;
        Ok(ThreadCwd { process_cwd, thread: PhantomData })
    }

    /// Goes to the directory at `path` beneath the root, or the root itself. Links would be followed: for who has seen that all on the way
    /// are directories, and only looks.
    pub fn enter(&mut self, path: &[u8]) -> io::Result<CwdGuard<'_, 'h>> {
        let here = CwdGuard(self);
        if here.0.process_cwd.elsewhere.is_some() {
            call(Phase::Open, || fchdir(here.0.process_cwd.root))?;
        }
        if !path.is_empty() {
            call(Phase::Open, || chdir(path))?;
        }
        Ok(here)
    }
}

/// A thread is in a directory, until this is dropped.
#[derive(Debug)]
pub struct CwdGuard<'p, 'h>(&'p mut ThreadCwd<'h>);

impl CwdGuard<'_, '_> {
    /// `lstat` of what is in it; `None` if there is nothing.
    pub fn stat(&self, name: impl Arg + Copy) -> io::Result<Option<Stat>> {
        lstat_at(CWD, name)
    }
}

impl Drop for CwdGuard<'_, '_> {
    fn drop(&mut self) {
        // Relative paths would mean something else from here on.
        self.0.process_cwd.go().expect("nobody closes the directory that this process works in to it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_where_it_was_told_to_and_comes_back() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(scratch.path().join("a/b")).expect("created");
        std::fs::write(scratch.path().join("a/b/file"), "four").expect("written");
        let root = Dir::open(scratch.path()).expect("it is there");
        let before = std::env::current_dir().expect("it is there");
        let process_cwd = ProcessCwd::of(&root).expect("it is there");
        let looks = || {
            let Ok(mut thread_cwd) = ThreadCwd::new(&process_cwd) else { return };
            let here = thread_cwd.enter(b"a/b").expect("it is there");
            assert_eq!(here.stat("file").expect("it can be looked at").map(|stat| stat.size), Some(4));
            assert_eq!(here.stat("none").expect("it can be looked at"), None);
            drop(here);
            assert!(thread_cwd.enter(b"a/b/file").is_err() && thread_cwd.enter(b"a/c").is_err());
            assert_eq!(std::env::current_dir().expect("it is there"), before);
            assert!(thread_cwd.enter(b"").expect("it is there").stat("a").expect("so is that").is_some());
            assert_eq!(std::env::current_dir().expect("it is there"), before);
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(looks);
            }
        });
        assert_eq!(std::env::current_dir().expect("it is there"), before);
    }
}
