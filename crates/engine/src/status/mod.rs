//! Status: the index against the worktree, and what of the worktree is not in the index.
//!
//! Nothing is changed, the index included: what is known afterwards and was not before is in the answer, for who may write.

pub mod adopt;
mod dirt;
pub mod files;

use std::{
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use bstr::BString;
use format::{
    Mode,
    index::{Entry, Flags, Index, Stage, Stat, Word},
};
use repo::{Repository, submodule::Ignore};
use sys::{
    Dir, FileType,
    profile::{self, Phase},
};

pub use crate::look::scan::workers;
use crate::{
    crew::{self, Deferred, Tuning, Workers},
    diff::{Dirt, Missing, Pair, Side, SubmoduleIgnore},
    look::{
        LookError,
        content::{self, Lazy},
        pathspec::Pathspecs,
        scan::{Note, Scan, Sight, again, sweep::Cold},
        stat::{Match, StatRules, index_stat},
        submodules::{self, Submodules},
        untracked::{self, Excludes, Found},
    },
};
pub use dirt::changes_within;
pub(crate) use dirt::{Counted, dirt};

/// What is asked.
pub struct Options<'a> {
    /// What is meant.
    pub pathspecs: &'a Pathspecs,
    /// What of the worktree that is not in the index is looked for; `None`: nothing.
    pub untracked: Option<Untracked<'a>>,
    /// What becomes of files that were touched.
    pub touched: Touched,
    /// The file of an unmerged path is compared with the entry of this stage besides; `None`: with none.
    pub unmerged: Option<Stage>,
    /// The changes of submodules that count.
    pub submodules: SubmoduleIgnore,
    /// What becomes of a submodule that is missing: nobody is asked about one that counts as it is in the index.
    pub missing: Missing,
    /// Untracked files within submodules do not count, where nothing is said of one (`-uno`).
    pub ignore_untracked_in_submodules: bool,
    /// Called if tracked files have to be fetched from a disk of our own, once it is known how that answers: what else has to be is best
    /// fetched from here on.
    pub when_cold: &'a (dyn Fn() + Sync),
    /// Ends it early.
    pub interrupt: &'a AtomicBool,
}

impl<'a> Options<'a> {
    /// For all tracked files, as `status` has them.
    pub(crate) fn tracked(pathspecs: &'a Pathspecs, interrupt: &'a AtomicBool) -> Self {
        Options {
            pathspecs,
            untracked: None,
            touched: Touched::Compared,
            unmerged: None,
            submodules: SubmoduleIgnore::Configured,
            missing: Missing::Gone,
            ignore_untracked_in_submodules: false,
            when_cold: &|| (),
            interrupt,
        }
    }
}

/// What of a file whose stat data are not those in the index, but may be the same all the same ([`Match::Touched`]). What is racy is compared always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Its content decides.
    Compared,
    /// It is a change, as for Git's plumbing, which does not refresh.
    Changed,
}

/// What is looked for that is not in the index.
pub struct Untracked<'a> {
    /// How.
    pub options: untracked::Options,
    /// By what rules it is ignored.
    pub excludes: &'a Excludes,
}

/// What the worktree is like.
#[derive(Debug, Default)]
pub struct Worktree {
    /// What differs from the index, in its order. An unmerged path comes as such, and then as the change of the entry that was asked for
    /// ([`Options::unmerged`]).
    pub changes: Vec<Pair>,
    /// Entries whose files are theirs although the stat data in the index say otherwise, with the right ones.
    pub refreshed: Vec<(usize, Stat)>,
    /// Entries that were looked at and found clean, `refreshed` or not, if the monitor was asked: it may vouch for them from
    /// here on ([`Index::vouch`]).
    pub proved: Vec<usize>,
    /// What is not in the index.
    pub found: Found,
    /// How long, before that, tracked files were looked at, where the caches were cold.
    pub swept: Duration,
    /// Entries of which nothing can be said, and why; each stage of an unmerged path. Git says so, and goes on as if they were unchanged.
    pub unreadable: Vec<(BString, std::io::Error)>,
    /// What is to be said of `.gitmodules`.
    pub warnings: Vec<BString>,
}

