//! The ways in which a base and an upper layer become one directory.

/// A way to provide the files of a workspace, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// overlayfs on an EROFS image. Needs the right to mount.
    Image,
    /// overlayfs on a plain checkout. Needs the right to mount.
    Overlay,
    /// overlayfs on a plain checkout, in a user and mount namespace of its own.
    OverlayUser,
    /// `fuse-overlayfs` or `unionfs-fuse` on a plain checkout.
    Fuse,
    /// A btrfs snapshot of a plain checkout.
    Btrfs,
    /// A copy of a plain checkout that shares its blocks (`FICLONE`).
    Reflink,
    /// A parallel checkout: an ordinary worktree.
    Copy,
}

impl Backend {
    /// All, in the order in which `auto` tries them.
    pub const ALL: [Backend; 7] = [
        Backend::Image,
        Backend::Overlay,
        Backend::OverlayUser,
        Backend::Fuse,
        Backend::Btrfs,
        Backend::Reflink,
        Backend::Copy,
    ];

    /// The name on command lines and in records.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Image => "image",
            Backend::Overlay => "overlay",
            Backend::OverlayUser => "overlay-user",
            Backend::Fuse => "fuse",
            Backend::Btrfs => "btrfs",
            Backend::Reflink => "reflink",
            Backend::Copy => "copy",
        }
    }

    /// Returns the backend with this name.
    pub fn from_name(name: &[u8]) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.name().as_bytes() == name)
    }

    /// Returns true if the workspace has an upper layer, which holds all changes.
    pub fn has_upper(self) -> bool {
        matches!(self, Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse)
    }
}
