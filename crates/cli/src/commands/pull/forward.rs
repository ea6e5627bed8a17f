//! The fast-forward: the files, then HEAD, then the report, as in Git's `merge`.
//!
//! If files could not be written, HEAD stays, the exit code is 1, and the same pull completes the
//! rest.

use bstr::BString;
use sapwood::{
    ObjectId,
    fast_forward::{self, Executed, Goal, HeadStep},
    maintenance::{self, MaintenanceOutput},
    pull,
};

use super::options::Request;
use crate::{
    commands::diffstat,
    session::{Session, index::Start},
    term::{
        console::{self, text},
        failure::{Failure, refused_with},
    },
};

/// Returns the commits of the fast-forward that `git merge FETCH_HEAD` would make; `None` if it
/// would do something else, or more.
pub(super) fn of_merge(
    session: Session<'_>,
    request: &Request,
    heads: &[ObjectId],
) -> Result<Option<(ObjectId, ObjectId)>, Failure> {
    let repo = session.repository;
    let ([theirs], Some(ours)) = (heads, repo.head()?.oid()) else { return Ok(None) };
    let asks_more = request.squash.is_some()
        || !request.strategies.is_empty()
        || !request.strategy_options.is_empty()
        || request.verify_signatures.is_some();
    if asks_more || fast_forward::obstacle(repo, request.ff, request.autostash)?.is_some() {
        return Ok(None);
    }
    Ok(fast_forward::is_linear(repo, ours, *theirs)?.then_some((ours, *theirs)))
}

/// Performs a whole merge that fast-forwards. Returns the exit code.
pub(super) fn merge(
    session: Session<'_>,
    (old, new): (ObjectId, ObjectId),
    verbosity: i32,
    stat: Option<diffstat::Form>,
) -> Result<u8, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let refs = settings.refs(repo)?;
    fast_forward::set_orig_head(&refs, old)?;
    if repo.is_reachable(new, &[old])? {
        if verbosity >= 0 {
            console::out("Already up to date.");
        }
        fast_forward::end_merge(repo, &refs)?;
        return Ok(0);
    }
    if verbosity >= 0 {
        let line = format!("Updating {}..{}", repo.abbreviate(old)?, repo.abbreviate(new)?);
        console::out(line);
    }
    let message = text!(run.variable("GIT_REFLOG_ACTION").unwrap_or(b"merge"), ": Fast-forward");
    let head = Some(HeadStep { refs, from: Some(old), message });
    let executed = files(session, Goal { old: Some(old), new, head })?;
    if !executed.report().done.is_complete() {
        return Ok(1);
    }
    if verbosity >= 0 {
        console::out("Fast-forward");
    }
    let moved = executed.move_head()?;
    let output = if verbosity < 0 { MaintenanceOutput::Quiet } else { MaintenanceOutput::Progress };
    maintenance::start_auto(session.context(run), output)?;
    if let Some(form) = stat {
        diffstat::print(session, old, new, form)?;
    }
    moved.end()?;
    Ok(0)
}

/// Creates the first commit of a branch. `current` is the commit that the fetch has already put
/// there, if any. Returns the exit code.
pub(super) fn first_commit(
    session: Session<'_>,
    new: ObjectId,
    current: Option<ObjectId>,
) -> Result<u8, Failure> {
    let refs = session.settings.refs(session.repository)?;
    let head = Some(HeadStep { refs, from: current, message: BString::from("initial pull") });
    let executed = files(session, Goal { old: None, new, head })?;
    Ok(u8::from(!executed.move_head()?.into_report().done.is_complete()))
}

/// Updates the files after the fetch has moved the current branch.
pub(super) fn follow(session: Session<'_>, orig: ObjectId, current: ObjectId) -> Result<(), Failure> {
    console::warning(pull::moved(orig));
    let is_complete = match files(session, Goal { old: Some(orig), new: current, head: None }) {
        Ok(executed) => executed.report().done.is_complete(),
        Err(failure @ Failure::Refused(..)) => {
            failure.print();
            false
        }
        Err(failure) => return Err(failure),
    };
    if is_complete {
        return Ok(());
    }
    Err(Failure::fatal(format!(
        "Cannot fast-forward your working tree.\n\
         After making sure that you saved anything precious from\n\
         $ git diff {orig}\n\
         output, run\n\
         $ git reset --hard\n\
         to recover."
    )))
}

/// Updates index and worktree to the new commit.
fn files(session: Session<'_>, goal: Goal) -> Result<Executed<'_>, Failure> {
    let mut transaction = session.start(Start::Sparse { dry_run: false }).map_err(locked)?;
    transaction.policy.progress = true;
    let prepared = fast_forward::prepare(transaction, goal).map_err(refused_with(1))?;
    Ok(prepared.execute()?)
}

/// Returns the failure of an index that cannot be locked.
fn locked(failure: Failure) -> Failure {
    match failure {
        Failure::Fatal(message) => Failure::Error(message, 1),
        Failure::Advised(inner, advice) => locked(*inner).advised(Some(advice)),
        other => other,
    }
}
