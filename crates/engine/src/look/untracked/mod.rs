//! What of a worktree is not in the index: untracked and ignored files and directories.
//!
//! Promise: the paths Git's `dir.c` would report, in the order of their bytes, whatever the number of threads. Each directory
//! is read at most once, each ignore file too (the listing tells whether there is one), and none that is ignored as a whole
//! unless its content is asked for. Nothing is changed.
//!
//! Order: the directory all pathspecs have in common (`leading`); from there each directory is a job that lists it, judges the
//! names (`judge`) and brings a job for each directory that has to be looked into; the last child to end ends its parent, which
//! then knows what it is itself (`tree`).
//!
//! A directory that cannot be read is told as a warning and counts as empty, as with Git.

mod any;
pub mod cache;
mod judge;
mod leading;
mod quiet;
mod recorded;
mod rules;
mod tracked;
mod tree;
mod upkeep;

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
use repo::Repository;

use sys::{
    ThreadCwd,
    profile::{self, Phase},
};

use crate::{
    crew::{self, Pace, Tuning, Workers},
    look::{
        handle::Handle,
        ignore::{self, Everywhere, Level, Rules},
        pathspec::{Pathspecs, Reach, Seen},
    },
};
pub(crate) use any::any;
use recorded::Recorded;
use tracked::Tracked;
pub(crate) use tree::Listed;
pub use upkeep::Upkeep;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What an untracked directory is reported as.
    pub directories: Directories,
    /// What becomes of ignored paths.
    pub ignored: Ignored,
    /// What becomes of other repositories in the worktree.
    pub nested: Nested,
    /// How many threads.
    pub workers: Workers,
}

/// What an untracked directory is reported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// Each of its files (`status -uall`).
    Files,
    /// One thing, if there is something in it (`status -unormal`).
    WholeUnlessEmpty,
    /// One thing (`clean`).
    Whole,
}

/// What becomes of ignored paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// They are not reported.
    Left,
    /// Nothing else is looked for (`clean -X`).
    Only,
    /// They are reported, a directory with nothing but ignored files as one (`status --ignored`).
    Too,
    /// They are reported as the patterns match them (`status --ignored=matching`).
    Matching,
    /// As `Too`, and what is in an untracked directory is reported with it (`clean -d -x`).
    TooWithContents,
    /// As `Matching`, and what is in an untracked directory is reported with it (`clean -d`).
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

/// What becomes of other repositories in the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nested {
    /// Each is one thing.
    AsOne,
    /// They are not reported.
    Skipped,
}

/// Where ignore rules come from.
#[derive(Clone, Debug, Default)]
pub struct Excludes {
    everywhere: Everywhere,
    /// What `info/exclude` and `core.excludesFile` hold, if these and `.gitignore` files are all there is.
    standard: Option<[Option<Vec<u8>>; 2]>,
    /// What the file of rules in each directory is called, if they are read.
    inside: Option<BString>,
}

impl Excludes {
    /// Git's own: `.gitignore` files, `info/exclude`, `core.excludesFile`; `first` come before these.
    pub fn standard(repo: &Repository, first: &[BString]) -> Result<Excludes, repo::Error> {
        let icase = folds_case(repo)?;
        let outside = ignore::outside_files(repo)?;
        let last = outside.iter().flatten().map(|content| Rules::parse(content, icase)).collect();
        let only = Excludes::only(repo, first)?;
        let standard = first.is_empty().then_some(outside);
        let everywhere = Everywhere { last, ..only.everywhere };
        Ok(Excludes { everywhere, standard, inside: Some(".gitignore".into()) })
    }

    /// The same, without help from an untracked cache.
    pub fn without_cache(self) -> Excludes {
        Excludes { standard: None, ..self }
    }

    /// Nothing but `patterns`.
    pub fn only(repo: &Repository, patterns: &[BString]) -> Result<Excludes, repo::Error> {
        let first = Rules::of_patterns(patterns.iter().map(|pattern| pattern.as_bstr()), folds_case(repo)?);
        Ok(Excludes { everywhere: Everywhere { first, last: Vec::new() }, standard: None, inside: None })
    }

