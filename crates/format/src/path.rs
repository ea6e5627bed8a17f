//! Git's rules for the paths a repository may hold (`verify_path` in Git's terms).

use bstr::BStr;

use crate::Mode;

/// Which file systems' disguises of `.git` are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protect {
    /// `core.protectHFS`
    pub hfs: bool,
    /// `core.protectNTFS`
    pub ntfs: bool,
}

impl Default for Protect {
    /// Git's defaults on Linux.
    fn default() -> Self {
        Protect { hfs: false, ntfs: true }
    }
}

/// Why a path may not be in the index or the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid path")]
pub struct InvalidPath;

/// Checks a whole path with slashes, as it would stand in the index with `mode`.
pub fn verify(_path: &BStr, _mode: Mode, _protect: Protect) -> Result<(), InvalidPath> {
    todo!("path rules")
}
