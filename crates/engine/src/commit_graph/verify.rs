//! Verifies a graph against the commit objects, with Git's messages.
//!
//! Like Git, the check remembers how a commit was first found: by its position in a child's parent
//! list, or by its name.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use format::{Kind, ObjectId};
use repo::objects::{Objects, Reader};

use super::{
    chain::{BadEdges, Chain},
    commits::{self, NameHasher},
};

/// The outcome of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Lines for standard error.
    pub lines: Vec<String>,
    /// The fatal error that ended the check.
    pub fatal: Option<String>,
    /// The exit code.
    pub code: u8,
    /// True if a commit could not be read. Git prints its own messages about that.
    pub unreadable_commit: bool,
}

/// The generation number of a commit that is in no graph.
const INFINITE: u64 = (1 << 63) - 1;
const MAX_LEVEL: u64 = 0x3fff_ffff;

/// A commit as recorded in the graph.
#[derive(Clone, Debug, Default)]
struct RecordedCommit {
    position: Option<u32>,
    parsed: Option<Parsed>,
}

#[derive(Clone, Debug)]
struct Parsed {
    tree: ObjectId,
    parents: Vec<ObjectId>,
    date: u64,
    generation: u64,
}

/// Verifies the highest layer, or all layers. `progress` gets the number of commits checked so far.
/// Once `interrupt` is set, the check ends early.
pub fn verify(
    objects: &Objects,
    chain: &Chain,
    only_tip: bool,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Verdict {
    let mut check = Check {
        chain,
        reader: objects.reader(),
        hash: objects.hash(),
        interrupt,
        known: HashMap::default(),
        verdict: Verdict::default(),
        seen: 0,
        error: 0,
    };
    let layers = (0..chain.layers.len()).rev().take(if only_tip { 1 } else { usize::MAX });
    for layer in layers {
        if let Err(stop) = check.layer(layer, progress) {
            match stop {
                Stop::Fatal(message) => check.verdict.fatal = Some(message),
                Stop::Unreadable => check.verdict.unreadable_commit = true,
                Stop::Interrupted => {}
            }
            break;
        }
        check.verdict.code |= check.error;
    }
    check.verdict
}

/// The reason why the check cannot continue.
enum Stop {
    Fatal(String),
    Unreadable,
    Interrupted,
}

struct Check<'a> {
    chain: &'a Chain,
    reader: Reader<'a>,
    hash: format::HashKind,
    interrupt: &'a AtomicBool,
    known: HashMap<ObjectId, RecordedCommit, NameHasher>,
    verdict: Verdict,
    seen: usize,
    /// Git's error code so far: 2 after a checksum error, 1 after any other error.
    error: u8,
}

