//! One change of worktree and index, from lock to commit.
//!
//! Order: `index.lock`, the index, the plan, the steps, the commit of the index as it then is. A
//! refusal, an error while planning, or a signal before the first step leaves everything unchanged
//! and removes the lock. A later signal, or an error of which Git dies, stops the steps. The steps
//! done so far are recorded; then the process ends by the signal or with the error.

mod carry_out;
mod load;
mod plan;
mod record;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::BString;
use engine::{
    checkout::{self, Attributes, ChangedEntry, Force, Links},
    sparse::{self, Patterns},
};
use format::index::{Index, Stage};
use repo::{
    Repository,
    convert::{Delays, Metadata},
};

use crate::{
    session::{
        hooks::Changed,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{self, Fill, Read, Tell},
        submodules::Submodules,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

pub(crate) use load::{load_beside, load_index, load_raw, read_index};

/// A locked index and the worktree it describes.
pub(crate) struct Work<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    dry_run: bool,
    root: PathBuf,
    worktree: sys::Dir,
    lock: Option<store::Lock>,
    /// Why there is no lock, if that is to be said when one is needed.
    unlocked: Option<store::Error>,
    /// Refused changes need a merge, which sapwood does not do here.
    pub(crate) merges: bool,
    /// Set by a clone: see [`Links`].
    links: Links,
    /// Show `Updating files`.
    pub(crate) progress: bool,
    /// The source of the files, for long-running filters.
    pub(crate) metadata: Metadata,
    /// The moment at which process filters may deliver files.
    pub(crate) delays: Delays,
    /// The place from which attributes are read.
    pub(crate) attributes: Attributes,
    /// Say nothing of refusals.
    pub(crate) quiet: bool,
    /// Where the index goes instead of its place.
    pub(crate) output: Option<PathBuf>,
    /// Submodules go along.
    pub(crate) recurses: bool,
    /// The place of this worktree in its superproject, with a slash at the end, if the superproject
    /// moves it.
    pub(crate) lead_of_submodule: BString,
    submodules: Option<Submodules<'a>>,
    /// The local changes that may be lost in submodules.
    force_on_submodules: Force,
    /// The texts before paths in messages, and before names on disk.
    prefix: BString,
    lead: BString,
    /// The index, as loaded or as last planned.
    pub(crate) index: Index,
    /// It is not on disk as the configuration wants it.
    pub(crate) differs_on_disk: bool,
    /// True to write a split index.
    pub(crate) split: Option<bool>,
    /// The sparse index that it was, if Git's would be that still.
    pub(crate) before: Option<Index>,
    /// The patterns by which the index is written sparse.
    pub(crate) collapse: Collapse,
    /// Entries written.
    pub(crate) written: usize,
    /// Paths whose names are the same on this file system.
    collided: Vec<BString>,
    /// The steps ended before their time: by a signal, or for the reason given.
    pub(crate) stopped: bool,
    /// The changes that the hook is told about.
    pub(crate) changed: Changed,
    fatal: Option<String>,
    /// Something that is not ours was found where an entry belongs, and stays.
    in_the_way: bool,
    pub(crate) rest: Rest,
    /// Called after the plan and before the first step: an error if a later change, of refs, would
    /// fail.
    pub(crate) foresee: Option<Foresee<'a>>,
}

/// See [`Work::foresee`].
pub(crate) type Foresee<'a> = Box<dyn FnOnce() -> Result<(), Failure> + 'a>;

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing: it was a dry run, and the plan has been printed.
    Planned,
    /// All.
    Complete,
    /// Some steps failed; their errors have been printed.
    Incomplete,
    /// As `Incomplete`, and the same command, run again, does the rest: see [`Rest::Again`].
    Unfinished,
}

/// The treatment of steps that failed and may succeed the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The index says what should be there, as Git's: what is not is a local change.
    #[default]
    Shown,
    /// The index says what was done, so that the same command does the rest.
    Again,
}

/// The result of filling a clone's worktree.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) done: Done,
    /// Entries written.
    pub(crate) written: usize,
    /// Paths whose names are the same on this file system.
    pub(crate) collided: Vec<BString>,
}

/// Tells if a change of the index is written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It is.
    Yes,
    /// `restore --source` changes the worktree alone.
    No,
}

impl<'a> Work<'a> {
    /// Locks and loads. A dry run takes no lock.
    pub(crate) fn start(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let mut work = Work::start_sparse(run, repo, settings, dry_run)?;
        sparse_index::fill(repo, &mut work.index)?;
        Ok(work)
    }

    /// As [`Work::start`], but a sparse index stays sparse: [`Work::perform`] expands what the plan
    /// needs.
    pub(crate) fn start_sparse(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
        let locking = if dry_run { Locking::Never } else { Locking::Now };
        Work::start_at(root, run, repo, settings, locking, Loaded::Index(Tell::Hint))
    }

    /// Starts a change of the index alone. No worktree is needed. A sparse index stays sparse.
    pub(crate) fn start_index_only(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let root = repo.work_tree().unwrap_or(repo.git_dir());
        let locking = if dry_run { Locking::Never } else { Locking::Now };
        Work::start_at(root, run, repo, settings, locking, Loaded::Index(Tell::Hint))
    }

