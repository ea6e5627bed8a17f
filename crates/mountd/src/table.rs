//! The table of mounts: an empty file for each, whose name holds all facts.
//!
//! Order: an entry is made before its mount is attached, and removed after the unmount. So a
//! process that is killed leaves an entry without a mount, which is dropped when it stands in the
//! way, and never a mount without an entry. The kernel uses no identity of a mount again.

use std::{io, os::fd::OwnedFd};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RawDir, flock, openat, unlinkat};

use crate::{
    policy::Policy,
    wire::{Answer, Code},
};

/// A mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The kernel's identity of the mount.
    pub(crate) id: u64,
    pub(crate) uid: u32,
    /// The mount namespace.
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
pub(crate) struct Table(OwnedFd);

/// The table while this process holds its lock.
pub(crate) struct Locked<'t> {
    dir: &'t OwnedFd,
    _lock: OwnedFd,
}

const LOCK: &std::ffi::CStr = c"lock";

impl Table {
    pub(crate) fn new(dir: OwnedFd) -> Table {
        Table(dir)
    }

    pub(crate) fn lock(&self) -> io::Result<Locked<'_>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(&self.0, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::io::retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))?;
        Ok(Locked { dir: &self.0, _lock: lock })
    }
}

impl Locked<'_> {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = openat(self.dir, c".", flags, Mode::empty())?;
        let mut buffer = Vec::with_capacity(32 * 1024);
        let mut list = RawDir::new(open, buffer.spare_capacity_mut());
        let mut entries = Vec::new();
        while let Some(entry) = list.next() {
            entries.extend(Entry::parse(entry?.file_name().to_bytes()));
        }
        Ok(entries)
    }

    /// Adds a mount. `namespace` is that of this process. Refuses a mount beyond a limit, and a
    /// second mount of an upper layer.
    pub(crate) fn add(&self, entry: Entry, policy: &Policy) -> Result<(), Answer> {
        if let Err(code) = admit(&self.entries()?, &entry, policy) {
            // Mounts may have ended without the service: with their namespace, or by root.
            self.drop_ended(entry.namespace)?;
            admit(&self.entries()?, &entry, policy).map_err(|_| Answer::of(code))?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.dir, entry.name(), flags, Mode::RUSR)?;
        Ok(())
    }

    /// Returns the mount with this identity.
    pub(crate) fn find(&self, id: u64) -> io::Result<Option<Entry>> {
        Ok(self.entries()?.into_iter().find(|entry| entry.id == id))
    }

    pub(crate) fn remove(&self, entry: &Entry) -> io::Result<()> {
        match unlinkat(self.dir, entry.name(), AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Removes the entries of mounts of this namespace, that of this process, that exist no more.
    pub(crate) fn drop_ended(&self, namespace: u64) -> io::Result<()> {
        for entry in self.entries()?.iter().filter(|entry| entry.namespace == namespace) {
            if sys::parent_mount(entry.id)?.is_none() {
                self.remove(entry)?;
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
        // No such mount exists.
        Entry { id: u64::MAX / 2 + id, uid, namespace: 7, bytes: 100, upper: (1, id) }
    }

    fn table(dir: &std::path::Path) -> Table {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Table::new(rustix::fs::open(dir, flags, Mode::empty()).expect("opened"))
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
        let living = Entry { id, namespace: 8, ..entry(1, 1000) };
        let code = |added: Result<(), Answer>| added.map_err(|answer| answer.code);
        locked.add(living, &policy).expect("the first");
        locked.add(entry(2, 1000), &policy).expect("the second");
        locked.add(entry(9, 1001), &policy).expect("another user");
        // From another namespace nobody knows that the second one has ended.
        let elsewhere = |id| Entry { namespace: 8, ..entry(id, 1000) };
        assert_eq!(code(locked.add(elsewhere(3), &policy)), Err(Code::Limit));
        locked.add(entry(3, 1000), &policy).expect("the second has ended");
        assert_eq!(locked.find(entry(2, 1000).id).expect("listed"), None);
        assert_eq!(locked.find(id).expect("listed"), Some(living));
        let large = Entry { bytes: 200, ..entry(5, 1000) };
        assert_eq!(code(locked.add(large, &policy)), Err(Code::Limit));
        let same = Entry { id: 77, uid: 1002, ..living };
        assert_eq!(code(locked.add(same, &policy)), Err(Code::InUse));
        locked.remove(&living).expect("removed");
        locked.remove(&living).expect("nothing to do");
        locked.add(same, &policy).expect("it is free");
    }
}
