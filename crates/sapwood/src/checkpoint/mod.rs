//! Checkpoints: the state of a worktree and its index, as entries that undo and redo restore.
//!
//! Order: the present state as objects, then the ref that makes it an entry, then expired entries.
//! The index and the worktree are not locked and not changed.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, checkpoint::{self, undo}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = checkpoint::Request { label: "before".into(), ..checkpoint::Request::default() };
//! let made = checkpoint::plan(&repository, request)?.run(&Silent)?;
//! println!("checkpoint {}", made.number);
//! undo::plan(&repository, undo::Request::default())?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`undo`]: restores another entry, and goes back;
//! - [`list`]: the entries;
//! - [`fork`]: a workspace that begins with the present state;
//! - [`watch`]: an entry after each change.
//!
//! Design: docs/design/checkpoint.md.

pub mod fork;
mod info;
mod limits;
pub mod list;
mod present;
mod series;
pub mod undo;
pub mod watch;

use bstr::BString;
use engine::checkpoint;
pub use engine::checkpoint::{LeftOut, Reason, State};
use format::index::Index;
use sys::Dir;

pub use info::{Info, Kind, Place};
pub use series::Entry;

use self::{limits::Limits, present::Present, series::Series};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    index, monitor,
    sparse_index::{Expansion, ExpansionHint},
};

/// The options of a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A text that says what the state is.
    pub label: BString,
    /// The command that asked for it.
    pub command: BString,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The number of the entry.
    pub number: u64,
    /// The full name of its ref.
    pub name: BString,
    /// False if the state is that of the entry before.
    pub is_changed: bool,
    /// The paths that the entry does not hold.
    pub left_out: Vec<LeftOut>,
}

/// A checkpoint to make.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    notices: Vec<Notice>,
}

/// Checks that a checkpoint is possible here. Changes nothing. The state is that of the run.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.recording_context(&notices);
    context.repo.work_tree().ok_or(Error::NoWorktree)?;
    Series::find(context.repo)?;
    Limits::read(context.repo)?;
    Ok(Plan { repository, request, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Stores the state of this moment.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(make(self.repository.recording_context(events), self.request)?)
    }
}

/// Makes an entry of the present state.
pub fn make(context: Context<'_>, request: Request) -> Result<Report, Error> {
    Unsaved::look(context, &open_root(context)?)?.save(request)
}

/// The present state, whose objects are staged.
struct Unsaved<'a> {
    context: Context<'a>,
    limits: Limits,
    present: Present<'a>,
    series: Series,
    newest: Option<Entry>,
}

impl<'a> Unsaved<'a> {
    fn look(context: Context<'a>, root: &Dir) -> Result<Unsaved<'a>, Error> {
        let limits = Limits::read(context.repo)?;
        let mut index = read_index(context, root)?;
        let mut present = Present::take(context, root, &mut index, &[])?;
        let series = Series::find(context.repo)?;
        let newest = series.newest(context);
        if let Some(newest) = &newest
            && matches!(newest.info.place, Place::At { .. })
            && newest.state != present.snapshot.state
        {
            // An undo may have restored files that are ignored now. They end no redo.
            let also = untracked_since(context, root, &index, &series, newest);
            if !also.is_empty() {
                let with_ignored = Present::take(context, root, &mut read_index(context, root)?, &also)?;
                if with_ignored.snapshot.state == newest.state {
                    present = with_ignored;
                }
            }
        }
        Ok(Unsaved { context, limits, present, series, newest })
    }

    fn is_changed(&self) -> bool {
        self.newest.as_ref().is_none_or(|newest| newest.state != self.present.snapshot.state)
    }

    fn save(self, request: Request) -> Result<Report, Error> {
        let is_changed = self.is_changed();
        let Unsaved { context, limits, present, mut series, newest } = self;
        let place = match &newest {
            // After an undo, redo stays possible.
            Some(Entry { info: Info { place: place @ Place::At { .. }, .. }, .. }) if !is_changed => *place,
            newest => Place::New { parent: newest.as_ref().map(Entry::place) },
        };
        let info = Info { label: request.label, ..present.info(Kind::Checkpoint, place, &request.command) };
        let tree = present.entry(&present.snapshot.state, &info)?;
        let snapshot = present.publish()?;
        let number = series.append(context, tree, &info, false, &limits)?;
        series.expire(context, &limits, None)?;
        Ok(Report { number, name: series.name_of(number), is_changed, left_out: snapshot.left_out })
    }
}

/// Stores the present state, without a lock.
fn look(context: Context<'_>) -> Result<Present<'_>, Error> {
    let root = open_root(context)?;
    Present::take(context, &root, &mut read_index(context, &root)?, &[])
}

fn open_root(context: Context<'_>) -> Result<Dir, Error> {
    let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
    Dir::open(top).map_err(Error::cannot_open(top))
}

/// Reads the index, full, without a lock, and queries its monitor.
fn read_index(context: Context<'_>, root: &Dir) -> Result<Index, Error> {
    let mut index = index::read_index(context, root, ExpansionHint::Omit, Expansion::AtOnce)?.index;
    monitor::refresh_unwritten(context, &mut index)?;
    Ok(index)
}

/// Returns the untracked files of an entry that exist, and that `index` lacks. An entry that cannot
/// be read is reported, and has none.
fn untracked_since(
    context: Context<'_>,
    root: &Dir,
    index: &Index,
    series: &Series,
    entry: &Entry,
) -> Vec<BString> {
    let found = checkpoint::untracked_since(context.repo, root, index, &entry.state);
    found.unwrap_or_else(|error| {
        let error = series.unreadable(entry.number, error.to_string());
        context.events.notice(Notice::CheckpointLeftOut(error.to_string()));
        Vec::new()
    })
}
