//! The commit-graph: reads, writes and verifies it.
//!
//! Order of writing: find the requested commits; read their ancestors in parallel; for a new layer,
//! choose the layers to merge into it; compute generation numbers, from roots to tips; compute
//! changed-path filters in parallel. The result is bytes, which `store::commit_graph` writes. No
//! step recurses over history or trees.

mod chain;
mod commits;
mod filters;
mod generations;
mod layout;
mod packs;
mod verify;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bstr::BString;
use format::ObjectId;
use repo::objects::{Objects, Reader};

pub use chain::{Chain, Found, Layer, Sources};
pub use filters::{Counts, FilterOptions};
pub use packs::Error as PackError;
pub use verify::{Verdict, verify};

use self::commits::{Commits, Parsed};

/// The reason why no graph could be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("unable to parse commit {0}")]
    Commit(ObjectId),
    #[error("unable to read tree ({0})")]
    Tree(ObjectId),
    /// The old graph is inconsistent.
    #[error("{0}")]
    Graph(String),
    #[error("too many commits to write graph")]
    TooMany,
    /// The old graph has no topological levels, because a very old version of Git wrote it.
    #[error("the commit-graph has no generation numbers")]
    NoLevels,
    #[error("interrupted")]
    Interrupted,
}

/// The commits to start from.
#[derive(Clone, Debug)]
pub enum Tips {
    /// All commits in the packs of all object directories.
    AllPacks,
    /// All commits in the packs with these index files.
    Packs(Vec<BString>),
    /// These commits.
    Commits(Vec<ObjectId>),
}

/// The treatment of existing layers when a new layer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Merges layers that are not much larger into the new layer.
    Merge,
    /// Merges no layer.
    NoMerge,
    /// Replaces all layers. The new graph contains only the requested commits and their ancestors.
    Replace,
}

/// The options for a new graph.
#[derive(Debug)]
pub struct Request<'a> {
    /// The object store, without replace refs.
    pub objects: &'a Objects,
    /// The object directories.
    pub sources: &'a Sources,
    /// The object directories as shown in messages, in the order of `sources`.
    pub shown: &'a [PathBuf],
    /// The index in [`Sources::dirs`] of the object directory that the graph is written to.
    pub target: usize,
    /// The existing graph.
    pub old: Option<&'a Chain>,
    /// The commits to start from.
    pub tips: Tips,
    /// True if the commits of the old graph's highest layer are included.
    pub append: bool,
    /// The treatment of existing layers. `None` writes a single file.
    pub split: Option<Split>,
    /// A layer is merged if its number of commits is at most this many times the number of commits
    /// above it.
    pub size_multiple: u64,
    /// A layer is also merged if there are more commits than this above it; 0 for no limit.
    pub max_commits: u32,
    /// True if generation numbers of version 2 are written.
    pub generations: bool,
    /// The options of changed-path filters; `None` writes none.
    pub filters: Option<FilterOptions>,
    /// Raised to stop the work.
    pub interrupt: &'a AtomicBool,
}

/// A stage of the work, for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Stage {
    Finding,
    Expanding,
    Merging,
    Levels,
    Generations,
    Filters,
}

/// A new graph, ready to be written.
#[derive(Debug)]
pub struct Plan {
    /// The bytes of the file without its checksum.
    pub content: Vec<Vec<u8>>,
    /// The number of chunks.
    pub chunk_count: usize,
    /// The number of commits.
    pub commit_count: usize,
    /// The number of layers of the old graph that stay below the new layer.
    pub kept: usize,
    /// The statistics of filters, if filters are written.
    pub filters: Option<Counts>,
}

/// Receives progress: the stage, the number of finished items, and the total, or 0 if it is
/// unknown.
pub type Progress<'s> = &'s (dyn Fn(Stage, usize, usize) + Sync);

/// The limit of commits in a graph.
const MOST: usize = 0x7fff_ffff;

/// Returns [`Error::Interrupted`] if the interrupt flag is raised.
fn check(interrupt: &AtomicBool) -> Result<(), Error> {
    if interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// Computes the new graph. Returns `None` if there is nothing to write. `warn` gets the text of
/// Git's warnings. The caller writes the result with `store::commit_graph`.
pub fn plan(
    request: &Request<'_>,
    warn: &mut dyn FnMut(String),
    progress: Progress<'_>,
) -> Result<Option<Plan>, Error> {
    let readers = (0..sys::cores().max(1)).map(|_| request.objects.reader()).collect();
    let mut build = Build { request, commits: Commits::default(), readers, progress };
    let tips = build.tips()?;
    let closed = build.close(tips)?;
    let mut chosen: Vec<u32> = closed.into_iter().filter(|&number| build.is_new(number)).collect();
    if chosen.len() >= MOST {
        return Err(Error::TooMany);
    }
    if chosen.is_empty() && request.split != Some(Split::Replace) {
        return Ok(None);
    }
    let kept = build.absorb(&mut chosen)?;
    chosen.sort_unstable_by_key(|&number| build.commits.id(number));
    chosen.dedup();
    build.finish(&chosen, kept, warn).map(Some)
}

/// The state while a graph is computed.
struct Build<'a> {
    request: &'a Request<'a>,
    commits: Commits,
    readers: Vec<Reader<'a>>,
    progress: Progress<'a>,
}

