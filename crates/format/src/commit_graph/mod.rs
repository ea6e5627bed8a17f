//! Commit-graph files: the parents, tree, date and generation of commits, sorted by name, and the
//! filters of the paths that they change. A file may be a layer on top of others.
//!
//! Source: gitformat-commit-graph(5), gitformat-chunk(5). [`Graph::parse`] checks what Git checks:
//! signature, version, hash, and the sizes of the chunks. Positions inside are checked when they
//! are used. It does not check the trailing checksum.

pub mod bloom;

use std::ops::{Deref, Range};

use crate::chunks::{self, Chunks, Id};
use crate::fanout::{self, FANOUT_LEN, be32, be64};
use crate::{HashKind, ObjectId};

/// The reason why a commit-graph cannot be used. The text is Git's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is shorter than the smallest one.
    #[error("commit-graph file is too small")]
    TooSmall,
    /// The file does not begin with `CGPH`.
    #[error("commit-graph signature {0:X} does not match signature {SIGNATURE:X}")]
    Signature(u32),
    /// A version other than 1.
    #[error("commit-graph version {0:X} does not match version 1")]
    Version(u8),
    /// The file is for another hash.
    #[error("commit-graph hash version {found:X} does not match version {wanted:X}")]
    #[allow(missing_docs)]
    Hash { found: u8, wanted: u8 },
    /// The file has no room for its chunks.
    #[error("commit-graph file is too small to hold {0} chunks")]
    FewBytes(u8),
    /// The table of chunks is out of order or points outside the file.
    #[error(transparent)]
    Table(chunks::Error),
    /// A chunk is missing or of the wrong size.
    #[error("commit-graph required {name} chunk missing or corrupted")]
    #[allow(missing_docs)]
    Chunk { name: &'static str, why: Option<&'static str> },
}

/// A defect of an optional chunk. The file is used without the chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// Git prints an error.
    Error(&'static str),
    /// Git prints a warning.
    Warning(String),
}

/// The optional chunks to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Generations of version 2.
    pub generations: bool,
    /// Filters of changed paths.
    pub filters: bool,
}

/// The value of a missing parent.
pub const NO_PARENT: u32 = 0x7000_0000;
/// A flag of the second parent: the rest is a position in the list of further parents.
pub const MORE_PARENTS: u32 = 0x8000_0000;
/// A flag that marks the last of the further parents.
pub const LAST_PARENT: u32 = 0x8000_0000;
/// A flag of a generation offset: the rest is a position in the chunk of large offsets.
pub const LARGE_OFFSET: u32 = 0x8000_0000;

const SIGNATURE: u32 = 0x4347_5048;
const HEADER_LEN: usize = 8;
/// The bytes of a commit after its tree.
const NUMBERS_LEN: usize = 16;
/// The length of the header of the chunk of filters.
const FILTER_HEADER_LEN: usize = 12;

/// A commit-graph over the bytes of its file, usually mapped.
#[derive(Debug)]
pub struct Graph<D> {
    data: D,
    hash: HashKind,
    count: u32,
    fanout: usize,
    names: usize,
    commits: usize,
    edges: Range<usize>,
    bases: Option<Range<usize>>,
    generations: Option<usize>,
    large_offsets: Option<Range<usize>>,
    filters: Option<Filters>,
}

#[derive(Debug)]
struct Filters {
    ends: usize,
    data: Range<usize>,
    settings: bloom::Settings,
}

/// A commit of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its tree.
    pub tree: ObjectId,
    /// Its parents: a position, [`NO_PARENT`], or for the second parent [`MORE_PARENTS`] with a
    /// position in the list of further parents.
    pub parents: [u32; 2],
    /// The topological level: the number of commits on the longest path to a root; 0 if unknown.
    pub level: u32,
    /// The low 34 bits of the committer's date.
    pub date: u64,
}

/// The filter of a commit in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter<'g> {
    /// The filter, which is empty if it was not computed.
    Bytes(&'g [u8]),
    /// The file has no usable filter for the commit. The warning is Git's, without the name of the
    /// file.
    Bad(BadFilter),
    /// The file has no filters.
    None,
}

/// The defect of the location of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BadFilter {
    Outside { offset: u32, position: u32, size: usize },
    Decreasing { start: u32, end: u32, position: u32 },
}

