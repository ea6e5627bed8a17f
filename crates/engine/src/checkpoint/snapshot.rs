//! The present state of a worktree and its index, stored as objects.
//!
//! Order: the comparison of the index with the files, and the search for untracked files; the
//! content of each file that differs; the trees of the index; the tree of the files. Nothing is
//! changed except that objects are staged. The cost is that of a status, and that of the changes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Edit, Entry, Flags, Index, NewEntry, Stage},
    loose::Kind,
    path,
};
use repo::{Repository, submodule::Ignore};
use store::objects::ObjectTransaction;
use sys::{Dir, FileType, Stat};

use super::{Content, Error, State};
use crate::{
    add::{self, AfterError, Found, LineEnds, Missing, PathProbe, Recording, record, write_tree},
    diff::SubmoduleIgnore,
    look::{
        pathspec::{Defaults, Pathspecs},
        protect,
        stat::{StatRules, index_stat},
        untracked::{self, Directories, Excludes, Ignored, Nested, Others, cache},
    },
    status,
};

/// Above this number of untracked directories, one walk through the worktree replaces the walks
/// through them: each path is compared with all of their names.
const MANY_DIRECTORIES: usize = 64;

/// The times of files are as exact as the ticks of the kernel's clock, 10 milliseconds at most.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The selection and the means of a snapshot.
pub struct Scope<'a> {
    /// Ignored files that are stored too.
    pub also: &'a [BString],
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// Raised to end the work early.
    pub interrupt: &'a AtomicBool,
}

/// The present state.
#[derive(Debug)]
pub struct Snapshot {
    /// Its objects.
    pub state: State,
    /// The stat data of the files whose content was stored, from before they were read.
    pub(super) files: HashMap<BString, Stat>,
    /// The stored files that are ignored. They may be replaced, and are never removed.
    pub(super) ignored: HashSet<BString>,
    /// The paths that no object holds.
    pub left_out: Vec<LeftOut>,
    /// When the examination began; `None` if no file was examined.
    began: Option<SystemTime>,
}

impl Snapshot {
    /// Returns the state of a worktree without changes at this tree.
    pub fn of_tree(tree: ObjectId) -> Snapshot {
        Snapshot::of_state(State::of_tree(tree))
    }

    /// Returns a state whose files are in another worktree.
    pub fn of_state(state: State) -> Snapshot {
        Snapshot { state, files: HashMap::new(), ignored: HashSet::new(), left_out: Vec::new(), began: None }
    }

    /// Returns the paths that could not be read, with the reasons.
    pub(super) fn unreadable(&self) -> HashMap<&BStr, &str> {
        let mut found = HashMap::new();
        for LeftOut { path, reason } in &self.left_out {
            if let Reason::Unreadable(reason) = reason {
                found.insert(path.as_bstr(), reason.as_str());
            }
        }
        found
    }

    /// Returns true if a file was changed so late that a later change may have the same time.
    pub(super) fn is_recent(&self, stat: &Stat) -> bool {
        let since = |began: SystemTime| began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanoseconds) = stat.ctime;
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        self.began.is_some_and(|began| changed + TICK >= since(began))
    }
}

/// A path that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The path; that of a directory ends in a slash.
    pub path: BString,
    /// The reason.
    pub reason: Reason,
}

/// Why a path cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is another repository.
    Repository,
    /// It is neither a file nor a link.
    Special,
    /// Git allows no such name in an index.
    Name,
    /// It cannot be read.
    Unreadable(String),
    /// Git does not look at it (`update-index --skip-worktree`).
    Skipped,
}

/// Stages the objects of the present state in `transaction`. `index` is full, and its monitor was
/// queried. Afterwards it has the content of the worktree, with untracked files.
pub fn snapshot(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    scope: &Scope<'_>,
    transaction: &ObjectTransaction<'_>,
) -> Result<Snapshot, Error> {
    let began = Some(SystemTime::now());
    let mut found = Finder { repo, root, scope, left_out: Vec::new() }.find(index)?;
    let stored = found.store(repo, root, index, scope, transaction)?;
    let (index_tree, stages) = trees_of_index(repo, index, transaction)?;
    let intent_to_add = intent_to_add(repo, index, transaction)?;
    index.apply(stored.edits);
    index.resolve_undo = None;
    let worktree = write_tree(index, repo, transaction, Missing::Refused)?.root;
    let Changes { ignored, left_out, .. } = found;
    let state = State {
        worktree,
        index: index_tree,
        stages,
        intent_to_add,
        left_out: unreadable(repo, &left_out, transaction)?,
    };
    Ok(Snapshot { state, files: stored.files, ignored, left_out, began })
}

