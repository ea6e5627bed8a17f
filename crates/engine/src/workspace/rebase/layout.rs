//! Computes the upper layer that a workspace needs on another base. The disk is neither read nor
//! changed here.
//!
//! The worktree after the switch is known: it is the current one, with the plan's writes and
//! removals. A path needs an entry in the new upper layer if the new base does not provide it:
//!
//! - a file of the old upper layer is moved, unless it equals the new base's file, or the plan
//!   replaces it;
//! - a file of the old base that the new base lacks, and that the plan keeps, is copied;
//! - a path of the new base that the worktree lacks gets a whiteout.

use std::collections::{BTreeSet, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Edit, Entry, Flags, Index, NewEntry, Stage, Stat};

use super::walk::{Below, Node, Stamp, Upper, ancestors_from_root, parent};
use crate::{
    checkout::{Plan, Premise, Removal},
    workspace::newer::{self, Time, When},
};

/// The inputs of the computation.
pub struct Inputs<'a> {
    /// All entries of the old base.
    pub old: &'a Index,
    /// All entries of the new base.
    pub new: &'a Index,
    /// The switch of the worktree to the tree of the new base.
    pub plan: &'a Plan,
    /// The old upper layer.
    pub upper: &'a Upper,
    /// Files of the old base that are visible below a renamed directory of the upper layer: their
    /// paths in the worktree, sorted.
    pub renamed: &'a [BString],
    /// Empty directories of the worktree, sorted.
    pub empty: &'a [BString],
    /// The permission bits that are cleared in all files of a base (umask).
    pub umask: u32,
    /// Returns true if the file of an entry in the plan's index is known to equal the entry.
    pub is_clean: &'a dyn Fn(&Entry) -> bool,
}

/// A new upper layer. All lists are sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Files, links and whole directories of the old upper layer to move to the new one.
    pub moves: Vec<BString>,
    /// Files and links to copy from the worktree.
    pub copies: Vec<BString>,
    /// Paths of the new base to hide by whiteouts.
    pub whiteouts: Vec<BString>,
    /// Empty directories to keep.
    pub directories: Vec<BString>,
    /// The new newer layer.
    pub newer: newer::Plan,
}

impl Layout {
    /// Computes the layout.
    pub fn of(inputs: &Inputs<'_>) -> Layout {
        let mut layout = Layout::default();
        let steps = Steps::of(inputs.plan);
        layout.keep_upper(inputs, &steps);
        layout.keep_old_base(inputs, &steps);
        let moved = set([&layout.moves]);
        let is_left = |dir: &&BString| {
            !steps.replace(dir.as_bstr())
                && !steps.empties(dir.as_bstr())
                && !ancestors_from_root(dir.as_bstr()).any(|ancestor| moved.contains(ancestor))
        };
        layout.directories = inputs.empty.iter().filter(is_left).cloned().collect();
        layout.hide(inputs, &steps);
        layout
    }

    /// Decides about everything in the old upper layer.
    fn keep_upper(&mut self, inputs: &Inputs<'_>, steps: &Steps<'_>) {
        let mut whole: HashSet<&BStr> = HashSet::new();
        for (path, node) in inputs.upper.nodes() {
            if !whole.is_empty() && ancestors_from_root(path).any(|ancestor| whole.contains(ancestor)) {
                continue;
            }
            let moves = match node {
                _ if path == ".git" => true,
                Node::Whiteout => false,
                Node::Directory(_) => {
                    let moves = moves_whole(inputs, steps, path);
                    if moves {
                        whole.insert(path);
                    }
                    moves
                }
                Node::Leaf(stamp) => {
                    let is_dropped = steps.replace(path)
                        || is_provided(inputs, path) && has_usual_mode(inputs, path, stamp);
                    !is_dropped
                }
            };
            if moves {
                self.moves.push(path.to_owned());
            }
        }
    }

