//! One edit of a ref in a transaction, and the reasons for which a batch rejects it.

use std::fmt;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;

use super::{Change, Error, Expected, Reason};

/// The value that an edit gives a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// The ref stays as it is: only its old value is checked.
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

/// How an edit of a symbolic ref is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The ref at the end of the chain changes.
    Yes,
    /// The symbolic ref itself changes.
    No,
}

/// When an edit starts a reflog. An existing one is always continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewLog {
    /// As [`super::LogPolicy`] says.
    ByPolicy,
    /// Always.
    Always,
}

/// One edit. See [`super::Transaction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The full name.
    pub name: BString,
    /// The new value.
    pub new: New,
    /// The old value.
    pub old: Old,
    /// How a symbolic ref is treated.
    pub follow: Follow,
    /// When a reflog is started.
    pub log: NewLog,
    /// The message for the reflog; white space is collapsed.
    pub message: BString,
    /// The values for the reflog, if the caller knows better than the refs.
    pub logged: Logged,
}

/// Values for a line of a reflog. `None`: as the refs have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The old value.
    pub old: Option<ObjectId>,
    /// The new value.
    pub new: Option<ObjectId>,
}

impl Edit {
    /// An edit that sets `name` to `new`, whatever it was. A symbolic ref is followed.
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

    /// The edit that a change stands for.
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

/// Why a batch leaves out one edit. The words are Git's.
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
    /// Returns the reason for which a batch leaves out the edit that caused this error. `None` if
    /// it ends a batch as well.
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
