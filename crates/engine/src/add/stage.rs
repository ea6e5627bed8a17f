//! Changes of single paths of an index, one after the other.
//!
//! Entries that stay are changed in place. What comes and goes is collected, and put in by one pass when the whole is asked for:
//! a hundred thousand new files do not move the others a hundred thousand times. The extensions are kept as Git keeps
//! them: the cache-tree knows of every path that was touched, the untracked cache of those that came or went, and
//! stages that gave way are remembered when they do.

use std::{cell::Cell, collections::BTreeMap, ops::Bound};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Edit, Entry, Flags, Index, NewEntry, ResolveUndo, Stage, Stat, Word},
    path::{self, Protect},
};

/// What adding a path may do beside replacing the entry that is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// A path that is not in the index may come into it.
    pub new: bool,
    /// A file may take the place of a directory, and the files of a directory that of a file.
    pub replacing: bool,
}

/// Why a path was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// It is not in the index.
    New,
    /// No repository may hold it.
    InvalidPath,
    /// A part of it is a file in the index, or it is a directory there.
    Directory,
}

/// An index being changed.
pub struct Staging {
    index: Index,
    /// Paths with other entries than `index` has: all of them, by stage.
    edits: BTreeMap<BString, Vec<NewEntry>>,
    /// The position of the merged entry asked for last: paths mostly come in the order of the index, each several times.
    near: Cell<usize>,
    /// A directory, with its slash, of whose files the cache-tree has forgotten all it could.
    forgotten: Option<BString>,
    protect: Protect,
    changed: bool,
}

impl Staging {
    /// Begins with this index.
    pub fn new(index: Index, protect: Protect) -> Staging {
        Staging {
            index,
            edits: BTreeMap::new(),
            near: Cell::new(0),
            forgotten: None,
            protect,
            changed: false,
        }
    }

    /// Whether anything was changed that is worth writing.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Says whether anything was.
    pub fn set_changed(&mut self, changed: bool) {
        self.changed = changed;
    }

    /// The index as it is now.
    pub fn index(&mut self) -> &mut Index {
        self.put_in();
        self.forgotten = None;
        &mut self.index
    }

    /// The index as it is in the end.
    pub fn into_index(mut self) -> Index {
        self.put_in();
        self.index
    }

    /// The index without what comes and goes.
    pub fn base(&self) -> &Index {
        &self.index
    }

    /// The merged entry of a path.
    pub fn merged(&self, path: &BStr) -> Option<NewEntry> {
        match self.edits.get(path) {
            Some(entries) => entries.first().filter(|entry| entry.stage == Stage::Normal).copied(),
            None => {
                let at = self.position(path)?;
                Some(self.index.entries()[at].content())
            }
        }
    }

    /// The merged entry of a path as one of an index, to be compared with its file.
    pub fn with_merged<T>(&self, path: &BStr, look: impl FnOnce(&Entry) -> T) -> Option<T> {
        if let Some(entries) = self.edits.get(path) {
            let entry = entries.first().filter(|entry| entry.stage == Stage::Normal)?;
            let mut alone = Index::empty(self.index.hash);
            alone.push(path, *entry);
            return Some(look(&alone.entries()[0]));
        }
        let at = self.position(path)?;
        Some(look(&self.index.entries()[at]))
    }

    /// Where the index has the merged entry of a path.
    fn position(&self, path: &BStr) -> Option<usize> {
        let near = self.near.get();
        let is_it = |&at: &usize| {
            at < self.index.len()
                && self.index.path_at(at) == path
                && self.index.stage_at(at) == Stage::Normal
        };
        let at = match [near, near + 1].into_iter().find(is_it) {
            Some(at) => at,
            None => self.index.position(path, Stage::Normal).ok()?,
        };
        self.near.set(at);
        Some(at)
    }

    /// Whether any entry is below the directory `dir`.
    pub fn is_directory(&self, dir: &BStr) -> bool {
        self.below(dir).next().is_some()
    }

    /// Changes the merged entry of a path. Whether there is one.
    pub fn alter(&mut self, path: &BStr, change: impl FnOnce(&mut NewEntry)) -> bool {
        let Some(mut entry) = self.merged(path) else { return false };
        self.forget(&mut entry, path);
        change(&mut entry);
        self.invalidate_tree(path);
        self.replace(path, entry);
        true
    }