    /// Decides about the visible files of the old base.
    fn keep_old_base(&mut self, inputs: &Inputs<'_>, steps: &Steps<'_>) {
        for path in inputs.renamed {
            if !steps.replace(path.as_bstr()) && !is_provided(inputs, path.as_bstr()) {
                self.copies.push(path.clone());
            }
        }
        let mut dir: Option<(Option<&BStr>, bool)> = None;
        for entry in files(inputs.old) {
            let path = inputs.old.path(entry);
            let above = parent(path);
            let hides = match dir {
                Some((known, hides)) if known == above => hides,
                _ => inputs.upper.hides_children(above),
            };
            dir = Some((above, hides));
            if hides || inputs.upper.get(path).is_some() || steps.replace(path) {
                continue;
            }
            let same = |new: Entry| new.oid == entry.oid && new.mode == entry.mode;
            if !find(inputs.new, path).is_some_and(same) {
                self.copies.push(path.to_owned());
            }
        }
        self.copies.sort();
    }

    /// Hides paths of the new base that must not be visible in the worktree.
    fn hide(&mut self, inputs: &Inputs<'_>, steps: &Steps<'_>) {
        let mut shown: BTreeSet<&BStr> = BTreeSet::new();
        let mut absent: Vec<&BStr> = Vec::new();
        let kept: BTreeSet<&BStr> = set([&self.moves, &self.copies]);
        let left: BTreeSet<&BStr> = set([&self.directories]);
        for entry in files(inputs.new) {
            let path = inputs.new.path(entry);
            if steps.writes.contains(path) || is_in_view(inputs, path) && !steps.replace(path) {
                shown.insert(path);
            } else if !ancestors_from_root(path).any(|ancestor| kept.contains(ancestor)) {
                absent.push(path);
            }
        }
        let is_used = |dir: &BStr| [&shown, &kept, &left].into_iter().any(|paths| has_within(paths, dir));
        for path in absent {
            let hidden = self
                .whiteouts
                .last()
                .is_some_and(|last| ancestors_from_root(path).any(|ancestor| ancestor == last));
            if hidden {
                continue;
            }
            if let Some(top) = ancestors_from_root(path).find(|ancestor| !is_used(ancestor)) {
                self.whiteouts.push(top.to_owned());
            }
        }
        self.whiteouts.sort();
    }

    /// Plans the newer layer. A file that the plan writes is newer than every build before. A file
    /// that only changes its layer keeps its time: one of the old upper layer that the new base
    /// provides (`time_of` returns its time), and one of the old newer layer (`before`).
    pub fn renew(
        &mut self,
        inputs: &Inputs<'_>,
        before: &newer::Plan,
        time_of: &dyn Fn(&BStr) -> Option<Time>,
    ) {
        let steps = Steps::of(inputs.plan);
        let written = steps.writes.iter().filter(|path| find(inputs.new, path).is_some());
        self.newer.files = written.map(|path| ((*path).to_owned(), When::Now)).collect();
        let has = |dir: &BStr| !inputs.new.range_below(dir).is_empty();
        let removed = steps.removals.iter().filter_map(|path| parent(path)).filter(|dir| has(dir));
        self.newer.directories = removed.map(|dir| (dir.to_owned(), When::Now)).collect();
        let moved = set([&self.moves]);
        for (path, node) in inputs.upper.nodes() {
            let is_moved = || ancestors_from_root(path).any(|ancestor| moved.contains(ancestor));
            let (times, is_dropped) = match node {
                Node::Leaf(_) => {
                    (&mut self.newer.files, find(inputs.new, path).is_some() && !steps.replace(path))
                }
                Node::Directory(_) => (&mut self.newer.directories, has(path)),
                Node::Whiteout => continue,
            };
            if is_dropped
                && !is_moved()
                && let Some(time) = time_of(path)
            {
                times.entry(path.to_owned()).or_insert(When::At(time));
            }
        }
        for (path, when) in &before.files {
            let path = path.as_bstr();
            let stays = !inputs.upper.hides(path) && !steps.replace(path) && is_same_file(inputs, path);
            if stays {
                self.newer.files.entry(path.to_owned()).or_insert(*when);
            }
        }
        for (dir, when) in before.directories.iter().filter(|(dir, _)| has(dir.as_bstr())) {
            self.newer.directories.entry(dir.clone()).or_insert(*when);
        }
        // A directory gets the time of its newest file, unless a later one is given here.
        steps.writes.iter().filter_map(|path| parent(path)).for_each(|dir| {
            self.newer.directories.remove(dir);
        });
    }

