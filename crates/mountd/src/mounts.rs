//! The mounts. A mount is made unattached, entered into the table, and attached. Every descriptor
//! is the caller's, and no path is resolved.

use std::{
    ffi::CStr,
    io::{self, Read as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::{
    policy::Policy,
    table::{Entry, Table},
    wire::{Answer, Code},
};

/// A mount that is attached nowhere. It ends with its descriptor.
pub(crate) struct Detached(OwnedFd);

/// A file system that is being configured.
struct Context(OwnedFd);

impl Context {
    fn open(kind: &CStr) -> Result<Context, Answer> {
        Ok(Context(fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?))
    }

    /// Adds the kernel's messages to an error.
    fn told<T>(&self, result: rustix::io::Result<T>) -> Result<T, Answer> {
        result.map_err(|errno| Answer { messages: self.messages(), ..errno.into() })
    }

    /// Returns the pending messages. Each follows a letter and a blank.
    fn messages(&self) -> Vec<String> {
        let Ok(copy) = self.0.try_clone() else { return Vec::new() };
        let mut context = std::fs::File::from(copy);
        let (mut all, mut buffer) = (Vec::new(), [0; 256]);
        while let Ok(length @ 1..) = context.read(&mut buffer) {
            all.push(String::from_utf8_lossy(&buffer[..length]).trim().chars().skip(2).collect());
        }
        all
    }

    fn string(&self, key: &CStr, value: &str) -> Result<(), Answer> {
        self.told(fsconfig_set_string(&self.0, key, value))
    }

    fn directory(&self, key: &CStr, dir: BorrowedFd<'_>) -> Result<(), Answer> {
        self.told(fsconfig_set_fd(&self.0, key, dir))
    }

    fn flag(&self, key: &CStr) -> Result<(), Answer> {
        self.told(fsconfig_set_flag(&self.0, key))
    }

    fn create(&self, extra: MountAttrFlags) -> Result<Detached, Answer> {
        self.told(fsconfig_create(&self.0))?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | extra;
        self.told(fsmount(&self.0, FsMountFlags::FSMOUNT_CLOEXEC, flags)).map(Detached)
    }
}

fn exec_flag(forbids_programs: bool) -> MountAttrFlags {
    if forbids_programs { MountAttrFlags::MOUNT_ATTR_NOEXEC } else { MountAttrFlags::empty() }
}

/// Makes the mount of an image. The kernel opens the files by their descriptors in `/proc`, which
/// is that of the service: this process is in its own mount namespace.
pub(crate) fn image(
    image: &OwnedFd,
    devices: &[OwnedFd],
    forbids_programs: bool,
) -> Result<Detached, Answer> {
    let context = Context::open(c"erofs")?;
    let path = |file: &OwnedFd| format!("/proc/self/fd/{}", file.as_raw_fd());
    context.string(c"source", &path(image))?;
    for device in devices {
        context.string(c"device", &path(device))?;
    }
    context.flag(c"ro")?;
    context.create(MountAttrFlags::MOUNT_ATTR_RDONLY | exec_flag(forbids_programs))
}

/// Makes the mount of an overlay. The marks of deletions are attributes `user.overlay.*`, which the
/// caller can read. With them the kernel follows no redirect that a user may have forged.
pub(crate) fn overlay(
    upper: &OwnedFd,
    work: &OwnedFd,
    lower: &[OwnedFd],
    is_volatile: bool,
    forbids_programs: bool,
) -> Result<Detached, Answer> {
    let context = Context::open(c"overlay")?;
    context.string(c"source", "sapwood")?;
    for lower in lower {
        context.directory(c"lowerdir+", lower.as_fd())?;
    }
    context.directory(c"upperdir", upper.as_fd())?;
    context.directory(c"workdir", work.as_fd())?;
    context.flag(c"userxattr")?;
    for (key, value) in [(c"xino", "on"), (c"metacopy", "off"), (c"index", "off")] {
        context.string(key, value)?;
    }
    if is_volatile {
        context.flag(c"volatile")?;
    }
    context.create(exec_flag(forbids_programs))
}

/// Makes a second mount of a directory, without the mounts below it. The flags of its mount stay.
pub(crate) fn bind(dir: &OwnedFd) -> Result<Detached, Answer> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(dir, c"", flags)?;
    sys::mount::forbid_rights(&mount)?;
    Ok(Detached(mount))
}

impl Detached {
    /// Enters the mount into the table with these facts and its identity, and attaches it to
    /// `target`. Returns its identity.
    pub(crate) fn attach(
        self,
        target: &OwnedFd,
        facts: Entry,
        table: &Table,
        policy: &Policy,
    ) -> Result<u64, Answer> {
        let id = sys::unique_mount(&self.0, c"")?.id;
        let below = sys::unique_mount(target, c"")?.id;
        let entry = Entry { id, ..facts };
        table.lock()?.add(entry, policy)?;
        self.attach_entered(target, below, id).inspect_err(|_| {
            // An entry without a mount is dropped when it stands in the way.
            let _ = table.lock().and_then(|table| table.remove(&entry));
        })?;
        Ok(id)
    }

    fn attach_entered(&self, target: &OwnedFd, below: u64, id: u64) -> Result<(), Answer> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&self.0, c"", target, c"", flags)?;
        // The kernel attaches it to the uppermost mount at the target. That may be one of root's.
        if sys::parent_mount(id)? == Some(below) {
            return Ok(());
        }
        rustix::process::fchdir(&self.0)?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
        Err(Code::MountPoint.into())
    }
}

/// Ends the mount at `name` in `dir`, if it is one of this user's in the table.
pub(crate) fn unmount(
    dir: &OwnedFd,
    name: &CStr,
    is_lazy: bool,
    uid: u32,
    table: &Table,
) -> Result<u64, Answer> {
    let found = sys::unique_mount(dir, name)?;
    let entry = table.lock()?.find(found.id)?;
    let Some(entry) = entry.filter(|entry| found.is_root && entry.uid == uid) else {
        return Err(Code::NoMount.into());
    };
    // The name leads to the mount that was found: a mount point cannot be renamed, and only root
    // or this user's own requests cover it.
    rustix::process::fchdir(dir)?;
    let flags = UnmountFlags::NOFOLLOW | if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    rustix::io::retry_on_intr(|| rustix::mount::unmount(name, flags))?;
    let locked = table.lock()?;
    locked.remove(&entry)?;
    if is_lazy {
        // The mounts inside end with it.
        locked.drop_ended(entry.namespace)?;
    }
    Ok(found.id)
}

/// Joins a mount namespace.
pub(crate) fn join(namespace: &OwnedFd) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?)
}
