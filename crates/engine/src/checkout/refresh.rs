//! Comparing the whole index with the worktree: Git's `refresh_index`; and the list of local changes after a
//! switch, which is by the rule of [`crate::status`].
//!
//! Nothing in the worktree is changed. Entries whose files are theirs are marked up to date, and get
//! the file's stat if theirs was out of date; the rest is reported.

use std::{collections::BTreeMap, sync::atomic::AtomicBool};

use bstr::{BStr, BString};
use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage},
};
use sys::{
    Dir, FileType,
    profile::{self, Phase},
};

use crate::{
    diff::{self, Against, Differences, Missing, Scope, SubmoduleIgnore, Unchanged},
    look::{
        LookError,
        compare::{Looked, Positions, compare},
        content,
        facts::{Seen, Want},
        pathspec::Pathspecs,
        stat::{Match, StatRules, index_stat},
        submodules,
    },
    status::{self, Touched},
};

/// How a path differs, as `--name-status` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeKind {
    Added,
    Deleted,
    Modified,
    TypeChanged,
    Unmerged,
}

impl ChangeKind {
    /// The letter Git prints for it.
    pub fn letter(self) -> u8 {
        match self {
            ChangeKind::Added => b'A',
            ChangeKind::Deleted => b'D',
            ChangeKind::Modified => b'M',
            ChangeKind::TypeChanged => b'T',
            ChangeKind::Unmerged => b'U',
        }
    }
}

/// An entry whose file is not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclean {
    /// How it differs, as `reset` lists it.
    pub kind: ChangeKind,
    /// Which.
    pub path: BString,
}

/// Compares every entry with its file. What differs is returned, in index order; unmerged paths once
/// each. Entries that are assumed unchanged, not checked out, or vouched for by the monitor are not looked at; the last
/// are not marked either, as a mark spares the look before a file is overwritten.
pub fn refresh(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &mut Index,
) -> Result<Vec<Unclean>, LookError> {
    let _phase = profile::span(Phase::Plan);
    let asked: Vec<usize> =
        (0..index.entries().len()).filter(|&at| is_compared(index, &index.entries()[at])).collect();
    let found = compare(repo, worktree, index, Positions::These(&asked), Want::Stat)?;
    let mut changes: BTreeMap<BString, ChangeKind> = BTreeMap::new();
    for entry in index.entries().iter().filter(|entry| entry.stage != Stage::Normal) {
        changes.insert(index.path(entry).to_owned(), ChangeKind::Unmerged);
    }
    let mut clean: Vec<(usize, sys::Stat)> = Vec::new();
    for Looked { at, seen, verdict, .. } in found {
        let entry = &index.entries()[at];
        let is_same = match (verdict, entry.mode.is_gitlink()) {
            (Match::Same, true) => {
                submodules::head(repo, index.path(entry)).is_none_or(|head| head == entry.oid)
            }
            (verdict, _) => verdict == Match::Same,
        };
        if is_same {
            if let Seen::There(stat) = seen {
                clean.push((at, stat));
            }
            continue;
        }
        let is_intended = entry.flags.contains(Flags::INTENT_TO_ADD);
        let change = match seen {
            Seen::There(_) | Seen::Blocked(..) if is_intended && !is_behind_a_link(&seen) => {
                ChangeKind::Added
            }
            Seen::There(stat) if is_type(entry.mode, stat.file_type) => ChangeKind::Modified,
            Seen::There(_) => ChangeKind::TypeChanged,
            Seen::Blocked(..) if !is_behind_a_link(&seen) => ChangeKind::Modified,
            Seen::Blocked(..) | Seen::Absent | Seen::Unknown => ChangeKind::Deleted,
        };
        changes.insert(index.path(entry).to_owned(), change);
    }
    for (at, stat) in clean {
        let entry = &mut index.entries_mut()[at];
        if !entry.mode.is_gitlink() {
            entry.stat = index_stat(&stat);
        }
    }
    let is_clean = |at: &usize| !changes.contains_key(index.path_at(*at));
    let clean: Vec<usize> = asked.into_iter().filter(is_clean).collect();
    for at in clean {
        index.entries_mut()[at].flags.insert(Flags::UPTODATE);
        index.vouch(at);
    }
    Ok(changes.into_iter().map(|(path, kind)| Unclean { kind, path }).collect())
}

