//! Moving HEAD and branches: everything of `switch`, `checkout` and `reset` that is neither index
//! nor worktree. Nothing is printed; what a user is told is told by the caller, from the values
//! returned.
//!
//! - [`names`]: what a word on the command line means as a branch;
//! - [`tracking`]: what a new branch is to follow;
//! - [`state`]: operations in progress, and ending them;
//! - [`standing`]: the same, in the detail that `status` tells.
//!
//! Order: the worktree and the index are brought to the target first; refs move last, all locked
//! and checked before the first is changed, so a failure leaves HEAD naming what it named before.

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
    let message = message.to_owned();
    let change = match target {
        Target::Branch(name) => Change::Symbolic {
            name: "HEAD".into(),
            target: name.to_owned(),
            message: Some(message),
            // As they are when it happens: a branch HEAD is on may just have been reset.
            old: None,
            new: None,
        },
        Target::Commit(new) => Change::Update { name: "HEAD".into(), new, expected: Expected::Any, message },
    };
    Ok(store::refs::apply(refs, vec![change])?)
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
    let (expected, lead) = match exists {
        true => (Expected::Any, "branch: Reset to "),
        false => (Expected::Missing, "branch: Created from "),
    };
    let message = [lead.as_bytes(), start].concat().into();
    let change = Change::Update { name: name.to_owned(), new: oid, expected, message };
    Ok(store::refs::apply(refs, vec![change])?)
}

/// Moves the branch HEAD is on, or HEAD itself if it is detached, to `new`; what HEAD was at is kept
/// in ORIG_HEAD. `reason` leads the reflog lines' messages, `to` is what the user asked for.
pub fn reset_head(
    repo: &repo::Repository,
    refs: &store::refs::Options,
    new: ObjectId,
    reason: ResetReason<'_>,
) -> Result<(), Error> {
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
    Ok(store::refs::apply(refs, changes).map_err(|error| match error {
        // It is HEAD that was to be changed.
        store::refs::Error::CannotLock { name: locked, reason } if locked == name => {
            store::refs::Error::CannotLock { name: "HEAD".into(), reason }
        }
        error => error,
    })?)
}

/// What the reflog says of a reset.
#[derive(Clone, Copy, Debug)]
pub enum ResetReason<'a> {
    /// `GIT_REFLOG_ACTION` is set to this.
    Action(&'a BStr),
    /// The revision as the user gave it.
    To(&'a BStr),
}