    /// Keeps the whiteouts that hide paths of frozen layers. `is_frozen` returns true if a frozen
    /// layer contains a path.
    pub fn keep_hidden(&mut self, upper: &Upper, is_frozen: &dyn Fn(&BStr) -> bool) {
        let own = set([&self.moves, &self.copies, &self.whiteouts]);
        let is_hidden = |path: &BStr| {
            ancestors_from_root(path).any(|ancestor| own.contains(ancestor)) || has_within(&own, path)
        };
        let whiteouts = upper.nodes().filter(|(_, node)| *node == Node::Whiteout);
        let kept = whiteouts.filter(|(path, _)| !is_hidden(path) && is_frozen(path));
        let kept: Vec<BString> = kept.map(|(path, _)| path.to_owned()).collect();
        self.whiteouts.extend(kept);
        self.whiteouts.sort();
    }

    /// Returns the edits that turn the new base's index into that of the workspace. Entries whose
    /// files do not come from the base have no stat data.
    pub fn edits(&self, new: &Index, after: &Index) -> Vec<Edit> {
        let mut own = set([&self.moves, &self.copies, &self.whiteouts]);
        own.extend(self.newer.files.keys().map(|path| path.as_bstr()));
        let mut edits = Vec::new();
        let (mut at, mut other) = (0, 0);
        while at < new.len() || other < after.len() {
            let path = match (at < new.len(), other < after.len()) {
                (true, true) => new.path_at(at).min(after.path_at(other)),
                (true, false) => new.path_at(at),
                (false, _) => after.path_at(other),
            };
            let count = |index: &Index, from: usize| {
                (from..index.len()).take_while(|&at| index.path_at(at) == path).count()
            };
            let (base, entries) = (at..at + count(new, at), other..other + count(after, other));
            (at, other) = (base.end, entries.end);
            let wanted: Vec<NewEntry> = after.entries_in(entries).map(|entry| unknown(&entry)).collect();
            let same = wanted.len() == 1
                && base.len() == 1
                && unknown(&new.entry(base.start)) == wanted[0]
                && !ancestors_from_root(path).any(|ancestor| own.contains(ancestor));
            if !same {
                edits.push(Edit { path: path.to_owned(), entries: wanted });
            }
        }
        edits
    }
}

/// Returns an entry without stat data, so that its file will be compared.
fn unknown(entry: &Entry) -> NewEntry {
    let kept = Flags::ASSUME_VALID | Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE;
    NewEntry { stat: Stat::default(), flags: entry.flags & kept, ..entry.content() }
}

/// The paths that the plan writes and removes.
struct Steps<'a> {
    writes: HashSet<&'a BStr>,
    removals: BTreeSet<&'a BStr>,
    /// Paths to remove that had no file when the plan was made.
    missing: BTreeSet<&'a BStr>,
    /// The parent directories of paths that the plan writes.
    leading: HashSet<&'a BStr>,
}

