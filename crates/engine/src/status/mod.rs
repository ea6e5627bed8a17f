//! Status: the differences between index and worktree, and the untracked files.
//!
//! Nothing is changed, not even the index. The result contains facts that the caller may write to
//! the index.

pub mod adopt;
mod change_kinds;
pub mod files;

use std::{
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use bstr::BString;
use format::{
    Mode,
    index::{Entry, Flags, Index, MonitorAnswer, Stage, Stat},
};
use repo::{Repository, submodule::Ignore};
use sys::{
    Dir, FileType,
    profile::{self, Phase},
};

pub use crate::look::scan::workers;
use crate::{
    crew::{self, Deferred, Meter, Tuning, Workers},
    diff::{Missing, Pair, Side, SubmoduleChanges, SubmoduleIgnore},
    look::{
        LookError,
        content::{self, LazyConverter},
        copy_error,
        pathspec::Pathspecs,
        scan::{Note, PathState, Scan, ScanTarget, sweep::ColdDisk},
        stat::{Match, StatRules, index_stat},
        submodules::{self, Submodules},
        untracked::{self, Excludes, Found},
    },
};
pub use change_kinds::changes_within;
pub(crate) use change_kinds::{CountedChanges, change_kinds};

/// The options of a status.
pub struct Options<'a> {
    /// The selected paths.
    pub pathspecs: &'a Pathspecs,
    /// The search for untracked files; `None` skips it.
    pub untracked: Option<Untracked<'a>>,
    /// The treatment of touched files.
    pub touched: Touched,
    /// The stage with which the file of an unmerged path is also compared; `None` for no
    /// comparison.
    pub unmerged: Option<Stage>,
    /// The source of the policy for changes in submodules.
    pub submodules: SubmoduleIgnore,
    /// The treatment of a missing submodule. With [`Missing::AsIndexed`] its policy is not looked
    /// up.
    pub missing: Missing,
    /// Ignore untracked files within submodules that have no policy of their own (`-uno`).
    pub ignore_untracked_in_submodules: bool,
    /// Called once the access pattern of the disk is known, if tracked files have to be read from a
    /// local disk with cold caches. The caller may then start to read other data in parallel.
    pub when_cold: &'a (dyn Fn() + Sync),
    /// Flag that stops the examination early.
    pub interrupt: &'a AtomicBool,
    /// Counts the entries that are decided.
    pub meter: Option<&'a Meter>,
}

impl<'a> Options<'a> {
    /// Options for all tracked files, as `status` examines them.
    pub(crate) fn tracked(pathspecs: &'a Pathspecs, interrupt: &'a AtomicBool) -> Self {
        Options {
            pathspecs,
            untracked: None,
            touched: Touched::Compared,
            unmerged: None,
            submodules: SubmoduleIgnore::Configured,
            missing: Missing::Deleted,
            ignore_untracked_in_submodules: false,
            when_cold: &|| (),
            interrupt,
            meter: None,
        }
    }
}

/// The treatment of files whose stat data differ from the index, but whose content may be equal
/// ([`Match::Touched`]). Racy files are always compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The content decides.
    Compared,
    /// The file counts as changed, as in Git's plumbing, which does not refresh.
    Changed,
    /// Like `Changed`, also for racy files, because the caller stores all of them.
    Suspected,
}

/// The search for untracked files.
pub struct Untracked<'a> {
    /// The options of the search.
    pub options: untracked::Options,
    /// The ignore rules.
    pub excludes: &'a Excludes,
}

/// The result of a status.
#[derive(Debug, Default)]
pub struct Worktree {
    /// The differences from the index, in its order. An unmerged path is listed as unmerged, then
    /// as a change of the entry of the requested stage ([`Options::unmerged`]).
    pub changes: Vec<Pair>,
    /// Entries whose files match although their stat data in the index are outdated, with the new
    /// stat data.
    pub refreshed: Vec<(usize, Stat)>,
    /// Entries that were examined and found clean, refreshed or not, if the monitor was queried.
    /// The monitor may vouch for them from now on ([`Index::set_fsmonitor_valid`]).
    pub proven_clean: Vec<usize>,
    /// The untracked and ignored paths.
    pub found: Found,
    /// The time spent on tracked files before the search for untracked files, if the caches were
    /// cold.
    pub swept: Duration,
    /// Entries that could not be examined, with the error; once for each stage of an unmerged path.
    /// Git prints the errors and treats the entries as unchanged.
    pub unreadable: Vec<(BString, std::io::Error)>,
    /// Warnings about `.gitmodules`.
    pub warnings: Vec<BString>,
}

/// Examines the worktree `root` of `repo`.
///
/// If the file system monitor was queried ([`Index::monitor_answer`]), entries that it vouches for
/// ([`Index::is_fsmonitor_valid`]) count as clean without an examination, as do files marked up to
/// date ([`Flags::UPTODATE`]). With [`MonitorAnswer::Changes`], directories with a valid record in
/// the untracked cache are not read either: [`crate::look::monitor::apply`] has invalidated the
/// changed ones. The monitor has to be queried before this function starts. A file found clean here
/// may then be vouched for, because the next query reports any later change.
pub fn examine(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    options: &Options<'_>,
) -> Result<Worktree, LookError> {
    examine_on(&|scan, workers| scan.cold(workers), repo, root, index, options)
}

