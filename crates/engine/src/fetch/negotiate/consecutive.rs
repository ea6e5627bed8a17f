//! Sends each commit as a have, until all remaining commits are common.

use std::collections::HashMap;

use format::ObjectId;

use super::history::History;

/// The state of a commit.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// The server has the commit.
    common: bool,
    /// The commit of a ref that both sides have. It is sent as a have, but its ancestors are not.
    common_ref: bool,
    seen: bool,
    popped: bool,
}

/// The negotiator of `fetch.negotiationAlgorithm=consecutive`.
pub(super) struct Consecutive<'a> {
    history: History<'a>,
    marks: HashMap<ObjectId, Marks>,
    /// The number of commits in the queue that are not common.
    open: usize,
}

impl<'a> Consecutive<'a> {
    pub(super) fn new(history: History<'a>) -> Consecutive<'a> {
        Consecutive { history, marks: HashMap::new(), open: 0 }
    }

    pub(super) fn history<'s>(&'s mut self) -> &'s mut History<'a> {
        &mut self.history
    }

    fn marks(&mut self, oid: &ObjectId) -> &mut Marks {
        self.marks.entry(*oid).or_default()
    }

    /// Queues a commit that was not seen before.
    fn push(&mut self, oid: &ObjectId) {
        let is_common = {
            let marks = self.marks(oid);
            marks.seen = true;
            marks.common
        };
        if self.history.push(oid) && !is_common {
            self.open += 1;
        }
    }

    pub(super) fn add_tip(&mut self, oid: &ObjectId) {
        if !self.marks(oid).seen {
            self.push(oid);
        }
    }

    pub(super) fn known_common(&mut self, oid: &ObjectId) {
        if !self.marks(oid).seen {
            self.marks(oid).common_ref = true;
            self.push(oid);
            self.ancestors_are_common(oid);
        }
    }

    /// Marks a commit as common. Returns true if it was already marked, or `None` if it does not
    /// exist.
    pub(super) fn acknowledge(&mut self, oid: &ObjectId) -> Option<bool> {
        if !self.history.exists(oid) {
            return None;
        }
        let known = self.marks(oid).common;
        self.is_common(oid);
        Some(known)
    }

    /// Marks a commit and its seen ancestors as common.
    pub(super) fn is_common(&mut self, oid: &ObjectId) {
        let mut pending = vec![*oid];
        while let Some(oid) = pending.pop() {
            let marks = self.marks(&oid);
            if marks.common {
                continue;
            }
            marks.common = true;
            if !marks.seen {
                self.push(&oid);
                continue;
            }
            if !marks.popped {
                self.open = self.open.saturating_sub(1);
            }
            // The stack processes the first parent first, with all its ancestors, as Git does.
            pending.extend(self.history.parents(&oid).into_iter().rev());
        }
    }

    fn ancestors_are_common(&mut self, oid: &ObjectId) {
        for parent in self.history.parents(oid) {
            self.is_common(&parent);
        }
    }

    /// Returns the next have.
    pub(super) fn next(&mut self) -> Option<ObjectId> {
        loop {
            if self.open == 0 {
                return None;
            }
            let (oid, _) = self.history.pop()?;
            let marks = self.marks(&oid);
            marks.popped = true;
            let Marks { common, common_ref, .. } = *marks;
            if !common {
                self.open -= 1;
            }
            for parent in self.history.parents(&oid) {
                let passes_on = common || common_ref;
                if !self.marks(&parent).seen {
                    self.marks(&parent).common |= passes_on;
                    self.push(&parent);
                }
                // A parent that was sent as a have before is not marked. Its own parents are.
                if passes_on && !self.marks(&parent).common {
                    self.ancestors_are_common(&parent);
                }
            }
            if !common {
                return Some(oid);
            }
        }
    }
}
