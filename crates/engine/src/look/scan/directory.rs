//! Examines the files of one directory through the fastest handle, and notes the results.

use std::{
    io::{self, ErrorKind},
    ops::Range,
    sync::{PoisonError, atomic::Ordering},
};

use bstr::{BStr, ByteSlice as _};
use format::index::Stage;
use sys::{Dir, FileType, Stat, ThreadCwd};

use super::{Note, Part, PathState, Scan};
use crate::{
    crew::StepReporter,
    look::{
        copy_error,
        handle::FAR,
        stat::{Match, matches_exactly},
    },
};

/// A directory to examine.
pub(super) struct Job {
    pub(super) entries: JobEntries,
    /// The length of the directory's path with its slash.
    pub(super) prefix: usize,
}

pub(super) enum JobEntries {
    /// The entries in and below the directory.
    All(Range<usize>),
    /// These files of the directory.
    Files(Vec<usize>),
}

/// The number of files of a directory that one worker examines in sequence on a slow disk. Other
/// workers may take the rest: a listing prefetches the attributes of only the first few files, and
/// examining a full directory in sequence would take longer than all other work.
const FILES_PER_JOB: usize = 16;

/// The number of files that are examined on a fast disk before its speed is checked.
const FILES_BEFORE_PACE_CHECK: usize = 8;

/// Up to this many files of a directory are examined by their full paths: changing into the
/// directory and back costs two calls, one of which resolves the same path.
const MAX_FILES_BY_PATH: usize = 2;

/// The state that a worker keeps between directories.
pub(super) struct ScanWorker<'h> {
    pub(super) listing: sys::Listing,
    pub(super) found: Vec<(u64, usize)>,
    pub(super) thread_cwd: Option<ThreadCwd<'h>>,
}

