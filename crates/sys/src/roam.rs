//! Working directories of single threads, to look at many files of one directory without opening it.
//!
//! Names are found fastest from where a thread stands (`AT_FDCWD`), and to go there costs less than to open and close a directory. For that the thread
//! stops sharing its working directory with others (`unshare(CLONE_FS)`), and goes back as soon as it has looked: whatever else it does goes by the
//! working directory it always had. Where that is forbidden (containers may) there is no [`Roamer`].

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
    stat::stat_all_at,
};

/// Where a process stands, to be known before one of its threads goes elsewhere.
#[derive(Debug)]
pub struct Home<'r> {
    root: &'r Dir,
    /// `None` if it is `root`.
    elsewhere: Option<Closing<OwnedFd>>,
}

impl<'r> Home<'r> {
    /// For threads that go to directories beneath `root`.
    pub fn of(root: &'r Dir) -> io::Result<Home<'r>> {
        let (here, there) = (stat_all_at(CWD, c".")?, root.stat_self()?);
        let is_root = here.is_some_and(|here| (here.dev, here.ino) == (there.dev, there.ino));
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            retried(Phase::Open, || rustix::fs::openat(CWD, c".", flags, Mode::empty())).map(Closing::new)
        };
        Ok(Home { root, elsewhere: if is_root { None } else { Some(open()?) } })
    }

    fn go(&self) -> io::Result<()> {
        let home = self.elsewhere.as_ref().map_or(self.root.as_fd(), |fd| fd.get().as_fd());
        Ok(call(Phase::Open, || fchdir(home))?)
    }
}

/// That a thread has a working directory of its own. It is at home while it does not look.
#[derive(Debug)]
pub struct Roamer<'h> {
    home: &'h Home<'h>,
    /// It is this thread's.
    thread: PhantomData<*const ()>,
}

impl<'h> Roamer<'h> {
    /// Of the calling thread.
    pub fn new(home: &'h Home<'h>) -> io::Result<Roamer<'h>> {
        // SAFETY: only sharing descriptors, which this does not end, is relied on by what is safe.
        call(Phase::Other, || unsafe { unshare_unsafe(UnshareFlags::FS) })?;
        // Whom it was shared with may have been elsewhere just then.
        home.go()?;
        Ok(Roamer { home, thread: PhantomData })
    }

    /// Goes to the directory at `path` beneath the root, or the root itself. Links would be followed: for who has seen that all on the way
    /// are directories, and only looks.
    pub fn visit(&mut self, path: &[u8]) -> io::Result<Visit<'_, 'h>> {
        let here = Visit(self);
        if here.0.home.elsewhere.is_some() {
            call(Phase::Open, || fchdir(here.0.home.root))?;
        }
        if !path.is_empty() {
            call(Phase::Open, || chdir(path))?;
        }
        Ok(here)
    }
}

/// A thread is in a directory, until this is dropped.
#[derive(Debug)]
pub struct Visit<'p, 'h>(&'p mut Roamer<'h>);

impl Visit<'_, '_> {
    /// `lstat` of what is in it; `None` if there is nothing.
    pub fn stat(&self, name: impl Arg + Copy) -> io::Result<Option<Stat>> {
        stat_all_at(CWD, name)
    }
}

impl Drop for Visit<'_, '_> {
    fn drop(&mut self) {
        // Relative paths would mean something else from here on.
        self.0.home.go().expect("nobody closes the directory that this process works in to it");
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
        let home = Home::of(&root).expect("it is there");
        let looks = || {
            let Ok(mut roamer) = Roamer::new(&home) else { return };
            let here = roamer.visit(b"a/b").expect("it is there");
            assert_eq!(here.stat("file").expect("it can be looked at").map(|stat| stat.size), Some(4));
            assert_eq!(here.stat("none").expect("it can be looked at"), None);
            drop(here);
            assert!(roamer.visit(b"a/b/file").is_err() && roamer.visit(b"a/c").is_err());
            assert_eq!(std::env::current_dir().expect("it is there"), before);
            assert!(roamer.visit(b"").expect("it is there").stat("a").expect("so is that").is_some());
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
