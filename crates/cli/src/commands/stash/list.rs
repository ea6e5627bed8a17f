//! `stash list`.

use bstr::{BStr, BString};
use repo::Shortener;

use super::{
    common::{STASH, newest, open},
    options::BARE,
};
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
    if newest(&repo)?.is_none() {
        return Ok(0);
    }
    let entries = repo.reflog(BStr::new(STASH))?.unwrap_or_default();
    // Git's walk of the reflog skips, or stops at, entries without a commit.
    if entries.is_empty()
        || entries.iter().any(|entry| repo.commit_if_there(entry.new).ok().flatten().is_none())
    {
        return Err(Failure::Unserved("stash entries without a commit"));
    }
    let name = Shortener::new(&repo, false).shorten(BStr::new(STASH))?;
    for (number, entry) in entries.iter().rev().enumerate() {
        console::out(text!(name, format!("@{{{number}}}: "), entry.message));
    }
    Ok(0)
}