impl<'a> Scan<'a> {
    pub(super) fn look(
        &self,
        worker: &mut ScanWorker<'_>,
        job: Job,
        jobs: &mut Vec<Job>,
        reporter: &mut dyn StepReporter,
    ) {
        if self.interrupt.load(Ordering::Relaxed) {
            return;
        }
        let entries = match job.entries {
            JobEntries::Files(files) => {
                let left = files.into_iter().filter(|&at| self.is_unexamined(at));
                return self.look_at(left, job.prefix, &mut || reporter.step());
            }
            JobEntries::All(entries) => entries,
        };
        let ScanWorker { listing, found, thread_cwd } = worker;
        let first = jobs.len();
        self.split(&entries, job.prefix, |part| match part {
            Part::File(at) => found.push((0, at)),
            Part::Directory(entries, prefix) => jobs.push(Job { entries: JobEntries::All(entries), prefix }),
        });
        let thread_cwd = thread_cwd.as_mut().filter(|_| !reporter.is_slow());
        let path = self.path_of(entries.start, job.prefix);
        if self.tuning.is_remote() {
            // If the directory is missing, the jobs of its subdirectories find that out.
            if found.is_empty() && !reporter.is_slow() {
                return jobs[first..].reverse();
            }
        } else if (found.is_empty() || thread_cwd.is_some()) && self.is_directory(path, reporter) {
            // The path is a directory without a link in it, so its files may be examined from
            // there. Otherwise, opening the path finds the reason.
            let files = found.iter().map(|&(_, at)| at);
            let is_done = match found.len() {
                0 => true,
                1..=MAX_FILES_BY_PATH if path.len() <= FAR => {
                    self.probe_all(self.root, files, 0, &mut || reporter.step());
                    true
                }
                _ => thread_cwd.is_some_and(|thread_cwd| {
                    self.probe_from_cwd(thread_cwd, path, files, job.prefix, reporter)
                }),
            };
            if is_done {
                found.clear();
                return jobs[first..].reverse();
            }
        }
        let opened = self.open(entries.start, job.prefix);
        reporter.step();
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) => {
                jobs.truncate(first);
                found.clear();
                return self.unreachable(entries, &error);
            }
        };
        jobs[first..].reverse();
        if reporter.is_slow() {
            self.sort(listing, &jobs[first..], found, &dir, job.prefix);
            jobs.extend(split_off_jobs(found, job.prefix));
        }
        self.probe_all(&dir, found.drain(..).map(|(_, at)| at), job.prefix, &mut || reporter.step());
    }

    /// Returns true if `path` is known to be a directory. The root always is.
    fn is_directory(&self, path: &[u8], reporter: &mut dyn StepReporter) -> bool {
        if path.is_empty() {
            return true;
        }
        let found = self.root.stat_local(path);
        reporter.step();
        found.is_ok_and(|found| found.is_some_and(|stat| stat.file_type == FileType::Directory))
    }

    /// Examines files of the directory at `path` from within. Returns false if the thread cannot
    /// change into the directory.
    pub(super) fn probe_from_cwd(
        &self,
        thread_cwd: &mut ThreadCwd<'_>,
        path: &[u8],
        files: impl Iterator<Item = usize>,
        prefix: usize,
        reporter: &mut dyn StepReporter,
    ) -> bool {
        let Ok(here) = thread_cwd.enter(path) else { return false };
        let mut notes = Vec::new();
        let mut done = 0;
        for at in files {
            let found = match self.index.c_path_at(at, prefix) {
                Some(name) => here.stat(name),
                None => here.stat(self.index.path_at(at)[prefix..].as_bytes()),
            };
            self.record(at, found, &mut notes);
            done += 1;
            if done == FILES_BEFORE_PACE_CHECK {
                reporter.steps(std::mem::take(&mut done));
            }
        }
        reporter.steps(done);
        drop(here);
        self.store_notes(notes);
        true
    }

    /// Examines files of one directory.
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
            Ok(dir) => self.probe_all(&dir, files, prefix, step),
            Err(error) => self.unreachable(files, &error),
        }
    }

    /// Opens the directory whose path is the first `prefix` bytes of the path of the entry at `at`.
    fn open(&self, at: usize, prefix: usize) -> io::Result<Dir> {
        match self.path_of(at, prefix) {
            b"" => self.root.try_clone(),
            path => self.root.open_dir(path),
        }
    }

    /// Returns the path of the directory that [`Self::open`] opens, without a slash at the end.
    fn path_of(&self, at: usize, prefix: usize) -> &'a [u8] {
        self.index.path_at(at)[..prefix].strip_suffix(b"/").unwrap_or_default()
    }

    fn probe_all(
        &self,
        dir: &Dir,
        files: impl Iterator<Item = usize>,
        prefix: usize,
        step: &mut dyn FnMut(),
    ) {
        let mut notes = Vec::new();
        for at in files {
            self.probe(dir, at, prefix, &mut notes);
            step();
        }
        self.store_notes(notes);
    }

    /// Sorts the files of a directory on a slow disk by inode number. On a network disk the
    /// directory is listed for that, because the server sends attributes with the names, also those
    /// of the subdirectories in `directories`. On a local disk the index has the inode numbers.
    fn sort(
        &self,
        listing: &mut sys::Listing,
        directories: &[Job],
        found: &mut [(u64, usize)],
        dir: &Dir,
        prefix: usize,
    ) {
        if !self.tuning.is_remote() {
            found.iter_mut().for_each(|(ino, at)| *ino = self.index.entry(*at).stat.ino.into());
        } else if found.len() + directories.len() < 3 {
            // Too few files for a listing to pay off.
            return;
        } else {
            self.list(listing, directories, found, dir, prefix);
        }
        found.sort_unstable();
    }

    /// Reads the inode numbers of the files from a listing. Stops at the last of these names,
    /// because the final call, which returns no names, would cost one request for each directory.
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
                // An error only costs the order and the prefetched attributes. Examining the files
                // reports it.
                Enough
            }
        }
        let file = |(nth, found): (usize, &(u64, usize))| (&self.index.path_at(found.1)[prefix..], Some(nth));
        let mut wanted: Vec<(&BStr, Option<usize>)> = found.iter().enumerate().map(file).collect();
        wanted.extend(directories.iter().filter_map(|job| match &job.entries {
            JobEntries::All(entries) => {
                Some((&self.index.path_at(entries.start)[prefix..job.prefix - 1], None))
            }
            JobEntries::Files(_) => None,
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

    /// Examines one entry's file and notes the result.
    pub(super) fn probe(&self, dir: &Dir, at: usize, prefix: usize, notes: &mut Vec<Note>) {
        let is_remote = self.tuning.is_remote();
        let found = match self.index.c_path_at(at, prefix) {
            Some(name) if is_remote => dir.stat_below(name),
            Some(name) => dir.stat_local(name),
            None if is_remote => dir.stat_below(self.index.path_at(at)[prefix..].as_bytes()),
            None => dir.stat_local(self.index.path_at(at)[prefix..].as_bytes()),
        };
        self.record(at, found, notes);
    }

    #[inline]
    fn record(&self, at: usize, found: io::Result<Option<Stat>>, notes: &mut Vec<Note>) {
        match &found {
            Ok(Some(stat)) if matches_exactly(self.index, at, stat) => {
                self.visited[at].store(true, Ordering::Relaxed);
                self.count();
            }
            _ => self.note(at, PathState::of(found), notes),
        }
    }

    #[inline]
    fn count(&self) {
        if let Some(meter) = self.meter {
            meter.add(1);
        }
    }

    pub(super) fn note(&self, at: usize, state: PathState, notes: &mut Vec<Note>) {
        self.visited[at].store(true, Ordering::Relaxed);
        let entry = &self.index.entry(at);
        let verdict = match &state {
            PathState::There(stat) => self.rules.compare(entry, stat, self.index.timestamp),
            _ => Match::Different,
        };
        if !matches!(verdict, Match::Racy | Match::Touched) {
            self.count();
        }
        let told = verdict != Match::Same || entry.mode.is_gitlink() || entry.stage != Stage::Normal;
        if told {
            notes.push(Note { at, state, verdict });
        }
    }

    /// Notes the entries of a directory that could not be opened as missing or unreadable.
    fn unreachable(&self, entries: impl Iterator<Item = usize>, error: &io::Error) {
        const ELOOP: i32 = 40;
        let mut notes = Vec::new();
        for at in entries.filter(|&at| self.is_selected(at)) {
            let state = match error.kind() {
                ErrorKind::NotFound => PathState::Missing,
                // The last component is a link to a non-directory, or an earlier component is not a
                // directory.
                ErrorKind::NotADirectory => self.behind_a_link(at),
                _ if error.raw_os_error() == Some(ELOOP) => self.behind_a_link(at),
                _ => PathState::Unreadable(copy_error(error)),
            };
            self.note(at, state, &mut notes);
        }
        self.store_notes(notes);
    }

    /// Examines an entry whose directory is a symbolic link. Like Git, most callers treat it as
    /// missing, unless the links form a loop.
    pub(super) fn behind_a_link(&self, at: usize) -> PathState {
        match self.root.stat_below(self.index.path_at(at).as_bytes()) {
            Ok(Some(stat)) => PathState::Behind(stat),
            Ok(None) => PathState::Missing,
            Err(error) => PathState::Unreadable(error),
        }
    }

    pub(super) fn store_notes(&self, mut notes: Vec<Note>) {
        if !notes.is_empty() {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).append(&mut notes);
        }
    }
}

/// Keeps the first few files of a directory, and returns jobs for the others.
pub(super) fn split_off_jobs(files: &mut Vec<(u64, usize)>, prefix: usize) -> Vec<Job> {
    let others = files.split_off(files.len().min(FILES_PER_JOB));
    let job = |files: &[(u64, usize)]| Job {
        entries: JobEntries::Files(files.iter().map(|&(_, at)| at).collect()),
        prefix,
    };
    others.chunks(FILES_PER_JOB).map(job).collect()
}
