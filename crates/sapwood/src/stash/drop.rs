//! Dropping: entries are removed from the reflog of the stash.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash::drop};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! drop::plan(&repository, drop::Request::Entry(Some("2".into())))?.run(&Silent)?;
//! # Ok(())
//! # }
//! ```

use std::fmt;

use bstr::{BStr, BString};
use format::ObjectId;
use store::refs::{Change, Expected};

use super::{
    STASH, StashError,
    entry::{self, Entry},
    newest,
};
use crate::{Context, Error, Events, PlanError, Repository, RunError, refs};

/// The entries to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One entry, by name or number; `None` for the newest one.
    Entry(Option<BString>),
    /// All entries (`stash clear`).
    All,
}

impl Default for Request {
    fn default() -> Request {
        Request::Entry(None)
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The commit of the entry that was dropped, or of the newest one of all; `None` if there was
    /// none.
    pub commit: Option<ObjectId>,
}

/// Entries that can be dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    doomed: Doomed,
}

enum Doomed {
    Entry(Entry, usize),
    /// The newest entry, and so all of them.
    All(Option<ObjectId>),
}

/// Finds the entries. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    super::check(&repository.inner)?;
    let doomed = match request {
        Request::Entry(name) => {
            let entry = entry::find(&repository.inner, name.as_ref())?;
            let number = entry.number()?;
            Doomed::Entry(entry, number)
        }
        Request::All => Doomed::All(newest(&repository.inner)?),
    };
    Ok(Plan { repository, doomed })
}

impl Plan<'_> {
    /// Removes the entries, if they are still the same.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let context = self.repository.recording_context(events);
        let commit = match &self.doomed {
            Doomed::Entry(entry, number) => {
                drop_entry(context, entry, *number)?;
                Some(entry.commit)
            }
            Doomed::All(None) => None,
            Doomed::All(Some(newest)) => {
                clear(context, *newest)?;
                Some(*newest)
            }
        };
        Ok(Report { commit })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.doomed {
            Doomed::Entry(entry, _) => writeln!(formatter, "drop {}", entry.revision),
            Doomed::All(None) => Ok(()),
            Doomed::All(Some(_)) => writeln!(formatter, "drop all stash entries"),
        }
    }
}

/// Removes an entry from the reflog, if it still has this number.
pub fn drop_entry(context: Context<'_>, entry: &Entry, number: usize) -> Result<(), Error> {
    let options = refs::options(context)?;
    store::refs::drop_entry(&options, BStr::new(STASH), number, entry.commit).map_err(|source| {
        let revision = entry.revision.clone();
        StashError::NotDropped { revision, source }.into()
    })
}

/// Removes all entries, if the newest one is still `newest`.
pub fn clear(context: Context<'_>, newest: ObjectId) -> Result<(), Error> {
    let options = refs::options(context)?;
    let delete = Change::Delete { name: STASH.into(), expected: Expected::Is(newest) };
    Ok(store::refs::apply(&options, vec![delete]).map_err(StashError::NotCleared)?)
}

/// Records a commit with the structure of a stash entry as the newest entry (`stash store`).
pub fn store(context: Context<'_>, commit: ObjectId, message: &BStr) -> Result<(), Error> {
    let options = refs::options(context)?;
    let stored = store::refs::record(&options, BStr::new(STASH), commit, Expected::Any, message);
    Ok(stored.map_err(StashError::NotRecorded)?)
}
