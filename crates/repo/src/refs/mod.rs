//! Reads refs: loose files over `packed-refs`, and symbolic refs.
//!
//! Source: gitrepository-layout(5) and git-check-ref-format(1).

mod head;
mod list;
mod replace;
mod store;

use bstr::{BStr, ByteSlice};

pub use head::Head;
pub use list::{ListScope, ListedRef, Soundness};
pub(crate) use replace::Replaced;
pub(crate) use store::{End, Raw, Resolved, Snapshot, Store};

/// Text before and after a short name of a ref in the full names to try, in order.
pub(crate) const RULES: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// Returns `x` for `refs/heads/x`, and other names unchanged.
pub fn branch_name(full: &BStr) -> &BStr {
    full.strip_prefix(b"refs/heads/").map_or(full, |short| short.as_bstr())
}
