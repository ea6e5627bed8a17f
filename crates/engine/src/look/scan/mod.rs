//! Tracked files: which entries of the index are to be looked at, and what is there.
//!
//! A directory's entries are asked for together, relative to its handle; directories are jobs of a crew that finds its size. Where it
//! turns out that the disk is slow, directories are listed before: a network file system then sends the attributes with the names, and
//! of a local disk the files are asked for by the inode numbers in the index, as they lie there. A local disk whose caches are known to be
//! cold is swept instead ([`super::sweep`]).
//!
//! Only what is not as recorded is kept, so a clean tree costs no memory.

mod asked;
mod beside;
mod look;
pub(crate) mod sweep;

use std::{
    io,
    ops::Range,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stage, Word};
use repo::Repository;
use sys::{Dir, ProcessCwd, Stat};

use self::look::{Job, Looker, What};
use super::scan::asked::Asked;
use crate::{
    crew::{self, Tuning, Workers},
    look::{
        pathspec::{Pathspecs, Seen},
        stat::{Match, StatRules},
        untracked::Beside as _,
    },
};

/// What is at an entry's path.
#[derive(Debug)]
pub(crate) enum Sight {
    /// Nothing, or something on the way there that is no directory.
    Missing,
    There(Stat),
    /// Nothing of the worktree's: links on the way lead to this.
    Behind(Stat),
    Unreadable(io::Error),
}

impl Sight {
    fn of(found: io::Result<Option<Stat>>) -> Sight {
        match found {
            Ok(Some(stat)) => Sight::There(stat),
            Ok(None) => Sight::Missing,
            Err(error) => Sight::Unreadable(error),
        }
    }
}

/// An entry that is not simply as recorded, or whose stat cannot tell: submodules, what is unmerged.
#[derive(Debug)]
pub(crate) struct Note {
    /// Its position.
    pub(crate) at: usize,
    pub(crate) sight: Sight,
    pub(crate) verdict: Match,
}

/// How many may look at files: one without `core.preloadIndex`.
pub fn workers(repo: &Repository) -> Result<Workers, repo::Error> {
    Ok(match repo.config_bool("core.preloadIndex")? {
        Some(false) => Workers::Fixed(1),
        Some(true) | None => Workers::Auto,
    })
}

