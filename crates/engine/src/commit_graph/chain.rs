//! Reads the commit-graph of a repository: a single file, or a chain of layers.
//!
//! The first object directory with a graph is used. Damaged files are ignored, with Git's messages
//! about them.

use std::path::{Path, PathBuf};

use bstr::{BStr, ByteSlice as _};
use format::{
    HashKind, ObjectId,
    commit_graph::{self, Complaint, Error, Graph, LARGE_OFFSET, Use},
};
use store::commit_graph::{chain_path, layer_path, single_path};
use sys::{Map, by_path};

use crate::midx::Notice;

/// A file of a commit-graph.
#[derive(Debug)]
pub struct Layer {
    /// The content.
    pub graph: Graph<Map>,
    /// The file.
    pub path: PathBuf,
    /// The index in [`Sources::dirs`] of the object directory that contains the file.
    pub source: usize,
    /// The number of commits in the layers below.
    pub below: u32,
}

/// The layers of a graph, the lowest first.
#[derive(Debug)]
pub struct Chain {
    /// The layers, at least one.
    pub layers: Vec<Layer>,
    /// True if all layers have generation numbers of version 2.
    pub uses_generations: bool,
}

/// The result of a search for a graph.
#[derive(Debug, Default)]
pub struct Found {
    /// The graph, if one was found.
    pub chain: Option<Chain>,
    /// Messages about files that cannot be used.
    pub notices: Vec<Notice>,
    /// True if some layers of the chain could not be read.
    pub is_incomplete: bool,
}

/// The object directories of a repository, and the options for reading graphs.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The repository's own directory, then the alternates.
    pub dirs: Vec<PathBuf>,
    /// The hash of the objects.
    pub hash: HashKind,
    /// The optional chunks to use.
    pub used: Use,
}

/// Returns the lines that Git prints for an error.
fn lines(error: &Error) -> Vec<Notice> {
    let mut lines = Vec::new();
    if let Error::Chunk { why: Some(why), .. } = error {
        lines.push(Notice::Error((*why).to_owned()));
    }
    lines.push(Notice::Error(error.to_string()));
    lines
}

impl Sources {
    /// Finds the graph of the first directory that has one.
    pub fn find(&self) -> Found {
        let mut found = Found::default();
        for source in 0..self.dirs.len() {
            let one = self.find_in(source);
            found.notices.extend(one.notices);
            if one.chain.is_some() {
                return Found { chain: one.chain, ..found };
            }
        }
        found
    }

    /// Finds the graph of one object directory: the single file, otherwise the chain.
    pub fn find_in(&self, source: usize) -> Found {
        let single = self.single(source);
        if single.chain.is_some() {
            return single;
        }
        let mut chain = self.chain(source);
        chain.notices.splice(0..0, single.notices);
        chain
    }

    /// Reads the single-file graph of an object directory.
    pub fn single(&self, source: usize) -> Found {
        let mut found = Found::default();
        let layer = self.layer(&single_path(&self.dirs[source]), source, &mut found.notices);
        found.chain = layer.map(|layer| finish(vec![layer], &mut found.notices));
        found
    }

    fn layer(&self, path: &Path, source: usize, notices: &mut Vec<Notice>) -> Option<Layer> {
        let map = by_path::open(path).and_then(|file| Map::of(&file)).ok()?;
        match Graph::parse(map, self.hash, self.used) {
            Ok((graph, complaints)) => {
                notices.extend(complaints.into_iter().map(|complaint| match complaint {
                    Complaint::Error(text) => Notice::Error(text.to_owned()),
                    Complaint::Warning(text) => Notice::Warning(text),
                }));
                Some(Layer { graph, path: path.to_owned(), source, below: 0 })
            }
            Err(error) => {
                notices.extend(lines(&error));
                None
            }
        }
    }

    /// Reads the layers in the chain file of an object directory.
    pub fn chain(&self, source: usize) -> Found {
        let mut found = Found::default();
        let Some(list) = by_path::read(&chain_path(&self.dirs[source])).ok().flatten() else { return found };
        if list.len() < self.hash.hex_len() {
            if !list.is_empty() {
                found.notices.push(warning("commit-graph chain file too small"));
            }
            return found;
        }
        let (mut layers, mut names): (Vec<Layer>, Vec<ObjectId>) = (Vec::new(), Vec::new());
        for line in list.lines().take(list.len() / (self.hash.hex_len() + 1)) {
            let name = line.get(..self.hash.hex_len()).and_then(|hex| ObjectId::from_hex(self.hash, hex));
            let Some(name) = name else {
                let line = BStr::new(line);
                let text = format!("invalid commit-graph chain: line '{line}' not a hash");
                found.notices.push(Notice::Warning(text));
                found.is_incomplete = true;
                break;
            };
            let file = line.to_str_lossy();
            let mut in_source = |source: usize| {
                self.layer(&layer_path(&self.dirs[source], &file), source, &mut found.notices)
            };
            let layer = (0..self.dirs.len()).find_map(&mut in_source);
            match layer.map(|layer| stack(layer, &layers, &names)) {
                Some(Ok(layer)) => layers.push(layer),
                unusable => {
                    found.notices.extend(unusable.and_then(Result::err).map(warning));
                    found.notices.push(warning("unable to find all commit-graph files"));
                    found.is_incomplete = true;
                    break;
                }
            }
            names.push(name);
        }
        found.chain = (!layers.is_empty()).then(|| finish(layers, &mut found.notices));
        found
    }
}

