//! Tracked files: which entries of the index are to be looked at, and what is there.
//!
//! A directory's entries are asked for together, relative to its handle; directories are jobs of a crew that finds its size. Where it
//! turns out that the disk is slow, directories are listed before: a network file system then sends the attributes with the names, and
//! of a local disk the files are asked for by the inode numbers in the index, as they lie there. A local disk whose caches are known to be
//! cold is swept instead ([`super::sweep`]).
//!
//! Only what is not as recorded is kept, so a clean tree costs no memory.

use std::{
    io::{self, ErrorKind},
    ops::Range,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stage, Word};
use repo::Repository;
use sys::{Dir, FileType, Home, Roamer, Stat};

use super::asked::Asked;
use crate::{
    checkout::Workers,
    crew::{self, Pace, Tuning},
    handle::Handle,
    pathspec::{Pathspecs, Seen},
    stat::{Match, StatRules, is_just_the_same},
    untracked::{Beside, Listed},
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

/// A directory to be looked at.
struct Job {
    what: What,
    /// The length of the directory's path, with a slash at its end.
    prefix: usize,
}

enum What {
    /// The entries in it and below.
    All(Range<usize>),
    /// Only these files of it.
    Files(Vec<usize>),
}

/// Files of one directory that a worker asks a slow disk for, one after the other. Others can have the rest: a listing brings the attributes of
/// the first few only, and one by one a full directory's files would take longer than all else.
const IN_A_ROW: usize = 16;

/// Files that a disk seen to be quick is asked for before the pace is heeded.
const A_FEW: usize = 8;

pub(crate) struct Scan<'a> {
    pub(super) root: &'a Dir,
    pub(super) index: &'a Index,
    rules: StatRules,
    pub(super) tuning: &'a Tuning,
    asked: Asked,
    visited: Vec<AtomicBool>,
    notes: Mutex<Vec<Note>>,
    /// Files of directories that were listed on a slow disk, for many to ask for when all are listed.
    rest: Mutex<Vec<Job>>,
    /// Where the process stands, if its threads may go elsewhere.
    home: OnceLock<Option<Home<'a>>>,
    pub(super) interrupt: &'a AtomicBool,
}

/// So few files of a directory are asked for by their whole paths: to go there and back are two calls, and one of them finds the same way.
const NOT_WORTH_GOING: usize = 2;

/// Names in a directory with a path that is no longer have paths that every system takes.
const SHORT: usize = 2048;

/// What a worker keeps from one directory to the next.
struct Looker<'h> {
    listing: sys::Listing,
    found: Vec<(u64, usize)>,
    roamer: Option<Roamer<'h>>,
}

/// For fewer files nobody goes elsewhere: to be able to takes a few system calls.
const WORTH_ROAMING: usize = 16;

impl<'a> Scan<'a> {
    pub(super) fn new(
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
    pub(super) fn of(
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
            home: OnceLock::new(),
            interrupt,
        }
    }

    /// Whether the entry at `at` is to be looked at.
    fn is_asked(&self, at: usize) -> bool {
        self.asked.any(&(at..at + 1))
    }

    /// The entries that were to be looked at.
    pub(super) fn asked(&self) -> impl Iterator<Item = usize> + use<> {
        let asked = self.asked.clone();
        (0..self.visited.len()).filter(move |&at| asked.any(&(at..at + 1)))
    }

    fn any(&self, entries: &Range<usize>) -> bool {
        self.asked.any(entries)
    }

    /// The entry before which `number` are to be looked at, if there are more.
    pub(super) fn nth(&self, number: usize) -> usize {
        self.asked.nth(number)
    }

