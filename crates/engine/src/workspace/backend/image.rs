//! The mount of a base image. All workspaces on the base share the mount, and thus the page cache.
//!
//! The image file is locked (`flock`) from its mount until the overlay that needs it is mounted,
//! and while it is unmounted. So no command mounts the image twice, or unmounts an image that
//! another command needs.

use std::{io::Read as _, path::Path};

use sys::{File, Mount, by_path, mount::Unmount};

use super::{
    super::base::{Base, Kind},
    Error,
    error::explained,
    real,
};

const FILE_SYSTEM: &str = "erofs";

/// Mounts the image of a base at its directory `files`, unless it is already mounted there. The
/// returned lock prevents its unmounting. Returns `None` if the base is not an image.
pub fn mount(base: &Base) -> Result<Option<File>, Error> {
    if base.kind != Kind::Image {
        return Ok(None);
    }
    let (image, files) = (base.image(), base.files());
    let lock = lock(base)?;
    let found = sys::mount_at(&files).map_err(Error::io("examine", &files))?;
    if let Some(mount) = found {
        return verify(&mount, &lock, base).map(|()| Some(lock));
    }
    if !matches!(by_path::stat(&files), Ok(Some(_))) {
        by_path::create_dir(&files).map_err(Error::io("create", &files))?;
    }
    let needed: Vec<&Path> = [&image, &files].into_iter().chain(&base.devices).map(|path| &**path).collect();
    sys::mount::erofs(&image, &base.devices)
        .and_then(|made| made.attach(&files).map_err(Into::into))
        .map_err(|error| explained(error, &image, FILE_SYSTEM, None, &needed))?;
    Ok(Some(lock))
}

/// Unmounts the image of a base if no workspace visible to this process uses it. Returns true if it
/// is not mounted afterwards.
pub fn unmount_if_unused(base: &Base) -> Result<bool, Error> {
    if base.kind != Kind::Image {
        return Ok(true);
    }
    let files = real(&base.files());
    let _lock = lock(base)?;
    let mounts = sys::mounts().map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
    if !mounts.iter().any(|mount| mount.point == files && mount.file_system == FILE_SYSTEM) {
        return Ok(true);
    }
    if mounts.iter().any(|mount| mount.lower_layers().contains(&files)) {
        return Ok(false);
    }
    match sys::mount::unmount(&files, Unmount::Plain) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => Ok(false),
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

fn lock(base: &Base) -> Result<File, Error> {
    let image = base.image();
    let file = match by_path::open(&image) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Missing { top: base.files(), missing: image });
        }
        opened => opened.map_err(Error::io("open", &image))?,
    };
    sys::lock(&file).map_err(Error::io("lock", &image))?;
    Ok(file)
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

fn uuid(mut image: &File) -> Option<[u8; 16]> {
    let mut head = [0; SUPERBLOCK + UUID + 16];
    image.read_exact(&mut head).ok()?;
    let superblock = &head[SUPERBLOCK..];
    superblock.starts_with(&MAGIC).then(|| superblock[UUID..].try_into().expect("16 bytes are left"))
}
