//! Comparison of the whole index with the worktree: Git's `refresh_index`. Also the list of local
//! changes after a switch, by the rules of [`crate::status`].
//!
//! Nothing in the worktree is changed. Entries with unchanged files are marked up to date, and get
//! the file's stat data if theirs were outdated. The other entries are reported.

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
        compare::{Compared, Positions, compare},
        content,
        facts::{QueryKind, Seen},
        pathspec::{self, Pathspecs},
        stat::{Match, StatRules, index_stat},
        submodules,
    },
    status::{self, Touched},
};

/// The kind of change, as in `--name-status`.
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
    /// The letter that Git prints.
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

/// An entry whose file differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedEntry {
    /// The kind of change, as `reset` lists it.
    pub kind: ChangeKind,
    /// The path.
    pub path: BString,
}

/// Compares every entry with its file. Returns the differences in index order, unmerged paths once
/// each. Entries that are assumed unchanged, not checked out, or vouched for by the monitor are
/// skipped. The last ones are not marked up to date either, because that mark skips the check
/// before a file is overwritten.
pub fn refresh(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &mut Index,
) -> Result<Vec<ChangedEntry>, LookError> {
    Ok(refresh_selected(repo, worktree, index, &Pathspecs::default())?.changes)
}

/// The result of [`refresh_selected`].
#[derive(Debug, Default)]
pub struct Refreshed {
    /// The differences.
    pub changes: Vec<ChangedEntry>,
    /// True if an entry's stat data or its flag of the monitor changed.
    pub has_news: bool,
}

/// Like [`refresh`], for the entries that `pathspecs` select.
pub fn refresh_selected(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &mut Index,
    pathspecs: &Pathspecs,
) -> Result<Refreshed, LookError> {
    let _phase = profile::span(Phase::Plan);
    let is_selected = |entry: &Entry| {
        pathspecs.is_empty()
            || pathspecs.matches_entry(index.path(entry), entry.mode, &mut pathspec::Seen::default())
    };
    let asked: Vec<usize> = pathspecs
        .positions(index)
        .filter(|&at| is_compared(index, &index.entry(at)) && is_selected(&index.entry(at)))
        .collect();
    let found = compare(repo, worktree, index, Positions::These(&asked), QueryKind::Stat)?;
    let mut changes: BTreeMap<BString, ChangeKind> = BTreeMap::new();
    let entries = pathspecs.positions(index).map(|at| index.entry(at));
    let unmerged = entries.filter(|entry| entry.stage != Stage::Normal);
    for entry in unmerged.filter(is_selected) {
        changes.insert(index.path(&entry).to_owned(), ChangeKind::Unmerged);
    }
    let mut clean: Vec<(usize, sys::Stat)> = Vec::new();
    for Compared { at, seen, verdict, .. } in found {
        let entry = &index.entry(at);
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
    let mut has_news = false;
    for (at, stat) in clean {
        has_news |= !index.mode_at(at).is_gitlink() && index.entry(at).stat != index_stat(&stat);
        if !index.mode_at(at).is_gitlink() {
            index.update(at, |entry| entry.stat = index_stat(&stat));
        }
    }
    let is_clean = |at: &usize| !changes.contains_key(index.path_at(*at));
    let clean: Vec<usize> = asked.into_iter().filter(is_clean).collect();
    for at in clean {
        index.set_uptodate(at);
        has_news |= index.set_fsmonitor_valid(at);
    }
    let changes = changes.into_iter().map(|(path, kind)| ChangedEntry { kind, path }).collect();
    Ok(Refreshed { changes, has_news })
}

fn is_compared(index: &Index, entry: &Entry) -> bool {
    entry.stage == Stage::Normal
        && !entry.mode.is_tree()
        && !index.is_fsmonitor_valid(entry)
        && !entry.flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE)
}

/// Returns true if a leading directory is a symbolic link. Git treats the file as missing,
/// regardless of the link's target.
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

/// Returns the differences of the worktree and the index from `tree`: `git diff-index --name-status
/// <tree>`, by the rules of [`status::examine`]. Entries that are marked up to date are not
/// examined again.
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
        missing: Missing::Deleted,
        changes_within: status::changes_within,
    };
    let scope = Scope {
        pathspecs: &pathspecs,
        submodules: SubmoduleIgnore::Configured,
        unchanged: Unchanged::Omitted,
    };
    diff::tree(repo, worktree, index, Some(tree), against, &scope)
}

/// Checks, when the index is written, if the file of a racy entry changed without a change of its
/// stat data. Attributes are read only if the index has a racy entry.
pub struct RacyCheck<'a> {
    worktree: &'a Dir,
    rules: StatRules,
    converter: Option<repo::convert::Converter>,
    voice: repo::MessageSink,
}

impl<'a> RacyCheck<'a> {
    /// Creates a check for the entries of `index`.
    pub fn new(repo: &repo::Repository, worktree: &'a Dir, index: &Index) -> Result<Self, repo::Error> {
        let needs_check = index.racy().any(|at| !index.is_uptodate_at(at));
        let converter =
            needs_check.then(|| repo::convert::Converter::for_checkout(repo, index)).transpose()?;
        Ok(RacyCheck { worktree, rules: StatRules::of(repo)?, converter, voice: repo.message_sink() })
    }

    /// Returns true if the file of `entry` has the entry's stat but another content. An unreadable
    /// file counts as changed.
    pub fn is_modified(&self, path: &BStr, entry: &Entry) -> bool {
        let Some(converter) = &self.converter else { return false };
        let Ok(Some(stat)) = self.worktree.stat(path) else { return false };
        // Stock builds of Git ignore nanoseconds, and rely on the stat data that are written here.
        let has_same_stat = matches!(self.rules.compare(entry, &stat, (0, 0)), Match::Same | Match::Racy);
        if !has_same_stat || entry.mode.is_gitlink() {
            return false;
        }
        let mut worker = converter.worker();
        let name = content::hash(self.worktree, path, entry, &mut worker);
        self.voice.print(worker.take_messages());
        !matches!(name, Ok(Some(oid)) if oid == entry.oid)
    }
}
