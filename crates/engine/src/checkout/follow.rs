//! Submodules that move with their superproject (`--recurse-submodules`): the facts that a plan
//! needs about them.
//!
//! Moving a submodule means running Git's `read-tree` in it, with locks, hooks and messages of its
//! own. The caller does that. The plan only queries facts, at the points where Git queries them.

use bstr::BStr;
use format::ObjectId;

use super::Force;
use crate::look::LookError;

/// The state from which a submodule's worktree is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The submodule is not checked out.
    Nothing,
    /// The submodule's HEAD, in any state.
    Head,
    /// The recorded commit.
    Commit(ObjectId),
}

/// Provides facts about the submodules of one worktree.
pub trait Follow {
    /// Returns true if `.gitmodules` names a submodule at `path`.
    fn is_registered(&self, path: &BStr) -> Result<bool, LookError>;

    /// Git's `check_submodule_move_head`: returns true if the worktree of the submodule at `path`
    /// can be moved to a commit, or to nothing, without losing changes. An obstacle has already
    /// been reported. An inactive submodule can always be moved.
    fn can_move(
        &self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, LookError>;
}
