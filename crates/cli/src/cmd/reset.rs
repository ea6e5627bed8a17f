//! `sapwood reset`.

use crate::{failure::Failure, global::Invocation};

/// Runs the command. Returns its exit code.
pub(crate) fn run(_run: &Invocation) -> Result<u8, Failure> {
    Err(Failure::unsupported("reset"))
}
