//! The directories of a walk. Each is a job. A directory is classified after the last job below it
//! has ended.

use std::{
    io,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{FileType, ThreadCwd};

use super::{
    Directories, Ignored, Walk, Warning,
    classify::{Classification, ParentDirectory},
    recorded::{self, LookUp, RecordState},
    rules::{DirectoryRules, IgnoreFile, LazyRules},
    tracked::MergedName,
};
use crate::{crew::StepReporter, look::handle::Handle};

/// The state of a path, like Git's `path_treatment`. The state of a directory is the greatest state
/// of the paths in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Not reported.
    Nothing,
    /// A directory that is reported by its content.
    Entered,
    Ignored,
    Untracked,
}

/// The purpose of reading a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadPurpose {
    /// To report its content.
    Report,
    /// To classify the directory itself.
    Classify,
}

/// The ignore state of a directory. A rule that matches the directory, or a directory above it,
/// ignores all of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreState {
    NotIgnored,
    Ignored,
    /// The rules have not been read yet. The directory is read in any case, because it contains
    /// tracked files.
    Unknown,
}

/// A directory to be read.
#[derive(Debug)]
pub(super) struct Descent {
    pub(super) purpose: ReadPurpose,
    pub(super) ignore_state: IgnoreState,
    /// The state to use if the directory is the worktree of another repository; `None` if it is not
    /// checked.
    pub(super) nested: Option<State>,
    /// The index entries below it.
    pub(super) within: Range<usize>,
    /// True if the path is an index entry: a directory at the path of a file.
    pub(super) entry: bool,
}

/// A directory.
pub(super) struct Node {
    parent: Option<Arc<Node>>,
    /// Its position in the listing of its parent.
    position: usize,
    /// The path with a slash at the end; empty for the root.
    path: BString,
    descent: Descent,
    /// Set if only the state is needed, not the content. The flag is true once the state is known.
    settled: Option<Arc<AtomicBool>>,
    /// The number of unfinished subdirectories, plus one for the directory itself.
    pending: AtomicUsize,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    state: Option<State>,
    /// The state as the worktree of another repository, which replaces the state of the content.
    nested: Option<State>,
    untracked: Vec<BString>,
    ignored: Vec<BString>,
}

/// A directory to be read, and how to reach it.
pub(super) struct Job {
    pub(super) node: Arc<Node>,
    pub(super) from: Arc<Handle>,
    pub(super) lazy_rules: LazyRules,
    pub(super) known: RecordState,
}

/// The state that a thread keeps between directories.
#[derive(Default)]
pub(super) struct Worker<'p> {
    thread_cwd: Option<ThreadCwd<'p>>,
    listing: sys::Listing,
    names: Vec<u8>,
    entries: Vec<Name>,
    files: Vec<(u64, usize)>,
    others: Vec<Range<usize>>,
}

impl<'p> Worker<'p> {
    pub(super) fn new(thread_cwd: Option<ThreadCwd<'p>>) -> Self {
        Worker { thread_cwd, ..Worker::default() }
    }

    /// Lists the directory at `path` below `dir`, or `dir` itself.
    fn read(&mut self, dir: &sys::Dir, path: &[u8]) -> io::Result<sys::Dir> {
        let Worker { listing, names, entries, .. } = self;
        names.clear();
        entries.clear();
        let visit = |entry: sys::Entry<'_>| {
            let start = names.len();
            names.extend_from_slice(entry.name);
            let range = start..names.len();
            if entry.file_type == FileType::Directory {
                names.push(b'/');
            }
            entries.push(Name {
                key: key(&names[start..]),
                range,
                file_type: entry.file_type,
                ino: entry.ino,
                position: entries.len(),
            });
            Ok::<_, io::Error>(())
        };
        if path.is_empty() {
            listing.read(dir, visit)?;
            return dir.try_clone();
        }
        listing.open(dir, path, visit)
    }

    fn has(&self, name: &[u8]) -> bool {
        self.entries.iter().any(|entry| &self.names[entry.range.clone()] == name)
    }
}

pub(crate) struct Name {
    key: u64,
    /// The range in `names`. The name of a directory is followed by a slash.
    range: Range<usize>,
    file_type: FileType,
    ino: u64,
    /// The position in the listing.
    position: usize,
}

