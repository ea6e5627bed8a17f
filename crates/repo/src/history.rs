//! Walks of history: how far two commits are apart, and what is left behind.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use bstr::BString;
use format::ObjectId;

use crate::{Error, Repository};

/// Git lists this many of the commits left behind.
const ORPHAN_CUTOFF: usize = 4;

/// Commits that only a detached HEAD held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// How many there are.
    pub total: usize,
    /// Abbreviated name and subject of those Git lists: the first four, and the fifth if it is the
    /// only one more.
    pub listed: Vec<(String, BString)>,
}

impl Repository {
    /// Commits in `left...right`: (only left, only right).
    pub fn ahead_behind(&self, left: ObjectId, right: ObjectId) -> Result<(usize, usize), Error> {
        if left == right {
            return Ok((0, 0));
        }
        let mut walk = Walk::new(self);
        walk.paint(left, LEFT)?;
        walk.paint(right, RIGHT)?;
        walk.run(|flags| flags & BOTH != BOTH)?;
        let count = |side| walk.flags.values().filter(|&&flags| flags & BOTH == side).count();
        Ok((count(LEFT), count(RIGHT)))
    }

    /// The commits reachable from `old` but from no ref, nor from `new`.
    pub fn left_behind(&self, old: ObjectId, new: Option<ObjectId>) -> Result<LeftBehind, Error> {
        let mut walk = Walk::new(self);
        walk.paint(old, LEFT)?;
        for (_, id) in self.refs("refs/")? {
            // Refs may point to trees and blobs, and a broken one must not hide the warning.
            if let Ok(Some(commit)) = self.peel_to_commit(id) {
                walk.paint(commit, RIGHT)?;
            }
        }
        if let Some(new) = new {
            walk.paint(new, RIGHT)?;
        }
        let order = walk.run(|flags| flags & RIGHT == 0)?;
        let lost: Vec<_> = order.into_iter().filter(|id| walk.flags[id] & BOTH == LEFT).collect();
        let shown = if lost.len() == ORPHAN_CUTOFF + 1 { lost.len() } else { ORPHAN_CUTOFF.min(lost.len()) };
        let listed = lost[..shown]
            .iter()
            .map(|id| Ok((self.abbreviate(*id)?, self.subject(*id)?)))
            .collect::<Result<_, Error>>()?;
        Ok(LeftBehind { total: lost.len(), listed })
    }
}

const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const BOTH: u8 = LEFT | RIGHT;

/// A walk that spreads marks from tips to ancestors, youngest commits first.
struct Walk<'a> {
    repo: &'a Repository,
    flags: HashMap<ObjectId, u8>,
    parents: HashMap<ObjectId, Vec<ObjectId>>,
    /// By date, then by order of discovery.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    entered: usize,
}

impl<'a> Walk<'a> {
    fn new(repo: &'a Repository) -> Self {
        Walk { repo, flags: HashMap::new(), parents: HashMap::new(), queue: BinaryHeap::new(), entered: 0 }
    }

    /// Marks a commit. Marks that reach a commit already walked go on to its ancestors at once, so
    /// dates that lie cannot make the result wrong.
    fn paint(&mut self, id: ObjectId, marks: u8) -> Result<(), Error> {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            match self.flags.get_mut(&id) {
                Some(flags) if *flags & marks == marks => {}
                Some(flags) => {
                    *flags |= marks;
                    pending.extend(self.parents.get(&id).into_iter().flatten());
                }
                None => {
                    let commit = self.repo.read_commit(&id)?;
                    self.flags.insert(id, marks);
                    self.queue.push((commit.date, Reverse(self.entered), id));
                    self.entered += 1;
                    self.parents.insert(id, commit.parents);
                }
            }
        }
        Ok(())
    }

    /// Walks until nothing in the queue is worth it any more; returns the commits in order.
    fn run(&mut self, worth: impl Fn(u8) -> bool) -> Result<Vec<ObjectId>, Error> {
        let mut order = Vec::new();
        while self.queue.iter().any(|(_, _, id)| worth(self.flags[id])) {
            let Some((_, _, id)) = self.queue.pop() else { break };
            let flags = self.flags[&id];
            order.push(id);
            for parent in self.parents.get(&id).cloned().unwrap_or_default() {
                self.paint(parent, flags)?;
            }
        }
        Ok(order)
    }
}
