//! The directories of an untracked cache, for a directory walk: reading the records, and storing
//! new ones.

use std::{collections::BTreeMap, num::NonZero};

use bstr::{BStr, BString, ByteSlice as _};

use super::{Dir, PatternFile, UntrackedCache};
use crate::{
    ObjectId,
    index::{
        Stat,
        bytes::{Reader, write_stat},
    },
};

/// The directories of a cache, each identified by its number.
#[derive(Debug)]
pub struct Directories<'c> {
    cache: &'c UntrackedCache,
}

/// The valid record of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'c> {
    /// The directory's stat fields. While they stay the same, no name was added or removed.
    pub stat: Stat,
    /// Untracked names in it; directories have a trailing slash. A directory that has its own
    /// record may be empty by now.
    pub untracked: Names<'c>,
    /// True if the walk only checked whether untracked files exist.
    pub check_only: bool,
    /// The blob name of its `.gitignore`, if there is one.
    pub exclude: Option<ObjectId>,
}

/// Names in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Names<'c> {
    text: Reader<'c>,
    left: u32,
}

impl<'c> Names<'c> {
    /// Returns the next `left` names of `text`, each of which ends with a NUL.
    pub(super) fn new(text: Reader<'c>, left: u32) -> Names<'c> {
        Names { text, left }
    }

    /// Returns true if there is no name.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'c> Iterator for Names<'c> {
    type Item = &'c BStr;

    fn next(&mut self) -> Option<&'c BStr> {
        self.left = self.left.checked_sub(1)?;
        self.text.string()
    }
}

/// The result of listing a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// See [`Recorded::stat`]; read before the listing.
    pub stat: Stat,
    /// See [`Recorded::untracked`].
    pub untracked: Vec<BString>,
    /// See [`Recorded::check_only`].
    pub check_only: bool,
    /// See [`Recorded::exclude`].
    pub exclude: Option<ObjectId>,
    /// The subdirectories that the walk entered, or would have entered; sorted.
    pub directories: Vec<BString>,
    /// True if other ignore rules apply than before, so the records of these subdirectories are
    /// invalid.
    pub rules_changed: bool,
}

impl<'c> Directories<'c> {
    /// Returns the worktree's root, if the cache contains any directory.
    pub fn root(&self) -> Option<usize> {
        (!self.cache.dirs.is_empty()).then_some(0)
    }

    /// Iterates over the direct subdirectories.
    pub fn below(&self, dir: usize) -> impl Iterator<Item = usize> + use<'_, 'c> {
        let end = self.after(dir);
        let first = Some(dir + 1).filter(|&at| at < end);
        std::iter::successors(first, move |&at| Some(self.after(at)).filter(|&next| next < end))
    }

    /// Returns the first directory after `dir` that is not below it.
    pub fn after(&self, dir: usize) -> usize {
        dir + 1 + self.cache.dirs[dir].below as usize
    }

    /// Returns the last component of the directory's path.
    pub fn name(&self, dir: usize) -> &'c BStr {
        self.cache.name(dir)
    }

    /// Returns the recorded blob name of its `.gitignore`, even if the rest of the record is
    /// invalid.
    pub fn exclude(&self, dir: usize) -> Option<ObjectId> {
        self.cache.exclude(dir)
    }

    /// Returns the directory's record, unless it was invalidated.
    pub fn recorded(&self, dir: usize) -> Option<Recorded<'c>> {
        let stat = self.cache.stat(dir)?;
        let (untracked, exclude) = (self.cache.untracked(dir), self.cache.exclude(dir));
        Some(Recorded { stat, untracked, check_only: self.cache.dirs[dir].check_only, exclude })
    }
}