impl Build<'_> {
    /// Reads those of the commits that are still unread.
    fn read(&mut self, numbers: &[u32]) -> Result<(), Error> {
        let request = self.request;
        self.commits.read(request.objects, &mut self.readers, numbers, request.interrupt);
        // After an interrupt, unread commits are wrongly marked as absent, so stop here.
        check(request.interrupt)
    }

    /// Returns the commits to start from.
    fn tips(&mut self) -> Result<Vec<u32>, Error> {
        let request = self.request;
        let (mut ids, mut packed) = (Vec::new(), Vec::new());
        if let (true, Some(old)) = (request.append, request.old) {
            let tip = &old.tip().graph;
            ids.extend((0..tip.count()).map(|n| tip.id(n)));
        }
        let pack_dir = |number: usize| {
            packs::pack_dir(&request.sources.dirs[number], &request.shown[number], request.sources.hash)
        };
        match &request.tips {
            Tips::Commits(commits) => ids.extend(commits),
            Tips::Packs(names) => packed = packs::commits(&pack_dir(request.target), names)?,
            Tips::AllPacks => {
                for number in 0..request.sources.dirs.len() {
                    let pack_dir = pack_dir(number);
                    packed.extend(packs::commits(&pack_dir, &packs::all(&pack_dir))?);
                }
            }
        }
        (self.progress)(Stage::Finding, packed.len(), 0);
        // Packed commits get the lowest numbers, which the limit of filters relies on.
        for id in &packed {
            self.commits.number(*id);
        }
        ids.extend(packed);
        Ok(ids.into_iter().map(|id| self.commits.number(id)).collect())
    }

    /// Finds a commit in the old graph: its layer and its position there. Returns `None` if the new
    /// graph is a single file, which does not read commits from the old one.
    fn in_old(&self, number: u32) -> Option<(&Chain, usize, u32)> {
        let old = self.request.old.filter(|_| self.request.split.is_some())?;
        let (layer, n) = old.find(&self.commits.id(number))?;
        Some((old, layer, n))
    }

    /// Returns true if the commit exists and the new graph has to contain it.
    fn is_new(&self, number: u32) -> bool {
        let is_commit = self.commits.get(number).is_some();
        is_commit && (self.request.split == Some(Split::Replace) || self.in_old(number).is_none())
    }

    /// Reads the ancestors of `tips`. The walk ends at commits of old layers, unless these are
    /// replaced. Returns all visited commits, tips included.
    fn close(&mut self, tips: Vec<u32>) -> Result<Vec<u32>, Error> {
        let is_replaced = self.request.split == Some(Split::Replace);
        let mut met: Vec<bool> = Vec::new();
        let mut all: Vec<u32> = Vec::new();
        let mut next = tips;
        // A tip may be an object of another type. An ancestor has to be a commit.
        let mut is_tip = true;
        while !next.is_empty() {
            met.resize(self.commits.nodes.len(), false);
            next.retain(|&number| !std::mem::replace(&mut met[number as usize], true));
            let unread: Vec<u32> = next
                .iter()
                .copied()
                .filter(|&number| match self.read_old(number) {
                    Ok(was_read) => !was_read,
                    Err(_) => true,
                })
                .collect();
            self.read(&unread)?;
            if !is_tip && let Some(&lost) = next.iter().find(|&&number| self.commits.get(number).is_none()) {
                return Err(Error::Commit(self.commits.id(lost)));
            }
            all.extend(&next);
            (self.progress)(Stage::Expanding, all.len(), 0);
            let grows = |number: &&u32| is_replaced || self.in_old(**number).is_none();
            next =
                next.iter().filter(grows).flat_map(|&number| self.commits.parents(number).to_vec()).collect();
            is_tip = false;
        }
        Ok(all)
    }

    /// Reads a commit from the old graph. Returns false if the old graph lacks it or is not used.
    fn read_old(&mut self, number: u32) -> Result<bool, Error> {
        if self.commits.get(number).is_some() {
            return Ok(true);
        }
        let Some((old, layer, n)) = self.in_old(number) else { return Ok(false) };
        let commit = old.layers[layer].graph.commit(n);
        let edges = old.parents(layer, n);
        let edges =
            edges.map_err(|_| Error::Graph("commit-graph extra-edges pointer out of bounds".to_owned()))?;
        let parent = |&position: &u32| {
            let (layer, n) = old.at(position)?;
            Some(old.layers[layer].graph.id(n))
        };
        let invalid = || Error::Graph("invalid commit position. commit-graph is likely corrupt".to_owned());
        let parents: Option<Vec<ObjectId>> = edges.iter().map(parent).collect();
        let parsed = Parsed { tree: commit.tree, parents: parents.ok_or_else(invalid)?, date: commit.date };
        self.commits.store(number, parsed);
        Ok(true)
    }

    /// Adds the commits of the layers that are merged into the new one. Returns the number of
    /// layers that stay.
    fn absorb(&mut self, chosen: &mut Vec<u32>) -> Result<usize, Error> {
        let (request, Some(split)) = (self.request, self.request.split) else { return Ok(0) };
        let (Some(old), false) = (request.old, split == Split::Replace) else { return Ok(0) };
        let mut kept = old.layers.len();
        let mut count = chosen.len() as u64;
        while split == Split::Merge && kept > 0 {
            let layer = &old.layers[kept - 1];
            let size = u64::from(layer.graph.count());
            let is_full = request.max_commits > 0 && count > u64::from(request.max_commits);
            let is_small = size <= count.saturating_mul(request.size_multiple);
            if !(is_small || is_full) || layer.source != request.target {
                break;
            }
            count += size;
            kept -= 1;
        }
        // A single-file graph of another object directory cannot be a layer of the chain.
        if let (1, layer) = (kept, &old.layers[0])
            && layer.source != request.target
            && layer.path == store::commit_graph::single_path(&request.sources.dirs[layer.source])
        {
            kept = 0;
        }
        let mut absorbed = Vec::new();
        for layer in old.layers[kept..].iter().rev() {
            absorbed.extend((0..layer.graph.count()).map(|n| self.commits.number(layer.graph.id(n))));
        }
        self.read(&absorbed)?;
        (self.progress)(Stage::Merging, absorbed.len(), 0);
        // Commits that no longer exist are omitted.
        absorbed.retain(|&number| self.commits.get(number).is_some());
        chosen.extend(absorbed);
        Ok(kept)
    }

    /// Computes the content of the file for the chosen commits, which are sorted by object name.
    fn finish(&mut self, chosen: &[u32], kept: usize, warn: &mut dyn FnMut(String)) -> Result<Plan, Error> {
        let request = self.request;
        let below: &[Layer] = request.old.map_or(&[], |old| &old.layers[..kept]);
        let generations = below.last().map_or(request.generations, |layer| layer.graph.has_generations());
        let numbers = self.generations(chosen, below, generations)?;
        let made = request.filters.map(|options| {
            let made = self.filters(chosen, &numbers, &options, warn);
            made.map(|(filters, counts)| ((options, filters), counts))
        });
        let (filters, counts) = made.transpose()?.unzip();
        let layout = layout::Layout { commits: &self.commits, chosen, below, numbers: &numbers, generations };
        let (content, chunk_count) = layout.content(request.sources.hash, filters.as_ref())?;
        Ok(Plan { content, chunk_count, commit_count: chosen.len(), kept, filters: counts })
    }

    /// Computes the filters of the chosen commits, in their order.
    fn filters(
        &self,
        chosen: &[u32],
        numbers: &[generations::GenerationNumbers],
        options: &FilterOptions,
        warn: &mut dyn FnMut(String),
    ) -> Result<(Vec<Vec<u8>>, Counts), Error> {
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        match self.request.tips {
            Tips::Commits(_) => order.sort_by_key(|&at| {
                let date = self.commits.get(chosen[at]).map_or(0, |commit| commit.date);
                (numbers[at].generation, date)
            }),
            // The limit of filters applies in the order of discovery, which starts with packed
            // commits.
            Tips::AllPacks | Tips::Packs(_) => order.sort_by_key(|&at| chosen[at]),
        }
        let tree_of = |number: u32| {
            let found = self.commits.get(number).map(|commit| commit.tree);
            found.or_else(|| {
                let old = self.request.old?;
                let (layer, n) = old.find(&self.commits.id(number))?;
                Some(old.layers[layer].graph.commit(n).tree)
            })
        };
        let subject = |&at: &usize| {
            let number = chosen[at];
            let parent = self.commits.parents(number).first();
            let lost = |number: u32| Error::Commit(self.commits.id(number));
            Ok(filters::Subject {
                id: self.commits.id(number),
                tree: tree_of(number).ok_or_else(|| lost(number))?,
                parent: parent.map(|&parent| tree_of(parent).ok_or_else(|| lost(parent))).transpose()?,
            })
        };
        let subjects = order.iter().map(subject).collect::<Result<Vec<_>, Error>>()?;
        let done = AtomicUsize::new(0);
        let progress = |count: usize| {
            let done = done.fetch_add(count, Ordering::Relaxed) + count;
            (self.progress)(Stage::Filters, done, chosen.len());
        };
        let request = self.request;
        let (made, counts) = filters::compute(
            request.objects,
            request.old,
            options,
            &subjects,
            request.interrupt,
            warn,
            &progress,
        )?;
        (self.progress)(Stage::Filters, chosen.len(), chosen.len());
        let mut sorted = vec![Vec::new(); chosen.len()];
        order.into_iter().zip(made).for_each(|(at, filter)| sorted[at] = filter);
        Ok((sorted, counts))
    }
}
