//! A tree with changed paths: only the trees on the way to them are read and written.

use std::{collections::BTreeMap, rc::Rc};

use bstr::{BStr, BString, ByteSlice as _};
use format::{Mode, ObjectId, hash::Hasher, loose::Kind};
use store::objects::ObjectTransaction;

use super::RecordError;
use crate::look::{
    LookError,
    cache_tree::push_entry,
    tree_cache::{Entries, TreeCache},
};

/// The new entry of each path; `None` for a path that is removed.
pub type Edits = BTreeMap<BString, Option<(Mode, ObjectId)>>;

/// The reason why a tree was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum EditTreeError {
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Returns the tree that `root` becomes by `edits`, and stages the trees that the repository lacks.
/// A file in the way of a path is replaced, and a directory without entries is left out.
pub fn edit_tree(
    trees: &TreeCache<'_>,
    transaction: &ObjectTransaction<'_>,
    root: Option<ObjectId>,
    edits: &Edits,
) -> Result<ObjectId, EditTreeError> {
    let edits: Vec<Edit<'_>> = edits.iter().map(|(path, new)| (path.as_bstr(), *new)).collect();
    let editor = Editor { trees, transaction };
    match editor.directory(root, &edits)? {
        Some(tree) => Ok(tree),
        None => editor.record(&[]),
    }
}

/// A path relative to the directory, and its new entry.
type Edit<'e> = (&'e BStr, Option<(Mode, ObjectId)>);

struct Editor<'a, 'r> {
    trees: &'a TreeCache<'r>,
    transaction: &'a ObjectTransaction<'a>,
}

impl Editor<'_, '_> {
    /// Returns the new tree; `None` if it has no entries.
    fn directory(
        &self,
        tree: Option<ObjectId>,
        edits: &[Edit<'_>],
    ) -> Result<Option<ObjectId>, EditTreeError> {
        let mut entries: Entries = Rc::unwrap_or_clone(self.trees.read(tree)?);
        let mut directories: BTreeMap<&BStr, Vec<Edit<'_>>> = BTreeMap::new();
        for &(path, new) in edits {
            if let Some((name, below)) = path.split_once_str("/") {
                directories.entry(name.as_bstr()).or_default().push((below.as_bstr(), new));
            } else if let Some(new) = new {
                entries.insert(path.to_owned(), new);
            } else if entries.get(path).is_some_and(|(mode, _)| !mode.is_tree()) {
                entries.remove(path);
            }
        }
        let is_new_file = |name: &BStr| edits.iter().any(|(path, new)| *path == name && new.is_some());
        for (name, edits) in directories.into_iter().filter(|(name, _)| !is_new_file(name)) {
            let old = entries.get(name).filter(|(mode, _)| mode.is_tree()).map(|(_, oid)| *oid);
            match self.directory(old, &edits)? {
                Some(tree) => drop(entries.insert(name.to_owned(), (Mode::TREE, tree))),
                None if old.is_some() => drop(entries.remove(name)),
                None => {}
            }
        }
        if entries.is_empty() { Ok(None) } else { self.write(entries).map(Some) }
    }

    fn write(&self, entries: Entries) -> Result<ObjectId, EditTreeError> {
        let mut entries: Vec<(BString, (Mode, ObjectId))> = entries.into_iter().collect();
        // Git sorts a directory as if its name ended in a slash.
        let key = |(name, (mode, _)): &(BString, (Mode, ObjectId))| {
            let mut key = name.clone();
            key.extend(mode.is_tree().then_some(b'/'));
            key
        };
        entries.sort_by_cached_key(key);
        let mut content = Vec::new();
        for (name, (mode, oid)) in &entries {
            push_entry(&mut content, mode.bits(), name.as_bstr(), oid);
        }
        self.record(&content)
    }

    fn record(&self, content: &[u8]) -> Result<ObjectId, EditTreeError> {
        let repo = self.trees.repo();
        let mut hasher = Hasher::object(repo.hash(), "tree", content.len() as u64);
        hasher.update(content);
        let oid = hasher.finish().map_err(|_| RecordError::Collision)?;
        if !repo.objects().contains(&oid) {
            self.transaction.write(&oid, Kind::Tree, content).map_err(RecordError::Store)?;
        }
        Ok(oid)
    }
}
