//! The worktree of a new clone.
//!
//! Order: settings of the new repository; advice; files that arrived with the objects; the others,
//! as in `checkout`; the `post-checkout` hook. The clone stays after any failure.

use std::time::Instant;

use engine::clone::{Cloned, Worktree};
use repo::keys;
use sapwood::{
    ObjectId,
    clone::{self, Checkout},
    transaction,
};

use super::report;
use crate::{
    commands::checkout::branch::DETACHED,
    session::{
        Session, hooks,
        index::Done,
        invocation::{Invocation, Program},
        settings::Settings,
    },
    term::{
        console::{self, text},
        failure::Failure,
        notice,
    },
};

/// A worktree that was not filled, which has been said.
pub(super) struct Unfilled {
    pub(super) failure: Failure,
    /// A later run of the command can finish it: the obstacle may be removed, the filter mended,
    /// the disk answer.
    is_resumable: bool,
}

impl<E: Into<Failure>> From<E> for Unfilled {
    fn from(error: E) -> Unfilled {
        Unfilled { failure: error.into(), is_resumable: true }
    }
}

/// Fills the worktree, and publishes the clone unless it can be resumed. Returns the exit code.
pub(super) fn fill_and_publish(run: &Invocation, mut cloned: Cloned, verbosity: i32) -> Result<u8, Failure> {
    let filled = fill(run, &mut cloned, verbosity);
    if !matches!(&filled, Err(unfilled) if unfilled.is_resumable) {
        cloned.publish().map_err(|error| report::failure(run, error))?;
    }
    filled.map_err(|unfilled| unfilled.failure)
}

/// Fills the worktree. The clone stays after any failure from here on.
pub(super) fn fill(run: &Invocation, cloned: &mut Cloned, verbosity: i32) -> Result<u8, Unfilled> {
    let oid = match cloned.worktree {
        Worktree::None => return Ok(0),
        Worktree::Nonexistent => {
            console::warning("remote HEAD refers to nonexistent ref, unable to checkout");
            return Ok(0);
        }
        Worktree::Branch(oid) | Worktree::Detached(oid) => oid,
    };
    check_out(run, cloned, oid, verbosity).map_err(|Unfilled { failure, is_resumable }| {
        failure.print();
        console::warning(
            "Clone succeeded, but checkout failed.\n\
             You can inspect what was checked out with 'git status'\n\
             and retry with 'git restore --source=HEAD :/'\n",
        );
        match failure {
            Failure::Signal(_) => Unfilled { failure, is_resumable: true },
            said => Unfilled { failure: Failure::Reported(said.code()), is_resumable },
        }
    })
}

/// Git's message if the worktree of a clone could not be filled.
const UNFILLED: &str = "unable to checkout working tree";

fn check_out(run: &Invocation, cloned: &mut Cloned, oid: ObjectId, verbosity: i32) -> Result<u8, Unfilled> {
    let repo = clone::open(&run.outside(), cloned)?;
    notice::print_object_store_errors(&repo);
    let settings = Settings::read(&repo)?;
    let is_detached = matches!(cloned.worktree, Worktree::Detached(_));
    if is_detached && settings.advises(&repo, keys::advice::DETACHED_HEAD)? {
        console::eprint_line(text!("Note: switching to '", oid.to_string(), "'.\n\n", DETACHED));
    }
    let started = Instant::now();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let checkout = Checkout { commit: oid, progress: verbosity >= 0, keep: run.original_cwd(&repo) };
    let filled = clone::check_out(session.context(run), cloned, checkout);
    let filled = filled.map_err(|transaction::Unfilled { error, is_resumable }| {
        let failure = match Failure::from(*error) {
            // A path no worktree may have.
            failure @ Failure::Refused(..) => {
                failure.print();
                Failure::fatal(UNFILLED)
            }
            failure => failure,
        };
        Unfilled { failure, is_resumable }
    })?;
    let unfilled = |failure| Unfilled { failure, is_resumable: filled.is_resumable };
    let took = started.elapsed().as_secs_f64();
    if !filled.collided.is_empty() {
        let ignore_case = repo.config(&keys::core::IGNORE_CASE).map_err(|error| unfilled(error.into()))?;
        console::warning(report::collisions(filled.collided.clone(), ignore_case));
    }
    if filled.done != Done::Complete {
        return Err(unfilled(Failure::fatal(UNFILLED)));
    }
    if verbosity > 0 && run.program == Program::Sapwood {
        let written = filled.written;
        let rate = written as f64 / took;
        console::eprint_line(format!("Checked out {written} files in {took:.3} s ({rate:.0} files/s)"));
    }
    hooks::post_checkout(&repo, &settings, None, Some(oid), true).map_err(unfilled)
}
