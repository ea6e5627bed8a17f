//! A new branch where a stash entry began, with the changes of the entry. If all files could be
//! written, the entry is dropped.
//!
//! The switch is planned, and its refusal changes nothing. The apply is planned when the branch
//! exists: a state that it does not support is an error of the run, and the entry stays.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash::branch};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = branch::Request { branch: "saved".into(), ..branch::Request::default() };
//! branch::plan(&repository, request)?.run(&Silent)?;
//! # Ok(())
//! # }
//! ```

use std::fmt;

use bstr::BString;

use super::{apply, drop::drop_entry, entry};
use crate::{Error, Events, PlanError, Repository, RunError, switch};

/// The options.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The new branch.
    pub branch: BString,
    /// The entry, by name or number; `None` for the newest one.
    pub stash: Option<BString>,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
}

/// The result.
#[derive(Debug)]
pub struct Report {
    /// The switch to the new branch.
    pub switched: switch::Report,
    /// The apply, and if the entry was dropped.
    pub applied: apply::Report,
}

/// A branch that can be created. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    switch: switch::Plan<'r>,
    entry: entry::Entry,
    number: Option<usize>,
    keep: Option<BString>,
}

/// Finds the entry, and plans the switch. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    super::check(&repository.inner)?;
    let Request { branch, stash, keep } = request;
    let entry = entry::find(&repository.inner, stash.as_ref())?;
    let number = if entry.is_of_stash { Some(entry.number()?) } else { None };
    let new = switch::NewBranch { name: branch, kind: switch::NewBranchKind::Create };
    let request = switch::Request {
        target: Some(entry.base.to_string().into()),
        rules: switch::Rules::Checkout,
        new_branch: Some(new),
        keep: keep.clone(),
        ..switch::Request::default()
    };
    let switch = switch::plan(repository, request)?;
    Ok(Plan { repository, switch, entry, number, keep })
}

impl Plan<'_> {
    /// Creates the branch, switches to it, applies the entry, and drops it.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, switch, entry, number, keep } = self;
        let switched = switch.run(events)?;
        // HEAD has changed.
        let repository = repository.again()?;
        let context = repository.recording_context(events);
        let request = apply::Request { index: Some(true), keep, ..apply::Request::default() };
        let prepared = apply::prepare(context, &entry, &request, apply::Refresh::Now);
        let is_complete = prepared.map_err(Error::from)?.execute()?;
        let number = number.filter(|_| is_complete);
        if let Some(number) = number {
            drop_entry(context, &entry, number)?;
        }
        let applied = apply::Report { entry, is_complete, is_dropped: number.is_some() };
        Ok(Report { switched, applied })
    }
}

/// The steps of the switch, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.switch, formatter)
    }
}
