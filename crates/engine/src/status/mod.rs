//! Status: the index against the worktree, and what of the worktree is not in the index.
//!
//! Nothing is changed, the index included: what is known afterwards and was not before is in the answer, for who may write.

use std::sync::atomic::AtomicBool;

use bstr::{BStr, BString};
use format::{
    Mode,
    index::{Entry, Flags, Index, Stage, Stat, Word},
};
use repo::{Repository, submodule::Ignore};
use sys::{Dir, FileType};

use crate::{
    checkout::{
        self, PlanError,
        submodules::{State, Submodules},
    },
    diff::{Dirt, Pair, Side},
    pathspec::{Pathspecs, Seen},
    stat::{Match, StatRules},
    untracked::{self, Excludes, Found},
};

/// What is asked.
pub struct Options<'a> {
    /// What is meant.
    pub pathspecs: &'a Pathspecs,
    /// What of the worktree that is not in the index is looked for; `None`: nothing.
    pub untracked: Option<Untracked<'a>>,
    /// What becomes of files that were touched.
    pub touched: Touched,
    /// What counts of submodules (`--ignore-submodules`); `None` is what `.gitmodules` and the configuration say.
    pub submodules: Option<Ignore>,
    /// Untracked files within submodules do not count, whatever is said elsewhere (`-uno`).
    pub ignore_untracked_in_submodules: bool,
    /// Ends it early.
    pub interrupt: &'a AtomicBool,
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
    /// What differs from the index, in its order; an unmerged path once.
    pub changes: Vec<Pair>,
    /// Entries whose files are theirs although the stat data in the index say otherwise, with the right ones.
    pub refreshed: Vec<(usize, Stat)>,
    /// Entries that were looked at and found clean, `refreshed` or not, if the monitor was asked: it may vouch for them from
    /// here on ([`Index::vouch`]).
    pub proved: Vec<usize>,
    /// What is not in the index.
    pub found: Found,
    /// What is to be said of `.gitmodules`.
    pub warnings: Vec<BString>,
}

/// Looks at the worktree `root` of `repo`.
///
/// If the file system monitor was asked ([`Index::word`]), entries that it vouches for ([`Index::is_vouched_for`]) are not looked at: they are
/// clean. With [`Word::Changes`] neither are directories that the untracked cache calls valid;
/// [`crate::monitor::apply`] has seen to it that none is that changed. Whoever asked did so before this begins, so what
/// is found clean here may be vouched for: a later change is reported to who asks next.
pub fn examine(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    options: &Options<'_>,
) -> Result<Worktree, PlanError> {
    let mut refreshed = index.clone();
    let unclean = checkout::refresh(repo, root, &mut refreshed)?;
    let rules = StatRules::of(repo)?;
    let submodules = Submodules::new(repo, root, Ignore::None)?;
    let mut worktree = Worktree::default();
    let is_meant = |path: &BStr, mode| {
        options.pathspecs.is_empty() || options.pathspecs.matches_entry(path, mode, &mut Seen::default())
    };
    let is_watched = index.word() != Word::NotAsked;
    let mut last = BStr::new("");
    for (at, entry) in index.entries().iter().enumerate() {
        let path = index.path(entry);
        let is_first = path != last;
        last = path;
        let is_vouched_for = entry.stage == Stage::Normal && index.is_vouched_for(entry);
        if !is_first || is_vouched_for || !is_meant(path, entry.mode) {
            continue;
        }
        let found = || root.stat(path).map_err(|source| PlanError::Examine { path: path.to_owned(), source });
        if entry.stage != Stage::Normal {
            let new = found()?.and_then(|stat| side(&rules, entry, &stat));
            worktree.changes.push(Pair::unmerged(path.to_owned(), new));
            continue;
        }
        let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
        if entry.mode.is_gitlink() {
            let mut ignore = match options.submodules {
                Some(ignore) => ignore,
                None => submodules.ignore(index, path)?,
            };
            if ignore == Ignore::None && options.ignore_untracked_in_submodules {
                ignore = Ignore::Untracked;
            }
            let dirt = match submodules.state(index, entry)? {
                State::There(_) => submodules.dirt(index, entry, ignore)?,
                State::Missing if ignore == Ignore::All => continue,
                State::Missing | State::Replaced => {
                    let new = found()?.and_then(|stat| side(&rules, entry, &stat));
                    worktree.changes.push(Pair::new(path.to_owned(), old, new));
                    continue;
                }
            };
            if dirt != Dirt::default() {
                let new = Some(Side { mode: Mode::GITLINK, oid: None });
                worktree.changes.push(Pair { dirt, ..Pair::new(path.to_owned(), old, new) });
            }
            continue;
        }
        let is_unclean = unclean.iter().find(|change| change.path == path);
        if is_unclean.is_none() && refreshed.entries()[at].flags.contains(Flags::UPTODATE) && is_watched {
            worktree.proved.push(at);
        }
        match is_unclean {
            None if options.touched == Touched::Changed
                && let Some(stat) = found()?
                && rules.compare(entry, &stat, index.timestamp) == Match::Touched =>
            {
                worktree.changes.push(Pair::new(path.to_owned(), old, side(&rules, entry, &stat)));
            }
            None if refreshed.entries()[at].stat != entry.stat => {
                worktree.refreshed.push((at, refreshed.entries()[at].stat));
            }
            None => {}
            Some(change) => {
                let new = match change.is_displaced {
                    true => None,
                    false => found()?.and_then(|stat| side(&rules, entry, &stat)),
                };
                // What is only intended to be added is new, or gone again.
                let is_intended = entry.flags.contains(Flags::INTENT_TO_ADD);
                let old = old.filter(|_| !is_intended || new.is_none());
                worktree.changes.push(Pair::new(path.to_owned(), old, new));
            }
        }
    }
    worktree.warnings = submodules.warnings().to_vec();
    if let Some(Untracked { options: how, excludes }) = &options.untracked {
        worktree.found =
            untracked::walk(repo, root, index, options.pathspecs, excludes, how, options.interrupt)?;
    }
    Ok(worktree)
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
        FileType::Directory | FileType::Other => return None,
    };
    Some(Side { mode, oid: None })
}
