//! Moves HEAD and branches: the parts of `switch`, `checkout` and `reset` that change refs, not the
//! index or the worktree. Nothing is printed. The caller prints messages from the returned values.
//!
//! - [`names`]: resolution of a command-line word to a branch;
//! - [`tracking`]: the upstream of a new branch;
//! - [`state`]: operations in progress, and how to end them;
//! - [`operations`]: operations in progress with the details that `status` prints.
//!
//! Order: first check if the refs can be moved (`check_*`), then bring the worktree and the index
//! to the target, then move the refs. All refs are locked and checked before the first one changes,
//! so a failure leaves HEAD unchanged.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use store::refs::{Change, Expected};

pub mod names;
pub mod operations;
pub mod state;
pub mod tracking;

/// The reason why HEAD or a branch could not be read or moved.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Refs(#[from] store::refs::Error),
    #[error("could not read '{}': {}", .path.display(), sys::reason(.source))]
    Read { path: std::path::PathBuf, source: std::io::Error },
}

impl Error {
    /// Returns true if the committer is unknown. Git reports that with a message of its own.
    pub fn is_missing_committer(&self) -> bool {
        matches!(self, Error::Refs(store::refs::Error::NoCommitter(_)))
    }

    /// Returns one line of advice for the user.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::Refs(error) => error.advice(),
            _ => None,
        }
    }
}

/// The new target of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A branch by its full name. It need not exist.
    Branch(&'a BStr),
    /// A commit.
    Commit(ObjectId),
}

/// Points HEAD at `target`, with `message` in its reflog.
pub fn move_head(refs: &store::refs::Options, target: Target<'_>, message: &BStr) -> Result<(), Error> {
    Ok(store::refs::apply(refs, vec![head_change(target, message, None)])?)
}

/// Returns an error if [`move_head`] to `target` would be refused. `commit` is the commit of
/// `target`. Nothing is written.
pub fn check_head(
    refs: &store::refs::Options,
    target: Target<'_>,
    commit: Option<ObjectId>,
) -> Result<(), Error> {
    Ok(store::refs::preflight(refs, &[head_change(target, "".into(), commit)])?)
}

fn head_change(target: Target<'_>, message: &BStr, new: Option<ObjectId>) -> Change {
    let message = message.to_owned();
    match target {
        Target::Branch(name) => Change::Symbolic {
            name: "HEAD".into(),
            target: name.to_owned(),
            message: Some(message),
            // The old value is read at the time of the change, because HEAD's branch may have been
            // reset since.
            old: None,
            new,
        },
        Target::Commit(new) => Change::Update { name: "HEAD".into(), new, expected: Expected::Any, message },
    }
}

/// Creates the branch `name` (full) at `oid`, or resets it if it `exists`. `start` is the starting
/// point to record in the reflog.
pub fn create_branch(
    refs: &store::refs::Options,
    name: &BStr,
    oid: ObjectId,
    start: &BStr,
    exists: bool,
) -> Result<(), Error> {
    Ok(store::refs::apply(refs, vec![branch_change(name, oid, start, exists)])?)
}

/// Returns an error if [`create_branch`] would be refused. Nothing is written.
pub fn check_branch(
    refs: &store::refs::Options,
    name: &BStr,
    oid: ObjectId,
    exists: bool,
) -> Result<(), Error> {
    Ok(store::refs::preflight(refs, &[branch_change(name, oid, "".into(), exists)])?)
}

fn branch_change(name: &BStr, oid: ObjectId, start: &BStr, exists: bool) -> Change {
    let (expected, lead) = if exists {
        (Expected::Any, "branch: Reset to ")
    } else {
        (Expected::Missing, "branch: Created from ")
    };
    let message = [lead.as_bytes(), start].concat().into();
    Change::Update { name: name.to_owned(), new: oid, expected, message }
}

/// Moves the branch of HEAD, or a detached HEAD itself, to `new`, and records the old commit in
/// ORIG_HEAD. Like Git, it moves HEAD even if ORIG_HEAD cannot be changed, and returns the error of
/// ORIG_HEAD.
pub fn reset_head(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    new: ObjectId,
    reason: ResetReason<'_>,
) -> Result<Option<Error>, Error> {
    move_to(repo, refs, repo.head()?.oid(), new, reason)
}

/// Like [`reset_head`], to the commit that HEAD has at the time of the call. If another process has
/// moved HEAD since the command started, that move is kept. Does nothing if HEAD has no commit.
pub fn reset_head_to_itself(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    reason: ResetReason<'_>,
) -> Result<Option<Error>, Error> {
    match repo.head()?.oid() {
        Some(head) => move_to(repo, refs, Some(head), head, reason),
        None => Ok(None),
    }
}

