//! Finds the paths of a worktree that are not in the index: untracked and ignored files and
//! directories.
//!
//! Promise: the result contains the paths that Git's `dir.c` would report, in byte order, for any
//! number of threads. Each directory and each ignore file is read at most once. The listing of a
//! directory shows whether it has an ignore file. An ignored directory is not read unless its
//! content is requested. Nothing is changed.
//!
//! Order: the walk starts at the common directory of all pathspecs (`leading`). Each directory is a
//! job. The job lists the directory, classifies the names (`classify`) and adds a job for each
//! subdirectory to examine. When the last job below a directory ends, the directory itself is
//! classified (`tree`).
//!
//! An unreadable directory causes a warning and counts as empty, as in Git.

mod any;
pub mod cache;
mod cache_stats;
mod classify;
mod leading;
mod quiet;
mod recorded;
mod rules;
mod tracked;
mod tree;

use std::{
    io,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Index, UntrackedCache};
use repo::{Repository, keys};

use sys::{
    ThreadCwd,
    profile::{self, Phase},
};

use crate::{
    crew::{self, Meter, StepReporter, Tuning, Workers},
    look::{
        handle::Handle,
        ignore::{self, GlobalRules, Level, Rules},
        pathspec::{Pathspecs, Reach, Seen},
    },
};
pub(crate) use any::any;
pub use cache_stats::CacheStats;
use recorded::Recorded;
use tracked::Tracked;
pub(crate) use tree::Listed;

/// Options of the walk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How untracked directories are reported.
    pub directories: Directories,
    /// How ignored paths are reported.
    pub ignored: Ignored,
    /// The treatment of other repositories in the worktree.
    pub nested: Nested,
    /// The number of threads.
    pub workers: Workers,
}

/// The way in which an untracked directory is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// By each of its files (`status -uall`).
    Files,
    /// As one path, if it is not empty (`status -unormal`).
    WholeUnlessEmpty,
    /// As one path (`clean`).
    Whole,
}

/// The way in which ignored paths are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// They are omitted.
    Left,
    /// They are omitted, except those that a pathspec names, or that are directories above a named
    /// path (`add`).
    Named,
    /// Only ignored paths are reported (`clean -X`).
    Only,
    /// They are reported. A directory with only ignored files is one path (`status --ignored`).
    Too,
    /// They are reported as the patterns match them (`status --ignored=matching`).
    Matching,
    /// Like `Too`, and with the content of untracked directories (`clean -d -x`).
    TooWithContents,
    /// Like `Matching`, and with the content of untracked directories (`clean -d`).
    MatchingWithContents,
}

impl Ignored {
    fn is_too(self) -> bool {
        !matches!(self, Ignored::Left | Ignored::Only)
    }

    fn is_matching(self) -> bool {
        matches!(self, Ignored::Matching | Ignored::MatchingWithContents)
    }

    fn keeps_contents(self) -> bool {
        matches!(self, Ignored::TooWithContents | Ignored::MatchingWithContents)
    }
}

/// The way in which other repositories in the worktree are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nested {
    /// Each as one path.
    AsOne,
    /// They are omitted.
    Skipped,
}

/// The sources of ignore rules.
#[derive(Clone, Debug, Default)]
pub struct Excludes {
    global: GlobalRules,
    /// The contents of `info/exclude` and `core.excludesFile`, if these and `.gitignore` files are
    /// the only sources.
    standard: Option<[Option<Vec<u8>>; 2]>,
    /// The name of the ignore file in each directory, if any.
    inside: Option<BString>,
}

impl Excludes {
    /// Returns Git's own sources: `.gitignore` files, `info/exclude` and `core.excludesFile`. The
    /// patterns `first` take precedence.
    pub fn standard(repo: &Repository, first: &[BString]) -> Result<Excludes, repo::Error> {
        let icase = folds_case(repo)?;
        let outside = ignore::outside_files(repo)?;
        let last = outside.iter().flatten().map(|content| Rules::parse(content, icase)).collect();
        let only = Excludes::only(repo, first)?;
        let standard = first.is_empty().then_some(outside);
        let global = GlobalRules { last, ..only.global };
        Ok(Excludes { global, standard, inside: Some(".gitignore".into()) })
    }

    /// Returns these sources for a walk without the untracked cache.
    pub fn without_cache(self) -> Excludes {
        Excludes { standard: None, ..self }
    }

    /// Returns a source with only `patterns`.
    pub fn only(repo: &Repository, patterns: &[BString]) -> Result<Excludes, repo::Error> {
        let first = Rules::of_patterns(patterns.iter().map(|pattern| pattern.as_bstr()), folds_case(repo)?);
        Ok(Excludes { global: GlobalRules { first, last: Vec::new() }, standard: None, inside: None })
    }

    /// Returns the rules of `sources`.
    pub fn of(sources: &ignore::check::Sources) -> Excludes {
        let last = sources.last.iter().rev().map(|source| source.rules.clone()).collect();
        let global = GlobalRules { first: sources.first.clone(), last };
        Excludes { global, standard: None, inside: sources.per_directory.clone() }
    }
}

