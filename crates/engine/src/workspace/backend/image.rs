//! The mount of a base image. All workspaces on the base share the mount, and thus the page cache.
//!
//! The image file is locked (`flock`) from its mount until the overlay that needs it is mounted,
//! and while it is unmounted. So no command mounts the image twice, or unmounts an image that
//! another command needs. NFS grants an exclusive lock only on a file that is open for writing, and
//! an image may be read-only for this host. Then the mount namespace is locked instead of the
//! image: all processes that share these mounts are in it. A process holds one such lock at a time,
//! also for a base of two images.

use std::{
    io::{self, Read as _},
    path::Path,
};

use sys::{File, Mount, by_path, mount::Unmount};

use super::{
    super::base::{Base, Kind},
    Door, Error, door,
    error::explained,
    real,
};

const FILE_SYSTEM: &str = "erofs";

/// The lock of an image.
struct Lock {
    image: File,
    namespace: Option<File>,
}

/// The locks of the images of a base.
pub struct Locks {
    _own: Lock,
    _parent: Option<Lock>,
}

/// Mounts the image of a base at its directory `files`, unless it is already mounted there, and
/// that of the base below it. The returned locks prevent their unmounting. Returns `None` if the
/// base is not an image.
///
/// The image of a difference is locked before that below it, which has none below it itself. So two
/// processes never wait for each other.
pub fn mount(base: &Base, door: &Door) -> Result<Option<Locks>, Error> {
    if base.kind != Kind::Image {
        return Ok(None);
    }
    let parent = base.load_parent()?;
    let own = lock(base, None)?;
    let below = parent.as_ref().map(|parent| lock(parent, own.namespace.as_ref())).transpose()?;
    let mut new = None;
    if let (Some(parent), Some(lock)) = (&parent, &below) {
        let found = mount_locked(parent, lock, door)?;
        new = (found == Found::Nothing).then(|| parent.files());
    }
    mount_locked(base, &own, door).inspect_err(|_| {
        let _ = new.map(|files| door.unmount(&files, Unmount::Plain));
    })?;
    Ok(Some(Locks { _own: own, _parent: below }))
}

/// The state of a mount point before an image was mounted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Image,
    Nothing,
}

fn mount_locked(base: &Base, lock: &Lock, door: &Door) -> Result<Found, Error> {
    let (image, files) = (base.image(), base.files());
    let found = sys::mount_at(&files).map_err(Error::io("examine", &files))?;
    if let Some(mount) = found {
        return verify(&mount, &lock.image, base).map(|()| Found::Image);
    }
    if !matches!(by_path::stat(&files), Ok(Some(_))) {
        by_path::create_dir(&files).map_err(Error::io("create", &files))?;
    }
    if let Some(socket) = door.service() {
        door::asked(socket, &files, |service| service.mount_image(&image, &base.devices, &files))?;
        return Ok(Found::Nothing);
    }
    let needed: Vec<&Path> = [&image, &files].into_iter().chain(&base.devices).map(|path| &**path).collect();
    sys::mount::erofs(&image, &base.devices)
        .and_then(|made| made.attach(&files).map_err(Into::into))
        .map_err(|error| match uuid_of(&image) {
            None => Error::NotAnImage { image: image.clone() },
            Some(_) => explained(error, &image, FILE_SYSTEM, None, &needed),
        })?;
    Ok(Found::Nothing)
}

/// Unmounts the image of a base if no workspace visible to this process uses it, and then that of
/// the base below it. Returns true if the own image is not mounted afterwards.
pub fn unmount_if_unused(base: &Base, door: &Door) -> Result<bool, Error> {
    if base.kind != Kind::Image {
        return Ok(true);
    }
    let is_unmounted = unmount_own_if_unused(base, door)?;
    if let Some(parent) = base.load_parent()? {
        unmount_own_if_unused(&parent, door)?;
    }
    Ok(is_unmounted)
}

