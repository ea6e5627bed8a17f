//! Recording: updates the plan's index according to the outcomes.
//!
//! A written entry gets the stat of the file that was written. Every other planned entry keeps, or
//! gets, a stat of zeros, which matches no file, so that the next command compares the content.
//!
//! After an interrupt, an error that stopped the run, or an error that leaves HEAD where it is, the
//! new index is the old one with only the finished steps applied. If the user runs the command
//! again, it plans the remaining steps.

use bstr::BStr;
use format::index::{Edit, Entry, Flags, Index, NewEntry, Stage, Stat};

use sys::profile::{self, Phase};

use crate::look::stat::index_stat;

use super::{Outcome, Plan, Report};

/// Updates the plan's index according to the outcomes. The caller then writes it with
/// `store::index::commit`.
///
/// A failed or stale step leaves the target's entry in the index, as in Git: the difference is
/// reported as a change in the worktree.
pub fn record(plan: Plan, report: &Report) -> Index {
    let _phase = profile::span(Phase::Index);
    let Plan { mut index, writes, .. } = plan;
    // Each change costs a few bytes if the entries stay in their file. A large part of them is
    // changed at once.
    let is_large = writes.len() > index.len() / 16;
    if is_large {
        let entries = index.entries_mut();
        for (write, outcome) in writes.iter().zip(&report.writes) {
            record_outcome(&mut entries[write.entry], outcome, report);
        }
    } else {
        for (write, outcome) in writes.iter().zip(&report.writes) {
            index.update(write.entry, |entry| record_outcome(entry, outcome, report));
        }
    }
    index
}

fn record_outcome(entry: &mut Entry, outcome: &Outcome, report: &Report) {
    match outcome {
        Outcome::Written(stat) | Outcome::Collided(Some(stat)) => {
            entry.stat = index_stat(stat);
            entry.flags.insert(Flags::UPTODATE);
            if report.assumes_unchanged {
                entry.flags.insert(Flags::ASSUME_VALID);
            }
        }
        Outcome::Kept => {}
        Outcome::Collided(None)
        | Outcome::Stale
        | Outcome::Failed(_)
        | Outcome::Undeleted(_)
        | Outcome::Skipped
        | Outcome::Removed => {
            entry.stat = Stat::default();
            entry.flags.remove(Flags::UPTODATE | Flags::FSMONITOR_VALID);
        }
    }
}

/// Like [`record`], for a run that another run will finish (see [`Report::interrupted`],
/// [`Report::can_resume`]). `before` is the index from which the plan was made. It is still the one
/// on disk.
pub fn record_interrupted(mut before: Index, plan: Plan, report: &Report) -> Index {
    let _phase = profile::span(Phase::Index);
    let done = |outcome: &Outcome| {
        !matches!(outcome, Outcome::Skipped | Outcome::Failed(_) | Outcome::Stale | Outcome::Undeleted(_))
    };
    let removed: Vec<bool> = report.removals.iter().map(done).collect();
    let written: Vec<bool> = report.writes.iter().map(done).collect();
    let (removals, writes) = (plan.removals.clone(), plan.writes.clone());
    let after = record(plan, report);
    let edit = |path: &BStr, entries| Edit { path: path.to_owned(), entries };
    // A conflict stays even if the file of one side was written or removed. So does an entry
    // outside of a sparse worktree.
    let remaining_entries = |path: &BStr| -> Vec<NewEntry> {
        let stages = after.entries_in(after.range_of(path));
        let stays =
            |entry: &Entry| entry.stage != Stage::Normal || entry.flags.contains(Flags::SKIP_WORKTREE);
        stages.filter(stays).map(|entry| entry.content()).collect()
    };
    let removed = removals.iter().zip(removed).filter(|(_, done)| *done).map(|(removal, _)| {
        let path = removal.path.as_ref();
        edit(path, remaining_entries(path))
    });
    let written = writes.iter().zip(written).filter(|(_, done)| *done).map(|(write, _)| {
        let entry = &after.entry(write.entry);
        let path = after.path(entry);
        match entry.stage {
            Stage::Normal => edit(path, vec![entry.content()]),
            _ => edit(path, remaining_entries(path)),
        }
    });
    let mut edits: Vec<Edit> = removed.chain(written).collect();
    // A path that was removed and then written counts as written.
    edits.sort_by(|one, other| one.path.cmp(&other.path));
    edits.dedup_by(|next, kept| {
        let same = next.path == kept.path;
        if same {
            std::mem::swap(next, kept);
        }
        same
    });
    before.apply(edits);
    before
}
