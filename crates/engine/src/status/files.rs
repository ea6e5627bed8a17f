//! The state of the files of single entries, for each stage of an unmerged path separately. Serves
//! `ls-files -d` and `-m`.
//!
//! Follows Git's `ie_modified`: if the stat data do not decide, the content does. Nothing is
//! changed.

use std::{collections::HashMap, io, ops::Range, sync::atomic::AtomicBool};

use bstr::{BStr, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stage};
use repo::Repository;
use sys::{Dir, File};

use crate::{
    crew::Tuning,
    look::{
        LookError,
        content::{self, Cleaning as _, CleaningWorker, LazyConverter},
        pathspec::{Pathspecs, Seen},
        scan::{Note, PathState, Scan, ScanTarget, workers},
        stat::{Match, StatRules},
        submodules,
    },
};

/// The longest path and file name that system calls accept.
const MAX_PATH: usize = 4095;
const MAX_NAME: usize = 255;

/// The state of an entry's file.
#[derive(Debug)]
pub enum State {
    /// The file is missing.
    Missing,
    /// The file could not be examined.
    Unreadable(io::Error),
    /// The file differs from the entry.
    Modified,
}

/// Returns the entries whose files differ, in index order. Content is read only if `compares`;
/// otherwise a difference in content alone is not reported. Entries that do not belong in the
/// worktree are skipped. An entry that is assumed unchanged, or vouched for by the file system
/// monitor, is only reported if its file is missing.
pub fn changed(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    pathspecs: &Pathspecs,
    compares: bool,
    interrupt: &AtomicBool,
) -> Result<Vec<(usize, State)>, LookError> {
    let rules = StatRules::of(repo)?;
    let mut seen = Seen::default();
    let mut is_selected = |entry: &Entry| {
        pathspecs.is_empty() || pathspecs.matches_entry(index.path(entry), entry.mode, &mut seen)
    };
    let is_examined = |entry: &Entry| {
        let belongs_in_worktree = !entry.mode.is_tree() && !entry.flags.contains(Flags::SKIP_WORKTREE);
        belongs_in_worktree
            && match entry.stage {
                Stage::Normal => is_selected(entry),
                // Each stage is examined, and stages may differ in type.
                _ => index.entries_in(index.range_of(index.path(entry))).any(|entry| is_selected(&entry)),
            }
    };
    let tuning = Tuning::reading(root);
    let mut scan =
        Scan::of(ScanTarget { root, index, rules, tuning: &tuning, interrupt, meter: None }, is_examined);
    scan.run(workers(repo)?);
    let mut states = Vec::new();
    // The positions of entries whose content has to be compared.
    let mut unsure = Vec::new();
    for note in scan.into_notes() {
        let entries = match index.entry(note.at).stage {
            Stage::Normal => note.at..note.at + 1,
            _ => index.range_of(index.path_at(note.at)),
        };
        let Note { at: first, state, verdict } = note;
        let stat = match state {
            PathState::There(stat) => stat,
            // Only `ls-files` follows symbolic links in leading directories, because Git calls
            // `lstat` with the whole path.
            PathState::Behind(stat) => {
                for at in entries {
                    let entry = &index.entry(at);
                    let is_same = entry.flags.contains(Flags::ASSUME_VALID)
                        || match rules.compare(entry, &stat, index.timestamp) {
                            Match::Same => true,
                            Match::Different => false,
                            Match::Racy | Match::Touched => {
                                !compares || is_same_through_links(repo, index, entry)?
                            }
                        };
                    if !is_same {
                        states.push((at, State::Modified));
                    }
                }
                continue;
            }
            PathState::Missing => {
                states.extend(entries.map(|at| (at, State::Missing)));
                continue;
            }
            PathState::Unreadable(error) => {
                let copy_error = || io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
                states.extend(entries.map(|at| (at, State::Unreadable(copy_error()))));
                continue;
            }
        };
        for at in entries {
            let entry = &index.entry(at);
            let verdict = if at == first { verdict } else { rules.compare(entry, &stat, index.timestamp) };
            match verdict {
                _ if entry.flags.contains(Flags::ASSUME_VALID) || index.is_fsmonitor_valid(entry) => {}
                Match::Same if entry.mode.is_gitlink() => {
                    let head = submodules::head(repo, index.path(entry));
                    if head.is_some_and(|head| head != entry.oid) {
                        states.push((at, State::Modified));
                    }
                }
                Match::Same => {}
                Match::Racy | Match::Touched if !compares => {}
                Match::Racy | Match::Touched => unsure.push(at),
                Match::Different => states.push((at, State::Modified)),
            }
        }
    }
    let same = content::same_content(root, index, &unsure, &LazyConverter::new(repo, index), None)?;
    let differ = unsure.into_iter().zip(same).filter(|(_, same)| !same);
    states.extend(differ.map(|(at, _)| (at, State::Modified)));
    states.sort_unstable_by_key(|(at, _)| *at);
    Ok(states)
}

