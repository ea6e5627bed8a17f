//! `sapwood update-index`: changes single entries of the index.
//!
//! Order: the lock, if it is free; the index; the actions of the command line from left to right
//! (`line`), each on the result of those before it; paths from standard input; the index as a whole
//! (`whole`); and if anything was changed, the new objects are published and the index file is
//! written. An error that is fatal in Git leaves the index unchanged, and publishes no object.

mod again;
mod info;
mod line;
mod path;
mod probe;
mod update;
mod whole;

use bstr::BString;

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, WRITING},
        record::{Command, Group},
    },
    session::{Session, index::Start, invocation::Invocation, settings::Settings, sparse_index},
    term::{args::Stop, failure::Failure, text::os_error},
};
use line::Action;
use update::Update;

/// The record of `update-index`.
pub(super) const COMMAND: Command = Command {
    name: "update-index",
    summary: "Register file contents in the working tree to the index",
    about: "Changes single entries of the index. It is for scripts. `--refresh` and the paths of `--stdin` \
            are compared in parallel.",
    group: Group::Scripts,
    syntax: &line::Line,
    settings: &[GENERAL],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    checks: &[WRITING],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let actions = line::actions(args);
    if let [Action::Mistake(stop @ Stop::Help(_))] = &actions[..] {
        return Err(stop.clone().into());
    }
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    // Usually nothing changes, and stat data can be determined again.
    let refreshes = |action: &Action| matches!(action, Action::Refresh { .. });
    let is_all = actions.iter().all(|action| refreshes(action) || matches!(action, Action::Set { .. }));
    let settings = if is_all && actions.iter().any(refreshes) {
        settings.for_lookups()
    } else {
        settings.for_recording()
    };
    let mut transaction =
        Session { invocation: run, repository: &repo, settings: &settings }.start(Start::IndexIfFree)?;
    if transaction.state.before.is_none() {
        sparse_index::expand(&repo, &mut transaction.index)?;
    }
    let worktree = transaction.worktree().try_clone();
    let worktree = worktree.map_err(|error| Failure::fatal(os_error(&error)))?;
    let mut update = Update::new(run, &repo, &settings, &worktree, transaction)?;
    for action in actions {
        run.interrupt.check()?;
        update.apply(action)?;
    }
    update.version()?;
    if update.reads_stdin {
        update.paths_from_stdin()?;
    }
    update.finish()
}
