//! Reports about trees that cannot be written.

use bstr::BString;
use engine::add::WriteTreeError;
use sapwood::ObjectId;

use crate::term::console::{self, text};

/// Prints why no tree can be written from an index. The caller adds the final message.
pub(crate) fn report_tree_error(error: &WriteTreeError) {
    const SHOWN: usize = 10;
    let print = |lines: Vec<BString>| {
        lines.iter().take(SHOWN).for_each(console::eprint_line);
        if lines.len() > SHOWN {
            console::eprint_line("...");
        }
    };
    match error {
        WriteTreeError::Unmerged(paths) => {
            let line = |(path, oid): &(BString, ObjectId)| text!(path, ": unmerged (", oid.to_string(), ")");
            print(paths.iter().map(line).collect());
        }
        WriteTreeError::Both(pairs) => {
            let line = |(one, other): &(BString, BString)| text!("You have both ", one, " and ", other);
            print(pairs.iter().map(line).collect());
        }
        other => console::error(other.to_string()),
    }
}
