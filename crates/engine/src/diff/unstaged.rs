//! The index against the worktree: Git's `diff-files`.

use bstr::ByteSlice as _;
use format::{ObjectId, index::Index};

use super::{Intended, Pair, Side, Status};

/// What [`crate::status::examine`] found, as the plumbing has it: a submodule whose commit is the entry's has its name on both sides. What is
/// only intended to be added is a new file, or [`Intended::Shown`] an empty one that was changed.
pub fn unstaged(index: &Index, changes: Vec<Pair>, intended: Intended) -> Vec<Pair> {
    let plumbed = |change: Pair| {
        let entry = || index.entries_in(index.range_of(change.path.as_bstr())).next();
        let mut pair = match (change.status, intended) {
            (Status::Added, Intended::Shown) => {
                let old = entry().map(|entry| Side { mode: entry.mode, oid: Some(entry.oid) });
                Pair::new(change.path, old, change.new)
            }
            _ => change,
        };
        if let Some(oid) = pair.old.and_then(|old| old.oid) {
            pair.new = named(&pair, oid);
        }
        pair
    };
    changes.into_iter().map(plumbed).collect()
}

/// The worktree's side of a change of an entry: a submodule that has the entry's commit, and was changed within, has its name.
pub(super) fn named(change: &Pair, oid: ObjectId) -> Option<Side> {
    change.new.map(|side| match side.oid {
        None if side.mode.is_gitlink() && change.dirt.is_within() && !change.dirt.commit => {
            Side { oid: Some(oid), ..side }
        }
        _ => side,
    })
}