impl UntrackedCache {
    /// Returns the recorded directories.
    pub fn directories(&self) -> Directories<'_> {
        Directories { cache: self }
    }

    /// Returns Git's flags of the walks that filled the cache.
    pub fn dir_flags(&self) -> u32 {
        self.dir_flags
    }

    /// Returns the blob names of `info/exclude` and `core.excludesFile`; null for a missing file.
    pub fn excludes(&self) -> [&ObjectId; 2] {
        [&self.info_exclude.oid, &self.excludes_file.oid]
    }

    /// Stores the results of a walk by directory path (without trailing slash; the root is empty).
    pub fn record(&mut self, excludes: [ObjectId; 2], mut found: BTreeMap<BString, Listed>) {
        let [info, file] = excludes;
        for (known, now) in [(&mut self.info_exclude, info), (&mut self.excludes_file, file)] {
            if known.oid != now {
                *known = PatternFile { stat: Stat::default(), oid: now };
            }
        }
        let dirs = Vec::with_capacity(self.dirs.len() + found.len());
        let mut new = NewDirectories { dirs, bytes: Vec::new(), start: self.bytes.len() };
        let old = self.directories();
        new.emit(&old, old.root(), &mut BString::default(), 0, &mut found);
        let NewDirectories { dirs, bytes, .. } = new;
        self.bytes.extend_from_slice(&bytes);
        // The cache may be empty, but its offsets must fit.
        self.dirs = if u32::try_from(self.bytes.len()).is_ok() { dirs } else { Vec::new() };
    }
}

/// The directories of a new cache, and the data of its new records.
struct NewDirectories {
    dirs: Vec<Dir>,
    bytes: Vec<u8>,
    /// The offset of `bytes`.
    start: usize,
}

impl NewDirectories {
    fn offset(&self) -> u32 {
        (self.start + self.bytes.len()) as u32
    }

    /// Appends the record of a listed directory.
    fn push(&mut self, name: &[u8], listed: &Listed) {
        let text = self.offset();
        for name in std::iter::once(name).chain(listed.untracked.iter().map(|name| &name[..])) {
            self.bytes.extend_from_slice(name);
            self.bytes.push(0);
        }
        let valid = NonZero::new(self.offset());
        write_stat(&mut self.bytes, &listed.stat);
        let mut exclude = None;
        if let Some(oid) = &listed.exclude {
            exclude = NonZero::new(self.offset());
            self.bytes.extend_from_slice(oid.as_bytes());
        }
        let (untracked, check_only) = (listed.untracked.len() as u32, listed.check_only);
        self.dirs.push(Dir { text, untracked, subdirs: 0, below: 0, valid, exclude, check_only });
    }

    /// Appends a directory and everything below it: new results where present, else the old
    /// records. Returns true if anything was appended.
    fn emit(
        &mut self,
        old: &Directories<'_>,
        known: Option<usize>,
        path: &mut BString,
        name_start: usize,
        found: &mut BTreeMap<BString, Listed>,
    ) -> bool {
        if !any_at_or_below(found, path.as_bstr()) {
            let copied = known.map_or(&[][..], |at| &old.cache.dirs[at..old.after(at)]);
            self.dirs.extend_from_slice(copied);
            return !copied.is_empty();
        }
        let at = self.dirs.len();
        let below: Vec<(BString, Option<usize>)> = match (found.remove(path.as_bstr()), known) {
            (Some(mut listed), _) => {
                let kept = known.filter(|_| !listed.rules_changed);
                let mut recorded = kept.map(|at| old.below(at).collect::<Vec<_>>()).unwrap_or_default();
                recorded.sort_unstable_by_key(|&at| old.name(at));
                let find = |name: BString| {
                    let place = recorded.binary_search_by(|&at| old.name(at).cmp(name.as_bstr()));
                    (name, place.ok().map(|place| recorded[place]))
                };
                let below = std::mem::take(&mut listed.directories).into_iter().map(find).collect();
                self.push(&path[name_start..], &listed);
                below
            }
            (None, Some(at)) => {
                self.dirs.push(old.cache.dirs[at]);
                old.below(at).map(|below| (old.name(below).to_owned(), Some(below))).collect()
            }
            // Without a result or a record for this directory, results for its
            // subdirectories cannot be stored.
            (None, None) => return false,
        };
        let base = path.len();
        let mut subdirs = 0;
        for (name, known) in below {
            if base > 0 {
                path.push(b'/');
            }
            let start = path.len();
            path.extend_from_slice(&name);
            subdirs += u32::from(self.emit(old, known, path, start, found));
            path.truncate(base);
        }
        self.dirs[at].subdirs = subdirs;
        self.dirs[at].below = (self.dirs.len() - at - 1) as u32;
        true
    }
}