/// Like [`examine`], with `cold` to detect cold caches.
fn examine_on(
    cold: &dyn Fn(&Scan<'_>, Workers) -> Option<ColdDisk>,
    repo: &Repository,
    root: &Dir,
    index: &Index,
    options: &Options<'_>,
) -> Result<Worktree, LookError> {
    let _phase = profile::span(Phase::Plan);
    let rules = StatRules::of(repo)?;
    let tuning = Tuning::reading(root);
    let workers = workers(repo)?;
    let mut scan = Scan::new(
        ScanTarget {
            root,
            index,
            rules,
            tuning: &tuning,
            interrupt: options.interrupt,
            meter: options.meter,
        },
        options.pathspecs,
    );
    let walk = |observer, reads_late, workers| match &options.untracked {
        Some(Untracked { options: how, excludes }) => untracked::walk_observed(
            repo,
            root,
            index,
            options.pathspecs,
            excludes,
            &untracked::Options { workers, ..*how },
            options.interrupt,
            untracked::WalkContext { tuning: &tuning, observer, reads_late, meter: None },
        ),
        None => Ok(Found::default()),
    };
    let began = Instant::now();
    let cold = cold(&scan, workers);
    if cold.is_some() {
        (options.when_cold)();
    }
    let (found, swept) = match cold {
        None => (walk(Some(&scan), false, workers)?, Duration::ZERO),
        // With an untracked cache, the walk stats directories instead of listing them. It then does
        // not run in parallel with the sweep.
        Some(ColdDisk::ManyAtOnce) if options.untracked.is_some() && index.untracked.is_none() => {
            let sweep = || scan.sweep(workers, ColdDisk::ManyAtOnce, false);
            let found = thread::scope(|scope| {
                let sweep = Deferred::new(&sweep);
                sweep.start(scope);
                let found = walk(None, true, crew::secondary(workers));
                sweep.get();
                found
            })?;
            (found, began.elapsed())
        }
        Some(cold) => {
            scan.sweep(workers, cold, true);
            let swept = began.elapsed();
            (walk(Some(&scan), true, workers)?, swept)
        }
    };
    scan.run(workers);
    let submodules = match (options.touched, options.submodules) {
        (Touched::Changed, SubmoduleIgnore::BySubmodule | SubmoduleIgnore::Given(_)) => {
            Submodules::for_plumbing(repo)
        }
        _ if options.ignore_untracked_in_submodules => {
            Submodules::new(repo, Ignore::None)?.without_untracked()
        }
        _ => Submodules::new(repo, Ignore::None)?,
    };
    let classify = Classifier { repo, root, index, rules, options, submodules };
    let mut worktree = classify.classify(scan)?;
    worktree.found = found;
    worktree.swept = swept;
    Ok(worktree)
}

/// Converts the notes of a scan to differences.
struct Classifier<'a> {
    repo: &'a Repository,
    root: &'a Dir,
    index: &'a Index,
    rules: StatRules,
    options: &'a Options<'a>,
    submodules: Submodules<'a>,
}

