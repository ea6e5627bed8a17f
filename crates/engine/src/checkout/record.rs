//! Recording: the plan's index, brought in line with what was really done.
//!
//! A written entry gets the stat of the very file that was written. Every other entry that was to be
//! written keeps, or gets, a stat of zeros, which matches no file: whoever looks next compares the content.

use format::index::{Flags, Index, Stat};

use crate::stat::index_stat;

use super::{Outcome, Plan, Report};

/// Brings the plan's index in line with what was really done. The caller then commits it with `store::index::commit`.
///
/// A step that failed or was stale leaves the entry of the target in the index, as Git does: the
/// difference shows as a change in the worktree.
pub fn record(plan: Plan, report: &Report) -> Index {
    let Plan { mut index, writes, .. } = plan;
    let entries = index.entries_mut();
    for (write, outcome) in writes.iter().zip(&report.writes) {
        let entry = &mut entries[write.entry];
        match outcome {
            Outcome::Written(stat) | Outcome::Collided(Some(stat)) => {
                entry.stat = index_stat(stat);
                entry.flags.insert(Flags::UPTODATE);
            }
            Outcome::Kept => {}
            Outcome::Collided(None)
            | Outcome::Stale
            | Outcome::Failed(_)
            | Outcome::Skipped
            | Outcome::Removed => {
                entry.stat = Stat::default();
                entry.flags.remove(Flags::UPTODATE | Flags::FSMONITOR_VALID);
            }
        }
    }
    index
}