    /// Those of `sources`.
    pub fn of(sources: &ignore::check::Sources) -> Excludes {
        let last = sources.last.iter().rev().map(|source| source.rules.clone()).collect();
        let everywhere = Everywhere { first: sources.first.clone(), last };
        Excludes { everywhere, standard: None, inside: sources.per_directory.clone() }
    }
}

fn folds_case(repo: &Repository) -> Result<bool, repo::Error> {
    Ok(repo.config_bool("core.ignoreCase")?.unwrap_or(false))
}

/// What was found. Directories have a slash at the end; both lists are sorted by bytes.
#[derive(Debug, Default)]
pub struct Found {
    /// Untracked paths.
    pub untracked: Vec<BString>,
    /// Ignored paths.
    pub ignored: Vec<BString>,
    /// What could not be read, in the order in which it was come across.
    pub warnings: Vec<Warning>,
    /// How many directories were read.
    pub directories_read: usize,
    /// How many names there were in them.
    pub names_judged: usize,
    /// The untracked cache as it should be recorded, if directories had to be read although there is one.
    pub cache: Option<UntrackedCache>,
    /// What was done for it, if it was used.
    pub upkeep: Option<Upkeep>,
}

/// What could not be read.
#[derive(Debug)]
pub enum Warning {
    /// A directory, with a slash at its end.
    Directory {
        /// From the root of the worktree.
        path: BString,
        /// Why.
        source: io::Error,
    },
    /// A `.gitignore`.
    IgnoreFile {
        /// From the root of the worktree.
        path: BString,
        /// Why.
        source: io::Error,
    },
    /// A `.gitignore` of more than 100 MiB.
    LargeIgnoreFile {
        /// From the root of the worktree.
        path: BString,
    },
}

impl Warning {
    /// What could not be read.
    pub fn path(&self) -> &BStr {
        let (Warning::Directory { path, .. }
        | Warning::IgnoreFile { path, .. }
        | Warning::LargeIgnoreFile { path }) = self;
        path.as_bstr()
    }

    /// Git's words, with the path as it is.
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

/// Whether `path` (with a slash at its end if it is a directory) is not an entry of `index`.
pub fn is_other(index: &Index, path: &BStr) -> bool {
    Others::of(index).is_other(path)
}

/// [`is_other`] for many paths: those in order are found from where the last one was.
pub struct Others<'a> {
    index: &'a Index,
    from: usize,
}

impl<'a> Others<'a> {
    /// Than the entries of `index`.
    pub fn of(index: &'a Index) -> Others<'a> {
        Others { index, from: 0 }
    }

    /// As [`is_other`].
    pub fn is_other(&mut self, path: &BStr) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        // Slashes at the end are in the order, and not in what is searched.
        if self.from > 0 && self.index.path_at(self.from - 1) >= path {
            self.from = 0;
        }
        self.from = self.index.seek(self.from, path);
        self.from == self.index.len() || self.index.path_at(self.from) != path
    }
}

/// Looks through the worktree `root` of `repo`. `interrupt` ends it early, with part of what is there.
pub fn walk(
    repo: &Repository,
    root: &sys::Dir,
    index: &Index,
    pathspecs: &Pathspecs,
    excludes: &Excludes,
    options: &Options,
    interrupt: &AtomicBool,
) -> Result<Found, repo::Error> {
    let (tuning, beside) = (&Tuning::reading(root), None);
    let company = Company { tuning, beside, reads_late: false };
    walk_beside(repo, root, index, pathspecs, excludes, options, interrupt, company)
}

/// Who or what goes with a walk.
pub(crate) struct Company<'c> {
    pub(crate) tuning: &'c Tuning,
    pub(crate) beside: Option<&'c dyn Beside>,
    /// A `.gitignore` is read when something untracked is met below it, not to tell whether a directory with tracked files is ignored:
    /// where reading takes longer than listing that for nothing.
    pub(crate) reads_late: bool,
}

