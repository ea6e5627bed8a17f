//! The changed-path Bloom filters of commits, computed in parallel.
//!
//! A filter of the old graph is reused if its version fits. A filter of the older version is reused
//! under the new version if no path of the commit and its first parent contains a byte above 127,
//! because both versions hash other paths alike. All others are computed, up to the limit.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::AtomicBool},
};

use format::{
    HashKind, Kind, ObjectId,
    commit_graph::{
        Filter,
        bloom::{Settings, TOO_LARGE},
    },
    tree::TreeEntries,
};
use repo::objects::{Objects, Reader};

use super::{Error, chain::Chain, check};
use crate::crew::parallel;

/// The number of commits in a batch for one thread. Neighbouring commits share most of their trees.
const BATCH: usize = 32;
/// The size of a thread's cache of trees, in bytes.
const KEPT: usize = 32 << 20;

/// The options of the filters to write.
#[derive(Clone, Copy, Debug)]
pub struct FilterOptions {
    /// The hash settings: version, number of hashes, and bits per entry.
    pub settings: Settings,
    /// Commits with more changed paths than this get a filter that matches every path.
    pub max_paths: usize,
    /// The maximum number of filters to compute; `None` for no limit.
    pub max_new: Option<usize>,
}

/// The statistics of filters that Git reports in its traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Filters that were computed.
    pub computed: usize,
    /// Filters that were reused, or omitted because of the limit.
    pub not_computed: usize,
    /// Computed filters of commits without changes.
    pub empty: usize,
    /// Computed filters of commits with too many changed paths.
    pub large: usize,
    /// Filters that were reused under the new version.
    pub upgraded: usize,
}

/// A commit that needs a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) id: ObjectId,
    pub(super) tree: ObjectId,
    /// The tree of the first parent; `None` for a root commit.
    pub(super) parent: Option<ObjectId>,
}

/// The bytes of a commit's filter. Empty if the commit has no filter.
type Bytes = Vec<u8>;

/// The amount of changes in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Nothing,
    Some,
    TooMuch,
}

/// Returns the filters of `subjects`, in their order, with statistics. The limit of computed
/// filters applies in this order. `progress` gets the number of filters finished since its last
/// call.
pub(super) fn compute(
    objects: &Objects,
    old: Option<&Chain>,
    options: &FilterOptions,
    subjects: &[Subject],
    interrupt: &AtomicBool,
    warn: &mut dyn FnMut(String),
    progress: &(dyn Fn(usize) + Sync),
) -> Result<(Vec<Bytes>, Counts), Error> {
    let mut filters: Vec<Bytes> = vec![Bytes::new(); subjects.len()];
    let (mut wanted, mut counts) = (Vec::new(), Counts::default());
    let mut walker = Walker::new(objects, options);
    for (at, subject) in subjects.iter().enumerate() {
        check(interrupt)?;
        let may_compute = options.max_new.is_none_or(|most| counts.computed < most);
        if let Some((bytes, version)) = old.and_then(|old| of_old(old, &subject.id, warn)) {
            let fits = version == options.settings.version;
            if fits || may_compute && walker.is_plain(subject)? {
                filters[at] = bytes.to_vec();
                let count = if fits { &mut counts.not_computed } else { &mut counts.upgraded };
                *count += 1;
                continue;
            }
        }
        if may_compute {
            wanted.push(at);
            counts.computed += 1;
        } else {
            counts.not_computed += 1;
        }
    }
    let batches: Vec<&[usize]> = wanted.chunks(BATCH).collect();
    let threads = if wanted.len() < BATCH { 1 } else { sys::cores().clamp(1, batches.len()) };
    let mut walkers: Vec<Walker<'_>> = (0..threads).map(|_| Walker::new(objects, options)).collect();
    let made = parallel::map(&batches, &mut walkers, |walker, batch| {
        let filter = |&at: &usize| check(interrupt).and_then(|()| walker.filter(&subjects[at]));
        let made: Result<Vec<(Bytes, Extent)>, Error> = batch.iter().map(filter).collect();
        progress(batch.len());
        made
    })?;
    for (at, (made, extent)) in wanted.into_iter().zip(made.into_iter().flatten()) {
        filters[at] = made;
        counts.empty += usize::from(extent == Extent::Nothing);
        counts.large += usize::from(extent == Extent::TooMuch);
    }
    Ok((filters, counts))
}