impl<D: Deref<Target = [u8]>> Graph<D> {
    /// Checks the structure of a commit-graph and takes its bytes. Also returns the defects of
    /// optional chunks that are not used.
    pub fn parse(data: D, hash: HashKind, used: Use) -> Result<(Self, Vec<Complaint>), Error> {
        if data.len() < HEADER_LEN + 4 * 12 + FANOUT_LEN + hash.len() {
            return Err(Error::TooSmall);
        }
        if be32(&data, 0) != SIGNATURE {
            return Err(Error::Signature(be32(&data, 0)));
        }
        if data[4] != 1 {
            return Err(Error::Version(data[4]));
        }
        let wanted = chunks::hash_version(hash);
        if data[5] != wanted {
            return Err(Error::Hash { found: data[5], wanted });
        }
        let chunk_count = usize::from(data[6]);
        if data.len() < HEADER_LEN + (chunk_count + 1) * 12 + FANOUT_LEN + hash.len() {
            return Err(Error::FewBytes(data[6]));
        }
        let chunks = Chunks::parse(&data, HEADER_LEN, chunk_count, 1, hash).map_err(Error::Table)?;
        let sized = |id: &Id, name, width: usize, count: usize, why| {
            let range = chunks.find(id).ok_or(Error::Chunk { name, why: None })?;
            let fits = range.len() / width == count;
            if fits { Ok(range.start) } else { Err(Error::Chunk { name, why: Some(why) }) }
        };
        let fanout = chunks.find(b"OIDF").ok_or(Error::Chunk { name: "OID fanout", why: None })?;
        if fanout.len() != FANOUT_LEN {
            let why = Some("commit-graph oid fanout chunk is wrong size");
            return Err(Error::Chunk { name: "OID fanout", why });
        }
        let fanout = fanout.start;
        let count = fanout::count(&data[fanout..]).ok_or(Error::Chunk {
            name: "OID fanout",
            why: Some("commit-graph fanout values out of order"),
        })?;
        let total = count as usize;
        let wrong = "commit-graph OID lookup chunk is the wrong size";
        let names = sized(b"OIDL", "OID lookup", hash.len(), total, wrong)?;
        let wrong = "commit-graph commit data chunk is wrong size";
        let commits = sized(b"CDAT", "commit data", hash.len() + NUMBERS_LEN, total, wrong)?;
        let mut complaints = Vec::new();
        let generations = chunks.find(b"GDA2").filter(|_| used.generations).and_then(|range| {
            let fits = range.len() / 4 == total;
            if !fits {
                complaints.push(Complaint::Error("commit-graph generations chunk is wrong size"));
            }
            fits.then_some(range.start)
        });
        let large_offsets = chunks.find(b"GDO2").filter(|_| used.generations);
        let filters = if used.filters { filters(&data, &chunks, total, &mut complaints) } else { None };
        let graph = Graph {
            edges: chunks.find(b"EDGE").unwrap_or(0..0),
            bases: chunks.find(b"BASE"),
            data,
            hash,
            count,
            fanout,
            names,
            commits,
            generations,
            large_offsets,
            filters,
        };
        Ok((graph, complaints))
    }

    /// Returns the number of commits.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of commits whose names begin with a byte up to `byte`.
    pub fn upto(&self, byte: u8) -> u32 {
        be32(&self.data, self.fanout + usize::from(byte) * 4)
    }

    /// Returns the trailing checksum, which names the file in a chain.
    pub fn checksum(&self) -> ObjectId {
        self.id_at(self.data.len() - self.hash.len())
    }

    /// Returns true if the trailing checksum is that of the content.
    pub fn has_valid_checksum(&self) -> bool {
        chunks::has_valid_checksum(&self.data, self.hash)
    }

    fn id_at(&self, at: usize) -> ObjectId {
        ObjectId::from_bytes(self.hash, &self.data[at..at + self.hash.len()])
            .expect("a slice of the hash's length")
    }

    /// Returns the position of a commit.
    pub fn find(&self, id: &ObjectId) -> Option<u32> {
        if id.kind() != self.hash {
            return None;
        }
        fanout::find(&self.data[self.fanout..], &self.data[self.names..], self.hash.len(), id)
    }

    /// Returns the name of the `n`th commit; `n` is below [`Graph::count`].
    pub fn id(&self, n: u32) -> ObjectId {
        self.id_at(self.names + n as usize * self.hash.len())
    }

    /// Returns the `n`th commit; `n` is below [`Graph::count`].
    pub fn commit(&self, n: u32) -> Commit {
        let at = self.commits + n as usize * (self.hash.len() + NUMBERS_LEN);
        let number = |place: usize| be32(&self.data, at + self.hash.len() + place * 4);
        Commit {
            tree: self.id_at(at),
            parents: [number(0), number(1)],
            level: number(2) >> 2,
            date: u64::from(number(2) & 3) << 32 | u64::from(number(3)),
        }
    }

