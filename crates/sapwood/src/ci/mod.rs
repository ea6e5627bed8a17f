//! The worktree of a job on a runner: [`checkout`] makes it, [`cleanup`] removes its credentials.
//!
//! A checkout is a sequence of Git's command lines, so that an existing worktree is treated as
//! Git treats it. The caller runs them: [`Program`]. Secrets reach the commands as settings in the
//! environment, never on a command line.
//!
//! Design: docs/design/ci-checkout.md.

pub mod checkout;
mod clean;
pub mod cleanup;
mod credentials;
mod directory;
mod inherited;
mod linked;
mod refs;
mod removal;
mod settings;
mod ssh;
mod steps;
mod submodules;
mod worktree;

use std::path::Path;

use bstr::BString;

use crate::Error;

pub use credentials::{Access, Persist, Token};
pub use ssh::{Content, Ssh};

/// A command line of Git.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The worktree in which it runs. Its repository is `.git` there.
    pub dir: &'a Path,
    /// The command and its arguments. They hold no secret.
    pub args: &'a [BString],
    /// Settings, `<key>=<value>`, that must not be on a command line: they hold secrets.
    pub settings: &'a [BString],
    /// Standard input.
    pub input: &'a [u8],
}

/// Runs Git's commands for a checkout.
pub trait Program {
    /// The error of a command that cannot be started.
    type Error: From<Error>;

    /// Runs a command on the streams of the caller. Returns its exit code.
    fn run(&self, step: Step<'_>) -> Result<u8, Self::Error>;

    /// Runs a command. Returns its standard output if it succeeded.
    fn read(&self, step: Step<'_>) -> Result<Option<BString>, Self::Error>;

    /// Runs `sapwood base` with these arguments, like [`Program::run`].
    fn base(&self, step: Step<'_>) -> Result<u8, Self::Error>;
}
