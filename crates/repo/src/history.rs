//! Walks of history: how far two commits are apart, and what is left behind.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use bstr::BString;
use format::ObjectId;

use gix_commitgraph::Graph;

use crate::{Error, RefError, Repository, gitoxide, objects::Reader};

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
    /// Commits in `left...right`: (only left, only right), through the commit-graph if there is one.
    pub fn ahead_behind(&self, left: ObjectId, right: ObjectId) -> Result<(usize, usize), Error> {
        if left == right {
            return Ok((0, 0));
        }
        let mut walk = Walk::new(self, |marks| marks & BOTH != BOTH);
        walk.paint(left, LEFT)?;
        walk.paint(right, RIGHT)?;
        walk.run()?;
        let count = |side| walk.seen.values().filter(|commit| commit.marks & BOTH == side).count();
        Ok((count(LEFT), count(RIGHT)))
    }

    /// The common ancestors of two commits that no other common ancestor descends from: `git merge-base --all`,
    /// in no certain order.
    pub fn merge_bases(&self, left: ObjectId, right: ObjectId) -> Result<Vec<ObjectId>, Error> {
        if left == right {
            return Ok(vec![left]);
        }
        let mut walk = Walk::new(self, |marks| marks & BOTH != BOTH);
        walk.paint(left, LEFT)?;
        walk.paint(right, RIGHT)?;
        walk.run()?;
        let common = || walk.seen.iter().filter(|(_, commit)| commit.marks & BOTH == BOTH);
        let below: HashSet<_> = common().flat_map(|(_, commit)| &commit.parents).collect();
        let mut bases: Vec<_> = common().map(|(id, _)| *id).filter(|id| !below.contains(id)).collect();
        // One may still descend from another by commits the walk had no reason to look at.
        let mut at = 0;
        while bases.len() > 1 && at < bases.len() {
            let mut redundant = false;
            for other in bases.iter().filter(|other| **other != bases[at]) {
                redundant = redundant || self.ahead_behind(bases[at], *other)?.0 == 0;
            }
            match redundant {
                true => drop(bases.swap_remove(at)),
                false => at += 1,
            }
        }
        Ok(bases)
    }

    /// The commits reachable from `old` but from no ref, nor from `new`.
    pub fn left_behind(&self, old: ObjectId, new: Option<ObjectId>) -> Result<LeftBehind, Error> {
        let mut walk = Walk::new(self, |marks| marks & RIGHT == 0);
        walk.paint(old, LEFT)?;
        for (name, id) in self.refs("refs/")? {
            if id.is_null() {
                return Err(RefError::NoObject(name).into());
            }
            // Refs may point to trees and blobs, and one whose object is missing must not hide the warning.
            if let Ok(Some(commit)) = self.peel_to_commit(id) {
                walk.paint(commit, RIGHT)?;
            }
        }
        if let Some(new) = new {
            walk.paint(new, RIGHT)?;
        }
        let order = walk.run()?;
        let lost: Vec<_> = order.into_iter().filter(|id| walk.seen[id].marks & BOTH == LEFT).collect();
        let shown = if lost.len() == ORPHAN_CUTOFF + 1 { lost.len() } else { ORPHAN_CUTOFF.min(lost.len()) };
        let listed = lost[..shown]
            .iter()
            .map(|id| Ok((self.abbreviate(*id)?, self.subject(*id)?)))
            .collect::<Result<_, Error>>()?;
        Ok(LeftBehind { total: lost.len(), listed })
    }
}

/// How many commits that tell nothing new are walked for dates that lie.
const SLOP: usize = 5;

const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const BOTH: u8 = LEFT | RIGHT;

/// A walk that spreads marks from tips to ancestors, youngest commits first.
struct Walk<'a> {
    repo: &'a Repository,
    reader: Reader<'a>,
    graph: Option<Graph>,
    /// Whether a commit with these marks is a reason to go on.
    worth: fn(u8) -> bool,
    seen: HashMap<ObjectId, Seen>,
    /// By date, then by order of discovery.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    /// How many in the queue are worth it.
    reasons: usize,
}

