//! Add: the content of worktree files in the index.
//!
//! Planning locks the index, and finds the files that differ from it. The run reads, converts and
//! compresses them in parallel; their objects become visible together, and reach the disk before
//! the index does.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, add};
//!
//! fn add_everything(repository: &Repository) -> Result<(), Box<dyn std::error::Error>> {
//!     let report = add::plan(repository, add::Request::default())?.run(&Silent)?;
//!     assert!(report.is_complete());
//!     Ok(())
//! }
//! ```

pub mod check;
mod refresh;
mod scan;

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::checkout::{ChangeKind, ChangedEntry};
use engine::{
    checkout,
    ignore::check::{Checker, Sources},
    pathspec::{Matched, Pathspecs, Seen},
    sparse::Patterns,
    status::Worktree,
};
use format::{Mode, index::Index};
use repo::keys;
use sys::Dir;

pub use crate::stage::Options;
use crate::{
    Error, Events, PlanError, Repository, RunError, Silent,
    advice::{self, is_inside},
    context::Context,
    events::Notices,
    monitor::{self, WriteIndex},
    notice::Notice,
    stage::{Put, Stage},
    status::messages,
    text,
    transaction::{IndexTransaction, Recorded, Start},
};
use check::{OutsideMatches, is_outside};
use scan::ScanScope;

/// The files to add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Tracked files that have changed, and new files.
    #[default]
    Add,
    /// Tracked files that have changed (`-u`).
    Update,
    /// All tracked files, with normalized line endings (`--renormalize`).
    Renormalize,
    /// Stat data only (`--refresh`).
    Refresh,
}

/// The executable bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executable {
    /// `+x`
    Set,
    /// `-x`
    Cleared,
}

/// The options of an add.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths to add; all of them if empty.
    pub pathspecs: Pathspecs,
    /// The files to add.
    pub task: Task,
    /// How they are put into the index.
    pub options: Options,
    /// A pathspec that matches no tracked file is an error.
    pub must_be_tracked: bool,
    /// The new executable bit of the paths.
    pub chmod: Option<Executable>,
    /// Says nothing about repositories that are added as submodules.
    pub allows_embedded: bool,
    /// A pathspec may match nothing; it is reported if it is ignored.
    pub ignore_missing: bool,
}

/// The result of an add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Some files could not be added. Their errors were reported.
    pub has_failures: bool,
    /// Pathspecs matched ignored files, or only paths outside of the sparse checkout.
    pub has_refusals: bool,
    /// The executable bit of a path that is no file could not be changed.
    pub has_wrong_modes: bool,
}

impl Report {
    /// Returns true if everything that was asked for is in the index.
    pub fn is_complete(self) -> bool {
        self == Report::default()
    }
}

/// The files to add, with the index locked.
pub struct Plan<'r> {
    repository: &'r Repository,
    examined: Examined<'r>,
    notices: Vec<Notice>,
}

/// Finds the files to add, and locks the index.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.recording_context(&notices);
    let transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    let examined = examine(context, transaction, request)?;
    let examined = examined.with_context(repository.recording_context(&Silent));
    Ok(Plan { repository, examined, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the paths of new files, and of tracked files that may differ from the index.
    pub fn paths(&self) -> impl Iterator<Item = &BStr> {
        let Worktree { changes, found, .. } = &self.examined.found;
        let changed = changes.iter().map(|change| change.path.as_bstr());
        changed.chain(found.untracked.iter().map(|path| path.as_bstr()))
    }

    /// Reports the notices of the plan, and puts the files into the index.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, examined, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(examined.with_context(repository.recording_context(events)).stage()?)
    }
}

/// An add whose files are known, and whose index is locked.
pub struct Examined<'a> {
    adding: Adding<'a>,
    transaction: IndexTransaction<'a>,
    found: Worktree,
    /// Ignored paths that a pathspec names.
    ignored: Vec<BString>,
    /// The files to normalize.
    tracked: Vec<BString>,
    /// The index differs from its file.
    changed: bool,
    report: Report,
    /// For [`Task::Refresh`], the entries that differ from their files.
    pub differing: Vec<ChangedEntry>,
}

