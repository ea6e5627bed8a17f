//! Recording: the plan's index, brought in line with what was really done.

use format::index::Index;

use super::{Plan, Report};

/// Brings the plan's index in line with what was really done: stat data of what was written, entries
/// of failed and skipped steps as they truly are on disk. The caller then commits it with
/// `store::index::commit`.
#[allow(unused_variables)]
pub fn record(plan: Plan, report: &Report) -> Index {
    todo!("record")
}
