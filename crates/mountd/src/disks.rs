//! The file systems on which the service mounts. Its clients ask the same list before they choose a
//! backend.

use std::{io, os::fd::AsFd, path::Path};

use rustix::fs::{Mode, OFlags, fstatfs, open};

/// File systems that keep what is written, and that ask no other program and no other machine:
/// ext4, XFS, btrfs, F2FS, bcachefs, ZFS. A file of an overlay could lie on the image that is being
/// mounted, and so nest mounts deeper than the kernel's stack.
const DISKS: [u32; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];
const TMPFS: u32 = 0x0102_1994;
const OVERLAY: u32 = 0x794c_7630;
const EROFS: u32 = 0xe0f5_e1e2;

/// The uses of a file or directory. Each takes other file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// An image, or a blob file.
    File,
    /// The directory of the upper layer and the work directory, or a Git directory.
    Upper,
    /// A lower layer: a directory, or the mount of an image.
    Lower,
    /// A mount point.
    Place,
}

impl Use {
    /// Returns true if the file system of `file` is fit for this use.
    pub fn takes(self, file: impl AsFd) -> io::Result<bool> {
        // The type has another width on other machines.
        #[allow(clippy::unnecessary_cast)]
        let kind = fstatfs(file)?.f_type as u32;
        let other = match self {
            Use::File => None,
            Use::Upper => Some(TMPFS),
            // All files of an image have one owner. Only root and this service mount images.
            Use::Lower => Some(EROFS),
            Use::Place => Some(OVERLAY),
        };
        Ok(DISKS.contains(&kind) || self != Use::File && kind == TMPFS || other == Some(kind))
    }

    /// Like [`Use::takes`], for the directory at `path`.
    pub fn takes_path(self, path: &Path) -> io::Result<bool> {
        self.takes(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }
}
