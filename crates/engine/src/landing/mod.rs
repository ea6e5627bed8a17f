//! Takes commits from a repository that nobody trusts: that of a sealed workspace.
//!
//! Promise: only data are read there. Nothing in it is run or obeyed, no link is followed, and no
//! read waits. Each object was hashed, checked as `fsck` does, and is connected with the objects of
//! the repository. A failure leaves refs and files as they were; at most objects stay that no ref
//! reaches.
//!
//! Order: [`tip`] reads HEAD; [`Foreign`] gives the packs names in a private directory, where no
//! list of alternates exists; [`import()`] walks from the tip to objects that the repository has.
//!
//! Design: docs/design/sealed.md.

mod foreign;
mod import;
mod index;
mod tips;

use std::{io, path::PathBuf};

use bstr::BString;
use format::{Kind, ObjectId};

pub use foreign::Foreign;
pub use import::{Import, import};
pub use index::copy_index;
pub use tips::{Tip, all, sparse_patterns, tip};

/// The reason why nothing was taken.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot read '{path}' of the workspace: {}", sys::reason(.source))]
    Unreadable { path: BString, source: io::Error },
    #[error("'{path}' of the workspace {what}")]
    Odd { path: BString, what: &'static str },
    #[error("the workspace has no commit")]
    NoCommit,
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the workspace lacks the {} {oid}, and so does the repository", .kind.name())]
    Missing { oid: ObjectId, kind: Kind },
    #[error("the object {oid} of the workspace cannot be read: {reason}")]
    Damaged { oid: ObjectId, reason: String },
    #[error("the object {oid} of the workspace has another content than its name says")]
    Hash { oid: ObjectId },
    #[error("the object {oid} of the workspace is a {}, not a {}", .found.name(), .expected.name())]
    Type { oid: ObjectId, expected: Kind, found: Kind },
    #[error("the object {oid} of the workspace is named as a {} and as a {}", .kinds[0].name(), .kinds[1].name())]
    Kinds { oid: ObjectId, kinds: [Kind; 2] },
    #[error("the {} {oid} of the workspace has {size} bytes, too many", .kind.name())]
    TooLarge { oid: ObjectId, kind: Kind, size: u64 },
    #[error("the workspace has more new objects than {0}")]
    TooMany(usize),
    #[error("the trees of the workspace are nested deeper than {0}")]
    TooDeep(usize),
    #[error("an object of the workspace is refused: {reason}{}", shown(.lines))]
    Refused { reason: repo::fsck::Refused, lines: Vec<BString> },
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Repository(#[from] repo::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

fn shown(lines: &[BString]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}
