//! Looks up the names of a directory in the index.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Flags, Index};

/// The index, for lookups by path.
pub(super) struct Tracked<'a> {
    index: &'a Index,
    /// The folded names, with `core.ignoreCase`.
    folded: Option<FoldedNames>,
    /// True if an entry has the skip-worktree flag.
    skips: bool,
}

/// Lower-case names of files and directories.
struct FoldedNames {
    /// The value is true for a submodule.
    paths: HashMap<BString, bool>,
    dirs: HashSet<BString>,
}

/// The result of looking up a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexLookup {
    /// True if the path is an entry of any stage.
    pub(super) entry: bool,
    pub(super) below: Below,
}

/// The index entries in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// The directory has no entries.
    Nothing,
    /// The directory is a submodule, at least in one stage of a conflict.
    Submodule,
    /// The range of entries; empty if case is folded.
    Entries(Range<usize>),
}

impl<'a> Tracked<'a> {
    pub(super) fn new(index: &'a Index, folds_case: bool) -> Self {
        let folded = folds_case.then(|| {
            let mut folded = FoldedNames { paths: HashMap::new(), dirs: HashSet::new() };
            for entry in index.entries_in(0..index.len()) {
                let path: BString = index.path(&entry).to_ascii_lowercase().into();
                let mut dir = path.as_bstr();
                while let Some(slash) = dir.rfind_byte(b'/') {
                    dir = dir[..slash].as_bstr();
                    if !folded.dirs.insert(dir.to_owned()) {
                        break;
                    }
                }
                folded.paths.insert(path, entry.mode.is_gitlink());
            }
            folded
        });
        let skips = index.has_any(Flags::SKIP_WORKTREE);
        Tracked { index, folded, skips }
    }

    pub(super) fn folds_case(&self) -> bool {
        self.folded.is_some()
    }

    /// Returns the position of the entry at `path`, if it has the skip-worktree flag.
    pub(super) fn skipped(&self, path: &BStr) -> Option<usize> {
        if !self.skips {
            return None;
        }
        let range = self.index.range_of(path);
        range.into_iter().find(|&at| self.index.entry(at).flags.contains(Flags::SKIP_WORKTREE))
    }

    /// Merges the entries `within` a directory with its listing. Entries that match no listed file
    /// or directory are added to `others`.
    pub(super) fn merge<'b>(
        &'b self,
        within: &'b Range<usize>,
        dir: &'b BStr,
        others: &'b mut Vec<Range<usize>>,
    ) -> ListingMerge<'b> {
        let (index, folds_case) = (self.index, self.folds_case());
        ListingMerge { index, folds_case, dir, within, at: within.start, others }
    }

    /// Looks up `path`. `within` are the entries of its directory. `cursor` is the position for the
    /// next lookup, if names are looked up in byte order.
    pub(super) fn look(
        &self,
        path: &BStr,
        is_dir: bool,
        within: &Range<usize>,
        cursor: &mut usize,
    ) -> IndexLookup {
        if let Some(folded) = &self.folded {
            let known = folded.look(path, is_dir);
            // A directory and a file may exist whose names differ only in case.
            return IndexLookup {
                entry: if is_dir { !self.index.range_of(path).is_empty() } else { known.entry },
                ..known
            };
        }
        if within.is_empty() {
            return IndexLookup { entry: false, below: Below::Nothing };
        }
        let index = self.index;
        let at = (*cursor).max(within.start);
        // If all names are tracked, this is the next entry.
        let at = if at < within.end && index.path_at(at) == path {
            at
        } else {
            index.seek(at, path).min(within.end)
        };
        let here = (at..within.end).take_while(|&at| index.path_at(at) == path).count();
        let entry = here > 0;
        // The entries of a directory may come after those of later names, so the cursor stays.
        *cursor = if is_dir { at } else { at + here };
        let below = match is_dir {
            false => Below::Nothing,
            true if (at..at + here).any(|at| index.mode_at(at).is_gitlink()) => Below::Submodule,
            true => {
                let mut bound = path.to_owned();
                bound.push(b'/');
                let start = index.seek(*cursor, bound.as_bstr());
                if start < index.len() && index.path_at(start).starts_with(&bound) {
                    *bound.last_mut().expect("it ends in a slash") = b'/' + 1;
                    Below::Entries(start..index.seek(start, bound.as_bstr()))
                } else {
                    Below::Nothing
                }
            }
        };
        IndexLookup { entry, below }
    }
}

/// A merge of a directory's entries with its listing.
pub(super) struct ListingMerge<'a> {
    index: &'a Index,
    folds_case: bool,
    /// The path with a slash at the end.
    dir: &'a BStr,
    within: &'a Range<usize>,
    /// The position of the next entry.
    at: usize,
    others: &'a mut Vec<Range<usize>>,
}

/// The result of looking up a listed name.
pub(super) enum MergedName {
    /// The name is the file of this entry, which is the first one at its path.
    File(usize),
    /// The name is not a tracked file.
    Other(IndexLookup),
    /// The path has to be looked up.
    Unclear,
}

impl ListingMerge<'_> {
    /// Merges the next name. Names come in index order, and directory names end with a slash.
    pub(super) fn next_name(&mut self, name: &[u8]) -> MergedName {
        if self.folds_case {
            return MergedName::Unclear;
        }
        let dir = name.strip_suffix(b"/");
        let is_it = |next: &[u8]| if dir.is_some() { next.starts_with(name) } else { next == name };
        let mut is_next = self.next().is_some_and(is_it);
        if !is_next && self.next().is_some_and(|next| next < name) {
            self.skip_to(name);
            is_next = self.next().is_some_and(is_it);
        }
        let Some(bare) = dir else {
            if !is_next {
                return MergedName::Other(IndexLookup { entry: false, below: Below::Nothing });
            }
            let first = self.at;
            self.at += self.index.stages_at(first);
            return MergedName::File(first);
        };
        // An entry with that name, without the slash, would come earlier, with other entries in
        // between (`a`, `a-b`, `a/`).
        if self.at > self.within.start && self.rest(self.at - 1) >= bare {
            return MergedName::Unclear;
        }
        let below = if is_next {
            let start = self.at;
            self.at = self.index.end_of_prefix(start, self.dir.len() + name.len(), self.within.end);
            Below::Entries(start..self.at)
        } else {
            Below::Nothing
        };
        MergedName::Other(IndexLookup { entry: false, below })
    }

    /// Ends the merge after the last name. The remaining entries match no listed name.
    pub(super) fn end(self) {
        if self.at < self.within.end {
            self.others.push(self.at..self.within.end);
        }
    }

    fn next(&self) -> Option<&'_ [u8]> {
        (self.at < self.within.end).then(|| self.rest(self.at))
    }

    fn rest(&self, at: usize) -> &[u8] {
        &self.index.path_at(at)[self.dir.len()..]
    }

    fn skip_to(&mut self, name: &[u8]) {
        let path = [self.dir.as_bytes(), name].concat();
        let next = self.index.seek(self.at, path.as_bstr()).min(self.within.end);
        self.others.push(self.at..next);
        self.at = next;
    }
}

impl FoldedNames {
    fn look(&self, path: &BStr, is_dir: bool) -> IndexLookup {
        let path = path.to_ascii_lowercase();
        let entry = self.paths.get(path.as_bstr());
        let below = match is_dir {
            true if self.dirs.contains(path.as_bstr()) => Below::Entries(0..0),
            true if entry == Some(&true) => Below::Submodule,
            _ => Below::Nothing,
        };
        IndexLookup { entry: entry.is_some(), below }
    }
}
