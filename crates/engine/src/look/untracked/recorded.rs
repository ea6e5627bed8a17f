//! The untracked cache in a walk: a directory whose stat matches its record is not listed, because
//! the record contains its content.
//!
//! Promise: the result equals that of a walk without the cache. Creating, removing or renaming a
//! file in a directory changes the directory's stat. The other inputs are compared: the ignore
//! files above the directory, its own ignore file, and its index entries (every change of the index
//! invalidates records). The record of a directory as young as the index is not used, for the same
//! reason as a racy entry.
//!
//! As in Git, an untracked directory that is reported as one path has a record of its own, so that
//! the walk detects when it becomes empty. Its name in the parent's record is not sufficient.

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
    cache_stats::{CacheStats, Counts, OldRecord},
    rules::{IgnoreFile, LazyRules},
    tracked::Below,
    tree::{Descent, IgnoreState, Job, Node, ReadPurpose, State},
};
use crate::{
    crew::StepReporter,
    look::{
        content,
        handle::Handle,
        pathspec::Pathspecs,
        stat::{StatRules, index_stat},
    },
};

/// The existing cache, and the new records of this walk.
pub(super) struct Recorded<'a> {
    cache: &'a UntrackedCache,
    records: Records<'a>,
    rules: StatRules,
    /// True if the monitor has reported the changes, so that valid records need no check.
    watched: bool,
    /// True if the ignore files outside of the worktree have not changed since the cache was
    /// filled.
    holds: bool,
    excludes: [ObjectId; 2],
    found: Mutex<BTreeMap<BString, Listed>>,
    counts: Counts,
}

/// The record of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordState {
    /// The cache is not used.
    Unused,
    /// The directory has no record.
    Missing,
    /// The position of a record that may be valid.
    Current(usize),
    /// The position of a record whose ignore rules have changed.
    Outdated(usize),
}

impl<'a> Recorded<'a> {
    /// Returns the cache of `index` if it is usable for this walk: Git's
    /// `validate_untracked_cache`.
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
                Some(content) => ignore_file_id(index.hash, content),
                None => ObjectId::null(index.hash),
            }),
            found: Mutex::default(),
            counts,
        }))
    }

    pub(super) fn records(&self) -> &Records<'a> {
        &self.records
    }

    /// Returns the statistics so far.
    pub(super) fn cache_stats(&self) -> CacheStats {
        self.counts.get()
    }

    pub(super) fn root(&self) -> RecordState {
        self.records.root().map_or(RecordState::Missing, RecordState::Current)
    }

    /// Returns the cache with the new records, if there are any.
    pub(super) fn updated_cache(self, index: &Index) -> Option<UntrackedCache> {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if found.is_empty() {
            return None;
        }
        debug_assert_eq!(index.untracked.as_ref(), Some(self.cache), "it was not changed meanwhile");
        let mut cache = self.cache.clone();
        cache.record(self.excludes, found);
        Some(cache)
    }

    /// Removes `path` (with a slash at the end) from its parent's new record, because the directory
    /// is reported as one path without a record of its own. A parent without a new record is
    /// examined again by the next walk.
    pub(super) fn remove_directory(&self, path: &BStr) {
        self.in_parent(path, |parent, name| parent.directories.retain(|other| other != name));
    }

    /// Adds the name of `path` to its parent's new record. The directory was reported as one path,
    /// or was only checked for content.
    pub(super) fn add_name(&self, path: &BStr) {
        self.in_parent(path, |parent, name| {
            // A record for a content check needs only one name.
            if !parent.check_only || parent.untracked.is_empty() {
                parent.untracked.push([name.as_bytes(), b"/"].concat().into());
            }
        });
    }

    /// Changes the new record of the directory that contains `path`, if there is one.
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

/// The new record of a listed directory.
pub(super) struct Entry {
    old_record: OldRecord,
    /// The object ID of the `.gitignore` in the old record.
    before: Option<ObjectId>,
    /// The old records of its subdirectories, sorted by name: the name and the position.
    below: Vec<(BString, usize)>,
    stat: Stat,
    untracked: Vec<BString>,
    directories: Vec<BString>,
    /// The object ID of the current `.gitignore`, or of the recorded one until the file is read.
    exclude: Option<ObjectId>,
    forgets: bool,
}

impl Entry {
    /// Adds an untracked name. The name of a directory ends with a slash.
    pub(super) fn untracked(&mut self, name: &[u8]) {
        self.untracked.push(name.into());
    }

