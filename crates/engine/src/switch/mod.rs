//! Moving HEAD and branches: everything of `switch`, `checkout` and `reset` that is neither index
//! nor worktree. Nothing is printed; what a user is told is told by the caller, from the values
//! returned.
//!
//! - [`names`]: what a word on the command line means as a branch;
//! - [`tracking`]: what a new branch is to follow;
//! - [`state`]: operations in progress, and ending them;
//! - [`standing`]: the same, in the detail that `status` tells.
//!
//! Order: what would keep refs from being moved is looked for first (`foresee_*`); then the worktree and the index are
//! brought to the target; refs move last, all locked and checked before the first is changed, so a failure leaves HEAD
//! naming what it named before.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use store::refs::{Change, Expected};

pub mod names;
pub mod standing;
pub mod state;
pub mod tracking;

/// Why HEAD or a branch could not be read or moved.
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
    /// Nobody knows who makes the change: Git dies of that in words of its own.
    pub fn is_of_committer(&self) -> bool {
        matches!(self, Error::Refs(store::refs::Error::NoCommitter(_)))
    }

    /// One line on what to do about it, for people.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::Refs(error) => error.advice(),
            _ => None,
        }
    }
}

/// Where HEAD is to point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A branch by its full name, born or not.
    Branch(&'a BStr),
    /// A commit.
    Commit(ObjectId),
}

/// Points HEAD at `target`, with `message` in its reflog.
pub fn move_head(refs: &store::refs::Options, target: Target<'_>, message: &BStr) -> Result<(), Error> {
    Ok(store::refs::apply(refs, vec![head_change(target, message, None)])?)
}

/// An error if [`move_head`] to `target`, which is at `commit`, would be refused. Nothing is written.
pub fn foresee_head(
    refs: &store::refs::Options,
    target: Target<'_>,
    commit: Option<ObjectId>,
) -> Result<(), Error> {
    Ok(store::refs::foresee(refs, &[head_change(target, "".into(), commit)])?)
}

fn head_change(target: Target<'_>, message: &BStr, new: Option<ObjectId>) -> Change {
    let message = message.to_owned();
    match target {
        Target::Branch(name) => Change::Symbolic {
            name: "HEAD".into(),
            target: name.to_owned(),
            message: Some(message),
            // As they are when it happens: a branch HEAD is on may just have been reset.
            old: None,
            new,
        },
        Target::Commit(new) => Change::Update { name: "HEAD".into(), new, expected: Expected::Any, message },
    }
}

/// Creates the branch `name` (full), or resets it if it `exists`, at `oid`. `start` is what the
/// reflog says it was made from.
pub fn create_branch(
    refs: &store::refs::Options,
    name: &BStr,
    oid: ObjectId,
    start: &BStr,
    exists: bool,
) -> Result<(), Error> {
    Ok(store::refs::apply(refs, vec![branch_change(name, oid, start, exists)])?)
}

/// An error if [`create_branch`] would be refused. Nothing is written.
pub fn foresee_branch(
    refs: &store::refs::Options,
    name: &BStr,
    oid: ObjectId,
    exists: bool,
) -> Result<(), Error> {
    Ok(store::refs::foresee(refs, &[branch_change(name, oid, "".into(), exists)])?)
}

fn branch_change(name: &BStr, oid: ObjectId, start: &BStr, exists: bool) -> Change {
    let (expected, lead) = match exists {
        true => (Expected::Any, "branch: Reset to "),
        false => (Expected::Missing, "branch: Created from "),
    };
    let message = [lead.as_bytes(), start].concat().into();
    Change::Update { name: name.to_owned(), new: oid, expected, message }
}

/// Moves the branch HEAD is on, or HEAD itself if it is detached, to `new`; what HEAD was at is kept
/// in ORIG_HEAD. `reason` leads the reflog lines' messages, `to` is what the user asked for. What keeps
/// ORIG_HEAD from being changed is returned; HEAD moves all the same, as with Git.
pub fn reset_head(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    new: ObjectId,
    reason: ResetReason<'_>,
) -> Result<Option<Error>, Error> {
    let (name, changes) = reset_changes(repo, new, reason)?;
    let head = changes.last().cloned();
    match store::refs::apply(refs, changes) {
        Ok(()) => Ok(None),
        Err(error) if error.is_of("ORIG_HEAD".into()) => {
            store::refs::apply(refs, head.into_iter().collect()).map_err(|error| of_head(error, &name))?;
            Ok(Some(error.into()))
        }
        Err(error) => Err(of_head(error, &name).into()),
    }
}

/// An error if [`reset_head`] would be refused. Nothing is written.
pub fn foresee_reset(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    new: ObjectId,
) -> Result<(), Error> {
    let (name, mut changes) = reset_changes(repo, new, ResetReason::To("".into()))?;
    // It may fail.
    changes.retain(|change| change.name() != "ORIG_HEAD");
    if name != "HEAD" {
        // Its reflog gets the line as well.
        changes.push(head_change(Target::Branch(name.as_bstr()), "".into(), Some(new)));
    }
    Ok(store::refs::foresee(refs, &changes).map_err(|error| of_head(error, &name))?)
}

/// It is HEAD that was to be changed.
fn of_head(error: store::refs::Error, name: &BString) -> store::refs::Error {
    match error {
        store::refs::Error::CannotLock { name: locked, reason } if locked == *name => {
            store::refs::Error::CannotLock { name: "HEAD".into(), reason }
        }
        error => error,
    }
}

/// The ref changes of a reset. The ref that HEAD is, or is on, comes last; its name is returned first.
fn reset_changes(
    repo: &repo::Repository,
    new: ObjectId,
    reason: ResetReason<'_>,
) -> Result<(BString, Vec<Change>), Error> {
    let old = repo.head()?.oid();
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

/// What the reflog says of a reset.
#[derive(Clone, Copy, Debug)]
pub enum ResetReason<'a> {
    /// `GIT_REFLOG_ACTION` is set to this.
    Action(&'a BStr),
    /// The revision as the user gave it.
    To(&'a BStr),
}
