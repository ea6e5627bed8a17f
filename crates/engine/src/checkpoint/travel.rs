//! The way from the present state to another one.
//!
//! Only paths that differ between the two trees of files are examined. Each step has the premise
//! that its file is as it was when it was stored. Nothing is overwritten that the present state
//! does not hold: planning names such files instead.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, SystemTime},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Edit, Flags, Index, NewEntry, Stage},
    path::{self, Protect},
};
use repo::Repository;
use sys::{Dir, FileType, Stat};

use super::{
    Content, Error, LeftOut, Reason, Snapshot, State,
    snapshot::{new_entry, since_1970},
    state::left_out,
};
use crate::{
    add::{FileHasher, Found, PathProbe},
    checkout::{Plan, Premise, Removal, Write},
    diff::{self, Pair, Side},
    look::{
        cache_tree, protect,
        sparse::Patterns,
        stat::{Match, StatRules},
        untracked,
    },
};

/// The longest wait of a plan for the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The two ends, and the facts about the files.
pub struct Route<'a> {
    /// The present state.
    pub present: &'a Snapshot,
    /// The state to restore.
    pub target: &'a State,
    /// The patterns of a sparse worktree.
    pub patterns: Option<&'a Patterns>,
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// A directory that stays, and so do those above it.
    pub keep: Option<&'a BStr>,
}

/// The plan, or the files that the present state must hold first.
#[derive(Debug)]
pub struct Planned {
    /// The steps. The plan's index has the content of the restored files.
    pub plan: Plan,
    /// Files in the place of restored ones that the present state does not hold: they are ignored.
    /// A snapshot with them ([`super::Scope::also`]) makes the plan safe.
    pub unheld: Vec<BString>,
    /// Directories in the place of restored files, each with a slash at the end. Before the plan is
    /// carried out, those of them and below them that are empty must go
    /// ([`crate::stash::remove_empty_directories`]).
    pub directories: Vec<BString>,
    /// The changes that give the index of the plan the content of the target's index
    /// ([`settle`]).
    pub edits: Vec<Edit>,
    /// Files that stay as they are, because Git does not look at them.
    pub left_out: Vec<LeftOut>,
}

/// Plans the files of the target. `index` is as [`super::snapshot()`] left it.
pub fn plan(repo: &Repository, root: &Dir, mut index: Index, route: &Route<'_>) -> Result<Planned, Error> {
    let pairs = diff::trees(repo, Some(route.present.state.worktree), Some(route.target.worktree))?;
    let unstaged = diff::trees(repo, Some(route.target.worktree), Some(route.target.index))?;
    let unknown = Unknown::of(left_out(repo, route.target.left_out)?);
    let (unread, pairs): (Vec<Pair>, Vec<Pair>) = pairs.into_iter().partition(|pair| unknown.has(pair));
    let ignored = &route.present.ignored;
    let gives_way = |pair: &Pair| {
        let is_file = pair.old.is_some_and(|side| !side.mode.is_gitlink());
        is_file && (pair.new.is_some() || !ignored.contains(&pair.path))
    };
    let mut planner = Planner {
        repo,
        root,
        route,
        unstaged: unstaged.iter().map(|pair| pair.path.as_bstr()).collect(),
        unreadable: route.present.unreadable(),
        removed: pairs.iter().filter(|pair| gives_way(pair)).map(|pair| pair.path.as_bstr()).collect(),
        probe: PathProbe::new(root),
        rules: StatRules::of(repo)?,
        protect: protect(repo)?,
        hasher: FileHasher::new(repo, root, route.big_file_threshold),
        edits: Vec::new(),
        writes: Vec::new(),
        removals: Vec::new(),
        unheld: Vec::new(),
        directories: Vec::new(),
        left_out: Vec::new(),
        repositories: HashMap::new(),
        waited: Duration::ZERO,
    };
    for pair in &pairs {
        planner.path(pair, &index)?;
    }
    let Planner { edits, writes, removals, unheld, directories, left_out, .. } = planner;
    index.apply(edits);
    let write =
        |(path, premise): (BString, Premise)| Write { entry: index.range_of(path.as_bstr()).start, premise };
    let writes = writes.into_iter().map(write).collect();
    let edits = edits_of_index(repo, &index, route.target, &unread)?;
    let plan = Plan { writes, removals, warnings: Vec::new(), index };
    Ok(Planned { plan, unheld, directories, edits, left_out })
}

