//! One change of worktree and index, from lock to commit.
//!
//! Order: `index.lock`, loading the index, the plan, the steps, the commit of the resulting index.
//! A refusal, an error while planning, or a signal before the first step leaves everything
//! unchanged and removes the lock. A later signal, or an error that is fatal in Git, stops the
//! steps. The steps completed so far are recorded; then the process ends by the signal or with the
//! error.

mod carry_out;
mod load;
mod plan;
mod record;

use std::{path::PathBuf, sync::Arc};

use bstr::BString;
use engine::{
    checkout::{self, Attributes, ChangedEntry, Force, Links},
    sparse::{self, Patterns},
};
use format::index::{Index, Stage};
use repo::convert::{Delays, Metadata};

use crate::{
    session::{
        Session,
        hooks::Changed,
        monitor,
        sparse_index::{self, Expansion, ExpansionHint, Read},
        submodules::Submodules,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

pub(crate) use load::{load_compact, load_index, load_raw, read_index};
pub(crate) use plan::LockedPlan;

/// A locked index and its worktree, from the lock to the commit.
pub(crate) struct Transaction<'a> {
    session: Session<'a>,
    target: Target,
    /// The rules, which the command sets before it plans.
    pub(crate) policy: Policy<'a>,
    /// The index, as loaded or as last planned.
    pub(crate) index: Index,
    /// The file of the index, and its form.
    pub(crate) state: IndexState,
    submodules: Option<Submodules<'a>>,
    /// The result of the steps.
    pub(crate) report: Report,
}

/// The directory that files are written to.
struct Target {
    root: PathBuf,
    worktree: sys::Dir,
    /// The text before paths in messages.
    prefix: BString,
    /// The text before names on disk.
    lead: BString,
}

/// The rules of a transaction.
pub(crate) struct Policy<'a> {
    dry_run: bool,
    /// Changes that are refused would need a merge, which sapwood does not do here.
    pub(crate) merges: bool,
    /// Set by a clone: see [`Links`].
    links: Links,
    /// True to show `Updating files`.
    pub(crate) progress: bool,
    /// The number of files that a clone wrote while objects arrived. `Updating files` counts them.
    pub(crate) written_ahead: usize,
    /// The source of the files, passed to long-running filters.
    pub(crate) metadata: Metadata,
    /// The moment at which process filters may deliver files.
    pub(crate) delays: Delays,
    /// The place from which attributes are read.
    pub(crate) attributes: Attributes,
    /// True to print no refusals.
    pub(crate) quiet: bool,
    /// True if submodules follow their superproject.
    pub(crate) recurses: bool,
    /// The path of this worktree in its superproject, with a slash at the end, if the superproject
    /// moves it; else empty.
    pub(crate) lead_of_submodule: BString,
    /// The local changes in submodules that may be lost.
    force_on_submodules: Force,
    /// The kind of change that the hook `post-index-change` reports.
    pub(crate) changed: Changed,
    pub(crate) incomplete_steps: IncompleteSteps,
    /// Called after the plan and before the first step: returns an error if a later step, such as a
    /// ref update, would fail.
    pub(crate) preflight: Option<PreflightCheck<'a>>,
}

/// The index file and its format.
pub(crate) struct IndexState {
    lock: Option<store::Lock>,
    /// The error of a lock that was not acquired, to be reported when the index is written.
    unlocked: Option<store::Error>,
    /// A file to write instead of the index file.
    pub(crate) output: Option<PathBuf>,
    /// The format of the file on disk differs from the configured one.
    pub(crate) differs_on_disk: bool,
    /// `Some(true)` to write a split index, `Some(false)` a whole one, `None` to keep its form.
    pub(crate) split: Option<bool>,
    /// The sparse index before the change; `None` once Git would have expanded it.
    pub(crate) before: Option<Index>,
    /// The patterns for writing a sparse index.
    pub(crate) collapse: Collapse,
}

