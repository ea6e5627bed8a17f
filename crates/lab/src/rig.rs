//! Creates fresh file systems and warms page caches.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde::Serialize;

use crate::{Error, measure::must};

/// A kind of file system to measure on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
}

impl FileSystem {
    pub(crate) const ALL: [FileSystem; 4] =
        [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::Tmpfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
            FileSystem::Tmpfs => "tmpfs",
        }
    }
}

/// A mounted file system, initially empty. On drop it is unmounted and its image is deleted.
pub(crate) struct Volume {
    mount: PathBuf,
    /// The image to delete after unmounting.
    image: Option<PathBuf>,
    is_mounted: bool,
}

const SIZE: &str = "10G";

impl Volume {
    /// Creates and mounts an empty file system. Image and mount point are below `scratch`.
    pub(crate) fn fresh(file_system: FileSystem, scratch: &Path) -> Result<Volume, Error> {
        let here = Path::new("/");
        let mount = scratch.join(format!("mount-{}", file_system.name()));
        fs::create_dir_all(&mount).map_err(|source| Error::Io {
            what: "cannot create",
            path: mount.clone(),
            source,
        })?;
        let at = mount.display().to_string();
        // An interrupted run may have left mounts here.
        while Command::new("umount").arg("-q").arg(&mount).status().is_ok_and(|status| status.success()) {}
        if file_system == FileSystem::Tmpfs {
            must(Path::new("mount"), &["-t", "tmpfs", "-o", &format!("size={SIZE}"), "tmpfs", &at], here)?;
            return Ok(Volume { mount, image: None, is_mounted: true });
        }
        let image = scratch.join(format!("{}.img", file_system.name()));
        let file = image.display().to_string();
        must(Path::new("truncate"), &["-s", SIZE, &file], here)?;
        match file_system {
            // One inode per 4 KiB is enough for more than a million tiny files.
            FileSystem::Ext4 => must(Path::new("mkfs.ext4"), &["-q", "-F", "-i", "4096", &file], here)?,
            FileSystem::Xfs => must(Path::new("mkfs.xfs"), &["-q", "-f", &file], here)?,
            _ => must(Path::new("mkfs.btrfs"), &["-q", "-f", &file], here)?,
        };
        must(Path::new("mount"), &["-o", "loop", &file, &at], here)?;
        Ok(Volume { mount, image: Some(image), is_mounted: true })
    }

    /// Mounts an existing image, which is not deleted on drop.
    pub(crate) fn of_image(image: &Path, at: &Path) -> Result<Volume, Error> {
        let [image, mount] = [image, at].map(|path| path.display().to_string());
        must(Path::new("mount"), &["-o", "loop", &image, &mount], Path::new("/"))?;
        Ok(Volume { mount: at.to_owned(), image: None, is_mounted: true })
    }

    /// Unmounts the file system and keeps the image.
    pub(crate) fn keep(mut self) -> Result<(), Error> {
        self.image = None;
        self.is_mounted = false;
        must(Path::new("umount"), &[&self.mount.display().to_string()], Path::new("/")).map(drop)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// Makes the loop device read its image without the page cache, if supported. Otherwise each
    /// page of the volume would be in memory twice.
    pub(crate) fn read_directly(&self) {
        let Some(image) = &self.image else { return };
        let set = || {
            let image = image.display().to_string();
            let devices = must(Path::new("losetup"), &["-nO", "NAME", "-j", &image], Path::new("/"))?;
            let text = String::from_utf8_lossy(&devices);
            let device = text.split_whitespace().next().unwrap_or_default();
            must(Path::new("losetup"), &["--direct-io=on", device], Path::new("/"))
        };
        if let Err(error) = set() {
            eprintln!("lab: {error}");
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if !self.is_mounted {
            return;
        }
        // A lazy unmount would leave the loop device busy under the next run's image. A command
        // that deletes files in the background may still be using the mount.
        let unmount = || Command::new("umount").arg(&self.mount).output();
        let mut unmounted = false;
        for _ in 0..600 {
            unmounted = unmount().is_ok_and(|output| output.status.success());
            if unmounted {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        if !unmounted {
            eprintln!("lab: {} is still in use", self.mount.display());
        }
        if let (true, Some(image)) = (unmounted, &self.image)
            && let Err(error) = fs::remove_file(image)
        {
            eprintln!("lab: cannot remove {}: {error}", image.display());
        }
    }
}

/// Reads every file below `dir` once, so that all peers find it in the page cache.
pub(crate) fn warm(dir: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io { what: "cannot read", path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            warm(&path)?;
        } else {
            let mut file = fs::File::open(&path).map_err(|source| Error::Io {
                what: "cannot read",
                path: path.clone(),
                source,
            })?;
            std::io::copy(&mut file, &mut std::io::sink()).map_err(|source| Error::Io {
                what: "cannot read",
                path,
                source,
            })?;
        }
    }
    Ok(())
}
