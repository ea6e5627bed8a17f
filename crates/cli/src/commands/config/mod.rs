//! `sapwood config`: reads and changes settings.
//!
//! Order: the command line becomes a [`Job`]; the file that it names; then entries are printed, or
//! one file is changed under its lock. A form or a state that is not served exactly as by Git
//! returns [`Failure::Unserved`] before anything is changed, and the shim starts the real Git.

mod job;
mod location;
mod options;
mod read;
mod url;
mod value;
mod write;

use bstr::BString;

use self::{
    job::{Action, Job},
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
    traits: Traits { anywhere: true, plans_first: true, starts_no_program: true, ..Command::BASE.traits },
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
    let job = Job::parse(args)?;
    let place = run.open_any()?;
    let mut context = location::Context::new(run, &place, job.includes);
    context.choose(&job.location)?;
    match &job.action {
        Action::List => read::list(&context, &job),
        Action::Get(get) => read::get(&context, &job, get),
        Action::Url { section, key, url } => read::url(&context, &job, section.as_ref(), key.as_ref(), url),
        Action::Color { slot, default } => read::color(&context, slot.as_ref(), default.as_ref()),
        Action::ColorBool { slot, is_terminal } => read::color_bool(&context, slot.as_ref(), *is_terminal),
        Action::Change(change) => write::change(&context, &job, change),
        Action::Section { old, new } => write::section(&context, old.as_ref(), new.as_ref()),
    }
}
