//! Adding: what is in the worktree into the index, path by path.
//!
//! - [`Adder`] makes an object of a file;
//! - [`Staging`] changes single paths of an index, each seeing what those before it did;
//! - [`Looker`] tells what is at paths;
//! - [`refresh()`] brings the stat data of all entries up to date.
//!
//! Nothing in the worktree is changed. Objects that were written stay when what needed them fails, unreachable, as with Git.

mod hash;
mod look;
mod refresh;
mod stage;

use bstr::{BStr, BString};
use format::{Mode, ObjectId, index::Index};
use repo::Repository;

pub use hash::{Adder, Error, Store};
pub use look::{Found, Looker};
pub use refresh::{Finding, RefreshOptions, Refreshed, refresh};
pub use stage::{Allow, Clash, Staging};

use crate::checkout::{
    PlanError,
    diff::{self, Kind, Side, Slot},
};

/// The rules of the paths that an index may hold, by the repository's configuration.
pub fn protect(repo: &Repository) -> Result<format::path::Protect, repo::Error> {
    crate::checkout::protect(repo)
}

/// The commit that is checked out in the repository at `path` of the worktree, if there is one.
pub fn commit_at(repo: &Repository, path: &BStr) -> Option<ObjectId> {
    crate::checkout::submodules::head(repo, path)
}

/// The merged entries of `index` that `tree` has not, or otherwise (`None` is the empty tree), in order.
pub fn differing(
    repo: &Repository,
    index: &Index,
    tree: Option<ObjectId>,
) -> Result<Vec<(BString, Mode)>, PlanError> {
    let found = diff::walk(repo.objects(), index, Kind::OneWay, vec![tree])?;
    let mut paths: Vec<(BString, Mode)> = Vec::new();
    for row in found.rows {
        let Slot::Merged(at) = row.slot else { continue };
        let entry = &index.entries()[at];
        if !matches!(row.sides[0], Side::Entry(mode, oid) if (mode, oid) == (entry.mode, entry.oid)) {
            paths.push((row.path, entry.mode));
        }
    }
    paths.sort();
    Ok(paths)
}
