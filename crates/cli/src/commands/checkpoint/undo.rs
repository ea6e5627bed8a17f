//! `undo` and `redo`: restore the state of another entry.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::{
    Error, PlanError,
    checkpoint::undo::{self, Goal, Report},
};
use serde_json::json;

use super::{JSON, QUIET, Request, VERSION, command_line, left_out, open, shown, warn_of};
use crate::{
    commands::{
        record::{Command, Group},
        workspace::context::print_json,
    },
    session::{Session, invocation::Invocation},
    term::{
        args::{Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
    },
};

const HEAD: Opt<Set<Request>> = Opt::flag("--head", "restore HEAD and its branch too", field!(head));

const UNDO_TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood undo [--head] [-q] [--json] [<number> | --to <checkpoint>]"],
    options: &[
        Opt::text("--to <checkpoint>", "restore the checkpoint of this number", field!(to)),
        HEAD,
        QUIET,
        JSON,
    ],
    grammar: Grammar::Mixed,
};

const REDO_TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood redo [--head] [-q] [--json] [<number>]"],
    options: &[HEAD, QUIET, JSON],
    grammar: Grammar::Mixed,
};

/// The record of `undo`.
pub(in crate::commands) const UNDO: Command = Command {
    name: "undo",
    summary: "Restore the state of an earlier checkpoint",
    about: "Gives the worktree and the index the state of an earlier checkpoint, by default the one before. A \
            present state that has no checkpoint gets one first, and counts as one. So nothing is lost: \
            `sapwood redo` goes back, and `sapwood undo --to` goes to any checkpoint that `sapwood checkpoints` \
            lists.\n\n\
            Ignored files stay. HEAD and the branches stay too, unless `--head` is given. A file that is changed by \
            another program meanwhile stays as it is; then the exit code is 1.",
    group: Group::Own,
    syntax: &UNDO_TABLE,
    run: |run, args| start(run, &UNDO_TABLE, args, Goal::Back),
    ..Command::BASE
};

/// The record of `redo`.
pub(in crate::commands) const REDO: Command = Command {
    name: "redo",
    summary: "Go back to where an undo came from",
    about: "Reverts the last undo, or several. After a change there is nothing to redo; the states are still \
            in the list of `sapwood checkpoints`.",
    group: Group::Own,
    syntax: &REDO_TABLE,
    run: |run, args| start(run, &REDO_TABLE, args, Goal::Forward),
    ..Command::BASE
};

/// Runs a command. Returns its exit code.
fn start(
    run: &Invocation,
    table: &Table<Set<Request>>,
    args: &[BString],
    goal: fn(u64) -> Goal,
) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = table.parse(args)?.store(&mut request)?;
    let goal = match (&rest[..], &request.to) {
        ([], None) => goal(1),
        ([steps], None) => goal(number(steps.as_bstr())?),
        ([], Some(to)) => Goal::To(number(to.as_bstr())?),
        _ => return Err(Failure::fatal("give one number, or --to")),
    };
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let keep = run.original_cwd(&repo);
    let wanted = undo::Request { goal, head: request.head, command: command_line(run), keep };
    let prepared = undo::prepare(session.context(run), wanted).map_err(|error| match error {
        PlanError::Failed(error @ (Error::NothingToUndo { .. } | Error::NothingToRedo)) => {
            Failure::error(error.to_string())
        }
        error => error.into(),
    })?;
    run.interrupt.check()?;
    let report = prepared.execute()?;
    tell(&request, &report);
    Ok(u8::from(report.is_incomplete))
}

/// Parses a number, which is at least 1.
fn number(word: &BStr) -> Result<u64, Failure> {
    let number = word.to_str().ok().and_then(|word| word.parse().ok());
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| Failure::fatal(text!("'", word, "' is no number from 1")))
}

fn tell(request: &Request, report: &Report) {
    if request.json {
        print_json(&json!({
            "version": VERSION,
            "reached": report.reached,
            "label": report.label.to_str_lossy(),
            "saved": report.saved,
            "number": report.number,
            "written": report.written,
            "removed": report.removed,
            "complete": !report.is_incomplete,
            "leftOut": left_out(&report.left_out),
        }));
        return;
    }
    let reached = text!("the state of checkpoint ", report.reached.to_string());
    let label = shown(&report.label);
    let reached = if label.is_empty() { reached } else { text!(reached, ": ", label) };
    if report.is_incomplete {
        console::error(text!("not all files have ", reached));
    }
    if request.quiet {
        return;
    }
    warn_of(&report.left_out);
    if let Some(saved) = report.saved {
        console::out(format!("The state before is checkpoint {saved}"));
    }
    if !report.is_incomplete {
        console::out(text!("Now at ", reached));
    }
}
