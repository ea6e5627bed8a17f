//! Clean: removal of untracked files.
//!
//! Planning finds the paths. Tracked files are never among them. A directory stays if it holds an
//! ignored file, another repository, or the directory to keep. The run leaves out what the index
//! has by then, removes each other path in parallel, whatever it holds, and never the repository
//! itself.

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::clean::{Event, Outcome, Repositories};
use engine::{
    checkout::Workers,
    clean::{self, Act},
    pathspec::Pathspecs,
    untracked::{self, Excludes, Nested},
};
use format::index::Index;
use sys::Dir;

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::{Notices, Phase},
    index,
    sparse_index::ExpansionHint,
    trace,
};

/// The ignored files to remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// None.
    #[default]
    Kept,
    /// Ignored files like all others (`-x`): only the rules of the request count.
    Too,
    /// Nothing but ignored files (`-X`).
    Only,
}

/// The options of a clean.
#[derive(Clone, Debug)]
pub struct Request {
    /// The paths to clean; all of them if empty.
    pub pathspecs: Pathspecs,
    /// Removes untracked directories too (`-d`).
    pub directories: bool,
    /// The ignored files to remove.
    pub ignored: Ignored,
    /// Patterns of files that stay, in addition to the ignore rules.
    pub excludes: Vec<BString>,
    /// The policy for other repositories.
    pub repositories: Repositories,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            pathspecs: Pathspecs::default(),
            directories: false,
            ignored: Ignored::default(),
            excludes: Vec::new(),
            repositories: Repositories::Keep,
            keep: None,
        }
    }
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The paths of the plan, sorted, and what became of each.
    pub paths: Vec<(BString, Outcome)>,
}

impl Report {
    /// Returns true if a path could not be removed.
    pub fn is_incomplete(&self) -> bool {
        self.paths.iter().any(|(_, outcome)| outcome.failed)
    }
}

/// The paths to remove.
pub struct Plan<'r> {
    repository: &'r Repository,
    root: Dir,
    found: Found,
    notices: Vec<Notice>,
}

/// Finds the paths to remove. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let root = repository.worktree().ok_or(Error::NoWorktree)?;
    let root = Dir::open(root).map_err(Error::cannot_open(root))?;
    let notices = Notices::default();
    let context = repository.context(&notices);
    let index = index::load_compact(context, &root, ExpansionHint::Print)?;
    let found = find(context, &root, &index, request)?;
    Ok(Plan { repository, root, found, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns what a run would do. Directories are read, and nothing is changed.
    pub fn preview(&self) -> Result<Report, Error> {
        self.found.visit(self.repository.context(&crate::Silent), &self.root, Act::DryRun)
    }

    /// Reports the notices, and removes the paths that are still untracked.
    pub fn run(mut self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let context = self.repository.context(events);
        let index = index::load_compact(context, &self.root, ExpansionHint::Omit)?;
        let mut others = untracked::Others::of(&index);
        self.found.doomed.retain(|path| {
            let is_empty = path.strip_suffix(b"/").is_none_or(|dir| index.range_below(dir.into()).is_empty());
            is_empty && others.is_other(path.as_bstr())
        });
        Ok(self.found.remove(context, &self.root)?)
    }
}

/// The paths to remove, and how.
pub struct Found {
    doomed: Vec<BString>,
    repositories: Repositories,
    keep: Option<BString>,
}

/// Finds the paths that `index` lacks and that the request dooms.
pub fn find(context: Context<'_>, root: &Dir, index: &Index, request: Request) -> Result<Found, Error> {
    let Context { repo, events, interrupt, .. } = context;
    let excludes = match request.ignored {
        Ignored::Too => Excludes::only(repo, &request.excludes)?,
        Ignored::Kept | Ignored::Only => Excludes::standard(repo, &request.excludes)?,
    };
    let options = untracked::Options {
        directories: untracked::Directories::Whole,
        ignored: match (request.ignored, request.directories) {
            (Ignored::Only, _) => untracked::Ignored::Only,
            (_, false) => untracked::Ignored::Left,
            (Ignored::Too, true) => untracked::Ignored::TooWithContents,
            (Ignored::Kept, true) => untracked::Ignored::MatchingWithContents,
        },
        nested: match request.repositories {
            Repositories::Remove => Nested::AsOne,
            Repositories::Keep => Nested::Skipped,
        },
        workers: Workers::Auto,
    };
    let meter = events.begin(Phase::ReadDirectories, 0);
    let (specs, meter) = (&request.pathspecs, meter.as_deref());
    let walked = untracked::walk(repo, root, index, specs, &excludes, &options, interrupt, meter)?;
    trace::walk(1, specs.common_directory(), &walked);
    let warnings = walked.warnings.iter();
    warnings.for_each(|warning| events.notice(Notice::Untracked(warning.message())));
    let directories = if request.directories { clean::Directories::Remove } else { clean::Directories::Keep };
    let doomed = clean::doomed(walked, index, directories, request.ignored == Ignored::Only);
    context.check_interrupt()?;
    events.end(Phase::ReadDirectories);
    Ok(Found { doomed, repositories: request.repositories, keep: request.keep })
}

impl Found {
    /// Removes the paths.
    pub fn remove(&self, context: Context<'_>, root: &Dir) -> Result<Report, Error> {
        self.visit(context, root, Act::Remove)
    }

    /// Returns what [`Found::remove`] would do.
    pub fn preview(&self, context: Context<'_>, root: &Dir) -> Result<Report, Error> {
        self.visit(context, root, Act::DryRun)
    }

    fn visit(&self, context: Context<'_>, root: &Dir, act: Act) -> Result<Report, Error> {
        let Context { repo, events, interrupt, .. } = context;
        let top = repo.work_tree().ok_or(Error::NoWorktree)?;
        let meter = events.begin(Phase::RemoveFiles, 0);
        let options = clean::Options {
            act,
            repositories: self.repositories,
            cwd: self.keep.as_ref().map(|keep| -> &BStr { keep.as_bstr() }),
            workers: Workers::Auto,
            interrupt,
            meter: meter.as_deref(),
        };
        let outcomes = clean::remove(repo, top, root, &self.doomed, &options)?;
        events.end(Phase::RemoveFiles);
        Ok(Report { paths: self.doomed.iter().cloned().zip(outcomes).collect() })
    }
}