/// Returns the filter of a commit in the old graph and its version. A damaged filter is passed to
/// `warn`.
fn of_old<'g>(old: &'g Chain, id: &ObjectId, warn: &mut dyn FnMut(String)) -> Option<(&'g [u8], u32)> {
    use format::commit_graph::BadFilter;
    let (layer, n) = old.find(id)?;
    let layer = &old.layers[layer];
    match layer.graph.filter(n) {
        Filter::Bytes([]) | Filter::None => None,
        Filter::Bytes(bytes) => Some((bytes, layer.graph.filter_settings()?.version)),
        Filter::Bad(bad) => {
            let file = layer.path.display();
            warn(match bad {
                BadFilter::Outside { offset, position, size } => format!(
                    "ignoring out-of-range offset ({offset}) for changed-path filter at pos {position} of {file} \
                     (chunk size: {size})"
                ),
                BadFilter::Decreasing { start, end, position } => format!(
                    "ignoring decreasing changed-path index offsets ({start} > {end}) for positions {} and \
                     {position} of {file}",
                    position.wrapping_sub(1)
                ),
            });
            None
        }
    }
}

/// An entry of a tree.
type Entry = (Vec<u8>, format::Mode, ObjectId);

/// Reads trees, and caches recent ones.
struct Walker<'a> {
    reader: Reader<'a>,
    hash: HashKind,
    options: &'a FilterOptions,
    kept: HashMap<ObjectId, Arc<Vec<Entry>>>,
    kept_bytes: usize,
    /// Trees that were searched for bytes above 127. The value is true if a path in the tree has
    /// one.
    searched: HashMap<ObjectId, bool>,
}

/// Two trees at the same path. One of them may be absent.
struct Pair {
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    /// The path of both trees, with a slash at its end.
    prefix: Vec<u8>,
}

