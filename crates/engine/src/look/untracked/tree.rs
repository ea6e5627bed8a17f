//! The directories of a walk: each one a job, ended when the last one in it has ended.

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
    judge::{Judged, Place},
    recorded::{self, Known, Looked},
    rules::{IgnoreFile, Ladder, Own},
    tracked::Met,
};
use crate::{crew::Pace, look::handle::Handle};

/// What a path turned out to be; of what is in a directory the greatest counts. Git's `path_treatment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Nothing to tell of.
    Nothing,
    /// A directory that is told of by what is in it.
    Entered,
    Ignored,
    Untracked,
}

/// How a directory is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// For what is in it.
    Enter,
    /// To tell what it is itself.
    Judge,
}

/// Whether a directory matches an ignore rule, itself or with one above it: so does everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Ignored,
    /// The rules that would tell are not read yet, and it has to be looked into in any case, for what is tracked.
    Unasked,
}

/// A directory to be looked into.
#[derive(Debug)]
pub(super) struct Descent {
    pub(super) manner: Manner,
    pub(super) fate: Fate,
    /// What it is if it is the worktree of another repository; `None` if that makes no difference.
    pub(super) nested: Option<State>,
    /// The entries in it.
    pub(super) within: Range<usize>,
    /// It is an entry of the index: a directory in a file's place.
    pub(super) entry: bool,
}

/// A directory.
pub(super) struct Node {
    parent: Option<Arc<Node>>,
    /// Its number in its parent's listing.
    place: usize,
    /// With a slash at the end; empty for the root.
    path: BString,
    descent: Descent,
    /// Only what it is is asked, not what is in it; `true` once that is known.
    settled: Option<Arc<AtomicBool>>,
    /// Directories in it that have not ended, and itself.
    pending: AtomicUsize,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    state: Option<State>,
    /// It is the worktree of another repository, and so this, whatever is in it.
    nested: Option<State>,
    untracked: Vec<BString>,
    ignored: Vec<BString>,
}

/// A directory to be looked into, and how it is reached.
pub(super) struct Job {
    pub(super) node: Arc<Node>,
    pub(super) from: Arc<Handle>,
    pub(super) ladder: Ladder,
    pub(super) known: Known,
}

/// What a thread keeps from one directory to the next.
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

    /// Lists a directory, `path` beneath `dir` or itself.
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
                place: entries.len(),
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
    /// Where it is; a directory's is followed by a slash.
    range: Range<usize>,
    file_type: FileType,
    ino: u64,
    /// In the order of the listing.
    place: usize,
}

impl Name {
    /// As it begins in the index: a directory's with its slash.
    fn indexed<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        &names[self.range.start..self.range.end + usize::from(self.file_type == FileType::Directory)]
    }
}

/// The first bytes of a name, in the order of names: most are told apart by these alone.
fn key(name: &[u8]) -> u64 {
    let mut first = [0; 8];
    let known = name.len().min(first.len());
    first[..known].copy_from_slice(&name[..known]);
    u64::from_be_bytes(first)
}

/// The names in a directory, in the order of the index.
pub(crate) struct Listed<'l> {
    names: &'l [u8],
    entries: &'l [Name],
    /// The entries of the index that files have: inode number and position of the first of each, in their order.
    pub(crate) files: &'l [(u64, usize)],
    /// The entries that neither a file has, nor what is in a directory.
    pub(crate) others: &'l [Range<usize>],
}

