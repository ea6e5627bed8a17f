//! Refs in the files backend: loose refs, packed-refs, HEAD, reflogs. Refs of one worktree (HEAD,
//! ORIG_HEAD, `refs/bisect/` and others) are in its Git directory, all other refs in the common
//! one. Source: gitrepository-layout(5).

use std::{io, path::PathBuf};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId, packed_refs::Malformed};

use crate::{Fsync, SharedRepository, Wait};

mod edit;
mod entries;
mod log;
mod packed;
mod paths;
mod preflight;
mod read;
mod side_by_side;
mod transaction;

pub use edit::{Edit, Follow, Logged, New, NewLog, Old, Rejection};
pub use entries::{drop_entry, record};
pub use log::begin as begin_log;
pub use packed::{PackedRef, write_packed};
pub use preflight::preflight;
pub use side_by_side::sync;
pub use transaction::{
    Failures, Observer, RefTransaction, Rejected, Stage, apply, check_name_of, remove_broken,
};

/// The location and the options for writing refs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The worktree's Git directory, absolute.
    pub git_dir: PathBuf,
    /// The Git directory that all worktrees share, absolute. Often the same.
    pub common_dir: PathBuf,
    /// The common directory as it appears in messages.
    pub display_dir: PathBuf,
    /// The repository's hash.
    pub hash: HashKind,
    /// `<name> <<email>> <seconds> <zone>` for reflogs. If it is unknown, the reason for that;
    /// changes that are logged then fail.
    pub committer: Result<BString, String>,
    /// `core.logAllRefUpdates`
    pub log: LogPolicy,
    /// `core.fsync` and related settings; refs are the component `reference`.
    pub fsync: Fsync,
    /// Lock timeouts, and the mode of new files.
    pub locks: Locks,
}

/// Locks of refs.
#[derive(Clone, Copy, Debug)]
pub struct Locks {
    /// `core.filesRefLockTimeout`, for each loose ref.
    pub loose: Wait,
    /// `core.packedRefsTimeout`, for packed-refs.
    pub packed: Wait,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
}

impl Default for Locks {
    /// Git's defaults: 100 milliseconds and one second.
    fn default() -> Self {
        Locks { loose: Wait::Millis(100), packed: Wait::Millis(1000), shared: SharedRepository::Umask }
    }
}

/// `core.logAllRefUpdates`. The caller resolves its default: `Never` in a bare repository, else
/// `Standard`. An existing reflog is always continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPolicy {
    /// `false`: no new reflogs.
    Never,
    /// `true`: reflogs for HEAD, `refs/heads/`, `refs/remotes/` and `refs/notes/`.
    Standard,
    /// `always`: a reflog for every ref.
    Always,
}

/// One change. A transaction locks and checks all its changes before it makes the first one.
#[derive(Clone, Debug)]
pub enum Change {
    /// Set `name` to `new` and log `message`. If HEAD points to `name`, HEAD's reflog also gets the
    /// line, even if the value stays the same. A symbolic ref is followed, and its own reflog also
    /// gets the line. HEAD is not followed, so setting HEAD detaches it.
    Update {
        /// Full name.
        name: BString,
        /// The new value.
        new: ObjectId,
        /// The value that the ref must have before.
        expected: Expected,
        /// The message for the reflog; white space is collapsed.
        message: BString,
    },
    /// Make `name` symbolic to `target`, and log a line from its old to its new value.
    Symbolic {
        /// Full name, usually `HEAD`.
        name: BString,
        /// Full name of the target. It may be missing (an unborn branch); then nothing is logged.
        target: BString,
        /// The message for the reflog. `None` logs a line without message, as `git symbolic-ref`
        /// does.
        message: Option<BString>,
        /// The old value for the reflog; `None` to look it up.
        old: Option<ObjectId>,
        /// The new value for the reflog; `None` to look it up.
        new: Option<ObjectId>,
    },
    /// Remove `name` (not followed) and its reflog.
    Delete {
        /// Full name.
        name: BString,
        /// The value that the ref must have before.
        expected: Expected,
    },
}

/// The value that a ref must have before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any value, or no ref.
    Any,
    /// No such ref may exist.
    Missing,
    /// Exactly this value.
    Is(ObjectId),
}

impl Change {
    /// Returns the name of the changed ref.
    pub fn name(&self) -> &BStr {
        match self {
            Change::Update { name, .. } | Change::Symbolic { name, .. } | Change::Delete { name, .. } => {
                name.as_bstr()
            }
        }
    }

    fn expected(&self) -> Expected {
        match self {
            Change::Update { expected, .. } | Change::Delete { expected, .. } => *expected,
            Change::Symbolic { .. } => Expected::Any,
        }
    }
}

