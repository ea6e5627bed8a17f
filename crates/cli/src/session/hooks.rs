//! Hooks, with their reports printed. See [`sapwood::hooks`].

use std::{io, process::ExitStatus};

use bstr::BStr;
use repo::Repository;
pub(crate) use sapwood::hooks::{Changed, CommitHooks, in_a_shell, started};
use sapwood::{ObjectId, hooks};

use crate::{
    session::{events::printing, settings::Settings},
    term::{failure::Failure, notice::Printer},
};

/// See [`hooks::post_checkout`].
pub(crate) fn post_checkout(
    repo: &Repository,
    settings: &Settings,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    branch_changed: bool,
) -> Result<u8, Failure> {
    Ok(hooks::post_checkout(printing(repo, settings), old, new, branch_changed)?)
}

/// See [`hooks::not_started`].
pub(crate) fn not_started(command: &BStr, error: &io::Error) {
    hooks::not_started(command, error, &Printer);
}

/// See [`hooks::exit_code`].
pub(crate) fn exit_code(status: ExitStatus, command: &BStr) -> u8 {
    hooks::exit_code(status, command, &Printer)
}
