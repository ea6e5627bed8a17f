//! Changes to single paths of an index, one after the other.
//!
//! An entry that stays is changed in place. Additions and removals are collected, and one pass
//! applies them when the caller requests the index, so that many new files do not move the other
//! entries many times. The extensions are updated as in Git. Each touched path invalidates the
//! cache-tree, each added or removed path the untracked cache, and replaced stages go into the
//! resolve-undo extension.

use std::{cell::Cell, collections::BTreeMap, ops::Bound};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Edit, Entry, Flags, Index, MonitorAnswer, NewEntry, ResolveUndo, Stage, Stat},
    path::{self, Protect},
};

/// The changes that adding a path may make, apart from replacing its own entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// The path may be new to the index.
    pub new: bool,
    /// A file may replace a directory, and the files of a directory may replace a file.
    pub replacing: bool,
}

/// The reason why a path was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The path is not in the index.
    NotInIndex,
    /// The path is invalid in an index.
    InvalidPath,
    /// A part of the path is a file in the index, or the path is a directory there.
    Directory,
}

/// An index under change.
pub struct Staging {
    index: Index,
    /// The paths whose entries differ from those in `index`, each with all of its entries by stage.
    edits: BTreeMap<BString, Vec<NewEntry>>,
    /// The position of the last merged entry found. Paths mostly arrive in index order, each
    /// several times.
    last_position: Cell<usize>,
    /// The last directory, with its slash, that was invalidated in the cache-tree.
    invalidated_dir: Option<BString>,
    protect: Protect,
    changed: bool,
}

impl Staging {
    /// Starts with an index and no changes.
    pub fn new(index: Index, protect: Protect) -> Staging {
        Staging {
            index,
            edits: BTreeMap::new(),
            last_position: Cell::new(0),
            invalidated_dir: None,
            protect,
            changed: false,
        }
    }

    /// Returns true if the index was changed in a way that is worth writing.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Sets the result of [`Staging::is_changed`].
    pub fn set_changed(&mut self, changed: bool) {
        self.changed = changed;
    }

    /// Returns the index with all changes so far.
    pub fn index(&mut self) -> &mut Index {
        self.apply_edits();
        self.invalidated_dir = None;
        &mut self.index
    }

    /// Returns the index with all changes.
    pub fn into_index(mut self) -> Index {
        self.apply_edits();
        self.index
    }

    /// Returns the index without pending additions and removals.
    pub fn base(&self) -> &Index {
        &self.index
    }

    /// Returns the merged entry of a path.
    pub fn merged(&self, path: &BStr) -> Option<NewEntry> {
        match self.edits.get(path) {
            Some(entries) => entries.first().filter(|entry| entry.stage == Stage::Normal).copied(),
            None => {
                let at = self.position(path)?;
                Some(self.index.entry(at).content())
            }
        }
    }

    /// Calls `look` with the merged entry of a path in the form of an index entry, so that the
    /// caller can compare it with its file.
    pub fn with_merged<T>(&self, path: &BStr, look: impl FnOnce(&Entry) -> T) -> Option<T> {
        if let Some(entries) = self.edits.get(path) {
            let entry = entries.first().filter(|entry| entry.stage == Stage::Normal)?;
            let mut alone = Index::empty(self.index.hash);
            alone.push(path, *entry);
            return Some(look(&alone.entry(0)));
        }
        let at = self.position(path)?;
        Some(look(&self.index.entry(at)))
    }

    /// Returns the position of a path's merged entry in `index`.
    fn position(&self, path: &BStr) -> Option<usize> {
        let last_position = self.last_position.get();
        let is_it = |&at: &usize| {
            at < self.index.len()
                && self.index.path_at(at) == path
                && self.index.stage_at(at) == Stage::Normal
        };
        let at = match [last_position, last_position + 1].into_iter().find(is_it) {
            Some(at) => at,
            None => self.index.position(path, Stage::Normal).ok()?,
        };
        self.last_position.set(at);
        Some(at)
    }

