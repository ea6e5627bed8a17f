//! Walks of history: the distance between two commits, and the commits that a command leaves
//! behind.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use bstr::BString;
use format::{ObjectId, keys};
use objects::{CommitGraph, Kind, Reader};
use sys::by_path;

use crate::{Error, FormatError, RefError, Repository};

/// The number of left-behind commits that Git lists.
const ORPHAN_CUTOFF: usize = 4;

/// Commits that were reachable only from a detached HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// The number of commits.
    pub total: usize,
    /// Abbreviated name and subject of the commits that Git lists: the first four, and the fifth if
    /// it is the last one.
    pub listed: Vec<(String, BString)>,
}

impl Repository {
    /// Returns an error if the repository has grafts, which walks of history would have to follow.
    pub fn check_grafts(&self) -> Result<(), Error> {
        let file = self.common_dir().join("info/grafts");
        match by_path::stat(&file) {
            Ok(Some(_)) => Err(FormatError::Grafts(file).into()),
            _ => Ok(()),
        }
    }

    /// Counts the commits in `left...right`: (only left, only right). Uses the commit-graph if
    /// there is one.
    pub fn ahead_behind(&self, left: ObjectId, right: ObjectId) -> Result<(usize, usize), Error> {
        if left == right {
            return Ok((0, 0));
        }
        self.check_grafts()?;
        let mut walk = Walk::new(self, |marks| marks & BOTH != BOTH);
        walk.paint(left, LEFT)?;
        walk.paint(right, RIGHT)?;
        walk.run()?;
        let count = |side| walk.seen.values().filter(|commit| commit.marks & BOTH == side).count();
        Ok((count(LEFT), count(RIGHT)))
    }

    /// Returns true if `tip` is one of `from` or an ancestor of one. All of them are commits.
    pub fn is_reachable(&self, tip: ObjectId, from: &[ObjectId]) -> Result<bool, Error> {
        if from.contains(&tip) {
            return Ok(true);
        }
        self.check_grafts()?;
        let mut walk = Walk::new(self, |marks| marks == LEFT);
        walk.paint(tip, LEFT)?;
        for id in from {
            walk.paint(*id, RIGHT)?;
        }
        walk.run()?;
        Ok(walk.seen.get(&tip).is_some_and(|seen| seen.marks & RIGHT != 0))
    }

    /// Returns the best common ancestors of two commits: those that are not ancestors of another
    /// common ancestor. `git merge-base --all` prints the same, but here the order is unspecified.
    pub fn merge_bases(&self, left: ObjectId, right: ObjectId) -> Result<Vec<ObjectId>, Error> {
        self.merge_bases_with(&mut ReadCommits::default(), left, right)
    }

    /// Like [`Repository::merge_bases`], for many pairs: a commit is read once.
    pub fn merge_bases_with(
        &self,
        known: &mut ReadCommits,
        left: ObjectId,
        right: ObjectId,
    ) -> Result<Vec<ObjectId>, Error> {
        if left == right {
            return Ok(vec![left]);
        }
        self.check_grafts()?;
        let mut walk = Walk::new(self, |marks| marks & BOTH != BOTH);
        walk.known = std::mem::take(known);
        let walked = walk.paint(left, LEFT).and_then(|()| walk.paint(right, RIGHT)).and_then(|()| walk.run());
        *known = std::mem::take(&mut walk.known);
        walked?;
        let common = || walk.seen.iter().filter(|(_, commit)| commit.marks & BOTH == BOTH);
        let below: HashSet<_> = common().flat_map(|(_, commit)| &commit.parents).collect();
        let mut bases: Vec<_> = common().map(|(id, _)| *id).filter(|id| !below.contains(id)).collect();
        // One base may still descend from another through commits that the walk did not visit.
        let mut at = 0;
        while bases.len() > 1 && at < bases.len() {
            let mut redundant = false;
            for other in bases.iter().filter(|other| **other != bases[at]) {
                redundant = redundant || self.ahead_behind(bases[at], *other)?.0 == 0;
            }
            if redundant {
                bases.swap_remove(at);
            } else {
                at += 1
            }
        }
        Ok(bases)
    }