/// A commit that was reached.
struct Seen {
    marks: u8,
    queued: bool,
    parents: Vec<ObjectId>,
}

impl<'a> Walk<'a> {
    fn new(repo: &'a Repository, worth: fn(u8) -> bool) -> Self {
        Walk {
            repo,
            reader: repo.objects.reader(),
            graph: repo.commit_graph(),
            worth,
            seen: HashMap::new(),
            queue: BinaryHeap::new(),
            reasons: 0,
        }
    }

    /// Marks a commit. Marks that reach a commit already walked go on to its ancestors at once, so that
    /// few dates that lie make the result wrong.
    fn paint(&mut self, id: ObjectId, marks: u8) -> Result<(), Error> {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            match self.seen.get_mut(&id) {
                Some(seen) if seen.marks & marks == marks => {}
                Some(seen) => {
                    let before = seen.marks;
                    seen.marks |= marks;
                    if !seen.queued {
                        pending.extend_from_slice(&seen.parents);
                    } else if (self.worth)(before) && !(self.worth)(seen.marks) {
                        self.reasons -= 1;
                    }
                }
                None => {
                    let (date, parents) = self.read(&id)?;
                    self.queue.push((date, Reverse(self.seen.len()), id));
                    self.seen.insert(id, Seen { marks, queued: true, parents });
                    self.reasons += usize::from((self.worth)(marks));
                }
            }
        }
        Ok(())
    }

    /// Date and parents.
    fn read(&mut self, id: &ObjectId) -> Result<(i64, Vec<ObjectId>), Error> {
        if let Some(graph) = &self.graph
            && let Some(commit) = graph.commit_by_id(gitoxide::object_id(id))
        {
            // A broken graph is no reason to fail: the commit itself tells the same.
            let parents: Option<Vec<_>> =
                commit.iter_parents().map(|parent| self.repo.own_id(graph.id_at(parent.ok()?))).collect();
            if let (Some(parents), Ok(date)) = (parents, i64::try_from(commit.committer_timestamp())) {
                return Ok((date, parents));
            }
        }
        let commit = self.repo.read_commit_with(&mut self.reader, id)?;
        Ok((commit.date, commit.parents))
    }

    /// Walks until nothing in the queue is worth it any more; returns the commits in order.
    ///
    /// What is not worth it but as young as what was still may descend from that, and mark it: it is
    /// walked, too, and [`SLOP`] commits more, as Git does.
    fn run(&mut self) -> Result<Vec<ObjectId>, Error> {
        let mut order = Vec::new();
        let (mut oldest, mut slop) = (i64::MAX, SLOP);
        while let Some((date, _, id)) = self.queue.pop() {
            let in_vain = self.reasons == 0 && date < oldest;
            if in_vain && slop == 0 {
                break;
            }
            slop = if in_vain { slop - 1 } else { SLOP };
            let seen = self.seen.get_mut(&id).expect("what is queued was seen");
            seen.queued = false;
            let (marks, parents) = (seen.marks, seen.parents.clone());
            if (self.worth)(marks) {
                self.reasons -= 1;
                oldest = date;
            }
            order.push(id);
            for parent in parents {
                self.paint(parent, marks)?;
            }
        }
        Ok(order)
    }
}

impl Repository {
    /// The commit-graph, unless it would not tell the truth: where history is cut off or replaced.
    fn commit_graph(&self) -> Option<Graph> {
        let wanted = self.config_bool("core.commitGraph").ok().flatten().unwrap_or(true);
        let replaces = self.replaced.as_ref().is_some_and(|replaced| replaced.replaces_any());
        // An error about the list of shallow commits is returned when a commit is read.
        let is_whole = self.shallow().is_ok_and(HashSet::is_empty);
        if !wanted || !is_whole || replaces {
            return None;
        }
        Graph::from_info_dir(&self.objects_dir().join("info"), gitoxide::hash_kind(self.layout.hash)).ok()
    }
}
