//! Taking a worktree that came from elsewhere for the index's: restored by a cache, copied, cloned by the file system.
//!
//! Its files have other inodes and times than the index recorded, so every status would read all of them. Here each is verified, and
//! the stat data in the index become those of the files that are theirs. Files that are not keep stat data that do not match: status shows
//! them. Nothing in the worktree is changed.
//!
//! Order: a stat of every file, in parallel; if some were written in the second that is passing, that second is waited for and all is looked at
//! again; then what stat data cannot tell is read. So whatever is changed afterwards gets another time than was recorded, and an
//! index that is written now is younger than all the files: nothing is racy, and the next status reads none.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::BString;
use format::index::{Entry, Flags, Index, Stage};
use repo::Repository;
use sys::{Dir, Stat};

use crate::{
    crew::{Tuning, Workers},
    look::{
        LookError,
        content::{self, Lazy},
        scan::{Note, Scan, Sight},
        stat::{Match, StatRules, index_stat},
        submodules,
    },
};

/// A file that is from further in the future than this is not waited for: it stays racy, as for Git.
const LONGEST: Duration = Duration::from_secs(2);
/// The clock of files may be so much behind.
const TICK: Duration = Duration::from_millis(20);

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// How many files are their entries'.
    pub verified: usize,
    /// Of how many of these other stat data were recorded.
    pub adopted: usize,
    /// How many had to be read.
    pub read: usize,
    /// What is not as recorded.
    pub differ: Vec<BString>,
    /// What is not there.
    pub missing: Vec<BString>,
}

/// Whether the second that is passing is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It is: the index will be written.
    Wait,
    /// Only what there is is told.
    Hurry,
}

/// Verifies the files of all entries that are to be in the worktree, and records in `index` the stat data of those that are theirs. Entries that
/// are assumed to be unchanged are left alone.
pub fn adopt(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    patience: Patience,
    interrupt: &AtomicBool,
) -> Result<Report, LookError> {
    let rules = StatRules::of(repo)?;
    let mut report = Report::default();
    let (asked, notes) = look(root, index, rules, patience, interrupt);
    let is_unsure = |note: &Note| {
        let entry = &index.entry(note.at);
        entry.stage == Stage::Normal && matches!(note.verdict, Match::Racy | Match::Touched)
    };
    let unsure: Vec<usize> = notes.iter().filter(|note| is_unsure(note)).map(|note| note.at).collect();
    report.read = unsure.len();
    let same = content::same_content(root, index, &unsure, &Lazy::new(repo, index))?;
    let mut same = same.into_iter();
    let mut right: Vec<(usize, Stat)> = Vec::new();
    // Looked the same and are not.
    let mut wrong: Vec<usize> = Vec::new();
    for note in &notes {
        let entry = &index.entry(note.at);
        let path = index.path(entry);
        let stat = match &note.sight {
            Sight::There(stat) => *stat,
            Sight::Missing | Sight::Behind(_) => {
                report.missing.push(path.to_owned());
                continue;
            }
            Sight::Unreadable(error) => {
                let source = std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
                return Err(LookError::Examine { path: path.to_owned(), source });
            }
        };
        let is_same = match note.verdict {
            _ if entry.stage != Stage::Normal => false,
            Match::Same if entry.mode.is_gitlink() => {
                submodules::head(repo, path).is_none_or(|head| head == entry.oid)
            }
            Match::Same => true,
            Match::Racy | Match::Touched => same.next() == Some(true),
            Match::Different => false,
        };
        match is_same {
            false => {
                report.differ.push(path.to_owned());
                wrong.extend((note.verdict == Match::Racy).then_some(note.at));
            }
            true if is_unsure(note) => right.push((note.at, stat)),
            true => {}
        }
    }
    report.verified = asked - report.differ.len() - report.missing.len();
    for (at, stat) in right {
        let entry = &mut index.entries_mut()[at];
        let found = index_stat(&stat);
        report.adopted += usize::from(entry.stat != found);
        entry.stat = found;
        entry.flags.insert(Flags::UPTODATE);
    }
    for at in wrong {
        // Compare the content, that says.
        index.entries_mut()[at].stat.size = 0;
    }
    Ok(report)
}

/// How many entries were looked at, and what is to be said of them.
fn look(
    root: &Dir,
    index: &Index,
    rules: StatRules,
    patience: Patience,
    interrupt: &AtomicBool,
) -> (usize, Vec<Note>) {
    let is_looked_at = |entry: &Entry| {
        !entry.mode.is_tree() && !entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
    };
    let tuning = Tuning::reading(root);
    loop {
        let mut scan = Scan::of(root, index, (rules, &tuning), is_looked_at, interrupt);
        let began = now();
        scan.run(Workers::Auto);
        let asked = scan.asked().count();
        let notes = scan.into_notes();
        let newest = notes.iter().filter_map(|note| match (&note.sight, note.verdict) {
            (Sight::There(stat), Match::Racy | Match::Touched) => u64::try_from(stat.mtime.0).ok(),
            _ => None,
        });
        let waited_for = newest.filter(|&mtime| mtime <= (began + LONGEST).as_secs()).max();
        match waited_for.filter(|&mtime| patience == Patience::Wait && mtime >= began.as_secs()) {
            None => return (asked, notes),
            Some(mtime) => {
                let until = Duration::from_secs(mtime + 1) + TICK;
                while now() < until && !interrupt.load(Ordering::Relaxed) {
                    std::thread::sleep(TICK.min(until.saturating_sub(now())));
                }
                if interrupt.load(Ordering::Relaxed) {
                    return (asked, notes);
                }
            }
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
