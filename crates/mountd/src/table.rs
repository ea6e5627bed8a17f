//! The table of mounts: an empty file for each, whose name holds all facts.
//!
//! Order: an entry is made before its mount is attached, and removed after the unmount. So a
//! process that is killed leaves an entry without a mount, which is dropped when it stands in the
//! way, and never a mount without an entry. The kernel uses no identity of a mount or of a mount
//! namespace again.

use std::{
    ffi::CString,
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{Timespec, poll},
    fs::{AtFlags, FlockOperation, Mode, OFlags, RawDir, flock, openat, unlinkat},
    io::Errno,
};

use crate::{
    confine::{self, ENTER, MOUNT},
    policy::Policy,
    wire::{Answer, Code},
};

/// A mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The kernel's identity of the mount.
    pub(crate) id: u64,
    pub(crate) uid: u32,
    /// The kernel's identity of the mount namespace.
    pub(crate) namespace: u64,
    /// The bytes of the image.
    pub(crate) bytes: u64,
    /// Device and inode number of the upper layer; zeros for a mount that has none.
    pub(crate) upper: (u64, u64),
}

impl Entry {
    fn name(&self) -> String {
        let Entry { id, uid, namespace, bytes, upper: (dev, ino) } = self;
        format!("{id}.{uid}.{namespace}.{bytes}.{dev}.{ino}")
    }

    fn parse(name: &[u8]) -> Option<Entry> {
        let name = std::str::from_utf8(name).ok()?;
        let mut fields = name.split('.').map(|field| field.parse::<u64>().ok());
        let mut next = || fields.next().flatten();
        let id = next()?;
        let uid = u32::try_from(next()?).ok()?;
        let entry = Entry { id, uid, namespace: next()?, bytes: next()?, upper: (next()?, next()?) };
        (entry.name() == name).then_some(entry)
    }
}

/// The directory of the table.
pub(crate) struct Table {
    dir: OwnedFd,
    /// The time for which a process waits for a lock.
    patience: Duration,
}

/// The table while this process holds its lock.
pub(crate) struct Locked<'t> {
    dir: &'t OwnedFd,
    _lock: OwnedFd,
}

impl Table {
    pub(crate) fn new(dir: OwnedFd, patience: Duration) -> Table {
        Table { dir, patience }
    }

    pub(crate) fn lock(&self) -> Result<Locked<'_>, Answer> {
        Ok(Locked { dir: &self.dir, _lock: self.take("lock")? })
    }

    /// Waits until no other process checks an image of this user. The memory that this takes is
    /// limited for each process.
    pub(crate) fn turn(&self, uid: u32) -> Result<OwnedFd, Answer> {
        self.take(&format!("lock.{uid}"))
    }

    /// Opens and locks a file of the directory.
    fn take(&self, name: &str) -> Result<OwnedFd, Answer> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = || openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
        let lock = confine::with(ENTER, made)?;
        let begun = Instant::now();
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(Errno::WOULDBLOCK) if begun.elapsed() >= self.patience => return Err(Code::Busy.into()),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 2_000_000 }));
        }
    }
}

