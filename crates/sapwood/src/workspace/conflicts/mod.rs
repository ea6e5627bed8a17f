//! Conflicts between workspaces, before anybody merges: the pairs that touch the same paths, and
//! those that would conflict. Uncommitted work counts.
//!
//! Planning reads only what the workspaces changed, and finds the pairs whose paths overlap. The
//! run gives these pairs to one process of the real Git, which merges in memory. The objects of
//! uncommitted work, and those that Git makes, are in a directory of their own that disappears; no
//! index, ref or object of the repository changes.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::conflicts};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let plan = conflicts::plan(&repository, conflicts::Request::default())?;
//! for pair in plan.run(&Silent)?.pairs {
//!     println!("{} and {}: {} conflicts", pair.names[0], pair.names[1], pair.conflicts.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Design: docs/design/workspace-conflicts.md.

mod merge;
mod overlap;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use bstr::BString;
use engine::{
    tree_cache::TreeCache,
    workspace::record::{self, Workspace},
};
use store::objects::{ObjectTransaction, Options, PackOnAdd, Quarantine};

use self::{
    overlap::Overlap,
    state::{Participant, Source},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, events::Notices, worktree::records::Worktrees,
};

/// The workspaces to compare.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Their names, or those of other linked worktrees; all workspaces if empty.
    pub names: Vec<BString>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The pairs that touch the same paths, in the order of their names.
    pub pairs: Vec<Pair>,
    /// The workspaces that were not examined.
    pub skipped: Vec<Skipped>,
}

/// Two workspaces that touch the same paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Their names.
    pub names: [BString; 2],
    /// The paths that both touch since their merge base. A file that one has in place of a
    /// directory of the other counts.
    pub paths: Vec<BString>,
    /// The paths that Git could not merge.
    pub conflicts: Vec<BString>,
}

/// A workspace that was not examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: BString,
    /// The reason.
    pub reason: String,
}

impl Skipped {
    fn new(name: BString, reason: &Error) -> Skipped {
        Skipped { name, reason: reason.to_string() }
    }
}

/// The pairs whose paths overlap.
pub struct Plan<'r> {
    repository: &'r Repository,
    found: Found,
    notices: Vec<Notice>,
}

/// Finds the pairs whose paths overlap. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let found = Found::of(&worktrees, &request.names)?;
    Ok(Plan { repository, found, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Merges each pair in memory.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        Ok(self.found.merge(&worktrees)?)
    }
}

/// The workspaces, and the pairs whose paths overlap.
pub struct Found {
    participants: Vec<Participant>,
    overlaps: BTreeMap<(usize, usize), Overlap>,
    skipped: Vec<Skipped>,
}

impl Found {
    /// Examines the workspaces with these names, or all of them. One that cannot be examined is
    /// skipped.
    pub fn of(worktrees: &Worktrees<'_>, names: &[BString]) -> Result<Found, Error> {
        let trees = TreeCache::new(worktrees.repo);
        let (mut participants, mut skipped) = (Vec::new(), Vec::new());
        for source in sources(worktrees, names)? {
            worktrees.check_interrupt()?;
            match source.and_then(|source| Participant::of(worktrees, &trees, source)) {
                Ok(participant) => participants.push(participant),
                Err(one) => skipped.push(one),
            }
        }
        participants.sort_by(|one, other| one.name.cmp(&other.name));
        let overlaps = overlap::find(worktrees.repo, &participants)?;
        Ok(Found { participants, overlaps, skipped })
    }

    /// Merges each pair in memory.
    pub fn merge(mut self, worktrees: &Worktrees<'_>) -> Result<Report, Error> {
        let quarantine = Quarantine::create(worktrees.repo.objects_dir())?;
        let fsync = store::Fsync { disabled: true, ..store::Fsync::default() };
        let options = Options { pack_on_add: PackOnAdd::Never, ..Options::new(quarantine.path(), &fsync) };
        let transaction = ObjectTransaction::new(options);
        let trees = TreeCache::new(worktrees.repo);
        let needed = self.overlaps.iter().filter(|(_, overlap)| overlap.needs_merge());
        let involved: BTreeSet<usize> = needed.flat_map(|((one, other), _)| [*one, *other]).collect();
        let mut commits = BTreeMap::new();
        for at in involved {
            worktrees.check_interrupt()?;
            let participant = &self.participants[at];
            match participant.commit(worktrees, &trees, &transaction) {
                Ok(commit) => drop(commits.insert(at, commit)),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => self.skipped.push(Skipped::new(participant.name.clone(), &error)),
            }
        }
        transaction.publish()?;
        let is_known = |at: &usize| self.skipped.iter().all(|one| one.name != self.participants[*at].name);
        let overlaps = self.overlaps.iter().filter(|((one, other), _)| is_known(one) && is_known(other));
        let overlaps: Vec<(&(usize, usize), &Overlap)> = overlaps.collect();
        let merges = overlaps.iter().filter(|(_, overlap)| overlap.needs_merge());
        let merges = merges.map(|((one, other), _)| [commits[one], commits[other]]);
        let mut merged = merge::all(worktrees, &quarantine, &merges.collect::<Vec<_>>())?.into_iter();
        let mut pairs = Vec::new();
        for ((one, other), overlap) in overlaps {
            let conflicts =
                if overlap.needs_merge() { merged.next().unwrap_or_default() } else { Vec::new() };
            let paths: Vec<BString> = overlap.paths.iter().cloned().collect();
            if !(paths.is_empty() && conflicts.is_empty()) {
                let names = [one, other].map(|at| self.participants[*at].name.clone());
                pairs.push(Pair { names, paths, conflicts });
            }
        }
        Ok(Report { pairs, skipped: self.skipped })
    }
}

/// Returns the workspaces and worktrees with these names, or all workspaces. A name that nothing
/// has is an error.
fn sources(worktrees: &Worktrees<'_>, names: &[BString]) -> Result<Vec<Result<Source, Skipped>>, Error> {
    if names.is_empty() {
        let of = |found: Result<Workspace, record::Error>| match found {
            Ok(workspace) => Source::of(worktrees, workspace),
            Err(error) => Err(Skipped::new(name_in(&error), &error.into())),
        };
        let mut all = record::all(&worktrees.common)?;
        // A check of a landing conflicts with the workspace that it checks.
        all.retain(|found| !found.as_ref().is_ok_and(Workspace::is_check));
        return Ok(all.into_iter().map(of).collect());
    }
    let names: BTreeSet<&BString> = names.iter().collect();
    let find = |name: &BString| match record::find(&worktrees.common, sys::os_str(name)) {
        Ok(workspace) => Ok(Source::of(worktrees, workspace)),
        Err(record::Error::Missing(id)) => match worktrees.repo.linked_worktree(&id) {
            Some(worktree) => Ok(Ok(Source::Worktree(worktree))),
            None => Err(record::Error::Missing(id).into()),
        },
        Err(error) => Ok(Err(Skipped::new(name.clone(), &error.into()))),
    };
    names.into_iter().map(find).collect()
}

/// Returns the name of the workspace whose record is damaged.
fn name_in(error: &record::Error) -> BString {
    use std::os::unix::ffi::OsStrExt as _;
    let path = match error {
        record::Error::Io { path, .. } | record::Error::Damaged { path, .. } => path.as_path(),
        _ => std::path::Path::new("?"),
    };
    let name = path.parent().and_then(std::path::Path::file_name).unwrap_or(path.as_os_str());
    name.as_bytes().into()
}