pub(crate) struct Scan<'a> {
    pub(crate) root: &'a Dir,
    pub(crate) index: &'a Index,
    rules: StatRules,
    pub(crate) tuning: &'a Tuning,
    asked: Asked,
    visited: Vec<AtomicBool>,
    notes: Mutex<Vec<Note>>,
    /// Files of directories that were listed on a slow disk, for many to ask for when all are listed.
    rest: Mutex<Vec<Job>>,
    /// Where the process stands, if its threads may go elsewhere.
    process_cwd: OnceLock<Option<ProcessCwd<'a>>>,
    pub(crate) interrupt: &'a AtomicBool,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        root: &'a Dir,
        index: &'a Index,
        (rules, tuning): (StatRules, &'a Tuning),
        pathspecs: &Pathspecs,
        interrupt: &'a AtomicBool,
    ) -> Scan<'a> {
        if pathspecs.is_empty() && index.is_plain() {
            return match index.word() {
                Word::NotAsked => Scan::all(root, index, (rules, tuning), interrupt),
                _ => {
                    let asked = Asked::of((0..index.len()).map(|at| !index.is_vouched_for_at(at)));
                    Scan::after(root, index, (rules, tuning), asked, interrupt)
                }
            };
        }
        let mut seen = Seen::default();
        let is_looked_at = |entry: &Entry| {
            !is_taken_as_it_is(index, entry)
                && (pathspecs.is_empty() || pathspecs.matches_entry(index.path(entry), entry.mode, &mut seen))
        };
        Scan::of(root, index, (rules, tuning), is_looked_at, interrupt)
    }

    /// Only of entries of which `is_looked_at` is true; an unmerged path is looked at once.
    pub(crate) fn of(
        root: &'a Dir,
        index: &'a Index,
        (rules, tuning): (StatRules, &'a Tuning),
        mut is_looked_at: impl FnMut(&Entry) -> bool,
        interrupt: &'a AtomicBool,
    ) -> Scan<'a> {
        let mut last = BStr::new("");
        let is_asked = |entry: Entry| {
            let is_first = entry.stage == Stage::Normal || {
                let path = index.path(&entry);
                std::mem::replace(&mut last, path) != path
            };
            is_first && is_looked_at(&entry)
        };
        let asked = Asked::of(index.entries_in(0..index.len()).map(is_asked));
        Scan::after(root, index, (rules, tuning), asked, interrupt)
    }

    /// Only of the entries at these positions, in order.
    pub(crate) fn at(
        root: &'a Dir,
        index: &'a Index,
        how: (StatRules, &'a Tuning),
        positions: &[usize],
        interrupt: &'a AtomicBool,
    ) -> Scan<'a> {
        let mut positions = positions.iter().peekable();
        let is_asked = (0..index.len()).map(|at| positions.next_if_eq(&&at).is_some());
        Scan::after(root, index, how, Asked::of(is_asked), interrupt)
    }

    /// Of every entry.
    pub(crate) fn all(
        root: &'a Dir,
        index: &'a Index,
        how: (StatRules, &'a Tuning),
        interrupt: &'a AtomicBool,
    ) -> Scan<'a> {
        Scan::after(root, index, how, Asked::All(index.len()), interrupt)
    }

    fn after(
        root: &'a Dir,
        index: &'a Index,
        (rules, tuning): (StatRules, &'a Tuning),
        asked: Asked,
        interrupt: &'a AtomicBool,
    ) -> Scan<'a> {
        let visited = (0..index.len()).map(|_| AtomicBool::new(false)).collect();
        Scan {
            root,
            index,
            rules,
            tuning,
            asked,
            visited,
            notes: Mutex::default(),
            rest: Mutex::default(),
            process_cwd: OnceLock::new(),
            interrupt,
        }
    }

    /// Whether the entry at `at` is to be looked at.
    fn is_asked(&self, at: usize) -> bool {
        self.asked.any(&(at..at + 1))
    }

    /// The entries that were to be looked at.
    pub(crate) fn asked(&self) -> impl Iterator<Item = usize> + use<> {
        let asked = self.asked.clone();
        (0..self.visited.len()).filter(move |&at| asked.any(&(at..at + 1)))
    }

    fn any(&self, entries: &Range<usize>) -> bool {
        self.asked.any(entries)
    }

    /// The entry before which `number` are to be looked at, if there are more.
    pub(crate) fn nth(&self, number: usize) -> usize {
        self.asked.nth(number)
    }

    /// Which is to be looked at, and has not been.
    pub(crate) fn is_left(&self, at: usize) -> bool {
        self.is_asked(at) && !self.visited[at].load(Ordering::Relaxed)
    }

    /// Looks at all that has not been looked at yet.
    pub(crate) fn run(&mut self, workers: Workers) {
        self.sweep_if_cold(workers);
        let rest = std::mem::take(self.rest.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !rest.is_empty() {
            self.work_through(rest, 0, workers);
        }
        let all = 0..self.index.len();
        // What has been seen is not asked any more, and what was asked altogether is still to be known afterwards.
        let some_seen = self.visited.iter().any(|visited| visited.load(Ordering::Relaxed));
        let asked = some_seen.then(|| {
            let left = Asked::of(all.clone().map(|at| self.is_left(at)));
            std::mem::replace(&mut self.asked, left)
        });
        let ahead = self.asked.before(all.end);
        if ahead > 0 {
            self.work_through(vec![Job { what: What::All(all), prefix: 0 }], ahead, workers);
        }
        if let Some(asked) = asked {
            self.asked = asked;
        }
    }

    fn work_through(&self, jobs: Vec<Job>, ahead: usize, workers: Workers) {
        let start =
            |_| Looker { listing: sys::Listing::default(), found: Vec::new(), thread_cwd: self.thread_cwd() };
        crew::descend(("scan", self.tuning), workers, ahead, jobs, start, |looker, job, jobs, pace| {
            self.look(looker, job, jobs, pace)
        });
    }

    /// What was found, in the order of the index.
    pub(crate) fn into_notes(self) -> Vec<Note> {
        let mut notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        notes.sort_unstable_by_key(|note| note.at);
        notes
    }

    /// Goes through the entries of a directory that are to be looked at: files in it, and directories.
    pub(crate) fn split(&self, entries: &Range<usize>, prefix: usize, mut visit: impl FnMut(Part)) {
        let mut at = self.next_asked(entries);
        while at < entries.end {
            let slash = match self.index.directory_at(at) == prefix {
                true => None,
                false => self.index.path_at(at)[prefix..].find_byte(b'/'),
            };
            at = match slash {
                None => {
                    visit(Part::File(at));
                    at + 1
                }
                Some(slash) => {
                    let length = prefix + slash + 1;
                    let end = self.index.end_of(at, length, entries.end);
                    visit(Part::Directory(at..end, length));
                    end
                }
            };
            at = self.next_asked(&(at..entries.end));
        }
    }

    /// The first of these that is to be looked at; their end if there is none.
    fn next_asked(&self, entries: &Range<usize>) -> usize {
        match entries.is_empty() || self.is_asked(entries.start) {
            true => entries.start,
            false => self.asked.next(entries),
        }
    }
}

/// A part of a directory's entries.
pub(crate) enum Part {
    File(usize),
    /// With the length of its path, the slash included.
    Directory(Range<usize>, usize),
}

/// Returns true if the worktree is not asked about an entry: it is assumed to be unchanged, or not to be there, was found up to date before, or the
/// monitor vouches for it. The mark says nothing of what is in a submodule.
fn is_taken_as_it_is(index: &Index, entry: &Entry) -> bool {
    entry.mode.is_tree()
        || entry.stage == Stage::Normal
            && (entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
                || entry.flags.contains(Flags::UPTODATE) && !entry.mode.is_gitlink()
                || index.is_vouched_for(entry))
}

/// The same error once more.
pub(crate) fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
