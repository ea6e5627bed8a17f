//! Rm: the removal of files from the index and from the worktree.
//!
//! Planning locks the index, selects the paths, and checks that no content is lost. The run checks
//! each file once more before it removes it, and then writes the index.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, rm};
//!
//! fn remove_file(repository: &Repository, path: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     let pathspecs = repository.pathspecs(&[path])?;
//!     let request = rm::Request { pathspecs, ..rm::Request::default() };
//!     rm::plan(repository, request)?.run(&Silent)?;
//!     Ok(())
//! }
//! ```

mod check;

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::Staging,
    checkout::{self, ChangedEntry},
    pathspec::{Matched, Pathspecs, Seen},
    rm::{self, Outcome},
    sparse::Patterns,
};
use format::index::{Flags, Index};
use sys::Dir;

use crate::{
    Error, Events, PlanError, Repository, RunError, Silent,
    advice::{self, is_inside},
    context::Context,
    events::Notices,
    monitor::{self, WriteIndex},
    notice::Notice,
    text,
    transaction::{IndexTransaction, Recorded, Start},
};
use check::Checked;

pub use crate::refused::Losses;

/// The options of a removal.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths to remove.
    pub pathspecs: Pathspecs,
    /// Keeps the files, and removes the entries only.
    pub cached: bool,
    /// Removes files whose content would be lost.
    pub force: bool,
    /// Removes directories.
    pub recursive: bool,
    /// A pathspec may match nothing.
    pub ignore_unmatch: bool,
    /// Removes entries outside of the sparse checkout too.
    pub sparse: bool,
}

/// The result of a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The paths whose entries were removed.
    pub paths: Vec<BString>,
    /// Files that were changed meanwhile, and stay.
    pub kept: Vec<BString>,
    /// Some pathspecs match only entries outside of the sparse checkout.
    pub has_refusals: bool,
}

/// The paths to remove, with the index locked.
pub struct Plan<'r> {
    repository: &'r Repository,
    examined: Examined<'r>,
    notices: Vec<Notice>,
}

/// Selects the paths, and checks that no content is lost. Locks the index.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.recording_context(&notices);
    let transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    let examined = examine(context, transaction, request)?;
    let examined = examined.with_context(repository.recording_context(&Silent));
    Ok(Plan { repository, examined, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the paths to remove, in order.
    pub fn paths(&self) -> &[BString] {
        self.examined.paths()
    }

    /// Reports the notices of the plan, and removes the paths.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, examined, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(examined.with_context(repository.recording_context(events)).remove()?)
    }
}

/// A removal whose paths are selected and checked, and whose index is locked.
pub struct Examined<'a> {
    removal: Removal<'a>,
    transaction: IndexTransaction<'a>,
    /// The paths, sorted; `None` if no pathspec matches.
    paths: Option<Vec<BString>>,
    checked: Checked,
    /// The index differs from its file.
    has_news: bool,
    has_refusals: bool,
}

/// The values that all steps need.
struct Removal<'a> {
    context: Context<'a>,
    worktree: Dir,
    request: Request,
    patterns: Option<Arc<Patterns>>,
    /// The files that differ from their entries.
    changed: Vec<ChangedEntry>,
}

/// The paths that the pathspecs select.
struct Selected {
    /// `None` if no pathspec matches.
    paths: Option<Vec<BString>>,
    has_refusals: bool,
}

/// Selects and checks the paths. `transaction` has the index, whole and locked.
pub fn examine<'a>(
    context: Context<'a>,
    mut transaction: IndexTransaction<'a>,
    request: Request,
) -> Result<Examined<'a>, PlanError> {
    let repo = context.repo;
    let root = repo.work_tree().ok_or(Error::NoWorktree)?;
    let worktree = Dir::open(root).map_err(Error::cannot_open(root))?;
    let worth = monitor::refresh(context, &mut transaction.index)?;
    let index = &mut transaction.index;
    let refreshed = checkout::refresh_selected(repo, &worktree, index, &request.pathspecs);
    let refreshed = refreshed.map_err(Error::from)?;
    let patterns = transaction.patterns()?;
    let has_news = refreshed.has_news || transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
    let removal = Removal { context, worktree, request, patterns, changed: refreshed.changes };
    let Selected { paths, has_refusals } = removal.select(&mut transaction)?;
    let mut checked = Checked::new();
    if let Some(paths) = &paths {
        checked = removal.check(&transaction.index, paths)?;
        context.check_interrupt()?;
        for path in paths {
            transaction.looks_for(path.as_bstr())?;
        }
    }
    Ok(Examined { removal, transaction, paths, checked, has_news, has_refusals })
}