    /// Returns true if an entry lies below the directory `dir`.
    pub fn is_directory(&self, dir: &BStr) -> bool {
        self.below(dir).next().is_some()
    }

    /// Changes the merged entry of a path. Returns false if the path has no merged entry.
    pub fn alter(&mut self, path: &BStr, change: impl FnOnce(&mut NewEntry)) -> bool {
        let Some(mut entry) = self.merged(path) else { return false };
        self.clear_monitor_flag(&mut entry, path);
        change(&mut entry);
        self.invalidate_tree(path);
        self.replace(path, entry);
        true
    }

    /// Like [`Staging::alter`], for the entry of this stage.
    pub fn alter_stage(&mut self, path: &BStr, stage: Stage, change: impl FnOnce(&mut NewEntry)) -> bool {
        let entry = self.entries_of(path).into_iter().find(|entry| entry.stage == stage);
        let Some(mut entry) = entry else { return false };
        self.clear_monitor_flag(&mut entry, path);
        change(&mut entry);
        self.invalidate_tree(path);
        self.replace(path, entry);
        true
    }

    /// Returns the entry that provides the mode of a path where the file system has no executable
    /// bit: the merged entry, or for an unmerged path our side, otherwise the first entry.
    pub fn model(&self, path: &BStr) -> Option<NewEntry> {
        let entries = self.entries_of(path);
        let ours = entries.iter().find(|entry| entry.stage == Stage::Ours);
        let first = entries.first()?;
        Some(match (first.stage, ours) {
            (Stage::Base, Some(ours)) => *ours,
            _ => *first,
        })
    }

    /// Marks the index as changed and leaves the path's entry unchanged, as `add -N` does for a
    /// tracked path.
    pub fn touch(&mut self, path: &BStr) {
        self.invalidate_tree(path);
    }

    /// Adds an entry. It replaces the entry of the same path and stage. A merged entry also
    /// replaces all unmerged stages.
    pub fn add(&mut self, path: &BStr, entry: NewEntry, allow: Allow) -> Result<(), Conflict> {
        self.invalidate_tree(path);
        // Fast path: a merged entry is the only one of its path, and most often the next one in the
        // index.
        if entry.stage == Stage::Normal
            && !self.edits.contains_key(path)
            && let Some(at) = self.position(path)
        {
            self.overwrite(at, entry);
            return Ok(());
        }
        let before = self.entries_of(path);
        if before.iter().any(|old| old.stage == entry.stage) {
            self.replace(path, entry);
            return Ok(());
        }
        if let Some(untracked) = &mut self.index.untracked {
            untracked.invalidate(path);
        }
        let resolves = entry.stage == Stage::Normal && !before.is_empty();
        if !resolves && !allow.new {
            return Err(Conflict::NotInIndex);
        }
        if path::verify(path, entry.mode, self.protect).is_err() {
            return Err(Conflict::InvalidPath);
        }
        let conflicting = self.conflicting(path, entry.stage);
        if !conflicting.is_empty() && !allow.replacing {
            return Err(Conflict::Directory);
        }
        for path in conflicting {
            let kept = self.entries_of(path.as_bstr()).into_iter().filter(|old| {
                let goes = old.stage == entry.stage;
                if goes {
                    record_resolve_undo(&mut self.index.resolve_undo, path.as_bstr(), old);
                }
                !goes
            });
            let kept = kept.collect();
            self.edits.insert(path, kept);
        }
        let mut entries = before;
        if entry.stage == Stage::Normal {
            entries.drain(..).for_each(|old| record_resolve_undo(&mut self.index.resolve_undo, path, &old));
        }
        let at = entries.partition_point(|old| old.stage < entry.stage);
        entries.insert(at, NewEntry { flags: entry.flags | Flags::UNSHARED, ..entry });
        self.edits.insert(path.to_owned(), entries);
        self.changed = true;
        Ok(())
    }

