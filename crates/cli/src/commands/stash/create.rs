//! `stash create`: the commits of a stash entry, which is recorded nowhere.

use bstr::{BString, ByteSlice as _};
use sapwood::stash::commits::{self, Created};

use super::{
    common::{no_commit_yet, open},
    options::WORDS,
};
use crate::{
    session::{Session, invocation::Invocation},
    term::{console, failure::Failure},
};

/// Runs the command. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let words = WORDS.parse(args)?.rest;
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    match commits::create(session.context(run), bstr::join(" ", words).as_bstr())? {
        Created::NoCommit => return Ok(no_commit_yet(false)),
        Created::NoChanges => {}
        Created::Commit(stash) => console::out(stash.to_string()),
    }
    Ok(0)
}