impl Examined<'_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Examined<'b> {
        let Examined { removal, transaction, paths, checked, has_news, has_refusals } = self;
        let Removal { worktree, request, patterns, changed, .. } = removal;
        let removal = Removal { context, worktree, request, patterns, changed };
        let transaction = transaction.with_context(context);
        Examined { removal, transaction, paths, checked, has_news, has_refusals }
    }

    /// Returns the paths to remove, in order.
    pub fn paths(&self) -> &[BString] {
        self.paths.as_deref().unwrap_or_default()
    }

    /// Returns true if some pathspecs match only entries outside of the sparse checkout.
    pub fn has_refusals(&self) -> bool {
        self.has_refusals
    }

    /// Removes the files, and then the entries. If the first file cannot be removed, nothing is.
    /// Otherwise the index loses all of them, as in Git.
    pub fn remove(self) -> Result<Report, Error> {
        let Examined { removal, mut transaction, paths, checked, has_news, has_refusals } = self;
        let Some(paths) = paths else { return Ok(Report { has_refusals, ..Report::default() }) };
        let context = removal.context;
        let index = std::mem::replace(&mut transaction.index, Index::empty(context.repo.hash()));
        let protect = engine::add::protect(context.repo)?;
        let mut staging = Staging::new(index, protect);
        paths.iter().for_each(|path| staging.remove(path.as_bstr()));
        let mut kept = Vec::new();
        if !removal.request.cached {
            let cwd = transaction.policy.original_cwd.as_ref().map(|cwd| cwd.as_bstr());
            kept = removal.remove_files(&paths, &checked, cwd)?;
        }
        let has_news = has_news || staging.is_changed();
        transaction.index = staging.into_index();
        context.check_interrupt()?;
        transaction.finish(if has_news { Recorded::Yes } else { Recorded::No })?;
        Ok(Report { paths, kept, has_refusals })
    }
}

impl Removal<'_> {
    /// Removes the files at `paths`, which are sorted. Returns those that were changed meanwhile.
    fn remove_files(
        &self,
        paths: &[BString],
        checked: &Checked,
        cwd: Option<&BStr>,
    ) -> Result<Vec<BString>, Error> {
        let Context { repo, events, interrupt, .. } = self.context;
        let top = repo.work_tree().ok_or(Error::NoWorktree)?;
        let plan = rm::Plan { paths, checked: (!self.request.force).then_some(checked), cwd };
        let report = rm::execute(repo, top, &self.worktree, &plan, interrupt)?;
        let (mut is_any_gone, mut kept) = (false, Vec::new());
        for (path, outcome) in paths.iter().zip(&report.outcomes) {
            match outcome {
                Outcome::Gone => is_any_gone = true,
                Outcome::Changed => {
                    let text = text!("'", path, "' was changed meanwhile, and stays in the worktree");
                    events.notice(Notice::NotRemoved(text));
                    kept.push(path.clone());
                }
                Outcome::Failed(error) if !is_any_gone => {
                    return Err(Error::Failed(text!("git rm: '", path, "': ", sys::reason(error))));
                }
                Outcome::Failed(_) => {}
            }
        }
        if report.interrupted {
            self.context.check_interrupt()?;
        }
        Ok(kept)
    }

    /// Selects the paths, in index order. An unmerged path may occur several times, as in Git.
    fn select(&self, transaction: &mut IndexTransaction<'_>) -> Result<Selected, PlanError> {
        let patterns = self.patterns.as_deref();
        if let (Some(before), Some(by)) = (&transaction.state.before, patterns) {
            if self.request.sparse || self.has_wildcards() {
                return Err(PlanError::Unsupported("directories of a sparse index"));
            }
            if self.request.pathspecs.need_full_index(before, by) {
                transaction.needs_full()?;
            }
        }
        let index = &transaction.index;
        let (mut seen, mut paths) = (Seen::default(), Vec::new());
        for at in self.request.pathspecs.positions(index) {
            let entry = index.entry(at);
            let path = index.path(&entry);
            let is_outside = entry.flags.contains(Flags::SKIP_WORKTREE) || !is_inside(patterns, path);
            if is_outside && !self.request.sparse
                || !self.request.pathspecs.matches_in_turn(path, entry.mode, &mut seen)
            {
                continue;
            }
            if entry.mode.is_gitlink() {
                return Err(PlanError::Unsupported("submodules"));
            }
            paths.push(path.to_owned());
        }
        let (mut outside_specs, mut is_any, mut outside) = (Vec::new(), false, None);
        for one in self.request.pathspecs.uses(&seen) {
            if one.matched != Matched::Nothing {
                is_any = true;
            } else if self.request.ignore_unmatch {
                continue;
            } else {
                let looked = transaction.state.before.as_ref().unwrap_or(index);
                let outside = outside.get_or_insert_with(|| self.matches_outside(looked));
                let hit = self.request.pathspecs.uses(outside).nth(one.number);
                if self.request.sparse || hit.is_none_or(|one| one.matched == Matched::Nothing) {
                    let message = text!("pathspec '", one.original, "' did not match any files");
                    return Err(Error::Failed(message).into());
                }
                outside_specs.push(one.original.to_owned());
            }
            if !self.request.recursive && one.matched == Matched::Below {
                let name = if one.original.is_empty() { ".".into() } else { one.original };
                let message = text!("not removing '", name, "' recursively without -r");
                return Err(Error::Failed(message).into());
            }
        }
        advice::about_outside(self.context, &outside_specs)?;
        let has_refusals = !outside_specs.is_empty();
        Ok(Selected { paths: is_any.then_some(paths), has_refusals })
    }

    /// Returns true if a pathspec may have wildcards: Git then expands a sparse index.
    fn has_wildcards(&self) -> bool {
        self.request.pathspecs.patterns().any(|(pattern, _)| pattern.find_byteset("*?[").is_some())
    }

    /// Returns the pathspecs that match entries outside the sparse checkout.
    fn matches_outside(&self, index: &Index) -> Seen {
        let mut seen = Seen::default();
        for entry in index.entries_in(0..index.len()) {
            let path = index.path(&entry);
            if entry.flags.contains(Flags::SKIP_WORKTREE) || !is_inside(self.patterns.as_deref(), path) {
                self.request.pathspecs.matches_in_turn(path, entry.mode, &mut seen);
            }
        }
        seen
    }
}
