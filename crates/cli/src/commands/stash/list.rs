//! `stash list`.

use bstr::BString;
use sapwood::stash::list;

use super::{common::open, options::BARE};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = BARE.parse(args)?;
    if !parsed.rest.is_empty() {
        return Err(Failure::unsupported("an option of 'log'"));
    }
    let (repo, _) = open(run)?;
    for entry in list::entries(&repo)? {
        console::out(text!(entry.name, ": ", entry.message));
    }
    Ok(0)
}
