//! Batches: steps of neighbouring directories that one worker does in the order of the pack.
//!
//! Objects that are deltas of each other lie together in a pack, and often in different directories of a
//! tree (generations of one driver's headers). Decoding some hundred files in pack order uses such a
//! base while it is in the cache; the directories they are in stay few enough for their handles to be kept.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use repo::objects::Location;

use super::{Run, layout::Layout};

/// How much a worker takes at once, in steps. What it has taken nobody can steal, so it is what was found to be done
/// in a short time: many files on a local disk, few on a network disk.
pub(super) struct Grain {
    most: usize,
    since: Instant,
}

const FIRST: usize = 64;
/// Beyond this there is nothing left to gain for the order.
const LARGEST: usize = 1024;
/// A batch that took less is followed by a larger one, one that took twice this by a smaller one.
const SHORT: Duration = Duration::from_millis(50);

impl Grain {
    pub(super) fn new() -> Grain {
        Grain { most: FIRST, since: Instant::now() }
    }

    /// To be called before each batch.
    pub(super) fn most(&mut self) -> usize {
        let took = self.since.elapsed();
        self.since = Instant::now();
        if took < SHORT {
            self.most = (self.most * 2).min(LARGEST);
        } else if took > SHORT * 2 {
            self.most = (self.most / 2).max(1);
        }
        self.most
    }
}

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
    steps.clear();
    for unit in &layout.units[units] {
        steps.extend(layout.steps[unit.steps.clone()].iter().map(|&(step, name)| {
            let location = run.repo.objects().locate_packed(&run.write(step).1.oid);
            Placed { location, dir: unit.dir, step, name }
        }));
    }
    steps.sort_by_key(|step| step.location);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_while_batches_are_short_and_shrinks_when_they_are_long() {
        let after = |grain: &mut Grain, took: Duration| {
            grain.since = Instant::now().checked_sub(took).expect("not that long after boot");
            grain.most()
        };
        let mut grain = Grain::new();
        assert_eq!(grain.most(), 2 * FIRST);
        for _ in 0..10 {
            after(&mut grain, Duration::ZERO);
        }
        assert_eq!(grain.most, LARGEST);
        assert_eq!(after(&mut grain, SHORT + SHORT / 2), LARGEST);
        assert_eq!(after(&mut grain, SHORT * 3), LARGEST / 2);
        for _ in 0..20 {
            after(&mut grain, SHORT * 3);
        }
        assert_eq!(grain.most, 1);
    }
}
