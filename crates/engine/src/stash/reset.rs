//! Resets changed paths after they are stashed.

use bstr::ByteSlice as _;
use format::index::{Edit, Index};

use repo::Repository;

use super::{Changed, Changes, Content, File, snapshot::new_entry};
use crate::{
    checkout::{Plan, Premise, Removal, Write},
    look::cache_tree,
};

/// The new content of changed paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The content in HEAD, for the index and the worktree.
    Head,
    /// The content in the index before the stash (`--keep-index`).
    Index,
    /// The content in HEAD, where the index differs from HEAD (`--staged`). All other paths stay.
    Staged,
}

impl Target {
    fn of(self, changed: &Changed) -> Option<Content> {
        match self {
            Target::Head | Target::Staged => changed.head,
            Target::Index => changed.index,
        }
    }
}

/// Plans the reset of all changed paths, and the removal of the untracked files. `index` is the one
/// that [`snapshot`](super::snapshot()) has updated. A file is replaced or removed only if it has
/// not changed since it was stored.
pub fn reset(repo: &Repository, mut index: Index, changes: &Changes, target: Target) -> Plan {
    let chosen = |changed: &&Changed| target != Target::Staged || changed.head != changed.index;
    let mut edits = Vec::new();
    let mut writes = Vec::new();
    let mut removals: Vec<Removal> = Vec::new();
    for changed in changes.paths.iter().filter(chosen) {
        let content = target.of(changed);
        let stays = match &changed.file {
            File::AsIndexed(_) => content.is_some() && content == changed.index,
            File::Missing | File::Other(..) => false,
        };
        let premise = match changed.file.stat() {
            Some(stat) => Premise::Unchanged(Box::new(*stat)),
            None => Premise::Absent,
        };
        let stat = changed.file.stat().filter(|_| stays);
        let entries = content.iter().map(|content| new_entry(*content, stat)).collect();
        edits.push(Edit { path: changed.path.clone(), entries });
        match content {
            Some(_) if stays => {}
            Some(_) => writes.push((changed.path.clone(), premise)),
            None => removals.push(Removal { path: changed.path.clone(), premise, gitlink: false }),
        }
    }
    index.apply(edits);
    cache_tree::complete(&mut index, &|oid, _| repo.objects().contains(oid));
    for (path, stat) in &changes.untracked {
        let premise = Premise::Unchanged(Box::new(*stat));
        removals.push(Removal { path: path.clone(), premise, gitlink: false });
    }
    removals.sort_by(|one, other| one.path.cmp(&other.path));
    let writes = writes.into_iter().map(|(path, premise)| {
        let at = index.range_of(path.as_bstr()).start;
        Write { entry: at, premise }
    });
    let writes = writes.collect();
    Plan { writes, removals, warnings: Vec::new(), index }
}
