//! Overlays a tree on the index: paths that were removed from the index are shown as if they still
//! existed (`ls-files --with-tree`).

use format::{
    ObjectId,
    index::{Edit, Flags, Index, NewEntry, Stage, Stat},
};
use repo::Repository;

use crate::look::{
    LookError,
    trees::{self, Kind, Side, Slot},
};

/// Adds the entries of `tree` that have no merged entry in `index`, as stage 1 (base) entries. Like
/// Git, it changes all unmerged entries to stage 3 (theirs). The caller must not write the index
/// afterwards.
pub fn overlay(repo: &Repository, index: &mut Index, tree: ObjectId) -> Result<(), LookError> {
    let mut edits: Vec<Edit> = Vec::new();
    for row in trees::walk(repo.objects(), index, Kind::OneWay, vec![Some(tree)])?.rows {
        if matches!(row.slot, Slot::Merged(_)) {
            continue;
        }
        let base = match row.sides[0] {
            Side::Entry(mode, oid) => {
                let (stat, flags) = (Stat::default(), Flags::empty());
                Some(NewEntry { stat, oid, mode, flags, stage: Stage::Base })
            }
            Side::Missing | Side::Conflict => None,
        };
        let unmerged = index.entries_in(index.range_of(row.path.as_ref()));
        let theirs = unmerged.map(|entry| NewEntry { stage: Stage::Theirs, ..entry.content() });
        let entries = base.into_iter().chain(theirs).collect();
        edits.push(Edit { path: row.path, entries });
    }
    edits.sort_by(|one, other| one.path.cmp(&other.path));
    index.apply(edits);
    Ok(())
}