/// The paths of a state that could not be read when it was stored. Their files stay as they are.
struct Unknown {
    files: HashSet<BString>,
    directories: Vec<BString>,
}

impl Unknown {
    fn of(left_out: Vec<BString>) -> Unknown {
        let (directories, files): (Vec<_>, Vec<_>) =
            left_out.into_iter().partition(|path| path.ends_with(b"/"));
        Unknown { files: files.into_iter().collect(), directories }
    }

    fn has(&self, pair: &Pair) -> bool {
        let is_below = || self.directories.iter().any(|dir| pair.path.starts_with(dir));
        self.files.contains(&pair.path) || (pair.new.is_none() && is_below())
    }
}

struct Planner<'a> {
    repo: &'a Repository,
    root: &'a Dir,
    route: &'a Route<'a>,
    /// The paths whose files differ from the index in the target.
    unstaged: HashSet<&'a BStr>,
    /// The paths whose present file could not be read, with the reasons.
    unreadable: HashMap<&'a BStr, &'a str>,
    /// The paths whose present file is replaced or removed.
    removed: HashSet<&'a BStr>,
    probe: PathProbe<'a>,
    rules: StatRules,
    protect: Protect,
    hasher: FileHasher<'a>,
    edits: Vec<Edit>,
    writes: Vec<(BString, Premise)>,
    removals: Vec<Removal>,
    unheld: Vec<BString>,
    directories: Vec<BString>,
    left_out: Vec<LeftOut>,
    /// The directories above new files, and true for those that are other repositories.
    repositories: HashMap<BString, bool>,
    /// The time that was spent in [`Planner::wait_until`].
    waited: Duration,
}