impl Locked<'_> {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open =
            confine::with(ENTER, || openat(self.dir, c".", flags, Mode::empty()).map_err(io::Error::from))?;
        let mut buffer = Vec::with_capacity(32 * 1024);
        let mut list = RawDir::new(open, buffer.spare_capacity_mut());
        let mut entries = Vec::new();
        while let Some(entry) = list.next() {
            entries.extend(Entry::parse(entry?.file_name().to_bytes()));
        }
        Ok(entries)
    }

    /// Adds a mount. Refuses one beyond a limit, and a second mount of an upper layer.
    pub(crate) fn add(&self, entry: Entry, policy: &Policy) -> Result<(), Answer> {
        if let Err(code) = admit(&self.entries()?, &entry, policy) {
            // Mounts may have ended without the service: with their namespace, or by root.
            self.drop_ended()?;
            admit(&self.entries()?, &entry, policy).map_err(|_| Answer::of(code))?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        confine::with(ENTER, || Ok(openat(self.dir, entry.name(), flags, Mode::RUSR).map(drop)?))
    }

    /// Returns the mount with this identity.
    pub(crate) fn find(&self, id: u64) -> io::Result<Option<Entry>> {
        Ok(self.entries()?.into_iter().find(|entry| entry.id == id))
    }

    pub(crate) fn remove(&self, entry: &Entry) -> io::Result<()> {
        let name = CString::new(entry.name()).expect("numbers and dots");
        match confine::with(ENTER, || unlinkat(self.dir, &name, AtFlags::empty()).map_err(io::Error::from)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes the entries of mounts that exist no more, in any namespace.
    pub(crate) fn drop_ended(&self) -> io::Result<()> {
        for entry in self.entries()? {
            if !confine::with(MOUNT, || sys::has_mount(entry.namespace, entry.id))? {
                self.remove(&entry)?;
            }
        }
        Ok(())
    }
}

fn admit(entries: &[Entry], new: &Entry, policy: &Policy) -> Result<(), Code> {
    let own = || entries.iter().filter(|entry| entry.uid == new.uid);
    let bytes = own().map(|entry| entry.bytes).sum::<u64>();
    if own().count() as u64 >= policy.mounts || bytes.saturating_add(new.bytes) > policy.user_bytes {
        return Err(Code::Limit);
    }
    if new.upper != (0, 0) && entries.iter().any(|entry| entry.upper == new.upper) {
        return Err(Code::InUse);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, uid: u32) -> Entry {
        // There is no such mount and no such namespace.
        Entry { id: u64::MAX / 2 + id, uid, namespace: u64::MAX / 2, bytes: 100, upper: (1, id) }
    }

    fn table(dir: &std::path::Path) -> Table {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Table::new(rustix::fs::open(dir, flags, Mode::empty()).expect("opened"), Duration::from_millis(20))
    }

    #[test]
    fn reads_back_what_it_wrote_and_nothing_else() {
        let one = entry(3, 1000);
        assert_eq!(Entry::parse(one.name().as_bytes()), Some(one));
        for name in ["lock", "", "1.2.3.4.5", "1.2.3.4.5.6.7", "01.2.3.4.5.6", "1.4294967296.3.4.5.6"] {
            assert_eq!(Entry::parse(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn limits_hold_for_each_user_and_ended_mounts_do_not_count() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let table = table(dir.path());
        let locked = table.lock().expect("locked");
        let policy = Policy { mounts: 2, user_bytes: 250, ..Policy::default() };
        let root = rustix::fs::open("/", OFlags::PATH, Mode::empty()).expect("opened");
        let id = sys::unique_mount(&root, c"").expect("Linux 6.8").id;
        let namespace = sys::mount_place(id).expect("Linux 6.11").expect("it is mounted").namespace;
        let living = Entry { id, namespace, ..entry(1, 1000) };
        let code = |added: Result<(), Answer>| added.map_err(|answer| answer.code);
        locked.add(living, &policy).expect("the first");
        locked.add(entry(2, 1000), &policy).expect("the second");
        locked.add(entry(9, 1001), &policy).expect("another user");
        locked.add(entry(3, 1000), &policy).expect("the second has ended, with its namespace");
        assert_eq!(locked.find(entry(2, 1000).id).expect("listed"), None);
        assert_eq!(locked.find(id).expect("listed"), Some(living));
        assert!(locked.find(entry(9, 1001).id).expect("listed").is_none(), "nor of another user");
        let large = Entry { bytes: 200, ..entry(5, 1000) };
        assert_eq!(code(locked.add(large, &policy)), Err(Code::Limit));
        let same = Entry { id: 77, uid: 1002, ..living };
        assert_eq!(code(locked.add(same, &policy)), Err(Code::InUse));
        locked.remove(&living).expect("removed");
        locked.remove(&living).expect("nothing to do");
        locked.add(same, &policy).expect("it is free");
    }

    /// A process that holds a lock for ever stops nobody for ever.
    #[test]
    fn a_lock_has_a_deadline() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let (table, other) = (table(dir.path()), table(dir.path()));
        let held = table.lock().expect("locked");
        assert_eq!(other.lock().map(drop).map_err(|answer| answer.code), Err(Code::Busy));
        let turn = other.turn(1000).expect("another lock");
        assert_eq!(table.turn(1000).map(drop).map_err(|answer| answer.code), Err(Code::Busy));
        table.turn(1001).expect("another user");
        drop((held, turn));
        other.lock().expect("it is free");
        table.turn(1000).expect("it is free");
    }
}