/// As [`walk`], with somebody who looks at tracked files by the way. Where case is folded nobody does.
#[allow(clippy::too_many_arguments, reason = "those of the public function, and two of its own")]
pub(crate) fn walk_beside(
    repo: &Repository,
    root: &sys::Dir,
    index: &Index,
    pathspecs: &Pathspecs,
    excludes: &Excludes,
    options: &Options,
    interrupt: &AtomicBool,
    Company { tuning, beside, reads_late }: Company<'_>,
) -> Result<Found, repo::Error> {
    let _phase = profile::span(Phase::Plan);
    let folds = folds_case(repo)?;
    let recorded =
        Recorded::of(repo, index, pathspecs, excludes, options)?.filter(|_| !folds && beside.is_some());
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
        beside: beside.filter(|_| !folds),
        tuning,
        reads_late,
        recorded,
    };
    Ok(walk.run())
}

/// Who looks at the tracked files of the directories that are listed.
pub(crate) trait Beside: Sync {
    /// How many files there are to look at.
    fn files(&self) -> usize;

    /// Whether any of the entries `within` is to be looked at.
    fn asks(&self, within: &Range<usize>) -> bool;

    /// `dir` was listed; its path, with a slash at its end, has `prefix` bytes, the entries `within` are in it and below.
    fn directory(
        &self,
        dir: &sys::Dir,
        prefix: usize,
        listed: &Listed<'_>,
        within: &Range<usize>,
        pace: &mut dyn Pace,
    );

    /// A worker's own, if its files are to be looked at from where they are.
    fn thread_cwd(&self) -> Option<ThreadCwd<'_>>;

    /// The directory at `path` (with a slash at its end) was not listed, because it is known what is in it: so are those above, up to `from`.
    fn unlisted(
        &self,
        by: (&Handle, Option<&mut ThreadCwd<'_>>),
        path: &BStr,
        within: &Range<usize>,
        pace: &mut dyn Pace,
    );

    /// Whether the file of the entry at `at`, in such a directory, is the entry's, as far as its stat tells.
    fn is_clean(&self, from: &Handle, at: usize) -> bool;
}

/// One walk.
struct Walk<'a> {
    repo: &'a Repository,
    root: &'a sys::Dir,
    index: &'a Index,
    tracked: Tracked<'a>,
    pathspecs: &'a Pathspecs,
    excludes: &'a Excludes,
    options: &'a Options,
    interrupt: &'a AtomicBool,
    /// With where each was come across.
    warnings: Mutex<Vec<(Vec<usize>, Warning)>>,
    directories_read: AtomicUsize,
    names_judged: AtomicUsize,
    beside: Option<&'a dyn Beside>,
    tuning: &'a Tuning,
    reads_late: bool,
    recorded: Option<Recorded<'a>>,
}

impl Walk<'_> {
    fn run(self) -> Found {
        let top = tree::Node::top();
        let jobs = self.start(&top);
        if !jobs.is_empty() {
            let role = ("untracked", self.tuning);
            let thread_cwd = || self.beside.filter(|_| self.recorded.is_some()).and_then(Beside::thread_cwd);
            let worker = |_| tree::Worker::new(thread_cwd());
            let ahead = self.beside.map_or(0, Beside::files);
            crew::descend(role, self.options.workers, ahead, jobs, worker, |worker, job, jobs, pace| {
                self.look(worker, job, jobs, pace);
            });
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
            upkeep: self.recorded.as_ref().map(Recorded::upkeep),
            cache: self.recorded.and_then(|recorded| recorded.renewed(self.index)),
        }
    }

    fn warn(&self, place: Vec<usize>, warning: Warning) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push((place, warning));
    }

    /// Whether the directory at `path` is the worktree of another repository.
    fn is_nested(&self, path: &BStr) -> bool {
        let Some(root) = self.repo.work_tree() else { return false };
        let dir = root.join(sys::os_str(path));
        self.repo.is_worktree(&dir) && !self.repo.is_own_worktree(&dir)
    }

    fn reach(&self, dir: &BStr) -> Reach {
        self.pathspecs.reach(dir)
    }

    fn is_meant(&self, path: &BStr) -> bool {
        self.pathspecs.is_empty() || self.pathspecs.matches(path, &mut Seen::default())
    }

    fn is_ignored(&self, level: Option<&Level>, path: &BStr, is_dir: bool) -> bool {
        self.excludes.everywhere.ignores(level, path, is_dir)
    }
}

#[cfg(test)]
mod tests;