    /// Which is to be looked at, and has not been.
    pub(super) fn is_left(&self, at: usize) -> bool {
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
        let start = |_| Looker { listing: sys::Listing::default(), found: Vec::new(), roamer: self.roamer() };
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

    fn look(&self, looker: &mut Looker<'_>, job: Job, jobs: &mut Vec<Job>, pace: &mut dyn Pace) {
        if self.interrupt.load(Ordering::Relaxed) {
            return;
        }
        let entries = match job.what {
            What::Files(files) => {
                let left = files.into_iter().filter(|&at| self.is_left(at));
                return self.look_at(left, job.prefix, &mut || pace.step());
            }
            What::All(entries) => entries,
        };
        let Looker { listing, found, roamer } = looker;
        let first = jobs.len();
        self.split(&entries, job.prefix, |part| match part {
            Part::File(at) => found.push((0, at)),
            Part::Directory(entries, prefix) => jobs.push(Job { what: What::All(entries), prefix }),
        });
        let roamer = roamer.as_mut().filter(|_| !pace.is_slow());
        let path = self.path_of(entries.start, job.prefix);
        if self.tuning.is_remote() {
            // Of what is not there the directories in it will tell.
            if found.is_empty() && !pace.is_slow() {
                return jobs[first..].reverse();
            }
        } else if (found.is_empty() || roamer.is_some()) && self.is_directory(path, pace) {
            // So what is in it may be looked at from there: no link is on the way. If it is none, opening it tells why.
            let files = found.iter().map(|&(_, at)| at);
            let is_done = match found.len() {
                0 => true,
                1..=NOT_WORTH_GOING if path.len() <= SHORT => {
                    self.ask_all(self.root, files, 0, &mut || pace.step());
                    true
                }
                _ => roamer.is_some_and(|roamer| self.ask_from(roamer, path, files, job.prefix, pace)),
            };
            if is_done {
                found.clear();
                return jobs[first..].reverse();
            }
        }
        let opened = self.open(entries.start, job.prefix);
        pace.step();
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) => {
                jobs.truncate(first);
                found.clear();
                return self.unreachable(entries, &error);
            }
        };
        jobs[first..].reverse();
        if pace.is_slow() {
            self.sort((listing, &jobs[first..]), found, &dir, job.prefix);
            jobs.extend(shared_out(found, job.prefix));
        }
        self.ask_all(&dir, found.drain(..).map(|(_, at)| at), job.prefix, &mut || pace.step());
    }

    /// Whether there is a directory at `path`, and nothing says otherwise; the root is one.
    fn is_directory(&self, path: &[u8], pace: &mut dyn Pace) -> bool {
        if path.is_empty() {
            return true;
        }
        let found = self.root.stat_near(path);
        pace.step();
        found.is_ok_and(|found| found.is_some_and(|stat| stat.file_type == FileType::Directory))
    }

    /// Looks at files of the directory at `path`, known to be one, from there, if it can be entered.
    fn ask_from(
        &self,
        roamer: &mut Roamer<'_>,
        path: &[u8],
        files: impl Iterator<Item = usize>,
        prefix: usize,
        pace: &mut dyn Pace,
    ) -> bool {
        let Ok(here) = roamer.visit(path) else { return false };
        let mut notes = Vec::new();
        let mut done = 0;
        for at in files {
            let found = match self.index.c_path_at(at, prefix) {
                Some(name) => here.stat(name),
                None => here.stat(self.index.path_at(at)[prefix..].as_bytes()),
            };
            self.see(at, found, &mut notes);
            done += 1;
            if done == A_FEW {
                pace.steps(std::mem::take(&mut done));
            }
        }
        pace.steps(done);
        drop(here);
        self.keep(notes);
        true
    }

    /// Looks at files of one directory.
    pub(super) fn look_at(
        &self,
        files: impl Iterator<Item = usize> + Clone,
        prefix: usize,
        step: &mut dyn FnMut(),
    ) {
        let Some(first) = files.clone().next() else { return };
        let opened = self.open(first, prefix);
        step();
        match opened {
            Ok(dir) => self.ask_all(&dir, files, prefix, step),
            Err(error) => self.unreachable(files, &error),
        }
    }

    /// The directory whose path are the first `prefix` bytes of that of the entry at `at`.
    fn open(&self, at: usize, prefix: usize) -> io::Result<Dir> {
        match self.path_of(at, prefix) {
            b"" => self.root.try_clone(),
            path => self.root.open_dir(path),
        }
    }

    /// The path of that directory, without a slash at its end.
    fn path_of(&self, at: usize, prefix: usize) -> &'a [u8] {
        self.index.path_at(at)[..prefix].strip_suffix(b"/").unwrap_or_default()
    }

    fn ask_all(&self, dir: &Dir, files: impl Iterator<Item = usize>, prefix: usize, step: &mut dyn FnMut()) {
        let mut notes = Vec::new();
        for at in files {
            self.ask(dir, at, prefix, &mut notes);
            step();
        }
        self.keep(notes);
    }

    /// Puts the files of a directory on a slow disk into the order of their inodes. One of a network is listed for that, as it sends attributes
    /// with the names, those of the `directories` in it, too; of one of our own the index knows the inodes.
    fn sort(
        &self,
        (listing, directories): (&mut sys::Listing, &[Job]),
        found: &mut [(u64, usize)],
        dir: &Dir,
        prefix: usize,
    ) {
        if !self.tuning.is_remote() {
            found.iter_mut().for_each(|(ino, at)| *ino = self.index.entry(*at).stat.ino.into());
        } else if found.len() + directories.len() < 3 {
            // Not worth a listing.
            return;
        } else {
            self.list(listing, directories, found, dir, prefix);
        }
        found.sort_unstable();
    }

    /// Learns the inodes of the files from a listing, which is read no further than the last of all these names: the call that finds nothing more
    /// would be as many questions as there are directories.
    fn list(
        &self,
        listing: &mut sys::Listing,
        directories: &[Job],
        found: &mut [(u64, usize)],
        dir: &Dir,
        prefix: usize,
    ) {
        struct Enough;
        impl From<io::Error> for Enough {
            fn from(_: io::Error) -> Enough {
                // Only an order and attributes are lost; who asks for the files will be told.
                Enough
            }
        }
        let file = |(nth, found): (usize, &(u64, usize))| (&self.index.path_at(found.1)[prefix..], Some(nth));
        let mut wanted: Vec<(&BStr, Option<usize>)> = found.iter().enumerate().map(file).collect();
        wanted.extend(directories.iter().filter_map(|job| match &job.what {
            What::All(entries) => Some((&self.index.path_at(entries.start)[prefix..job.prefix - 1], None)),
            What::Files(_) => None,
        }));
        wanted.sort_unstable();
        found.iter_mut().for_each(|(ino, _)| *ino = u64::MAX);
        let mut left = wanted.len();
        let _: Result<(), Enough> = listing.read(dir, |entry| {
            if let Ok(place) = wanted.binary_search_by(|(name, _)| (***name).cmp(entry.name)) {
                if let Some(nth) = wanted[place].1 {
                    found[nth].0 = entry.ino;
                }
                left -= 1;
            }
            if left == 0 { Err(Enough) } else { Ok(()) }
        });
    }

    /// Goes through the entries of a directory that are to be looked at: files in it, and directories.
    pub(super) fn split(&self, entries: &Range<usize>, prefix: usize, mut visit: impl FnMut(Part)) {
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

    /// One stat, and what it says of the entry.
    fn ask(&self, dir: &Dir, at: usize, prefix: usize, notes: &mut Vec<Note>) {
        let is_remote = self.tuning.is_remote();
        let found = match self.index.c_path_at(at, prefix) {
            Some(name) if is_remote => dir.stat_below(name),
            Some(name) => dir.stat_near(name),
            None if is_remote => dir.stat_below(self.index.path_at(at)[prefix..].as_bytes()),
            None => dir.stat_near(self.index.path_at(at)[prefix..].as_bytes()),
        };
        self.see(at, found, notes);
    }

    #[inline]
    fn see(&self, at: usize, found: io::Result<Option<Stat>>, notes: &mut Vec<Note>) {
        match &found {
            Ok(Some(stat)) if is_just_the_same(self.index, at, stat) => {
                self.visited[at].store(true, Ordering::Relaxed);
            }
            _ => self.note(at, Sight::of(found), notes),
        }
    }

    fn note(&self, at: usize, sight: Sight, notes: &mut Vec<Note>) {
        self.visited[at].store(true, Ordering::Relaxed);
        let entry = &self.index.entry(at);
        let verdict = match &sight {
            Sight::There(stat) => self.rules.compare(entry, stat, self.index.timestamp),
            _ => Match::Different,
        };
        let told = verdict != Match::Same || entry.mode.is_gitlink() || entry.stage != Stage::Normal;
        if told {
            notes.push(Note { at, sight, verdict });
        }
    }

    /// A directory could not be opened: so nothing in it is there, or nothing can be said.
    fn unreachable(&self, entries: impl Iterator<Item = usize>, error: &io::Error) {
        const ELOOP: i32 = 40;
        let mut notes = Vec::new();
        for at in entries.filter(|&at| self.is_asked(at)) {
            let sight = match error.kind() {
                ErrorKind::NotFound => Sight::Missing,
                // The last link on the way is no directory, one before it ends the way.
                ErrorKind::NotADirectory => self.behind_a_link(at),
                _ if error.raw_os_error() == Some(ELOOP) => self.behind_a_link(at),
                _ => Sight::Unreadable(again(error)),
            };
            self.note(at, sight, &mut notes);
        }
        self.keep(notes);
    }

    /// An entry whose directory is a link. Unless the links lead in a circle, it is missing for most, as for Git.
    fn behind_a_link(&self, at: usize) -> Sight {
        match self.root.stat_below(self.index.path_at(at).as_bytes()) {
            Ok(Some(stat)) => Sight::Behind(stat),
            Ok(None) => Sight::Missing,
            Err(error) => Sight::Unreadable(error),
        }
    }

    fn keep(&self, mut notes: Vec<Note>) {
        if !notes.is_empty() {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).append(&mut notes);
        }
    }
}

