//! One directory's files, asked for from where the disk answers soonest, and what is noted of them.

use std::{
    io::{self, ErrorKind},
    ops::Range,
    sync::{PoisonError, atomic::Ordering},
};

use bstr::{BStr, ByteSlice as _};
use format::index::Stage;
use sys::{Dir, FileType, Stat, ThreadCwd};

use super::{Note, Part, Scan, Sight, again};
use crate::{
    crew::Pace,
    look::{
        handle::FAR,
        stat::{Match, is_just_the_same},
    },
};

/// A directory to be looked at.
pub(super) struct Job {
    pub(super) what: What,
    /// The length of the directory's path, with a slash at its end.
    pub(super) prefix: usize,
}

pub(super) enum What {
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

/// So few files of a directory are asked for by their whole paths: to go there and back are two calls, and one of them finds the same way.
const NOT_WORTH_GOING: usize = 2;

/// What a worker keeps from one directory to the next.
pub(super) struct Looker<'h> {
    pub(super) listing: sys::Listing,
    pub(super) found: Vec<(u64, usize)>,
    pub(super) thread_cwd: Option<ThreadCwd<'h>>,
}

impl<'a> Scan<'a> {
    pub(super) fn look(&self, looker: &mut Looker<'_>, job: Job, jobs: &mut Vec<Job>, pace: &mut dyn Pace) {
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
        let Looker { listing, found, thread_cwd } = looker;
        let first = jobs.len();
        self.split(&entries, job.prefix, |part| match part {
            Part::File(at) => found.push((0, at)),
            Part::Directory(entries, prefix) => jobs.push(Job { what: What::All(entries), prefix }),
        });
        let thread_cwd = thread_cwd.as_mut().filter(|_| !pace.is_slow());
        let path = self.path_of(entries.start, job.prefix);
        if self.tuning.is_remote() {
            // Of what is not there the directories in it will tell.
            if found.is_empty() && !pace.is_slow() {
                return jobs[first..].reverse();
            }
        } else if (found.is_empty() || thread_cwd.is_some()) && self.is_directory(path, pace) {
            // So what is in it may be looked at from there: no link is on the way. If it is none, opening it tells why.
            let files = found.iter().map(|&(_, at)| at);
            let is_done = match found.len() {
                0 => true,
                1..=NOT_WORTH_GOING if path.len() <= FAR => {
                    self.ask_all(self.root, files, 0, &mut || pace.step());
                    true
                }
                _ => thread_cwd
                    .is_some_and(|thread_cwd| self.ask_from(thread_cwd, path, files, job.prefix, pace)),
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
        let found = self.root.stat_local(path);
        pace.step();
        found.is_ok_and(|found| found.is_some_and(|stat| stat.file_type == FileType::Directory))
    }

    /// Looks at files of the directory at `path`, known to be one, from there, if it can be entered.
    pub(super) fn ask_from(
        &self,
        thread_cwd: &mut ThreadCwd<'_>,
        path: &[u8],
        files: impl Iterator<Item = usize>,
        prefix: usize,
        pace: &mut dyn Pace,
    ) -> bool {
        let Ok(here) = thread_cwd.enter(path) else { return false };
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

    /// One stat, and what it says of the entry.
    pub(super) fn ask(&self, dir: &Dir, at: usize, prefix: usize, notes: &mut Vec<Note>) {
        let is_remote = self.tuning.is_remote();
        let found = match self.index.c_path_at(at, prefix) {
            Some(name) if is_remote => dir.stat_below(name),
            Some(name) => dir.stat_local(name),
            None if is_remote => dir.stat_below(self.index.path_at(at)[prefix..].as_bytes()),
            None => dir.stat_local(self.index.path_at(at)[prefix..].as_bytes()),
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

    pub(super) fn note(&self, at: usize, sight: Sight, notes: &mut Vec<Note>) {
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
    pub(super) fn behind_a_link(&self, at: usize) -> Sight {
        match self.root.stat_below(self.index.path_at(at).as_bytes()) {
            Ok(Some(stat)) => Sight::Behind(stat),
            Ok(None) => Sight::Missing,
            Err(error) => Sight::Unreadable(error),
        }
    }

    pub(super) fn keep(&self, mut notes: Vec<Note>) {
        if !notes.is_empty() {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).append(&mut notes);
        }
    }
}

/// Leaves the first few of a directory's files, and makes jobs of the others.
pub(super) fn shared_out(files: &mut Vec<(u64, usize)>, prefix: usize) -> Vec<Job> {
    let others = files.split_off(files.len().min(IN_A_ROW));
    let job =
        |files: &[(u64, usize)]| Job { what: What::Files(files.iter().map(|&(_, at)| at).collect()), prefix };
    others.chunks(IN_A_ROW).map(job).collect()
}