impl<'a> Walker<'a> {
    fn new(objects: &'a Objects, options: &'a FilterOptions) -> Walker<'a> {
        Walker {
            reader: objects.reader(),
            hash: objects.hash(),
            options,
            kept: HashMap::new(),
            kept_bytes: 0,
            searched: HashMap::new(),
        }
    }

    fn tree(&mut self, id: &ObjectId) -> Result<Arc<Vec<Entry>>, Error> {
        if let Some(tree) = self.kept.get(id) {
            return Ok(Arc::clone(tree));
        }
        let unreadable = || Error::Tree(*id);
        let (entries, len) = match self.reader.read(id) {
            Ok((Kind::Tree, data)) => {
                let entry = |entry: Result<format::tree::TreeEntry<'_>, _>| {
                    entry.map(|entry| (entry.name.to_vec(), entry.mode, entry.oid))
                };
                let entries = TreeEntries::new(self.hash, data).map(entry).collect::<Result<Vec<_>, _>>();
                (entries.map_err(|_| unreadable())?, data.len())
            }
            _ => return Err(unreadable()),
        };
        if self.kept_bytes > KEPT {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += 3 * len;
        let entries = Arc::new(entries);
        self.kept.insert(*id, Arc::clone(&entries));
        Ok(entries)
    }

    fn filter(&mut self, subject: &Subject) -> Result<(Bytes, Extent), Error> {
        let mut difference = Difference::default();
        difference.pending.push(Pair { old: subject.parent, new: Some(subject.tree), prefix: Vec::new() });
        while let Some(pair) = difference.pending.pop() {
            if pair.old == pair.new {
                continue;
            }
            let empty = Arc::new(Vec::new());
            let side = |walker: &mut Self, id: Option<ObjectId>| match id {
                Some(id) => walker.tree(&id),
                None => Ok(Arc::clone(&empty)),
            };
            let (old, new) = (side(self, pair.old)?, side(self, pair.new)?);
            difference.compare(&old, &new, &pair.prefix);
            if difference.changes > self.options.max_paths {
                return Ok((TOO_LARGE.to_vec(), Extent::TooMuch));
            }
        }
        let paths = &difference.paths;
        if paths.len() > self.options.max_paths {
            return Ok((TOO_LARGE.to_vec(), Extent::TooMuch));
        }
        let extent = if paths.is_empty() { Extent::Nothing } else { Extent::Some };
        Ok((self.options.settings.filter(paths.iter().map(Vec::as_slice)), extent))
    }

    /// Returns true if no path of the commit and its first parent contains a byte above 127.
    fn is_plain(&mut self, subject: &Subject) -> Result<bool, Error> {
        for tree in [Some(subject.tree), subject.parent].into_iter().flatten() {
            if self.has_high_bytes(tree) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a path in a tree contains a byte above 127, or if a tree cannot be read.
    fn has_high_bytes(&mut self, root: ObjectId) -> bool {
        // The stack visits each tree twice. The second visit comes after its subtrees, and records
        // its result.
        let mut pending = vec![(root, false)];
        while let Some((id, is_done)) = pending.pop() {
            if self.searched.contains_key(&id) {
                continue;
            }
            let Ok(tree) = self.tree(&id) else {
                self.searched.insert(id, true);
                continue;
            };
            let own = || tree.iter().any(|(name, ..)| name.iter().any(|&byte| byte >= 0x80));
            let below = || tree.iter().filter(|(_, mode, _)| mode.is_tree());
            if is_done {
                let found = own() || below().any(|(.., id)| self.searched.get(id).copied().unwrap_or(true));
                self.searched.insert(id, found);
                continue;
            }
            pending.push((id, true));
            pending.extend(
                below().filter(|(.., id)| !self.searched.contains_key(id)).map(|(.., id)| (*id, false)),
            );
        }
        self.searched[&root]
    }
}

/// Compares tree entries in Git's order: directories sort as if their names ended in a slash.
fn order(one: &Entry, two: &Entry) -> Ordering {
    let key = |entry: &Entry, at: usize| match entry.0.get(at) {
        Some(&byte) => byte,
        None if entry.1.is_tree() => b'/',
        None => 0,
    };
    let shared = one.0.len().min(two.0.len());
    one.0[..shared]
        .cmp(&two.0[..shared])
        .then_with(|| key(one, shared).cmp(&key(two, shared)))
        .then_with(|| one.0.len().cmp(&two.0.len()))
}

/// The differences between two trees found so far.
#[derive(Default)]
struct Difference {
    /// The paths of changed files and of all their parent directories.
    paths: HashSet<Vec<u8>>,
    /// The number of changed files.
    changes: usize,
    /// The pairs of directories still to be compared.
    pending: Vec<Pair>,
}

impl Difference {
    /// Adds a changed file.
    fn change(&mut self, prefix: &[u8], name: &[u8]) {
        self.changes += 1;
        let path = [prefix, name].concat();
        let mut end = path.len();
        // If the set already contains a directory, it also contains all parents of that directory.
        while self.paths.insert(path[..end].to_vec()) {
            match path[..end].iter().rposition(|&byte| byte == b'/') {
                Some(slash) => end = slash,
                None => break,
            }
        }
    }

    /// Adds an entry that differs between the trees, or exists only in one. If both exist, both are
    /// directories or neither is.
    fn entry(&mut self, prefix: &[u8], old: Option<&Entry>, new: Option<&Entry>) {
        let Some((name, mode, _)) = old.or(new) else { return };
        if mode.is_tree() {
            let id = |entry: Option<&Entry>| entry.map(|entry| entry.2);
            self.pending.push(Pair { old: id(old), new: id(new), prefix: [prefix, name, b"/"].concat() });
        } else {
            self.change(prefix, name);
        }
    }

    /// Compares two trees, and adds their differences.
    fn compare(&mut self, old: &[Entry], new: &[Entry], prefix: &[u8]) {
        let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(two)) => order(one, two),
            };
            let one = if order.is_le() { old.next() } else { None };
            let two = if order.is_ge() { new.next() } else { None };
            if one.map(|entry| (entry.1, entry.2)) != two.map(|entry| (entry.1, entry.2)) {
                self.entry(prefix, one, two);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use format::Mode;

    use super::*;

    fn entry(name: &str, mode: Mode, id: u8) -> Entry {
        (name.into(), mode, ObjectId::from_bytes(HashKind::Sha1, &[id; 20]).expect("20 bytes"))
    }

    #[test]
    fn compares_trees() {
        let old = [entry("a", Mode::FILE, 1), entry("b", Mode::FILE, 1), entry("d", Mode::TREE, 1)];
        let new = [
            entry("a", Mode::EXECUTABLE, 1),
            entry("b.c", Mode::FILE, 2),
            entry("b", Mode::TREE, 1),
            entry("d", Mode::TREE, 2),
        ];
        let mut difference = Difference::default();
        difference.compare(&old, &new, b"x/y/");
        let mut paths: Vec<_> = difference.paths.iter().map(|path| String::from_utf8_lossy(path)).collect();
        paths.sort();
        assert_eq!(paths, ["x", "x/y", "x/y/a", "x/y/b", "x/y/b.c"]);
        assert_eq!(difference.changes, 3);
        let pending: Vec<_> =
            difference.pending.iter().map(|pair| (&*pair.prefix, pair.old.is_some())).collect();
        assert_eq!(pending, [(&b"x/y/b/"[..], false), (b"x/y/d/", true)]);
    }
}