impl<'a> Steps<'a> {
    fn of(plan: &'a Plan) -> Steps<'a> {
        let writes: HashSet<&BStr> =
            plan.writes.iter().map(|write| plan.index.path_at(write.entry)).collect();
        let mut leading = HashSet::new();
        for path in &writes {
            let mut above = parent(path);
            while let Some(dir) = above.filter(|dir| leading.insert(*dir)) {
                above = parent(dir);
            }
        }
        let files = plan.removals.iter().filter(|removal| !removal.gitlink);
        let (missing, removals): (Vec<_>, Vec<_>) =
            files.partition(|removal| removal.premise == Premise::Absent);
        let paths = |of: Vec<&'a Removal>| of.into_iter().map(|removal| removal.path.as_bstr()).collect();
        Steps { removals: paths(removals), missing: paths(missing), writes, leading }
    }

    /// Returns true if the plan removes an entry directly in the empty directory `dir`, which then
    /// goes too.
    fn empties(&self, dir: &BStr) -> bool {
        let below = bstr::concat([dir.as_bytes(), b"/"]);
        let within = self.missing.range(below.as_bstr()..).take_while(|path| path.starts_with(&below));
        within.into_iter().any(|path| parent(path) == Some(dir))
    }

    /// Returns true if the plan keeps no file of the worktree at `path`: it removes the file,
    /// writes another, or needs a directory here or a file at a parent path.
    fn replace(&self, path: &BStr) -> bool {
        self.removals.contains(path)
            || self.leading.contains(path)
            || ancestors_from_root(path).any(|ancestor| self.writes.contains(ancestor))
    }

    /// Returns true if the plan has a step for `dir`, for a path below it, or for a path above it.
    fn touch(&self, dir: &BStr) -> bool {
        self.replace(dir) || [&self.removals, &self.missing].into_iter().any(|paths| has_within(paths, dir))
    }
}

/// Returns true if the file at `path` equals the new base's file.
fn is_provided(inputs: &Inputs<'_>, path: &BStr) -> bool {
    let (Some(base), Some(entry)) = (find(inputs.new, path), find(&inputs.plan.index, path)) else {
        return false;
    };
    base.oid == entry.oid && base.mode == entry.mode && (inputs.is_clean)(&entry)
}

/// Returns true if both bases have the same file at `path`.
fn is_same_file(inputs: &Inputs<'_>, path: &BStr) -> bool {
    let (old, new) = (find(inputs.old, path), find(inputs.new, path));
    old.zip(new).is_some_and(|(old, new)| old.oid == new.oid && old.mode == new.mode)
}

/// Returns true if a file has the permissions that the new base's file has. A file whose
/// permissions the user has changed is kept.
fn has_usual_mode(inputs: &Inputs<'_>, path: &BStr, stamp: Stamp) -> bool {
    let usual = match find(inputs.new, path) {
        Some(entry) if entry.mode.is_symlink() => return true,
        Some(entry) if entry.mode.is_executable() => 0o777,
        _ => 0o666,
    };
    stamp.permissions == usual & !inputs.umask
}

/// Returns true if a directory of the upper layer can be moved as a whole: neither base nor the
/// index has paths below it.
fn moves_whole(inputs: &Inputs<'_>, steps: &Steps<'_>, dir: &BStr) -> bool {
    let is_plain = |node: Node| !matches!(node, Node::Whiteout | Node::Directory(Below::Redirected));
    let is_merged = inputs.upper.get(dir) == Some(Node::Directory(Below::Merged));
    let is_renamed = |ancestor: &BStr| inputs.upper.get(ancestor) == Some(Node::Directory(Below::Redirected));
    let shows_renamed = || is_merged && ancestors_from_root(dir).any(is_renamed);
    let shows_base =
        || is_merged && !inputs.upper.hides_children(parent(dir)) && !inputs.old.range_below(dir).is_empty();
    let has = |index: &Index| !index.range_below(dir).is_empty();
    let is_at_a_file = || ancestors_from_root(dir).any(|ancestor| find(inputs.new, ancestor).is_some());
    is_plain(inputs.upper.get(dir).expect("it is a node"))
        && !has(inputs.new)
        && !has(&inputs.plan.index)
        && !is_at_a_file()
        && !shows_base()
        && !shows_renamed()
        && !steps.touch(dir)
        && inputs.upper.below(dir).all(|(_, node)| is_plain(node))
}

/// Returns true if the worktree contains a file at `path`.
fn is_in_view(inputs: &Inputs<'_>, path: &BStr) -> bool {
    match inputs.upper.get(path) {
        Some(Node::Leaf(_)) => true,
        Some(Node::Whiteout | Node::Directory(_)) => false,
        None if inputs.renamed.binary_search_by(|known| known.as_bstr().cmp(path)).is_ok() => true,
        None => find(inputs.old, path).is_some() && !inputs.upper.hides(path),
    }
}

/// Iterates over the files and links of a base.
fn files(index: &Index) -> impl Iterator<Item = &Entry> {
    index.entries().iter().filter(|entry| is_file(entry))
}

fn is_file(entry: &Entry) -> bool {
    entry.stage == Stage::Normal
        && !entry.mode.is_gitlink()
        && !entry.mode.is_tree()
        && !entry.flags.contains(Flags::SKIP_WORKTREE)
}

fn find(index: &Index, path: &BStr) -> Option<Entry> {
    index.position(path, Stage::Normal).ok().map(|at| index.entry(at)).filter(is_file)
}

fn set<const N: usize>(lists: [&Vec<BString>; N]) -> BTreeSet<&BStr> {
    lists.into_iter().flatten().map(|path| path.as_bstr()).collect()
}

/// Returns true if one of the paths equals `dir` or lies below it.
fn has_within(paths: &BTreeSet<&BStr>, dir: &BStr) -> bool {
    let below = bstr::concat([dir.as_bytes(), b"/"]);
    paths.contains(dir) || paths.range(below.as_bstr()..).next().is_some_and(|path| path.starts_with(&below))
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
