//! Finds the commits that are reachable from the tips but not from refs.
//!
//! The youngest commit is visited first. A mark on a visited commit is passed on to its ancestors
//! at once, so wrong dates do not affect the result.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

use format::ObjectId;
use repo::{Commits, Links, Repository, objects::Objects};

use super::trees::Job;

/// The result of the walk.
pub(super) enum WalkResult {
    /// The trees of the new commits. The base of each is the tree of its first parent.
    Commits(Vec<Job>),
    /// This commit is missing.
    Missing(ObjectId),
}

struct CommitState {
    is_known: bool,
    is_queued: bool,
    links: Links,
}

struct Walk<'a> {
    commits: Commits<'a>,
    seen: HashMap<ObjectId, CommitState>,
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    /// The number of queued commits that are new so far.
    open: usize,
}

/// Walks from `tips` to the commits of `known` refs.
pub(super) fn new_commits(
    repo: &Repository,
    objects: &Objects,
    tips: &[ObjectId],
    known: &HashSet<ObjectId>,
    interrupt: &AtomicBool,
) -> Result<WalkResult, repo::Error> {
    let commits = repo.commits(objects)?;
    let mut walk = Walk { commits, seen: HashMap::new(), queue: BinaryHeap::new(), open: 0 };
    for tip in tips {
        if let Err(missing) = walk.mark(*tip, false) {
            return Ok(WalkResult::Missing(missing));
        }
    }
    for oid in known {
        // A ref with damaged history is ignored.
        if let Some(commit) = walk.commits.peel(oid, &mut |_| ()) {
            let _ = walk.mark(commit, true);
        }
    }
    let mut order = Vec::new();
    while walk.open > 0 && !interrupt.load(Ordering::Relaxed) {
        let Some((_, _, oid)) = walk.queue.pop() else { break };
        let seen = walk.seen.get_mut(&oid).expect("what is queued was seen");
        seen.is_queued = false;
        let (is_known, parents) = (seen.is_known, seen.links.parents.clone());
        if !is_known {
            walk.open -= 1;
            order.push(oid);
        }
        for parent in parents {
            match walk.mark(parent, is_known) {
                Err(missing) if !is_known => return Ok(WalkResult::Missing(missing)),
                _ => {}
            }
        }
    }
    Ok(WalkResult::Commits(walk.jobs(&order, !known.is_empty())))
}

impl Walk<'_> {
    /// Marks a commit and its visited ancestors. The error is the name of a commit that cannot be
    /// read.
    fn mark(&mut self, oid: ObjectId, is_known: bool) -> Result<(), ObjectId> {
        let mut pending = vec![oid];
        while let Some(oid) = pending.pop() {
            match self.seen.get_mut(&oid) {
                Some(seen) if seen.is_known || !is_known => {}
                Some(seen) => {
                    seen.is_known = true;
                    if seen.is_queued {
                        self.open -= 1
                    } else {
                        pending.extend_from_slice(&seen.links.parents)
                    }
                }
                None => {
                    // The commit-graph may contain a commit whose object is missing, so the object
                    // of a new commit is read.
                    let links = if is_known { self.commits.get(&oid) } else { self.commits.read(&oid) };
                    let links = links.ok_or(oid)?;
                    self.queue.push((links.date, Reverse(self.seen.len()), oid));
                    self.seen.insert(oid, CommitState { is_known, is_queued: true, links });
                    self.open += usize::from(!is_known);
                }
            }
        }
        Ok(())
    }

    fn jobs(&mut self, order: &[ObjectId], has_refs: bool) -> Vec<Job> {
        let is_new = |oid: &&ObjectId| self.seen.get(oid).is_some_and(|seen| !seen.is_known);
        let base = |links: &Links| {
            let parent = links.parents.first().filter(|_| has_refs)?;
            self.seen.get(parent).map(|seen| seen.links.tree)
        };
        let job = |oid: &ObjectId| {
            let links = &self.seen[oid].links;
            Job { tree: links.tree, base: base(links) }
        };
        order.iter().filter(is_new).map(job).collect()
    }
}