impl Name {
    /// Returns the name as in the index. The name of a directory has its slash.
    fn indexed<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        &names[self.range.start..self.range.end + usize::from(self.file_type == FileType::Directory)]
    }
}

/// Returns the first bytes of a name as a sort key. It orders most names without a full comparison.
fn key(name: &[u8]) -> u64 {
    let mut first = [0; 8];
    let known = name.len().min(first.len());
    first[..known].copy_from_slice(&name[..known]);
    u64::from_be_bytes(first)
}

/// The names in a directory, in index order.
pub(crate) struct Listed<'l> {
    names: &'l [u8],
    entries: &'l [Name],
    /// The index entries that are files in this directory, in index order: the inode number, and
    /// the position of the first entry of each path.
    pub(crate) files: &'l [(u64, usize)],
    /// The index entries that are neither files in this directory nor in a listed subdirectory.
    pub(crate) others: &'l [Range<usize>],
}

impl Listed<'_> {
    /// Returns the type and the inode number of a name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(FileType, u64)> {
        let find = |name: &[u8]| {
            let of = |entry: &Name| (entry.key, entry.indexed(self.names));
            let at = self.entries.binary_search_by(|entry| of(entry).cmp(&(key(name), name))).ok()?;
            Some((self.entries[at].file_type, self.entries[at].ino))
        };
        find(name).or_else(|| find(&[name, b"/"].concat()))
    }
}

impl Node {
    /// Creates the node above the root, which receives the result.
    pub(super) fn top() -> Arc<Node> {
        let descent = Descent {
            purpose: ReadPurpose::Report,
            ignore_state: IgnoreState::NotIgnored,
            nested: None,
            within: 0..0,
            entry: false,
        };
        Arc::new(Node {
            parent: None,
            position: 0,
            path: BString::default(),
            descent,
            settled: None,
            pending: AtomicUsize::new(1),
            gathered: Mutex::default(),
        })
    }

    pub(super) fn below(
        parent: &Arc<Node>,
        path: BString,
        position: usize,
        descent: Descent,
        walk: &Walk<'_>,
    ) -> Arc<Node> {
        let asks = walk.options.directories == Directories::WholeUnlessEmpty
            && !walk.options.ignored.is_too()
            && descent.purpose == ReadPurpose::Classify;
        let settled = parent.settled.clone().or_else(|| asks.then(Arc::default));
        Arc::new(Node {
            parent: Some(Arc::clone(parent)),
            position,
            path,
            descent,
            settled,
            pending: AtomicUsize::new(1),
            gathered: Mutex::default(),
        })
    }