/// The paths whose files differ from the index.
#[derive(Default)]
struct Changes {
    /// Paths of the index, with their mode there; `None` for an unmerged path.
    tracked: Vec<(BString, Option<Mode>)>,
    untracked: Vec<BString>,
    /// Those of the untracked ones that are ignored.
    ignored: HashSet<BString>,
    /// Paths whose files are missing.
    missing: Vec<BString>,
    /// Submodules, with the commit that is checked out.
    submodules: Vec<(BString, ObjectId)>,
    left_out: Vec<LeftOut>,
}

struct Finder<'a> {
    repo: &'a Repository,
    root: &'a Dir,
    scope: &'a Scope<'a>,
    left_out: Vec<LeftOut>,
}

impl Finder<'_> {
    /// Finds the changes, and refreshes stat data in `index`.
    fn find(mut self, index: &mut Index) -> Result<Changes, Error> {
        let Finder { repo, root, .. } = self;
        let excludes = Excludes::standard(repo, &[])?;
        let directories = Directories::WholeUnlessEmpty;
        let excludes = if cache::fit(repo, index, directories) { excludes } else { excludes.without_cache() };
        let everything = Pathspecs::default();
        let search = self.search(directories)?;
        let options = status::Options {
            untracked: Some(status::Untracked { options: search, excludes: &excludes }),
            submodules: SubmoduleIgnore::Given(Ignore::Dirty),
            ..status::Options::tracked(&everything, self.scope.interrupt)
        };
        let worktree = status::examine(repo, root, index, &options)?;
        self.check_interrupt()?;
        for (at, stat) in worktree.refreshed {
            index.entries_mut()[at].stat = stat;
        }
        let mut changes = Changes::default();
        for (path, source) in worktree.unreadable {
            // A link in the place of a directory may lead in a circle.
            if is_replaced_above(root, path.as_bstr()) {
                changes.missing.push(path);
            } else {
                self.unreadable(path, &source);
            }
        }
        self.warned(worktree.found.warnings)?;
        for pair in worktree.changes {
            let of_index = index.entries_in(index.range_of(pair.path.as_bstr())).next();
            let Some(entry) = of_index.filter(|entry| entry.stage == Stage::Normal) else { continue };
            match pair.new.map(|side| side.mode) {
                _ if entry.mode.is_gitlink() => {
                    if let Some(commit) = add::commit_at(repo, pair.path.as_bstr()) {
                        changes.submodules.push((pair.path, commit));
                    }
                }
                None => changes.missing.push(pair.path),
                Some(_) => changes.tracked.push((pair.path, Some(entry.mode))),
            }
        }
        self.unmerged(index, &mut changes);
        changes.untracked = self.untracked(index, &excludes, worktree.found.untracked)?;
        for path in self.scope.also {
            let is_found = changes.untracked.binary_search(path).is_ok();
            if !is_found && untracked::is_other(index, path.as_bstr()) {
                changes.ignored.insert(path.clone());
            }
        }
        changes.untracked.extend(changes.ignored.iter().cloned());
        changes.left_out = self.left_out;
        Ok(changes)
    }

    fn search(&self, directories: Directories) -> Result<untracked::Options, Error> {
        let workers = status::workers(self.repo)?;
        Ok(untracked::Options { directories, ignored: Ignored::Left, nested: Nested::AsOne, workers })
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        if self.scope.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn unreadable(&mut self, path: BString, source: &std::io::Error) {
        let reason = Reason::Unreadable(sys::reason(source).to_string());
        self.left_out.push(LeftOut { path, reason });
    }

    /// Notes the directories that a walk could not read.
    fn warned(&mut self, warnings: Vec<untracked::Warning>) -> Result<(), Error> {
        for warning in warnings {
            match warning {
                untracked::Warning::Directory { path, source } => self.unreadable(path, &source),
                untracked::Warning::IgnoreFile { path, source } => {
                    let reason = sys::reason(&source).to_string();
                    return Err(Error::UnreadableRules { path, reason });
                }
                // Git ignores it, too.
                untracked::Warning::LargeIgnoreFile { .. } => {}
            }
        }
        Ok(())
    }

    /// An unmerged path has the content of its file, whatever its stages are.
    fn unmerged(&mut self, index: &Index, changes: &mut Changes) {
        let mut probe = PathProbe::new(self.root);
        let mut last = None;
        let unmerged = index.entries_in(0..if index.is_unmerged() { index.len() } else { 0 });
        for entry in unmerged.filter(|entry| entry.stage != Stage::Normal) {
            let path = index.path(&entry);
            if last.replace(path) == Some(path) {
                continue;
            }
            match probe.probe(path) {
                _ if entry.mode.is_gitlink() => changes.missing.push(path.to_owned()),
                Found::Present(stat) if stat.file_type != FileType::Directory => {
                    changes.tracked.push((path.to_owned(), None));
                }
                Found::Unreadable(source) if !is_replaced_above(self.root, path) => {
                    self.unreadable(path.to_owned(), &source);
                    changes.missing.push(path.to_owned());
                }
                _ => changes.missing.push(path.to_owned()),
            }
        }
    }

    /// Returns the untracked files. A directory that was found is replaced by its files.
    fn untracked(
        &mut self,
        index: &Index,
        excludes: &Excludes,
        found: Vec<BString>,
    ) -> Result<Vec<BString>, Error> {
        let (whole, mut files): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| path.ends_with(b"/"));
        if !whole.is_empty() {
            let literal = |path: &BString| BString::from([b":(top,literal)", path.as_slice()].concat());
            let specs: Vec<BString> = whole.iter().map(literal).collect();
            let specs = if specs.len() > MANY_DIRECTORIES { &[] } else { specs.as_slice() };
            let specs = Pathspecs::parse(specs, "".into(), "".into(), Defaults::default());
            let specs = specs.expect("literal paths of the worktree are valid pathspecs");
            let search = self.search(Directories::Files)?;
            let excludes = excludes.clone().without_cache();
            let interrupt = self.scope.interrupt;
            let walked =
                untracked::walk(self.repo, self.root, index, &specs, &excludes, &search, interrupt, None)?;
            self.check_interrupt()?;
            self.warned(walked.warnings)?;
            let below = walked.untracked.into_iter();
            files.extend(below.filter(|path| whole.iter().any(|dir| path.starts_with(dir))));
        }
        let protect = protect(self.repo)?;
        let mut others = Others::of(index);
        files.sort();
        files.dedup();
        files.retain(|path| {
            let reason = if path.ends_with(b"/") {
                Reason::Repository
            } else if path::verify(path.as_bstr(), Mode::FILE, protect).is_err() {
                Reason::Name
            } else {
                return others.is_other(path.as_bstr());
            };
            self.left_out.push(LeftOut { path: path.clone(), reason });
            false
        });
        Ok(files)
    }
}