fn any_at_or_below(found: &BTreeMap<BString, Listed>, path: &BStr) -> bool {
    if found.contains_key(path) || path.is_empty() {
        return !found.is_empty();
    }
    let mut lead = path.to_owned();
    lead.push(b'/');
    found.range(lead.clone()..).next().is_some_and(|(first, _)| first.starts_with(&lead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashKind;

    fn listed(untracked: &[&str], directories: &[&str]) -> Listed {
        Listed {
            stat: Stat { size: 7, ..Stat::default() },
            untracked: untracked.iter().map(|&name| name.into()).collect(),
            check_only: false,
            exclude: None,
            directories: directories.iter().map(|&name| name.into()).collect(),
            rules_changed: false,
        }
    }

    fn all(cache: &UntrackedCache) -> Vec<(String, bool, usize)> {
        let dirs = cache.directories();
        let mut found = Vec::new();
        let mut left = vec![(dirs.root().expect("recorded"), String::new())];
        while let Some((at, path)) = left.pop() {
            let recorded = dirs.recorded(at);
            found.push((path.clone(), recorded.is_some(), recorded.map_or(0, |of| of.untracked.count())));
            left.extend(dirs.below(at).map(|below| (below, format!("{path}/{}", dirs.name(below)))));
        }
        found.sort();
        found
    }

    #[test]
    fn new_results_replace_records() {
        let null = ObjectId::null(HashKind::Sha1);
        let mut cache = UntrackedCache::new("".into(), 0, HashKind::Sha1);
        let record = |cache: &mut UntrackedCache, found: Vec<(&str, Listed)>| {
            cache.record([null; 2], found.into_iter().map(|(path, of)| (path.into(), of)).collect());
            let mut bytes = Vec::new();
            cache.write(&mut bytes);
            assert_eq!(UntrackedCache::read(bytes, HashKind::Sha1).as_ref(), Some(&*cache));
        };
        record(
            &mut cache,
            vec![
                ("", listed(&["x"], &["a", "b"])),
                ("a", listed(&[], &["c"])),
                ("a/c", listed(&["y", "z"], &[])),
                ("b", listed(&[], &[])),
            ],
        );
        let entry = |path: &str, valid, untracked| (path.to_owned(), valid, untracked);
        let before = [entry("", true, 1), entry("/a", true, 0), entry("/a/c", true, 2), entry("/b", true, 0)];
        assert_eq!(all(&cache), before);
        cache.invalidate("a/c/file".into());
        assert_eq!(all(&cache)[2], entry("/a/c", false, 0));
        record(&mut cache, vec![("a/c", listed(&["y"], &["new"])), ("a/c/new", listed(&[], &[]))]);
        let with_new = entry("/a/c/new", true, 0);
        let after =
            [before[0].clone(), before[1].clone(), entry("/a/c", true, 1), with_new, before[3].clone()];
        assert_eq!(all(&cache), after);
        // Removing a directory removes its subdirectories. Changed rules drop the records of
        // subdirectories without new results.
        record(&mut cache, vec![("a", listed(&[], &[]))]);
        assert_eq!(all(&cache), [before[0].clone(), before[1].clone(), before[3].clone()]);
        record(&mut cache, vec![("", Listed { rules_changed: true, ..listed(&[], &["a", "b"]) })]);
        assert_eq!(all(&cache), [entry("", true, 0)]);
    }
}
