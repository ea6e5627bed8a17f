//! The trees of a stash.

use bstr::{BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Edit, Flags, Index, NewEntry, Stage},
    path,
};
use repo::Repository;
use store::objects::ObjectTransaction;
use sys::{Dir, Stat};

use super::{Changes, Content, Error, File};
use crate::{
    add::{FileHasher, Missing, Store, write_tree},
    look::{protect, stat::index_stat},
};

/// The trees of a stash.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// The tree of the index.
    pub index: ObjectId,
    /// The tree of the worktree.
    pub worktree: ObjectId,
    /// The tree of the untracked files, if the stash includes them.
    pub untracked: Option<ObjectId>,
}

/// Stores the trees. Afterwards `index` has the content of the worktree. `untracked` is true if the
/// stash includes untracked files, even if there are none. `big_file_threshold` is
/// `core.bigFileThreshold`.
pub fn snapshot(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    changes: &Changes,
    untracked: bool,
    big_file_threshold: u64,
    transaction: &ObjectTransaction<'_>,
) -> Result<Snapshot, Error> {
    let staged = write_tree(index, repo, transaction, Missing::Refused)?.root;
    let mut hasher = Files { hasher: FileHasher::new(repo, root, big_file_threshold), transaction, index };
    let mut edits = Vec::new();
    for changed in &changes.paths {
        let entries = match &changed.file {
            File::AsIndexed(_) => continue,
            // Git does not detect that a newly added file was deleted.
            File::Missing if changed.index.is_none() || changed.head.is_none() => continue,
            File::Missing => Vec::new(),
            File::Other(stat, mode) => vec![hasher.entry(&changed.path, stat, *mode)?],
        };
        edits.push(Edit { path: changed.path.clone(), entries });
    }
    let untracked = if untracked { Some(hasher.untracked(repo, &changes.untracked)?) } else { None };
    if !hasher.hasher.take_messages().is_empty() {
        return Err(Error::Unsupported("warnings about line ends"));
    }
    index.apply(edits);
    let worktree = write_tree(index, repo, transaction, Missing::Refused)?.root;
    let untracked = match untracked {
        Some(mut files) => Some(write_tree(&mut files, repo, transaction, Missing::Refused)?.root),
        None => None,
    };
    Ok(Snapshot { index: staged, worktree, untracked })
}

/// Stores files.
struct Files<'a> {
    hasher: FileHasher<'a>,
    transaction: &'a ObjectTransaction<'a>,
    /// The index whose attributes apply where the worktree has none.
    index: &'a Index,
}

impl Files<'_> {
    fn entry(&mut self, path: &BString, stat: &Stat, mode: Mode) -> Result<NewEntry, Error> {
        let oid = self.hasher.hash(path.as_bstr(), stat, self.index, Store::Write(self.transaction))?;
        Ok(new_entry(Content { mode, oid }, Some(stat)))
    }

    fn untracked(&mut self, repo: &Repository, found: &[(BString, Stat)]) -> Result<Index, Error> {
        let rules = crate::look::stat::StatRules::of(repo)?;
        let protect = protect(repo)?;
        let mut files = Index::empty(repo.hash());
        for (name, stat) in found {
            let mode = rules.mode(None, stat);
            path::verify(name.as_bstr(), mode, protect)
                .map_err(|_| Error::Unsupported("untracked files of such names"))?;
            let entry = self.entry(name, stat, mode)?;
            files.push(name.as_bstr(), entry);
        }
        Ok(files)
    }
}

/// Creates a merged entry. `stat` are the stat data of its file, if the file is known to match.
pub(super) fn new_entry(content: Content, stat: Option<&Stat>) -> NewEntry {
    let stat = stat.map(index_stat).unwrap_or_default();
    NewEntry { stat, oid: content.oid, mode: content.mode, flags: Flags::empty(), stage: Stage::Normal }
}
