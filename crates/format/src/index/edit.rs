//! Changes an index in place and keeps the extensions that refer to entries valid. A change of a
//! path invalidates the cache-tree and the untracked cache along that path. Stages of resolved
//! conflicts are recorded, and the monitor's bits move with their entries.

use std::ops::Range;

use bstr::{BStr, ByteSlice};

use super::{Edit, Entry, Index, NewEntry, PathSpan, Stage, table::Table};

impl Index {
    /// Appends an entry, for building an index in order. Panics if the paths together exceed 4 GiB,
    /// and in debug builds if the entry is out of order.
    ///
    /// This does not update extensions: it is for building an index from nothing.
    pub fn push(&mut self, path: &BStr, entry: NewEntry) {
        debug_assert!(
            self.entries()
                .last()
                .is_none_or(|last| { self.path(last).cmp(path).then(last.stage.cmp(&entry.stage)).is_lt() }),
            "'{path}' is pushed out of order"
        );
        let span = self.store_path(path);
        self.table.owned().0.push(entry.at(span));
        self.overview = None;
    }

    /// Applies edits in one pass. `edits` must be sorted by path, with each path once. Each edit
    /// replaces all stages of its path by the given entries; no entries remove the path.
    ///
    /// If a merged entry, or nothing, replaces unmerged stages, they go to `resolve_undo`, as when
    /// Git adds or removes a path. An operation that forgets conflicts clears them afterwards.
    ///
    /// The cost is proportional to the number of edits, plus one copy of the entries if their
    /// number changes: eight bytes for each entry that stays in the file.
    pub fn apply(&mut self, edits: Vec<Edit>) {
        edits.iter().flat_map(|edit| &edit.entries).for_each(|new| self.summarize(new));
        let mut ranges = Vec::with_capacity(edits.len());
        let mut from = 0;
        for edit in &edits {
            let path = edit.path.as_bstr();
            let start = self.seek(from, path);
            from = self.end_of_path(start, path);
            ranges.push(start..from);
        }
        for (edit, range) in edits.iter().zip(&ranges) {
            self.invalidate(edit.path.as_bstr());
            if edit.entries.iter().all(|entry| entry.stage == Stage::Normal) {
                self.record_conflict(range.clone());
            }
        }
        if edits.iter().zip(&ranges).all(|(edit, range)| edit.entries.len() == range.len()) {
            for (edit, range) in edits.iter().zip(ranges) {
                range.zip(&edit.entries).for_each(|(at, new)| self.table.set(at, *new));
            }
        } else if !self.table.splice_stored(&edits, &ranges) {
            self.splice(&edits, &ranges);
        }
    }

    /// Changes the entry at `at`. Its path and stage must stay. This does not update extensions.
    pub fn update(&mut self, at: usize, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.entry(at);
        change(&mut entry);
        let new = entry.content();
        self.summarize(&new);
        self.table.set(at, new);
    }

    /// Sets [`Flags::UPTODATE`] for the entry at `at`.
    ///
    /// [`Flags::UPTODATE`]: super::Flags::UPTODATE
    pub fn set_uptodate(&mut self, at: usize) {
        self.table.set_uptodate(at);
    }

    /// Returns true if the entry at `at` has [`Flags::UPTODATE`].
    ///
    /// [`Flags::UPTODATE`]: super::Flags::UPTODATE
    #[inline]
    pub fn is_uptodate_at(&self, at: usize) -> bool {
        self.table.is_uptodate(at)
    }

    /// Clears [`Flags::UNSHARED`] in all entries: a new shared index has all of them.
    ///
    /// [`Flags::UNSHARED`]: super::Flags::UNSHARED
    pub fn clear_unshared(&mut self) {
        self.table.clear_unshared();
    }

    /// Adds an entry to the summary, if there is one.
    fn summarize(&mut self, new: &NewEntry) {
        if let Some(overview) = &mut self.overview {
            overview.add(new.flags, new.stage, new.mode, new.stat.mtime.0);
        }
    }

