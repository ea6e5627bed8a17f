//! The mounts. A mount is made unattached, entered into the table, and attached. No path of the
//! caller is resolved, except the last component of a mount point.

use std::{
    ffi::{CStr, OsString},
    io::{self, Read as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{StatVfsMountFlags, fstatvfs},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
        fsconfig_create, fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
        move_mount, open_tree,
    },
    path::Arg,
    thread::CapabilitySet,
};

use crate::{
    confine,
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
        confine::with(confine::MOUNT, || Ok(Context(fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?)))
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

    fn string(&self, key: &CStr, value: impl Arg) -> Result<(), Answer> {
        self.told(fsconfig_set_string(&self.0, key, value))
    }

    fn directory(&self, key: &CStr, dir: BorrowedFd<'_>) -> Result<(), Answer> {
        self.told(fsconfig_set_fd(&self.0, key, dir))
    }

    fn flag(&self, key: &CStr) -> Result<(), Answer> {
        self.told(fsconfig_set_flag(&self.0, key))
    }

    fn create(&self, rights: CapabilitySet, extra: MountAttrFlags) -> Result<Detached, Answer> {
        confine::with(rights, || self.told(fsconfig_create(&self.0)))?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | extra;
        confine::with(confine::MOUNT, || self.told(fsmount(&self.0, FsMountFlags::FSMOUNT_CLOEXEC, flags)))
            .map(Detached)
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
    context.string(c"source", path(image))?;
    for device in devices {
        context.string(c"device", path(device))?;
    }
    context.flag(c"ro")?;
    context.create(confine::MOUNT, MountAttrFlags::MOUNT_ATTR_RDONLY | exec_flag(forbids_programs))
}

/// The layers of an overlay.
pub(crate) struct Layers<'l> {
    pub(crate) upper: &'l OwnedFd,
    pub(crate) work: &'l OwnedFd,
    pub(crate) lower: &'l [OwnedFd],
    /// The path of the upper layer.
    pub(crate) path: &'l Path,
}

/// Makes the mount of an overlay. The marks of deletions are attributes `user.overlay.*`, which the
/// caller can read. With them the kernel follows no redirect that a user may have forged.
pub(crate) fn overlay(
    layers: &Layers<'_>,
    is_volatile: bool,
    forbids_programs: bool,
) -> Result<Detached, Answer> {
    let context = Context::open(c"overlay")?;
    let mut source = OsString::from(sys::Mount::SERVED);
    source.push(layers.path);
    context.string(c"source", source)?;
    for lower in layers.lower {
        context.directory(c"lowerdir+", lower.as_fd())?;
    }
    context.directory(c"upperdir", layers.upper.as_fd())?;
    context.directory(c"workdir", layers.work.as_fd())?;
    context.flag(c"userxattr")?;
    for (key, value) in [(c"xino", "on"), (c"metacopy", "off"), (c"index", "off")] {
        context.string(key, value)?;
    }
    if is_volatile {
        context.flag(c"volatile")?;
    }
    let made = context.create(confine::MOUNT | confine::ENTER, exec_flag(forbids_programs))?;
    // The kernel does without a work directory that it cannot empty.
    if fstatvfs(&made.0)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let what = "another user has files in the work directory".to_owned();
        return Err(Answer { messages: vec![what], ..Errno::ROFS.into() });
    }
    Ok(made)
}

/// Makes a second mount of a directory, without the mounts below it. The flags of its mount stay,
/// and no mount in it appears elsewhere. `ids` restricts who has rights in it.
pub(crate) fn bind(dir: &OwnedFd, ids: Option<&OwnedFd>) -> Result<Detached, Answer> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    confine::with(confine::MOUNT, || {
        let mount = open_tree(dir, c"", flags)?;
        sys::mount::restrict(&mount, ids.map(AsFd::as_fd))?;
        Ok(Detached(mount))
    })
}

impl Detached {
    /// Returns the root directory of the mount.
    pub(crate) fn root(&self) -> &OwnedFd {
        &self.0
    }

    /// Enters the mount into the table with these facts and its identity, and attaches it to
    /// `target`, where nothing is mounted. Returns its identity.
    pub(crate) fn attach(
        self,
        target: &OwnedFd,
        facts: Entry,
        table: &Table,
        policy: &Policy,
    ) -> Result<u64, Answer> {
        let id = sys::unique_mount(&self.0, c"")?.id;
        let below = sys::unique_mount(target, c"")?.id;
        // Only this user's requests and root mount there. The lock excludes the former.
        let table = table.lock()?;
        let place = confine::with(confine::MOUNT, || sys::mount_place(below))?;
        let namespace = place.ok_or(Answer::of(Code::MountPoint))?.namespace;
        let entry = Entry { id, namespace, ..facts };
        table.add(entry, policy)?;
        confine::with(confine::MOUNT, || self.attach_entered(target, below, id)).inspect_err(|_| {
            // An entry without a mount is dropped when it stands in the way.
            let _ = table.remove(&entry);
        })?;
        Ok(id)
    }

    fn attach_entered(&self, target: &OwnedFd, below: u64, id: u64) -> Result<(), Answer> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&self.0, c"", target, c"", flags)?;
        // The kernel attaches it to the uppermost mount at the target. Root may have mounted there
        // since the target was opened.
        if sys::mount_place(id)?.is_some_and(|place| place.parent == below) {
            return Ok(());
        }
        unmount_in(&self.0, c".", UnmountFlags::DETACH)?;
        Err(Code::MountPoint.into())
    }
}

/// Ends the mount at `name` in `dir`. The working directory does not stay there.
fn unmount_in(dir: &OwnedFd, name: &CStr, flags: UnmountFlags) -> io::Result<()> {
    rustix::process::fchdir(dir)?;
    let ended = rustix::io::retry_on_intr(|| rustix::mount::unmount(name, UnmountFlags::NOFOLLOW | flags));
    rustix::process::chdir(c"/")?;
    Ok(ended?)
}

/// Ends the mount at `name` in `dir`, if it is one of this user's in the table. `is_lazy` counts
/// for overlays only: an image that is in use after its end would escape the limits.
pub(crate) fn unmount(
    dir: &OwnedFd,
    name: &CStr,
    is_lazy: bool,
    uid: u32,
    table: &Table,
) -> Result<u64, Answer> {
    // The rights of the caller decide what can be found.
    let found = sys::unique_mount(dir, name)?;
    let entry = table.lock()?.find(found.id)?;
    let Some(entry) = entry.filter(|entry| found.is_root && entry.uid == uid) else {
        return Err(Code::NoMount.into());
    };
    let is_lazy = is_lazy && entry.upper != (0, 0);
    // The name leads to the mount that was found: a mount point cannot be renamed, and only root
    // or this user's own requests cover it. The end of a file system may wait for the disk, so this
    // process holds no lock.
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    confine::with(confine::MOUNT, || unmount_in(dir, name, flags))?;
    let locked = table.lock()?;
    locked.remove(&entry)?;
    if is_lazy {
        // The mounts inside end with it.
        locked.drop_ended()?;
    }
    Ok(found.id)
}

/// Joins a mount namespace.
pub(crate) fn join(namespace: &OwnedFd) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    confine::with(confine::MOUNT | confine::JOIN, || {
        Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?)
    })
}
