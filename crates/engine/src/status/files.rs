//! The files of single entries, each stage of an unmerged path by itself: what `ls-files -d` and `-m` ask.
//!
//! Git's `ie_modified`: what stat data cannot tell the content does. Nothing is changed.

use std::{collections::HashMap, io, ops::Range, sync::atomic::AtomicBool};

use bstr::{BStr, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stage};
use repo::Repository;
use sys::Dir;

use crate::{
    crew::Tuning,
    look::{
        LookError,
        content::{self, Cleaning as _, CleaningWorker, Lazy},
        pathspec::{Pathspecs, Seen},
        scan::{Note, Scan, Sight, workers},
        stat::{Match, StatRules},
        submodules,
    },
};

/// What system calls take: of a path, and of a name in it.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// What is to be said of an entry's file.
#[derive(Debug)]
pub enum State {
    /// There is none.
    Missing,
    /// It cannot be told.
    Unreadable(io::Error),
    /// It is not as recorded.
    Modified,
}

/// The entries whose files are not as recorded, in the order of the index. Content is read only if `compares`: without it nothing is
/// `Modified` that only its content tells of. Entries that are not to be in the worktree are not looked at; what is assumed
/// to be unchanged, or vouched for by the file system monitor, can only be missing.
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
    let mut is_meant = |entry: &Entry| {
        pathspecs.is_empty() || pathspecs.matches_entry(index.path(entry), entry.mode, &mut seen)
    };
    let is_looked_at = |entry: &Entry| {
        let is_there = !entry.mode.is_tree() && !entry.flags.contains(Flags::SKIP_WORKTREE);
        is_there
            && match entry.stage {
                Stage::Normal => is_meant(entry),
                // Each stage is asked for, and may be of another kind.
                _ => index.entries_in(index.range_of(index.path(entry))).any(|entry| is_meant(&entry)),
            }
    };
    let tuning = Tuning::reading(root);
    let mut scan = Scan::of(root, index, (rules, &tuning), is_looked_at, interrupt);
    scan.run(workers(repo)?);
    let mut states = Vec::new();
    // Positions that only the content can tell of, and which state is theirs if it differs.
    let mut unsure = Vec::new();
    for note in scan.into_notes() {
        let entries = match index.entry(note.at).stage {
            Stage::Normal => note.at..note.at + 1,
            _ => index.range_of(index.path_at(note.at)),
        };
        let Note { at: first, sight, verdict } = note;
        let stat = match sight {
            Sight::There(stat) => stat,
            // `ls-files` alone follows links on the way, as the kernel does for Git.
            Sight::Behind(stat) => {
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
            Sight::Missing => {
                states.extend(entries.map(|at| (at, State::Missing)));
                continue;
            }
            Sight::Unreadable(error) => {
                let again = || io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
                states.extend(entries.map(|at| (at, State::Unreadable(again()))));
                continue;
            }
        };
        for at in entries {
            let entry = &index.entry(at);
            let verdict = match at == first {
                true => verdict,
                false => rules.compare(entry, &stat, index.timestamp),
            };
            match verdict {
                _ if entry.flags.contains(Flags::ASSUME_VALID) || index.is_vouched_for(entry) => {}
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
    let same = content::same_content(root, index, &unsure, &Lazy::new(repo, index))?;
    let differ = unsure.into_iter().zip(same).filter(|(_, same)| !same);
    states.extend(differ.map(|(at, _)| (at, State::Modified)));
    states.sort_unstable_by_key(|(at, _)| *at);
    Ok(states)
}

/// The entries of `range` that no pathspec means, and whose files cannot be looked at: Git's `ls-files` tells of them, too, as it looks first and asks
/// then. One file of a directory tells of all in it, but for names that are too long.
pub fn unreadable_beside(
    root: &Dir,
    index: &Index,
    range: Range<usize>,
    pathspecs: &Pathspecs,
) -> Vec<(usize, io::Error)> {
    if pathspecs.is_empty() {
        return Vec::new();
    }
    let is_long = |path: &BStr, dir: usize| path.len() > LONGEST_PATH || path.len() - dir > LONGEST_NAME;
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

/// Whether what is there, links on the way followed, has the entry's content.
fn is_same_through_links(repo: &Repository, index: &Index, entry: &Entry) -> Result<bool, LookError> {
    let path = index.path(entry);
    let (Some(top), Some(slash)) = (repo.work_tree(), path.rfind_byte(b'/')) else { return Ok(false) };
    let examine = |source| LookError::Examine { path: path.to_owned(), source };
    let dir = Dir::open(&top.join(sys::os_str(&path[..slash]))).map_err(examine)?;
    let cleaning = Lazy::new(repo, index);
    let mut worker = Named { path, worker: cleaning.worker() };
    let found = content::hash(&dir, path[slash + 1..].as_bstr(), entry, &mut worker);
    cleaning.say(worker.worker.take_messages());
    Ok(found? == Some(entry.oid))
}

/// Converts by the name of the entry, whatever the file's is in its directory.
struct Named<'a> {
    path: &'a BStr,
    worker: Box<dyn CleaningWorker + 'a>,
}

impl CleaningWorker for Named<'_> {
    fn to_git<'a>(&mut self, _: &BStr, file: &'a [u8], out: &'a mut Vec<u8>) -> Result<&'a [u8], LookError> {
        self.worker.to_git(self.path, file, out)
    }
}
