//! The index against the worktree: Git's `diff-files`.

use bstr::ByteSlice as _;
use format::{ObjectId, index::Index};

use super::{IntentToAdd, Pair, Side, Status};

/// Converts the changes found by [`crate::status::examine`] to those of Git's plumbing. A submodule
/// with the entry's commit gets its object name on both sides. An intent-to-add entry is a new file
/// or, with [`IntentToAdd::Shown`], a modified empty one.
pub fn unstaged(index: &Index, changes: Vec<Pair>, intended: IntentToAdd) -> Vec<Pair> {
    let convert = |change: Pair| {
        let entry = || index.entries_in(index.range_of(change.path.as_bstr())).next();
        let mut pair = match (change.status, intended) {
            (Status::Added, IntentToAdd::Shown) => {
                let old = entry().map(|entry| Side { mode: entry.mode, oid: Some(entry.oid) });
                Pair::new(change.path, old, change.new)
            }
            _ => change,
        };
        if let Some(oid) = pair.old.and_then(|old| old.oid) {
            pair.new = with_checked_out_commit(&pair, oid);
        }
        pair
    };
    changes.into_iter().map(convert).collect()
}

/// Returns the worktree's side of a change. A dirty submodule with the entry's commit gets that
/// object name.
pub(super) fn with_checked_out_commit(change: &Pair, oid: ObjectId) -> Option<Side> {
    change.new.map(|side| match side.oid {
        None if side.mode.is_gitlink()
            && change.submodule_changes.is_within()
            && !change.submodule_changes.commit =>
        {
            Side { oid: Some(oid), ..side }
        }
        _ => side,
    })
}