    /// Returns the commits that are reachable from `tips`, but not from `not`, youngest first. Tags
    /// are followed; objects that do not lead to a commit are ignored.
    pub fn commits_only_in(&self, tips: &[ObjectId], not: &[ObjectId]) -> Result<Vec<ObjectId>, Error> {
        self.check_grafts()?;
        let mut walk = Walk::new(self, |marks| marks == LEFT);
        for (ids, mark) in [(tips, LEFT), (not, RIGHT)] {
            for id in ids {
                if let Some(commit) = self.commit_if_there(*id)? {
                    walk.paint(commit, mark)?;
                }
            }
        }
        let order = walk.run()?;
        Ok(order.into_iter().filter(|id| walk.seen[id].marks == LEFT).collect())
    }

    /// Returns the youngest commits that are reachable from `tip`, at most `limit` of them.
    pub fn newest_commits(&self, tip: ObjectId, limit: usize) -> Result<Vec<ObjectId>, Error> {
        self.check_grafts()?;
        let mut walk = Walk::new(self, |_| true);
        walk.paint(tip, LEFT)?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some((_, _, id)) = walk.queue.pop()
        {
            found.push(id);
            let seen = walk.seen.get_mut(&id).expect("what is queued was seen");
            seen.queued = false;
            for parent in seen.parents.clone() {
                walk.paint(parent, LEFT)?;
            }
        }
        Ok(found)
    }

