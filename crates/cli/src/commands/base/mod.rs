//! `sapwood base`: bases of workspaces, shared between machines.
//!
//! The bases travel over object stores, registries, web servers and shared directories. Design:
//! docs/design/fleet.md.

mod lease;
mod list;
mod mirror;
mod prune;
mod pull;
mod push;
mod request;
mod site;
pub(crate) mod time;
mod verify;

use crate::commands::record::{Command, Group, Revisions, Traits};

use request::{LEASE, LIST, MIRROR, PRUNE, PULL, PUSH, VERIFY};

/// The record of `base`.
pub(super) const COMMAND: Command = Command {
    name: "base",
    summary: "Share bases between machines",
    about: "Pushes the bases of workspaces to a remote and pulls them from there. A base is the files of \
            one commit, with enough history to work on. Everything that a pull receives is checked \
            against the commit id before it is used.\n\n\
            A remote is `s3://<bucket>/<prefix>`, `oci://<registry>/<name>`, `https://<host>/<path>` \
            (read only) or `file:///<directory>`. It may be left out if `sapwood.baseRemote` is set. \
            Credentials come from the usual places: the `AWS_*` variables, Docker's `config.json`, the \
            `http.*` settings and Git's credential helpers. A first push makes the directory of a \
            `file://` remote if the directory above holds something: an empty one may be a disk that is \
            not mounted.\n\n\
            A request that fails and may pass is repeated for `sapwood.baseRetry` (10s; also 5m, 1h).\n\n\
            A push records the commit for the branch that it names: for a detached HEAD or a commit id, the only \
            branch, here or at a remote, with this tip.\n\n\
            `push --sign` also signs a base that is there without a signature. `mirror` fetches branches \
            into `--dir`, pushes the bases of their tips, and removes the records of branches that the \
            server deleted.\n\n\
            `verify` reads the base of a commit as a host does that has nothing, and keeps nothing. It exits \
            with 1 and names the file if something is wrong.\n\n\
            With `sapwood.baseSigners`, a file of allowed signers as in ssh-keygen(1), a pull refuses a \
            base that none of them signed.",
    group: Group::Own,
    subcommands: SUBCOMMANDS,
    ..Command::BASE
};

/// The fields that the records of the subcommands share.
const SUBCOMMAND: Command = Command { group: Group::Own, ..Command::BASE };

/// A subcommand whose arguments after the first one are revisions.
const OF_REVISION: Command = Command { revisions: Revisions::AfterFirst, ..SUBCOMMAND };

/// A command that only needs the remote.
const ANYWHERE: Command = Command { traits: Traits { anywhere: true, ..Command::BASE.traits }, ..SUBCOMMAND };

const SUBCOMMANDS: &[Command] = &[
    OF_REVISION.named("base push", "Push the base of a commit", &PUSH, push::run),
    OF_REVISION.named("base pull", "Pull the base of a commit", &PULL, pull::run),
    OF_REVISION.named("base verify", "Check the base of a commit at the remote", &VERIFY, verify::run),
    Command {
        name: "base mirror",
        summary: "Push the bases of branches that move",
        syntax: &MIRROR,
        traits: Traits { outside: true, ..Command::BASE.traits },
        run: mirror::run,
        ..SUBCOMMAND
    },
    ANYWHERE.named("base list", "List the bases of a remote", &LIST, list::run),
    Command {
        name: "base lease",
        summary: "Keep a base on the remote for a time",
        syntax: &LEASE,
        traits: ANYWHERE.traits,
        revisions: Revisions::AfterFirst,
        run: lease::run,
        ..SUBCOMMAND
    },
    ANYWHERE.named("base prune", "Remove old bases from a remote", &PRUNE, prune::run),
];
