//! `sapwood stash`: saves local changes as commits, and applies them again.
//!
//! [`sapwood::stash`] does the work. If Git would merge contents, or fail, sapwood leaves the whole
//! command to it, before anything is changed.

mod apply;
mod branch;
mod common;
mod create;
mod entries;
mod list;
mod options;
mod push;
mod save;

use crate::commands::{
    obstacles::{ATTRIBUTES_OF_PATHSPECS, READING, WRITING},
    record::{Command, Group},
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
    subcommands: SUBCOMMANDS,
    assumed: Some(&ASSUMED_PUSH),
    ..Command::BASE
};

/// The values that the records of most subcommands share.
const SUBCOMMAND: Command = Command {
    group: Group::Changes,
    settings: options::SETTINGS,
    checks: &[WRITING, &[options::HOOKS, options::SPARSE]],
    ..Command::BASE
};

const PUSH_COMMAND: Command = Command {
    name: "stash push",
    summary: "Stash the changes",
    syntax: &PUSH,
    line: &[ATTRIBUTES_OF_PATHSPECS, options::PATHS_OF_PUSH, options::COMBINATIONS],
    late: LATE_IN_PUSH,
    run: |run, args| push::run(run, PUSH.parse(args)?),
    ..SUBCOMMAND
};

/// The conditions under which a push is left to Git after it has begun.
const LATE_IN_PUSH: &[&str] = &[
    "a stash without a reflog",
    "changes of attributes",
    "changes that cannot be read",
    "empty indexes that are kept",
    "files that the index lacks",
    "identities of nobody",
    "messages that are not UTF-8",
    "paths that match nothing",
    "refs that cannot be written",
    "staged changes of files with other changes",
    "staged changes that the worktree lacks",
];

/// The conditions under which a stash entry is left to Git.
const LATE_IN_APPLY: &[&str] = &[
    "changes that cannot be read",
    "paths that are both tracked and untracked",
    "revisions that are no stash entries",
    "staged changes under those of the stash",
];

/// `push` without the word `push`: arguments need `--`.
const ASSUMED_PUSH: Command = Command {
    syntax: &ASSUMED,
    line: &[ATTRIBUTES_OF_PATHSPECS, options::ONLY_AFTER_DASHES, options::COMBINATIONS],
    run: |run, args| push::run(run, options::assumed(args)?),
    ..PUSH_COMMAND
};

const SUBCOMMANDS: &[Command] = &[
    PUSH_COMMAND,
    Command {
        name: "stash save",
        summary: "Stash the changes, with a message as arguments (deprecated)",
        syntax: &SAVE,
        line: &[options::COMBINATIONS],
        late: LATE_IN_PUSH,
        run: save::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash list",
        summary: "List the stash entries",
        syntax: &BARE,
        line: &[options::NO_ARGUMENTS, options::NO_TERMINAL],
        settings: options::LIST_SETTINGS,
        checks: &[READING],
        late: &["stash entries without a commit"],
        run: list::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash pop",
        summary: "Bring a stash entry back, and drop it",
        syntax: &POP,
        late: LATE_IN_APPLY,
        run: |run, args| apply::run(run, POP.parse(args)?, apply::OnSuccess::Drop),
        ..SUBCOMMAND
    },
    Command {
        name: "stash apply",
        summary: "Bring a stash entry back, and keep it",
        syntax: &APPLY,
        late: LATE_IN_APPLY,
        run: |run, args| apply::run(run, APPLY.parse(args)?, apply::OnSuccess::Keep),
        ..SUBCOMMAND
    },
    Command {
        name: "stash branch",
        summary: "Make a branch where a stash entry began, and bring it back there",
        syntax: &BARE,
        late: &["branch names that are not UTF-8", "revisions that are no stash entries"],
        run: branch::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash drop",
        summary: "Remove a stash entry",
        syntax: &DROP,
        checks: &[WRITING],
        late: &["revisions that are no stash entries"],
        run: entries::drop,
        ..SUBCOMMAND
    },
    Command {
        name: "stash clear",
        summary: "Remove all stash entries",
        syntax: &BARE,
        checks: &[WRITING],
        run: entries::clear,
        ..SUBCOMMAND
    },
    Command {
        name: "stash create",
        summary: "Make the commits of a stash entry, and record them nowhere",
        syntax: &WORDS,
        line: &[options::NO_OPTIONS],
        late: &["changes that cannot be read", "identities of nobody", "messages that are not UTF-8"],
        run: create::run,
        ..SUBCOMMAND
    },
    Command {
        name: "stash store",
        summary: "Record a commit as stash entry",
        syntax: &STORE,
        checks: &[WRITING],
        late: &["revisions that are no stash entries"],
        run: entries::store,
        ..SUBCOMMAND
    },
];
