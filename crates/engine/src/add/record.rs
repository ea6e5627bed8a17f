//! Records many worktree files as objects, with several workers.
//!
//! Files that a long-running filter converts have a lane of their own. The filter serves one file
//! at a time, and the other workers do not wait for it. Results are in the order of the paths.

use std::{
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, index::Index};
use repo::{
    Repository,
    convert::{Converter, Filtering},
};
use store::objects::ObjectTransaction;
use sys::{Dir, FileType, Stat};

use super::hash::{Error, FileHasher, Store};
use crate::crew::{self, Deferred, Tuning};

/// The cost of reading, hashing and deflating a file, in steps of about one written file each.
const STEPS_PER_FILE: usize = 8;

/// The line ends of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// Text that was committed with CRLF keeps it, unless attributes specify otherwise.
    AsBefore,
    /// All text gets the line ends that its attributes specify (`--renormalize`).
    Renormalized,
}

/// The treatment of the other files when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterError {
    /// Files after the failed one are not recorded.
    Stop,
    /// The other files are recorded (`--ignore-errors`).
    Continue,
}

/// Options for recording files as objects.
#[derive(Clone, Copy)]
pub struct Recording<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// Its worktree.
    pub worktree: &'a Dir,
    /// The transaction that stores the objects. With `None` files are only hashed (`--dry-run`).
    pub objects: Option<&'a ObjectTransaction<'a>>,
    /// `core.bigFileThreshold`
    pub big_file_threshold: u64,
    /// The line ends of text.
    pub line_ends: LineEnds,
    /// The treatment of the other files when one fails.
    pub after_error: AfterError,
    /// Raised to end the work early: the remaining files have no result.
    pub interrupt: &'a AtomicBool,
}

/// A recorded file.
#[derive(Debug)]
pub struct Recorded {
    /// Messages of the conversion. Each begins with `error: `, `warning: ` or `hint: `.
    pub messages: Vec<String>,
    /// The stat data of the file before it was read, and the name of its object.
    pub result: Result<(Stat, ObjectId), Error>,
}

impl Recording<'_> {
    /// Records the files at `paths`; a trailing slash is ignored. A result is `None` if its path
    /// was not processed, because an earlier path failed or the work was interrupted. Attributes
    /// come from `index` where the worktree has none.
    pub fn record(&self, paths: &[BString], index: &Index) -> Result<Vec<Option<Recorded>>, repo::Error> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let converter = self.converter(index)?;
        let lanes = Lanes::of(paths, &converter);
        let job =
            Job { recording: self, paths, index, converter: &converter, end: AtomicUsize::new(usize::MAX) };
        let mut recorded: Vec<Option<Recorded>> = Vec::new();
        recorded.resize_with(paths.len(), || None);
        let slowly = || {
            let mut hasher = job.hasher();
            lanes.slow.iter().map(|&at| job.record(&mut hasher, at)).collect::<Vec<_>>()
        };
        let (fast, slow) = thread::scope(|scope| {
            let slow = Deferred::new(&slowly);
            if !lanes.slow.is_empty() && !lanes.fast.is_empty() {
                slow.start(scope);
            }
            (job.record_in_parallel(&lanes.fast), slow.get())
        });
        for (at, result) in lanes.fast.into_iter().zip(fast).chain(lanes.slow.iter().copied().zip(slow)) {
            recorded[at] = result;
        }
        Ok(recorded)
    }

    fn converter(&self, index: &Index) -> Result<Converter, repo::Error> {
        match (self.line_ends, self.objects) {
            (LineEnds::Renormalized, _) => Converter::for_renormalizing(self.repo, index),
            (LineEnds::AsBefore, Some(_)) => Converter::for_adding(self.repo, index),
            // A file that is only hashed needs no round-trip check (`core.safecrlf`).
            (LineEnds::AsBefore, None) => Converter::for_compare(self.repo, index),
        }
    }
}

/// The positions of paths, by the lane in which they are recorded.
struct Lanes {
    fast: Vec<usize>,
    /// The lane of long-running filters.
    slow: Vec<usize>,
}

impl Lanes {
    fn of(paths: &[BString], converter: &Converter) -> Lanes {
        if converter.is_idle() || !converter.may_start_processes() {
            return Lanes { fast: (0..paths.len()).collect(), slow: Vec::new() };
        }
        let mut worker = converter.worker();
        // If the lookup fails, it fails again when the file is read, and the error is reported
        // there.
        let mut is_slow = |at: &usize| {
            worker.filtering(paths[*at].as_bstr()).is_ok_and(|filtering| filtering == Filtering::Process)
        };
        let (slow, fast) = (0..paths.len()).partition(|at| is_slow(at));
        Lanes { fast, slow }
    }
}

struct Job<'a> {
    recording: &'a Recording<'a>,
    paths: &'a [BString],
    index: &'a Index,
    converter: &'a Converter,
    /// The position of the first failure. Results after it are discarded.
    end: AtomicUsize,
}

impl<'a> Job<'a> {
    fn hasher(&self) -> FileHasher<'a> {
        let Recording { repo, worktree, big_file_threshold, .. } = *self.recording;
        FileHasher::new(repo, worktree, big_file_threshold).with_converter(self.converter.worker())
    }

    fn record_in_parallel(&self, positions: &[usize]) -> Vec<Option<Recorded>> {
        let recorded = crew::map(
            "record",
            &Tuning::default(),
            positions,
            |_| STEPS_PER_FILE,
            &Mutex::new(Vec::new()),
            |_| self.hasher(),
            |hasher, &at| Ok::<_, Infallible>(self.record(hasher, at)),
        );
        let Ok(recorded) = recorded;
        recorded
    }

    fn record(&self, hasher: &mut FileHasher<'_>, at: usize) -> Option<Recorded> {
        if at > self.end.load(Ordering::Relaxed) || self.recording.interrupt.load(Ordering::Relaxed) {
            return None;
        }
        let path = self.paths[at].as_bstr();
        let result = self.file(hasher, path.strip_suffix(b"/").unwrap_or(path).as_bstr());
        if result.is_err() && self.recording.after_error == AfterError::Stop {
            self.end.fetch_min(at, Ordering::Relaxed);
        }
        Some(Recorded { messages: hasher.take_messages(), result })
    }

    fn file(&self, hasher: &mut FileHasher<'_>, path: &BStr) -> Result<(Stat, ObjectId), Error> {
        let stat = stat(self.recording.worktree, path)?;
        let store = self.recording.objects.map_or(Store::HashOnly, Store::Write);
        Ok((stat, hasher.hash(path, &stat, self.index, store)?))
    }
}

/// Returns the stat data of a file that can become an index entry.
pub fn stat(worktree: &Dir, path: &BStr) -> Result<Stat, Error> {
    let found = worktree.stat(path).and_then(|found| found.ok_or_else(sys::not_found));
    let stat = found.map_err(|source| Error::Stat { path: path.to_owned(), source })?;
    match stat.file_type {
        FileType::Other => Err(Error::Type { path: path.to_owned() }),
        _ => Ok(stat),
    }
}
