//! Workspaces: linked worktrees whose files come from a read-only base that all workspaces of a
//! commit share.
//!
//! A workspace is an ordinary worktree for Git. A program that links this crate uses it by its
//! path, and so does plain Git, as long as it is mounted. A mount ends with the machine, not with
//! the program. No process runs in the background unless the caller names its program by
//! [`crate::Events::program`]. Without that program, a base is durable before [`create`] returns,
//! [`remove`] deletes the files itself, and Git examines each file of a workspace, because nobody
//! could report the changed ones.
//!
//! - [`create`], [`freeze`], [`list`], [`mod@mount`], [`rebase`], [`relocate`] (move), [`remove`],
//!   [`unmount`]: the operations;
//! - [`seal`], [`land`]: workspaces that are repositories of their own, and their way back;
//! - [`maker`], [`supply`], [`build`], [`places`]: the files of a new workspace, and its base;
//! - [`mounts`], [`inner`], [`durable`], [`missing`], [`crash`]: mounting, and what it may find;
//! - [`budget`]: removing those that nobody needs;
//! - [`gc`]: completing what killed commands began;
//! - [`class`]: what each one is to its user;
//! - [`conflicts`]: what would conflict if two workspaces were merged;
//! - [`quota`]: the most that a workspace may have on the disk;
//! - [`contents`], [`monitor`], [`persist`]: what Git and the disk need.
//!
//! Design: docs/design/workspace.md.

pub mod budget;
pub mod build;
pub mod class;
pub mod conflicts;
pub mod contents;
pub mod crash;
pub mod create;
pub mod durable;
pub mod freeze;
pub mod gc;
pub mod inner;
pub mod land;
pub mod list;
pub mod maker;
pub mod missing;
pub mod monitor;
pub mod mount;
pub mod mounts;
pub mod persist;
pub mod places;
pub mod quota;
pub mod rebase;
pub mod relocate;
pub mod remove;
pub mod seal;
pub mod submodules;
pub mod supply;
pub mod unmount;
mod view;

use bstr::BStr;
use engine::workspace::record::{self, Workspace};

use crate::{Error, Notice, worktree::records::Worktrees};

/// Returns all workspaces. Damaged records are reported.
pub fn all(worktrees: &Worktrees<'_>) -> Result<Vec<Workspace>, Error> {
    let report = |error: &record::Error| {
        worktrees.events.notice(Notice::DamagedRecord(error.to_string()));
    };
    Ok(record::all(&worktrees.common)?
        .into_iter()
        .filter_map(|found| found.inspect_err(report).ok())
        .collect())
}

/// Returns the workspace called `name`.
fn find(worktrees: &Worktrees<'_>, name: &BStr) -> Result<Workspace, Error> {
    Ok(record::find(&worktrees.common, sys::os_str(name))?)
}