/// The values that all steps need.
struct Adding<'a> {
    context: Context<'a>,
    worktree: Dir,
    request: Request,
    /// The sparse patterns, if the worktree is sparse.
    patterns: Option<Arc<Patterns>>,
}

/// Finds the files to add. `transaction` has the index, whole and locked.
pub fn examine<'a>(
    context: Context<'a>,
    mut transaction: IndexTransaction<'a>,
    request: Request,
) -> Result<Examined<'a>, Error> {
    let repo = context.repo;
    let root = repo.work_tree().ok_or(Error::NoWorktree)?;
    let worktree = Dir::open(root).map_err(Error::cannot_open(root))?;
    check::must_not_be_behind_links(&worktree, &request.pathspecs)?;
    check::submodules(repo, &transaction.index, &request.pathspecs)?;
    let patterns = transaction.patterns()?;
    let adding = Adding { context, worktree, request, patterns };
    let worth = monitor::refresh(context, &mut transaction.index)?;
    let mut changed = transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
    let mut report = Report::default();
    let (mut differing, mut tracked) = (Vec::new(), Vec::new());
    let mut found = match adding.request.task {
        Task::Add => adding.scan(&transaction.index, ScanScope::All)?,
        Task::Update => adding.scan(&transaction.index, ScanScope::Tracked)?,
        Task::Renormalize => Worktree::default(),
        Task::Refresh => {
            let pathspecs = &adding.request.pathspecs;
            let index = &mut transaction.index;
            let refreshed = checkout::refresh_selected(repo, &adding.worktree, index, pathspecs)?;
            changed |= refreshed.has_news;
            differing = refreshed.changes;
            Worktree::default()
        }
    };
    let mut ignored = Vec::new();
    if adding.request.task != Task::Refresh {
        ignored = adding.unmatched(&transaction, &mut found, &mut report)?;
        if let Some(cache) = found.found.cache.take() {
            transaction.index.untracked = Some(cache);
        }
        for &at in &found.proven_clean {
            changed |= transaction.index.set_fsmonitor_valid(at);
        }
        if adding.request.task == Task::Renormalize {
            tracked = adding.tracked_files(&transaction);
        }
        messages::about_worktree(&transaction.index, &adding.request.pathspecs, &found, context.events);
        if adding.request.must_be_tracked {
            adding.must_be_tracked(&transaction.index)?;
        }
    }
    Ok(Examined { adding, transaction, found, ignored, tracked, changed, report, differing })
}

impl Examined<'_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Examined<'b> {
        let Examined { adding, transaction, found, ignored, tracked, changed, report, differing } = self;
        let Adding { worktree, request, patterns, .. } = adding;
        let adding = Adding { context, worktree, request, patterns };
        let transaction = transaction.with_context(context);
        Examined { adding, transaction, found, ignored, tracked, changed, report, differing }
    }

    /// Puts the files into the index, publishes the objects, and then writes the index if it has
    /// changed.
    pub fn stage(self) -> Result<Report, Error> {
        let Examined { adding, mut transaction, found, ignored, tracked, mut changed, mut report, .. } = self;
        let mut objects = None;
        if adding.request.task == Task::Refresh {
            report.has_refusals |= adding.unmatched_of_refresh(&transaction)?;
        } else {
            let index = std::mem::replace(&mut transaction.index, Index::empty(adding.context.repo.hash()));
            let before = transaction.state.before.take();
            let (patterns, options) = (adding.patterns.clone(), adding.request.options);
            let mut stage = Stage::new(adding.context, &adding.worktree, index, before, patterns, options)?;
            let put = match adding.request.task {
                Task::Renormalize => stage.renormalize(&tracked)?,
                _ => stage.update(&found.changes, &adding.request.pathspecs)?,
            };
            report.note(put);
            adding.new_files(&mut stage, &found.found.untracked, &ignored, &mut report)?;
            if let Some(executable) = adding.request.chmod {
                report.has_wrong_modes |= !adding.chmod(&mut stage, executable);
            }
            stage.publish_attributes()?;
            let Stage { staging, objects: new, before, .. } = stage;
            changed |= staging.is_changed();
            transaction.state.before = before;
            transaction.index = staging.into_index();
            objects = Some(new);
        }
        adding.context.check_interrupt()?;
        transaction.finish_with(if changed { Recorded::Yes } else { Recorded::No }, objects)?;
        Ok(report)
    }
}

