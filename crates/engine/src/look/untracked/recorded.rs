//! The untracked cache in a walk: a directory whose stat is the recorded one is not listed, what was recorded is taken for what is in it.
//!
//! Promise: what is found is what a walk without it would find. Who makes, removes or renames something in a directory changes the
//! directory's stat; what else decides is compared: the ignore files above it, its own, and what the index has in it (whoever changes
//! the index invalidates). A directory as young as the index is not believed, for the reason for which a file is not.
//!
//! As in Git, an untracked directory that is shown as one has a record of its own, so that it is noticed when it becomes empty; the
//! name in its parent's record alone decides nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    HashKind, ObjectId,
    index::{
        Index, MonitorAnswer, Stage, UntrackedCache,
        untracked::{Directories as Records, Listed, Recorded as Record},
    },
};
use repo::Repository;
use sys::{FileType, Stat, ThreadCwd};

use super::{
    Directories, Excludes, Ignored, Nested, Options, Walk, cache,
    rules::{IgnoreFile, Ladder},
    tracked::Below,
    tree::{Descent, Fate, Job, Manner, Node, State},
    upkeep::{Counts, Upkeep, Was},
};
use crate::{
    crew::Pace,
    look::{
        content,
        handle::Handle,
        pathspec::Pathspecs,
        stat::{StatRules, index_stat},
    },
};

/// The cache that is there, and what is found beside it.
pub(super) struct Recorded<'a> {
    cache: &'a UntrackedCache,
    records: Records<'a>,
    rules: StatRules,
    /// The monitor has named what changed, so valid records hold.
    watched: bool,
    /// What the files outside the worktree hold is what it was when all this was recorded.
    holds: bool,
    excludes: [ObjectId; 2],
    found: Mutex<BTreeMap<BString, Listed>>,
    counts: Counts,
}

/// Where a directory stands in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The cache is not used.
    Unused,
    /// Nothing is recorded of it.
    No,
    /// This record is its.
    As(usize),
    /// So is this, but other rules apply by now.
    Outdated(usize),
}

impl<'a> Recorded<'a> {
    /// The cache of `index`, if it can serve such a walk. Git's `validate_untracked_cache`.
    pub(super) fn of(
        repo: &Repository,
        index: &'a Index,
        pathspecs: &Pathspecs,
        excludes: &Excludes,
        options: &Options,
    ) -> Result<Option<Self>, repo::Error> {
        let (Some(cache), Some(outside)) = (&index.untracked, &excludes.standard) else { return Ok(None) };
        let flags = match options.directories {
            Directories::Files => 0,
            Directories::WholeUnlessEmpty => UntrackedCache::NORMAL,
            Directories::Whole => return Ok(None),
        };
        let serves = cache.dir_flags() == flags
            && options.ignored == Ignored::Left
            && options.nested == Nested::AsOne
            && pathspecs.is_empty()
            && cache.ident() == cache::ident(repo);
        if !serves {
            return Ok(None);
        }
        let differs = outside.iter().zip(cache.excludes()).filter(|(content, recorded)| match content {
            Some(content) => !is_name_of(recorded, content),
            None => **recorded != ObjectId::null(index.hash),
        });
        let differing = differs.count();
        let counts = Counts::default();
        counts.rules_changed(differing);
        Ok(Some(Recorded {
            cache,
            records: cache.directories(),
            rules: StatRules::of(repo)?,
            watched: index.monitor_answer() == MonitorAnswer::Changes,
            holds: differing == 0,
            excludes: outside.each_ref().map(|content| match content {
                Some(content) => own_name(index.hash, content),
                None => ObjectId::null(index.hash),
            }),
            found: Mutex::default(),
            counts,
        }))
    }

