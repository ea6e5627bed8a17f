//! The stash entries, from the newest one on.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash::list};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! for entry in list::plan(&repository, list::Request)?.run(&Silent)?.entries {
//!     println!("{}: {}", entry.name, entry.message);
//! }
//! # Ok(())
//! # }
//! ```

use bstr::{BStr, BString};
use format::ObjectId;
use repo::Shortener;

use super::{STASH, newest};
use crate::{Error, Events, PlanError, Repository, RunError, text};

/// The options of a list: none yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, such as `stash@{0}`.
    pub name: BString,
    /// Its message.
    pub message: BString,
    /// Its commit.
    pub commit: ObjectId,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The entries, from the newest one on.
    pub entries: Vec<Listed>,
}

/// A list that is complete.
#[derive(Clone, Debug)]
pub struct Plan(Report);

/// Reads the entries. Changes nothing.
pub fn plan(repository: &Repository, _request: Request) -> Result<Plan, PlanError> {
    super::check(&repository.inner)?;
    Ok(Plan(Report { entries: entries(&repository.inner)? }))
}

impl Plan {
    /// Returns the entries.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        Ok(self.0)
    }
}

/// Returns the entries, from the newest one on.
pub fn entries(repo: &repo::Repository) -> Result<Vec<Listed>, PlanError> {
    if newest(repo)?.is_none() {
        return Ok(Vec::new());
    }
    let entries = repo.reflog(BStr::new(STASH)).map_err(Error::from)?.unwrap_or_default();
    // Git's walk of the reflog skips, or stops at, entries without a commit.
    if entries.is_empty()
        || entries.iter().any(|entry| repo.commit_if_there(entry.new).ok().flatten().is_none())
    {
        return Err(PlanError::Unsupported("stash entries without a commit"));
    }
    let name = Shortener::new(repo, false).shorten(BStr::new(STASH)).map_err(Error::from)?;
    let listed = entries.into_iter().rev().enumerate().map(|(number, entry)| Listed {
        name: text!(name, format!("@{{{number}}}")),
        message: entry.message,
        commit: entry.new,
    });
    Ok(listed.collect())
}