impl Planner<'_> {
    fn path(&mut self, pair: &Pair, index: &Index) -> Result<(), Error> {
        let path = pair.path.as_bstr();
        let (old, new) = (content(pair.old), content(pair.new));
        if let Some(new) = new {
            let verified = path::verify(path, new.mode, self.protect);
            verified.map_err(|_| Error::InvalidPath(path.to_owned()))?;
        }
        if let Some(reason) = self.unreadable.get(path) {
            return Err(Error::Unreadable { path: path.to_owned(), reason: (*reason).to_owned() });
        }
        let at = index.position(path, Stage::Normal).ok();
        let is_skipped = match (at, old) {
            (Some(at), _) => index.entry(at).flags.contains(Flags::SKIP_WORKTREE),
            (None, None) => {
                let is_outside = self.route.patterns.is_some_and(|patterns| !patterns.includes(path));
                is_outside && !self.unstaged.contains(path)
            }
            (None, Some(_)) => false,
        };
        let entry = |content: Content| {
            let mut entry = new_entry(content, None);
            entry.flags.set(Flags::SKIP_WORKTREE, is_skipped);
            entry
        };
        self.edits.push(Edit { path: path.to_owned(), entries: new.map(entry).into_iter().collect() });
        if is_skipped {
            if let Ok(Some(_)) = self.root.stat(path) {
                self.left_out.push(LeftOut { path: path.to_owned(), reason: Reason::Skipped });
            }
            return Ok(());
        }
        if let Some(Content { mode, oid }) = new {
            self.check_object(path, mode, oid)?;
        }
        let is_file = |content: Content| !content.mode.is_gitlink();
        // The directory of a submodule stays as it is.
        match (old.map(is_file), new.map(is_file)) {
            (Some(true), Some(true)) => {
                let premise = Premise::Unchanged(Box::new(self.present_file(path, index)?));
                self.writes.push((path.to_owned(), premise));
            }
            (Some(true), None) if self.route.present.ignored.contains(path) => {}
            (Some(true), _) => {
                let premise = Premise::Unchanged(Box::new(self.present_file(path, index)?));
                self.removals.push(Removal { path: path.to_owned(), premise, gitlink: false });
            }
            (_, Some(true)) => self.new_file(path)?,
            _ => {}
        }
        Ok(())
    }

    /// Checks that a file can be written. A partial clone fetches the object before the first step.
    fn check_object(&self, path: &BStr, mode: Mode, oid: ObjectId) -> Result<(), Error> {
        let objects = self.repo.objects();
        if mode.is_gitlink() || objects.is_partial() || objects.contains(&oid) {
            return Ok(());
        }
        Err(Error::Missing { path: path.to_owned(), oid })
    }

    /// Returns the stat data of a file that the present state holds.
    fn present_file(&mut self, path: &BStr, index: &Index) -> Result<Stat, Error> {
        let stat = self.examined_file(path, index)?;
        if let Some(until) = self.route.present.unsettled_until(&stat) {
            // A write in the same tick of the clock would leave the stat data as they are.
            self.wait_until(until);
            let mut is_held = || {
                let at = index.position(path, Stage::Normal).ok()?;
                self.hasher.matches_entry(&index.entry(at), path, &stat, index).then_some(())
            };
            is_held().ok_or_else(|| Error::Changed(path.to_owned()))?;
        }
        Ok(stat)
    }

    /// Waits until this time since 1970. The time of a file may be in the future.
    fn wait_until(&mut self, until: Duration) {
        let rest = until.saturating_sub(since_1970(SystemTime::now()));
        let rest = rest.min(LONGEST_WAIT.saturating_sub(self.waited));
        std::thread::sleep(rest);
        self.waited += rest;
    }

    fn examined_file(&mut self, path: &BStr, index: &Index) -> Result<Stat, Error> {
        if let Some(stat) = self.route.present.files.get(path) {
            return Ok(*stat);
        }
        let changed = || Error::Changed(path.to_owned());
        let Found::Present(stat) = self.probe.probe(path) else { return Err(changed()) };
        let at = index.position(path, Stage::Normal).map_err(|_| changed())?;
        let entry = index.entry(at);
        let matches = match self.rules.compare(&entry, &stat, index.timestamp) {
            Match::Same => true,
            Match::Different => false,
            Match::Racy | Match::Touched => self.hasher.matches_entry(&entry, path, &stat, index),
        };
        if matches {
            Ok(stat)
        } else if entry.flags.contains(Flags::ASSUME_VALID) {
            Err(Error::AssumedUnchanged(path.to_owned()))
        } else {
            Err(changed())
        }
    }

    /// Plans a file where the present state has none.
    fn new_file(&mut self, path: &BStr) -> Result<(), Error> {
        self.writes.push((path.to_owned(), Premise::Absent));
        for slash in path.find_iter("/") {
            let above = path[..slash].as_bstr();
            match self.root.stat(above) {
                Ok(Some(stat))
                    if stat.file_type == FileType::Directory && !self.is_other_repository(above) => {}
                Ok(None) => return Ok(()),
                // The file or link gives way to the directory.
                Ok(Some(_)) if self.removed.contains(above) => return Ok(()),
                Err(error) => return Err(unreadable(above, &error)),
                _ => return Err(Error::InTheWay(above.to_owned())),
            }
        }
        match self.root.stat(path) {
            Ok(None) => {}
            Err(error) => return Err(unreadable(path, &error)),
            Ok(Some(stat)) if stat.file_type == FileType::Directory => {
                if self.is_kept(path) {
                    return Err(Error::CurrentDirectory(path.to_owned()));
                }
                self.check_gives_way(path)?;
                self.directories.push(bstr::concat([path.as_bytes(), b"/"]).into());
            }
            Ok(Some(stat)) if matches!(stat.file_type, FileType::File | FileType::Symlink) => {
                self.unheld.push(path.to_owned());
            }
            _ => return Err(Error::InTheWay(path.to_owned())),
        }
        Ok(())
    }

    /// Returns true if the directory is the one that stays, or above it.
    fn is_kept(&self, dir: &BStr) -> bool {
        let below = self.route.keep.and_then(|keep| keep.strip_prefix(dir.as_bytes()));
        below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
    }

    fn is_other_repository(&mut self, dir: &BStr) -> bool {
        if let Some(known) = self.repositories.get(dir) {
            return *known;
        }
        let top = self.repo.work_tree();
        let is_other = top.is_some_and(|top| self.repo.is_worktree(&top.join(sys::os_str(dir))));
        self.repositories.insert(dir.to_owned(), is_other);
        is_other
    }

    /// Returns an error unless all files of a directory are removed.
    fn check_gives_way(&self, dir: &BStr) -> Result<(), Error> {
        let in_the_way = |path: BString| Err(Error::InTheWay(path));
        let listed = self.root.open_dir(dir).and_then(|dir| dir.list());
        for (name, file_type) in listed.map_err(|error| unreadable(dir, &error))? {
            let path = BString::from(bstr::concat([dir.as_bytes(), b"/", &name]));
            match file_type {
                FileType::Directory if name != b".git" => self.check_gives_way(path.as_bstr())?,
                _ if self.removed.contains(path.as_bstr()) => {}
                _ => return in_the_way(path),
            }
        }
        Ok(())
    }
}