fn warning(text: &str) -> Notice {
    Notice::Warning(text.to_owned())
}

/// Checks that a layer belongs on top of the layers `below`, whose checksums are `names`, and sets
/// its position. Returns Git's message if it does not.
fn stack(mut layer: Layer, below: &[Layer], names: &[ObjectId]) -> Result<Layer, &'static str> {
    if !names.is_empty() && !layer.graph.has_bases() {
        return Err("commit-graph has no base graphs chunk");
    }
    if layer.graph.base_count() < names.len() {
        return Err("commit-graph base graphs chunk is too small");
    }
    for (number, name) in names.iter().enumerate() {
        if below[number].graph.checksum() != *name || layer.graph.base(number) != Some(*name) {
            return Err("commit-graph chain does not match");
        }
    }
    if let Some(last) = below.last() {
        layer.below = last.below + last.graph.count();
    }
    Ok(layer)
}

/// Drops the Bloom filters of layers whose settings differ from those of the highest layer with
/// filters. Generation numbers of version 2 are used only if all layers have them.
fn finish(mut layers: Vec<Layer>, notices: &mut Vec<Notice>) -> Chain {
    let mut settings = None;
    for layer in layers.iter_mut().rev() {
        let Some(own) = layer.graph.filter_settings() else { continue };
        if *settings.get_or_insert(own) != own {
            let name = layer.graph.checksum();
            notices.push(Notice::Warning(format!(
                "disabling Bloom filters for commit-graph layer '{name}' due to incompatible settings"
            )));
            layer.graph.drop_filters();
        }
    }
    let uses_generations = layers.iter().all(|layer| layer.graph.has_generations());
    Chain { layers, uses_generations }
}

impl Chain {
    /// Returns the highest layer.
    pub fn tip(&self) -> &Layer {
        self.layers.last().expect("a chain has a layer")
    }

    /// Finds a commit. Returns the index of its layer, and its position in that layer.
    pub fn find(&self, id: &ObjectId) -> Option<(usize, u32)> {
        find_in(&self.layers, id)
    }

    /// Converts a position in the chain to the index of a layer and a position in that layer.
    pub fn at(&self, position: u32) -> Option<(usize, u32)> {
        let layer = self.layers.iter().rposition(|layer| layer.below <= position)?;
        let n = position - self.layers[layer].below;
        (n < self.layers[layer].graph.count()).then_some((layer, n))
    }

    /// Returns the generation number of a commit: its corrected commit date if all layers have
    /// them, otherwise its topological level. Returns Git's message if the file is damaged.
    pub fn generation(&self, layer: usize, n: u32) -> Result<u64, &'static str> {
        let graph = &self.layers[layer].graph;
        let commit = graph.commit(n);
        match graph.generation_offset(n).filter(|_| self.uses_generations) {
            None => Ok(u64::from(commit.level)),
            Some(offset) if offset & LARGE_OFFSET == 0 => Ok(commit.date + u64::from(offset)),
            Some(place) => Ok(commit.date.wrapping_add(graph.large_offset(place ^ LARGE_OFFSET)?)),
        }
    }

    /// Returns the positions in the chain of a commit's parents.
    pub fn parents(&self, layer: usize, n: u32) -> Result<Vec<u32>, BadEdges> {
        let graph = &self.layers[layer].graph;
        let [first, second] = graph.commit(n).parents;
        let mut parents = Vec::new();
        if first == commit_graph::NO_PARENT {
            return Ok(parents);
        }
        parents.push(first);
        if second == commit_graph::NO_PARENT {
            return Ok(parents);
        }
        if second & commit_graph::MORE_PARENTS == 0 {
            parents.push(second);
            return Ok(parents);
        }
        let mut place = second & !commit_graph::MORE_PARENTS;
        loop {
            let Some(edge) = graph.edge(place) else { return Err(BadEdges(parents)) };
            parents.push(edge & !commit_graph::LAST_PARENT);
            if edge & commit_graph::LAST_PARENT != 0 {
                return Ok(parents);
            }
            place += 1;
        }
    }
}

/// The list of extra edges ends too early. Contains the positions of the parents before its end.
#[derive(Clone, Debug)]
pub struct BadEdges(pub Vec<u32>);

/// Finds the highest layer that contains a commit. Returns its index, and the commit's position in
/// it.
pub(super) fn find_in(layers: &[Layer], id: &ObjectId) -> Option<(usize, u32)> {
    layers.iter().enumerate().rev().find_map(|(number, layer)| Some((number, layer.graph.find(id)?)))
}
