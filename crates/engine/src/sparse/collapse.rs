//! Directories of an index that are outside of a cone as a whole.

use std::ops::Range;

use bstr::{BStr, BString, ByteSlice};
use format::index::{Flags, Index, Stage};

use super::Patterns;

/// The topmost directories (no slash at the end) all of whose entries are merged, skipped, and neither submodules nor
/// only intended to be added; with their entries. None unless the patterns are a cone.
pub fn directories(index: &Index, patterns: &Patterns) -> Vec<(BString, Range<usize>)> {
    let mut found = Vec::new();
    if patterns.cone().is_some() {
        visit(index, patterns, 0, 0..index.entries().len(), &mut found);
    }
    found
}

/// Visits the entries in `range`, whose paths share `prefix` bytes, a directory with its slash.
fn visit(
    index: &Index,
    patterns: &Patterns,
    prefix: usize,
    range: Range<usize>,
    found: &mut Vec<(BString, Range<usize>)>,
) {
    let mut at = range.start;
    while at < range.end {
        let path = index.path_at(at);
        let Some(slash) = path[prefix..].find_byte(b'/') else {
            at += 1;
            continue;
        };
        let dir = path[..prefix + slash + 1].as_bstr();
        let end =
            at + index.entries()[at..range.end].partition_point(|entry| index.path(entry).starts_with(dir));
        if !patterns.includes(dir) && index.entries()[at..end].iter().all(is_out) {
            found.push((BStr::new(&dir[..dir.len() - 1]).to_owned(), at..end));
        } else {
            visit(index, patterns, dir.len(), at..end, found);
        }
        at = end;
    }
}

fn is_out(entry: &format::index::Entry) -> bool {
    entry.stage == Stage::Normal
        && !entry.mode.is_gitlink()
        && entry.flags.contains(Flags::SKIP_WORKTREE)
        && !entry.flags.contains(Flags::INTENT_TO_ADD)
}
