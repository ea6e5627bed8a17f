//! Messages about the worktree in addition to the result.

use engine::{pathspec::Pathspecs, status::Worktree};
use sapwood::{index::Index, status::messages};

use crate::term::notice::Printer;

/// Prints the messages in index order.
pub(super) fn print(index: &Index, pathspecs: &Pathspecs, worktree: &Worktree) {
    messages::about_worktree(index, pathspecs, worktree, &Printer);
}