/// A directory that was looked at for what is untracked in it: its tracked files are looked at by the way.
impl Beside for Scan<'_> {
    fn files(&self) -> usize {
        self.asked.before(self.visited.len())
    }

    fn asks(&self, within: &Range<usize>) -> bool {
        self.any(within)
    }

    fn directory(
        &self,
        dir: &Dir,
        prefix: usize,
        listed: &Listed<'_>,
        within: &Range<usize>,
        pace: &mut dyn Pace,
    ) {
        if !self.any(within) {
            return;
        }
        let mut notes = Vec::new();
        let mut files: Vec<(u64, usize)> = Vec::with_capacity(listed.files.len());
        files.extend(listed.files.iter().filter(|&&(_, at)| self.is_left(at)));
        for others in listed.others {
            self.split(others, prefix, |part| match part {
                Part::File(at) if !self.is_left(at) => {}
                // It may be a submodule.
                Part::File(at) => match listed.find(&self.index.path_at(at)[prefix..]) {
                    Some((_, ino)) => files.push((ino, at)),
                    None => self.note(at, Sight::Missing, &mut notes),
                },
                Part::Directory(entries, length) => {
                    let name = &self.index.path_at(entries.start)[prefix..length - 1];
                    let is_link = match listed.find(name) {
                        // A job of its own.
                        Some((FileType::Directory, _)) => return,
                        Some((file_type, _)) => file_type == FileType::Symlink,
                        None => false,
                    };
                    for at in entries.filter(|&at| self.is_left(at)) {
                        let sight = if is_link { self.behind_a_link(at) } else { Sight::Missing };
                        self.note(at, sight, &mut notes);
                    }
                }
            });
        }
        if pace.is_slow() {
            files.sort_unstable();
            let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            rest.extend(shared_out(&mut files, prefix));
        }
        for (_, at) in files {
            self.ask(dir, at, prefix, &mut notes);
            pace.step();
        }
        self.keep(notes);
    }

    fn roamer(&self) -> Option<Roamer<'_>> {
        if self.tuning.is_remote() || self.files() < WORTH_ROAMING {
            return None;
        }
        let home = self.home.get_or_init(|| Home::of(self.root).ok()).as_ref()?;
        Roamer::new(home).ok()
    }

    fn unlisted(
        &self,
        (from, roamer): (&Handle, Option<&mut Roamer<'_>>),
        path: &BStr,
        within: &Range<usize>,
        pace: &mut dyn Pace,
    ) {
        // A slow disk is asked in the end, with listings.
        if pace.is_slow() || !self.any(within) {
            return;
        }
        let mut files = Vec::new();
        self.split(within, path.len(), |part| match part {
            Part::File(at) if self.is_left(at) => files.push(at),
            // A directory is a job of its own, or looked at in the end.
            Part::File(_) | Part::Directory(..) => {}
        });
        let dir = path.strip_suffix(b"/").unwrap_or_default();
        if let Some(roamer) = roamer
            && files.len() > 1
            && self.ask_from(roamer, dir, files.iter().copied(), path.len(), pace)
        {
            return;
        }
        let mut notes = Vec::new();
        for at in files {
            self.ask_below(from, at, &mut notes);
            pace.step();
        }
        self.keep(notes);
    }

    fn is_clean(&self, from: &Handle, at: usize) -> bool {
        let entry = &self.index.entry(at);
        if entry.stage != Stage::Normal || !self.is_asked(at) {
            return self.index.is_vouched_for(entry);
        }
        let is_left = self.is_left(at);
        let mut notes = Vec::new();
        self.ask_below(from, at, &mut notes);
        let clean = notes.is_empty();
        if is_left {
            self.keep(notes);
        }
        clean
    }
}

impl Scan<'_> {
    /// As [`Scan::ask`], by the path from a directory above.
    fn ask_below(&self, from: &Handle, at: usize, notes: &mut Vec<Note>) {
        self.ask(from.dir(), at, from.base(), notes);
    }
}

/// Leaves the first few of a directory's files, and makes jobs of the others.
fn shared_out(files: &mut Vec<(u64, usize)>, prefix: usize) -> Vec<Job> {
    let others = files.split_off(files.len().min(IN_A_ROW));
    let job =
        |files: &[(u64, usize)]| Job { what: What::Files(files.iter().map(|&(_, at)| at).collect()), prefix };
    others.chunks(IN_A_ROW).map(job).collect()
}

/// A part of a directory's entries.
pub(super) enum Part {
    File(usize),
    /// With the length of its path, the slash included.
    Directory(Range<usize>, usize),
}

/// Whether the worktree is not asked about an entry: it is assumed to be unchanged, or not to be there, or the monitor vouches for it.
fn is_taken_as_it_is(index: &Index, entry: &Entry) -> bool {
    entry.mode.is_tree()
        || entry.stage == Stage::Normal
            && (entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
                || index.is_vouched_for(entry))
}

/// The same error once more.
pub(super) fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
