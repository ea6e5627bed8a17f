//! JSON documents and warnings.

use bstr::{BString, ByteSlice as _};
use sapwood::checkpoint::{self, LeftOut, Reason};
use serde_json::{Value, json};

use crate::term::console::{self, text};

/// The version of all JSON documents of these commands. It changes if a field changes its meaning
/// or goes away.
pub(super) const VERSION: u64 = 1;

/// Returns the document of an entry.
pub(super) fn document(made: &checkpoint::Report) -> Value {
    json!({
        "version": VERSION,
        "number": made.number,
        "ref": made.name.to_str_lossy(),
        "changed": made.is_changed,
        "leftOut": left_out(&made.left_out),
    })
}

/// Warns of paths that an entry does not hold.
pub(super) fn warn_of(left_out: &[LeftOut]) {
    for LeftOut { path, reason } in left_out {
        console::warning(text!("'", path, "' is not in the checkpoint: ", describe(reason)));
    }
}

/// Returns the first line of a label, without the control characters that a terminal obeys.
pub(super) fn shown(label: &BString) -> String {
    label.lines().next().unwrap_or_default().to_str_lossy().replace(char::is_control, " ")
}

fn describe(reason: &Reason) -> BString {
    match reason {
        Reason::Repository => "it is another repository".into(),
        Reason::Special => "it is neither a file nor a link".into(),
        Reason::OtherHash => "the objects of this repository have another hash".into(),
        Reason::Name => "Git allows no such name".into(),
        Reason::Unreadable(error) => error.as_str().into(),
        Reason::Skipped => "it is marked skip-worktree, so it stays as it is".into(),
    }
}

/// Returns the paths that an entry does not hold, for a JSON document.
pub(super) fn left_out(left_out: &[LeftOut]) -> Value {
    let one = |LeftOut { path, reason }: &LeftOut| json!({ "path": path.to_str_lossy(), "reason": describe(reason).to_str_lossy() });
    left_out.iter().map(one).collect()
}