/// The entries of the files that differ, and their stat data.
struct Stored {
    edits: Vec<Edit>,
    files: HashMap<BString, Stat>,
}

impl Changes {
    fn store(
        &mut self,
        repo: &Repository,
        root: &Dir,
        index: &Index,
        scope: &Scope<'_>,
        transaction: &ObjectTransaction<'_>,
    ) -> Result<Stored, Error> {
        let rules = StatRules::of(repo)?;
        let recording = Recording {
            repo,
            worktree: root,
            objects: Some(transaction),
            big_file_threshold: scope.big_file_threshold,
            line_ends: LineEnds::AsBefore,
            after_error: AfterError::Continue,
            interrupt: scope.interrupt,
        };
        let untracked = std::mem::take(&mut self.untracked).into_iter().map(|path| (path, None, false));
        let tracked = std::mem::take(&mut self.tracked).into_iter().map(|(path, mode)| (path, mode, true));
        let all: Vec<(BString, Option<Mode>, bool)> = tracked.chain(untracked).collect();
        let paths: Vec<BString> = all.iter().map(|(path, ..)| path.clone()).collect();
        let recorded = recording.record(&paths, index)?;
        let mut edits: BTreeMap<BString, Vec<NewEntry>> = BTreeMap::new();
        let mut files = HashMap::new();
        for ((path, mode, is_tracked), recorded) in all.into_iter().zip(recorded) {
            let Some(recorded) = recorded else { return Err(Error::Interrupted) };
            let reason = match recorded.result {
                Ok((stat, oid)) => {
                    let mode = rules.mode(mode, &stat);
                    edits.insert(path.clone(), vec![new_entry(Content { mode, oid }, Some(&stat))]);
                    files.insert(path, stat);
                    continue;
                }
                Err(error) if is_gone(&error) => None,
                Err(add::Error::Type { .. } | add::Error::NoCommit { .. }) => Some(Reason::Special),
                Err(error) => match unreadable_reason(&error) {
                    Some(reason) => {
                        self.left_out.push(LeftOut { path: path.clone(), reason });
                        // The tree has the entry of the index, which the list declares unknown.
                        if !(is_tracked && mode.is_some()) {
                            edits.insert(path, Vec::new());
                        }
                        continue;
                    }
                    None => return Err(error.into()),
                },
            };
            self.left_out.extend(reason.map(|reason| LeftOut { path: path.clone(), reason }));
            edits.insert(path, Vec::new());
        }
        edits.extend(self.missing.drain(..).map(|path| (path, Vec::new())));
        let gitlink = |oid| vec![new_entry(Content { mode: Mode::GITLINK, oid }, None)];
        edits.extend(self.submodules.drain(..).map(|(path, commit)| (path, gitlink(commit))));
        let edits = edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect();
        Ok(Stored { edits, files })
    }
}

