//! The worktree of a new clone.
//!
//! Order: settings of the new repository; advice; files that arrived with the objects; the others,
//! as in `checkout`; the `post-checkout` hook. The clone stays after any failure.

use std::time::Instant;

use bstr::BStr;
use engine::{
    checkout::{Files, Merge, Operation, PlanOptions, Sparse, Vouched},
    clone::{Cloned, Worktree},
};
use format::ObjectId;
use repo::{Repository, convert::Metadata};

use super::report;
use crate::{
    commands::checkout::branch::DETACHED,
    session::{
        Session,
        apply::{Done, Filled, Start, Transaction},
        hooks,
        invocation::{Invocation, Program},
        settings::Settings,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Fills the worktree. The clone stays after any failure from here on. Sets `resumable` if the same
/// command can finish it later: the obstacle may be removed, the filter mended, the disk answer.
pub(super) fn check_out(
    run: &Invocation,
    cloned: &mut Cloned,
    verbosity: i32,
    resumable: &mut bool,
) -> Result<u8, Failure> {
    let (oid, detached) = match cloned.worktree {
        Worktree::None => return Ok(0),
        Worktree::Nonexistent => {
            console::warning("remote HEAD refers to nonexistent ref, unable to checkout");
            return Ok(0);
        }
        Worktree::Branch(oid) => (oid, false),
        Worktree::Detached(oid) => (oid, true),
    };
    *resumable = true;
    fill(run, cloned, (oid, detached), verbosity, resumable)
        .inspect_err(|failure| {
            failure.print();
            console::warning(
                "Clone succeeded, but checkout failed.\n\
             You can inspect what was checked out with 'git status'\n\
             and retry with 'git restore --source=HEAD :/'\n",
            );
        })
        .map_err(|failure| match failure {
            Failure::Signal(signal) => Failure::Signal(signal),
            said => Failure::Reported(said.code()),
        })
}

/// Git's message if the worktree of a clone could not be filled.
const UNFILLED: &str = "unable to checkout working tree";

fn fill(
    run: &Invocation,
    cloned: &mut Cloned,
    (oid, detached): (ObjectId, bool),
    verbosity: i32,
    resumable: &mut bool,
) -> Result<u8, Failure> {
    let mut repo = Repository::open(&repo::OpenOptions {
        git_dir: Some(cloned.git_dir.clone()),
        work_tree: cloned.work_tree.clone(),
        is_created_by_command: true,
        ..run.outside()
    })?;
    if let Some(before) = cloned.settings.take() {
        repo.restore_startup_settings(before);
    }
    console::print_object_store_errors(&repo);
    let settings = Settings::read(run, &repo)?;
    if detached && settings.advises(&repo, "detachedHead")? {
        console::eprint_line(text!("Note: switching to '", oid.to_string(), "'.\n\n", DETACHED));
    }
    let started = Instant::now();
    let mut transaction = Transaction::start(
        Session { invocation: run, repository: &repo, settings: &settings },
        Start::Full { dry_run: false },
    )?;
    transaction.policy.progress = verbosity >= 0;
    let reference = if detached { None } else { repo.head()?.branch().map(BStr::to_owned) };
    transaction.policy.metadata = Metadata { reference, treeish: Some(oid) };
    let options = PlanOptions {
        merge: Merge::OneWay { target: repo.tree_of(oid)? },
        force: cloned.force,
        files: Files::Update,
        overwrite_ignored: true,
        refresh: false,
        original_cwd: None,
        sparse: Sparse::Configured,
        operation: Operation::Checkout,
        vouched: Vouched::Examined,
    };
    let staged = cloned.staged.take();
    let adopted = staged.map_or(0, |staged| {
        let (worktree, index) = transaction.worktree_and_index();
        staged.adopt(worktree, index)
    });
    transaction.policy.written_ahead = adopted;
    let filled = transaction.fill(&options, resumable).map_err(|failure| match failure {
        // A path no worktree may have: it has been named.
        Failure::Reported(_) => Failure::fatal(UNFILLED),
        failure => failure,
    });
    let Filled { done, written, collided } = filled?;
    let took = started.elapsed().as_secs_f64();
    if !collided.is_empty() {
        console::warning(report::collisions(collided, repo.config_bool("core.ignoreCase")?.unwrap_or(false)));
    }
    if matches!(done, Done::Incomplete | Done::Unfinished) {
        return Err(Failure::fatal(UNFILLED));
    }
    if verbosity > 0 && run.program == Program::Sapwood {
        let written = adopted + written;
        let rate = written as f64 / took;
        console::eprint_line(format!("Checked out {written} files in {took:.3} s ({rate:.0} files/s)"));
    }
    hooks::post_checkout(&repo, &settings, None, Some(oid), true)
}