    /// Invalidates every extension for `path`.
    pub fn invalidate(&mut self, path: &BStr) {
        if let Some(tree) = &mut self.cache_tree {
            tree.invalidate(path);
        }
        if let Some(untracked) = &mut self.untracked {
            untracked.invalidate(path);
        }
    }

    /// Returns an index without entries that takes over version, timestamp and extensions. For
    /// operations that build the new index entry by entry. They call [`Index::invalidate`] for each
    /// change. The old index keeps its entries.
    pub fn successor(&mut self) -> Index {
        Index {
            version: self.version,
            hash: self.hash,
            timestamp: self.timestamp,
            cache_tree: self.cache_tree.take(),
            resolve_undo: self.resolve_undo.take(),
            untracked: self.untracked.take(),
            fsmonitor: self.fsmonitor.clone(),
            sparse: self.sparse,
            base: self.base,
            unknown: std::mem::take(&mut self.unknown),
            table: Table::empty(),
            overview: None,
        }
    }

    /// Returns a copy without extensions, for a shared index.
    pub fn entries_only(&self) -> Index {
        Index { version: self.version, table: self.table.clone(), ..Index::empty(self.hash) }
    }

    fn record_conflict(&mut self, range: Range<usize>) {
        for at in range {
            let entry = self.table.entry(at);
            if entry.stage != Stage::Normal {
                let path = self.table.path(entry.path);
                self.resolve_undo.get_or_insert_default().record(path, entry.stage, entry.mode, entry.oid);
            }
        }
    }

    fn splice(&mut self, edits: &[Edit], ranges: &[Range<usize>]) {
        let added: usize = edits.iter().map(|edit| edit.entries.len()).sum();
        let before = std::mem::take(self.table.owned().0);
        let mut entries = Vec::with_capacity(before.len() + added);
        let mut kept = 0;
        for (edit, range) in edits.iter().zip(ranges) {
            entries.extend_from_slice(&before[kept..range.start]);
            kept = range.end;
            if edit.entries.is_empty() {
                continue;
            }
            let span = match before.get(range.start) {
                Some(old) if !range.is_empty() => old.path,
                _ => self.store_path(edit.path.as_bstr()),
            };
            entries.extend(edit.entries.iter().map(|new| new.at(span)));
        }
        entries.extend_from_slice(&before[kept..]);
        *self.table.owned().0 = entries;
    }

    /// Returns the first position from `from` on whose path is not before `path`. The search is
    /// cheaper the nearer the position is.
    pub fn seek(&self, from: usize, path: &BStr) -> usize {
        let mut low = from;
        let mut step = 1;
        while low + step <= self.len() && self.path_at(low + step - 1) < path {
            low += step;
            step *= 2;
        }
        self.first_in(low..(low + step).min(self.len()), path)
    }

