//! Addition of worktree files to the index, path by path.
//!
//! - [`FileHasher`] hashes a file and stores its object.
//! - [`Recording`] hashes and stores many files with several workers.
//! - [`Staging`] changes single paths of an index. Each change sees the ones before it.
//! - [`PathProbe`] stats paths.
//! - [`refresh()`] updates the stat data of all entries.
//! - [`write_tree()`] writes the trees of an index.
//!
//! Nothing in the worktree is changed. Objects are staged in a transaction of the caller, who
//! publishes it before the index is written: see docs/design/add.md.

mod edit_tree;
mod hash;
mod probe;
mod promised;
mod record;
mod refresh;
mod stage;
mod write_tree;

use bstr::{BStr, BString};
use format::{Mode, ObjectId, index::Index};
use repo::Repository;

pub use edit_tree::{EditTreeError, Edits, edit_tree};
pub use hash::{Error, FileHasher, Store};
pub use probe::{Found, PathProbe};
pub use record::{AfterError, LineEnds, Recorded, Recording, stat};
pub use refresh::{Finding, RefreshOptions, Refreshed, refresh};
pub use stage::{Allow, Conflict, Staging};
pub use write_tree::{Missing, RecordError, Trees, WriteTreeError, record, write_tree};

use crate::look::{
    LookError,
    trees::{self, Kind, Side, Slot},
};

/// Returns the rules for paths in an index, from the repository's configuration.
pub fn protect(repo: &Repository) -> Result<format::path::Protect, repo::Error> {
    crate::look::protect(repo)
}

/// Returns the commit checked out in the repository at `path` of the worktree, or `None`.
pub fn commit_at(repo: &Repository, path: &BStr) -> Option<ObjectId> {
    crate::look::submodules::head(repo, path)
}

/// Returns the merged entries of `index` that are missing from `tree` or have another mode or
/// object there, in index order. `None` means the empty tree.
pub fn differing(
    repo: &Repository,
    index: &Index,
    tree: Option<ObjectId>,
) -> Result<Vec<(BString, Mode)>, LookError> {
    let found = trees::walk(repo.objects(), index, Kind::OneWay, vec![tree])?;
    let mut paths: Vec<(BString, Mode)> = Vec::new();
    for row in found.rows {
        let Slot::Merged(at) = row.slot else { continue };
        let entry = &index.entry(at);
        if !matches!(row.sides[0], Side::Entry(mode, oid) if (mode, oid) == (entry.mode, entry.oid)) {
            paths.push((row.path, entry.mode));
        }
    }
    paths.sort();
    Ok(paths)
}
