//! `sapwood stash`: saves local changes as commits, and applies them again.
//!
//! Order of a push: the changes, found in one scan of the files; their objects, made durable; the
//! stash's ref and reflog; then the worktree is reset to HEAD, and the index is written. Order of a
//! pop: the worktree, the index, the files made durable, and then the stash entry is dropped.
//!
//! If Git would merge contents, or fail, sapwood leaves the whole command to it, before anything is
//! changed.

mod apply;
mod branch;
mod common;
mod create;
mod entry;
mod list;
mod options;
mod push;
mod save;
mod store;

use crate::commands::{
    obstacles::{READING, WRITING, attributes_of_pathspecs},
    record::{Command, Group, Traits},
};

use options::{APPLY, ASSUMED, BARE, DROP, POP, PUSH, SAVE, STORE, WORDS};

/// The record of `stash`.
pub(super) const COMMAND: Command = Command {
    name: "stash",
    summary: "Stash the changes in a dirty working directory away",
    about: "Records the local changes as commits and goes back to HEAD; `pop` and `apply` bring them back. \
            Without a subcommand it is `push`.\n\n\
            sapwood looks at each file once, stores only those that changed, and makes the stash durable \
            before it touches the worktree. `pop` makes the files durable before it drops the entry. \
            Merges of contents are left to Git, as are `-p` and `show`.",
    group: Group::Changes,
    traits: PLANS_FIRST,
    subcommands: SUBCOMMANDS,
    assumed: Some(&ASSUMED_PUSH),
    ..Command::BASE
};

const PLANS_FIRST: Traits = Traits { plans_first: true, ..Command::BASE.traits };

/// The values that the records of most subcommands share.
const SUBCOMMAND: Command = Command {
    group: Group::Changes,
    traits: PLANS_FIRST,
    settings: options::SETTINGS,
    checks: &[WRITING, &[options::hooks, options::sparse]],
    ..Command::BASE
};

const PUSH_COMMAND: Command = Command {
    name: "stash push",
    summary: "Stash the changes",
    syntax: &PUSH,
    line: &[attributes_of_pathspecs, options::paths_of_push, options::combinations],
    run: |run, args| push::run(run, PUSH.parse(args)?),
    ..SUBCOMMAND
};

/// `push` without the word `push`: arguments need `--`.
const ASSUMED_PUSH: Command = Command {
    syntax: &ASSUMED,
    line: &[attributes_of_pathspecs, options::only_after_dashes, options::combinations],
    run: |run, args| push::run(run, options::assumed(args)?),
    ..PUSH_COMMAND
};

const SUBCOMMANDS: &[Command] = &[
    PUSH_COMMAND,
    Command {
        name: "stash save",
        summary: "Stash the changes, with a message as arguments (deprecated)",
        syntax: &SAVE,
        line: &[options::combinations],
        run: save::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash list",
        summary: "List the stash entries",
        syntax: &BARE,
        line: &[options::no_arguments, options::no_terminal],
        settings: options::LIST_SETTINGS,
        checks: &[READING],
        run: list::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash pop",
        summary: "Bring a stash entry back, and drop it",
        syntax: &POP,
        run: |run, args| apply::run(run, POP.parse(args)?, apply::OnSuccess::Drop),
        ..SUBCOMMAND
    },
    Command {
        name: "stash apply",
        summary: "Bring a stash entry back, and keep it",
        syntax: &APPLY,
        run: |run, args| apply::run(run, APPLY.parse(args)?, apply::OnSuccess::Keep),
        ..SUBCOMMAND
    },
    Command {
        name: "stash branch",
        summary: "Make a branch where a stash entry began, and bring it back there",
        syntax: &BARE,
        run: branch::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash drop",
        summary: "Remove a stash entry",
        syntax: &DROP,
        checks: &[WRITING],
        run: store::drop,
        ..SUBCOMMAND
    },
    Command {
        name: "stash clear",
        summary: "Remove all stash entries",
        syntax: &BARE,
        checks: &[WRITING],
        run: store::clear,
        ..SUBCOMMAND
    },
    Command {
        name: "stash create",
        summary: "Make the commits of a stash entry, and record them nowhere",
        syntax: &WORDS,
        line: &[options::no_options],
        run: create::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash store",
        summary: "Record a commit as stash entry",
        syntax: &STORE,
        checks: &[WRITING],
        run: store::run,
        ..SUBCOMMAND
    },
];
