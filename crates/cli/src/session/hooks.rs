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

/// See [`hooks::post_merge`].
pub(crate) fn post_merge(repo: &Repository, settings: &Settings) -> Result<(), Failure> {
    Ok(hooks::post_merge(printing(repo, settings))?)
}

/// See [`hooks::has_reference_transaction`].
pub(crate) fn has_reference_transaction(repo: &Repository, settings: &Settings) -> Result<bool, Failure> {
    Ok(hooks::has_reference_transaction(printing(repo, settings))?)
}

/// See [`hooks::reference_transaction`].
pub(crate) fn reference_transaction(
    repo: &Repository,
    settings: &Settings,
    stage: &str,
    edits: &[u8],
) -> Result<u8, Failure> {
    Ok(hooks::reference_transaction(printing(repo, settings), stage, edits)?)
}

/// See [`hooks::exists`].
pub(crate) fn exists(repo: &Repository, settings: &Settings, name: &str) -> Result<bool, Failure> {
    Ok(hooks::exists(printing(repo, settings), name)?)
}

/// See [`hooks::not_started`].
pub(crate) fn not_started(command: &BStr, error: &io::Error) {
    hooks::not_started(command, error, &Printer);
}

/// See [`hooks::exit_code`].
pub(crate) fn exit_code(status: ExitStatus, command: &BStr) -> u8 {
    hooks::exit_code(status, command, &Printer)
}
