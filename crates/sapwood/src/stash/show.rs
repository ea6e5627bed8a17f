//! The changes in a stash entry.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash::show};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! for pair in show::plan(&repository, show::Request::default())?.run(&Silent)?.changes {
//!     println!("{}", pair.path);
//! }
//! # Ok(())
//! # }
//! ```

use bstr::BString;
use engine::diff;
pub use engine::diff::Pair;

use super::entry::{self, Entry};
use crate::{Error, Events, PlanError, Repository, RunError};

/// The entry to show.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The entry, by name or number; `None` for the newest one.
    pub stash: Option<BString>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The entry.
    pub entry: Entry,
    /// The paths in which the worktree of the entry differs from its base, in order.
    pub changes: Vec<Pair>,
    /// The staged changes among them: the index of the entry compared with its base.
    pub staged: Vec<Pair>,
    /// The untracked files, as new files.
    pub untracked: Vec<Pair>,
}

/// The changes of an entry.
#[derive(Clone, Debug)]
pub struct Plan(Report);

/// Compares the trees of the entry. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let repo = &repository.inner;
    super::check(repo)?;
    let entry = entry::find(repo, request.stash.as_ref())?;
    let compare = |old, new| diff::trees(repo, old, Some(new)).map_err(Error::from);
    let untracked = entry.untracked.map(|tree| compare(None, tree)).transpose()?;
    Ok(Plan(Report {
        changes: compare(Some(entry.base_tree), entry.tree)?,
        staged: compare(Some(entry.base_tree), entry.index)?,
        untracked: untracked.unwrap_or_default(),
        entry,
    }))
}

impl Plan {
    /// Returns the changes.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        Ok(self.0)
    }
}
