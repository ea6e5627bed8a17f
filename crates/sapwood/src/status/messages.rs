//! Notices about the worktree in addition to the result: files that could not be examined, and
//! `.gitmodules`.

use bstr::{BString, ByteSlice as _};
use engine::{
    pathspec::{Pathspecs, Seen},
    status::Worktree,
};
use format::index::Index;
use repo::Repository;

use crate::{events::Events, notice::Notice};

/// Reports the notices in index order. Git reads `.gitmodules` at the first submodule, so its
/// warnings come there.
pub fn about_worktree(index: &Index, pathspecs: &Pathspecs, worktree: &Worktree, events: &dyn Events) {
    let is_meant = |&at: &usize| {
        pathspecs.is_empty()
            || pathspecs.matches_entry(index.path_at(at), index.mode_at(at), &mut Seen::default())
    };
    let submodule = if worktree.warnings.is_empty() || worktree.unreadable.is_empty() {
        None
    } else {
        index.gitlinks().find(is_meant)
    };
    let before = |path: &bstr::BStr| submodule.is_none_or(|at| path < index.path_at(at));
    let after = worktree.unreadable.partition_point(|(path, _)| before(path.as_bstr()));
    let (early, late) = worktree.unreadable.split_at(after);
    let report = |(path, error): &(BString, std::io::Error)| {
        events.notice(Notice::Unreadable(path.clone(), sys::reason(error).to_string()));
    };
    early.iter().for_each(report);
    worktree.warnings.iter().for_each(|warning| events.notice(Notice::Submodule(warning.clone())));
    late.iter().for_each(report);
}

/// Reports the warnings and errors that Git prints at its first object lookup.
pub fn about_objects(repo: &Repository, events: &dyn Events) {
    repo.objects().errors().iter().for_each(|error| events.notice(Notice::ObjectStore(error.clone())));
    if let Some((file, source)) = repo.objects().unreadable_alternates() {
        let below = file.strip_prefix(repo.common_dir()).ok().and_then(std::path::Path::to_str);
        let shown = below.map_or_else(|| file.to_owned(), |below| repo.display_common_file(below));
        events.notice(Notice::UnreadableAlternates(shown, sys::reason(source).to_string()));
    }
    repo.warnings().iter().for_each(|warning| events.notice(Notice::Repository(warning.clone())));
}
