//! A disk whose writes are recorded, so that each state that a power cut can leave is made again:
//! the writes up to the cut, of which those after the last flush may be missing.
//!
//! The disk is an image of ext4 in a file of a FUSE file system, mounted through a loop device. So
//! the state of the page cache is real: data that the kernel has not written are not in the record.

use std::{
    ffi::OsStr,
    fs,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, Session, WriteFlags,
};

use crate::disk::Disk;

/// A write or a flush.
enum Event {
    Write { offset: u64, data: Vec<u8> },
    Flush,
}

/// The writes after the last flush that survive a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unflushed {
    /// All of them.
    Kept,
    /// None.
    Lost,
    /// Each by a pseudo-random choice that depends on the number.
    Some(u64),
}

/// The disk, mounted.
pub struct RecordedDisk {
    initial: PathBuf,
    events: Arc<Mutex<Vec<Event>>>,
    // Dropped in this order.
    disk: Option<Disk>,
    session: Option<BackgroundSession>,
}

impl RecordedDisk {
    /// Makes a disk of `mebibytes` with ext4 and mounts it on `point`. `dir` is a directory for its
    /// files. If this machine cannot do that, prints the reason and returns `None`.
    pub fn new(mebibytes: u64, dir: &Path, point: &Path) -> Option<RecordedDisk> {
        let at = |name: &str| dir.join(name);
        fs::create_dir_all(at("fuse")).expect("a new directory");
        let (initial, current) = (at("initial"), at("current"));
        fs::File::create(&initial).and_then(|file| file.set_len(mebibytes << 20)).expect("an image");
        let mut make = Command::new("mkfs.ext4");
        let made = make.args(["-q", "-F", "-E", "lazy_itable_init=0"]).arg(&initial).output();
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            println!("skipped: mkfs.ext4 is not possible here: {made:?}");
            return None;
        }
        fs::copy(&initial, &current).expect("a second image");
        let events = Arc::new(Mutex::new(Vec::new()));
        let file = fs::File::options().read(true).write(true).open(&current).expect("an image");
        let served = Served { file, events: Arc::clone(&events) };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("recorded".into())];
        let session = match Session::new(served, at("fuse"), &config).and_then(Session::spawn) {
            Ok(session) => session,
            Err(error) => {
                println!("skipped: no FUSE here: {error}");
                return None;
            }
        };
        let disk = Disk::of_image(&at("fuse").join(NAME), point)?;
        Some(RecordedDisk { initial, events, disk: Some(disk), session: Some(session) })
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of writes and flushes so far.
    pub fn position(&self) -> usize {
        self.events().len()
    }

    /// Ends the mount. The record stays.
    pub fn unmount(&mut self) {
        drop(self.disk.take());
        drop(self.session.take());
    }

    /// Writes the image that a power cut after `position` events leaves to the file `image`.
    pub fn after_cut(&self, position: usize, unflushed: Unflushed, image: &Path) {
        let copied = Command::new("cp").arg("--sparse=always").args([&self.initial, image]).status();
        assert!(copied.is_ok_and(|status| status.success()), "no copy of the image");
        let file = fs::File::options().write(true).open(image).expect("an image");
        let events = self.events();
        let done = &events[..position];
        let flushed = done.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
        for (number, event) in done.iter().enumerate() {
            let Event::Write { offset, data } = event else { continue };
            let is_kept = number < flushed
                || match unflushed {
                    Unflushed::Kept => true,
                    Unflushed::Lost => false,
                    Unflushed::Some(seed) => {
                        BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, number)) % 2 == 0
                    }
                };
            if is_kept {
                file.write_all_at(data, *offset).expect("a writable image");
            }
        }
    }
}

impl Drop for RecordedDisk {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// The only file.
const NAME: &str = "image";
const FILE: INodeNo = INodeNo(2);
/// The kernel may keep what it knows: nothing changes but by its own writes.
const FOREVER: Duration = Duration::from_secs(3600);

struct Served {
    file: fs::File,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Served {
    fn record(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn attributes(&self, number: INodeNo) -> io::Result<FileAttr> {
        let size = if number == FILE { self.file.metadata()?.len() } else { 0 };
        let time = SystemTime::UNIX_EPOCH;
        Ok(FileAttr {
            ino: number,
            size,
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if number == FILE { FileType::RegularFile } else { FileType::Directory },
            perm: if number == FILE { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Ok(attributes) if name == NAME => reply.entry(&FOREVER, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut data = vec![0; size as usize];
        match self.file.read_at(&mut data, offset) {
            Ok(count) => reply.data(&data[..count]),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file.write_all_at(data, offset) {
            Ok(()) => {
                self.record(Event::Write { offset, data: data.to_vec() });
                reply.written(data.len() as u32);
            }
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.record(Event::Flush);
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_keeps_what_was_synced() {
        let sandbox = crate::Sandbox::new();
        let at = |name: &str| {
            let dir = sandbox.path().join(name);
            fs::create_dir(&dir).expect("a new directory");
            dir
        };
        let (files, point) = (at("files"), at("point"));
        let Some(mut disk) = RecordedDisk::new(16, &files, &point) else { return };
        fs::write(point.join("synced"), "1").expect("a writable disk");
        fs::File::open(point.join("synced")).and_then(|file| file.sync_all()).expect("synced");
        let synced = disk.position();
        fs::write(point.join("later"), "2").expect("a writable disk");
        let before = disk.position();
        disk.unmount();
        let end = disk.position();
        assert!(synced <= before && before < end, "the unmount writes the rest");
        let image = sandbox.path().join("cut");
        for (position, unflushed, is_whole) in [
            (synced, Unflushed::Kept, false),
            (synced, Unflushed::Lost, false),
            (before, Unflushed::Some(1), false),
            (end, Unflushed::Kept, true),
        ] {
            disk.after_cut(position, unflushed, &image);
            let cut = Disk::of_image(&image, &point).expect("the journal is replayed");
            assert_eq!(fs::read(point.join("synced")).expect("it was synced"), b"1");
            assert_eq!(point.join("later").exists(), is_whole, "{position}");
            drop(cut);
        }
    }
}