impl Check<'_> {
    fn report(&mut self, line: String) {
        self.error = 1;
        self.verdict.lines.push(line);
    }

    fn layer(&mut self, number: usize, progress: &mut dyn FnMut(usize)) -> Result<(), Stop> {
        let graph = &self.chain.layers[number].graph;
        if !graph.has_valid_checksum() {
            self.report("the commit-graph file has incorrect checksum and is likely corrupt".to_owned());
            self.error = 2;
        }
        let (mut before, mut byte): (Option<ObjectId>, usize) = (None, 0);
        for n in 0..graph.count() {
            let id = graph.id(n);
            if let Some(before) = before.filter(|before| *before >= id) {
                self.report(format!("commit-graph has incorrect OID order: {before} then {id}"));
            }
            before = Some(id);
            while usize::from(id.as_bytes()[0]) > byte {
                self.fanout(number, byte, n, n);
                byte += 1;
            }
            if !self.parse(number, &id)? {
                self.report(format!("failed to parse commit {id} from commit-graph"));
            }
        }
        for byte in byte..256 {
            self.fanout(number, byte, graph.count(), graph.count());
        }
        if self.error & !2 != 0 {
            return Ok(());
        }
        self.commits(number, progress)
    }

    /// Checks a value of the fan-out table.
    fn fanout(&mut self, number: usize, byte: usize, expected: u32, shown: u32) {
        let found = self.chain.layers[number].graph.upto(byte as u8);
        if found != expected {
            self.report(format!(
                "commit-graph has incorrect fanout value: fanout[{byte}] = {found} != {shown}"
            ));
        }
    }

    /// Parses a commit from the graph, searching from the layer `top` downwards, unless it was
    /// already parsed. Returns false if the graph does not contain it.
    fn parse(&mut self, top: usize, id: &ObjectId) -> Result<bool, Stop> {
        let known = self.known.entry(*id).or_default();
        if known.parsed.is_some() {
            return Ok(true);
        }
        let position = known.position.or_else(|| {
            let (layer, n) = super::chain::find_in(&self.chain.layers[..=top], id)?;
            Some(self.chain.layers[layer].below + n)
        });
        let Some(position) = position else { return Ok(false) };
        known.position = Some(position);
        let chain = self.chain;
        let corrupt = || Stop::Fatal("invalid commit position. commit-graph is likely corrupt".to_owned());
        let (layer, n) = chain.at(position).ok_or_else(corrupt)?;
        let commit = chain.layers[layer].graph.commit(n);
        let generation = chain.generation(layer, n).map_err(|text| Stop::Fatal(text.to_owned()))?;
        let (positions, is_whole) = match chain.parents(layer, n) {
            Ok(positions) => (positions, true),
            Err(BadEdges(positions)) => (positions, false),
        };
        let limit = chain.layers[layer].below + chain.layers[layer].graph.count();
        let mut parents = Vec::with_capacity(positions.len());
        for position in positions {
            if position >= limit {
                return Err(Stop::Fatal(format!("invalid parent position {position}")));
            }
            let (layer, n) = chain.at(position).ok_or_else(corrupt)?;
            let parent = chain.layers[layer].graph.id(n);
            self.known.entry(parent).or_default().position = Some(position);
            parents.push(parent);
        }
        if !is_whole {
            self.verdict.lines.push("error: commit-graph extra-edges pointer out of bounds".to_owned());
            return Ok(false);
        }
        let parsed = Parsed { tree: commit.tree, parents, date: commit.date, generation };
        self.known.entry(*id).or_default().parsed = Some(parsed);
        Ok(true)
    }

    fn commits(&mut self, number: usize, progress: &mut dyn FnMut(usize)) -> Result<(), Stop> {
        let graph = &self.chain.layers[number].graph;
        let (mut zero, mut non_zero) = (None, None);
        for n in 0..graph.count() {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Stop::Interrupted);
            }
            self.seen += 1;
            progress(self.seen);
            let id = graph.id(n);
            let Some(of_graph) = self.known.get(&id).and_then(|known| known.parsed.clone()) else { continue };
            let of_object = match self.reader.read(&id) {
                Ok((Kind::Commit, data)) => commits::parse(self.hash, data).ok_or(Stop::Unreadable)?,
                Ok(_) => return Err(Stop::Unreadable),
                Err(repo::objects::Error::Missing(_)) => {
                    self.verdict.lines.push(format!("error: Could not read {id}"));
                    self.report(format!("failed to parse commit {id} from object database for commit-graph"));
                    continue;
                }
                Err(_) => return Err(Stop::Unreadable),
            };
            if of_graph.tree != of_object.tree {
                let (graph, object) = (of_graph.tree, of_object.tree);
                self.report(format!("root tree OID for commit {id} in commit-graph is {graph} != {object}"));
            }
            let most = self.parents(number, &id, &of_graph.parents, &of_object.parents)?;
            let is_zero = of_graph.generation == 0;
            if is_zero {
                zero = Some(id)
            } else {
                non_zero = Some(id)
            };
            if zero.is_some() {
                continue;
            }
            let uses_levels = !self.chain.uses_generations;
            let most = if uses_levels && most == MAX_LEVEL { most - 1 } else { most };
            if of_graph.generation < most.wrapping_add(1) {
                let (found, least) = (of_graph.generation, most.wrapping_add(1));
                self.report(format!("commit-graph generation for commit {id} is {found} < {least}"));
            }
            if of_graph.date != of_object.date {
                let (graph, object) = (of_graph.date, of_object.date);
                self.report(format!("commit date for commit {id} in commit-graph is {graph} != {object}"));
            }
        }
        if let (Some(zero), Some(non_zero)) = (zero, non_zero) {
            self.report(format!(
                "commit-graph has both zero and non-zero generations (e.g., commits '{zero}' and '{non_zero}')"
            ));
        }
        Ok(())
    }

    /// Compares the parents of a commit. Returns the largest generation number among them.
    fn parents(
        &mut self,
        number: usize,
        id: &ObjectId,
        of_graph: &[ObjectId],
        of_object: &[ObjectId],
    ) -> Result<u64, Stop> {
        let mut most = 0;
        for (at, parent) in of_graph.iter().enumerate() {
            let Some(object) = of_object.get(at) else {
                self.report(format!("commit-graph parent list for commit {id} is too long"));
                return Ok(most);
            };
            // The parent may be in a lower layer.
            self.parse(number, parent)?;
            if parent != object {
                self.report(format!("commit-graph parent for {id} is {parent} != {object}"));
            }
            let known = self.known.get(parent);
            let generation = match known {
                Some(RecordedCommit { position: Some(_), parsed }) => {
                    parsed.as_ref().map_or(0, |parsed| parsed.generation)
                }
                _ => INFINITE,
            };
            most = most.max(generation);
        }
        if of_object.len() > of_graph.len() {
            self.report(format!("commit-graph parent list for commit {id} terminates early"));
        }
        Ok(most)
    }
}