    pub(super) fn records(&self) -> &Records<'a> {
        &self.records
    }

    /// What has been done so far.
    pub(super) fn upkeep(&self) -> Upkeep {
        self.counts.get()
    }

    pub(super) fn root(&self) -> Known {
        self.records.root().map_or(Known::No, Known::As)
    }

    /// The cache with what was found, if that is news.
    pub(super) fn renewed(self, index: &Index) -> Option<UntrackedCache> {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if found.is_empty() {
            return None;
        }
        debug_assert_eq!(index.untracked.as_ref(), Some(self.cache), "it was not changed meanwhile");
        let mut cache = self.cache.clone();
        cache.record(self.excludes, found);
        Some(cache)
    }

    /// `path` (with a slash at its end), a directory that was to be looked into, turned out to be one thing: it has no record of its own. If
    /// its parent's is an old one, that stays to be found out again.
    pub(super) fn is_one(&self, path: &BStr) {
        self.in_parent(path, |parent, name| parent.directories.retain(|other| other != name));
    }

    /// `path`, such a directory or one that was only asked whether there is anything in it, is told of by its name.
    pub(super) fn is_told(&self, path: &BStr) {
        self.in_parent(path, |parent, name| {
            // Where one name is enough, one is recorded.
            if !parent.check_only || parent.untracked.is_empty() {
                parent.untracked.push([name.as_bytes(), b"/"].concat().into());
            }
        });
    }

    /// Changes what is going to be recorded of the directory that `path` is in.
    fn in_parent(&self, path: &BStr, change: impl FnOnce(&mut Listed, &BStr)) {
        let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        let start = path.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(parent) = found.get_mut(path[..start.saturating_sub(1)].as_bstr()) else { return };
        change(parent, path[start..].as_bstr());
    }

    fn keep(&self, path: &BStr, listed: Listed) {
        let path = path.strip_suffix(b"/").unwrap_or_default().into();
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(path, listed);
    }
}

/// What is to be recorded of a directory that is listed.
pub(super) struct Entry {
    was: Was,
    /// The `.gitignore` it was recorded by, if it was.
    before: Option<ObjectId>,
    /// The records in it, by name.
    below: Vec<(BString, usize)>,
    stat: Stat,
    untracked: Vec<BString>,
    directories: Vec<BString>,
    /// The `.gitignore` that counts now; what was recorded until it is read.
    exclude: Option<ObjectId>,
    forgets: bool,
}

impl Entry {
    /// `name` (with a slash at its end if it is a directory) is untracked.
    pub(super) fn untracked(&mut self, name: &[u8]) {
        self.untracked.push(name.into());
    }

    /// `name` is a directory that is looked into. Where its record is.
    pub(super) fn directory(&mut self, name: &[u8]) -> Known {
        self.directories.push(name.into());
        match self.below.binary_search_by(|(other, _)| other.as_bytes().cmp(name)) {
            Ok(place) if !self.forgets => Known::As(self.below[place].1),
            Ok(place) => Known::Outdated(self.below[place].1),
            Err(_) => Known::No,
        }
    }

    /// Whether its `.gitignore` has to be read even if nothing in it is to be judged by that.
    pub(super) fn needs_rules(&self) -> bool {
        self.was == Was::UnderOtherRules
    }

    /// Its `.gitignore`, of this path, has this content. Whether that is as recorded.
    pub(super) fn ignore_file(&mut self, index: &Index, path: &BStr, content: Option<&[u8]>) -> bool {
        let same = match (&self.before, content) {
            (Some(before), Some(content)) => is_name_of(before, content),
            (None, None) => true,
            _ => false,
        };
        if same {
            return true;
        }
        self.forgets = true;
        self.exclude = content.map(|content| {
            let tracked = index.position(path, Stage::Normal).ok().map(|at| index.entry(at).oid);
            tracked
                .filter(|oid| *oid == content::name(index.hash, content))
                .unwrap_or_else(|| own_name(index.hash, content))
        });
        false
    }
}

/// The name by which Git recognises an ignore file that is not tracked, or was changed: as it keeps it in memory, with a line end more, unless it
/// is empty.
fn own_name(kind: HashKind, content: &[u8]) -> ObjectId {
    match content {
        b"" => content::name(kind, content),
        _ => content::name(kind, &[content, b"\n"].concat()),
    }
}