    /// Removes all stages of a path.
    pub fn remove(&mut self, path: &BStr) {
        self.invalidate_tree(path);
        if let Some(untracked) = &mut self.index.untracked {
            untracked.invalidate(path);
        }
        let entries = self.entries_of(path);
        if entries.is_empty() {
            return;
        }
        entries.iter().for_each(|old| record_resolve_undo(&mut self.index.resolve_undo, path, old));
        self.edits.insert(path.to_owned(), Vec::new());
        self.changed = true;
    }

    /// Restores the unmerged stages of a resolved path from the resolve-undo extension, if they are
    /// recorded.
    pub fn unresolve(&mut self, path: &BStr) -> Result<(), Conflict> {
        let undo = self.index.resolve_undo.as_mut().and_then(|undo| undo.paths.remove(path));
        let Some(stages) = undo else { return Ok(()) };
        match self.entries_of(path).first() {
            Some(entry) if entry.stage != Stage::Normal => return Ok(()),
            Some(_) => {
                self.edits.insert(path.to_owned(), Vec::new());
                self.changed = true;
            }
            None => {}
        }
        for (stage, of_stage) in [Stage::Base, Stage::Ours, Stage::Theirs].into_iter().zip(stages) {
            let Some((mode, oid)) = of_stage else { continue };
            let entry = Staging::entry(oid, mode.bits(), stage, Flags::empty());
            self.add(path, entry, Allow { new: true, replacing: false })?;
        }
        Ok(())
    }

    /// Clears the entry's flag of the file system monitor.
    fn clear_monitor_flag(&mut self, entry: &mut NewEntry, path: &BStr) {
        if self.index.monitor_answer() == MonitorAnswer::NotAsked {
            return;
        }
        entry.flags.remove(Flags::FSMONITOR_VALID);
        if let Some(untracked) = &mut self.index.untracked {
            untracked.invalidate(path);
        }
    }

    /// Invalidates the path in the cache-tree. As in Git, an index whose cache-tree was invalidated
    /// is worth writing even without another change.
    fn invalidate_tree(&mut self, path: &BStr) {
        let Some(tree) = &mut self.index.cache_tree else { return };
        self.changed = true;
        let directory = &path[..path.rfind_byte(b'/').map_or(0, |slash| slash + 1)];
        if self.invalidated_dir.as_ref().is_some_and(|invalidated_dir| invalidated_dir == directory) {
            return;
        }
        // Paths mostly arrive in order, so one cached directory suffices.
        self.invalidated_dir = tree.invalidate(path).then(|| directory.into());
    }

    fn entries_of(&self, path: &BStr) -> Vec<NewEntry> {
        match self.edits.get(path) {
            Some(entries) => entries.clone(),
            None => self.index.entries_in(self.index.range_of(path)).map(|entry| entry.content()).collect(),
        }
    }

    /// Overwrites the entry of the same path and stage.
    fn replace(&mut self, path: &BStr, entry: NewEntry) {
        if let Some(entries) = self.edits.get_mut(path) {
            let old = entries.iter_mut().find(|old| old.stage == entry.stage);
            *old.expect("the caller has seen it") = entry;
            self.changed = true;
            return;
        }
        let at = match entry.stage {
            Stage::Normal => self.position(path),
            stage => self.index.position(path, stage).ok(),
        };
        self.overwrite(at.expect("the caller has seen it"), entry);
    }

    /// Overwrites the entry at position `at`.
    fn overwrite(&mut self, at: usize, entry: NewEntry) {
        self.changed = true;
        self.index.update(at, |old| {
            (old.stat, old.oid, old.mode, old.flags) = (entry.stat, entry.oid, entry.mode, entry.flags);
        });
    }

