//! `sapwood workspace`: worktrees whose files come from a read-only base.
//!
//! The library creates, mounts and removes them: [`sapwood::workspace`]. Design:
//! docs/design/workspace.md.

mod adopt;
mod base;
pub(crate) mod build;
mod changes;
mod conflicts;
pub(crate) mod contents;
pub(crate) mod context;
mod crash;
pub(crate) mod create;
mod doctor;
mod durable;
pub(crate) mod exec;
mod freeze;
pub(crate) mod gc;
mod hook;
mod include;
mod land;
mod list;
pub(crate) mod maker;
mod mount;
mod mounts;
pub(crate) mod quota;
mod rebase;
mod relocate;
pub(crate) mod remove;
mod request;
mod submodules;
mod with;

use crate::commands::record::{Command, Group, Revisions, Traits};

use request::{
    ADOPT, BASE, CONFLICTS, CREATE, DIR, DOCTOR, ENTER, EXEC, FREEZE, GC, HOOK, LAND, LIST, MOUNT, MOVE,
    QUOTA, REBASE, REMOVE, SYNC, THAW, UNMOUNT,
};

/// The record of `workspace`.
pub(super) const COMMAND: Command = Command {
    name: "workspace",
    summary: "Create worktrees that share their files",
    about: "Manages workspaces. A workspace is a linked worktree whose files come from a read-only base that all \
            workspaces of a commit share. Creating one copies no file, and a status looks only at changes.\n\n\
            A workspace is an ordinary worktree for Git: branches, stashes and objects are the repository's. Its \
            files are there while it is mounted; `mount --all` brings all workspaces back after a restart.",
    group: Group::Own,
    subcommands: SUBCOMMANDS,
    ..Command::BASE
};

/// The values that the records of the subcommands share.
const SUBCOMMAND: Command = Command { group: Group::Own, ..Command::BASE };

/// A subcommand whose arguments after the first one are revisions.
const OF_REVISION: Command = Command { revisions: Revisions::AfterFirst, ..SUBCOMMAND };

