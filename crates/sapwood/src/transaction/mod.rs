//! One change of worktree and index, from lock to commit.
//!
//! Order: `index.lock`, loading the index, the plan, the steps, the commit of the resulting index.
//! A refusal, an error while planning, or a signal before the first step leaves everything
//! unchanged and removes the lock. A later signal, or an error that is fatal in Git, stops the
//! steps. The steps completed so far are recorded; then the process ends by the signal or with the
//! error.

mod carry_out;
mod plan;
mod record;

use std::{path::PathBuf, sync::Arc};

use bstr::BString;
use engine::{
    checkout::{self, Attributes, ChangedEntry, Force, Links},
    sparse::{self, Patterns},
};
use format::index::Index;
use repo::convert::{Delays, Metadata};

use crate::{
    Context, Error, PlanError,
    hooks::Changed,
    index::read_index,
    monitor,
    notice::Notice,
    sparse_index::{self, Expansion, ExpansionHint, Read},
    submodules::{Mover, Submodules},
};

pub use carry_out::Performed;
pub use plan::LockedPlan;

pub use crate::refused::Refused;

/// A locked index and its worktree, from the lock to the commit.
pub struct IndexTransaction<'a> {
    context: Context<'a>,
    target: Target,
    /// The rules, which the command sets before it plans.
    pub policy: Policy,
    /// The index, as loaded or as last planned.
    pub index: Index,
    /// The file of the index, and its form.
    pub state: IndexState,
    submodules: Option<Submodules<'a>>,
    /// The result of the steps.
    pub report: Report,
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
pub struct Policy {
    /// Changes that are refused would need a merge, which sapwood does not do here.
    pub merges: bool,
    /// Set by a clone: see [`Links`].
    links: Links,
    /// True to report the progress of the steps.
    pub progress: bool,
    /// The number of files that a clone wrote while objects arrived. `Updating files` counts them.
    pub written_ahead: usize,
    /// The source of the files, passed to long-running filters.
    pub metadata: Metadata,
    /// The moment at which process filters may deliver files.
    pub delays: Delays,
    /// The place from which attributes are read.
    pub attributes: Attributes,
    /// True to leave out the paths of a refusal.
    pub quiet: bool,
    /// The directory in which the program was started, relative to the root of the worktree. Git
    /// never removes it.
    pub original_cwd: Option<BString>,
    /// Moves the submodules, which follow their superproject; `None` if they stay.
    pub recurses: Option<Mover>,
    /// The path of this worktree in its superproject, with a slash at the end, if the superproject
    /// moves it; else empty.
    pub lead_of_submodule: BString,
    /// The local changes in submodules that may be lost.
    force_on_submodules: Force,
    /// The kind of change that the hook `post-index-change` reports.
    pub changed: Changed,
    /// How steps that failed are recorded.
    pub incomplete_steps: IncompleteSteps,
}

/// The index file and its format.
pub struct IndexState {
    lock: Option<store::Lock>,
    /// The error of a lock that was not acquired, to be reported when the index is written.
    unlocked: Option<store::Error>,
    /// A file to write instead of the index file.
    pub output: Option<PathBuf>,
    /// The format of the file on disk differs from the configured one.
    pub differs_on_disk: bool,
    /// `Some(true)` to write a split index, `Some(false)` a whole one, `None` to keep its form.
    pub split: Option<bool>,
    /// The sparse index before the change; `None` once Git would have expanded it.
    pub before: Option<Index>,
    /// The patterns for writing a sparse index.
    pub collapse: Collapse,
}

/// The result of the steps.
#[derive(Default)]
pub struct Report {
    /// The number of entries that were written.
    pub written: usize,
    /// Paths whose names are equal on this file system.
    collided: Vec<BString>,
    /// The steps ended early: by a signal, or for the reason in `fatal`.
    pub stopped: bool,
    fatal: Option<String>,
    /// A file could not be removed, and stays.
    pub was_undeleted: bool,
    /// An untracked file is in the place of an entry, and was kept.
    in_the_way: bool,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// All steps succeeded.
    Complete,
    /// Some steps failed; their errors were reported.
    Incomplete,
    /// Like `Incomplete`, and the same command, run again, completes the rest: see
    /// [`IncompleteSteps::Resumable`].
    Unfinished,
}

impl Done {
    /// Returns true if all steps succeeded.
    pub fn is_complete(self) -> bool {
        self == Done::Complete
    }
}

/// How to record steps that failed and may succeed on a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncompleteSteps {
    /// The index records the planned state, as in Git: a missing file shows as a local change.
    #[default]
    AsLocalChanges,
    /// The index records the completed steps, so that the same command can complete the rest.
    Resumable,
}

/// The result of filling a clone's worktree.
#[derive(Debug)]
pub struct Filled {
    /// The result of the steps.
    pub done: Done,
    /// The number of entries written.
    pub written: usize,
    /// Paths whose names are equal on this file system.
    pub collided: Vec<BString>,
    /// A later run can resume the clone: files are missing that can still be written.
    pub is_resumable: bool,
}

/// The failure of filling a clone's worktree.
#[derive(Debug)]
pub struct Unfilled {
    /// The reason.
    pub error: Box<PlanError>,
    /// See [`Filled::is_resumable`].
    pub is_resumable: bool,
}

