//! `stash apply` and `stash pop`: apply a stash entry to the worktree.

use sapwood::stash::{
    apply::{self, Refresh},
    entry::Entry,
};

use super::{
    common::{find, open},
    entries::drop_entry,
    options::EntryRequest,
};
use crate::{
    commands::{nested, status},
    session::{Session, invocation::Invocation},
    term::{
        args::{Parsed, Set},
        console,
        failure::Failure,
    },
};

/// The treatment of the entry afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnSuccess {
    /// The entry stays.
    Keep,
    /// The entry is dropped, unless something failed.
    Drop,
}

/// Runs the command. Returns the exit code.
pub(super) fn run(
    run: &Invocation,
    parsed: Parsed<Set<EntryRequest>>,
    on_success: OnSuccess,
) -> Result<u8, Failure> {
    let mut request = EntryRequest::default();
    let args = parsed.store(&mut request)?;
    let (repo, settings) = open(run)?;
    let EntryRequest { index, quiet, .. } = request;
    let request = apply::Request { index, ..apply::Request::default() }.resolved(&repo)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let entry = find(&repo, &args)?;
    let number = match on_success {
        OnSuccess::Keep => None,
        OnSuccess::Drop => Some(entry.number()?),
    };
    let code = apply(session, &entry, request, quiet)?;
    match number {
        None => Ok(code),
        Some(number) if code == 0 => drop_entry(session, &entry, number, quiet),
        Some(_) => {
            console::out("The stash entry is kept in case you need it again.");
            Ok(code)
        }
    }
}

/// Applies an entry. Returns the exit code. If it is 0, all files are durable.
pub(super) fn apply(
    session: Session<'_>,
    entry: &Entry,
    request: apply::Request,
    quiet: bool,
) -> Result<u8, Failure> {
    let Session { invocation: run, repository: repo, .. } = session;
    let reflog_action = run.variable("GIT_REFLOG_ACTION").map(Into::into);
    let request = apply::Request { keep: run.original_cwd(repo), reflog_action, ..request };
    // Without `--quiet`, `status` refreshes the index.
    let refresh = if quiet { Refresh::Now } else { Refresh::Later };
    let prepared = apply::prepare(session.context(run), entry, &request, refresh)?;
    let code = u8::from(!prepared.execute()?);
    if !quiet {
        nested::run(run, repo, &status::COMMAND, &[])?;
    }
    Ok(code)
}
