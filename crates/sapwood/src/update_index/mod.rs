//! Single entries of the index, as scripts change them.
//!
//! Planning locks the index, and changes it in memory: each change sees the ones before it. New
//! objects are files that no reader sees. The run publishes them, and writes the index. After an
//! error, no object is published and the index is as it was.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, update_index::{self, Change, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let changes = vec![Change::Path("src/main.rs".into())];
//! let plan = update_index::plan(&repository, Request { changes, ..Request::default() })?;
//! assert!(plan.run(&Silent)?.is_complete());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod path;
pub mod probe;
mod update;
mod whole;

use bstr::BString;
pub use engine::add::{Allow, Finding, RefreshOptions};
use engine::pathspec::Pathspecs;
use format::{ObjectId, index::Stage};
use store::objects::ObjectTransaction;

use crate::{
    Events, Notice, PlanError, Repository, RunError, Silent,
    events::Notices,
    settings::Settings,
    transaction::{IndexTransaction, Start},
};
pub use update::{Update, prepare};
pub use whole::{Changed, Whole};

/// One change of the index. Paths are relative to the root of the worktree.
#[derive(Clone, Debug)]
pub enum Change {
    /// Rules for the later changes.
    Rules(Rules),
    /// Stat data of all entries.
    Refresh {
        /// Also those of entries that are assumed unchanged.
        really: bool,
    },
    /// The file of this path.
    Path(BString),
    /// The files of merged entries that differ from HEAD and that these pathspecs select.
    Again(Pathspecs),
    /// This entry; the object need not exist.
    Entry(NewEntry),
    /// The stages that these paths had before they were resolved.
    Unresolve(Vec<BString>),
    /// Forgets the stages of all resolved paths.
    ForgetResolved,
}

/// An entry that a caller gives.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Its path.
    pub path: BString,
    /// Its mode, as Git prints it in octal digits.
    pub mode: u32,
    /// Its object.
    pub oid: ObjectId,
    /// Its stage.
    pub stage: Stage,
}

/// The rules for paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The entries that may be added.
    pub allow: Allow,
    /// Remove the entries of missing files.
    pub remove: bool,
    /// Remove the entries of all paths.
    pub force_remove: bool,
    /// Store no content.
    pub info_only: bool,
    /// Report each change: see [`Events::staged`].
    pub verbose: bool,
    /// Do not report files that differ from their entries.
    pub quiet: bool,
    /// Keep entries that have the skip-worktree flag.
    pub ignore_skipped: bool,
    /// Only set or clear the assume-unchanged flag.
    pub assume_valid: Option<bool>,
    /// Only set or clear the skip-worktree flag.
    pub skip_worktree: Option<bool>,
    /// Only set or clear the mark that the monitor reported no change.
    pub fsmonitor_valid: Option<bool>,
    /// The new executable bit of the paths.
    pub chmod: Option<bool>,
    /// The entries that a refresh leaves out.
    pub refresh: RefreshOptions,
}

/// The changes, in order, and then those of the index as a whole.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The changes.
    pub changes: Vec<Change>,
    /// The changes of the index as a whole.
    pub whole: Whole,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The entries that a refresh could not update.
    pub findings: Vec<Finding>,
    /// A refresh could not update an entry, or a path has no stages to restore.
    pub has_errors: bool,
}

impl Report {
    /// Returns true if each change was made.
    pub fn is_complete(&self) -> bool {
        !self.has_errors
    }
}

/// The changed index, with its file locked.
pub struct Plan<'r> {
    repository: &'r Repository,
    changed: Changed<'r>,
    objects: ObjectTransaction<'r>,
    report: Report,
    notices: Vec<Notice>,
}

/// Begins the transaction that takes the new objects of an [`Update`]. Dropping it stores nothing.
pub fn new_objects<'a>(repo: &'a repo::Repository, settings: &'a Settings) -> ObjectTransaction<'a> {
    ObjectTransaction::new(settings.objects(repo))
}

/// Locks the index, and makes the changes in memory.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.recording_context(&notices);
    let mut transaction = IndexTransaction::start(context, Start::IndexOnly { dry_run: false })?;
    let worktree = prepare(&mut transaction)?;
    let lasting = repository.recording_context(&Silent);
    let objects = new_objects(lasting.repo, lasting.settings);
    let mut update = Update::new(&worktree, transaction, &objects)?;
    let mut report = Report::default();
    for change in request.changes {
        report.findings.extend(update.apply(change)?);
    }
    update.apply_whole(&request.whole)?;
    report.has_errors = update.has_errors;
    let changed = update.finish().with_context(lasting);
    Ok(Plan { repository, changed, objects, report, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns true if the index will be written.
    pub fn is_changed(&self) -> bool {
        self.changed.is_changed()
    }

    /// Reports the notices, publishes the objects, and writes the index if it has changed.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, changed, objects, report, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        if changed.is_changed() {
            changed.with_context(repository.recording_context(events)).write(objects)?;
        }
        Ok(report)
    }
}