    /// Adds a subdirectory that is walked. Returns the state of its record.
    pub(super) fn directory(&mut self, name: &[u8]) -> RecordState {
        self.directories.push(name.into());
        match self.below.binary_search_by(|(other, _)| other.as_bytes().cmp(name)) {
            Ok(position) if !self.forgets => RecordState::Current(self.below[position].1),
            Ok(position) => RecordState::Outdated(self.below[position].1),
            Err(_) => RecordState::Missing,
        }
    }

    /// Returns true if the `.gitignore` has to be read even if no name has to be classified.
    pub(super) fn needs_rules(&self) -> bool {
        self.old_record == OldRecord::OtherRules
    }

    /// Compares the content of the directory's `.gitignore`, which is at `path`, with the record.
    /// Returns true if they are equal.
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
                .unwrap_or_else(|| ignore_file_id(index.hash, content))
        });
        false
    }
}

/// Returns the object ID by which Git identifies an untracked or modified ignore file. It is that
/// of the file's content in memory, to which Git appends a line feed unless it is empty.
pub(super) fn ignore_file_id(kind: HashKind, content: &[u8]) -> ObjectId {
    match content {
        b"" => content::name(kind, content),
        _ => content::name(kind, &[content, b"\n"].concat()),
    }
}

/// Returns true if an ignore file with this content has the recorded ID, which is that of an
/// untracked or of a tracked file.
fn is_name_of(recorded: &ObjectId, content: &[u8]) -> bool {
    let kind = recorded.kind();
    *recorded == ignore_file_id(kind, content) || *recorded == content::name(kind, content)
}

/// The result of a cache lookup for a directory.
pub(super) enum LookUp {
    /// The content of the directory was taken from the cache.
    Done,
    /// The directory has to be listed. With an entry, the listing is recorded.
    Listing(Option<Box<Entry>>),
}