/// The reason why refs were not changed. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// See [`Options::committer`].
    #[error("{0}")]
    NoCommitter(String),
    #[error("refusing to update ref with bad name '{name}'")]
    BadName { name: BString },
    #[error("multiple updates for ref '{name}' not allowed")]
    Duplicate { name: BString },
    /// Usually caused by a symbolic ref that points to itself.
    #[error("multiple updates for '{name}' (including one via symref '{via}') are not allowed")]
    DuplicateVia { name: BString, via: BString },
    #[error("refusing to update pseudoref '{name}'")]
    Pseudoref { name: BString },
    #[error("multiple updates for 'HEAD' (including one via its referent '{via}') are not allowed")]
    DuplicateHead { via: BString },
    #[error("verifying symref target: '{name}': reference is missing but expected {expected}")]
    TargetMissing { name: BString, expected: BString },
    #[error("verifying symref target: '{name}': is at {is} but expected {expected}")]
    TargetMismatch { name: BString, is: BString, expected: BString },
    /// See [`Observer`].
    #[error("in '{stage}' phase, update aborted by the reference-transaction hook")]
    Vetoed { stage: Stage },
    #[error("cannot lock ref '{name}': {reason}")]
    CannotLock { name: BString, reason: Reason },
    /// A conflict with a packed ref.
    #[error("'{existing}' exists; cannot create '{name}'")]
    Conflict { existing: BString, name: BString },
    #[error("cannot process '{name}' and '{other}' at the same time")]
    Together { name: BString, other: BString },
    #[error("HEAD has been racily updated")]
    HeadMoved,
    #[error("couldn't set '{name}': {source}")]
    CannotSet { name: BString, source: crate::Error },
    #[error("cannot update the ref '{name}': unable to append to '{}': {}", .path.display(), sys::reason(.source))]
    CannotLog { name: BString, path: PathBuf, source: io::Error },
    #[error("cannot update the ref '{name}': there are still logs under '{}'", .path.display())]
    LogsBelow { name: BString, path: PathBuf },
    /// Another process changed the reflog, or the ref, since the caller read them.
    #[error("reflog of '{name}' was changed by another process")]
    LogMoved { name: BString },
    #[error("{}", .problem.message(.path))]
    MalformedPackedRefs { path: PathBuf, problem: Malformed },
    #[error("could not {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// An error of packed-refs, or of a lock file after it was taken.
    #[error(transparent)]
    File(#[from] crate::Error),
}

impl Error {
    /// Returns true if the error concerns only the ref `name`.
    pub fn is_of(&self, name: &BStr) -> bool {
        match self {
            Error::CannotLock { name: of, .. }
            | Error::CannotSet { name: of, .. }
            | Error::CannotLog { name: of, .. }
            | Error::LogsBelow { name: of, .. } => of == name,
            _ => false,
        }
    }

    /// Returns true if the observer has ended the transaction. See [`Observer`].
    pub fn is_veto(&self) -> bool {
        matches!(self, Error::Vetoed { .. })
    }

    /// Returns a line of advice for the user.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::CannotLock { reason: Reason::Lock(error), .. }
            | Error::CannotSet { source: error, .. }
            | Error::File(error) => error.advice(),
            _ => None,
        }
    }
}

/// The reason why one ref could not be locked at its expected value.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Reason {
    #[error(transparent)]
    Lock(crate::Error),
    #[error("unable to create directory for {}: {}", .path.display(), sys::reason(.source))]
    CannotCreateDirectory { path: PathBuf, source: io::Error },
    #[error("unable to create lock file {}.lock; non-directory in the way", .path.display())]
    NonDirectoryInTheWay { path: PathBuf },
    #[error("'{existing}' exists; cannot create '{name}'")]
    Conflict { existing: BString, name: BString },
    #[error("cannot process '{name}' and '{other}' at the same time")]
    Together { name: BString, other: BString },
    #[error("there is a non-empty directory '{}' blocking reference '{name}'", .path.display())]
    NonEmptyDirectory { path: PathBuf, name: BString },
    #[error("unable to resolve reference '{name}'")]
    Unresolved { name: BString },
    #[error("unable to resolve reference '{name}': {}", sys::reason(.source))]
    Unreadable { name: BString, source: io::Error },
    #[error("unable to resolve reference '{name}': reference broken")]
    Broken { name: BString },
    #[error("reference already exists")]
    AlreadyExists,
    #[error("dangling symref already exists")]
    DanglingSymref,
    #[error("expected symref with target '{expected}': but is a regular ref")]
    NotSymbolic { expected: BString },
    #[error("error reading reference")]
    ErrorReading,
    #[error("reference is missing but expected {expected}")]
    Missing { expected: ObjectId },
    #[error("is at {is} but expected {expected}")]
    Mismatch { is: ObjectId, expected: ObjectId },
}
