//! The target of HEAD.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;

/// The target of HEAD. Names are full (`refs/heads/main`). If HEAD names a symbolic ref, the name
/// is that of the last ref in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Head {
    Branch {
        name: BString,
        oid: ObjectId,
    },
    Unborn {
        name: BString,
    },
    Detached {
        oid: ObjectId,
    },
    /// The chain of refs cannot be resolved: symbolic refs or links form a loop, or lead to an
    /// invalid name.
    Unresolvable,
}

impl Head {
    /// Returns the commit; `None` for an unborn branch.
    pub fn oid(&self) -> Option<ObjectId> {
        match self {
            Head::Branch { oid, .. } | Head::Detached { oid } => Some(*oid),
            Head::Unborn { .. } | Head::Unresolvable => None,
        }
    }

    /// Returns the full name of the branch, even if it is unborn.
    pub fn branch(&self) -> Option<&BStr> {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name.as_bstr()),
            Head::Detached { .. } | Head::Unresolvable => None,
        }
    }
}
