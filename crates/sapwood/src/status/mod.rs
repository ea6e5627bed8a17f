//! Status: the differences between HEAD, the index and the worktree, untracked paths, and the
//! operations in progress.
//!
//! Planning examines everything and changes nothing. Running the plan writes new stat data and
//! caches to the index, if it can be locked, so that the next status is faster, and returns the
//! result. A failure to write the index is no error.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, status};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let status = status::plan(&repository, status::Request::default())?.run(&Silent)?;
//! for (path, change) in &status.changes {
//!     println!("{path}: {:?} {:?}", change.index, change.worktree);
//! }
//! # Ok(())
//! # }
//! ```

mod change;
mod examine;
mod head;
pub mod messages;
mod record;
mod request;

use std::{collections::BTreeMap, time::Duration};

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::operations::Operations;
use repo::{DetachedFrom, Head};
use sys::Dir;

pub use change::{Change, Conflict, Rename, Sides};
pub use engine::diff::{Status as Difference, SubmoduleChanges};
pub use examine::{Examined, Source, examine};
pub use head::{Comparison, Upstream};
pub use request::{Base, Compared, Ignored, Renames, Request, Untracked};

use crate::{Error, Events, Notice, PlanError, Repository, RunError, events::Notices};

/// The sparsity of the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparse {
    /// All files are there.
    No,
    /// The index itself is sparse.
    Index,
    /// The percentage of files that are present.
    Percent(usize),
}

/// The result.
#[derive(Debug)]
pub struct Status {
    /// HEAD.
    pub head: Head,
    /// There is no commit to compare the index with.
    pub is_initial: bool,
    /// The paths that differ, sorted.
    pub changes: BTreeMap<BString, Change>,
    /// The untracked paths, sorted. A directory ends with a slash.
    pub untracked: Vec<BString>,
    /// The ignored paths, sorted.
    pub ignored: Vec<BString>,
    /// The operations in progress.
    pub operations: Operations,
    /// The commit at which HEAD was detached.
    pub detached: Option<DetachedFrom>,
    /// The comparison of HEAD's branch with others.
    pub comparison: Comparison,
    /// The sparsity of the worktree.
    pub sparse: Sparse,
    /// The worktree differs from the index.
    pub is_dirty: bool,
    /// The next commit concludes neither a merge nor a cherry-pick.
    pub is_plain_commit: bool,
    /// There is something to commit.
    pub is_committable: bool,
    /// The time spent on the search for untracked files.
    pub took: Duration,
}

impl Status {
    /// Returns true if a path is unmerged.
    pub fn has_conflicts(&self) -> bool {
        self.changes.values().any(|change| change.conflict().is_some())
    }

    /// Returns the name of a detached HEAD: the target of the rebase, or the commit that was
    /// checked out.
    pub fn detached_name(&self) -> &BStr {
        let detached = || self.detached.as_ref().map(|detached| &detached.name);
        let name = match &self.operations.rebase {
            Some(rebase) => rebase.onto.as_ref(),
            None => detached(),
        };
        name.map_or(BStr::new(""), |name| name.as_bstr())
    }
}

/// A status that is complete, and new stat data for the index.
pub struct Plan<'r> {
    repository: &'r Repository,
    root: Dir,
    examined: Examined,
    notices: Vec<Notice>,
}

/// Examines the worktree. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let root = repository.worktree().ok_or(Error::NoWorktree)?;
    let root = Dir::open(root).map_err(Error::cannot_open(root))?;
    let notices = Notices::default();
    let examined = examine(repository.context(&notices), &root, &request, Source::File)?;
    Ok(Plan { repository, root, examined, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the result, before the plan has run.
    pub fn status(&self) -> &Status {
        &self.examined.status
    }

    /// Reports the notices, writes new stat data to the index, and returns the result.
    pub fn run(self, events: &impl Events) -> Result<Status, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(self.examined.record(self.repository.context(events), &self.root)?)
    }
}