    /// Adds an entry, in the place of that of the same path and stage. A merged one replaces all that are not.
    pub fn add(&mut self, path: &BStr, entry: NewEntry, allow: Allow) -> Result<(), Clash> {
        self.invalidate_tree(path);
        // A merged entry is the only one of its path, and most often the next.
        if entry.stage == Stage::Normal
            && !self.edits.contains_key(path)
            && let Some(at) = self.position(path)
        {
            self.put(at, entry);
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
            return Err(Clash::New);
        }
        if path::verify(path, entry.mode, self.protect).is_err() {
            return Err(Clash::InvalidPath);
        }
        let clashing = self.clashing(path, entry.stage);
        if !clashing.is_empty() && !allow.replacing {
            return Err(Clash::Directory);
        }
        for path in clashing {
            let kept = self.entries_of(path.as_bstr()).into_iter().filter(|old| {
                let goes = old.stage == entry.stage;
                if goes {
                    remember(&mut self.index.resolve_undo, path.as_bstr(), old);
                }
                !goes
            });
            let kept = kept.collect();
            self.edits.insert(path, kept);
        }
        let mut entries = before;
        if entry.stage == Stage::Normal {
            entries.drain(..).for_each(|old| remember(&mut self.index.resolve_undo, path, &old));
        }
        let at = entries.partition_point(|old| old.stage < entry.stage);
        entries.insert(at, NewEntry { flags: entry.flags | Flags::UNSHARED, ..entry });
        self.edits.insert(path.to_owned(), entries);
        self.changed = true;
        Ok(())
    }

    /// Removes a path, whatever its stages.
    pub fn remove(&mut self, path: &BStr) {
        self.invalidate_tree(path);
        if let Some(untracked) = &mut self.index.untracked {
            untracked.invalidate(path);
        }
        let entries = self.entries_of(path);
        if entries.is_empty() {
            return;
        }
        entries.iter().for_each(|old| remember(&mut self.index.resolve_undo, path, old));
        self.edits.insert(path.to_owned(), Vec::new());
        self.changed = true;
    }

    /// Makes a path unmerged again that was resolved, if what it was is remembered.
    pub fn unresolve(&mut self, path: &BStr) -> Result<(), Clash> {
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

    /// The monitor, if there is one, does not vouch for the entry any more.
    fn forget(&mut self, entry: &mut NewEntry, path: &BStr) {
        if self.index.word() == Word::NotAsked {
            return;
        }
        entry.flags.remove(Flags::FSMONITOR_VALID);
        if let Some(untracked) = &mut self.index.untracked {
            untracked.invalidate(path);
        }
    }

    /// Git writes an index whose cache-tree has forgotten something, also if nothing else was changed.
    fn invalidate_tree(&mut self, path: &BStr) {
        let Some(tree) = &mut self.index.cache_tree else { return };
        self.changed = true;
        let directory = &path[..path.rfind_byte(b'/').map_or(0, |slash| slash + 1)];
        if self.forgotten.as_ref().is_some_and(|forgotten| forgotten == directory) {
            return;
        }
        // Paths mostly come in order.
        self.forgotten = tree.invalidate(path).then(|| directory.into());
    }

    fn entries_of(&self, path: &BStr) -> Vec<NewEntry> {
        match self.edits.get(path) {
            Some(entries) => entries.clone(),
            None => self.index.entries()[self.index.range_of(path)].iter().map(Entry::content).collect(),
        }
    }

    /// Puts `entry` where one of its stage is.
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
        self.put(at.expect("the caller has seen it"), entry);
    }

    /// Puts `entry` in the place of the one the index has at `at`.
    fn put(&mut self, at: usize, entry: NewEntry) {
        self.changed = true;
        let old = &mut self.index.entries_mut()[at];
        (old.stat, old.oid, old.mode, old.flags) = (entry.stat, entry.oid, entry.mode, entry.flags);
    }

    /// The entries below `dir`, in no order.
    fn below(&self, dir: &BStr) -> impl Iterator<Item = (&BStr, Stage)> {
        let (first, behind) = ([dir.as_bytes(), b"/"].concat(), [dir.as_bytes(), b"0"].concat());
        let bounds = (Bound::Included(first.as_slice()), Bound::Excluded(behind.as_slice()));
        let edited = self.edits.range::<[u8], _>(bounds);
        let edited: Vec<_> = edited
            .flat_map(|(path, entries)| entries.iter().map(move |entry| (path.as_bstr(), entry.stage)))
            .collect();
        let kept = self.index.entries()[self.index.range_below(dir)].iter();
        let kept = kept.map(|entry| (self.index.path(entry), entry.stage));
        edited.into_iter().chain(kept.filter(|(path, _)| !self.edits.contains_key(*path)))
    }

