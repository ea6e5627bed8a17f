//! The process that makes a base durable in the background. See [`sapwood::workspace::durable`].

use std::path::Path;

use bstr::BString;
use sapwood::workspace::durable;

use crate::{
    session::invocation::Invocation,
    term::{failure::Failure, process, text::os_str},
};

/// Runs that process: `workspace harden-base <base directory> <name> <state>`.
pub(super) fn harden(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [dir, name, state] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    // At a system shutdown, SIGTERM ends it.
    process::end_by_signals();
    let path = |word| Path::new(os_str(word));
    durable::harden(path(dir), &name.to_string(), path(state))?;
    Ok(0)
}
