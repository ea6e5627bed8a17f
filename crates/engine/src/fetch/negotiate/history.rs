//! A queue of commits, the youngest first.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use format::ObjectId;
use repo::{Commits, Links};

/// A queue of commits, and a cache of their parents and dates.
pub(super) struct History<'a> {
    commits: Commits<'a>,
    known: HashMap<ObjectId, Option<Links>>,
    /// Sorted by date. Among commits with the same date, the one pushed first comes first.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    pushed: usize,
}

impl<'a> History<'a> {
    pub(super) fn new(commits: Commits<'a>) -> History<'a> {
        History { commits, known: HashMap::new(), queue: BinaryHeap::new(), pushed: 0 }
    }

    fn links(&mut self, oid: &ObjectId) -> Option<&Links> {
        let commits = &mut self.commits;
        self.known.entry(*oid).or_insert_with(|| commits.get(oid)).as_ref()
    }

    /// Pushes a commit to the queue. Returns false if it cannot be read.
    pub(super) fn push(&mut self, oid: &ObjectId) -> bool {
        let Some(date) = self.links(oid).map(|links| links.date) else { return false };
        self.queue.push((date, Reverse(self.pushed), *oid));
        self.pushed += 1;
        true
    }

    /// Pops the youngest commit, with its date.
    pub(super) fn pop(&mut self) -> Option<(ObjectId, i64)> {
        self.queue.pop().map(|(date, _, oid)| (oid, date))
    }

    /// Returns the parents of a commit; none if it cannot be read.
    pub(super) fn parents(&mut self, oid: &ObjectId) -> Vec<ObjectId> {
        self.links(oid).map(|links| links.parents.clone()).unwrap_or_default()
    }

    pub(super) fn exists(&mut self, oid: &ObjectId) -> bool {
        self.links(oid).is_some()
    }

    /// See [`Commits::peel`].
    pub(super) fn peel(&mut self, oid: &ObjectId, tags: &mut dyn FnMut(ObjectId)) -> Option<ObjectId> {
        self.commits.peel(oid, tags)
    }

    /// Returns true if one of `wanted` is `tip` or an ancestor of it.
    pub(super) fn reaches(&mut self, tip: &ObjectId, wanted: &HashSet<ObjectId>) -> bool {
        let (mut seen, mut pending) = (HashSet::from([*tip]), vec![*tip]);
        while let Some(oid) = pending.pop() {
            if wanted.contains(&oid) {
                return true;
            }
            pending.extend(self.parents(&oid).into_iter().filter(|parent| seen.insert(*parent)));
        }
        false
    }
}