    /// Returns the end of the entries whose paths share the first `length` bytes of the path at
    /// `at`, at most `bound`. The search is cheaper the nearer the end is.
    pub fn end_of_prefix(&self, at: usize, length: usize, bound: usize) -> usize {
        let lead = &self.path_at(at)[..length];
        let is_below = |other: usize| self.path_at(other).starts_with(lead);
        let together = if length <= self.directory_at(at) { self.table.siblings_from(at, bound) } else { 1 };
        let (mut low, mut step) = (at + together - 1, 1);
        while low + step < bound && is_below(low + step) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(bound);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if is_below(middle) { low = middle } else { high = middle }
        }
        high
    }

    /// Returns the number of entries with the path of the entry at `at`, which is the first of
    /// them. An unmerged path has several.
    pub fn stages_at(&self, at: usize) -> usize {
        match self.stage_at(at) {
            Stage::Normal => 1,
            _ => self.end_of_path(at, self.path_at(at)) - at,
        }
    }

    fn store_path(&mut self, path: &BStr) -> PathSpan {
        let (_, paths) = self.table.owned();
        let start = paths.len();
        paths.extend_from_slice(path);
        let end = u32::try_from(paths.len()).expect("the paths of an index fit in 4 GiB");
        paths.push(0);
        PathSpan { start: start as u32, len: end - start as u32 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bstr::BString;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        HashKind, Mode, ObjectId,
        index::{CacheTree, Flags, Stage, Stat},
    };

    fn new_entry(seed: u8, stage: Stage) -> NewEntry {
        let oid = ObjectId::from_bytes(HashKind::Sha1, &[seed.max(1); 20]).expect("twenty bytes");
        NewEntry { stat: Stat::default(), oid, mode: Mode::FILE, flags: Flags::empty(), stage }
    }

    fn build(paths: &BTreeMap<String, Vec<NewEntry>>) -> Index {
        let mut index = Index::empty(HashKind::Sha1);
        for (path, entries) in paths {
            entries.iter().for_each(|entry| index.push(path.as_str().into(), *entry));
        }
        index
    }

    fn content(index: &Index) -> Vec<(BString, NewEntry)> {
        index.entries().iter().map(|entry| (index.path(entry).to_owned(), entry.content())).collect()
    }

    fn stages() -> impl Strategy<Value = Vec<NewEntry>> {
        prop_oneof![
            (0u8..9).prop_map(|seed| vec![new_entry(seed, Stage::Normal)]),
            (0u8..9).prop_map(|seed| vec![new_entry(seed, Stage::Base), new_entry(seed, Stage::Theirs)]),
        ]
    }

    fn path() -> impl Strategy<Value = String> {
        "[ab./]{1,6}"
    }

    proptest! {
        #[test]
        fn edits_agree_with_a_map(
            start in prop::collection::btree_map(path(), stages(), 0..30),
            edits in prop::collection::btree_map(path(), prop_oneof![Just(vec![]), stages()], 0..15),
        ) {
            let mut index = build(&start);
            let mut expected = start;
            for (path, entries) in &edits {
                if entries.is_empty() {
                    expected.remove(path);
                } else {
                    expected.insert(path.clone(), entries.clone());
                }
            }
            index.apply(edits.into_iter().map(|(path, entries)| Edit { path: path.into(), entries }).collect());
            prop_assert_eq!(content(&index), content(&build(&expected)));
        }

        #[test]
        fn ranges_agree_with_a_linear_search(
            paths in prop::collection::btree_map(path(), stages(), 0..30),
            dir in "[ab./]{0,3}",
        ) {
            let index = build(&paths);
            let prefix = format!("{dir}/");
            let scan = |test: &dyn Fn(&BStr) -> bool| -> Vec<usize> {
                (0..index.entries().len()).filter(|&at| test(index.path_at(at))).collect()
            };
            let below = scan(&|path| dir.is_empty() || path.starts_with(prefix.as_bytes()));
            prop_assert_eq!(index.range_below(dir.as_str().into()).collect::<Vec<_>>(), below);
            let same = scan(&|path| path == dir.as_str());
            prop_assert_eq!(index.range_of(dir.as_str().into()).collect::<Vec<_>>(), same);
        }
    }

    #[test]
    fn an_edit_invalidates_the_cache_tree_along_its_path() {
        let mut index = build(&BTreeMap::from([
            ("a/b/x".into(), vec![new_entry(1, Stage::Normal)]),
            ("a/c/x".into(), vec![new_entry(1, Stage::Normal)]),
        ]));
        let oid = ObjectId::empty_tree(HashKind::Sha1);
        let mut tree = CacheTree::new();
        for (dir, count) in [("", 2), ("a", 2), ("a/b", 1), ("a/c", 1)] {
            tree.set_valid(dir.into(), oid, count);
        }
        index.cache_tree = Some(tree);
        index.apply(vec![Edit { path: "a/b/x".into(), entries: vec![] }]);
        let tree = index.cache_tree.as_ref().expect("kept");
        let valid = |dir: &str| tree.find(dir.into()).map(|node| node.valid.is_some());
        assert_eq!(
            [valid(""), valid("a"), valid("a/b"), valid("a/c"), valid("d")],
            [Some(false), Some(false), Some(false), Some(true), None]
        );
        index.apply(vec![Edit { path: "a".into(), entries: vec![new_entry(2, Stage::Normal)] }]);
        assert_eq!(index.cache_tree.as_ref().and_then(|tree| tree.find("a".into())), None);
    }
}
