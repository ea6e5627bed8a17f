//! Reports of an operation to its caller: notices, progress, and questions.
//!
//! `plan` has no [`Events`]: its notices are part of the plan, and the caller shows them when it
//! decides to run the plan. So a plan that the caller drops has shown nothing.

use std::{cell::RefCell, path::PathBuf, process::Command, sync::Arc};

use bstr::BStr;
pub use engine::base_transfer::{Phase as TransferPhase, Progress as Step};
use engine::crew::Meter;
use repo::pack_indexing;

use crate::notice::Notice;

/// A phase whose progress can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Comparing index entries with their files. Counts entries.
    RefreshIndex,
    /// Searching for untracked files. Counts directories.
    ReadDirectories,
    /// Removing files. Counts files and directories.
    RemoveFiles,
}

/// The receiver of an operation's reports, on the thread that runs it. Workers only count.
///
/// Each method has a default that does nothing.
pub trait Events {
    /// Receives a notice. None of them stops the operation.
    fn notice(&self, notice: Notice) {
        let _ = notice;
    }

    /// Begins a phase of `total` units. Returns the meter in which the workers count, or `None` if
    /// the caller shows no progress.
    fn begin(&self, phase: Phase, total: usize) -> Option<Arc<Meter>> {
        let _ = (phase, total);
        None
    }

    /// Ends the phase that began last.
    fn end(&self, phase: Phase) {
        let _ = phase;
    }

    /// Begins the steps of a change of the worktree. Returns their counter, or `None` if the caller
    /// shows no progress.
    fn steps(&self) -> Option<Box<dyn Steps>> {
        None
    }

    /// A path was put into the index, or removed from it.
    fn staged(&self, staged: Staged<'_>) {
        let _ = staged;
    }

    /// A file or directory is about to be checked or renamed.
    fn renaming(&self, step: Renaming, from: &BStr, to: &BStr) {
        let _ = (step, from, to);
    }

    /// Begins the building of a base, whose total is known later. `wanted` is the choice of the
    /// request; `None` leaves it to the receiver. Returns the counter, which ends the phase
    /// when it is dropped, or `None` if the caller shows no progress.
    fn adding_base(&self, wanted: Option<bool>) -> Option<Box<dyn Counter>> {
        let _ = wanted;
        None
    }

    /// Begins the transfer of a base, as [`Events::adding_base`] begins its building.
    fn transferring(&self, wanted: Option<bool>) -> Option<Box<dyn Transfer>> {
        let _ = wanted;
        None
    }

    /// Called before objects arrive from another repository. Returns the counters for them, which
    /// the receiver may read at any time, or `None` if the caller shows no progress.
    fn receiving(&self) -> Option<Arc<pack_indexing::Meter>> {
        None
    }

    /// Called before a hook or another program starts, which writes to the same terminal.
    fn before_program(&self) {}

    /// Returns a command that runs the real Git in the repository, for the tasks that Git itself
    /// delegates to another of its commands. `None` if there is no Git.
    fn git(&self) -> Option<Command> {
        None
    }

    /// Returns the path of the program `sapwood`, whose file has that name. With it, an operation
    /// starts processes that outlive the caller: they delete what was discarded, make a base
    /// durable, or keep a namespace alive. Git asks it for the changes of a workspace. Without it,
    /// an operation returns after these steps are done, and a workspace has no such monitor.
    fn program(&self) -> Option<PathBuf> {
        None
    }
}

/// A change of an index by a worktree file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged<'a> {
    /// The content of this file.
    Added(&'a BStr),
    /// The file is gone.
    Removed(&'a BStr),
    /// The executable bit of its entry was set or cleared.
    Executable(&'a BStr, bool),
}

/// A step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renaming {
    /// The check.
    Check,
    /// The rename.
    Rename,
}

/// Counts the files of a change. Called by any thread.
pub trait Steps: Send + Sync {
    /// `done` of `total` files are written or removed.
    fn update(&self, done: usize, total: usize);

    /// A filter delivered files that it had delayed. All other files have begun by then.
    fn filtered(&self, filtered: Filtered);

    /// All `total` files are written or removed.
    fn finish(&self, total: usize);
}

/// Counts the steps of a phase. Called by any thread.
pub trait Counter: Send + Sync {
    /// `done` of `total` steps are done.
    fn update(&self, done: usize, total: usize);
}

/// Shows the transfer of a base.
pub trait Transfer: Send + Sync {
    /// Receives a step. Called by any thread.
    fn step(&self, step: Step);

    /// The transfer has ended: `true` if all of it is done.
    fn end(&self, is_complete: bool);
}

/// The progress of filters that delay files.
#[derive(Clone, Copy, Debug)]
pub struct Filtered {
    /// The number of files of the whole change.
    pub steps: usize,
    /// The number of delayed files that were delivered.
    pub done: usize,
    /// The number of delayed files.
    pub total: usize,
    /// The size in bytes of the files that were delivered.
    pub bytes: u64,
}

/// Receives nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Events for Silent {}

/// Keeps notices for later.
#[derive(Debug, Default)]
pub struct Notices(RefCell<Vec<Notice>>);

impl Notices {
    /// Returns the notices, in order.
    pub fn into_vec(self) -> Vec<Notice> {
        self.0.into_inner()
    }
}

impl Events for Notices {
    fn notice(&self, notice: Notice) {
        self.0.borrow_mut().push(notice);
    }
}
