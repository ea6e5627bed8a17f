//! Submodules that go along with their superproject (`--recurse-submodules`): what a plan has to know of them.
//!
//! To take a submodule along is to run Git's `read-tree` in it, which is the same work once more, with locks, hooks and
//! words of its own. So it is done by whoever runs the commands; the plan only asks, where Git asks.

use bstr::BStr;
use format::ObjectId;

use super::Force;
use crate::look::LookError;

/// What a submodule's worktree is moved from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing: it is not checked out.
    Nothing,
    /// Whatever its HEAD is.
    Head,
    /// The commit recorded.
    Commit(ObjectId),
}

/// Answers for the submodules of one worktree.
pub trait Follow {
    /// Whether `.gitmodules` knows a submodule at `path`.
    fn knows(&self, path: &BStr) -> Result<bool, LookError>;

    /// Git's `check_submodule_move_head`: whether the worktree of the submodule at `path` can be moved, to a commit or to
    /// nothing, and no change in it is lost. What is in the way has been said. One that is not active always can.
    fn may_move(
        &self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, LookError>;
}