/// Returns the entries of `range` that no pathspec selects and whose files cannot be examined.
/// Git's `ls-files` reports them too, because it examines a file before it matches the pathspecs.
/// One readable file proves that its directory is readable, so the other files are skipped, except
/// those whose path or name is too long.
pub fn unreadable_unselected(
    root: &Dir,
    index: &Index,
    range: Range<usize>,
    pathspecs: &Pathspecs,
) -> Vec<(usize, io::Error)> {
    if pathspecs.is_empty() {
        return Vec::new();
    }
    let is_long = |path: &BStr, dir: usize| path.len() > MAX_PATH || path.len() - dir > MAX_NAME;
    let mut readable: HashMap<&BStr, bool> = HashMap::new();
    let mut found = Vec::new();
    for at in range {
        let entry = &index.entry(at);
        let path = index.path(entry);
        let is_skipped = entry.mode.is_tree() || entry.flags.contains(Flags::SKIP_WORKTREE);
        if is_skipped || pathspecs.matches_entry(path, entry.mode, &mut Seen::default()) {
            continue;
        }
        let dir = path.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        let is_long = is_long(path, dir);
        if !is_long && readable.get(path[..dir].as_bstr()) == Some(&true) {
            continue;
        }
        let error = root.stat_below(path.as_bytes()).err();
        if !is_long {
            readable.insert(path[..dir].as_bstr(), error.is_none());
        }
        found.extend(error.map(|error| (at, error)));
    }
    found
}

/// Returns true if the file at the path has the entry's content. Symbolic links in leading
/// directories are followed.
fn is_same_through_links(repo: &Repository, index: &Index, entry: &Entry) -> Result<bool, LookError> {
    let path = index.path(entry);
    let (Some(top), Some(slash)) = (repo.work_tree(), path.rfind_byte(b'/')) else { return Ok(false) };
    let examine = |source| LookError::Examine { path: path.to_owned(), source };
    let dir = Dir::open(&top.join(sys::os_str(&path[..slash]))).map_err(examine)?;
    let cleaning = LazyConverter::new(repo, index);
    let mut worker = PathConverter { path, worker: cleaning.worker() };
    let found = content::hash(&dir, path[slash + 1..].as_bstr(), entry, &mut worker);
    cleaning.print_messages(worker.worker.take_messages());
    Ok(found? == Some(entry.oid))
}

/// Converts with the attributes of the entry's path instead of the file's name in its directory.
struct PathConverter<'a> {
    path: &'a BStr,
    worker: Box<dyn CleaningWorker + 'a>,
}

impl CleaningWorker for PathConverter<'_> {
    fn to_git<'a>(&mut self, _: &BStr, file: &'a [u8], out: &'a mut Vec<u8>) -> Result<&'a [u8], LookError> {
        self.worker.to_git(self.path, file, out)
    }

    fn open_file_to_git(&mut self, _: &BStr, file: &File, out: &mut Vec<u8>) -> Result<bool, LookError> {
        self.worker.open_file_to_git(self.path, file, out)
    }

    fn needs_no_conversion(&mut self, _: &BStr) -> Result<bool, LookError> {
        self.worker.needs_no_conversion(self.path)
    }
}
