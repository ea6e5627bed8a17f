//! Examines tracked files: selects the entries of the index, and finds the state of their files.
//!
//! The entries of a directory are examined together, relative to the directory's handle.
//! Directories are the jobs of a crew of tuned size. If the disk turns out to be slow, directories
//! are listed first: a network file system then sends the attributes with the names, and the files
//! of a local disk are examined in the order of their inode numbers, which is roughly their order
//! on the disk. A local disk with cold caches is swept instead ([`sweep`]).
//!
//! Notes are stored only for entries that differ from the index, so a clean tree costs no memory.

mod directory;
mod selection;
pub(crate) mod sweep;
mod walk;

use std::{
    io,
    ops::Range,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, ByteSlice as _};
use format::index::{Entry, Flags, Index, MonitorAnswer, Stage};
use repo::{Repository, keys};
use sys::{Dir, ProcessCwd, Stat};

use self::directory::{Job, JobEntries, ScanWorker};
use super::scan::selection::Selection;
use crate::{
    crew::{self, Meter, Tuning, Workers},
    look::{
        pathspec::{Pathspecs, Seen},
        stat::{Match, StatRules},
        untracked::Observer as _,
    },
};

/// The state of an entry's path.
#[derive(Debug)]
pub(crate) enum PathState {
    /// The path does not exist, or a component of it is not a directory.
    Missing,
    There(Stat),
    /// The path leads through symbolic links to a file with this stat, so the file is not part of
    /// the worktree.
    Behind(Stat),
    Unreadable(io::Error),
}

impl PathState {
    fn of(found: io::Result<Option<Stat>>) -> PathState {
        match found {
            Ok(Some(stat)) => PathState::There(stat),
            Ok(None) => PathState::Missing,
            Err(error) => PathState::Unreadable(error),
        }
    }
}

/// An entry whose file differs, or for which stat data are not sufficient: submodules and unmerged
/// paths.
#[derive(Debug)]
pub(crate) struct Note {
    /// The position of the entry.
    pub(crate) at: usize,
    pub(crate) state: PathState,
    pub(crate) verdict: Match,
}

/// Returns the number of workers that examine files: one if `core.preloadIndex` is off.
pub fn workers(repo: &Repository) -> Result<Workers, repo::Error> {
    Ok(match repo.config(&keys::core::PRELOAD_INDEX)? {
        Some(false) => Workers::Fixed(1),
        Some(true) | None => Workers::Auto,
    })
}

pub(crate) struct Scan<'a> {
    pub(crate) root: &'a Dir,
    pub(crate) index: &'a Index,
    rules: StatRules,
    pub(crate) tuning: &'a Tuning,
    selection: Selection,
    visited: Vec<AtomicBool>,
    notes: Mutex<Vec<Note>>,
    /// Files of directories that were listed on a slow disk. All workers examine them after the
    /// listings.
    rest: Mutex<Vec<Job>>,
    /// The working directory of the process, if its threads can have their own.
    process_cwd: OnceLock<Option<ProcessCwd<'a>>>,
    pub(crate) interrupt: &'a AtomicBool,
    meter: Option<&'a Meter>,
}