fn unreadable(path: &BStr, error: &std::io::Error) -> Error {
    Error::Unreadable { path: path.to_owned(), reason: sys::reason(error).to_string() }
}

/// Returns the untracked files of a state that exist, and that the index lacks: they may be ignored
/// by now.
pub fn untracked_since(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    state: &State,
) -> Result<Vec<BString>, Error> {
    let mut probe = PathProbe::new(root);
    let mut is_file = |path: &BStr| {
        let found = probe.probe(path);
        matches!(found, Found::Present(stat) if matches!(stat.file_type, FileType::File | FileType::Symlink))
    };
    let pairs = diff::trees(repo, Some(state.index), Some(state.worktree))?;
    let new = pairs.into_iter().filter(|pair| pair.old.is_none()).map(|pair| pair.path);
    Ok(new.filter(|path| untracked::is_other(index, path.as_bstr()) && is_file(path.as_bstr())).collect())
}

fn content(side: Option<Side>) -> Option<Content> {
    side.and_then(|side| Some(Content { mode: side.mode, oid: side.oid? }))
}

/// Gives `index`, which is that of the plan after its steps, the content of the target's index.
pub fn settle(repo: &Repository, index: &mut Index, edits: Vec<Edit>) {
    index.apply(edits);
    index.resolve_undo = None;
    cache_tree::complete(index, &|oid, _| repo.objects().contains(oid));
}

/// Returns the changes from `index` to the target's index. `index` has the content of the target's
/// files, except for `unread`: of these, the target has the entries of its index.
fn edits_of_index(
    repo: &Repository,
    index: &Index,
    target: &State,
    unread: &[Pair],
) -> Result<Vec<Edit>, Error> {
    let protect = protect(repo)?;
    let mut edits: BTreeMap<BString, Vec<NewEntry>> = BTreeMap::new();
    for pair in unread {
        let entry = content(pair.new).map(|content| new_entry(content, None));
        edits.insert(pair.path.clone(), entry.into_iter().collect());
    }
    for pair in diff::trees(repo, Some(target.worktree), Some(target.index))? {
        let skipped = index.position(pair.path.as_bstr(), Stage::Normal).ok();
        let skipped = skipped.map_or(Flags::empty(), |at| index.entry(at).flags & Flags::SKIP_WORKTREE);
        let entry = |content: Content| NewEntry { flags: skipped, ..new_entry(content, None) };
        edits.insert(pair.path, content(pair.new).map(entry).into_iter().collect());
    }
    for (stage, tree) in [Stage::Base, Stage::Ours, Stage::Theirs].into_iter().zip(target.stages) {
        for pair in tree.map_or_else(|| Ok(Vec::new()), |tree| diff::trees(repo, None, Some(tree)))? {
            let Some(content) = content(pair.new) else { continue };
            let entries = edits.entry(pair.path).or_default();
            entries.retain(|entry| entry.stage != Stage::Normal);
            entries.push(NewEntry { stage, ..new_entry(content, None) });
        }
    }
    for (path, mode) in intended(repo, target.intent_to_add)? {
        let oid = ObjectId::empty_blob(repo.hash());
        let entry = NewEntry { flags: Flags::INTENT_TO_ADD, ..new_entry(Content { mode, oid }, None) };
        edits.insert(path, vec![entry]);
    }
    for (path, entries) in &edits {
        for entry in entries {
            let verified = path::verify(path.as_bstr(), entry.mode, protect);
            verified.map_err(|_| Error::InvalidPath(path.clone()))?;
        }
    }
    Ok(edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect())
}

/// Returns the paths and modes of a list of entries that will be added.
fn intended(repo: &Repository, list: Option<ObjectId>) -> Result<Vec<(BString, Mode)>, Error> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let mut reader = repo.objects().reader();
    let (_, data) = reader.read(&list)?;
    let parse = |item: &[u8]| {
        let (mode, path) = item.split_once_str(" ")?;
        let mode = u32::from_str_radix(mode.to_str().ok()?, 8).ok()?;
        let is_known = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK, Mode::GITLINK].map(Mode::bits);
        is_known.contains(&mode).then(|| (BString::from(path), Mode::canonical(mode)))
    };
    let items = data.split(|byte| *byte == 0).filter(|item| !item.is_empty());
    items.map(|item| parse(item).ok_or(Error::NoList(list))).collect()
}
