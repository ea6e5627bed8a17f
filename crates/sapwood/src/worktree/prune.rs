//! Pruning: the records of worktrees that are gone are removed.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::prune};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let plan = prune::plan(&repository, prune::Request::default())?;
//! print!("{plan}");
//! plan.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    ffi::OsString,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::BString;
pub use engine::worktree::prune::Expire;
use engine::worktree::{
    admin::Found,
    prune::{self, Verdict},
};
use sys::by_path;

use super::records::Worktrees;
use crate::{Error, Events, PlanError, Repository, RunError, locks, text, trash};

/// The options of a prune.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The age from which a worktree that is gone is pruned.
    pub expire: Expire,
}

impl Default for Request {
    fn default() -> Request {
        Request { expire: Expire::Now }
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The names of the records that were removed.
    pub removed: Vec<OsString>,
    /// The names of those that could not be removed. Notices say why.
    pub kept: Vec<OsString>,
}

/// The records to remove.
pub struct Plan<'r> {
    repository: &'r Repository,
    records: Vec<Stale>,
}

/// Finds the records. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    Ok(Plan { repository, records: find(repository.inner.common_dir(), request) })
}

impl Plan<'_> {
    /// Returns the records, in the order in which they are removed.
    pub fn records(&self) -> &[Stale] {
        &self.records
    }

    /// Removes the records that are still the same.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        let mut report = Report::default();
        let mut remove = || -> Result<(), Error> {
            for record in self.records.iter().filter(|record| record.is_stale(&worktrees.common)) {
                let list = if record.remove(&worktrees)? { &mut report.removed } else { &mut report.kept };
                list.push(record.id.clone());
            }
            worktrees.drop_empty_list();
            Ok(())
        };
        let removed = remove();
        trash::empty(&worktrees.common, events.program().as_deref());
        removed?;
        Ok(report)
    }
}

/// Each record with its reason, in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records.iter().try_for_each(|record| writeln!(formatter, "{}", record.text()))
    }
}

/// The record of a worktree that is gone, or that another record names.
pub struct Stale {
    /// Its name.
    pub id: OsString,
    /// Git's reason.
    pub reason: String,
    found: Arc<Found>,
    cause: Cause,
}

/// The cause of a removal, which is checked again right before it.
enum Cause {
    /// The worktree is gone. It is pruned from this age on.
    Gone(Expire),
    /// Another record names the same worktree and stays: its place and state; `None` for the main
    /// worktree.
    Duplicate(Option<(PathBuf, Arc<Found>)>),
}

impl Stale {
    /// Returns Git's text about the removal.
    pub fn text(&self) -> BString {
        text!("Removing worktrees/", self.id.as_bytes(), ": ", self.reason)
    }

    /// Returns false if the worktree is there again or was locked, or if the record is no duplicate
    /// any more: the other one was removed and made again meanwhile.
    pub fn is_stale(&self, common: &Path) -> bool {
        match &self.cause {
            Cause::Gone(expire) => matches!(prune::verdict(common, &self.id, *expire), Verdict::Prune(_)),
            Cause::Duplicate(other) => other.as_ref().is_none_or(|(place, found)| found.is_at(place)),
        }
    }

    /// Removes the record if it is still the same. Returns false if it stays; the reason was
    /// reported.
    pub fn remove(&self, worktrees: &Worktrees<'_>) -> Result<bool, Error> {
        worktrees.delete_admin(&self.id, &self.found)
    }
}

/// A record that stays, unless it is a duplicate.
struct Kept {
    /// The file `.git` of the worktree; of the main worktree, its Git directory.
    gitfile: PathBuf,
    /// Its name and state; `None` for the main worktree.
    record: Option<(OsString, Arc<Found>)>,
}

/// Finds the records to remove from the common directory `common`. If several records name one
/// worktree, the first one stays; the main worktree precedes all.
pub fn find(common: &Path, request: Request) -> Vec<Stale> {
    let all = common.join("worktrees");
    let Ok(names) = by_path::list(&all) else { return Vec::new() };
    let mut stale = Vec::new();
    let mut kept = vec![Kept { gitfile: common.to_owned(), record: None }];
    for (id, _) in names {
        let found = Arc::new(Found::at(&all.join(&id)));
        if let Found::Missing = *found {
            continue;
        }
        match prune::verdict(common, &id, request.expire) {
            Verdict::Prune(reason) => {
                stale.push(Stale { id, reason, found, cause: Cause::Gone(request.expire) })
            }
            Verdict::Keep(Some(gitfile)) => kept.push(Kept { gitfile, record: Some((id, found)) }),
            Verdict::Keep(None) => {}
        }
    }
    kept.sort_by_cached_key(|kept| {
        (kept.gitfile.as_os_str().to_owned(), kept.record.as_ref().map(|(id, _)| id.clone()))
    });
    for pair in kept.windows(2) {
        if let [before, Kept { gitfile, record: Some((id, found)) }] = pair
            && before.gitfile.as_os_str() == gitfile.as_os_str()
        {
            let (id, found, reason) = (id.clone(), Arc::clone(found), "duplicate entry".to_owned());
            let other = before.record.as_ref().map(|(other, found)| (all.join(other), Arc::clone(found)));
            stale.push(Stale { id, reason, found, cause: Cause::Duplicate(other) });
        }
    }
    stale
}