/// The parameters of a scan, except for the selection of entries.
#[derive(Clone, Copy)]
pub(crate) struct ScanTarget<'a> {
    /// The root of the worktree.
    pub(crate) root: &'a Dir,
    pub(crate) index: &'a Index,
    pub(crate) rules: StatRules,
    pub(crate) tuning: &'a Tuning,
    /// Raised to end the scan early.
    pub(crate) interrupt: &'a AtomicBool,
    /// Counts the entries that are decided by stat data. The files of the others are read later.
    pub(crate) meter: Option<&'a Meter>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(target: ScanTarget<'a>, pathspecs: &Pathspecs) -> Scan<'a> {
        let index = target.index;
        if pathspecs.is_empty() && index.is_plain() {
            return match index.monitor_answer() {
                MonitorAnswer::NotAsked => Scan::all(target),
                _ => {
                    let selected = Selection::of((0..index.len()).map(|at| !index.is_fsmonitor_valid_at(at)));
                    Scan::after(target, selected)
                }
            };
        }
        let mut seen = Seen::default();
        let selects = |entry: &Entry| {
            !is_trusted(index, entry)
                && (pathspecs.is_empty() || pathspecs.matches_entry(index.path(entry), entry.mode, &mut seen))
        };
        Scan::within(target, &pathspecs.ranges(index), selects)
    }

    /// Selects the entries for which `selects` is true. An unmerged path is examined once.
    pub(crate) fn of(target: ScanTarget<'a>, selects: impl FnMut(&Entry) -> bool) -> Scan<'a> {
        let all = 0..target.index.len();
        Scan::within(target, &[all], selects)
    }

    /// Like [`Scan::of`], for the entries in these ranges, which are in ascending order and
    /// disjoint. `selects` is not called for other entries, and they are not selected.
    fn within(
        target: ScanTarget<'a>,
        ranges: &[Range<usize>],
        mut selects: impl FnMut(&Entry) -> bool,
    ) -> Scan<'a> {
        let index = target.index;
        let mut last = BStr::new("");
        let mut is_selected = |entry: Entry| {
            let is_first = entry.stage == Stage::Normal || {
                let path = index.path(&entry);
                std::mem::replace(&mut last, path) != path
            };
            is_first && selects(&entry)
        };
        let mut ranges = ranges.iter().peekable();
        let selected = (0..index.len()).map(|at| {
            while ranges.next_if(|range| range.end <= at).is_some() {}
            ranges.peek().is_some_and(|range| range.contains(&at)) && is_selected(index.entry(at))
        });
        Scan::after(target, Selection::of(selected))
    }

    /// Selects the entries at these positions, which are in ascending order.
    pub(crate) fn at(target: ScanTarget<'a>, positions: &[usize]) -> Scan<'a> {
        let mut positions = positions.iter().peekable();
        let is_selected = (0..target.index.len()).map(|at| positions.next_if_eq(&&at).is_some());
        Scan::after(target, Selection::of(is_selected))
    }

    /// Selects every entry.
    pub(crate) fn all(target: ScanTarget<'a>) -> Scan<'a> {
        Scan::after(target, Selection::All(target.index.len()))
    }

    fn after(target: ScanTarget<'a>, selection: Selection) -> Scan<'a> {
        let ScanTarget { root, index, rules, tuning, interrupt, meter } = target;
        let visited = (0..index.len()).map(|_| AtomicBool::new(false)).collect();
        Scan {
            root,
            index,
            rules,
            tuning,
            selection,
            visited,
            notes: Mutex::default(),
            rest: Mutex::default(),
            process_cwd: OnceLock::new(),
            interrupt,
            meter,
        }
    }

    /// Returns true if the entry at `at` is selected.
    fn is_selected(&self, at: usize) -> bool {
        self.selection.any(&(at..at + 1))
    }

    /// Returns the positions of the selected entries.
    pub(crate) fn selected(&self) -> impl Iterator<Item = usize> + use<> {
        let selection = self.selection.clone();
        (0..self.visited.len()).filter(move |&at| selection.any(&(at..at + 1)))
    }

    fn any(&self, entries: &Range<usize>) -> bool {
        self.selection.any(entries)
    }

    /// Returns the position of the selected entry that has `number` selected entries before it, if
    /// there is one.
    pub(crate) fn nth(&self, number: usize) -> usize {
        self.selection.nth(number)
    }

    /// Returns true if the entry is selected and not examined yet.
    pub(crate) fn is_unexamined(&self, at: usize) -> bool {
        self.is_selected(at) && !self.visited[at].load(Ordering::Relaxed)
    }

    /// Examines all selected entries that are not examined yet.
    pub(crate) fn run(&mut self, workers: Workers) {
        self.sweep_if_cold(workers);
        let rest = std::mem::take(self.rest.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !rest.is_empty() {
            self.work_through(rest, 0, workers);
        }
        let all = 0..self.index.len();
        // Narrows the selection to the remaining entries. The full selection is restored below.
        let some_seen = self.visited.iter().any(|visited| visited.load(Ordering::Relaxed));
        let whole = some_seen.then(|| {
            let left = Selection::of(all.clone().map(|at| self.is_unexamined(at)));
            std::mem::replace(&mut self.selection, left)
        });
        let ahead = self.selection.before(all.end);
        if ahead > 0 {
            self.work_through(vec![Job { entries: JobEntries::All(all), prefix: 0 }], ahead, workers);
        }
        if let Some(whole) = whole {
            self.selection = whole;
        }
    }

    fn work_through(&self, jobs: Vec<Job>, ahead: usize, workers: Workers) {
        let start = |_| ScanWorker {
            listing: sys::Listing::default(),
            found: Vec::new(),
            thread_cwd: self.thread_cwd(),
        };
        crew::descend("scan", self.tuning, workers, ahead, jobs, start, |worker, job, jobs, pace| {
            self.look(worker, job, jobs, pace)
        });
    }

    /// Returns the notes in the order of the index.
    pub(crate) fn into_notes(self) -> Vec<Note> {
        let mut notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        notes.sort_unstable_by_key(|note| note.at);
        notes
    }

    /// Calls `visit` for each selected file and subdirectory of a directory.
    pub(crate) fn split(&self, entries: &Range<usize>, prefix: usize, mut visit: impl FnMut(Part)) {
        let mut at = self.next_asked(entries);
        while at < entries.end {
            let slash = if self.index.directory_at(at) == prefix {
                None
            } else {
                self.index.path_at(at)[prefix..].find_byte(b'/')
            };
            at = match slash {
                None => {
                    visit(Part::File(at));
                    at + 1
                }
                Some(slash) => {
                    let length = prefix + slash + 1;
                    let end = self.index.end_of_prefix(at, length, entries.end);
                    visit(Part::Directory(at..end, length));
                    end
                }
            };
            at = self.next_asked(&(at..entries.end));
        }
    }

    /// Returns the position of the first selected entry in the range, or the range's end if there
    /// is none.
    fn next_asked(&self, entries: &Range<usize>) -> usize {
        if entries.is_empty() || self.is_selected(entries.start) {
            entries.start
        } else {
            self.selection.next(entries)
        }
    }
}

/// A file or subdirectory of a directory.
pub(crate) enum Part {
    File(usize),
    /// The entries, and the length of the directory's path with its slash.
    Directory(Range<usize>, usize),
}

/// Returns true if the entry's file is not examined: the entry is assumed unchanged, is skipped,
/// was already found up to date, or the monitor vouches for it. The up-to-date flag does not cover
/// the content of a submodule.
fn is_trusted(index: &Index, entry: &Entry) -> bool {
    entry.mode.is_tree()
        || entry.stage == Stage::Normal
            && (entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
                || entry.flags.contains(Flags::UPTODATE) && !entry.mode.is_gitlink()
                || index.is_fsmonitor_valid(entry))
}
