//! The handlers of the kernel's requests. Each does its work at once, and replies after the delay.

use std::{
    ffi::OsStr,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, fstatvfs};

use super::{
    Closing, Operation, Writes, Xattrs,
    contents::{Handle, Wanted, backing_flags},
    disk::Disk,
    tree::Tree,
};

impl Filesystem for Disk {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wished = vec![
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
        ];
        if self.caching.writes == Writes::Back {
            wished.push(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        for flag in wished {
            config.add_capabilities(flag).map_err(|missing| {
                io::Error::new(io::ErrorKind::Unsupported, format!("the kernel lacks {missing:?}"))
            })?;
        }
        // Every value from 1 on is accepted. The kernel replaces an unsupported value by the
        // nearest supported one.
        let _ = config.set_max_background(1024);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let came = self.came_for(parent, name);
        let result =
            self.begin_name(Operation::Lookup, parent, name).and_then(|_| self.tree().lookup(parent, name));
        if matches!(result, Err(rustix::io::Errno::NOENT)) {
            self.is_missing(request, parent, name);
        }
        self.answer_entry(came, result, reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        self.tree().forget(number, times);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let came = self.came(number);
        let result = self
            .begin_at(Operation::Getattr, number)
            .and_then(|_| self.tree().attributes_of(number, handle))
            .map(|stat| self.tree().attributes(&stat));
        let kept = self.caching.attributes;
        self.answer(
            came,
            result,
            reply,
            move |reply, attributes| reply.attr(&kept, &attributes),
            ReplyAttr::error,
        );
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let came = self.came(number);
        let wanted = Wanted { mode, uid, gid, size, accessed, modified };
        let result = self
            .begin_at(Operation::Setattr, number)
            .and_then(|_| self.tree().set(number, handle, &wanted))
            .map(|stat| self.tree().attributes(&stat));
        let kept = self.caching.attributes;
        self.answer(
            came,
            result,
            reply,
            move |reply, attributes| reply.attr(&kept, &attributes),
            ReplyAttr::error,
        );
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let came = self.came(number);
        let result = self.begin_at(Operation::Readlink, number).and_then(|_| self.tree().readlink(number));
        self.answer(came, result, reply, |reply, target| reply.data(&target), ReplyData::error);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let came = self.came_to_make(request, parent, name);
        let result = self
            .begin_name(Operation::Mknod, parent, name)
            .and_then(|_| self.tree().mknod(parent, name, mode, device));
        self.answer_entry(came, result, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let came = self.came_to_make(request, parent, name);
        let result = self
            .begin_name(Operation::Mkdir, parent, name)
            .and_then(|_| self.tree().mkdir(parent, name, mode));
        self.answer_entry(came, result, reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let came = self.came_for(parent, name);
        let result = self
            .begin_name(Operation::Unlink, parent, name)
            .and_then(|_| self.tree().remove(parent, name, AtFlags::empty()));
        self.answer_empty(came, result, reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let came = self.came_for(parent, name);
        let result = self
            .begin_name(Operation::Rmdir, parent, name)
            .and_then(|_| self.tree().remove(parent, name, AtFlags::REMOVEDIR));
        self.answer_empty(came, result, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let came = self.came_to_make(request, parent, name);
        let result = self
            .begin_name(Operation::Symlink, parent, name)
            .and_then(|_| self.tree().symlink(parent, name, target.as_os_str()));
        self.answer_entry(came, result, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let came = self.came_to_make(request, to_parent, to_name);
        let both = |tree: &Tree| [tree.paths_of(parent, name), tree.paths_of(to_parent, to_name)].concat();
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let result = self
            .begin(Operation::Rename, both)
            .and_then(|_| self.tree().rename((parent, name), (to_parent, to_name), flags));
        self.answer_empty(came, result, reply);
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let came = self.came_to_make(request, parent, name);
        let result = self
            .begin_name(Operation::Link, parent, name)
            .and_then(|_| self.tree().link(number, parent, name));
        self.answer_entry(came, result, reply);
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let came = self.came(number);
        let flags = backing_flags(flags.0, self.caching.writes == Writes::Back);
        let result = self.begin_at(Operation::Open, number).and_then(|_| self.tree().open(number, flags));
        let kept = self.opened();
        self.answer(came, result, reply, move |reply, handle| reply.opened(handle, kept), ReplyOpen::error);
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let came = self.came(number);
        let result =
            self.begin_at(Operation::Read, number).and_then(|_| self.tree().read(handle, offset, size));
        self.answer(came, result, reply, |reply, data| reply.data(&data), ReplyData::error);
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _how: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let came = self.came(number);
        let result = self
            .begin_at(Operation::Write, number)
            .and_then(|most| self.tree().write(number, handle, offset, &data[..data.len().min(most)]));
        self.wrote(&result);
        self.answer(came, result, reply, |reply, count| reply.written(count), ReplyWrite::error);
    }

    fn flush(&self, _: &Request, number: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if self.closing == Closing::Free {
            // The kernel writes back its cached data and sends no more such requests.
            return reply.error(Errno::ENOSYS);
        }
        let came = self.came(number);
        let result = self.begin_at(Operation::Flush, number).map(drop);
        self.answer_empty(came, result, reply);
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle, reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _only_data: bool, reply: ReplyEmpty) {
        let came = self.came(number);
        let result = self.begin_at(Operation::Fsync, number).and_then(|_| self.tree().sync(number));
        self.answer_sync(came, result, reply);
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let came = self.came(number);
        let result = self.begin_at(Operation::Opendir, number).and_then(|_| self.tree().opendir(number));
        let done = |reply: ReplyOpen, handle| reply.opened(handle, FopenFlags::empty());
        self.answer(came, result, reply, done, ReplyOpen::error);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let came = self.came(number);
        let result =
            self.begin_at(Operation::Readdir, number).and_then(|_| self.tree().names_from(handle, offset));
        let came = came.to_list(&result, offset);
        let result = result.map(|(_, names)| {
            for (nth, name) in (1_u64..).zip(names.iter()).skip(offset as usize) {
                if reply.add(INodeNo(name.number), nth, name.kind, &name.name) {
                    break;
                }
            }
        });
        self.answer(came, result, reply, |reply, ()| reply.ok(), ReplyDirectory::error);
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let came = self.came(number);
        let kept = self.caching.attributes.min(self.caching.entries);
        let result =
            self.begin_at(Operation::Readdir, number).and_then(|_| self.tree().names_from(handle, offset));
        let came = came.to_list(&result, offset);
        let result = result.and_then(|(dir, names)| {
            let tree = self.tree();
            let own = tree.attributes(&rustix::fs::fstat(dir.fd())?);
            for (nth, name) in (1_u64..).zip(names.iter()).skip(offset as usize) {
                let (attributes, entered) = if name.is_dots() {
                    (own, None)
                } else {
                    match tree.listed(&dir, name)? {
                        Some((inode, stat)) => (tree.attributes(&stat), Some(inode)),
                        None => continue,
                    }
                };
                let kept = if name.is_dots() { Duration::ZERO } else { kept };
                if reply.add(attributes.ino, nth, &name.name, &kept, &attributes, Generation(0)) {
                    if let Some(inode) = entered {
                        tree.forget(INodeNo(inode.number), 1);
                    }
                    break;
                }
            }
            Ok(())
        });
        self.answer(came, result, reply, |reply, ()| reply.ok(), ReplyDirectoryPlus::error);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.close(handle, reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _only_data: bool, reply: ReplyEmpty) {
        let came = self.came(number);
        let result = self.begin_at(Operation::Fsyncdir, number).and_then(|_| self.tree().sync(number));
        self.answer_sync(came, result, reply);
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let came = self.came(number);
        let result = self.begin_at(Operation::Statfs, number).and_then(|_| fstatvfs(self.tree().root().fd()));
        let done = |reply: ReplyStatfs, of: rustix::fs::StatVfs| {
            let (block, name) = (of.f_bsize as u32, of.f_namemax as u32);
            let fragment = of.f_frsize as u32;
            reply.statfs(of.f_blocks, of.f_bfree, of.f_bavail, of.f_files, of.f_ffree, block, name, fragment);
        };
        self.answer(came, result, reply, done, ReplyStatfs::error);
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if self.xattrs == Xattrs::Refused {
            return reply.error(Errno::ENOSYS);
        }
        let came = self.came(number);
        let result = self
            .begin_at(Operation::Setxattr, number)
            .and_then(|_| self.tree().setxattr(number, name, value, flags));
        self.answer_empty(came, result, reply);
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if self.xattrs == Xattrs::Refused {
            return reply.error(Errno::ENOSYS);
        }
        let came = self.came(number);
        let result =
            self.begin_at(Operation::Getxattr, number).and_then(|_| self.tree().getxattr(number, name));
        self.answer(came, result, reply, move |reply, value| sized(reply, size, &value), ReplyXattr::error);
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        if self.xattrs == Xattrs::Refused {
            return reply.error(Errno::ENOSYS);
        }
        let came = self.came(number);
        let result = self.begin_at(Operation::Listxattr, number).and_then(|_| self.tree().listxattr(number));
        self.answer(came, result, reply, move |reply, value| sized(reply, size, &value), ReplyXattr::error);
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if self.xattrs == Xattrs::Refused {
            return reply.error(Errno::ENOSYS);
        }
        let came = self.came(number);
        let result =
            self.begin_at(Operation::Removexattr, number).and_then(|_| self.tree().removexattr(number, name));
        self.answer_empty(came, result, reply);
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let came = self.came(number);
        let result = self
            .begin_at(Operation::Access, number)
            .and_then(|_| self.tree().attributes_of(number, None))
            .and_then(|stat| {
                // Root may do anything except execute a file without an executable bit. For other
                // users the kernel checks the permission at the time of the operation.
                let is_dir = super::tree::kind(&stat) == fuser::FileType::Directory;
                let runs = is_dir || stat.st_mode & 0o111 != 0;
                let refused = mask.contains(AccessFlags::X_OK) && !runs && request.uid() == 0;
                if refused { Err(rustix::io::Errno::ACCESS) } else { Ok(()) }
            });
        self.answer_empty(came, result, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let came = self.came_to_make(request, parent, name);
        let flags = backing_flags(flags, self.caching.writes == Writes::Back);
        let result = self
            .begin_name(Operation::Create, parent, name)
            .and_then(|_| self.tree().create(parent, name, mode & 0o7777, flags))
            .map(|((_, stat), fd)| {
                (self.tree().attributes(&stat), self.tree().handles.add(Handle::File(Arc::new(fd))))
            });
        // One time applies to both; a stale name would be the worse error.
        let kept = self.caching.entries.min(self.caching.attributes);
        let opened = self.opened();
        let done = move |reply: ReplyCreate, (attributes, handle)| {
            reply.created(&kept, &attributes, Generation(0), handle, opened);
        };
        self.answer(came, result, reply, done, ReplyCreate::error);
    }

    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let came = self.came(number);
        let result = self
            .begin_at(Operation::Fallocate, number)
            .and_then(|_| self.tree().allocate(number, handle, mode, offset, length));
        self.answer_empty(came, result, reply);
    }
}

/// Replies with an attribute's value, or with its length if `size` is 0.
fn sized(reply: ReplyXattr, size: u32, value: &[u8]) {
    match size as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