    /// Returns true if it is certain that fewer than `limit` commits are reachable from `tips` and
    /// not in the commit-graph. Tips that lead to no commit are left out.
    pub fn has_few_commits_outside_graph(&self, tips: &[ObjectId], limit: usize) -> bool {
        let graph = self.commit_graph();
        let mut reader = self.objects.reader();
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let mut pending = Vec::with_capacity(tips.len());
        for tip in tips {
            match reader.header(tip) {
                Ok((Kind::Commit, _)) => pending.push(*tip),
                Ok((Kind::Tag, _)) => match self.peel_to_commit(*tip) {
                    Ok(commit) => pending.extend(commit),
                    Err(_) => return false,
                },
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        while let Some(id) = pending.pop() {
            if graph.is_some_and(|graph| graph.commit(&id).is_some()) || !seen.insert(id) {
                continue;
            }
            if seen.len() >= limit {
                return false;
            }
            match self.read_commit_with(&mut reader, &id) {
                Ok(commit) => pending.extend(commit.parents),
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns the commits that are reachable from `old`, but from no ref and not from `new`.
    pub fn left_behind(&self, old: ObjectId, new: Option<ObjectId>) -> Result<LeftBehind, Error> {
        self.check_grafts()?;
        let mut walk = Walk::new(self, |marks| marks & RIGHT == 0);
        walk.paint(old, LEFT)?;
        for (name, id) in self.refs("refs/")? {
            if id.is_null() {
                return Err(RefError::NoObject(name).into());
            }
            // Refs may name trees and blobs. A ref whose object is missing must not hide the
            // warning.
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

/// Commits that earlier walks have read: their dates and parents.
#[derive(Debug, Default)]
pub struct ReadCommits(HashMap<ObjectId, (i64, Vec<ObjectId>)>);

/// The number of extra commits that are walked because committer dates may be wrong.
const SLOP: usize = 5;

const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const BOTH: u8 = LEFT | RIGHT;

/// A walk that propagates marks from tips to ancestors, youngest commits first.
struct Walk<'a> {
    repo: &'a Repository,
    reader: Reader<'a>,
    graph: Option<&'a CommitGraph>,
    /// Returns true if a commit with these marks keeps the walk going.
    keeps_going: fn(u8) -> bool,
    known: ReadCommits,
    seen: HashMap<ObjectId, Seen>,
    /// Ordered by date, then by discovery.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    /// The number of commits in the queue that keep the walk going.
    active: usize,
}

/// A visited commit.
struct Seen {
    marks: u8,
    queued: bool,
    parents: Vec<ObjectId>,
}

impl<'a> Walk<'a> {
    fn new(repo: &'a Repository, keeps_going: fn(u8) -> bool) -> Self {
        Walk {
            repo,
            reader: repo.objects.reader(),
            graph: repo.commit_graph(),
            keeps_going,
            known: ReadCommits::default(),
            seen: HashMap::new(),
            queue: BinaryHeap::new(),
            active: 0,
        }
    }

    /// Adds marks to a commit. If its parents are already visited, the marks go on to its ancestors
    /// at once, so wrong dates rarely change the result.
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
                    } else if (self.keeps_going)(before) && !(self.keeps_going)(seen.marks) {
                        self.active -= 1;
                    }
                }
                None => {
                    let (date, parents) = match self.known.0.get(&id) {
                        Some(known) => known.clone(),
                        None => self.read(&id)?,
                    };
                    self.known.0.insert(id, (date, parents.clone()));
                    self.queue.push((date, Reverse(self.seen.len()), id));
                    self.seen.insert(id, Seen { marks, queued: true, parents });
                    self.active += usize::from((self.keeps_going)(marks));
                }
            }
        }
        Ok(())
    }

    /// Reads the date and the parents of a commit.
    fn read(&mut self, id: &ObjectId) -> Result<(i64, Vec<ObjectId>), Error> {
        if let Some(graph) = self.graph
            && let Some(commit) = graph.commit(id)
            // A damaged graph is not an error: the commit itself has the same data.
            && let (Some(parents), Some(date)) = (commit.parents(), commit.date())
        {
            return Ok((date, parents));
        }
        let commit = self.repo.read_commit_with(&mut self.reader, id)?;
        Ok((commit.date, commit.parents))
    }

    /// Walks until no commit in the queue keeps the walk going; returns the commits in order.
    ///
    /// A commit as young as the last commit that kept the walk going may be its descendant and pass
    /// marks to it. The walk visits those too, and then [`SLOP`] more commits, as Git does.
    fn run(&mut self) -> Result<Vec<ObjectId>, Error> {
        let mut order = Vec::new();
        let (mut oldest, mut slop) = (i64::MAX, SLOP);
        while let Some((date, _, id)) = self.queue.pop() {
            let is_slop = self.active == 0 && date < oldest;
            if is_slop && slop == 0 {
                break;
            }
            slop = if is_slop { slop - 1 } else { SLOP };
            let seen = self.seen.get_mut(&id).expect("what is queued was seen");
            seen.queued = false;
            let (marks, parents) = (seen.marks, seen.parents.clone());
            if (self.keeps_going)(marks) {
                self.active -= 1;
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
    /// Returns true if there is a commit-graph that can be used.
    pub fn has_commit_graph(&self) -> bool {
        self.commit_graph().is_some()
    }

    /// Returns the commit-graph. Returns `None` in a shallow clone and with replacements, because
    /// the graph ignores both. It is opened once.
    pub(crate) fn commit_graph(&self) -> Option<&CommitGraph> {
        let open = || {
            let wanted = self.config(&keys::core::COMMIT_GRAPH).unwrap_or(true);
            let replaces = self.replaced.as_ref().is_some_and(|replaced| replaced.replaces_any());
            // A damaged `shallow` file is reported when a commit is read.
            let is_whole = self.shallow().is_ok_and(HashSet::is_empty);
            if !wanted || !is_whole || replaces {
                return None;
            }
            CommitGraph::open(&self.objects_dir().join("info"), self.layout.hash)
        };
        self.graph.get_or_init(open).as_ref()
    }
}
