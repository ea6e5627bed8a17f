//! `stash show`, which is the real Git's.

use bstr::BString;

use crate::{commands::beside, session::invocation::Invocation, term::failure::Failure};

/// Runs it. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    beside::by_git(run, "stash show", args)
}
