//! Batches: steps of neighbouring directories that one worker does in the order of the pack.
//!
//! Objects that are deltas of each other lie together in a pack, and often in different directories of a
//! tree (generations of one driver's headers). Decoding a few hundred files in pack order uses such a
//! base while it is in the cache; the directories they are in stay few enough for their handles to be kept.

use std::ops::Range;

use repo::objects::Location;

use super::{Run, layout::Layout, queue::Weigh};

/// Steps in a batch, at most, unless one directory's share has more.
const BATCH: usize = 256;
/// With fewer batches than this for each worker there would be nothing left to steal.
const BATCHES_PER_WORKER: usize = 4;

/// The units of a layout, batched.
pub(super) struct Batches<'r> {
    layout: &'r Layout<'r>,
    units: Vec<Range<usize>>,
}

/// A step of a batch.
pub(super) struct Placed<'r> {
    pub(super) location: Option<Location>,
    /// Index into [`Layout::dirs`].
    pub(super) dir: usize,
    pub(super) step: usize,
    pub(super) name: &'r [u8],
}

impl<'r> Batches<'r> {
    /// For a crew of up to `workers`.
    pub(super) fn new(layout: &'r Layout<'r>, workers: usize) -> Self {
        let most = (layout.steps.len() / (workers * BATCHES_PER_WORKER)).clamp(1, BATCH);
        let mut units: Vec<Range<usize>> = Vec::new();
        let mut weight = 0;
        for (at, unit) in layout.units.iter().enumerate() {
            match units.last_mut() {
                Some(batch) if weight + unit.steps.len() <= most => batch.end = at + 1,
                _ => {
                    units.push(at..at + 1);
                    weight = 0;
                }
            }
            weight += unit.steps.len();
        }
        Batches { layout, units }
    }

    /// Fills `steps` with those of a batch, in the order they are best decoded in; what is in no pack comes
    /// first, in the order of the index.
    pub(super) fn steps(&self, batch: usize, run: &Run<'_>, steps: &mut Vec<Placed<'r>>) {
        steps.clear();
        for unit in &self.layout.units[self.units[batch].clone()] {
            steps.extend(self.layout.steps[unit.steps.clone()].iter().map(|&(step, name)| {
                let location = run.repo.objects().locate_packed(&run.write(step).1.oid);
                Placed { location, dir: unit.dir, step, name }
            }));
        }
        steps.sort_by_key(|step| step.location);
    }
}

impl Weigh for Batches<'_> {
    fn len(&self) -> usize {
        self.units.len()
    }

    fn weight(&self, batch: usize) -> usize {
        self.layout.units[self.units[batch].clone()].iter().map(|unit| unit.steps.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_all_units_and_leave_enough_to_steal() {
        let paths: Vec<Vec<u8>> = (0..3000).map(|n| format!("d{:03}/f{n:04}", n / 10).into_bytes()).collect();
        let layout = Layout::new(paths.iter().enumerate().map(|(step, path)| (step, path.as_slice())));
        for (workers, most) in [(2, BATCH), (64, 11), (3000, 10)] {
            let batches = Batches::new(&layout, workers);
            let covered: Vec<usize> = batches.units.iter().cloned().flatten().collect();
            assert_eq!(covered, (0..layout.units.len()).collect::<Vec<_>>());
            let weights = (0..batches.len()).map(|batch| batches.weight(batch));
            assert_eq!(weights.clone().sum::<usize>(), 3000);
            assert!(weights.max() <= Some(most), "{workers} workers");
        }
    }
}