fn unmount_own_if_unused(base: &Base, door: &Door) -> Result<bool, Error> {
    let files = real(&base.files());
    let _lock = lock(base, None)?;
    let mounts = sys::mounts().map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
    if !mounts.iter().any(|mount| mount.point == files && mount.file_system == FILE_SYSTEM) {
        return Ok(true);
    }
    if mounts.iter().any(|mount| mount.lower_layers().contains(&files)) {
        return Ok(false);
    }
    match door.unmount(&files, Unmount::Plain) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(source) => Err(Error::Io { action: "unmount", path: files, source }),
    }
}

/// Returns true if the image of the base is mounted at the base's mount point.
pub fn is_mounted(base: &Base) -> Result<bool, Error> {
    let files = base.files();
    match sys::mount_at(&files).map_err(Error::io("examine", &files))? {
        Some(mount) => {
            let image = base.image();
            let file = by_path::open(&image).map_err(Error::io("open", &image))?;
            verify(&mount, &file, base).map(|()| true)
        }
        None => Ok(false),
    }
}

/// Locks the image of a base. `namespace` is the mount namespace, if this process has locked it in
/// place of another image.
fn lock(base: &Base, namespace: Option<&File>) -> Result<Lock, Error> {
    let path = base.image();
    let image = match by_path::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing { top: base.files(), missing: path });
        }
        opened => opened.map_err(Error::io("open", &path))?,
    };
    let namespace = match namespace {
        Some(_) => None,
        None => lock_by(&image, &sys::lock).map_err(Error::io("lock", &path))?,
    };
    Ok(Lock { image, namespace })
}

/// Locks an image by `lock`. If the file system refuses, locks and returns the mount namespace.
fn lock_by(image: &File, lock: &dyn Fn(&File) -> io::Result<()>) -> io::Result<Option<File>> {
    match lock(image) {
        Err(error) if sys::is_lock_of_reader(&error) => {
            let namespace = by_path::open(Path::new("/proc/self/ns/mnt"))?;
            sys::lock(&namespace)?;
            Ok(Some(namespace))
        }
        locked => locked.map(|()| None),
    }
}

/// Returns an error unless `mount` is a mount of this image. Each image has its own UUID.
fn verify(mount: &Mount, image_file: &File, base: &Base) -> Result<(), Error> {
    let (image, files) = (base.image(), base.files());
    let wanted = uuid(image_file).ok_or_else(|| Error::NotAnImage { image: image.clone() })?;
    let is_same = match sys::volume::uuid(&files) {
        Ok(Some(found)) => found == wanted,
        // Kernels before 6.9 do not report the UUID.
        _ => real(Path::new(&mount.source)) == real(&image),
    };
    if mount.file_system == FILE_SYSTEM && is_same {
        Ok(())
    } else {
        Err(Error::OtherBase { path: files, image })
    }
}

/// The offset of the superblock in an EROFS image, its first bytes, and the offset of the UUID in
/// it. Source: `Documentation/filesystems/erofs.rst`, `fs/erofs/erofs_fs.h`.
const SUPERBLOCK: usize = 1024;
const MAGIC: [u8; 4] = 0xE0F5_E1E2_u32.to_le_bytes();
const UUID: usize = 48;

/// Returns the UUID in the image file at `path`.
pub(in crate::workspace) fn uuid_of(path: &Path) -> Option<[u8; 16]> {
    uuid(&by_path::open(path).ok()?)
}

fn uuid(mut image: &File) -> Option<[u8; 16]> {
    let mut head = [0; SUPERBLOCK + UUID + 16];
    image.read_exact(&mut head).ok()?;
    let superblock = &head[SUPERBLOCK..];
    superblock.starts_with(&MAGIC).then(|| superblock[UUID..].try_into().expect("16 bytes are left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NFS answers so, and no test here mounts NFS.
    fn refuse(_: &File) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(9))
    }

    #[test]
    fn the_mount_namespace_is_locked_where_an_image_cannot_be() {
        let image = by_path::open(Path::new("/proc/self/exe")).expect("opened");
        let held = lock_by(&image, &refuse).expect("locked").expect("the namespace");
        let other = by_path::open(Path::new("/proc/self/ns/mnt")).expect("opened");
        assert!(!sys::try_lock(&other).expect("asked"));
        drop(held);
        assert!(sys::try_lock(&other).expect("asked"));
        let denied = lock_by(&image, &|_| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(denied.map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
    }
}
