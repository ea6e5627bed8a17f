//! What is said of the worktree beside the answer: files that could not be looked at, and `.gitmodules`.

use bstr::ByteSlice as _;
use engine::{
    pathspec::{Pathspecs, Seen},
    status::Worktree,
};
use format::index::{Entry, Index};

use crate::console::{self, text};

/// Tells it in the order of the index, as Git, which goes along it, and reads `.gitmodules` where the first submodule is.
pub(super) fn tell(index: &Index, pathspecs: &Pathspecs, worktree: &Worktree) {
    let is_meant = |entry: &&Entry| {
        let path = index.path(entry);
        pathspecs.is_empty() || pathspecs.matches_entry(path, entry.mode, &mut Seen::default())
    };
    let submodule = match worktree.warnings.is_empty() || worktree.unreadable.is_empty() {
        true => None,
        false => index.entries().iter().filter(|entry| entry.mode.is_gitlink()).find(is_meant),
    };
    let before = |path: &bstr::BStr| submodule.is_none_or(|entry| path < index.path(entry));
    let after = worktree.unreadable.partition_point(|(path, _)| before(path.as_bstr()));
    let (early, late) = worktree.unreadable.split_at(after);
    let note = |(path, error): &(bstr::BString, std::io::Error)| {
        console::note(text!(path, ": ", sys::reason(error)));
    };
    early.iter().for_each(note);
    worktree.warnings.iter().for_each(console::warning);
    late.iter().for_each(note);
}
