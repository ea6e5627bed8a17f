//! The kinds of changes that `git status --porcelain` would list. Used for the submodules of a
//! superproject, and before a worktree is removed.

use std::{collections::HashSet, sync::atomic::AtomicBool};

use bstr::{BStr, ByteSlice as _};
use format::{ObjectId, index::Index};
use repo::{Repository, keys, submodule::Ignore};
use sys::Dir;

use super::{Options, examine};
use crate::{
    diff::{self, SubmoduleChanges, SubmoduleIgnore},
    look::{LookError, pathspec::Pathspecs, sparse, untracked},
};

/// Options that select the changes to count.
pub(crate) struct CountedChanges {
    /// The policy for changes in submodules (`--ignore-submodules`). `None` means the policy of
    /// `.gitmodules` and the configuration.
    pub(crate) submodules: Option<Ignore>,
    /// Count untracked files, also in submodules unless `submodules` excludes them.
    pub(crate) untracked: bool,
}

/// Returns the kinds of changes in the worktree `root` of `repo`. `index` is its index, `head` the
/// commit of its HEAD. Untracked files within nested submodules count as untracked files. The first
/// path that cannot be examined is an error, because it may have changed.
pub(crate) fn change_kinds(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    head: Option<ObjectId>,
    counted: &CountedChanges,
) -> Result<SubmoduleChanges, LookError> {
    let pathspecs = Pathspecs::default();
    let never = AtomicBool::new(false);
    let options = Options {
        submodules: counted.submodules.map_or(SubmoduleIgnore::Configured, SubmoduleIgnore::Given),
        ignore_untracked_in_submodules: !counted.untracked && counted.submodules.is_none(),
        ..Options::tracked(&pathspecs, &never)
    };
    let worktree = examine(repo, root, index, &options)?;
    if let Some((path, source)) = worktree.unreadable.into_iter().next() {
        return Err(LookError::Examine { path, source });
    }
    let mut found = SubmoduleChanges::default();
    let mut only_within: HashSet<&BStr> = HashSet::new();
    for pair in &worktree.changes {
        found.untracked |= pair.submodule_changes.untracked;
        match pair.submodule_changes {
            SubmoduleChanges { commit: false, modified: false, untracked: true } => {
                only_within.insert(pair.path.as_ref());
            }
            _ => found.modified = true,
        }
    }
    if !found.modified {
        let tree = head.map(|commit| repo.tree_of(commit)).transpose()?;
        let ignore = match tree {
            Some(_) => counted.submodules.unwrap_or(Ignore::Dirty),
            None => Ignore::None,
        };
        let staged = diff::staged(repo, root, index, tree, &pathspecs, Some(ignore), None)?;
        // For such a path Git's output shows only untracked files.
        found.modified = staged.iter().any(|pair| !only_within.contains::<BStr>(pair.path.as_ref()));
    }
    if counted.untracked && !found.untracked {
        found.untracked = untracked::any(repo, root, index)?;
    }
    Ok(found)
}

/// Returns the kinds of changes that `git status` would find in a submodule.
pub fn changes_within(repo: &Repository, ignore_untracked: bool) -> Result<SubmoduleChanges, LookError> {
    let top = repo.work_tree().ok_or(LookError::NoWorktree)?;
    let root = Dir::open(top)
        .map_err(|source| LookError::Examine { path: top.display().to_string().into(), source })?;
    let mut index = store::index::load(&repo.index_path(), repo.hash(), &Default::default())?;
    sparse::expand(repo, &mut index)?;
    if sparse::is_on(repo)? && !repo.config(&keys::sparse::EXPECT_FILES_OUTSIDE_OF_PATTERNS)? {
        sparse::clear_present(&root, &mut index)?;
    }
    let head = repo.head()?.oid();
    let untracked = !ignore_untracked && shows_untracked(repo)?;
    change_kinds(repo, &root, &index, head, &CountedChanges { submodules: None, untracked })
}

/// Returns the value of `status.showUntrackedFiles`.
fn shows_untracked(repo: &Repository) -> Result<bool, LookError> {
    match repo.config_str(&keys::status::SHOW_UNTRACKED_FILES) {
        Some(value) if matches!(value.as_bytes(), b"normal" | b"all") => Ok(true),
        Some(value) if value == "no" => Ok(false),
        _ => Ok(repo.config_as(&keys::status::SHOW_UNTRACKED_FILES)?.unwrap_or(true)),
    }
}
