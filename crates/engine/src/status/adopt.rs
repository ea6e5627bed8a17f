//! Adoption of a worktree with foreign stat data: restored from a cache, copied, or cloned by the
//! file system.
//!
//! Its files have other inodes and times than those in the index, so every status would read all of
//! them. Adoption verifies each file, and records the stat data of those that match their entries.
//! Files that differ keep stat data that do not match, so that status reports them. Nothing in the
//! worktree is changed.
//!
//! Order: stat every file, in parallel. If some files were written in the current second, wait for
//! its end and stat all files again. Then read the files whose stat data are inconclusive. Any
//! later change thus gets another time than the recorded one, and an index written now is younger
//! than all files. No entry is racy, and the next status reads no file.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::BString;
use format::index::{Entry, Flags, Index, Stage};
use repo::Repository;
use sys::{Dir, Stat};

use crate::{
    crew::{Meter, Tuning, Workers},
    look::{
        LookError,
        content::{self, LazyConverter},
        scan::{Note, PathState, Scan, ScanTarget},
        stat::{Match, StatRules, index_stat},
        submodules,
    },
};

/// The longest wait. Files with times further in the future stay racy, as in Git.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// An upper bound for the granularity of file times.
const TICK: Duration = Duration::from_millis(20);

/// The result of an adoption.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of files that match their entries.
    pub verified: usize,
    /// Number of matching files whose stat data were updated.
    pub adopted: usize,
    /// Number of files that had to be read.
    pub read: usize,
    /// Paths that differ from their entries.
    pub differ: Vec<BString>,
    /// Paths that are missing.
    pub missing: Vec<BString>,
}

/// The treatment of files written in the current second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RacyPolicy {
    /// Wait for the end of the second, because the index will be written.
    Wait,
    /// Do not wait: the result is only printed.
    DoNotWait,
}

/// Verifies the files of all entries in the worktree, and records the stat data of matching files
/// in `index`. Entries that are assumed unchanged are skipped. `meter` counts the decided entries.
pub fn adopt(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    racy_policy: RacyPolicy,
    interrupt: &AtomicBool,
    meter: Option<&Meter>,
) -> Result<Report, LookError> {
    let rules = StatRules::of(repo)?;
    let mut report = Report::default();
    let (examined, notes) = scan_files(root, index, rules, racy_policy, interrupt, meter);
    let is_unsure = |note: &Note| {
        let entry = &index.entry(note.at);
        entry.stage == Stage::Normal && matches!(note.verdict, Match::Racy | Match::Touched)
    };
    let unsure: Vec<usize> = notes.iter().filter(|note| is_unsure(note)).map(|note| note.at).collect();
    report.read = unsure.len();
    let same = content::same_content(root, index, &unsure, &LazyConverter::new(repo, index), meter)?;
    let mut same = same.into_iter();
    let mut matching: Vec<(usize, Stat)> = Vec::new();
    // Racy entries whose content differs.
    let mut racy_changed: Vec<usize> = Vec::new();
    for note in &notes {
        let entry = &index.entry(note.at);
        let path = index.path(entry);
        let stat = match &note.state {
            PathState::There(stat) => *stat,
            PathState::Missing | PathState::Behind(_) => {
                report.missing.push(path.to_owned());
                continue;
            }
            PathState::Unreadable(error) => {
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
                racy_changed.extend((note.verdict == Match::Racy).then_some(note.at));
            }
            true if is_unsure(note) => matching.push((note.at, stat)),
            true => {}
        }
    }
    report.verified = examined - report.differ.len() - report.missing.len();
    for (at, stat) in matching {
        let found = index_stat(&stat);
        report.adopted += usize::from(index.entry(at).stat != found);
        index.update(at, |entry| entry.stat = found);
        index.set_uptodate(at);
    }
    for at in racy_changed {
        // A size of 0 makes the next command compare the content.
        index.update(at, |entry| entry.stat.size = 0);
    }
    Ok(report)
}

/// Returns the number of examined entries, and the notes about them.
fn scan_files(
    root: &Dir,
    index: &Index,
    rules: StatRules,
    racy_policy: RacyPolicy,
    interrupt: &AtomicBool,
    meter: Option<&Meter>,
) -> (usize, Vec<Note>) {
    let is_examined = |entry: &Entry| {
        !entry.mode.is_tree() && !entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
    };
    let tuning = Tuning::reading(root);
    loop {
        if let Some(meter) = meter {
            meter.restart();
        }
        let mut scan =
            Scan::of(ScanTarget { root, index, rules, tuning: &tuning, interrupt, meter }, is_examined);
        let began = now();
        scan.run(Workers::Auto);
        let examined = scan.selected().count();
        let notes = scan.into_notes();
        let newest = notes.iter().filter_map(|note| match (&note.state, note.verdict) {
            (PathState::There(stat), Match::Racy | Match::Touched) => u64::try_from(stat.mtime.0).ok(),
            _ => None,
        });
        let waited_for = newest.filter(|&mtime| mtime <= (began + MAX_WAIT).as_secs()).max();
        match waited_for.filter(|&mtime| racy_policy == RacyPolicy::Wait && mtime >= began.as_secs()) {
            None => return (examined, notes),
            Some(mtime) => {
                let until = Duration::from_secs(mtime + 1) + TICK;
                while now() < until && !interrupt.load(Ordering::Relaxed) {
                    std::thread::sleep(TICK.min(until.saturating_sub(now())));
                }
                if interrupt.load(Ordering::Relaxed) {
                    return (examined, notes);
                }
            }
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