impl Walk<'_> {
    /// Looks a directory up in the cache.
    pub(super) fn look_up(
        &self,
        thread_cwd: Option<&mut ThreadCwd<'_>>,
        job: &Job,
        jobs: &mut Vec<Job>,
        reporter: &mut dyn StepReporter,
    ) -> LookUp {
        let Job { node, from, lazy_rules, known } = job;
        let known = *known;
        let Some(recorded) = self.recorded.as_ref().filter(|_| known != RecordState::Unused) else {
            return LookUp::Listing(None);
        };
        let record = match known {
            RecordState::Current(at) => {
                recorded.records.recorded(at).filter(|_| recorded.holds).map(|record| (at, record))
            }
            _ => None,
        };
        let path = node.path();
        if let Some((at, _)) = record
            && recorded.watched
            && node.descent().purpose == ReadPurpose::Report
            && self.is_quiet(recorded, path, at, &node.descent().within, from)
        {
            recorded.counts.spared_all(recorded.records.after(at) - at);
            return LookUp::Done;
        }
        // An error is reported when the directory is listed.
        let look = |reporter: &mut dyn StepReporter| {
            let rest = from.rest(path.strip_suffix(b"/").unwrap_or_default());
            let found =
                if rest.is_empty() { from.dir().stat_self().map(Some) } else { from.dir().stat_below(rest) };
            reporter.step();
            found.ok().flatten().filter(|stat| stat.file_type == FileType::Directory)
        };
        // With a monitor, valid records need no stat.
        let mut stat = None;
        let mut old_record = match known {
            RecordState::Missing | RecordState::Unused if !path.is_empty() => OldRecord::New,
            _ => OldRecord::Invalid,
        };
        if record.is_none() || !recorded.watched {
            stat = look(reporter);
            if stat.is_none() {
                recorded.counts.listed(if record.is_some() { OldRecord::Valid } else { old_record });
                return LookUp::Listing(None);
            }
        }
        if let Some((at, record)) = record {
            let same = stat
                .is_none_or(|stat| recorded.rules.same_directory(&record.stat, &stat, self.index.timestamp))
                && record.check_only == (node.descent().purpose == ReadPurpose::Classify);
            if same && self.same_rules(from, path, node, &record) {
                let lazy_rules = match record.exclude {
                    Some(_) => lazy_rules.clone().deferred(from, path),
                    None => lazy_rules.clone(),
                };
                self.take(recorded, at, &record, job, &lazy_rules, jobs);
                if let Some(observer) = self.observer {
                    observer.unlisted(from, thread_cwd, path, &node.descent().within, reporter);
                }
                return LookUp::Done;
            }
            old_record = if same { OldRecord::OtherRules } else { OldRecord::Valid };
        }
        let Some(stat) = stat.or_else(|| look(reporter)) else {
            recorded.counts.listed(old_record);
            return LookUp::Listing(None);
        };
        let records = &recorded.records;
        let mut entry = Entry {
            old_record,
            before: None,
            below: Vec::new(),
            stat,
            untracked: Vec::new(),
            directories: Vec::new(),
            exclude: None,
            forgets: !recorded.holds || matches!(known, RecordState::Outdated(_)),
        };
        if let RecordState::Current(at) | RecordState::Outdated(at) = known {
            entry.before = records.exclude(at);
            entry.exclude = entry.before;
            entry.below = records.below(at).map(|below| (records.name(below).to_owned(), below)).collect();
            entry.below.sort_unstable();
        }
        LookUp::Listing(Some(Box::new(entry)))
    }

    /// Counts a directory that was listed or could not be listed.
    pub(super) fn count_listed(&self, entry: &Entry) {
        if let Some(recorded) = &self.recorded {
            recorded.counts.listed(entry.old_record);
        }
    }

    /// Counts a `.gitignore` that differs from the record.
    pub(super) fn count_rules_changed(&self) {
        if let Some(recorded) = &self.recorded {
            recorded.counts.rules_changed(1);
        }
    }

    /// Returns true if the `.gitignore` of a directory equals the recorded one. A tracked,
    /// unmodified `.gitignore` is not read.
    fn same_rules(&self, from: &Arc<Handle>, path: &BStr, node: &Node, record: &Record<'_>) -> bool {
        let Some(exclude) = record.exclude else { return true };
        let file: BString = [path.as_bytes(), b".gitignore"].concat().into();
        let at = self.index.position(file.as_bstr(), Stage::Normal);
        if let (Ok(at), Some(observer)) = (at, self.observer)
            && self.index.entry(at).oid == exclude
            && observer.is_clean(from, at)
        {
            return true;
        }
        let rest = from.rest(path.strip_suffix(b"/").unwrap_or_default());
        let opened = if rest.is_empty() { from.dir().try_clone() } else { from.dir().open_dir(rest) };
        let Ok(dir) = opened else { return false };
        let content = self.ignore_file(&dir, path, IgnoreFile::Unknown, || node.walk_position());
        content.is_some_and(|content| is_name_of(&exclude, &content))
    }

    /// Adds the content of a directory from its record.
    fn take(
        &self,
        recorded: &Recorded<'_>,
        at: usize,
        record: &Record<'_>,
        job: &Job,
        lazy_rules: &LazyRules,
        jobs: &mut Vec<Job>,
    ) {
        let Job { node, from, .. } = job;
        let path = node.path();
        let first = jobs.len();
        let mut names: Vec<&BStr> = Vec::new();
        let mut cursor = 0;
        for (position, below) in recorded.records.below(at).enumerate() {
            let name = recorded.records.name(below);
            // Git writes the names sorted. If they are not sorted, the lookup is only slower.
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
            let purpose =
                if within.is_empty() && checks_only && self.options.directories != Directories::Files {
                    ReadPurpose::Classify
                } else {
                    ReadPurpose::Report
                };
            let nested = within.is_empty().then_some(State::Untracked);
            let descent = Descent {
                purpose,
                ignore_state: IgnoreState::NotIgnored,
                nested,
                within,
                entry: known.entry,
            };
            node.expect();
            let below_node = Node::below(node, child, position, descent, self);
            let (from, level, known) = (Arc::clone(from), lazy_rules.clone(), RecordState::Current(below));
            jobs.push(Job { node: below_node, from, lazy_rules: level, known });
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

    /// Stores the new record of a listed directory.
    pub(super) fn record(&self, node: &Node, entry: Entry) {
        let Some(recorded) = &self.recorded else { return };
        let Entry { stat, mut untracked, mut directories, exclude, forgets, .. } = entry;
        directories.sort_unstable();
        let check_only = node.descent().purpose == ReadPurpose::Classify;
        if check_only {
            // One name is sufficient.
            untracked.truncate(1);
        }
        let stat = index_stat(&stat);
        recorded.keep(
            node.path(),
            Listed { stat, untracked, check_only, exclude, directories, rules_changed: forgets },
        );
    }
}