    /// Returns the paths and stages of the entries below `dir`, in arbitrary order.
    fn below(&self, dir: &BStr) -> impl Iterator<Item = (&BStr, Stage)> {
        let (first, end) = ([dir.as_bytes(), b"/"].concat(), [dir.as_bytes(), b"0"].concat());
        let bounds = (Bound::Included(first.as_slice()), Bound::Excluded(end.as_slice()));
        let edited = self.edits.range::<[u8], _>(bounds);
        let edited: Vec<_> = edited
            .flat_map(|(path, entries)| entries.iter().map(move |entry| (path.as_bstr(), entry.stage)))
            .collect();
        let kept = self.index.range_below(dir);
        let kept = kept.map(|at| (self.index.path_at(at), self.index.stage_at(at)));
        edited.into_iter().chain(kept.filter(|(path, _)| !self.edits.contains_key(*path)))
    }

    /// Returns the paths that cannot coexist with a new entry of `path`: those below it, and files
    /// at the paths of its parent directories.
    fn conflicting(&self, path: &BStr, stage: Stage) -> Vec<BString> {
        let below = self.below(path).filter(|(_, of)| *of == stage).map(|(path, _)| path.to_owned());
        let mut conflicting: Vec<BString> = below.collect();
        for slash in path.rfind_iter("/") {
            let dir = path[..slash].as_bstr();
            if self.entries_of(dir).iter().any(|entry| entry.stage == stage) {
                conflicting.push(dir.to_owned());
            }
        }
        conflicting
    }

    fn apply_edits(&mut self) {
        if self.edits.is_empty() {
            return;
        }
        let edits = std::mem::take(&mut self.edits);
        let edits = edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect();
        // These extensions are already up to date, and `apply` must not change them.
        let index = &mut self.index;
        let kept = (index.cache_tree.take(), index.untracked.take(), index.resolve_undo.take());
        index.apply(edits);
        (index.cache_tree, index.untracked, index.resolve_undo) = kept;
    }
}

fn record_resolve_undo(undo: &mut Option<ResolveUndo>, path: &BStr, old: &NewEntry) {
    if old.stage != Stage::Normal {
        undo.get_or_insert_default().record(path, old.stage, old.mode, old.oid);
    }
}

/// Converts any mode to that of an entry, as Git does: an unknown type becomes a regular file.
fn entry_mode(raw: u32) -> Mode {
    match raw & 0o170000 {
        0o120000 => Mode::SYMLINK,
        0o040000 if raw == Mode::TREE.bits() => Mode::TREE,
        0o040000 | 0o160000 => Mode::GITLINK,
        _ if raw & 0o100 != 0 => Mode::EXECUTABLE,
        _ => Mode::FILE,
    }
}

impl Staging {
    /// Creates an entry without stat data.
    pub fn entry(oid: ObjectId, raw_mode: u32, stage: Stage, flags: Flags) -> NewEntry {
        NewEntry { stat: Stat::default(), oid, mode: entry_mode(raw_mode), flags, stage }
    }
}

#[cfg(test)]
mod tests {
    use format::{HashKind, index::UntrackedCache};

    use super::*;

    fn entry(number: u8, stage: Stage) -> NewEntry {
        let oid = ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("twenty bytes");
        Staging::entry(oid, 0o100644, stage, Flags::empty())
    }

    fn staging(paths: &[(&str, Stage)]) -> Staging {
        let mut index = Index::empty(HashKind::Sha1);
        for (path, stage) in paths {
            index.push((*path).into(), entry(1, *stage));
        }
        index.untracked = Some(UntrackedCache::new("here".into(), 0, HashKind::Sha1));
        Staging::new(index, Protect::default())
    }

    fn paths(staging: &mut Staging) -> Vec<(String, u8)> {
        let index = staging.index();
        index.entries().iter().map(|entry| (index.path(entry).to_string(), entry.stage as u8)).collect()
    }

    const NEW: Allow = Allow { new: true, replacing: false };
    const ALL: Allow = Allow { new: true, replacing: true };

