//! The pace at which commits are offered: the number per round, and the limit after which the
//! client gives up.
//!
//! The numbers are Git's, so that sapwood needs the same number of rounds with a server.

/// The number of commits in the first round.
const FIRST: usize = 16;

/// Give up after this many commits in a row that the server does not have, once it had one.
pub(super) const MAX_IN_VAIN: usize = 256;

/// The number of commits in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The total number of commits after which the round is sent.
    pub(super) limit: usize,
    stateless: bool,
}

impl Pace {
    /// Each request over a stateless link costs a round trip, so its rounds keep growing. Over a
    /// stateful link a round is written while the response to the previous one is still unread, so
    /// it must fit into a pipe.
    pub(super) fn new(stateless: bool) -> Pace {
        Pace { limit: FIRST, stateless }
    }

    /// Returns true if `count` commits are the first round.
    pub(super) fn is_first(count: usize) -> bool {
        count == FIRST
    }

    /// Chooses the next limit after `count` commits.
    pub(super) fn grow(&mut self, count: usize) {
        self.limit = match (self.stateless, count) {
            (true, ..16384) | (false, ..32) => count * 2,
            (true, _) => count / 10 * 11 + count % 10 * 11 / 10,
            (false, _) => count + 32,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_grow() {
        let limits = |stateless| {
            let mut pace = Pace::new(stateless);
            let mut limits = Vec::new();
            for _ in 0..12 {
                limits.push(pace.limit);
                pace.grow(pace.limit);
            }
            limits
        };
        assert_eq!(limits(true)[..4], [16, 32, 64, 128]);
        assert_eq!(limits(true)[10..], [16384, 18022]);
        assert_eq!(limits(false)[..5], [16, 32, 64, 96, 128]);
    }
}
