//! One run of a command: the invocation, the repository, the settings, and the code that commands
//! share.

pub(crate) mod advice;
pub(crate) mod claims;
pub(crate) mod editor;
pub(crate) mod events;
pub(crate) mod hooks;
pub(crate) mod index;
pub(crate) mod input;
pub(crate) mod invocation;
pub(crate) mod monitor;
pub(crate) mod new_commit;
pub(crate) mod output;
pub(crate) mod packets;
pub(crate) mod real_git;
pub(crate) mod receiving;
pub(crate) mod reexec;
pub(crate) mod revisions;
pub(crate) mod settings;
pub(crate) mod submodules;
pub(crate) mod tasks;
pub(crate) mod trace;
pub(crate) mod tracking;
pub(crate) mod transfer;

use repo::Repository;

/// A run of a command in a repository.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) invocation: &'a invocation::Invocation,
    pub(crate) repository: &'a Repository,
    pub(crate) settings: &'a settings::Settings,
}
