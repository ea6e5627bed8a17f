//! `sapwood worktree`: the records of its subcommands.
//!
//! After a subcommand that may discard directories, a background process empties the trash, unless
//! another process is doing so.

pub(crate) mod add;
pub(crate) mod context;
mod keep;
mod list;
mod obstacles;
mod relocate;
pub(crate) mod remove;

use bstr::BString;

use crate::{
    commands::{
        obstacles::NO_ATTRIBUTES_IN_PATHSPECS,
        record::{Command, Group, LineCheck, Revisions},
        trash,
    },
    session::{claims, invocation::Invocation},
    term::{
        args::{Set, Table},
        failure::Failure,
    },
};

use context::{ADD, LIST, LOCK, MOVE, PRUNE, REMOVE, REPAIR, Request, UNLOCK, WorktreeContext};

/// The record of `worktree`.
pub(super) const COMMAND: Command = Command {
    name: "worktree",
    summary: "Manage multiple working trees",
    about: "Manages the worktrees of a repository. `add` fills a new worktree in parallel. `remove` moves \
            the worktree aside and returns at once; a process in the background deletes the files.",
    group: Group::Worktrees,
    subcommands: SUBCOMMANDS,
    ..Command::BASE
};

const WRONG_NUMBER: &str = "a wrong number of arguments";

/// The values that the records of most subcommands share.
const SUBCOMMAND: Command = Command {
    group: Group::Worktrees,
    settings: obstacles::RECORDS,
    line: &[NO_ATTRIBUTES_IN_PATHSPECS, LineCheck::new(WRONG_NUMBER, obstacles::arguments::<1, 1>)],
    checks: &[obstacles::RECORDING],
    ..Command::BASE
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "worktree add",
        summary: "Create a worktree",
        syntax: &ADD,
        line: &[
            LineCheck::new("a commit that begins with a colon", obstacles::index_entries),
            NO_ATTRIBUTES_IN_PATHSPECS,
            LineCheck::new(WRONG_NUMBER, obstacles::arguments::<1, 2>),
        ],
        revisions: Revisions::AfterFirst,
        settings: obstacles::FILES,
        checks: &[obstacles::FILLING_CHECKS, obstacles::ADDING],
        run: |run, args| perform(run, &ADD, args, add::run, Trash::Emptied),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree list",
        summary: "List the worktrees",
        syntax: &LIST,
        line: &[NO_ATTRIBUTES_IN_PATHSPECS, LineCheck::new(WRONG_NUMBER, obstacles::arguments::<0, 0>)],
        checks: &[obstacles::RECORDING, &[obstacles::LIST]],
        run: |run, args| perform(run, &LIST, args, list::run, Trash::Left),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree lock",
        summary: "Protect a worktree from pruning",
        syntax: &LOCK,

        run: |run, args| perform(run, &LOCK, args, keep::lock, Trash::Left),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree move",
        summary: "Move a worktree",
        syntax: &MOVE,
        line: &[NO_ATTRIBUTES_IN_PATHSPECS, LineCheck::new(WRONG_NUMBER, obstacles::arguments::<2, 2>)],
        checks: &[obstacles::RECORDING, &[obstacles::RELOCATE]],
        run: |run, args| perform(run, &MOVE, args, relocate::run, Trash::Emptied),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree prune",
        summary: "Forget worktrees that are gone",
        syntax: &PRUNE,
        line: &[NO_ATTRIBUTES_IN_PATHSPECS, LineCheck::new(WRONG_NUMBER, obstacles::arguments::<0, 0>)],
        checks: &[obstacles::RECORDING, &[obstacles::LIST]],
        run: |run, args| perform(run, &PRUNE, args, keep::prune, Trash::Emptied),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree remove",
        summary: "Remove a worktree",
        syntax: &REMOVE,
        settings: obstacles::FILES,
        checks: &[obstacles::FILLING_CHECKS, &[obstacles::REMOVE]],
        run: |run, args| perform(run, &REMOVE, args, remove::run, Trash::Emptied),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree repair",
        summary: "Repair the links between worktrees and repository",
        syntax: &REPAIR,
        line: &[NO_ATTRIBUTES_IN_PATHSPECS],
        run: |run, args| perform(run, &REPAIR, args, keep::repair, Trash::Left),
        ..SUBCOMMAND
    },
    Command {
        name: "worktree unlock",
        summary: "Allow pruning of a worktree",
        syntax: &UNLOCK,

        run: |run, args| perform(run, &UNLOCK, args, keep::unlock, Trash::Left),
        ..SUBCOMMAND
    },
];

/// The treatment of the trash after a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trash {
    /// A background process empties it.
    Emptied,
    Left,
}

/// Runs a subcommand. Returns its exit code.
fn perform(
    run: &Invocation,
    table: &'static Table<Set<Request>>,
    args: &[BString],
    act: fn(&WorktreeContext<'_>, &Request, &[BString]) -> Result<u8, Failure>,
    trash: Trash,
) -> Result<u8, Failure> {
    let parsed = table.parse(args)?;
    let mut request = Request::default();
    let args = parsed.store(&mut request)?;
    let repo = run.open()?;
    let context = WorktreeContext::new(run, &repo, table);
    if trash == Trash::Emptied {
        claims::recover_locks(&context.common);
    }
    let code = act(&context, &request, &args);
    if trash == Trash::Emptied {
        trash::empty_in_background(&context.common);
    }
    code
}