/// The result of the steps.
#[derive(Default)]
pub(crate) struct Report {
    /// The number of entries that were written.
    pub(crate) written: usize,
    /// Paths whose names are equal on this file system.
    collided: Vec<BString>,
    /// The steps ended early: by a signal, or for the reason in `fatal`.
    pub(crate) stopped: bool,
    fatal: Option<String>,
    /// A file could not be removed, and stays.
    pub(crate) was_undeleted: bool,
    /// An untracked file is in the place of an entry, and was kept.
    in_the_way: bool,
}

/// See [`Policy::preflight`].
pub(crate) type PreflightCheck<'a> = Box<dyn FnOnce() -> Result<(), Failure> + 'a>;

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was a dry run: the plan was printed, and nothing was changed.
    Planned,
    /// All steps succeeded.
    Complete,
    /// Some steps failed; their errors have been printed.
    Incomplete,
    /// Like `Incomplete`, and the same command, run again, completes the rest: see
    /// [`IncompleteSteps::Resumable`].
    Unfinished,
}

/// How to record steps that failed and may succeed on a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncompleteSteps {
    /// The index records the planned state, as in Git: a missing file shows as a local change.
    #[default]
    AsLocalChanges,
    /// The index records the completed steps, so that the same command can complete the rest.
    Resumable,
}

/// The result of filling a clone's worktree.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) done: Done,
    /// The number of entries written.
    pub(crate) written: usize,
    /// Paths whose names are equal on this file system.
    pub(crate) collided: Vec<BString>,
}

/// Selects if a change of the index is written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The index is written.
    Yes,
    /// The index is not written: `restore --source` changes the worktree alone.
    No,
}

impl Policy<'_> {
    fn new(dry_run: bool) -> Self {
        Policy {
            dry_run,
            merges: false,
            links: Links::TakePlace,
            progress: false,
            written_ahead: 0,
            metadata: Metadata::default(),
            delays: Delays::Offered,
            attributes: Attributes::default(),
            quiet: false,
            recurses: false,
            lead_of_submodule: BString::default(),
            force_on_submodules: Force::OverwriteUntracked,
            changed: Changed::default(),
            incomplete_steps: IncompleteSteps::default(),
            preflight: None,
        }
    }
}

/// How a transaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With a worktree. A sparse index is expanded.
    Full { dry_run: bool },
    /// With a worktree. A sparse index stays sparse: [`Transaction::perform`] expands what the plan
    /// needs.
    Sparse { dry_run: bool },
    /// Without a worktree. A sparse index stays sparse.
    IndexOnly { dry_run: bool },
    /// Like `IndexOnly`, for a command that may find nothing to write: a lock of another process is
    /// an error only in [`Transaction::finish`].
    IndexIfFree,
    /// Without a lock: the index is only read. It stays sparse.
    Reading,
    /// With an empty index. The old one is not read.
    Empty,
}

