//! The commits that refs lead to, as far as they are here.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

use format::{Kind, ObjectId};
use repo::{Links, objects::Objects, tag_target};

use super::Error;
use crate::pack_indexing::incoming;

/// The most commits that are offered to a server.
const OFFERS: usize = 256;

/// The result of a walk.
pub(super) struct Found {
    /// Commits, tags and tips that are not here.
    pub(super) missing: Vec<ObjectId>,
    /// The trees of the commits, and tips that are trees.
    pub(super) roots: Vec<ObjectId>,
    /// Commits whose history is here, the newest of each line.
    pub(super) complete: Vec<ObjectId>,
    graph: Graph,
}

impl Found {
    /// Returns the tips that are commits and that are here.
    pub(super) fn present(&self, tips: &[ObjectId]) -> Vec<ObjectId> {
        let state = |tip| Some(self.graph.nodes[*self.graph.numbers.get(tip)? as usize].state);
        let present = tips.iter().filter(|tip| state(*tip) == Some(State::Commit));
        present.copied().take(OFFERS).collect()
    }

    /// Returns true if the tips lead to an object. Only for a walk without leads.
    pub(super) fn reaches(&self, oid: &ObjectId) -> bool {
        self.graph.numbers.contains_key(oid)
    }
}

#[derive(Default)]
struct Graph {
    /// Commits whose parents are not looked at.
    ends: HashSet<ObjectId>,
    numbers: HashMap<ObjectId, u32>,
    nodes: Vec<Node>,
}

struct Node {
    oid: ObjectId,
    state: State,
    /// The objects it names: parents, or the target of a tag.
    names: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has looked for it.
    New,
    Missing,
    Commit,
    Other,
}

impl Graph {
    fn add(&mut self, oid: ObjectId) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.numbers.entry(oid).or_insert(next);
        if number == next {
            self.nodes.push(Node { oid, state: State::New, names: Vec::new() });
        }
        number
    }

    /// Looks at all nodes from `start` on. `take_tree` gets the trees of commits, and trees.
    fn look(
        &mut self,
        start: usize,
        objects: &Objects,
        interrupt: &AtomicBool,
        take_tree: &mut dyn FnMut(ObjectId),
    ) -> Result<(), Error> {
        let mut reader = objects.reader();
        let mut next = start;
        while let Some(oid) = self.nodes.get(next).map(|node| node.oid) {
            if interrupt.load(Ordering::Relaxed) {
                return Err(incoming::Error::Interrupted.into());
            }
            let mut names = Vec::new();
            let state = if objects.contains_listed(&oid) {
                let (kind, data) = reader.read(&oid).map_err(Error::Unreadable)?;
                match kind {
                    Kind::Commit => {
                        let links = Links::parse(oid.kind(), data).ok_or(Error::Incomplete)?;
                        take_tree(links.tree);
                        if !self.ends.contains(&oid) {
                            names = links.parents.into_iter().map(|parent| self.add(parent)).collect();
                        }
                        State::Commit
                    }
                    Kind::Tag => {
                        names.push(self.add(tag_target(oid.kind(), data).ok_or(Error::Incomplete)?));
                        State::Other
                    }
                    Kind::Tree => {
                        take_tree(oid);
                        State::Other
                    }
                    Kind::Blob => State::Other,
                }
            } else {
                State::Missing
            };
            let node = &mut self.nodes[next];
            (node.state, node.names) = (state, names);
            next += 1;
        }
        Ok(())
    }

    /// Returns the commits that lead to nothing missing, and that no other such commit leads to.
    fn complete(&self) -> Vec<ObjectId> {
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            node.names.iter().for_each(|named| users[*named as usize].push(number as u32));
        }
        let mut is_complete = vec![true; self.nodes.len()];
        let missing = self.nodes.iter().enumerate().filter(|(_, node)| node.state == State::Missing);
        let mut pending: Vec<u32> = missing.map(|(number, _)| number as u32).collect();
        while let Some(number) = pending.pop() {
            if std::mem::replace(&mut is_complete[number as usize], false) {
                pending.extend_from_slice(&users[number as usize]);
            }
        }
        let is_last = |(number, node): &(usize, &Node)| {
            let has_later = users[*number]
                .iter()
                .any(|user| is_complete[*user as usize] && self.nodes[*user as usize].state == State::Commit);
            node.state == State::Commit && is_complete[*number] && !has_later
        };
        let last = self.nodes.iter().enumerate().filter(is_last);
        last.map(|(_, node)| node.oid).take(OFFERS).collect()
    }
}

/// The history to walk.
#[derive(Clone, Copy)]
pub(super) struct History<'a> {
    pub(super) tips: &'a [ObjectId],
    /// The commits at which it ends.
    pub(super) ends: &'a [ObjectId],
}

/// Walks the history. If something is missing, `leads` help to find history that is complete.
pub(super) fn walk(
    objects: &Objects,
    History { tips, ends }: History<'_>,
    leads: &[ObjectId],
    interrupt: &AtomicBool,
) -> Result<Found, Error> {
    let mut graph = Graph { ends: ends.iter().copied().collect(), ..Graph::default() };
    let mut roots = Vec::new();
    tips.iter().for_each(|tip| {
        graph.add(*tip);
    });
    graph.look(0, objects, interrupt, &mut |tree| roots.push(tree))?;
    let is_missing = |node: &&Node| node.state == State::Missing;
    let missing: Vec<ObjectId> = graph.nodes.iter().filter(is_missing).map(|node| node.oid).collect();
    if missing.is_empty() {
        return Ok(Found { missing, roots, complete: Vec::new(), graph });
    }
    let start = graph.nodes.len();
    leads.iter().for_each(|lead| {
        graph.add(*lead);
    });
    let mut others = Vec::new();
    graph.look(start, objects, interrupt, &mut |tree| others.push(tree))?;
    // They tell how far the transfer came.
    roots.extend(others);
    Ok(Found { missing, roots, complete: graph.complete(), graph })
}