/// Selects if a change of the index is written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The index is written.
    Yes,
    /// The index is written. Only stat data and cached trees have changed, so a power cut may undo
    /// it.
    Refreshed,
    /// The index is not written: `restore --source` changes the worktree alone.
    No,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            merges: false,
            links: Links::TakePlace,
            progress: false,
            written_ahead: 0,
            metadata: Metadata::default(),
            delays: Delays::Offered,
            attributes: Attributes::default(),
            quiet: false,
            original_cwd: None,
            recurses: None,
            lead_of_submodule: BString::default(),
            force_on_submodules: Force::OverwriteUntracked,
            changed: Changed::default(),
            incomplete_steps: IncompleteSteps::default(),
        }
    }
}

/// How a transaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With a worktree. A sparse index is expanded.
    Full {
        /// True to take no lock: nothing will be written.
        dry_run: bool,
    },
    /// With a worktree. A sparse index stays sparse: [`IndexTransaction::perform`] expands what the
    /// plan needs.
    Sparse {
        /// True to take no lock: nothing will be written.
        dry_run: bool,
    },
    /// Without a worktree. A sparse index stays sparse.
    IndexOnly {
        /// True to take no lock: nothing will be written.
        dry_run: bool,
    },
    /// Like `IndexOnly`, for a command that may find nothing to write: a lock of another process is
    /// an error only in [`IndexTransaction::finish`].
    IndexIfFree,
    /// Without a lock: the index is only read. It stays sparse.
    Reading,
    /// With an empty index. The old one is not read.
    Empty,
}

impl<'a> IndexTransaction<'a> {
    /// Locks the index and loads it. A dry run takes no lock.
    pub fn start(context: Context<'a>, start: Start) -> Result<Self, Error> {
        let Context { repo, settings, .. } = context;
        let dry_run = matches!(
            start,
            Start::Full { dry_run: true }
                | Start::Sparse { dry_run: true }
                | Start::IndexOnly { dry_run: true }
        );
        let root = match start {
            Start::Full { .. } | Start::Sparse { .. } | Start::Reading => {
                repo.work_tree().ok_or(Error::NoWorktree)?
            }
            Start::IndexOnly { .. } | Start::IndexIfFree | Start::Empty => {
                repo.work_tree().unwrap_or(repo.git_dir())
            }
        };
        let worktree = sys::Dir::open(root).map_err(Error::cannot_open(root))?;
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
            _ => read_index(context, &worktree, ExpansionHint::Print, Expansion::Later)?,
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
        Ok(IndexTransaction {
            context,
            target,
            policy: Policy::default(),
            index,
            state,
            submodules: None,
            report: Report::default(),
        })
    }

    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> IndexTransaction<'b> {
        let IndexTransaction { target, policy, index, state, submodules, report, .. } = self;
        let submodules = submodules.map(|submodules| submodules.with_context(context));
        IndexTransaction { context, target, policy, index, state, submodules, report }
    }

    /// The context.
    pub fn context(&self) -> Context<'a> {
        self.context
    }

    /// Returns true if the index is locked by another process.
    pub fn is_locked_out(&self) -> bool {
        self.state.unlocked.is_some()
    }

    /// The worktree's root.
    pub fn worktree(&self) -> &sys::Dir {
        &self.target.worktree
    }

    /// The worktree's root, and the index to change.
    pub fn worktree_and_index(&mut self) -> (&sys::Dir, &mut Index) {
        (&self.target.worktree, &mut self.index)
    }

    /// Writes files to `place`, if it is `Some`, under names with the prefix `lead`. Paths in
    /// messages get `prefix`.
    pub fn redirect(&mut self, place: Option<(PathBuf, sys::Dir)>, prefix: &[u8], lead: &[u8]) {
        if let Some(place) = place {
            (self.target.root, self.target.worktree) = place;
        }
        self.policy.attributes = Attributes::Elsewhere;
        (self.target.prefix, self.target.lead) = (prefix.into(), lead.into());
    }

    /// Returns the patterns of a sparse worktree, and reports Git's warnings about them.
    pub fn patterns(&self) -> Result<Option<Arc<Patterns>>, Error> {
        let Some(loaded) = sparse::load(self.context.repo)? else { return Ok(None) };
        for warning in loaded.warnings {
            self.context.events.notice(Notice::SparsePatterns(warning));
        }
        Ok(Some(Arc::new(loaded.patterns)))
    }

    /// Returns the unmerged paths, in order.
    pub fn unmerged(&self) -> Vec<BString> {
        let mut paths: Vec<BString> =
            self.index.unmerged().map(|at| self.index.path_at(at).to_owned()).collect();
        paths.dedup();
        paths
    }

    /// Compares every entry with its file, except those that the file system monitor reports as
    /// unchanged. Marks entries that match, and updates their stat data.
    pub fn refresh(&mut self) -> Result<Vec<ChangedEntry>, Error> {
        self.query_monitor()?;
        Ok(checkout::refresh(self.context.repo, &self.target.worktree, &mut self.index)?)
    }

    /// Queries the file system monitor for changed files.
    pub fn query_monitor(&mut self) -> Result<(), Error> {
        monitor::refresh(self.context, &mut self.index).map(drop)
    }
}

/// The patterns that make an index sparse when it is written.
#[derive(Clone, Debug)]
pub enum Collapse {
    /// Those of the configuration.
    Configured,
    /// None: the index stays as sparse as it was.
    Kept,
    /// These patterns; `None` writes a full index.
    By(Option<Arc<Patterns>>),
}