    /// Like [`Work::start_index_only`], for a command that may find nothing to write:
    /// [`Work::finish`] reports a locked index.
    pub(crate) fn start_index_perhaps(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
    ) -> Result<Self, Failure> {
        let root = repo.work_tree().unwrap_or(repo.git_dir());
        Work::start_at(root, run, repo, settings, Locking::IfFree, Loaded::Index(Tell::Hint))
    }

    /// Returns true if the index is locked by another process.
    pub(crate) fn is_locked_out(&self) -> bool {
        self.unlocked.is_some()
    }

    /// For who only reads the index: it is neither locked nor written, nor made full.
    pub(crate) fn start_reading(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
    ) -> Result<Self, Failure> {
        let mut work = Work::start_sparse(run, repo, settings, true)?;
        work.dry_run = false;
        Ok(work)
    }

    /// For an index made from nothing: the one that is there is not looked at.
    pub(crate) fn start_afresh(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
    ) -> Result<Self, Failure> {
        let root = repo.work_tree().unwrap_or(repo.git_dir());
        Work::start_at(root, run, repo, settings, Locking::Now, Loaded::Nothing)
    }

    fn start_at(
        root: &Path,
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        locking: Locking,
        loaded: Loaded,
    ) -> Result<Self, Failure> {
        let worktree = sys::Dir::open(root).map_err(Failure::cannot_open(root))?;
        let path = repo.index_path();
        let lock = || store::index::lock(&path, &settings.locks);
        let (lock, unlocked) = match locking {
            Locking::Never => (None, None),
            Locking::Now => (Some(lock()?), None),
            Locking::IfFree => lock().map_or_else(|error| (None, Some(error)), |lock| (Some(lock), None)),
        };
        let Read { index, before, differs_on_disk, .. } = match loaded {
            Loaded::Index(tell) => read_index(repo, settings, &worktree, tell, Fill::Later)?,
            Loaded::Nothing => {
                Read { index: Index::empty(repo.hash()), before: None, seen: None, differs_on_disk: false }
            }
        };
        Ok(Work {
            run,
            repo,
            settings,
            dry_run: locking == Locking::Never,
            root: root.to_owned(),
            worktree,
            lock,
            unlocked,
            merges: false,
            links: Links::TakePlace,
            progress: false,
            metadata: Metadata::default(),
            delays: Delays::Offered,
            attributes: Attributes::default(),
            quiet: false,
            output: None,
            recurses: false,
            lead_of_submodule: BString::default(),
            submodules: None,
            force_on_submodules: Force::OverwriteUntracked,
            prefix: BString::default(),
            lead: BString::default(),
            index,
            differs_on_disk,
            split: settings.index_write.split,
            before,
            collapse: Collapse::Configured,
            written: 0,
            collided: Vec::new(),
            stopped: false,
            changed: Changed::default(),
            fatal: None,
            in_the_way: false,
            rest: Rest::default(),
            foresee: None,
        })
    }

    /// The worktree's root.
    pub(crate) fn worktree(&self) -> &sys::Dir {
        &self.worktree
    }

    /// Writes files to `place` if it is given, under names that begin with `lead`. Messages begin
    /// with `prefix`.
    pub(crate) fn go_elsewhere(&mut self, place: Option<(PathBuf, sys::Dir)>, prefix: &[u8], lead: &[u8]) {
        if let Some(place) = place {
            (self.root, self.worktree) = place;
        }
        self.attributes = Attributes::Elsewhere;
        (self.prefix, self.lead) = (prefix.into(), lead.into());
    }

    /// Returns the sparse patterns, if the worktree is sparse, and prints Git's warnings about
    /// them.
    pub(crate) fn patterns(&self) -> Result<Option<Arc<Patterns>>, Failure> {
        let Some(loaded) = sparse::load(self.repo)? else { return Ok(None) };
        loaded.warnings.iter().for_each(console::warning);
        Ok(Some(Arc::new(loaded.patterns)))
    }

    /// `<path>: needs merge` for each unmerged path, on standard output.
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

    /// Compares every entry with its file, except those that the file system monitor vouches for.
    /// Marks entries that match, and updates their stat data.
    pub(crate) fn refresh(&mut self) -> Result<Vec<ChangedEntry>, Failure> {
        self.ask_monitor()?;
        Ok(checkout::refresh(self.repo, &self.worktree, &mut self.index)?)
    }

    /// Asks the file system monitor which files have not changed.
    pub(crate) fn ask_monitor(&mut self) -> Result<(), Failure> {
        monitor::refresh(self.run, self.repo, self.settings, &mut self.index).map(drop)
    }
}

/// When the index is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locking {
    /// Before it is read.
    Now,
    /// So too, unless that cannot be.
    IfFree,
    /// It will not be written.
    Never,
}

/// The index that a change begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loaded {
    Index(Tell),
    Nothing,
}

/// The patterns that make an index sparse when it is written.
#[derive(Clone, Debug)]
pub(crate) enum Collapse {
    /// The configuration.
    Configured,
    /// Nothing: it is as sparse as it was.
    Kept,
    /// These patterns, or it is not.
    By(Option<Arc<Patterns>>),
}
