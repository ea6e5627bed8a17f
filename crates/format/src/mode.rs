//! File modes of trees and of the index.

/// A canonical Git mode: type bits and, for regular files, the executable bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u32);

impl Mode {
    /// A regular file.
    pub const FILE: Mode = Mode(0o100644);
    /// A regular file with the executable bit.
    pub const EXECUTABLE: Mode = Mode(0o100755);
    /// A symbolic link.
    pub const SYMLINK: Mode = Mode(0o120000);
    /// A commit of another repository (submodule).
    pub const GITLINK: Mode = Mode(0o160000);
    /// A directory: in trees, and in a sparse index.
    pub const TREE: Mode = Mode(0o040000);

    /// Returns the canonical mode for any mode of a tree or an index. The permissions of a regular
    /// file reduce to the executable bit, other types to their type bits. Unknown types become
    /// gitlinks, as in Git's `canon_mode`.
    pub const fn canonical(raw: u32) -> Mode {
        match raw & 0o170000 {
            0o100000 if raw & 0o100 != 0 => Mode::EXECUTABLE,
            0o100000 => Mode::FILE,
            0o120000 => Mode::SYMLINK,
            0o040000 => Mode::TREE,
            _ => Mode::GITLINK,
        }
    }

    /// Returns a mode exactly as read, so that files with odd modes survive a round trip.
    pub const fn from_raw(raw: u32) -> Mode {
        Mode(raw)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true for a regular file, executable or not.
    pub const fn is_file(self) -> bool {
        self.0 & 0o170000 == 0o100000
    }

    /// Returns true for a regular file with the executable bit.
    pub const fn is_executable(self) -> bool {
        self.is_file() && self.0 & 0o100 != 0
    }

    /// Returns true for a symbolic link.
    pub const fn is_symlink(self) -> bool {
        self.0 & 0o170000 == 0o120000
    }

    /// Returns true for a submodule.
    pub const fn is_gitlink(self) -> bool {
        self.0 & 0o170000 == 0o160000
    }

    /// Returns true for a directory.
    pub const fn is_tree(self) -> bool {
        self.0 & 0o170000 == 0o040000
    }
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06o}", self.0)
    }
}