    /// Returns the further parent at a position of the list: a commit's position, possibly with
    /// [`LAST_PARENT`]. Returns `None` if the position is outside of the list.
    pub fn edge(&self, place: u32) -> Option<u32> {
        let at = place as usize * 4;
        self.data[self.edges.clone()].get(at..at + 4).map(|edge| be32(edge, 0))
    }

    /// Returns true if the file has generations of version 2 and they are used.
    pub fn has_generations(&self) -> bool {
        self.generations.is_some()
    }

    /// Returns the difference between generation and date of the `n`th commit, possibly with
    /// [`LARGE_OFFSET`]. Only for files with generations.
    pub fn generation_offset(&self, n: u32) -> Option<u32> {
        self.generations.map(|at| be32(&self.data, at + n as usize * 4))
    }

    /// Returns a large difference between generation and date. The errors are Git's.
    pub fn large_offset(&self, place: u32) -> Result<u64, &'static str> {
        let chunk = self.large_offsets.clone();
        let chunk = chunk.ok_or("commit-graph requires overflow generation data but has none")?;
        let at = place as usize * 8;
        let offset = self.data[chunk].get(at..at + 8);
        offset.map(|offset| be64(offset, 0)).ok_or("commit-graph overflow generation data is too small")
    }

    /// Returns true if the file has the chunk that lists its base graphs.
    pub fn has_bases(&self) -> bool {
        self.bases.is_some()
    }

    /// Returns the number of base graphs that the file requires.
    pub fn base_count(&self) -> usize {
        self.bases.as_ref().map_or(0, |bases| bases.len() / self.hash.len())
    }

    /// Returns the checksum of the `n`th base, the lowest first; `n` is below
    /// [`Graph::base_count`].
    pub fn base(&self, n: usize) -> Option<ObjectId> {
        let bases = self.bases.clone()?;
        Some(self.id_at(bases.start + n * self.hash.len()))
    }

    /// Returns the parameters of the filters, if the file has filters.
    pub fn filter_settings(&self) -> Option<bloom::Settings> {
        self.filters.as_ref().map(|filters| filters.settings)
    }

    /// Drops the filters.
    pub fn drop_filters(&mut self) {
        self.filters = None;
    }

    /// Returns the filter of the `n`th commit; `n` is below [`Graph::count`].
    pub fn filter(&self, n: u32) -> Filter<'_> {
        let Some(filters) = &self.filters else { return Filter::None };
        let end_at = |n: u32| be32(&self.data, filters.ends + n as usize * 4);
        let (start, end) = (n.checked_sub(1).map_or(0, end_at), end_at(n));
        let size = filters.data.len() + FILTER_HEADER_LEN;
        for (offset, position) in [(end, n), (start, n.wrapping_sub(1))] {
            if offset as usize > filters.data.len() {
                return Filter::Bad(BadFilter::Outside { offset, position, size });
            }
        }
        if end < start {
            return Filter::Bad(BadFilter::Decreasing { start, end, position: n });
        }
        let first = filters.data.start;
        Filter::Bytes(&self.data[first + start as usize..first + end as usize])
    }
}

fn filters(data: &[u8], chunks: &Chunks, count: usize, complaints: &mut Vec<Complaint>) -> Option<Filters> {
    let mut complain = |text: String| complaints.push(Complaint::Warning(text));
    let ends = chunks.find(b"BIDX").filter(|range| {
        let fits = range.len() / 4 == count;
        if !fits {
            complain("commit-graph changed-path index chunk is too small".to_owned());
        }
        fits
    });
    let chunk = chunks.find(b"BDAT").filter(|range| {
        let fits = range.len() >= FILTER_HEADER_LEN;
        if !fits {
            let len = range.len();
            complain(format!(
                "ignoring too-small changed-path chunk ({len} < {FILTER_HEADER_LEN}) in commit-graph file"
            ));
        }
        fits
    });
    let (ends, chunk) = (ends?.start, chunk?);
    let number = |place: usize| be32(data, chunk.start + place * 4);
    let settings = bloom::Settings { version: number(0), hashes: number(1), bits: number(2) };
    Some(Filters { ends, data: chunk.start + FILTER_HEADER_LEN..chunk.end, settings })
}

/// Returns the header and the table of contents of a new commit-graph.
pub fn head(hash: HashKind, bases: u8, chunks: &[(Id, u64)]) -> Vec<u8> {
    let mut head = SIGNATURE.to_be_bytes().to_vec();
    head.extend([1, chunks::hash_version(hash), chunks.len() as u8, bases]);
    chunks::write_table(&mut head, chunks);
    head
}

#[cfg(test)]
mod tests;