impl Classifier<'_> {
    fn classify(&self, scan: Scan<'_>) -> Result<Worktree, LookError> {
        let mut worktree = Worktree::default();
        let examined = self.is_watched().then(|| scan.selected());
        let notes = scan.into_notes();
        // This decides most notes without reading the index entry.
        let compared = |note: &Note| match note.verdict {
            Match::Racy => self.options.touched != Touched::Suspected,
            Match::Touched => self.options.touched == Touched::Compared,
            Match::Same | Match::Different => false,
        };
        let is_file = |note: &Note| {
            let entry = &self.index.entry(note.at);
            entry.stage == Stage::Normal && !entry.mode.is_gitlink()
        };
        let unsure: Vec<usize> =
            notes.iter().filter(|note| compared(note) && is_file(note)).map(|note| note.at).collect();
        let same = content::same_content(
            self.root,
            self.index,
            &unsure,
            &LazyConverter::new(self.repo, self.index),
            self.options.meter,
        )?;
        let mut same = same.into_iter();
        let mut differ = Vec::new();
        for note in notes {
            let entry = &self.index.entry(note.at);
            if compared(&note) && is_file(&note) && same.next() == Some(true) {
                if let PathState::There(stat) = &note.state
                    && index_stat(stat) != entry.stat
                {
                    worktree.refreshed.push((note.at, index_stat(stat)));
                }
                continue;
            }
            differ.push(note.at);
            match note.state {
                PathState::Unreadable(source) => {
                    let path = self.index.path(entry);
                    // Git reports the error once for each stage.
                    let stages = self.index.range_of(path).len();
                    let errors = (0..stages).map(|_| (path.to_owned(), copy_error(&source)));
                    worktree.unreadable.extend(errors);
                }
                PathState::There(stat) => self.add_changes(entry, Some(&stat), &mut worktree.changes)?,
                PathState::Missing | PathState::Behind(_) => {
                    self.add_changes(entry, None, &mut worktree.changes)?
                }
            }
        }
        if let Some(examined) = examined {
            let mut differ = differ.into_iter().peekable();
            worktree.proven_clean = examined.filter(|at| differ.next_if_eq(at).is_none()).collect();
        }
        worktree.warnings = self.submodules.warnings().to_vec();
        Ok(worktree)
    }

    fn is_watched(&self) -> bool {
        self.index.monitor_answer() != MonitorAnswer::NotAsked
    }

    /// Adds the changes of an entry that differs or is unmerged.
    fn add_changes(
        &self,
        entry: &Entry,
        stat: Option<&sys::Stat>,
        changes: &mut Vec<Pair>,
    ) -> Result<(), LookError> {
        if entry.stage == Stage::Normal {
            changes.extend(self.change(entry, stat)?);
            return Ok(());
        }
        let path = self.index.path(entry);
        changes.push(Pair::unmerged(path.to_owned(), self.side(entry, stat)));
        let compared = self.options.unmerged.and_then(|stage| self.index.position(path, stage).ok());
        if let Some(at) = compared {
            changes.extend(self.change(&self.index.entry(at), stat)?);
        }
        Ok(())
    }

    /// Returns the worktree's side of an entry.
    fn side(&self, entry: &Entry, stat: Option<&sys::Stat>) -> Option<Side> {
        let stat = stat?;
        let is_repository = || submodules::head(self.repo, self.index.path(entry)).is_some();
        side(&self.rules, entry, stat).or_else(|| {
            let is_repository = stat.file_type == FileType::Directory && is_repository();
            is_repository.then_some(Side { mode: Mode::GITLINK, oid: None })
        })
    }

    /// Returns the difference between an entry and its file, based on stat data and content.
    fn change(&self, entry: &Entry, stat: Option<&sys::Stat>) -> Result<Option<Pair>, LookError> {
        let path = self.index.path(entry);
        let compares = self.options.touched == Touched::Compared;
        let new = self.side(entry, stat);
        let is_directory = stat.is_some_and(|stat| stat.file_type == FileType::Directory);
        let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
        let is_intent_to_add = entry.flags.contains(Flags::INTENT_TO_ADD);
        if entry.mode.is_gitlink() {
            let ignore = match self.options.submodules {
                SubmoduleIgnore::Given(ignore) => ignore,
                _ if stat.is_none() && self.options.missing == Missing::AsIndexed => Ignore::None,
                SubmoduleIgnore::Configured | SubmoduleIgnore::BySubmodule => {
                    self.submodules.ignore(self.index, path)?
                }
            };
            let submodule_changes = match (is_directory, stat) {
                _ if ignore == Ignore::All => return Ok(None),
                (true, _) if is_intent_to_add => return Ok(Some(Pair::new(path.to_owned(), None, new))),
                (true, _) => self.submodules.changes(self.index, entry, ignore, changes_within)?,
                (_, Some(stat))
                    if compares && ignore != Ignore::Dirty && stat.file_type == FileType::Symlink =>
                {
                    return Err(LookError::LinkedSubmodule { path: path.to_owned() });
                }
                (false, _) => return Ok(Some(Pair::new(path.to_owned(), old, new))),
            };
            return Ok((submodule_changes != SubmoduleChanges::default()).then(|| {
                let new = Some(Side { mode: Mode::GITLINK, oid: None });
                Pair { submodule_changes, ..Pair::new(path.to_owned(), old, new) }
            }));
        }
        // An intent-to-add entry is a new file, or has no file.
        let old = old.filter(|_| !is_intent_to_add || new.is_none());
        Ok(Some(Pair::new(path.to_owned(), old, new)))
    }
}

/// Returns the side that a worktree file would have in the index.
fn side(rules: &StatRules, entry: &Entry, stat: &sys::Stat) -> Option<Side> {
    let mode = match stat.file_type {
        FileType::Symlink => Mode::SYMLINK,
        FileType::File if !rules.symlinks && entry.mode.is_symlink() => Mode::SYMLINK,
        FileType::File if !rules.file_mode && entry.mode.is_file() => entry.mode,
        FileType::File if rules.file_mode && stat.is_executable() => Mode::EXECUTABLE,
        FileType::File => Mode::FILE,
        FileType::Directory if entry.mode.is_gitlink() => Mode::GITLINK,
        FileType::Directory => return None,
        // Git treats any other kind of file as a regular file.
        FileType::Other if stat.mode & 0o100 != 0 => Mode::EXECUTABLE,
        FileType::Other => Mode::FILE,
    };
    Some(Side { mode, oid: None })
}

#[cfg(test)]
mod cold_tests;
