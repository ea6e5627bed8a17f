//! Serialization of a new graph.

use format::{
    HashKind,
    commit_graph::{self, LARGE_OFFSET, LAST_PARENT, MORE_PARENTS, NO_PARENT},
};

use super::{Error, FilterOptions, Layer, chain, commits::Commits, generations::GenerationNumbers};

/// The bits of a date that the file format can store.
const DATE_BITS: u64 = (1 << 34) - 1;

/// The inputs for a file.
pub(super) struct Layout<'a> {
    pub(super) commits: &'a Commits,
    /// The numbers of the commits to write, sorted by object name.
    pub(super) chosen: &'a [u32],
    pub(super) below: &'a [Layer],
    pub(super) numbers: &'a [GenerationNumbers],
    /// True if generation numbers of version 2 are written.
    pub(super) generations: bool,
}

impl Layout<'_> {
    /// Returns the chunks of the file without its checksum, the header first, and the number of
    /// chunks.
    pub(super) fn content(
        &self,
        hash: HashKind,
        filters: Option<&(FilterOptions, Vec<Vec<u8>>)>,
    ) -> Result<(Vec<Vec<u8>>, usize), Error> {
        let names = || self.chosen.iter().map(|&number| self.commits.id(number));
        let lookup: Vec<u8> = names().flat_map(|id| id.as_bytes().to_vec()).collect();
        let fanout = format::fanout_of(lookup.chunks_exact(hash.len()));
        let (data, edges) = self.commits_and_edges()?;
        let mut chunks = vec![(*b"OIDF", fanout), (*b"OIDL", lookup), (*b"CDAT", data)];
        if self.generations {
            let (offsets, large) = self.offsets();
            chunks.push((*b"GDA2", offsets));
            if !large.is_empty() {
                chunks.push((*b"GDO2", large));
            }
        }
        if !edges.is_empty() {
            chunks.push((*b"EDGE", edges));
        }
        if let Some((options, filters)) = filters {
            let (ends, bytes) = join_filters(options, filters);
            chunks.push((*b"BIDX", ends));
            chunks.push((*b"BDAT", bytes));
        }
        if !self.below.is_empty() {
            let bases = self.below.iter().flat_map(|layer| layer.graph.checksum().as_bytes().to_vec());
            chunks.push((*b"BASE", bases.collect()));
        }
        let sizes: Vec<_> = chunks.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect();
        let bases = u8::try_from(self.below.len())
            .map_err(|_| Error::Graph("too many layers in the commit-graph".to_owned()))?;
        let head = commit_graph::head(hash, bases, &sizes);
        let content: Vec<Vec<u8>> = std::iter::once(head).chain(chunks.into_iter().map(|it| it.1)).collect();
        Ok((content, sizes.len()))
    }

    /// Returns the position of a commit in the chain.
    fn position(&self, positions: &[u32], number: u32) -> Result<u32, Error> {
        let own = positions[number as usize];
        if own != NO_PARENT {
            return Ok(own);
        }
        let id = self.commits.id(number);
        let (layer, n) = chain::find_in(self.below, &id).ok_or(Error::Commit(id))?;
        Ok(self.below[layer].below + n)
    }

    fn commits_and_edges(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let first = self.below.last().map_or(0, |layer| layer.below + layer.graph.count());
        let mut positions = vec![NO_PARENT; self.commits.nodes.len()];
        for (at, &number) in self.chosen.iter().enumerate() {
            positions[number as usize] = first + at as u32;
        }
        let (mut data, mut edges) = (Vec::new(), Vec::new());
        for (&number, numbers) in self.chosen.iter().zip(self.numbers) {
            let id = self.commits.id(number);
            let commit = self.commits.get(number).ok_or(Error::Commit(id))?;
            let parents = self.commits.parents(number);
            let position = |parent: &u32| self.position(&positions, *parent);
            let [one, two] = match parents {
                [] => [NO_PARENT; 2],
                [one] => [position(one)?, NO_PARENT],
                [one, two] => [position(one)?, position(two)?],
                [one, more @ ..] => {
                    let place = (edges.len() / 4) as u32;
                    for (left, parent) in (0..more.len()).rev().zip(more) {
                        let last = if left == 0 { LAST_PARENT } else { 0 };
                        edges.extend((position(parent)? | last).to_be_bytes());
                    }
                    [position(one)?, MORE_PARENTS | place]
                }
            };
            data.extend(commit.tree.as_bytes());
            data.extend(one.to_be_bytes());
            data.extend(two.to_be_bytes());
            let high = (commit.date >> 32) as u32 & 3;
            data.extend((high | numbers.level << 2).to_be_bytes());
            data.extend((commit.date as u32).to_be_bytes());
        }
        Ok((data, edges))
    }

    /// Returns the offsets of the corrected commit dates from the commit dates, and the table of
    /// offsets too large for 31 bits.
    fn offsets(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut offsets, mut large) = (Vec::new(), Vec::new());
        for (&number, numbers) in self.chosen.iter().zip(self.numbers) {
            let date = self.commits.get(number).map_or(0, |commit| commit.date) & DATE_BITS;
            let offset = numbers.generation.wrapping_sub(date);
            let short = u32::try_from(offset).ok().filter(|offset| offset & LARGE_OFFSET == 0);
            offsets.extend(short.unwrap_or(LARGE_OFFSET | (large.len() / 8) as u32).to_be_bytes());
            if short.is_none() {
                large.extend(offset.to_be_bytes());
            }
        }
        (offsets, large)
    }
}

fn join_filters(options: &FilterOptions, filters: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let settings = options.settings;
    let mut bytes: Vec<u8> =
        [settings.version, settings.hashes, settings.bits].iter().flat_map(|it| it.to_be_bytes()).collect();
    let (mut ends, mut end) = (Vec::new(), 0_u32);
    for filter in filters {
        end += filter.len() as u32;
        ends.extend(end.to_be_bytes());
        bytes.extend(filter);
    }
    (ends, bytes)
}