impl<'a> Transaction<'a> {
    /// Locks the index and loads it. A dry run takes no lock.
    pub(crate) fn start(session: Session<'a>, start: Start) -> Result<Self, Failure> {
        let Session { repository: repo, settings, .. } = session;
        let dry_run = matches!(
            start,
            Start::Full { dry_run: true }
                | Start::Sparse { dry_run: true }
                | Start::IndexOnly { dry_run: true }
        );
        let root = match start {
            Start::Full { .. } | Start::Sparse { .. } | Start::Reading => {
                repo.work_tree().ok_or_else(Failure::no_worktree)?
            }
            Start::IndexOnly { .. } | Start::IndexIfFree | Start::Empty => {
                repo.work_tree().unwrap_or(repo.git_dir())
            }
        };
        let worktree = sys::Dir::open(root).map_err(Failure::cannot_open(root))?;
        let path = repo.index_path();
        let lock = || store::index::lock(&path, &settings.locks);
        let (lock, unlocked) = match start {
            _ if dry_run => (None, None),
            Start::Reading => (None, None),
            Start::IndexIfFree => lock().map_or_else(|error| (None, Some(error)), |lock| (Some(lock), None)),
            _ => (Some(lock()?), None),
        };
        let Read { mut index, before, differs_on_disk, .. } = match start {
            Start::Empty => {
                Read { index: Index::empty(repo.hash()), before: None, seen: None, differs_on_disk: false }
            }
            _ => read_index(repo, settings, &worktree, ExpansionHint::Print, Expansion::Later)?,
        };
        if matches!(start, Start::Full { .. }) {
            sparse_index::expand(repo, &mut index)?;
        }
        let target =
            Target { root: root.to_owned(), worktree, prefix: BString::default(), lead: BString::default() };
        let state = IndexState {
            lock,
            unlocked,
            output: None,
            differs_on_disk,
            split: settings.index_write.split,
            before,
            collapse: Collapse::Configured,
        };
        Ok(Transaction {
            session,
            target,
            policy: Policy::new(dry_run),
            index,
            state,
            submodules: None,
            report: Report::default(),
        })
    }

    /// Returns true if the index is locked by another process.
    pub(crate) fn is_locked_out(&self) -> bool {
        self.state.unlocked.is_some()
    }

    /// The worktree's root.
    pub(crate) fn worktree(&self) -> &sys::Dir {
        &self.target.worktree
    }

    /// The worktree's root, and the index to change.
    pub(crate) fn worktree_and_index(&mut self) -> (&sys::Dir, &mut Index) {
        (&self.target.worktree, &mut self.index)
    }

    /// Writes files to `place`, if it is `Some`, under names with the prefix `lead`. Paths in
    /// messages get `prefix`.
    pub(crate) fn redirect(&mut self, place: Option<(PathBuf, sys::Dir)>, prefix: &[u8], lead: &[u8]) {
        if let Some(place) = place {
            (self.target.root, self.target.worktree) = place;
        }
        self.policy.attributes = Attributes::Elsewhere;
        (self.target.prefix, self.target.lead) = (prefix.into(), lead.into());
    }

    /// Returns the sparse patterns if the worktree is sparse, and prints Git's warnings about them.
    pub(crate) fn patterns(&self) -> Result<Option<Arc<Patterns>>, Failure> {
        let Some(loaded) = sparse::load(self.session.repository)? else { return Ok(None) };
        loaded.warnings.iter().for_each(console::warning);
        Ok(Some(Arc::new(loaded.patterns)))
    }

    /// Prints `<path>: needs merge` for each unmerged path on standard output.
    pub(crate) fn list_unmerged(&self) {
        let mut last = BString::default();
        for entry in self.index.entries().iter().filter(|entry| entry.stage != Stage::Normal) {
            let path = self.index.path(entry);
            if path != last {
                console::out(text!(path, ": needs merge"));
                last = path.to_owned();
            }
        }
    }

    /// Compares every entry with its file, except those that the file system monitor reports as
    /// unchanged. Marks entries that match, and updates their stat data.
    pub(crate) fn refresh(&mut self) -> Result<Vec<ChangedEntry>, Failure> {
        self.query_monitor()?;
        Ok(checkout::refresh(self.session.repository, &self.target.worktree, &mut self.index)?)
    }

    /// Queries the file system monitor for changed files.
    pub(crate) fn query_monitor(&mut self) -> Result<(), Failure> {
        monitor::refresh(
            self.session.invocation,
            self.session.repository,
            self.session.settings,
            &mut self.index,
        )
        .map(drop)
    }
}

/// The patterns that make an index sparse when it is written.
#[derive(Clone, Debug)]
pub(crate) enum Collapse {
    /// Those of the configuration.
    Configured,
    /// None: the index stays as sparse as it was.
    Kept,
    /// These patterns; `None` writes a full index.
    By(Option<Arc<Patterns>>),
}
