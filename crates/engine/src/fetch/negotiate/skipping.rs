//! Offers commits with growing gaps, so that few rounds find common commits in a long history.
//!
//! A commit passes a countdown on to its parents. When it ends, the commit is offered, and the next
//! gap is half as long again. A commit without other ways down is always offered.

use std::collections::HashMap;

use format::ObjectId;

use super::history::History;

/// The state of a commit.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The server has it.
    common: bool,
    /// The server has a ref to it, as far as we know.
    advertised: bool,
    popped: bool,
    /// The length of the present gap.
    gap: u16,
    /// The commits of the gap that are left.
    left: u16,
}

/// See the module.
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

    /// Queues a commit, unless it was seen or does not exist.
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

    /// Returns true if the commit was known to be common; `None` if it was not offered.
    pub(super) fn acknowledge(&mut self, oid: &ObjectId) -> Option<bool> {
        let known = self.states.get(oid)?.common;
        self.is_common(oid);
        Some(known)
    }

    /// Marks a commit, and those of its ancestors that were seen.
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

    /// The next commit to offer.
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
    /// before it, because of wrong dates.
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
