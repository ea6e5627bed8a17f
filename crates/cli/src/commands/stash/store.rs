//! `stash store`, `stash drop` and `stash clear`: the entries in the reflog.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use store::refs::{Change, Expected};

use super::{
    common::{STASH, newest, open},
    entry::{self, Entry},
    options::{BARE, DROP, EntryRequest, STORE},
};
use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs `stash store`. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = EntryRequest::default();
    let args = STORE.parse(args)?.store(&mut request)?;
    let (repo, settings) = open(run)?;
    let [name] = &args[..] else {
        if !request.quiet {
            console::eprint_line("\"git stash store\" requires one <commit> argument");
        }
        return Ok(1);
    };
    let warns = !matches!(repo.is_resolved_without_warning(name.as_bstr()), Ok(true));
    let commit = repo.rev_parse(name.as_bstr()).ok().filter(|_| !warns);
    let like = commit.and_then(|commit| entry::trees(&repo, commit));
    let Some(like) = like else { return Err(Failure::Unserved("revisions that are no stash entries")) };
    let message = request.message.unwrap_or_else(|| "Created via \"git stash store\".".into());
    let refs = settings.refs(&repo)?;
    let stored = store::refs::record(&refs, BStr::new(STASH), like.commit, Expected::Any, message.as_bstr());
    if let Err(error) = stored {
        if !request.quiet {
            console::error(error.to_string());
            console::eprint_line(text!("Cannot update ", STASH, " with ", like.commit.to_string()));
        }
        return Ok(1);
    }
    Ok(0)
}

/// Runs `stash drop`. Returns the exit code.
pub(super) fn drop(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = EntryRequest::default();
    let args = DROP.parse(args)?.store(&mut request)?;
    let (repo, settings) = open(run)?;
    let entry = entry::find(&repo, &args)?;
    let number = entry.number()?;
    drop_entry(&repo, &settings, &entry, number, request.quiet)
}

/// Removes an entry from the reflog. Returns the exit code.
pub(super) fn drop_entry(
    repo: &Repository,
    settings: &Settings,
    entry: &Entry,
    number: usize,
    quiet: bool,
) -> Result<u8, Failure> {
    let refs = settings.refs(repo)?;
    if let Err(error) = store::refs::drop_entry(&refs, BStr::new(STASH), number, entry.commit) {
        console::error(error.to_string());
        return Err(Failure::error(text!(entry.revision, ": Could not drop stash entry")));
    }
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
    let refs = settings.refs(&repo)?;
    let delete = Change::Delete { name: STASH.into(), expected: Expected::Is(newest) };
    match store::refs::apply(&refs, vec![delete]) {
        Ok(()) => Ok(0),
        Err(error) => Err(Failure::error(error.to_string()).advised(error.advice())),
    }
}