    /// Registers one more unfinished subdirectory.
    pub(super) fn expect(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn path(&self) -> &BStr {
        self.path.as_bstr()
    }

    pub(super) fn descent(&self) -> &Descent {
        &self.descent
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the untracked and ignored paths at the end of the walk.
    pub(super) fn take(&self) -> (Vec<BString>, Vec<BString>) {
        let gathered = std::mem::take(&mut *self.gathered());
        (gathered.untracked, gathered.ignored)
    }

    /// Returns the position in a sequential walk, as a list of positions from the root.
    pub(super) fn walk_position(&self) -> Vec<usize> {
        let mut position = self.parent.as_ref().map_or_else(Vec::new, |parent| parent.walk_position());
        position.push(self.position);
        position
    }

    /// Adds the state of `path`, which is in this directory. Adds the path itself if it is
    /// reported.
    pub(super) fn add(&self, state: State, path: &BStr, entry: bool, ignored: Ignored) {
        let mut gathered = self.gathered();
        gathered.state = gathered.state.max(Some(state));
        if let Some(settled) = &self.settled {
            let enough = if self.descent.ignore_state == IgnoreState::Ignored {
                State::Ignored
            } else {
                State::Untracked
            };
            if state >= enough {
                settled.store(true, Ordering::Relaxed);
            }
            return;
        }
        match state {
            State::Untracked if ignored != Ignored::Only => gathered.untracked.push(path.to_owned()),
            State::Ignored if ignored == Ignored::Only => gathered.ignored.push(path.to_owned()),
            State::Ignored if ignored.is_too() && !entry => gathered.ignored.push(path.to_owned()),
            _ => {}
        }
    }
}

impl Walk<'_> {
    /// Reads a directory, or its record in the cache, and adds a job for each subdirectory to read.
    pub(super) fn look(
        &self,
        worker: &mut Worker<'_>,
        job: Job,
        jobs: &mut Vec<Job>,
        reporter: &mut dyn StepReporter,
    ) {
        let is_settled = job.node.settled.as_ref().is_some_and(|settled| settled.load(Ordering::Relaxed));
        if !is_settled
            && !self.interrupt.load(Ordering::Relaxed)
            && let LookUp::Listing(entry) = self.look_up(worker.thread_cwd.as_mut(), &job, jobs, reporter)
        {
            return self.finish_job(self.look_into(worker, job, entry, jobs, reporter));
        }
        self.finish_job(job.node);
    }

    /// Lists a directory and classifies its names. Returns the node of the job.
    fn look_into(
        &self,
        worker: &mut Worker<'_>,
        job: Job,
        entry: Option<Box<recorded::Entry>>,
        jobs: &mut Vec<Job>,
        reporter: &mut dyn StepReporter,
    ) -> Arc<Node> {
        let Job { node, from, lazy_rules: above, .. } = job;
        let Some(dir) = self.list(worker, &node, &from, entry.as_deref(), reporter) else { return node };
        self.directories_read.fetch_add(1, Ordering::Relaxed);
        if let Some(meter) = self.meter {
            meter.add(1);
        }
        self.names_judged.fetch_add(worker.entries.len(), Ordering::Relaxed);
        let is_there = match &self.excludes.inside {
            Some(name) if name.contains(&b'/') => IgnoreFile::Unknown,
            Some(name) if worker.has(name) => IgnoreFile::There,
            _ => IgnoreFile::Missing,
        };
        let handle = from.next(&dir, node.path.len());
        let rules = DirectoryRules::new(self, &node, &dir, &handle, is_there, above);
        if let Some(entry) = &entry {
            self.count_listed(entry);
            if entry.needs_rules() {
                rules.get();
            }
        }
        let first = jobs.len();
        self.classify_names(worker, &node, &rules, &handle, entry, jobs);
        // The last job in the list is done first, so the order is reversed.
        jobs[first..].reverse();
        if let Some(observer) = self.observer {
            let Worker { names, entries, files, others, .. } = worker;
            let listed = Listed { names, entries, files, others };
            observer.directory(&dir, node.path.len(), &listed, &node.descent.within, reporter);
        }
        node
    }

    /// Lists a directory. Returns `None` if it cannot be read, which causes a warning, or if it is
    /// the worktree of another repository, whose state is then set.
    fn list(
        &self,
        worker: &mut Worker<'_>,
        node: &Node,
        from: &Handle,
        entry: Option<&recorded::Entry>,
        reporter: &mut dyn StepReporter,
    ) -> Option<sys::Dir> {
        let path = node.path.as_bstr();
        let opened = worker.read(from.dir(), from.rest(path.strip_suffix(b"/").unwrap_or_default()));
        reporter.step();
        let nested = || node.descent.nested.filter(|_| self.is_nested(path));
        let dir = match opened {
            Ok(dir) => dir,
            Err(source) => {
                if let Some(state) = nested() {
                    node.gathered().nested = Some(state);
                    return None;
                }
                if let Some(entry) = entry {
                    self.count_listed(entry);
                }
                let path = if path.is_empty() { ".".into() } else { path.to_owned() };
                self.warn(node.walk_position(), Warning::Directory { path, source });
                return None;
            }
        };
        if worker.has(b".git")
            && let Some(state) = nested()
        {
            node.gathered().nested = Some(state);
            if let Some(recorded) = &self.recorded {
                recorded.remove_directory(path);
            }
            return None;
        }
        Some(dir)
    }

    /// Classifies the names of a listed directory in index order, adds a job for each subdirectory
    /// to read, and records the directory.
    fn classify_names(
        &self,
        worker: &mut Worker<'_>,
        node: &Arc<Node>,
        rules: &DirectoryRules<'_>,
        handle: &Arc<Handle>,
        mut entry: Option<Box<recorded::Entry>>,
        jobs: &mut Vec<Job>,
    ) {
        let path = node.path.as_bstr();
        let mut compared = false;
        let mut compare = |entry: &mut recorded::Entry| {
            if compared {
                return;
            }
            let Some(content) = rules.content() else { return };
            compared = true;
            let file: BString = [path.as_bytes(), b".gitignore"].concat().into();
            if !entry.ignore_file(self.index, file.as_bstr(), content) {
                self.count_rules_changed();
            }
        };
        let (known, are_unread) = (|| rules.known(), || rules.are_unread());
        let parent = ParentDirectory { rules: &known, are_unread: &are_unread, within: &node.descent.within };
        let Worker { names, entries, files, others, .. } = worker;
        entries.sort_unstable_by(|one, other| {
            let rest = || one.indexed(names).cmp(other.indexed(names));
            one.key.cmp(&other.key).then_with(rest)
        });
        files.clear();
        others.clear();
        let mut merge = self.tracked.merge(&node.descent.within, path, others);
        let longest = entries.iter().map(|name| name.range.len()).max().unwrap_or(0);
        let mut child = BString::from(Vec::with_capacity(path.len() + longest + 1));
        child.extend_from_slice(path);
        for name in entries.iter() {
            let known = match merge.next_name(name.indexed(names)) {
                MergedName::File(at) => {
                    files.push((name.ino, at));
                    continue;
                }
                MergedName::Other(known) => Some(known),
                MergedName::Unclear => None,
            };
            child.truncate(path.len());
            child.extend_from_slice(&names[name.range.clone()]);
            match self.classify(&mut child, name.file_type, &parent, known) {
                Classification::Known(State::Nothing, _) => {}
                Classification::Known(state, is_entry) => {
                    node.add(state, child.as_bstr(), is_entry, self.options.ignored);
                    if let (State::Untracked, Some(entry)) = (state, &mut entry) {
                        entry.untracked(&child[path.len()..]);
                    }
                }
                Classification::Descend(descent) => {
                    node.expect();
                    let known = match &mut entry {
                        Some(entry) => {
                            compare(entry);
                            entry.directory(&names[name.range.clone()])
                        }
                        None => RecordState::Unused,
                    };
                    let lazy_rules = match descent.ignore_state {
                        IgnoreState::Unknown => rules.unread(),
                        IgnoreState::NotIgnored | IgnoreState::Ignored => {
                            LazyRules::Known(rules.level().clone())
                        }
                    };
                    let below = Node::below(node, child.clone(), name.position, descent, self);
                    let from = Arc::clone(handle);
                    jobs.push(Job { node: below, from, lazy_rules, known });
                }
            }
        }
        merge.end();
        rules.share();
        if let Some(mut entry) = entry {
            compare(&mut entry);
            self.record(node, *entry);
        }
    }

    /// Ends a job of `node`. The last job of a directory passes its state and content to the
    /// parent, and so on upwards.
    fn finish_job(&self, mut node: Arc<Node>) {
        while node.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let Some(parent) = node.parent.clone() else { return };
            let mut gathered = std::mem::take(&mut *node.gathered());
            let found = gathered.state.unwrap_or(State::Nothing);
            let (counted, told) = match (gathered.nested, node.descent.purpose) {
                (Some(state), _) => (state, state),
                (None, ReadPurpose::Report) => (found.max(State::Entered), State::Entered),
                (None, ReadPurpose::Classify) => {
                    let state = self.settle(&node.descent, found, &mut gathered);
                    (state, state)
                }
            };
            if let (State::Untracked, Some(recorded)) = (told, &self.recorded) {
                recorded.add_name(node.path.as_bstr());
            }
            {
                let mut above = parent.gathered();
                above.state = above.state.max(Some(counted));
                above.untracked.append(&mut gathered.untracked);
                above.ignored.append(&mut gathered.ignored);
            }
            parent.add(told, node.path.as_bstr(), node.descent.entry, self.options.ignored);
            node = parent;
        }
    }

    /// Returns the state of an untracked directory, given the greatest state in it. Drops the
    /// content that is not reported.
    fn settle(&self, descent: &Descent, found: State, gathered: &mut Gathered) -> State {
        let Walk { options, .. } = self;
        let mut state = found;
        if state == State::Ignored {
            if options.ignored.is_matching() {
                state = State::Nothing
            } else {
                gathered.ignored.retain(|_| options.ignored == Ignored::Only)
            }
        }
        if options.ignored.is_too() && !options.ignored.keeps_contents() {
            gathered.untracked.clear();
        }
        match state {
            State::Nothing if options.directories == Directories::Whole => match descent.ignore_state {
                IgnoreState::Ignored => State::Ignored,
                IgnoreState::NotIgnored | IgnoreState::Unknown => State::Untracked,
            },
            state => state,
        }
    }
}