fn folds_case(repo: &Repository) -> Result<bool, repo::Error> {
    repo.config(&keys::core::IGNORE_CASE)
}

/// The result of the walk. Directories end with a slash; both lists are in byte order.
#[derive(Debug, Default)]
pub struct Found {
    /// Untracked paths.
    pub untracked: Vec<BString>,
    /// Ignored paths.
    pub ignored: Vec<BString>,
    /// Unreadable paths, in the order of the walk.
    pub warnings: Vec<Warning>,
    /// The number of directories read.
    pub directories_read: usize,
    /// The number of names classified.
    pub names_judged: usize,
    /// The untracked cache to write, if the index has one and directories had to be read.
    pub cache: Option<UntrackedCache>,
    /// The statistics of the untracked cache, if it was used.
    pub cache_stats: Option<CacheStats>,
}

/// A path that could not be read.
#[derive(Debug)]
pub enum Warning {
    /// A directory, with a slash at the end.
    Directory {
        /// The path from the root of the worktree.
        path: BString,
        /// The reason.
        source: io::Error,
    },
    /// A `.gitignore`.
    IgnoreFile {
        /// The path from the root of the worktree.
        path: BString,
        /// The reason.
        source: io::Error,
    },
    /// A `.gitignore` of more than 100 MiB.
    LargeIgnoreFile {
        /// The path from the root of the worktree.
        path: BString,
    },
}

impl Warning {
    /// Returns the path.
    pub fn path(&self) -> &BStr {
        let (Warning::Directory { path, .. }
        | Warning::IgnoreFile { path, .. }
        | Warning::LargeIgnoreFile { path }) = self;
        path.as_bstr()
    }

    /// Returns Git's message, with the path unquoted.
    pub fn message(&self) -> BString {
        let (words, path, source) = match self {
            Warning::Directory { path, source } => ("could not open directory '", path, Some(source)),
            Warning::IgnoreFile { path, source } => ("unable to access '", path, Some(source)),
            Warning::LargeIgnoreFile { path } => ("ignoring excessively large pattern file: ", path, None),
        };
        let reason = source.map(|source| format!("': {}", sys::reason(source))).unwrap_or_default();
        [words.as_bytes(), path, reason.as_bytes()].concat().into()
    }
}

/// Returns true if `path` (a directory ends with a slash) is not an entry of `index`.
pub fn is_other(index: &Index, path: &BStr) -> bool {
    Others::of(index).is_other(path)
}

/// Checks [`is_other`] for many paths. If the paths are in ascending order, each search starts at
/// the last position.
pub struct Others<'a> {
    index: &'a Index,
    from: usize,
}

impl<'a> Others<'a> {
    /// Creates a search that starts at the first entry of `index`.
    pub fn of(index: &'a Index) -> Others<'a> {
        Others { index, from: 0 }
    }

    /// See [`is_other`].
    pub fn is_other(&mut self, path: &BStr) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        // Paths are sorted with their trailing slashes, but the search compares them without.
        if self.from > 0 && self.index.path_at(self.from - 1) >= path {
            self.from = 0;
        }
        self.from = self.index.seek(self.from, path);
        self.from == self.index.len() || self.index.path_at(self.from) != path
    }
}

/// Walks the worktree `root` of `repo`. `interrupt` ends the walk early with a partial result.
/// `meter` counts the directories that are read.
#[allow(clippy::too_many_arguments, reason = "each is a fact or a choice of its own")]
pub fn walk(
    repo: &Repository,
    root: &sys::Dir,
    index: &Index,
    pathspecs: &Pathspecs,
    excludes: &Excludes,
    options: &Options,
    interrupt: &AtomicBool,
    meter: Option<&Meter>,
) -> Result<Found, repo::Error> {
    let (tuning, observer) = (&Tuning::reading(root), None);
    let context = WalkContext { tuning, observer, reads_late: false, meter };
    walk_observed(repo, root, index, pathspecs, excludes, options, interrupt, context)
}

/// Parameters of a walk that is part of a larger operation.
pub(crate) struct WalkContext<'c> {
    pub(crate) tuning: &'c Tuning,
    pub(crate) observer: Option<&'c dyn Observer>,
    /// True to read a `.gitignore` only when an untracked path is found below it, not to decide
    /// whether a directory with tracked files is ignored. This pays off where reading the file
    /// takes longer than a needless listing.
    pub(crate) reads_late: bool,
    pub(crate) meter: Option<&'c Meter>,
}