    /// The paths that cannot be beside a new entry of `path`: those below it, and the files that are its directories.
    fn clashing(&self, path: &BStr, stage: Stage) -> Vec<BString> {
        let below = self.below(path).filter(|(_, of)| *of == stage).map(|(path, _)| path.to_owned());
        let mut clashing: Vec<BString> = below.collect();
        for slash in path.rfind_iter("/") {
            let dir = path[..slash].as_bstr();
            if self.entries_of(dir).iter().any(|entry| entry.stage == stage) {
                clashing.push(dir.to_owned());
            }
        }
        clashing
    }

    fn put_in(&mut self) {
        if self.edits.is_empty() {
            return;
        }
        let edits = std::mem::take(&mut self.edits);
        let edits = edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect();
        // They know of these changes already, and of no others.
        let index = &mut self.index;
        let kept = (index.cache_tree.take(), index.untracked.take(), index.resolve_undo.take());
        index.apply(edits);
        (index.cache_tree, index.untracked, index.resolve_undo) = kept;
    }
}

fn remember(undo: &mut Option<ResolveUndo>, path: &BStr, old: &NewEntry) {
    if old.stage != Stage::Normal {
        undo.get_or_insert_default().record(path, old.stage, old.mode, old.oid);
    }
}

/// The mode of an entry made of any mode at all, as Git makes one: what it does not know is a regular file.
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
    /// An entry of this name, without stat data.
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
        assert_eq!(staging.add("b".into(), merged, Allow::default()), Err(Clash::New));
        assert!(!staging.is_changed());
        assert_eq!(staging.add("b".into(), merged, NEW), Ok(()));
        assert_eq!(staging.add("b/c".into(), merged, NEW), Err(Clash::Directory));
        assert_eq!(staging.add("b/c".into(), merged, ALL), Ok(()));
        assert_eq!(staging.add("b/d".into(), merged, NEW), Ok(()));
        assert!(staging.is_directory("b".into()) && staging.merged("b".into()).is_none());
        assert_eq!(staging.add("d".into(), merged, NEW), Err(Clash::Directory));
        assert_eq!(staging.add("d".into(), merged, ALL), Ok(()));
        assert!(!staging.is_directory("d".into()));
        staging.remove("a".into());
        assert!(!staging.alter("a".into(), |_| ()));
        let found = paths(&mut staging);
        assert_eq!(found, [("b/c".to_owned(), 0), ("b/d".to_owned(), 0), ("d".to_owned(), 0)]);
        assert_eq!(staging.add("d/.git/x".into(), merged, ALL), Err(Clash::InvalidPath));
    }

    #[test]
    fn conflicts_are_resolved_and_come_back() {
        let all = [Stage::Base, Stage::Ours, Stage::Theirs];
        let mut staging = staging(&all.map(|stage| ("f", stage)));
        assert_eq!(staging.add("f".into(), entry(2, Stage::Normal), Allow::default()), Ok(()));
        assert_eq!(paths(&mut staging), [("f".to_owned(), 0)]);
        assert_eq!(staging.unresolve("f".into()), Ok(()));
        assert_eq!(paths(&mut staging), [1, 2, 3].map(|stage| ("f".to_owned(), stage)));
        assert!(staging.index().resolve_undo.as_ref().is_some_and(|undo| undo.paths.is_empty()));
        assert_eq!(staging.unresolve("f".into()), Ok(()));
        // Beside a merged entry others may be put: Git lets them, and dies when it reads them.
        staging.remove("f".into());
        assert_eq!(staging.add("f".into(), entry(2, Stage::Normal), NEW), Ok(()));
        assert_eq!(staging.add("f".into(), entry(3, Stage::Ours), NEW), Ok(()));
        assert_eq!(paths(&mut staging), [0, 2].map(|stage| ("f".to_owned(), stage)));
    }
    #[test]
    fn the_cache_tree_forgets_what_every_single_path_has_it_forget() {
        use format::index::CacheTree;
        let oid = ObjectId::from_bytes(HashKind::Sha1, &[7; 20]).expect("twenty bytes");
        let directories = ["", "d", "d/sub", "d/sub/deep", "e", "f", "f/sub"];
        let changed = [
            "d/a", "d/b", "d/sub/x", "d/sub/y", "d/sub", "d/c", "f/a", "f/sub", "f/z", "top", "new/a",
            "new/b",
        ];
        // From every one of them on, so that each comes after others of its directory and first.
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
            // What was made valid since is forgotten again.
            let tree = staging.index().cache_tree.as_mut().expect("it was there");
            tree.set_valid("".into(), oid, 1);
            staging.remove("new/b".into());
            assert!(staging.index().cache_tree.as_ref().is_some_and(|tree| tree.valid.is_none()));
        }
    }
}