/// Looks at the worktree `root` of `repo`.
///
/// If the file system monitor was asked ([`Index::word`]), entries that it vouches for ([`Index::is_vouched_for`]) are not looked at: they are
/// clean. So are files marked up to date ([`Flags::UPTODATE`]). With [`Word::Changes`] neither are directories that the untracked cache calls valid;
/// [`crate::look::monitor::apply`] has seen to it that none is that changed. Whoever asked did so before this begins, so what
/// is found clean here may be vouched for: a later change is reported to who asks next.
pub fn examine(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    options: &Options<'_>,
) -> Result<Worktree, LookError> {
    examine_on(&|scan, workers| scan.cold(workers), repo, root, index, options)
}

/// The same on a disk of which `cold` tells how it answers.
fn examine_on(
    cold: &dyn Fn(&Scan<'_>, Workers) -> Option<Cold>,
    repo: &Repository,
    root: &Dir,
    index: &Index,
    options: &Options<'_>,
) -> Result<Worktree, LookError> {
    let _phase = profile::span(Phase::Plan);
    let rules = StatRules::of(repo)?;
    let tuning = Tuning::reading(root);
    let workers = workers(repo)?;
    let mut scan = Scan::new(root, index, (rules, &tuning), options.pathspecs, options.interrupt);
    let walk = |beside, reads_late, workers| match &options.untracked {
        Some(Untracked { options: how, excludes }) => untracked::walk_beside(
            repo,
            root,
            index,
            options.pathspecs,
            excludes,
            &untracked::Options { workers, ..*how },
            options.interrupt,
            untracked::Company { tuning: &tuning, beside, reads_late },
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
        // The untracked cache knows what is in directories from their stats.
        Some(Cold::ManyAtOnce) if options.untracked.is_some() && index.untracked.is_none() => {
            let sweep = || scan.sweep(workers, Cold::ManyAtOnce, false);
            let found = thread::scope(|scope| {
                let sweep = Deferred::new(&sweep);
                sweep.start(scope);
                let found = walk(None, true, crew::beside(workers));
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
    let judge = Judge { repo, root, index, rules, options, submodules };
    let mut worktree = judge.judge(scan)?;
    worktree.found = found;
    worktree.swept = swept;
    Ok(worktree)
}

/// Makes differences of what was seen.
struct Judge<'a> {
    repo: &'a Repository,
    root: &'a Dir,
    index: &'a Index,
    rules: StatRules,
    options: &'a Options<'a>,
    submodules: Submodules<'a>,
}

impl Judge<'_> {
    fn judge(&self, scan: Scan<'_>) -> Result<Worktree, LookError> {
        let mut worktree = Worktree::default();
        let asked = self.is_watched().then(|| scan.asked());
        let notes = scan.into_notes();
        // Of most it is clear without a look at the entry.
        let compared = |note: &Note| match note.verdict {
            Match::Racy => true,
            Match::Touched => self.options.touched == Touched::Compared,
            Match::Same | Match::Different => false,
        };
        let is_file = |note: &Note| {
            let entry = &self.index.entry(note.at);
            entry.stage == Stage::Normal && !entry.mode.is_gitlink()
        };
        let unsure: Vec<usize> =
            notes.iter().filter(|note| compared(note) && is_file(note)).map(|note| note.at).collect();
        let same = content::same_content(self.root, self.index, &unsure, &Lazy::new(self.repo, self.index))?;
        let mut same = same.into_iter();
        let mut differ = Vec::new();
        for note in notes {
            let entry = &self.index.entry(note.at);
            if compared(&note) && is_file(&note) && same.next() == Some(true) {
                if let Sight::There(stat) = &note.sight
                    && index_stat(stat) != entry.stat
                {
                    worktree.refreshed.push((note.at, index_stat(stat)));
                }
                continue;
            }
            differ.push(note.at);
            match note.sight {
                Sight::Unreadable(source) => {
                    let path = self.index.path(entry);
                    // Git looks for the file of each stage.
                    let stages = self.index.range_of(path).len();
                    let told = (0..stages).map(|_| (path.to_owned(), again(&source)));
                    worktree.unreadable.extend(told);
                }
                Sight::There(stat) => self.tell(entry, Some(&stat), &mut worktree.changes)?,
                Sight::Missing | Sight::Behind(_) => self.tell(entry, None, &mut worktree.changes)?,
            }
        }
        if let Some(asked) = asked {
            let mut differ = differ.into_iter().peekable();
            worktree.proved = asked.filter(|at| differ.next_if_eq(at).is_none()).collect();
        }
        worktree.warnings = self.submodules.warnings().to_vec();
        Ok(worktree)
    }

    fn is_watched(&self) -> bool {
        self.index.word() != Word::NotAsked
    }

    /// An entry that is not as recorded, or unmerged.
    fn tell(
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

    /// What is there in an entry's place.
    fn side(&self, entry: &Entry, stat: Option<&sys::Stat>) -> Option<Side> {
        let stat = stat?;
        let is_repository = || submodules::head(self.repo, self.index.path(entry)).is_some();
        side(&self.rules, entry, stat).or_else(|| {
            let is_repository = stat.file_type == FileType::Directory && is_repository();
            is_repository.then_some(Side { mode: Mode::GITLINK, oid: None })
        })
    }

    /// An entry that is not as recorded, as far as its stat, or what was read, tells.
    fn change(&self, entry: &Entry, stat: Option<&sys::Stat>) -> Result<Option<Pair>, LookError> {
        let path = self.index.path(entry);
        let compares = self.options.touched == Touched::Compared;
        let new = self.side(entry, stat);
        let is_directory = stat.is_some_and(|stat| stat.file_type == FileType::Directory);
        let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
        let is_intended = entry.flags.contains(Flags::INTENT_TO_ADD);
        if entry.mode.is_gitlink() {
            let ignore = match self.options.submodules {
                SubmoduleIgnore::Given(ignore) => ignore,
                _ if stat.is_none() && self.options.missing == Missing::AsIndexed => Ignore::None,
                SubmoduleIgnore::Configured | SubmoduleIgnore::BySubmodule => {
                    self.submodules.ignore(self.index, path)?
                }
            };
            let dirt = match (is_directory, stat) {
                _ if ignore == Ignore::All => return Ok(None),
                (true, _) if is_intended => return Ok(Some(Pair::new(path.to_owned(), None, new))),
                (true, _) => self.submodules.dirt(self.index, entry, ignore, changes_within)?,
                (_, Some(stat))
                    if compares && ignore != Ignore::Dirty && stat.file_type == FileType::Symlink =>
                {
                    return Err(LookError::LinkedSubmodule { path: path.to_owned() });
                }
                (false, _) => return Ok(Some(Pair::new(path.to_owned(), old, new))),
            };
            return Ok((dirt != Dirt::default()).then(|| {
                let new = Some(Side { mode: Mode::GITLINK, oid: None });
                Pair { dirt, ..Pair::new(path.to_owned(), old, new) }
            }));
        }
        // What is only intended to be added is new, or gone again.
        let old = old.filter(|_| !is_intended || new.is_none());
        Ok(Some(Pair::new(path.to_owned(), old, new)))
    }
}

/// What a file of the worktree would be in the index.
fn side(rules: &StatRules, entry: &Entry, stat: &sys::Stat) -> Option<Side> {
    let mode = match stat.file_type {
        FileType::Symlink => Mode::SYMLINK,
        FileType::File if !rules.symlinks && entry.mode.is_symlink() => Mode::SYMLINK,
        FileType::File if !rules.file_mode && entry.mode.is_file() => entry.mode,
        FileType::File if rules.file_mode && stat.is_executable() => Mode::EXECUTABLE,
        FileType::File => Mode::FILE,
        FileType::Directory if entry.mode.is_gitlink() => Mode::GITLINK,
        FileType::Directory => return None,
        // To Git what is nothing else is a file.
        FileType::Other if stat.mode & 0o100 != 0 => Mode::EXECUTABLE,
        FileType::Other => Mode::FILE,
    };
    Some(Side { mode, oid: None })
}

#[cfg(test)]
mod cold_tests;
