//! Waiting for changes in a directory.

use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::Errno,
};

use crate::profile::{Phase, call};

/// A watch on one directory (`inotify(7)`). It does not prevent the removal of the directory.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Watches for entries that appear, disappear or are replaced, and for the removal of the
    /// directory itself.
    pub fn new(dir: &Path) -> io::Result<Watch> {
        let watch = call(Phase::Other, || inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK))?;
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        call(Phase::Other, || inotify::add_watch(&watch, dir, changes))?;
        Ok(Watch(watch))
    }

    /// Waits for a change since the last call, at most `wait`. A signal ends the wait, too.
    pub fn wait(&mut self, wait: Duration) -> io::Result<()> {
        let limit = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut awaited = [PollFd::new(&self.0, PollFlags::IN)];
        match call(Phase::Wait, || poll(&mut awaited, Some(&limit))) {
            Err(Errno::INTR) => return Ok(()),
            ended => ended?,
        };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut changes = inotify::Reader::new(&self.0, &mut buffer);
        loop {
            match changes.next() {
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_change_ends_the_wait() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let mut watch = Watch::new(place.path()).expect("watched");
        watch.wait(Duration::from_millis(1)).expect("nothing happens");
        std::fs::write(place.path().join("f"), "").expect("written");
        let before = Instant::now();
        watch.wait(Duration::from_secs(60)).expect("it ends");
        std::fs::remove_dir_all(place.path()).expect("removed");
        watch.wait(Duration::from_secs(60)).expect("it ends");
        assert!(before.elapsed() < Duration::from_secs(30));
    }
}
