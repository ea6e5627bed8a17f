//! The stat data of all entries brought up to date: Git's `refresh_index`, as `update-index --refresh` has it.
//!
//! Entries are compared in parallel (see [`checkout::refresh()`](crate::checkout::refresh)); what is said of them is in their order.

use bstr::{BString, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stage, Word};
use sys::{Dir, FileType};

use crate::{
    checkout::{
        self, Looked, PlanError, Positions,
        facts::{Seen, Want},
        submodules,
    },
    stat::{Match, index_stat},
};

/// How.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefreshOptions {
    /// Entries that are assumed unchanged are compared too, and those that are not unchanged lose that mark (`--really-refresh`).
    pub really: bool,
    /// Unmerged paths are passed over (`--unmerged`).
    pub unmerged: bool,
    /// So are files that are not there (`--ignore-missing`).
    pub ignore_missing: bool,
    /// So are submodules (`--ignore-submodules`).
    pub ignore_submodules: bool,
    /// What is compared really is assumed unchanged from then on (`core.ignoreStat`).
    pub assume_unchanged: bool,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Its file is not there, or not the entry's.
    NeedsUpdate(BString),
    /// It is unmerged.
    NeedsMerge(BString),
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// In order; an unmerged path once.
    pub findings: Vec<Finding>,
    /// Something was changed that is worth writing.
    pub changed: bool,
}

/// Compares the entries of `index` with the files in `worktree`.
pub fn refresh(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &mut Index,
    options: &RefreshOptions,
) -> Result<Refreshed, PlanError> {
    let trusted = |entry: &Entry| {
        let trusts = if options.really { Flags::empty() } else { Flags::ASSUME_VALID };
        entry.flags.intersects(trusts | Flags::SKIP_WORKTREE)
    };
    let passed_over =
        |entry: &Entry| entry.mode.is_tree() || (options.ignore_submodules && entry.mode.is_gitlink());
    let is_asked = |entry: &Entry| {
        entry.stage == Stage::Normal
            && !passed_over(entry)
            && !trusted(entry)
            && !entry.flags.contains(Flags::UPTODATE)
            && !index.is_vouched_for(entry)
    };
    // Of most there is nothing to be said, and they need not even be read then.
    let is_all = index.is_plain()
        && index.word() == Word::NotAsked
        && index.gitlinks().next().is_none()
        && !(options.really && options.assume_unchanged);
    let some: Vec<usize> = match is_all {
        true => Vec::new(),
        false => (0..index.len()).filter(|&at| is_asked(&index.entry(at))).collect(),
    };
    let asked = if is_all { Positions::All } else { Positions::These(&some) };
    let looked = checkout::compare(repo, worktree, index, asked, Want::StatIfAny)?;
    let told: Vec<usize> = match is_all {
        true => looked.iter().map(|looked| looked.at).collect(),
        false => (0..index.len()).collect(),
    };
    let (mut some, mut looked) = (some.into_iter().peekable(), looked.into_iter().peekable());
    let mut refreshed = Refreshed::default();
    for &at in &told {
        let entry = &index.entry(at);
        if passed_over(entry) {
            continue;
        }
        if entry.stage != Stage::Normal {
            let path = index.path(entry);
            let again = matches!(refreshed.findings.last(), Some(Finding::NeedsMerge(last)) if last == path);
            if !options.unmerged && !again {
                refreshed.findings.push(Finding::NeedsMerge(path.to_owned()));
            }
            continue;
        }
        if !is_all && some.next_if_eq(&at).is_none() {
            index.entries_mut()[at].flags.insert(Flags::UPTODATE);
            continue;
        }
        let marks = options.really && options.assume_unchanged && !entry.flags.contains(Flags::ASSUME_VALID);
        let (seen, verdict, as_it_was) = match looked.next_if(|looked| looked.at == at) {
            Some(Looked { seen, verdict, as_it_was, .. }) => (seen, verdict, as_it_was),
            None if !marks => {
                index.entries_mut()[at].flags.insert(Flags::UPTODATE);
                refreshed.changed |= index.vouch(at);
                continue;
            }
            // It is recorded anew, with all of its stat data.
            None => match worktree.stat(index.path(entry)) {
                Ok(Some(stat)) => (Seen::There(stat), Match::Same, true),
                _ => (Seen::Absent, Match::Different, false),
            },
        };
        let stat = match seen {
            Seen::There(stat) => stat,
            seen => {
                // As `ENOENT` counts what is behind a link, not what is behind a file.
                let missing = match seen {
                    Seen::Blocked(_, stat) => stat.file_type == FileType::Symlink,
                    Seen::Unknown => false,
                    Seen::Absent | Seen::There(_) => true,
                };
                if !(missing && options.ignore_missing) {
                    refreshed.findings.push(Finding::NeedsUpdate(index.path(entry).to_owned()));
                }
                continue;
            }
        };
        let gitlink = entry.mode.is_gitlink();
        let moved = gitlink && {
            let head = submodules::head(repo, index.path(entry));
            head.is_some_and(|head| head != entry.oid)
        };
        if verdict != Match::Same || moved {
            refreshed.findings.push(Finding::NeedsUpdate(index.path(entry).to_owned()));
            if options.really {
                let path = index.path(entry).to_owned();
                index.entries_mut()[at].flags.remove(Flags::ASSUME_VALID);
                if index.word() != Word::NotAsked {
                    index.entries_mut()[at].flags.remove(Flags::FSMONITOR_VALID);
                    if let Some(untracked) = &mut index.untracked {
                        untracked.invalidate(path.as_bstr());
                    }
                }
                refreshed.changed = true;
            }
            continue;
        }
        let entry = &mut index.entries_mut()[at];
        if as_it_was && !marks {
            if !gitlink {
                entry.flags.insert(Flags::UPTODATE);
                refreshed.changed |= index.vouch(at);
            }
            continue;
        }
        entry.stat = index_stat(&stat);
        if marks {
            entry.flags.insert(Flags::ASSUME_VALID);
        }
        if stat.file_type == FileType::File {
            entry.flags.insert(Flags::UPTODATE);
            index.vouch(at);
        }
        refreshed.changed = true;
    }
    if is_all && (refreshed.changed || index.has_racy()) {
        let mut told = told.into_iter().peekable();
        for (at, entry) in index.entries_mut().iter_mut().enumerate() {
            if told.next_if_eq(&at).is_none() {
                entry.flags.insert(Flags::UPTODATE);
            }
        }
    }
    Ok(refreshed)
}
