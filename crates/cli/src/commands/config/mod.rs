//! `sapwood config`: reads and changes settings. See [`sapwood::config`].
//!
//! Order: the command line becomes a [`Job`]; the file that it names; then entries are printed, or
//! one file is changed under its lock.

mod job;
mod location;
mod options;
mod read;
mod write;

use bstr::BString;

use self::{
    job::{Action, Job},
    location::Context,
    options::Forms,
};
use crate::{
    commands::{
        obstacles::{self, LOOKING},
        reason::Reason,
        record::{Command, Group, LineCheck, Traits},
    },
    session::invocation::Invocation,
    term::{args::Survey, failure::Failure},
};

/// The record of `config`.
pub(super) const COMMAND: Command = Command {
    name: "config",
    summary: "Get and set repository or global options",
    about: "Prints and changes settings of the repository, the user or the system, in Git's files and \
            by Git's rules for scopes, includes and types. A change locks the file, writes it anew and \
            renames it.",
    group: Group::Scripts,
    syntax: &Forms,
    traits: Traits { anywhere: true, starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    line: &[LineCheck::new(
        "a mistake in the command line; `--edit`, and types and URLs that sapwood does not read",
        is_complete,
    )],
    checks: &[&[obstacles::RULES]],
    late: &[
        "--worktree in a repository with several worktrees",
        "all files without includes",
        "blobs with mistakes",
        "files of a repository outside of any",
        "files that cannot be read",
        "files with mistakes",
        "invalid settings of locks",
        "listings on a terminal",
        "paths of this form",
        "patterns of this form",
        "the system's configuration",
        "the user's file without a home",
        "two configuration files",
        "values of another type in a blob",
        "values of this type",
    ],
    run,
    ..Command::BASE
};

/// Detects a command line that Git refuses, or invalid combinations of options.
fn is_complete(_: &Survey, args: &[BString]) -> Option<Reason> {
    match Job::parse(args) {
        Ok(_) => None,
        Err(failure) => Some(Reason::refused(&failure)),
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let Job { location, shown, action } = Job::parse(args)?;
    let place = run.open_any()?;
    let context = Context::choose(run, &place, location)?;
    match action {
        Action::List => read::list(context, shown),
        Action::Get { query, all } => read::get(context, shown, query, all),
        Action::Url { section, key, url } => read::url(context, shown, &section, key.as_ref(), &url),
        Action::Color { slot, default } => read::color(context, shown, &slot, default.as_ref()),
        Action::ColorBool { slot, is_terminal } => read::color_bool(context, shown, &slot, is_terminal),
        Action::Change { change, advice } => write::change(context, change, advice),
        Action::Section { old, new } => write::section(context, old, new),
    }
}