impl Listed<'_> {
    /// The type and inode number of what has this name.
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
    /// Above the root: it holds what is found in the end.
    pub(super) fn top() -> Arc<Node> {
        let descent =
            Descent { manner: Manner::Enter, fate: Fate::Kept, nested: None, within: 0..0, entry: false };
        Arc::new(Node {
            parent: None,
            place: 0,
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
        place: usize,
        descent: Descent,
        walk: &Walk<'_>,
    ) -> Arc<Node> {
        let asks = walk.options.directories == Directories::WholeUnlessEmpty
            && !walk.options.ignored.is_too()
            && descent.manner == Manner::Judge;
        let settled = parent.settled.clone().or_else(|| asks.then(Arc::default));
        Arc::new(Node {
            parent: Some(Arc::clone(parent)),
            place,
            path,
            descent,
            settled,
            pending: AtomicUsize::new(1),
            gathered: Mutex::default(),
        })
    }

    /// There is one more directory in it to be looked into.
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

    /// What was found, at the very end.
    pub(super) fn take(&self) -> (Vec<BString>, Vec<BString>) {
        let gathered = std::mem::take(&mut *self.gathered());
        (gathered.untracked, gathered.ignored)
    }

    /// Where in a walk of one thread this would be come across.
    pub(super) fn way(&self) -> Vec<usize> {
        let mut way = self.parent.as_ref().map_or_else(Vec::new, |parent| parent.way());
        way.push(self.place);
        way
    }

    /// Counts what `path` in this directory is, and keeps the path if it is to be told of.
    pub(super) fn add(&self, state: State, path: &BStr, entry: bool, ignored: Ignored) {
        let mut gathered = self.gathered();
        gathered.state = gathered.state.max(Some(state));
        if let Some(settled) = &self.settled {
            let enough = if self.descent.fate == Fate::Ignored { State::Ignored } else { State::Untracked };
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
    /// Looks into a directory: lists it, judges what is in it, brings a job for each directory to be looked into.
    pub(super) fn look(&self, worker: &mut Worker<'_>, job: Job, jobs: &mut Vec<Job>, pace: &mut dyn Pace) {
        let Job { node, from, ladder, known } = job;
        let is_settled = node.settled.as_ref().is_some_and(|settled| settled.load(Ordering::Relaxed));
        if !is_settled
            && !self.interrupt.load(Ordering::Relaxed)
            && let Looked::Listing(entry) =
                self.look_up(worker.thread_cwd.as_mut(), &node, (&from, &ladder, known), jobs, pace)
        {
            self.look_into(worker, &node, (&from, ladder, entry), jobs, pace);
        }
        self.leave(node);
    }

    fn look_into(
        &self,
        worker: &mut Worker<'_>,
        node: &Arc<Node>,
        (from, above, mut entry): (&Arc<Handle>, Ladder, Option<Box<recorded::Entry>>),
        jobs: &mut Vec<Job>,
        pace: &mut dyn Pace,
    ) {
        let path = node.path.as_bstr();
        let opened = worker.read(from.dir(), from.rest(path.strip_suffix(b"/").unwrap_or_default()));
        pace.step();
        let nested = || node.descent.nested.filter(|_| self.is_nested(path));
        let dir = match opened {
            Ok(dir) => dir,
            Err(source) => {
                if let Some(state) = nested() {
                    node.gathered().nested = Some(state);
                    return;
                }
                if let Some(entry) = &entry {
                    self.count_listed(entry);
                }
                let path = if path.is_empty() { ".".into() } else { path.to_owned() };
                self.warn(node.way(), Warning::Directory { path, source });
                return;
            }
        };
        if worker.has(b".git")
            && let Some(state) = nested()
        {
            node.gathered().nested = Some(state);
            if let Some(recorded) = &self.recorded {
                recorded.is_one(path);
            }
            return;
        }
        self.directories_read.fetch_add(1, Ordering::Relaxed);
        self.names_judged.fetch_add(worker.entries.len(), Ordering::Relaxed);
        let is_there = match &self.excludes.inside {
            Some(name) if name.contains(&b'/') => IgnoreFile::Unknown,
            Some(name) if worker.has(name) => IgnoreFile::There,
            _ => IgnoreFile::Missing,
        };
        let handle = from.next(&dir, path.len());
        let rules = Own::new(self, node, (&dir, &handle), is_there, above);
        if let Some(entry) = &entry {
            self.count_listed(entry);
            if entry.needs_rules() {
                rules.get();
            }
        }
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
        let place = Place { rules: &known, are_unread: &are_unread, within: &node.descent.within };
        let Worker { names, entries, files, others, .. } = worker;
        entries.sort_unstable_by(|one, other| {
            let rest = || one.indexed(names).cmp(other.indexed(names));
            one.key.cmp(&other.key).then_with(rest)
        });
        files.clear();
        others.clear();
        let mut along = self.tracked.along(&node.descent.within, path, others);
        let longest = entries.iter().map(|name| name.range.len()).max().unwrap_or(0);
        let mut child = BString::from(Vec::with_capacity(path.len() + longest + 1));
        child.extend_from_slice(path);
        let first = jobs.len();
        for name in entries.iter() {
            let known = match along.meet(name.indexed(names)) {
                Met::File(at) => {
                    files.push((name.ino, at));
                    continue;
                }
                Met::Other(known) => Some(known),
                Met::Unclear => None,
            };
            child.truncate(path.len());
            child.extend_from_slice(&names[name.range.clone()]);
            match self.judge(&mut child, name.file_type, &place, known) {
                Judged::Is(State::Nothing, _) => {}
                Judged::Is(state, is_entry) => {
                    node.add(state, child.as_bstr(), is_entry, self.options.ignored);
                    if let (State::Untracked, Some(entry)) = (state, &mut entry) {
                        entry.untracked(&child[path.len()..]);
                    }
                }
                Judged::Descend(descent) => {
                    node.expect();
                    let known = match &mut entry {
                        Some(entry) => {
                            compare(entry);
                            entry.directory(&names[name.range.clone()])
                        }
                        None => Known::Unused,
                    };
                    let ladder = match descent.fate {
                        Fate::Unasked => rules.unread(),
                        Fate::Kept | Fate::Ignored => Ladder::Known(rules.level().clone()),
                    };
                    let below = Node::below(node, child.clone(), name.place, descent, self);
                    let from = Arc::clone(&handle);
                    jobs.push(Job { node: below, from, ladder, known });
                }
            }
        }
        along.end();
        rules.share();
        if let Some(mut entry) = entry {
            compare(&mut entry);
            self.record(node, *entry);
        }
        // The first of them is the next to be done.
        jobs[first..].reverse();
        if let Some(beside) = self.beside {
            let listed = Listed { names, entries, files, others };
            beside.directory(&dir, path.len(), &listed, &node.descent.within, pace);
        }
    }

    /// A job of `node` is done: whoever does the last one tells the parent what the directory is, and so on upwards.
    fn leave(&self, mut node: Arc<Node>) {
        while node.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let Some(parent) = node.parent.clone() else { return };
            let mut gathered = std::mem::take(&mut *node.gathered());
            let found = gathered.state.unwrap_or(State::Nothing);
            let (counted, told) = match (gathered.nested, node.descent.manner) {
                (Some(state), _) => (state, state),
                (None, Manner::Enter) => (found.max(State::Entered), State::Entered),
                (None, Manner::Judge) => {
                    let state = self.settle(&node.descent, found, &mut gathered);
                    (state, state)
                }
            };
            if let (State::Untracked, Some(recorded)) = (told, &self.recorded) {
                recorded.is_told(node.path.as_bstr());
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

    /// What an untracked directory is, by the greatest state of what is in it; and what of that is told.
    fn settle(&self, descent: &Descent, found: State, gathered: &mut Gathered) -> State {
        let Walk { options, .. } = self;
        let mut state = found;
        if state == State::Ignored {
            match options.ignored.is_matching() {
                true => state = State::Nothing,
                false => gathered.ignored.retain(|_| options.ignored == Ignored::Only),
            }
        }
        if options.ignored.is_too() && !options.ignored.keeps_contents() {
            gathered.untracked.clear();
        }
        match state {
            State::Nothing if options.directories == Directories::Whole => match descent.fate {
                Fate::Ignored => State::Ignored,
                Fate::Kept | Fate::Unasked => State::Untracked,
            },
            state => state,
        }
    }
}
