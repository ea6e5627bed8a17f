//! Batches: steps of neighbouring directories that one worker performs in pack order.
//!
//! Objects that are deltas of each other are close together in a pack, but often belong to
//! different directories of a tree, such as generations of one driver's headers. A batch of some
//! hundred files in pack order decodes such objects while their base is in the cache. It spans few
//! enough directories to keep their handles open.

use std::ops::Range;

use repo::objects::Location;
use sys::profile::{self, Phase};

use super::{Run, layout::Layout};

/// A step of a batch.
pub(super) struct BatchStep<'r> {
    pub(super) location: Option<Location>,
    /// Index into [`Layout::dirs`].
    pub(super) dir: usize,
    pub(super) step: usize,
    pub(super) name: &'r [u8],
}

/// Fills `steps` with the steps of some units in decoding order. Steps without a packed object come
/// first, in index order.
pub(super) fn order<'r>(
    layout: &Layout<'r>,
    units: Range<usize>,
    run: &Run<'_>,
    steps: &mut Vec<BatchStep<'r>>,
) {
    let _phase = profile::span(Phase::Decode);
    steps.clear();
    for unit in &layout.units[units] {
        steps.extend(layout.steps[unit.steps.clone()].iter().map(|&(step, name)| {
            let location = run.repo.objects().locate_packed(&run.write(step).1.oid);
            BatchStep { location, dir: unit.dir, step, name }
        }));
    }
    steps.sort_by_key(|step| step.location);
}