impl Report {
    fn note(&mut self, put: Put) {
        self.has_failures |= put == Put::Some;
    }
}

impl Adding<'_> {
    /// Returns an error for a pathspec that matches nothing, and prints advice for those that match
    /// only entries outside the sparse checkout. Returns the ignored paths that a pathspec names.
    fn unmatched(
        &self,
        transaction: &IndexTransaction<'_>,
        found: &mut Worktree,
        report: &mut Report,
    ) -> Result<Vec<BString>, Error> {
        let mut ignored = std::mem::take(&mut found.found.ignored);
        if self.request.pathspecs.is_empty() {
            return Ok(ignored);
        }
        let mut seen = Seen::default();
        found.found.untracked.retain(|path| match path.strip_suffix(b"/") {
            Some(path) => self.request.pathspecs.matches_in_turn(path.as_bstr(), Mode::GITLINK, &mut seen),
            None => self.request.pathspecs.matches_in_turn(path.as_bstr(), Mode::FILE, &mut seen),
        });
        // Git matches against its sparse index, unless it was expanded.
        let index = transaction.state.before.as_ref().unwrap_or(&transaction.index);
        let patterns = self.patterns.as_deref();
        check::match_entries(index, &self.request.pathspecs, patterns, &mut seen);
        let mut outside = OutsideMatches { index, pathspecs: &self.request.pathspecs, patterns, seen: None };
        let mut outside_specs = Vec::new();
        for one in self.request.pathspecs.uses(&seen) {
            if one.excludes || one.matched != Matched::Nothing {
                continue;
            }
            if !self.request.options.sparse && outside.has(one.number) {
                outside_specs.push(one.original);
                continue;
            }
            if one.pattern.is_empty() || !one.is_pattern && self.is_there(one.pattern) {
                continue;
            }
            if !self.request.ignore_missing {
                let message = text!("pathspec '", one.original, "' did not match any files");
                return Err(Error::Failed(message));
            }
            if self.is_ignored(&transaction.index, one.pattern)? {
                ignored.push(one.pattern.to_owned());
            }
        }
        advice::about_outside(self.context, &outside_specs)?;
        report.has_refusals |= !outside_specs.is_empty();
        Ok(ignored)
    }

    fn is_there(&self, path: &BStr) -> bool {
        let is_directory = path.ends_with(b"/");
        let found = self.worktree.stat(path.strip_suffix(b"/").unwrap_or(path)).ok().flatten();
        found.is_some_and(|stat| !is_directory || stat.file_type == sys::FileType::Directory)
    }

    fn is_ignored(&self, index: &Index, path: &BStr) -> Result<bool, Error> {
        let repo = self.context.repo;
        let mut sources = Sources::default();
        if !self.request.options.force {
            sources.add_standard(repo, "info/exclude".into())?;
        }
        let mut checker = Checker::new(repo, Some(&self.worktree), Some(index), sources)?;
        Ok(checker.find(path, None).is_some_and(|found| !found.negative))
    }

    /// `-u`: returns an error unless each pathspec matches a tracked file.
    fn must_be_tracked(&self, index: &Index) -> Result<(), Error> {
        let mut seen = Seen::default();
        for at in self.request.pathspecs.positions(index) {
            self.request.pathspecs.matches_in_turn(index.path_at(at), index.mode_at(at), &mut seen);
        }
        let unmatched = self.request.pathspecs.uses(&seen).filter(|one| one.matched == Matched::Nothing);
        let unmatched: Vec<BString> = unmatched.map(|one| one.original.to_owned()).collect();
        if unmatched.is_empty() { Ok(()) } else { Err(Error::Unmatched(unmatched)) }
    }

    /// Lists the ignored paths, and adds the new files.
    fn new_files(
        &self,
        stage: &mut Stage<'_>,
        untracked: &[BString],
        ignored: &[BString],
        report: &mut Report,
    ) -> Result<(), Error> {
        if !ignored.is_empty() {
            self.context.events.notice(Notice::IgnoredPaths(ignored.to_vec()));
            let message = "Use -f if you really want to add them.";
            advice::advise(self.context, keys::advice::ADD_IGNORED_FILE, message)?;
            report.has_refusals = true;
        }
        let is_meant = |path: &&BString| {
            self.request.options.sparse || is_inside(self.patterns.as_deref(), path.as_bstr())
        };
        let (inside, outside): (Vec<&BString>, Vec<&BString>) = untracked.iter().partition(is_meant);
        let inside: Vec<BString> = inside.into_iter().cloned().collect();
        let (context, warns) = (self.context, !self.request.allows_embedded);
        let mut is_first = true;
        let put = stage.add(&inside, |path| match path.strip_suffix(b"/").filter(|_| warns) {
            Some(path) => embedded(context, path.as_bstr(), std::mem::take(&mut is_first)),
            None => Ok(()),
        })?;
        report.note(put);
        advice::about_outside(self.context, &outside)?;
        report.has_refusals |= !outside.is_empty();
        Ok(())
    }

    /// Sets or clears the executable bit of the selected entries. Returns true if all are files.
    fn chmod(&self, stage: &mut Stage<'_>, executable: Executable) -> bool {
        if self.request.pathspecs.is_empty() {
            return true;
        }
        let (flip, mode) = match executable {
            Executable::Set => ("+x", Mode::EXECUTABLE),
            Executable::Cleared => ("-x", Mode::FILE),
        };
        let index = stage.staging.index();
        let mut selected = Vec::new();
        for entry in self.request.pathspecs.positions(index).map(|at| index.entry(at)) {
            let path = index.path(&entry);
            let is_meant =
                self.request.options.sparse || !is_outside(index, &entry, self.patterns.as_deref());
            if is_meant && self.request.pathspecs.matches_entry(path, entry.mode, &mut Seen::default()) {
                selected.push((path.to_owned(), entry.mode.is_file(), entry.stage));
            }
        }
        let mut are_files = true;
        for (path, is_file, of) in selected {
            if !is_file {
                let wrong = text!("cannot chmod ", flip, " '", path, "'");
                self.context.events.notice(Notice::NotStaged(wrong));
                are_files = false;
            } else if !self.request.options.dry_run {
                stage.staging.alter_stage(path.as_bstr(), of, |entry| entry.mode = mode);
            }
        }
        are_files
    }
}

/// Warns of a repository that was added as a submodule without a URL.
fn embedded(context: Context<'_>, path: &BStr, is_first: bool) -> Result<(), Error> {
    context.events.notice(Notice::EmbeddedRepository(path.to_owned()));
    if !is_first {
        return Ok(());
    }
    let message = text!(
        "You've added another git repository inside your current repository.\n\
         Clones of the outer repository will not contain the contents of\n\
         the embedded repository and will not know how to obtain it.\n\
         If you meant to add a submodule, use:\n\
         \n\
         \tgit submodule add <url> ",
        path,
        "\n\
         \n\
         If you added this path by mistake, you can remove it from the\n\
         index with:\n\
         \n\
         \tgit rm --cached ",
        path,
        "\n\
         \n\
         See \"git help submodule\" for more information."
    );
    advice::advise(context, keys::advice::ADD_EMBEDDED_REPO, message)
}
