//! One edit of a ref in a transaction, and the reasons for rejecting it.

use std::fmt;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;

use super::{Change, Error, Expected, Reason};

/// The value that an edit gives a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// The ref is not changed: only its old value is checked.
    Keep,
    /// An object. The null name deletes the ref and its reflog.
    Id(ObjectId),
    /// Another ref.
    Symbolic(BString),
}

/// The value that a ref must have before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Old {
    /// Any value, or no ref.
    Any,
    /// Exactly this object. The null name: no such ref may exist.
    Id(ObjectId),
    /// The ref must be symbolic and have this target.
    Symbolic(BString),
}

/// The handling of a symbolic ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The ref at the end of the chain changes.
    Yes,
    /// The symbolic ref itself changes.
    No,
}

/// The condition under which an edit starts a reflog. An existing reflog is always continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewLog {
    /// As [`super::LogPolicy`] specifies.
    ByPolicy,
    /// Always.
    Always,
}

/// One edit. See [`super::RefTransaction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The full name.
    pub name: BString,
    /// The new value.
    pub new: New,
    /// The old value.
    pub old: Old,
    /// The handling of a symbolic ref.
    pub follow: Follow,
    /// The condition under which a reflog is started.
    pub log: NewLog,
    /// The message for the reflog; white space is collapsed.
    pub message: BString,
    /// The values for the reflog, if the caller overrides those of the refs.
    pub logged: Logged,
}

/// Values for a line of a reflog. `None` means the value of the ref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The old value.
    pub old: Option<ObjectId>,
    /// The new value.
    pub new: Option<ObjectId>,
}

impl Edit {
    /// Returns an edit that sets `name` to `new`, whatever the old value. A symbolic ref is
    /// followed.
    pub fn set(name: &BStr, new: ObjectId, message: &BStr) -> Edit {
        Edit {
            name: name.to_owned(),
            new: New::Id(new),
            old: Old::Any,
            follow: Follow::Yes,
            log: NewLog::ByPolicy,
            message: message.to_owned(),
            logged: Logged::default(),
        }
    }

    /// Converts a change to an edit.
    pub(super) fn of(change: Change, null: ObjectId) -> Edit {
        let old = match change.expected() {
            Expected::Any => Old::Any,
            Expected::Missing => Old::Id(null),
            Expected::Is(oid) => Old::Id(oid),
        };
        match change {
            Change::Update { name, new, message, .. } => {
                let follow = if name == "HEAD" { Follow::No } else { Follow::Yes };
                Edit { old, follow, ..Edit::set(name.as_bstr(), new, message.as_bstr()) }
            }
            Change::Delete { name, .. } => {
                Edit { old, follow: Follow::No, ..Edit::set(name.as_bstr(), null, "".into()) }
            }
            Change::Symbolic { name, target, message, old, new } => Edit {
                new: New::Symbolic(target),
                follow: Follow::No,
                logged: Logged { old, new },
                ..Edit::set(name.as_bstr(), null, message.unwrap_or_default().as_bstr())
            },
        }
    }
}

/// The reason why a batch skips one edit. The wording is Git's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Rejection {
    NameConflict,
    CreateExists,
    NonexistentRef,
    IncorrectOldValue,
    InvalidNewValue,
    ExpectedSymref,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejection::NameConflict => "refname conflict",
            Rejection::CreateExists => "reference already exists",
            Rejection::NonexistentRef => "reference does not exist",
            Rejection::IncorrectOldValue => "incorrect old value provided",
            Rejection::InvalidNewValue => "invalid new value provided",
            Rejection::ExpectedSymref => "expected symref but found regular ref",
        })
    }
}

impl Error {
    /// Returns the reason for which a batch skips the edit that caused this error. Returns `None`
    /// if the error ends the batch.
    pub fn rejection(&self) -> Option<Rejection> {
        Some(match self {
            Error::DuplicateVia { .. }
            | Error::DuplicateHead { .. }
            | Error::Conflict { .. }
            | Error::Together { .. } => Rejection::NameConflict,
            Error::TargetMissing { .. } => Rejection::NonexistentRef,
            Error::TargetMismatch { .. } => Rejection::IncorrectOldValue,
            Error::CannotLock { reason, .. } => match reason {
                Reason::Conflict { .. } | Reason::Together { .. } | Reason::NonEmptyDirectory { .. } => {
                    Rejection::NameConflict
                }
                Reason::Unresolved { .. } | Reason::Missing { .. } => Rejection::NonexistentRef,
                Reason::AlreadyExists
                | Reason::DanglingSymref
                | Reason::Lock(crate::Error::Locked { .. }) => Rejection::CreateExists,
                Reason::Mismatch { .. } => Rejection::IncorrectOldValue,
                Reason::NotSymbolic { .. } => Rejection::ExpectedSymref,
                _ => return None,
            },
            _ => return None,
        })
    }
}