/// Like [`walk`], and also reports listed directories to the observer, unless case is folded.
#[allow(clippy::too_many_arguments, reason = "those of the public function, and two of its own")]
pub(crate) fn walk_observed(
    repo: &Repository,
    root: &sys::Dir,
    index: &Index,
    pathspecs: &Pathspecs,
    excludes: &Excludes,
    options: &Options,
    interrupt: &AtomicBool,
    WalkContext { tuning, observer, reads_late, meter }: WalkContext<'_>,
) -> Result<Found, repo::Error> {
    let _phase = profile::span(Phase::Plan);
    let folds = folds_case(repo)?;
    let recorded =
        Recorded::of(repo, index, pathspecs, excludes, options)?.filter(|_| !folds && observer.is_some());
    let reads_late = reads_late && recorded.is_none() && options.ignored == Ignored::Left;
    let walk = Walk {
        repo,
        root,
        index,
        tracked: Tracked::new(index, folds),
        pathspecs,
        excludes,
        options,
        interrupt,
        warnings: Mutex::default(),
        directories_read: AtomicUsize::new(0),
        names_judged: AtomicUsize::new(0),
        observer: observer.filter(|_| !folds),
        tuning,
        reads_late,
        recorded,
        meter,
    };
    Ok(walk.run())
}

/// An observer that examines the tracked files of the directories that the walk lists.
pub(crate) trait Observer: Sync {
    /// Returns the number of files to examine.
    fn files(&self) -> usize;

    /// Returns true if any of the entries `within` is to be examined.
    fn has_selected(&self, within: &Range<usize>) -> bool;

    /// Reports the listing of `dir`. The path of `dir` has `prefix` bytes with the slash. `within`
    /// are the entries in and below it.
    fn directory(
        &self,
        dir: &sys::Dir,
        prefix: usize,
        listed: &Listed<'_>,
        within: &Range<usize>,
        reporter: &mut dyn StepReporter,
    );

    /// Returns a worker's own working directory, if files should be examined from there.
    fn thread_cwd(&self) -> Option<ThreadCwd<'_>>;

    /// Reports that the directory at `path` (with a slash at the end) was not listed, because its
    /// content is cached. The directories above it, up to `from`, are cached too.
    fn unlisted(
        &self,
        from: &Handle,
        thread_cwd: Option<&mut ThreadCwd<'_>>,
        path: &BStr,
        within: &Range<usize>,
        reporter: &mut dyn StepReporter,
    );

    /// Returns true if the file of the entry at `at`, which is in such a directory, matches by its
    /// stat data.
    fn is_clean(&self, from: &Handle, at: usize) -> bool;
}

/// The state of one walk.
struct Walk<'a> {
    repo: &'a Repository,
    root: &'a sys::Dir,
    index: &'a Index,
    tracked: Tracked<'a>,
    pathspecs: &'a Pathspecs,
    excludes: &'a Excludes,
    options: &'a Options,
    interrupt: &'a AtomicBool,
    /// The warnings, each with its position in the walk.
    warnings: Mutex<Vec<(Vec<usize>, Warning)>>,
    directories_read: AtomicUsize,
    names_judged: AtomicUsize,
    observer: Option<&'a dyn Observer>,
    tuning: &'a Tuning,
    reads_late: bool,
    recorded: Option<Recorded<'a>>,
    meter: Option<&'a Meter>,
}

impl Walk<'_> {
    fn run(self) -> Found {
        let top = tree::Node::top();
        let jobs = self.start(&top);
        if !jobs.is_empty() {
            let thread_cwd =
                || self.observer.filter(|_| self.recorded.is_some()).and_then(Observer::thread_cwd);
            let worker = |_| tree::Worker::new(thread_cwd());
            let ahead = self.observer.map_or(0, Observer::files);
            crew::descend(
                "untracked",
                self.tuning,
                self.options.workers,
                ahead,
                jobs,
                worker,
                |worker, job, jobs, reporter| {
                    self.look(worker, job, jobs, reporter);
                },
            );
        }
        let (mut untracked, mut ignored) = top.take();
        untracked.sort_unstable();
        ignored.sort_unstable();
        let mut warnings = self.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        warnings.sort_by(|one, other| one.0.cmp(&other.0));
        Found {
            untracked,
            ignored,
            warnings: warnings.into_iter().map(|(_, warning)| warning).collect(),
            directories_read: self.directories_read.into_inner(),
            names_judged: self.names_judged.into_inner(),
            cache_stats: self.recorded.as_ref().map(Recorded::cache_stats),
            cache: self.recorded.and_then(|recorded| recorded.updated_cache(self.index)),
        }
    }

    fn warn(&self, position: Vec<usize>, warning: Warning) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push((position, warning));
    }

    /// Returns true if the directory at `path` is the worktree of another repository.
    fn is_nested(&self, path: &BStr) -> bool {
        let Some(root) = self.repo.work_tree() else { return false };
        let dir = root.join(sys::os_str(path));
        self.repo.is_worktree(&dir) && !self.repo.is_own_worktree(&dir)
    }

    fn reach(&self, dir: &BStr) -> Reach {
        self.pathspecs.reach(dir)
    }

    fn is_selected(&self, path: &BStr) -> bool {
        self.pathspecs.is_empty() || self.pathspecs.matches(path, &mut Seen::default())
    }

    fn is_ignored(&self, level: Option<&Level>, path: &BStr, is_dir: bool) -> bool {
        self.excludes.global.ignores(level, path, is_dir)
    }
}

#[cfg(test)]
mod tests;
