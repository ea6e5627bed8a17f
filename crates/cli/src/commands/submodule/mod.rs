//! `sapwood submodule`: `init` and `update`. The other subcommands are left to Git.
//!
//! Order of an update: see [`sapwood::submodule::update`].
//!
//! For the parts that Git delegates to other commands (`clone`, `fetch`, `checkout`, the update
//! within a submodule), this program runs itself as a child, as Git does. Design:
//! docs/design/submodules.md.

mod clone;
mod init;
mod list;
mod options;
mod update;

use repo::keys;

use crate::commands::{
    obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, INDEX_ALONE, RULES, grafts},
    reason::Reason,
    record::{Candidate, Check, Command, Group},
    rules::{Setting, When},
};

/// The record of `submodule`.
pub(super) const COMMAND: Command = Command {
    name: "submodule",
    summary: "Initialize or update submodules",
    about: "Registers the submodules of a superproject (`init`), clones those that are missing, and checks out \
            the commits that the superproject records (`update`). Clones run side by side (`--jobs`). \
            Worktrees are written as by `checkout`.",
    group: Group::Worktrees,
    subcommands: SUBCOMMANDS,
    leading: options::LEADING,
    ..Command::BASE
};

/// The record of Git's internal command that updates nested submodules.
pub(super) const HELPER: Command = Command {
    name: "submodule--helper",
    summary: "Update the submodules within a submodule",
    about: "Git's own name for the parts of `git submodule`.",
    group: Group::Hidden,
    subcommands: HELPERS,
    ..Command::BASE
};

const SETTINGS: &[Setting] = &[
    (keys::init::DEFAULT_SUBMODULE_PATH_CONFIG.name(), When::True),
    (keys::submodule::ONE_GITDIR.name(), When::Set),
];

/// The values that the records of all subcommands share.
const SUBCOMMAND: Command =
    Command { group: Group::Worktrees, settings: &[GENERAL, SETTINGS], checks: CHECKS, ..Command::BASE };

const CHECKS: &[&[Check]] = &[&[
    RULES,
    INDEX_ALONE,
    Check::new("`info/grafts`; `extensions.submodulePathConfig`; no worktree", place),
]];

const UPDATE: Command = Command {
    name: "submodule update",
    summary: "Clone missing submodules, and check out the recorded commits",
    syntax: &options::UPDATE,
    line: &[options::SPELLING, options::VALUES, ATTRIBUTES_OF_PATHSPECS],
    run: update::run,
    ..SUBCOMMAND
};

const SUBCOMMANDS: &[Command] = &[
    UPDATE,
    Command {
        name: "submodule init",
        summary: "Register submodules in the configuration",
        syntax: &options::INIT,
        line: &[options::SPELLING, ATTRIBUTES_OF_PATHSPECS],
        run: init::run,
        ..SUBCOMMAND
    },
];

const HELPERS: &[Command] = &[Command {
    name: "submodule--helper update",
    group: Group::Hidden,
    line: &[options::VALUES, ATTRIBUTES_OF_PATHSPECS],
    ..UPDATE
}];

/// Detects states of the superproject that are left to Git.
fn place(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let mut found: Vec<Reason> = grafts(repo).into_iter().collect();
    if repo.extensions().submodule_paths {
        found.push(Reason::Setting(keys::extensions::SUBMODULE_PATH_CONFIG.lower()));
    }
    if repo.work_tree().is_none() {
        found.push(Reason::repository("there is no worktree"));
    }
    found
}
