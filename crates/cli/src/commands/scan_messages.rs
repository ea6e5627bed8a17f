//! Messages about the worktree in addition to the result: files that could not be examined, and
//! `.gitmodules`.

use bstr::ByteSlice as _;
use engine::{
    pathspec::{Pathspecs, Seen},
    status::Worktree,
};
use format::index::Index;

use crate::term::console::{self, text};

/// Prints the messages in index order. Git reads `.gitmodules` at the first submodule, so its
/// messages come there.
pub(super) fn print(index: &Index, pathspecs: &Pathspecs, worktree: &Worktree) {
    let is_meant = |&at: &usize| {
        pathspecs.is_empty()
            || pathspecs.matches_entry(index.path_at(at), index.mode_at(at), &mut Seen::default())
    };
    let submodule = match worktree.warnings.is_empty() || worktree.unreadable.is_empty() {
        true => None,
        false => index.gitlinks().find(is_meant),
    };
    let before = |path: &bstr::BStr| submodule.is_none_or(|at| path < index.path_at(at));
    let after = worktree.unreadable.partition_point(|(path, _)| before(path.as_bstr()));
    let (early, late) = worktree.unreadable.split_at(after);
    let print = |(path, error): &(bstr::BString, std::io::Error)| {
        console::eprint_line(text!(path, ": ", sys::reason(error)));
    };
    early.iter().for_each(print);
    worktree.warnings.iter().for_each(console::warning);
    late.iter().for_each(print);
}