const SUBCOMMANDS: &[Command] = &[
    OF_REVISION.named("workspace create", "Create a workspace", &CREATE, create::run),
    SUBCOMMAND.named("workspace list", "List the workspaces", &LIST, list::run),
    Command {
        name: "workspace conflicts",
        summary: "Show which workspaces would conflict",
        about: "Lists the pairs of workspaces that touch the same paths since their merge base, by commits or by \
                uncommitted work, and the paths that Git could not merge. Git merges in memory; no workspace, index, \
                ref or object changes. The names are those of workspaces, or of other linked worktrees; without \
                names, all workspaces are compared.\n\n\
                The exit code is 0 if nothing would conflict, 1 if something would, and 2 if nothing would but some \
                workspaces were not examined.",
        syntax: &CONFLICTS,
        run: conflicts::run,
        ..SUBCOMMAND
    },
    Command {
        name: "workspace land",
        summary: "Put the commits of workspaces on a branch",
        about: "Moves a branch of the repository forward to the commit of a workspace, or merges the commit into it. \
                Without --onto it is the branch with which the workspace began, which may be new. The objects of a \
                sealed workspace are checked and copied; its configuration, hooks, attributes and links are not \
                obeyed. A merge is made in memory. After a conflict, or if the command of --check fails, the branch \
                stays as it is, the next workspace is tried, and the exit code is 1.",
        syntax: &LAND,
        run: land::run,
        ..SUBCOMMAND
    },
    SUBCOMMAND.named("workspace exec", "Run a command in a workspace", &EXEC, exec::run),
    SUBCOMMAND.named("workspace enter", "Start a shell in a workspace", &ENTER, exec::enter),
    SUBCOMMAND.named("workspace mount", "Mount workspaces", &MOUNT, mount::run),
    Command {
        name: "workspace dir",
        summary: "Print the directory of a workspace, and mount it if necessary",
        about: "Prints the directory, for scripts and for the function `sw` of sapwood-shell-init(1). The exit code \
                is 3 if only processes that sapwood starts see the files: `sapwood workspace enter` serves it.",
        syntax: &DIR,
        run: mount::print_dir,
        ..SUBCOMMAND
    },
    SUBCOMMAND.named(
        "workspace unmount",
        "Unmount workspaces, and keep their changes",
        &UNMOUNT,
        mount::unmount_each,
    ),
    Command {
        name: "workspace sync",
        summary: "Make the changes of workspaces durable",
        about: "Writes the changes of workspaces to the disk. In a workspace fsync does nothing, unless \
                sapwood.workspaceSync is 'always': so this command is for files that a crash of the machine must \
                not take. It returns when the disk has them.",
        syntax: &SYNC,
        run: crash::sync,
        ..SUBCOMMAND
    },
    SUBCOMMAND.named("workspace freeze", "Keep workspaces unmounted and unchanged", &FREEZE, freeze::run),
    SUBCOMMAND.named("workspace thaw", "Mount frozen workspaces again", &THAW, freeze::thaw),
    Command {
        name: "workspace adopt",
        summary: "Let a mounted union report its changes",
        about: "Takes a union that you mounted over a checkout, with overlayfs or unionfs-fuse, and makes its upper \
                layer the file system monitor of the worktree: a status there looks only at changes. The mount \
                stays yours. If it is mounted in another way later, every file is examined, and a warning says so. \
                The checkout below must not change while the union is mounted.",
        syntax: &ADOPT,
        run: adopt::run,
        ..SUBCOMMAND
    },
    Command {
        name: "workspace gc",
        summary: "Complete what killed commands left, and remove what nobody needs",
        about: "Completes or removes what killed commands left. With `--landed` it also removes workspaces whose \
                commits are in the default branch or in the upstream of their branch, then with `--idle` those that \
                are pushed, or have no commits of their own, and were not used for so long; the longest unused \
                first. With `--budget` it stops as soon as the rest fits. A workspace with unsaved work, one that \
                a process uses, and one that is locked or frozen is never removed. Branches stay. `-n` shows the \
                list.",
        syntax: &GC,
        run: gc::run,
        ..SUBCOMMAND
    },
    SUBCOMMAND.named("workspace move", "Move a workspace", &MOVE, relocate::run),
    OF_REVISION.named("workspace rebase", "Put a workspace on another commit's base", &REBASE, rebase::run),
    Command {
        name: "workspace quota",
        summary: "Show or change the quota of a workspace",
        about: "Shows what a workspace uses of its quota, or changes the limit. `create --quota` gives a workspace a \
                quota: the files that it changes or adds may have so many bytes on the disk, and a program that \
                writes more gets an error. The file system must have project quotas: ext4 or xfs, mounted with \
                `prjquota`. A program that runs into the limit loses nothing that was written before.",
        syntax: &QUOTA,
        run: quota::run,
        ..SUBCOMMAND
    },
    SUBCOMMAND.named("workspace remove", "Remove workspaces", &REMOVE, remove::run),
    Command {
        name: "workspace hook",
        summary: "Create or remove a workspace for a coding agent",
        about: "Reads the JSON document that a coding agent gives its hook on standard input. `create` makes the \
                workspace that its field `name` names, unless it is there, and prints its directory; `remove` \
                removes the one at `worktree_path`, and refuses if unsaved work would be lost. The hook works in the \
                repository of `cwd`.",
        syntax: &HOOK,
        traits: Traits { outside: true, ..Command::BASE.traits },
        run: hook::run,
        ..SUBCOMMAND
    },
    SUBCOMMAND.named("workspace doctor", "Show which backends work here", &DOCTOR, doctor::run),
    Command { name: "workspace changes", group: Group::Internal, run: changes::run, ..SUBCOMMAND },
    Command { name: "workspace serve-contents", group: Group::Internal, run: contents::run, ..SUBCOMMAND },
    Command { name: "workspace harden-base", group: Group::Internal, run: durable::harden, ..SUBCOMMAND },
    Command { name: "workspace hold", group: Group::Internal, run: mounts::hold, ..SUBCOMMAND },
    SUBCOMMAND.named("workspace base", "Manage the bases of workspaces", &BASE, base::run),
];
