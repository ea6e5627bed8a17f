//! Waiting for changes in directories.

use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
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
        if !is_readable(&self.0, wait)? {
            return Ok(());
        }
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

/// Waits for events, at most `wait`, or until a signal. Returns true if there are any.
fn is_readable(watch: &OwnedFd, wait: Duration) -> io::Result<bool> {
    let limit = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    let mut awaited = [PollFd::new(watch, PollFlags::IN)];
    match call(Phase::Wait, || poll(&mut awaited, Some(&limit))) {
        Err(Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

/// Watches on many directories, for changes of their entries: names, contents and metadata.
#[derive(Debug)]
pub struct Watches(OwnedFd);

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened<'a> {
    /// The number of the watch, as [`Watches::add`] returned it.
    pub watch: i32,
    /// The name of the entry; empty for the directory itself.
    pub name: &'a [u8],
    /// The kind of the change.
    pub kind: Happening,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A directory appeared, by creation or rename.
    NewDirectory,
    /// A directory was renamed away. Its watch goes with it.
    DirectoryLeft,
    /// Another change.
    Changed,
    /// The watch has ended: the directory was removed.
    Ended,
    /// The kernel has dropped changes, or the file system was unmounted: everything may differ.
    Lost,
}

impl Watches {
    /// Creates a set of watches, which is empty.
    pub fn new() -> io::Result<Watches> {
        Ok(Watches(call(Phase::Other, || inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK))?))
    }

    /// Watches a directory. Returns the number of the watch: another path of a directory that is
    /// watched has the same number.
    pub fn add(&self, dir: &Path) -> io::Result<i32> {
        let changes = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::ONLYDIR;
        Ok(call(Phase::Other, || inotify::add_watch(&self.0, dir, changes))?)
    }

    /// Waits for changes since the last call, at most `wait`, or until a signal, and passes them to
    /// `each`.
    pub fn wait(&mut self, wait: Duration, mut each: impl FnMut(Happened<'_>)) -> io::Result<()> {
        if !is_readable(&self.0, wait)? {
            return Ok(());
        }
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
        let mut changes = inotify::Reader::new(&self.0, &mut buffer);
        loop {
            let event = match changes.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let flags = event.events();
            let is_directory = flags.contains(ReadFlags::ISDIR);
            let kind = if flags.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
                Happening::Lost
            } else if flags.contains(ReadFlags::IGNORED) {
                Happening::Ended
            } else if is_directory && flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                Happening::NewDirectory
            } else if is_directory && flags.contains(ReadFlags::MOVED_FROM) {
                Happening::DirectoryLeft
            } else {
                Happening::Changed
            };
            let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
            each(Happened { watch: event.wd(), name, kind });
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

    #[test]
    fn each_change_has_its_kind() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let dir = place.path();
        let mut watches = Watches::new().expect("created");
        let number = watches.add(dir).expect("watched");
        let mut happened = |change: &dyn Fn()| {
            change();
            let mut found = Vec::new();
            let each = |event: Happened<'_>| {
                assert_eq!(event.watch, number);
                found.push((String::from_utf8_lossy(event.name).into_owned(), event.kind));
            };
            watches.wait(Duration::from_secs(60), each).expect("it ends");
            found.dedup();
            found
        };
        let one = |name: &str, kind| vec![(name.to_owned(), kind)];
        let (new, old) = (dir.join("d"), dir.join("e"));
        assert_eq!(happened(&|| std::fs::create_dir(&new).expect("made")), one("d", Happening::NewDirectory));
        assert_eq!(
            happened(&|| std::fs::rename(&new, &old).expect("renamed")),
            [one("d", Happening::DirectoryLeft), one("e", Happening::NewDirectory)].concat()
        );
        assert_eq!(
            happened(&|| std::fs::write(dir.join("f"), "1").expect("made")),
            one("f", Happening::Changed)
        );
        let removed = happened(&|| std::fs::remove_dir_all(dir).expect("removed"));
        assert_eq!(removed.last(), one("", Happening::Ended).last());
    }
}
