//! Refs, files backend: loose refs, packed-refs, HEAD, reflogs. Refs of one worktree (HEAD, ORIG_HEAD,
//! `refs/bisect/` and so on) live in its Git directory, the rest in the common one.

use std::{io, path::PathBuf};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId, packed_refs::Malformed};

use crate::{Fsync, SharedRepository, Wait};

mod log;
mod packed;
mod paths;
mod preflight;
mod read;
mod transaction;

pub use log::begin as begin_log;
pub use packed::{PackedRef, write_packed};
pub use preflight::preflight;
pub use transaction::apply;

/// Where and how refs are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The worktree's Git directory, absolute.
    pub git_dir: PathBuf,
    /// The Git directory shared by all worktrees, absolute; often the same.
    pub common_dir: PathBuf,
    /// The shared one as messages name it.
    pub display_dir: PathBuf,
    /// How objects are named.
    pub hash: HashKind,
    /// `<name> <<email>> <seconds> <zone>` for reflogs; or why there is none, an error for changes that are logged.
    pub committer: Result<BString, String>,
    /// `core.logAllRefUpdates`
    pub log: LogPolicy,
    /// `core.fsync` and its kin; refs are the component `reference`.
    pub fsync: Fsync,
    /// How long to wait for locks, and what mode files get.
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
    /// Git's: 100 milliseconds and a second.
    fn default() -> Self {
        Locks { loose: Wait::Millis(100), packed: Wait::Millis(1000), shared: SharedRepository::Umask }
    }
}

/// `core.logAllRefUpdates`, its default resolved: `Never` in a bare repository, else `Standard`.
/// Whatever the policy, a reflog that exists is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPolicy {
    /// `false`: no reflog is begun.
    Never,
    /// `true`: for HEAD, `refs/heads/`, `refs/remotes/` and `refs/notes/`.
    Standard,
    /// `always`: for every ref.
    Always,
}

/// One change. All changes of a transaction are locked and checked before the first is made.
#[derive(Clone, Debug)]
pub enum Change {
    /// Point `name` at `new`, logging `message`. If HEAD is symbolic to `name`, HEAD's reflog gets the line too, even if the
    /// value stays the same. A symbolic ref is followed, and its own reflog gets the line as well; HEAD is not, which detaches it.
    Update {
        /// Full name.
        name: BString,
        /// The new value.
        new: ObjectId,
        /// What the ref must be before.
        expected: Expected,
        /// For the reflog; white space is squeezed.
        message: BString,
    },
    /// Make `name` symbolic to `target`, with a reflog line from its old to its new value.
    Symbolic {
        /// Full name, usually `HEAD`.
        name: BString,
        /// Full name of the ref it will point to; it may be missing (an unborn branch), then nothing is logged.
        target: BString,
        /// For the reflog; `None` logs a line without message, as `git symbolic-ref` does.
        message: Option<BString>,
        /// The old value for the reflog, if it is not to be looked up.
        old: Option<ObjectId>,
        /// The new value for the reflog, if it is not to be looked up.
        new: Option<ObjectId>,
    },
    /// Remove `name` (not dereferenced) with its reflog.
    Delete {
        /// Full name.
        name: BString,
        /// What the ref must be before.
        expected: Expected,
    },
}

/// The value a ref must have before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything, also none.
    Any,
    /// There must be no such ref.
    Missing,
    /// This.
    Is(ObjectId),
}

impl Change {
    /// The ref changed.
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

/// Why refs were not changed. Messages are Git's.
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
    /// Most often a symbolic ref that leads to itself.
    #[error("multiple updates for '{name}' (including one via symref '{via}') are not allowed")]
    DuplicateVia { name: BString, via: BString },
    #[error("cannot lock ref '{name}': {reason}")]
    CannotLock { name: BString, reason: Reason },
    /// With a packed ref.
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
    #[error("{}", .problem.message(.path))]
    MalformedPackedRefs { path: PathBuf, problem: Malformed },
    #[error("could not {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// Of packed-refs, or of a lock file once taken.
    #[error(transparent)]
    File(#[from] crate::Error),
}

impl Error {
    /// Returns true if the error is about the ref `name` alone.
    pub fn is_of(&self, name: &BStr) -> bool {
        match self {
            Error::CannotLock { name: of, .. }
            | Error::CannotSet { name: of, .. }
            | Error::CannotLog { name: of, .. }
            | Error::LogsBelow { name: of, .. } => of == name,
            _ => false,
        }
    }

    /// One line on what to do about it, for people.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::CannotLock { reason: Reason::Lock(error), .. }
            | Error::CannotSet { source: error, .. }
            | Error::File(error) => error.advice(),
            _ => None,
        }
    }
}

/// Why one ref could not be locked at the value expected.
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
    #[error("reference is missing but expected {expected}")]
    Missing { expected: ObjectId },
    #[error("is at {is} but expected {expected}")]
    Mismatch { is: ObjectId, expected: ObjectId },
}
