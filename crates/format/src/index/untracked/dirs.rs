//! The directories of an untracked cache, for a directory walk: reading the records, and storing
//! new ones.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice as _};

use super::{Dir, PatternFile, UntrackedCache};
use crate::{ObjectId, index::Stat};

/// The directories of a cache, each identified by its number.
#[derive(Debug)]
pub struct Directories<'c> {
    dirs: &'c [Dir],
}

/// The valid record of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'c> {
    /// The directory's stat fields. While they stay the same, no name was added or removed.
    pub stat: &'c Stat,
    /// Untracked names in it; directories have a trailing slash. A directory that has its own
    /// record may be empty by now.
    pub untracked: &'c [BString],
    /// True if the walk only checked whether untracked files exist.
    pub check_only: bool,
    /// The blob name of its `.gitignore`, if there is one.
    pub exclude: Option<&'c ObjectId>,
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
        (!self.dirs.is_empty()).then_some(0)
    }

    /// Iterates over the direct subdirectories.
    pub fn below(&self, dir: usize) -> impl Iterator<Item = usize> + use<'_, 'c> {
        let end = self.after(dir);
        let first = Some(dir + 1).filter(|&at| at < end);
        std::iter::successors(first, move |&at| Some(self.after(at)).filter(|&next| next < end))
    }

    /// Returns the first directory after `dir` that is not below it.
    pub fn after(&self, dir: usize) -> usize {
        dir + 1 + self.dirs[dir].below
    }

    /// Returns the last component of the directory's path.
    pub fn name(&self, dir: usize) -> &'c BStr {
        self.dirs[dir].name.as_bstr()
    }

    /// Returns the recorded blob name of its `.gitignore`, even if the rest of the record is
    /// invalid.
    pub fn exclude(&self, dir: usize) -> Option<&'c ObjectId> {
        self.dirs[dir].exclude.as_ref()
    }

    /// Returns the directory's record, unless it was invalidated.
    pub fn recorded(&self, dir: usize) -> Option<Recorded<'c>> {
        let Dir { untracked, valid, check_only, exclude, .. } = &self.dirs[dir];
        let stat = valid.as_ref()?;
        Some(Recorded { stat, untracked, check_only: *check_only, exclude: exclude.as_ref() })
    }
}

impl UntrackedCache {
    /// Returns the recorded directories.
    pub fn directories(&self) -> Directories<'_> {
        Directories { dirs: &self.dirs }
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
        let mut dirs = Vec::with_capacity(self.dirs.len() + found.len());
        let old = self.directories();
        emit(&old, old.root(), &mut BString::default(), 0, &mut found, &mut dirs);
        self.dirs = dirs;
    }
}

/// Appends a directory and everything below it to `out`: new results where present, else the old
/// records. Returns true if anything was appended.
fn emit(
    old: &Directories<'_>,
    known: Option<usize>,
    path: &mut BString,
    name_start: usize,
    found: &mut BTreeMap<BString, Listed>,
    out: &mut Vec<Dir>,
) -> bool {
    if !any_at_or_below(found, path.as_bstr()) {
        let copied = known.map_or(&[][..], |at| &old.dirs[at..old.after(at)]);
        out.extend_from_slice(copied);
        return !copied.is_empty();
    }
    let at = out.len();
    let (dir, below): (Dir, Vec<(BString, Option<usize>)>) = match (found.remove(path.as_bstr()), known) {
        (Some(listed), _) => {
            let Listed { stat, untracked, check_only, exclude, directories, rules_changed } = listed;
            let mut recorded = known.filter(|_| !rules_changed).map(|at| old.below(at).collect::<Vec<_>>());
            let recorded = recorded.get_or_insert_default();
            recorded.sort_unstable_by_key(|&at| old.name(at));
            let find = |name: BString| {
                let place = recorded.binary_search_by(|&at| old.name(at).cmp(name.as_bstr()));
                (name, place.ok().map(|place| recorded[place]))
            };
            let below = directories.into_iter().map(find).collect();
            let name = path[name_start..].into();
            (Dir { name, untracked, subdirs: 0, below: 0, valid: Some(stat), check_only, exclude }, below)
        }
        (None, Some(at)) => (
            old.dirs[at].clone(),
            old.below(at).map(|below| (old.name(below).to_owned(), Some(below))).collect(),
        ),
        // Without a result or a record for this directory, results for its subdirectories cannot be
        // stored.
        (None, None) => return false,
    };
    out.push(dir);
    let base = path.len();
    let mut subdirs = 0;
    for (name, known) in below {
        if base > 0 {
            path.push(b'/');
        }
        let start = path.len();
        path.extend_from_slice(&name);
        subdirs += usize::from(emit(old, known, path, start, found, out));
        path.truncate(base);
    }
    out[at].subdirs = subdirs;
    out[at].below = out.len() - at - 1;
    true
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
            found.push((path.clone(), recorded.is_some(), recorded.map_or(0, |of| of.untracked.len())));
            left.extend(dirs.below(at).map(|below| (below, format!("{path}/{}", dirs.name(below)))));
        }
        found.sort();
        found
    }

    #[test]
    fn new_results_replace_records() {
        let null = ObjectId::null(HashKind::Sha1);
        let mut cache = UntrackedCache {
            ident: "\0".into(),
            info_exclude: PatternFile { stat: Stat::default(), oid: null },
            excludes_file: PatternFile { stat: Stat::default(), oid: null },
            dir_flags: 0,
            exclude_per_dir: ".gitignore".into(),
            dirs: Vec::new(),
        };
        let record = |cache: &mut UntrackedCache, found: Vec<(&str, Listed)>| {
            cache.record([null; 2], found.into_iter().map(|(path, of)| (path.into(), of)).collect());
            let mut bytes = Vec::new();
            cache.write(&mut bytes);
            assert_eq!(UntrackedCache::read(&bytes, HashKind::Sha1).as_ref(), Some(&*cache));
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
