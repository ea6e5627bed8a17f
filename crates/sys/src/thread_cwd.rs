//! A working directory for a single thread, for running many stats in one directory without opening
//! it.
//!
//! The kernel resolves a name fastest relative to the thread's working directory (`AT_FDCWD`), and
//! changing to a directory is cheaper than opening and closing it. For this, the thread stops
//! sharing its working directory with other threads (`unshare(CLONE_FS)`). It changes back directly
//! after the stats, so all its other code runs in the process's working directory. Some containers
//! forbid this; [`ThreadCwd::new`] then fails.

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

/// The working directory of the process, recorded before one of its threads changes its own.
#[derive(Debug)]
pub struct ProcessCwd<'r> {
    root: &'r Dir,
    /// `None` if the working directory is `root`.
    elsewhere: Option<Closing<OwnedFd>>,
}

impl<'r> ProcessCwd<'r> {
    /// Records the working directory for threads that change to directories beneath `root`.
    pub fn of(root: &'r Dir) -> io::Result<ProcessCwd<'r>> {
        let (here, there) = (lstat_at(CWD, c".")?, root.stat_self()?);
        let is_root = here.is_some_and(|here| (here.dev, here.ino) == (there.dev, there.ino));
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            retried(Phase::Open, || rustix::fs::openat(CWD, c".", flags, Mode::empty())).map(Closing::new)
        };
        Ok(ProcessCwd { root, elsewhere: if is_root { None } else { Some(open()?) } })
    }

    fn change_back(&self) -> io::Result<()> {
        let process_cwd = self.elsewhere.as_ref().map_or(self.root.as_fd(), |fd| fd.get().as_fd());
        Ok(call(Phase::Open, || fchdir(process_cwd))?)
    }
}

/// A thread that has its own working directory. Outside of [`ThreadCwd::enter`] it equals the
/// process's working directory.
#[derive(Debug)]
pub struct ThreadCwd<'h> {
    process_cwd: &'h ProcessCwd<'h>,
    /// Makes the type neither `Send` nor `Sync`, so the value stays on its thread.
    thread: PhantomData<*const ()>,
}

impl<'h> ThreadCwd<'h> {
    /// Gives the calling thread its own working directory.
    pub fn new(process_cwd: &'h ProcessCwd<'h>) -> io::Result<ThreadCwd<'h>> {
        // SAFETY: safe code depends only on threads sharing their file descriptors, and this call
        // keeps them shared.
        call(Phase::Other, || unsafe { unshare_unsafe(UnshareFlags::FS) })?;
        // Other threads may have changed the shared working directory just before the call.
        process_cwd.change_back()?;
        Ok(ThreadCwd { process_cwd, thread: PhantomData })
    }

    /// Changes to the directory at `path` beneath the root, or to the root itself if `path` is
    /// empty. The kernel follows links in `path`: the caller must have checked that all its
    /// components are directories, and must only read.
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

/// A guard while the thread is in another directory. Dropping it changes back.
#[derive(Debug)]
pub struct CwdGuard<'p, 'h>(&'p mut ThreadCwd<'h>);

impl CwdGuard<'_, '_> {
    /// Runs `lstat` on an entry of the directory. Returns `None` if it does not exist.
    pub fn stat(&self, name: impl Arg + Copy) -> io::Result<Option<Stat>> {
        lstat_at(CWD, name)
    }
}

impl Drop for CwdGuard<'_, '_> {
    fn drop(&mut self) {
        // Without this, relative paths would resolve elsewhere from here on.
        self.0.process_cwd.change_back().expect("the process may return to its own working directory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_in_another_directory_and_changes_back() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(scratch.path().join("a/b")).expect("created");
        std::fs::write(scratch.path().join("a/b/file"), "four").expect("written");
        let root = Dir::open(scratch.path()).expect("exists");
        let before = std::env::current_dir().expect("exists");
        let process_cwd = ProcessCwd::of(&root).expect("exists");
        let run_stats = || {
            let Ok(mut thread_cwd) = ThreadCwd::new(&process_cwd) else { return };
            let here = thread_cwd.enter(b"a/b").expect("exists");
            assert_eq!(here.stat("file").expect("can be read").map(|stat| stat.size), Some(4));
            assert_eq!(here.stat("none").expect("can be read"), None);
            drop(here);
            assert!(thread_cwd.enter(b"a/b/file").is_err() && thread_cwd.enter(b"a/c").is_err());
            assert_eq!(std::env::current_dir().expect("exists"), before);
            assert!(thread_cwd.enter(b"").expect("exists").stat("a").expect("exists").is_some());
            assert_eq!(std::env::current_dir().expect("exists"), before);
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(run_stats);
            }
        });
        assert_eq!(std::env::current_dir().expect("exists"), before);
    }
}
