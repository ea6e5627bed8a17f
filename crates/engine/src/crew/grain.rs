//! How much a worker takes at once, in steps. What it has taken nobody can steal, so it is what was found to be done in a
//! short time: many files on a local disk, few on a network disk.

use std::time::{Duration, Instant};

pub(super) struct Grain {
    most: usize,
    since: Instant,
}

/// To begin with, by a worker of a crew that does not wait, and by one of a crew that does.
const FIRST: usize = 64;
const FIRST_WAITING: usize = 2;
/// Beyond this there is nothing left to gain for the order.
const LARGEST: usize = 1024;
/// A batch that took less is followed by a larger one, one that took twice this by a smaller one.
const SHORT: Duration = Duration::from_millis(50);

impl Grain {
    pub(super) fn new(waiting: bool) -> Grain {
        Grain { most: if waiting { FIRST_WAITING } else { FIRST }, since: Instant::now() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_while_batches_are_short_and_shrinks_when_they_are_long() {
        let after = |grain: &mut Grain, took: Duration| {
            grain.since = Instant::now().checked_sub(took).expect("not that long after boot");
            grain.most()
        };
        let mut grain = Grain::new(false);
        assert_eq!(after(&mut grain, Duration::ZERO), 2 * FIRST);
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
        assert!(Grain::new(true).most < Grain::new(false).most);
    }
}
