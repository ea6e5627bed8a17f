//! `stash store`, `stash drop` and `stash clear`: the entries in the reflog.

use bstr::{BString, ByteSlice as _};
use sapwood::{
    Error, StashError,
    stash::{
        STASH, drop,
        entry::{self, Entry},
        newest,
    },
};

use super::{
    common::{find, open},
    options::{BARE, DROP, EntryRequest, STORE},
};
use crate::{
    session::{Session, invocation::Invocation},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs `stash store`. Returns the exit code.
pub(super) fn store(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = EntryRequest::default();
    let args = STORE.parse(args)?.store(&mut request)?;
    let (repo, settings) = open(run)?;
    let [name] = &args[..] else {
        if !request.quiet {
            console::eprint_line("\"git stash store\" requires one <commit> argument");
        }
        return Ok(1);
    };
    let Some(Entry { commit, .. }) = entry::read(&repo, name.as_bstr()) else {
        return Err(Failure::Unserved("revisions that are no stash entries"));
    };
    let message = request.message.unwrap_or_else(|| "Created via \"git stash store\".".into());
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    match drop::store(session.context(run), commit, message.as_bstr()) {
        Ok(()) => Ok(0),
        Err(Error::Stash(error)) if matches!(*error, StashError::NotRecorded(_)) => {
            if let (StashError::NotRecorded(source), false) = (*error, request.quiet) {
                console::error(source.to_string());
                console::eprint_line(text!("Cannot update ", STASH, " with ", commit.to_string()));
            }
            Ok(1)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs `stash drop`. Returns the exit code.
pub(super) fn drop(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = EntryRequest::default();
    let args = DROP.parse(args)?.store(&mut request)?;
    let (repo, settings) = open(run)?;
    let entry = find(&repo, &args)?;
    let number = entry.number()?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    drop_entry(session, &entry, number, request.quiet)
}

/// Removes an entry from the reflog. Returns the exit code.
pub(super) fn drop_entry(
    session: Session<'_>,
    entry: &Entry,
    number: usize,
    quiet: bool,
) -> Result<u8, Failure> {
    drop::drop_entry(session.context(session.invocation), entry, number)?;
    if !quiet {
        console::out(text!("Dropped ", entry.revision, " (", entry.commit.to_string(), ")"));
    }
    Ok(0)
}

/// Runs `stash clear`. Returns the exit code.
pub(super) fn clear(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = BARE.parse(args)?;
    if !parsed.rest.is_empty() {
        return Err(Failure::error("git stash clear with arguments is unimplemented"));
    }
    let (repo, settings) = open(run)?;
    let Some(newest) = newest(&repo)? else { return Ok(0) };
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    drop::clear(session.context(run), newest)?;
    Ok(0)
}
