//! The part of the index that Git keeps before it lists anything: the entries that begin with the
//! common directory of all pathspecs, without the slash at its end. Paths above that directory are
//! then treated as if the index did not contain them.

use std::ops::Range;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{pathspec::Pathspecs, sparse};
use format::index::{Edit, Flags, Index};

fn beginning(specs: &Pathspecs) -> &BStr {
    let dir = specs.common_directory();
    dir.strip_suffix(b"/").unwrap_or(dir).as_bstr()
}

/// Returns the entries that Git keeps.
pub(super) fn range(index: &Index, specs: &Pathspecs) -> Range<usize> {
    let dir = beginning(specs);
    let start = index.seek(0, dir);
    if start < index.len() && index.path_at(start).starts_with(dir) {
        start..index.end_of_prefix(start, dir.len(), index.len())
    } else {
        start..start
    }
}

/// Returns the part of an index that Git keeps for attributes: they come from the index if the
/// worktree has no attribute file.
pub fn for_attributes(mut index: Index, specs: &Pathspecs) -> Index {
    let left = range(&index, specs);
    let (before, after) = (&index.entries()[..left.start], &index.entries()[left.end..]);
    let mut gone: Vec<BString> =
        before.iter().chain(after).map(|entry| index.path(entry).to_owned()).collect();
    gone.dedup();
    index.apply(gone.into_iter().map(|path| Edit { path, entries: Vec::new() }).collect());
    index
}

/// Returns true if a path of the worktree is above the common directory.
pub(super) fn is_above(specs: &Pathspecs, path: &BStr) -> bool {
    path.len() < beginning(specs).len()
}

/// Returns true if Git needs a full index to find the paths.
pub(super) fn needs_full_index(index: &Index, specs: &Pathspecs) -> bool {
    index.sparse && sparse::is_inside(index, beginning(specs))
}

/// Returns the index for a walk of the worktree without the entries above, or `None` if they make
/// no difference. `rules` is the name of the ignore file in each directory; an ignore file that is
/// only in the index is dropped too.
pub(super) fn for_the_worktree(index: &Index, specs: &Pathspecs, rules: Option<&BStr>) -> Option<Index> {
    let dir = specs.common_directory().strip_suffix(b"/")?.as_bstr();
    if range(index, specs).is_empty() {
        return Some(Index::empty(index.hash));
    }
    let entries = |path: &BStr| index.entries_in(index.range_of(path));
    let ends = || dir.find_iter(b"/");
    let is_submodule = |path: &BString| entries(path.as_bstr()).any(|entry| entry.mode.is_gitlink());
    let submodules = ends().map(|end| BString::from(&dir[..end])).filter(is_submodule);
    let is_skipped = |path: &BString| {
        let mut entries = entries(path.as_bstr());
        !path.starts_with(dir) && entries.any(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
    };
    let of_rules = |name: &BStr| {
        let dirs = std::iter::once(0).chain(ends().map(|end| end + 1));
        let paths = dirs.map(|end| BString::from([&dir[..end], name.as_bytes()].concat()));
        paths.filter(is_skipped).collect::<Vec<_>>()
    };
    let gone = submodules.chain(rules.map(of_rules).unwrap_or_default());
    let edits: Vec<Edit> = gone.map(|path| Edit { path, entries: Vec::new() }).collect();
    (!edits.is_empty()).then(|| {
        let mut index = index.clone();
        index.apply(edits);
        index
    })
}