fn move_to(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    old: Option<ObjectId>,
    new: ObjectId,
    reason: ResetReason<'_>,
) -> Result<Option<Error>, Error> {
    let (name, changes) = reset_changes(repo, old, new, reason)?;
    let head = changes.last().cloned();
    match store::refs::apply(refs, changes) {
        Ok(()) => Ok(None),
        Err(error) if error.is_of("ORIG_HEAD".into()) => {
            store::refs::apply(refs, head.into_iter().collect()).map_err(|error| name_head(error, &name))?;
            Ok(Some(error.into()))
        }
        Err(error) => Err(name_head(error, &name).into()),
    }
}

/// Returns an error if [`reset_head`] would be refused. Nothing is written.
pub fn check_reset(repo: &repo::Repository, refs: &store::refs::Options, new: ObjectId) -> Result<(), Error> {
    let old = repo.head()?.oid();
    let (name, mut changes) = reset_changes(repo, old, new, ResetReason::To("".into()))?;
    // A failure of ORIG_HEAD does not stop the reset.
    changes.retain(|change| change.name() != "ORIG_HEAD");
    if name != "HEAD" {
        // HEAD's reflog also gets a line.
        changes.push(head_change(Target::Branch(name.as_bstr()), "".into(), Some(new)));
    }
    Ok(store::refs::preflight(refs, &changes).map_err(|error| name_head(error, &name))?)
}

/// Moves HEAD, or the branch to which HEAD currently points, from the commit `old` to `new`. If
/// `old` is `None`, the branch must not exist yet.
pub fn advance_head(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &BStr,
) -> Result<(), Error> {
    let (name, change) = advance_change(repo, old, new, message)?;
    Ok(store::refs::apply(refs, vec![change]).map_err(|error| name_head(error, &name))?)
}

/// Returns an error if [`advance_head`] would be refused. Nothing is written.
pub fn check_advance(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    old: Option<ObjectId>,
    new: ObjectId,
) -> Result<(), Error> {
    let (name, change) = advance_change(repo, old, new, "".into())?;
    Ok(store::refs::preflight(refs, &[change]).map_err(|error| name_head(error, &name))?)
}

/// Returns the name of the ref to move, and the change.
fn advance_change(
    repo: &repo::Repository,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &BStr,
) -> Result<(BString, Change), Error> {
    // An unreadable HEAD is an error. It must not be replaced by a detached one. Only one step is
    // followed: if the branch is symbolic, the update follows it and writes its log too.
    let (name, _) = repo.readable_chain("HEAD".into(), false)?.ok_or_else(|| {
        let name = BString::from("HEAD");
        let reason = store::refs::Reason::Unresolved { name: name.clone() };
        store::refs::Error::CannotLock { name, reason }
    })?;
    let expected = old.map_or(Expected::Missing, Expected::Is);
    let change = Change::Update { name: name.clone(), new, expected, message: message.to_owned() };
    Ok((name, change))
}

/// Replaces the branch's name by HEAD in a lock error, because the user's command changes HEAD.
fn name_head(error: store::refs::Error, name: &BString) -> store::refs::Error {
    match error {
        store::refs::Error::CannotLock { name: locked, reason } if locked == *name => {
            store::refs::Error::CannotLock { name: "HEAD".into(), reason }
        }
        error => error,
    }
}

/// Returns the ref changes of a reset from the commit `old`, preceded by the name of HEAD's branch,
/// or HEAD if it is detached. The last change is that of this ref.
fn reset_changes(
    repo: &repo::Repository,
    old: Option<ObjectId>,
    new: ObjectId,
    reason: ResetReason<'_>,
) -> Result<(BString, Vec<Change>), Error> {
    let name = repo.symbolic_target("HEAD".into())?.unwrap_or_else(|| "HEAD".into());
    let (orig_message, message): (BString, BString) = match reason {
        ResetReason::Action(action) => {
            let with = |what: &str| bstr::concat([action.as_bytes(), b": ", what.as_bytes()]).into();
            (with("updating ORIG_HEAD"), with("updating HEAD"))
        }
        ResetReason::To(rev) => {
            ("reset: updating ORIG_HEAD".into(), bstr::concat([b"reset: moving to ", rev.as_bytes()]).into())
        }
    };
    let mut changes = Vec::new();
    match old {
        Some(old) => changes.push(Change::Update {
            name: "ORIG_HEAD".into(),
            new: old,
            expected: Expected::Any,
            message: orig_message,
        }),
        None if repo.find_ref("ORIG_HEAD".into())?.is_some() => {
            changes.push(Change::Delete { name: "ORIG_HEAD".into(), expected: Expected::Any });
        }
        None => {}
    }
    let expected = old.map_or(Expected::Any, Expected::Is);
    changes.push(Change::Update { name: name.clone(), new, expected, message });
    Ok((name, changes))
}

/// The reason for a reset, for the reflog.
#[derive(Clone, Copy, Debug)]
pub enum ResetReason<'a> {
    /// The value of `GIT_REFLOG_ACTION`.
    Action(&'a BStr),
    /// The revision, spelled as the user gave it.
    To(&'a BStr),
}
