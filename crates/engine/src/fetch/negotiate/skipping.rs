//! Sends haves with growing gaps, so that few rounds find common commits in a long history.
//!
//! Each commit passes a countdown on to its parents. When the countdown reaches zero, the commit is
//! sent as a have, and the next gap is longer by half. A commit is also sent if the walk cannot
//! continue at any of its parents.

use std::collections::HashMap;

use format::ObjectId;

use super::history::History;

/// The state of a commit.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The server has the commit.
    common: bool,
    /// The server advertises the commit, as far as is known.
    advertised: bool,
    popped: bool,
    /// The length of the current gap.
    gap: u16,
    /// The remaining commits of the gap.
    left: u16,
}

/// The negotiator of `fetch.negotiationAlgorithm=skipping`.
pub(super) struct Skipping<'a> {
    history: History<'a>,
    /// The commits that were seen.
    states: HashMap<ObjectId, State>,
    /// The number of commits in the queue that are not common.
    open: usize,
}

impl<'a> Skipping<'a> {
    pub(super) fn new(history: History<'a>) -> Skipping<'a> {
        Skipping { history, states: HashMap::new(), open: 0 }
    }

    pub(super) fn history<'s>(&'s mut self) -> &'s mut History<'a> {
        &mut self.history
    }

    /// Queues a commit, unless it was seen before or does not exist.
    fn push(&mut self, oid: &ObjectId, state: State) {
        if !self.states.contains_key(oid) && self.history.push(oid) {
            self.states.insert(*oid, state);
            self.open += 1;
        }
    }

    pub(super) fn add_tip(&mut self, oid: &ObjectId) {
        self.push(oid, State::default());
    }

    pub(super) fn known_common(&mut self, oid: &ObjectId) {
        self.push(oid, State { advertised: true, ..State::default() });
    }

    /// Marks a commit as common. Returns true if it was already marked, or `None` if it was never
    /// queued.
    pub(super) fn acknowledge(&mut self, oid: &ObjectId) -> Option<bool> {
        let known = self.states.get(oid)?.common;
        self.is_common(oid);
        Some(known)
    }

    /// Marks a commit and its seen ancestors as common.
    pub(super) fn is_common(&mut self, oid: &ObjectId) {
        let mut pending = vec![*oid];
        while let Some(oid) = pending.pop() {
            let Some(state) = self.states.get_mut(&oid).filter(|state| !state.common) else { continue };
            state.common = true;
            if !state.popped {
                self.open = self.open.saturating_sub(1);
            }
            pending.extend(self.history.parents(&oid));
        }
    }

    /// Returns the next have.
    pub(super) fn next(&mut self) -> Option<ObjectId> {
        loop {
            if self.open == 0 {
                return None;
            }
            let (oid, _) = self.history.pop()?;
            let state = self.states.get_mut(&oid)?;
            state.popped = true;
            let state = *state;
            if !state.common {
                self.open -= 1;
            }
            let mut goes_on = false;
            for parent in self.history.parents(&oid) {
                goes_on |= self.pass_on(&state, &parent);
            }
            if !state.common && (state.left == 0 || !goes_on) {
                return Some(oid);
            }
        }
    }

    /// Passes the countdown of a commit on to a parent. Returns false if the parent was popped
    /// earlier, because of wrong dates.
    fn pass_on(&mut self, from: &State, parent: &ObjectId) -> bool {
        self.push(parent, State::default());
        let Some(state) = self.states.get_mut(parent).filter(|state| !state.popped) else { return false };
        if from.common || from.advertised {
            self.is_common(parent);
            return true;
        }
        let (gap, left) = match from.left {
            0 => {
                let gap = (u32::from(from.gap) * 3 / 2 + 1).min(u16::MAX.into()) as u16;
                (gap, gap)
            }
            left => (from.gap, left - 1),
        };
        if state.gap < gap {
            (state.gap, state.left) = (gap, left);
        }
        true
    }
}
