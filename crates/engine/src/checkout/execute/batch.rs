//! Batches: steps of neighbouring directories that one worker does in the order of the pack.
//!
//! Objects that are deltas of each other lie together in a pack, and often in different directories of a
//! tree (generations of one driver's headers). Decoding some hundred files in pack order uses such a
//! base while it is in the cache; the directories they are in stay few enough for their handles to be kept.

use std::ops::Range;

use repo::objects::Location;
use sys::profile::{self, Phase};

use super::{Run, layout::Layout};

/// A step of a batch.
pub(super) struct Placed<'r> {
    pub(super) location: Option<Location>,
    /// Index into [`Layout::dirs`].
    pub(super) dir: usize,
    pub(super) step: usize,
    pub(super) name: &'r [u8],
}

/// Fills `steps` with those of some units, in the order they are best decoded in; what is in no pack comes
/// first, in the order of the index.
pub(super) fn order<'r>(
    layout: &Layout<'r>,
    units: Range<usize>,
    run: &Run<'_>,
    steps: &mut Vec<Placed<'r>>,
) {
    let _phase = profile::span(Phase::Decode);
    steps.clear();
    for unit in &layout.units[units] {
        steps.extend(layout.steps[unit.steps.clone()].iter().map(|&(step, name)| {
            let location = run.repo.objects().locate_packed(&run.write(step).1.oid);
            Placed { location, dir: unit.dir, step, name }
        }));
    }
    steps.sort_by_key(|step| step.location);
}