fn is_compared(index: &Index, entry: &Entry) -> bool {
    entry.stage == Stage::Normal
        && !entry.mode.is_tree()
        && !index.is_vouched_for(entry)
        && !entry.flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE)
}

/// A link is not the file, wherever it leads.
fn is_behind_a_link(seen: &Seen) -> bool {
    matches!(seen, Seen::Blocked(_, stat) if stat.file_type == FileType::Symlink)
}

fn is_type(mode: Mode, file_type: FileType) -> bool {
    match file_type {
        FileType::File => mode.is_file(),
        FileType::Symlink => mode.is_symlink(),
        FileType::Directory => mode.is_gitlink(),
        FileType::Other => false,
    }
}

/// The differences of the worktree and the index from `tree`: `git diff-index --name-status <tree>`, by the rule of
/// [`status::examine`]. Entries that are marked up to date are not looked at again.
pub fn local_changes(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    tree: ObjectId,
) -> Result<Differences, LookError> {
    let _phase = profile::span(Phase::Plan);
    let pathspecs = Pathspecs::default();
    let never = AtomicBool::new(false);
    let options = status::Options {
        touched: Touched::Changed,
        submodules: SubmoduleIgnore::Configured,
        ..status::Options::tracked(&pathspecs, &never)
    };
    let found = status::examine(repo, worktree, index, &options)?;
    let against = Against::Worktree {
        changes: &found.changes,
        unreadable: &found.unreadable,
        missing: Missing::Gone,
        changes_within: status::changes_within,
    };
    let scope = Scope {
        pathspecs: &pathspecs,
        submodules: SubmoduleIgnore::Configured,
        unchanged: Unchanged::Omitted,
    };
    Ok(diff::tree(repo, worktree, index, Some(tree), against, &scope)?)
}

/// Tells, when the index is written, whether a racy entry's file was changed behind its stat data.
/// Attributes are read only if there is such an entry.
pub struct RacyCheck<'a> {
    worktree: &'a Dir,
    rules: StatRules,
    converter: Option<repo::convert::Converter>,
    voice: repo::Voice,
}

impl<'a> RacyCheck<'a> {
    /// For the entries of `index`.
    pub fn new(repo: &repo::Repository, worktree: &'a Dir, index: &Index) -> Result<Self, repo::Error> {
        let suspect = |entry: &Entry| !entry.flags.contains(Flags::UPTODATE) && index.is_racy(entry);
        let converter = match index.has_racy() && index.entries().iter().any(suspect) {
            true => Some(repo::convert::Converter::for_checkout(repo, index)?),
            false => None,
        };
        Ok(RacyCheck { worktree, rules: StatRules::of(repo)?, converter, voice: repo.voice() })
    }

    /// Whether the file of `entry` has the entry's stat data but another content. A file that cannot
    /// be read counts as changed.
    pub fn is_modified(&self, path: &BStr, entry: &Entry) -> bool {
        let Some(converter) = &self.converter else { return false };
        let Ok(Some(stat)) = self.worktree.stat(path) else { return false };
        // A difference in nanoseconds alone is none to stock builds of Git, which will trust what is written here.
        let looks_the_same = matches!(self.rules.compare(entry, &stat, (0, 0)), Match::Same | Match::Racy);
        if !looks_the_same || entry.mode.is_gitlink() {
            return false;
        }
        let mut worker = converter.worker();
        let name = content::hash(self.worktree, path, entry, &mut worker);
        self.voice.say(worker.take_messages());
        !matches!(name, Ok(Some(oid)) if oid == entry.oid)
    }
}