/// Returns the reason if the file could not be read.
fn unreadable_reason(error: &add::Error) -> Option<Reason> {
    let (add::Error::Stat { source, .. }
    | add::Error::Open { source, .. }
    | add::Error::Read { source, .. }
    | add::Error::ReadLink { source, .. }) = error
    else {
        return None;
    };
    Some(Reason::Unreadable(sys::reason(source).to_string()))
}

/// Returns true if a directory of the path is a file or a link now.
fn is_replaced_above(root: &Dir, path: &BStr) -> bool {
    let mut above = path.find_iter("/").map(|slash| root.stat(path[..slash].as_bstr()));
    above.any(|stat| matches!(stat, Ok(Some(stat)) if stat.file_type != FileType::Directory))
}

/// Returns true if the file was removed after it was found.
fn is_gone(error: &add::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let (add::Error::Stat { source, .. }
    | add::Error::Open { source, .. }
    | add::Error::ReadLink { source, .. }) = error
    else {
        return false;
    };
    matches!(source.kind(), NotFound | NotADirectory)
}

/// Writes the tree of the merged entries, and a tree for each stage of the unmerged ones.
fn trees_of_index(
    repo: &Repository,
    index: &mut Index,
    transaction: &ObjectTransaction<'_>,
) -> Result<(ObjectId, [Option<ObjectId>; 3]), Error> {
    if !index.is_unmerged() {
        return Ok((write_tree(index, repo, transaction, Missing::Refused)?.root, [None; 3]));
    }
    let mut merged = index.clone();
    let mut sides = [Stage::Base, Stage::Ours, Stage::Theirs].map(|stage| (stage, Index::empty(repo.hash())));
    let mut edits: Vec<Edit> = Vec::new();
    for entry in index.entries().iter().filter(|entry| entry.stage != Stage::Normal) {
        let path = index.path(entry);
        if edits.last().is_none_or(|edit| edit.path != path) {
            edits.push(Edit { path: path.to_owned(), entries: Vec::new() });
        }
        let content = Content { mode: entry.mode, oid: entry.oid };
        for (_, side) in sides.iter_mut().filter(|(stage, _)| *stage == entry.stage) {
            side.push(path, new_entry(content, None));
        }
    }
    merged.apply(edits);
    let root = write_tree(&mut merged, repo, transaction, Missing::Refused)?.root;
    let mut stages = [None; 3];
    for (stage, (_, side)) in stages.iter_mut().zip(&mut sides) {
        if !side.is_empty() {
            *stage = Some(write_tree(side, repo, transaction, Missing::Refused)?.root);
        }
    }
    Ok((root, stages))
}

/// Writes the list of the entries that will be added, if there are any.
fn intent_to_add(
    repo: &Repository,
    index: &Index,
    transaction: &ObjectTransaction<'_>,
) -> Result<Option<ObjectId>, Error> {
    if !index.has_any(Flags::INTENT_TO_ADD) {
        return Ok(None);
    }
    let mut list = Vec::new();
    let is_intended = |entry: &&Entry| entry.flags.contains(Flags::INTENT_TO_ADD);
    for entry in index.entries().iter().filter(is_intended) {
        list.extend_from_slice(format!("{:o} ", entry.mode.bits()).as_bytes());
        list.extend_from_slice(index.path(entry));
        list.push(0);
    }
    Ok(Some(record(repo, transaction, Kind::Blob, &list)?))
}

/// Writes the list of the paths that could not be read, if there are any.
fn unreadable(
    repo: &Repository,
    left_out: &[LeftOut],
    transaction: &ObjectTransaction<'_>,
) -> Result<Option<ObjectId>, Error> {
    let is_unreadable = |left: &&LeftOut| matches!(left.reason, Reason::Unreadable(_));
    let mut paths: Vec<&[u8]> =
        left_out.iter().filter(is_unreadable).map(|left| left.path.as_slice()).collect();
    if paths.is_empty() {
        return Ok(None);
    }
    paths.sort_unstable();
    paths.dedup();
    let list: Vec<u8> = paths.iter().flat_map(|path| [path, &b"\0"[..]]).flatten().copied().collect();
    Ok(Some(record(repo, transaction, Kind::Blob, &list)?))
}

/// Creates a merged entry. `stat` are the stat data of its file, if the file is known to match.
pub(super) fn new_entry(content: Content, stat: Option<&Stat>) -> NewEntry {
    let stat = stat.map(index_stat).unwrap_or_default();
    NewEntry { stat, oid: content.oid, mode: content.mode, flags: Flags::empty(), stage: Stage::Normal }
}
