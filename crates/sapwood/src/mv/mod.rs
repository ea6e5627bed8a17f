//! Mv: files and directories get other names, and their entries with them.
//!
//! Planning locks the index and checks each move. The run makes the moves, each in the worktree and
//! then in the index, and writes the index. A refusal precedes the first move.

mod check;

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::mv::Move;
use engine::mv::{self, Kind, Mover, StartError};
use format::index::Index;
use sys::Dir;

use crate::{
    Error, Events, PlanError, Repository, RunError, Silent,
    context::Context,
    events::{Notices, Renaming},
    notice::Notice,
    text,
    transaction::{IndexTransaction, Recorded, Start},
};

/// The moves to make.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths to move, relative to the root of the worktree.
    pub sources: Vec<BString>,
    /// The names of the sources in a directory, one for each: their last components.
    pub names: Vec<BString>,
    /// The new path, with a slash at its end if it must be a directory; empty for the root of the
    /// worktree.
    pub destination: BString,
    /// Replaces files at the new paths.
    pub force: bool,
    /// Leaves out moves that are refused or fail.
    pub skip_errors: bool,
    /// Reports each rename, and each file that is replaced.
    pub verbose: bool,
    /// Reports each check and rename, and makes none.
    pub dry_run: bool,
}

/// The moves to make, with the index locked.
pub struct Plan<'r> {
    repository: &'r Repository,
    examined: Examined<'r>,
    notices: Vec<Notice>,
}

/// Checks the moves, and locks the index.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.recording_context(&notices);
    let transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    let examined = examine(context, transaction, request)?;
    let examined = examined.with_context(repository.recording_context(&Silent));
    Ok(Plan { repository, examined, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the moves, in order.
    pub fn moves(&self) -> &[Move] {
        &self.examined.moves
    }

    /// Reports the notices of the plan, and makes the moves.
    pub fn run(self, events: &impl Events) -> Result<(), RunError> {
        let Plan { repository, examined, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(examined.with_context(repository.recording_context(events)).carry_out()?)
    }
}

/// Moves that are checked, with the index locked.
pub struct Examined<'a> {
    context: Context<'a>,
    transaction: IndexTransaction<'a>,
    worktree: Dir,
    request: Request,
    moves: Vec<Move>,
}

/// Checks the moves. `transaction` has the index, whole and locked.
pub fn examine<'a>(
    context: Context<'a>,
    transaction: IndexTransaction<'a>,
    request: Request,
) -> Result<Examined<'a>, PlanError> {
    let root = context.repo.work_tree().ok_or(Error::NoWorktree)?;
    let worktree = Dir::open(root).map_err(Error::cannot_open(root))?;
    let patterns = transaction.patterns()?;
    let index = &transaction.index;
    let moves = check::moves(&request, &worktree, index, patterns.as_deref(), context.events)?;
    Ok(Examined { context, transaction, worktree, request, moves })
}

impl Examined<'_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Examined<'b> {
        let Examined { transaction, worktree, request, moves, .. } = self;
        Examined { context, transaction: transaction.with_context(context), worktree, request, moves }
    }

    /// Moves files and entries, and writes the index.
    pub fn carry_out(self) -> Result<(), Error> {
        let Examined { context, mut transaction, worktree, request, moves } = self;
        let Context { repo, events, settings, .. } = context;
        let top = repo.work_tree().ok_or(Error::NoWorktree)?;
        let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let mover = Mover::new(repo, top, &worktree, index, settings.big_file_threshold);
        let mut mover = mover.map_err(|error| match error {
            StartError::Guard(error) => Error::from(error),
            StartError::Repo(error) => Error::from(error),
        })?;
        // Directories that were not moved, whose entries stay too.
        let mut left: Vec<Move> = Vec::new();
        for one in moves {
            if one.kind == Kind::Within
                && left.iter().any(|left| is_below(one.from.as_bstr(), left.from.as_bstr()))
            {
                continue;
            }
            if request.dry_run || request.verbose {
                events.renaming(Renaming::Rename, one.from.as_bstr(), one.to.as_bstr());
            }
            if request.dry_run {
                continue;
            }
            if one.kind != Kind::Within {
                context.check_interrupt()?;
            }
            match mover.carry_out(&one) {
                Ok(()) => {}
                Err(mv::Error::Rename(_)) if request.skip_errors => left.push(one),
                Err(mv::Error::Rename(error)) => {
                    let reason = sys::reason(&error);
                    return Err(Error::Failed(text!("renaming '", one.from, "' failed: ", reason)));
                }
                Err(mv::Error::Path(to)) => {
                    events.notice(Notice::NotStaged(text!("invalid path '", to, "'")));
                    return Err(Error::Failed(text!("renaming '", one.from, "' failed")));
                }
                Err(mv::Error::Guard(error)) => return Err(error.into()),
            }
        }
        let changed = mover.is_changed() || transaction.state.differs_on_disk;
        transaction.index = mover.into_index();
        transaction.finish(if changed { Recorded::Yes } else { Recorded::No })
    }
}

fn is_below(path: &BStr, directory: &BStr) -> bool {
    path.strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
}