    #[test]
    fn each_change_sees_those_before_it() {
        let mut staging = staging(&[("a", Stage::Normal), ("d/x", Stage::Normal)]);
        let merged = entry(2, Stage::Normal);
        assert_eq!(staging.add("b".into(), merged, Allow::default()), Err(Conflict::NotInIndex));
        assert!(!staging.is_changed());
        assert_eq!(staging.add("b".into(), merged, NEW), Ok(()));
        assert_eq!(staging.add("b/c".into(), merged, NEW), Err(Conflict::Directory));
        assert_eq!(staging.add("b/c".into(), merged, ALL), Ok(()));
        assert_eq!(staging.add("b/d".into(), merged, NEW), Ok(()));
        assert!(staging.is_directory("b".into()) && staging.merged("b".into()).is_none());
        assert_eq!(staging.add("d".into(), merged, NEW), Err(Conflict::Directory));
        assert_eq!(staging.add("d".into(), merged, ALL), Ok(()));
        assert!(!staging.is_directory("d".into()));
        staging.remove("a".into());
        assert!(!staging.alter("a".into(), |_| ()));
        let found = paths(&mut staging);
        assert_eq!(found, [("b/c".to_owned(), 0), ("b/d".to_owned(), 0), ("d".to_owned(), 0)]);
        assert_eq!(staging.add("d/.git/x".into(), merged, ALL), Err(Conflict::InvalidPath));
    }

    #[test]
    fn resolves_and_restores_conflicts() {
        let all = [Stage::Base, Stage::Ours, Stage::Theirs];
        let mut staging = staging(&all.map(|stage| ("f", stage)));
        assert_eq!(staging.add("f".into(), entry(2, Stage::Normal), Allow::default()), Ok(()));
        assert_eq!(paths(&mut staging), [("f".to_owned(), 0)]);
        assert_eq!(staging.unresolve("f".into()), Ok(()));
        assert_eq!(paths(&mut staging), [1, 2, 3].map(|stage| ("f".to_owned(), stage)));
        assert!(staging.index().resolve_undo.as_ref().is_some_and(|undo| undo.paths.is_empty()));
        assert_eq!(staging.unresolve("f".into()), Ok(()));
        // Git accepts other stages next to a merged entry, and fails when it reads them.
        staging.remove("f".into());
        assert_eq!(staging.add("f".into(), entry(2, Stage::Normal), NEW), Ok(()));
        assert_eq!(staging.add("f".into(), entry(3, Stage::Ours), NEW), Ok(()));
        assert_eq!(paths(&mut staging), [0, 2].map(|stage| ("f".to_owned(), stage)));
    }
    #[test]
    fn invalidates_the_cache_tree_like_single_paths_do() {
        use format::index::CacheTree;
        let oid = ObjectId::from_bytes(HashKind::Sha1, &[7; 20]).expect("twenty bytes");
        let directories = ["", "d", "d/sub", "d/sub/deep", "e", "f", "f/sub"];
        let changed = [
            "d/a", "d/b", "d/sub/x", "d/sub/y", "d/sub", "d/c", "f/a", "f/sub", "f/z", "top", "new/a",
            "new/b",
        ];
        // Each round starts at another path, so that each path is tested both as the first and as a
        // later one of its directory.
        for start in 0..changed.len() {
            let mut expected = CacheTree::new();
            for directory in directories {
                expected.set_valid(directory.into(), oid, 1);
            }
            let mut staging = staging(&[("z", Stage::Normal)]);
            staging.index().cache_tree = Some(expected.clone());
            for path in &changed[start..] {
                let _ = staging.add((*path).into(), entry(2, Stage::Normal), ALL);
                expected.invalidate((*path).into());
            }
            assert_eq!(staging.index().cache_tree.as_ref(), Some(&expected));
            // A directory that was validated in the meantime is invalidated again.
            let tree = staging.index().cache_tree.as_mut().expect("it was there");
            tree.set_valid("".into(), oid, 1);
            staging.remove("new/b".into());
            assert!(staging.index().cache_tree.as_ref().is_some_and(|tree| tree.valid.is_none()));
        }
    }
}