/// Whether a file of this content is recorded by this name: its own, or that of a tracked one.
fn is_name_of(recorded: &ObjectId, content: &[u8]) -> bool {
    let kind = recorded.kind();
    *recorded == own_name(kind, content) || *recorded == content::name(kind, content)
}

/// What became of a directory that may be recorded.
pub(super) enum Looked {
    /// What is in it is known.
    Done,
    /// It has to be listed, and recorded if there is something to record.
    Listing(Option<Box<Entry>>),
}

impl Walk<'_> {
    /// Looks a directory up in the cache.
    pub(super) fn look_up(
        &self,
        thread_cwd: Option<&mut ThreadCwd<'_>>,
        node: &Arc<Node>,
        (from, ladder, known): (&Arc<Handle>, &Ladder, Known),
        jobs: &mut Vec<Job>,
        pace: &mut dyn Pace,
    ) -> Looked {
        let Some(recorded) = self.recorded.as_ref().filter(|_| known != Known::Unused) else {
            return Looked::Listing(None);
        };
        let record = match known {
            Known::As(at) => {
                recorded.records.recorded(at).filter(|_| recorded.holds).map(|record| (at, record))
            }
            _ => None,
        };
        let path = node.path();
        if let Some((at, _)) = record
            && recorded.watched
            && node.descent().manner == Manner::Enter
            && self.is_quiet(recorded, (path, at), &node.descent().within, from)
        {
            recorded.counts.spared_all(recorded.records.after(at) - at);
            return Looked::Done;
        }
        // What is wrong with it, listing it will tell.
        let look = |pace: &mut dyn Pace| {
            let rest = from.rest(path.strip_suffix(b"/").unwrap_or_default());
            let found = match rest.is_empty() {
                true => from.dir().stat_self().map(Some),
                false => from.dir().stat_below(rest),
            };
            pace.step();
            found.ok().flatten().filter(|stat| stat.file_type == FileType::Directory)
        };
        // A monitor has seen to it that what is recorded holds.
        let mut stat = None;
        let mut was = match known {
            Known::No | Known::Unused if !path.is_empty() => Was::New,
            _ => Was::Invalid,
        };
        if record.is_none() || !recorded.watched {
            stat = look(pace);
            if stat.is_none() {
                recorded.counts.listed(if record.is_some() { Was::Valid } else { was });
                return Looked::Listing(None);
            }
        }
        if let Some((at, record)) = record {
            let same = stat
                .is_none_or(|stat| recorded.rules.same_directory(record.stat, &stat, self.index.timestamp))
                && record.check_only == (node.descent().manner == Manner::Judge);
            if same && self.same_rules(from, path, node, &record) {
                let ladder = match record.exclude {
                    Some(_) => ladder.clone().later(from, path),
                    None => ladder.clone(),
                };
                self.take(recorded, node, (at, &record), (from, &ladder), jobs);
                if let Some(beside) = self.beside {
                    beside.unlisted((from, thread_cwd), path, &node.descent().within, pace);
                }
                return Looked::Done;
            }
            was = if same { Was::UnderOtherRules } else { Was::Valid };
        }
        let Some(stat) = stat.or_else(|| look(pace)) else {
            recorded.counts.listed(was);
            return Looked::Listing(None);
        };
        let records = &recorded.records;
        let mut entry = Entry {
            was,
            before: None,
            below: Vec::new(),
            stat,
            untracked: Vec::new(),
            directories: Vec::new(),
            exclude: None,
            forgets: !recorded.holds || matches!(known, Known::Outdated(_)),
        };
        if let Known::As(at) | Known::Outdated(at) = known {
            entry.before = records.exclude(at).copied();
            entry.exclude = entry.before;
            entry.below = records.below(at).map(|below| (records.name(below).to_owned(), below)).collect();
            entry.below.sort_unstable();
        }
        Looked::Listing(Some(Box::new(entry)))
    }

    /// A directory is listed, or was tried to be.
    pub(super) fn count_listed(&self, entry: &Entry) {
        if let Some(recorded) = &self.recorded {
            recorded.counts.listed(entry.was);
        }
    }

    /// The `.gitignore` of a directory is not as recorded.
    pub(super) fn count_rules_changed(&self) {
        if let Some(recorded) = &self.recorded {
            recorded.counts.rules_changed(1);
        }
    }

    /// Whether the `.gitignore` of a directory is as recorded. If it is tracked and clean it need not be read.
    fn same_rules(&self, from: &Arc<Handle>, path: &BStr, node: &Node, record: &Record<'_>) -> bool {
        let Some(exclude) = record.exclude else { return true };
        let file: BString = [path.as_bytes(), b".gitignore"].concat().into();
        let at = self.index.position(file.as_bstr(), Stage::Normal);
        if let (Ok(at), Some(beside)) = (at, self.beside)
            && self.index.entry(at).oid == *exclude
            && beside.is_clean(from, at)
        {
            return true;
        }
        let rest = from.rest(path.strip_suffix(b"/").unwrap_or_default());
        let opened = match rest.is_empty() {
            true => from.dir().try_clone(),
            false => from.dir().open_dir(rest),
        };
        let Ok(dir) = opened else { return false };
        let content = self.ignore_file(&dir, path, IgnoreFile::Unknown, || node.way());
        content.is_some_and(|content| is_name_of(exclude, &content))
    }

    /// What is recorded of a directory is what is in it.
    fn take(
        &self,
        recorded: &Recorded<'_>,
        node: &Arc<Node>,
        (at, record): (usize, &Record<'_>),
        (from, ladder): (&Arc<Handle>, &Ladder),
        jobs: &mut Vec<Job>,
    ) {
        let path = node.path();
        let first = jobs.len();
        let mut names: Vec<&BStr> = Vec::new();
        let mut cursor = 0;
        for (place, below) in recorded.records.below(at).enumerate() {
            let name = recorded.records.name(below);
            // They are sorted, as whoever writes the cache writes them; if not, that costs time.
            if names.last().is_some_and(|&last| name < last) {
                cursor = 0;
            }
            names.push(name);
            let mut child: BString = [path.as_bytes(), name].concat().into();
            let known = self.tracked.look(child.as_bstr(), true, &node.descent().within, &mut cursor);
            let within = match known.below {
                Below::Entries(within) => within,
                Below::Nothing => 0..0,
                Below::Submodule => continue,
            };
            child.push(b'/');
            let checks_only = recorded.records.recorded(below).is_none_or(|of| of.check_only);
            let manner =
                match within.is_empty() && checks_only && self.options.directories != Directories::Files {
                    true => Manner::Judge,
                    false => Manner::Enter,
                };
            let nested = within.is_empty().then_some(State::Untracked);
            let descent = Descent { manner, fate: Fate::Kept, nested, within, entry: known.entry };
            node.expect();
            let below_node = Node::below(node, child, place, descent, self);
            let (from, level, known) = (Arc::clone(from), ladder.clone(), Known::As(below));
            jobs.push(Job { node: below_node, from, ladder: level, known });
        }
        jobs[first..].reverse();
        names.sort_unstable();
        let mut taken = names.len();
        for name in record.untracked {
            let has_record = |name: &[u8]| names.binary_search(&name.as_bstr()).is_ok();
            if !name.strip_suffix(b"/").is_some_and(has_record) {
                let child: BString = [path.as_bytes(), name].concat().into();
                node.add(State::Untracked, child.as_bstr(), false, self.options.ignored);
                taken += 1;
            }
        }
        recorded.counts.spared(taken);
    }

    /// A directory was listed.
    pub(super) fn record(&self, node: &Node, entry: Entry) {
        let Some(recorded) = &self.recorded else { return };
        let Entry { stat, mut untracked, mut directories, exclude, forgets, .. } = entry;
        directories.sort_unstable();
        let check_only = node.descent().manner == Manner::Judge;
        if check_only {
            // One is enough.
            untracked.truncate(1);
        }
        let stat = index_stat(&stat);
        recorded.keep(
            node.path(),
            Listed { stat, untracked, check_only, exclude, directories, rules_changed: forgets },
        );
    }
}
