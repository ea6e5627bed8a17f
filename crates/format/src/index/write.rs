//! Writes an [`Index`] as bytes.
//!
//! The file is produced in pieces, in order. Each piece is passed to the caller as soon as it is
//! complete. So memory stays bounded for any size of index, and the caller can hash and write one
//! piece while the next is produced. The caller appends the trailer: the hash of all pieces, or
//! zeros (`index.skipHash`).

use std::convert::Infallible;

use bstr::{BString, ByteSlice};

use super::{
    Flags, Index, Version,
    entry::{Codec, Previous, is_extended},
    offsets::{self, Block},
    split::Delta,
};
use crate::{ObjectId, hash::Hasher};

/// The size of a piece in bytes: large enough for a system call, and small enough for the L1 cache.
const PIECE: usize = 32 * 1024;

/// Options for writing an index.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The version for an index that has none yet.
    pub version: Version,
    /// True to write the end-of-entries extension.
    pub end_of_entries: bool,
    /// The number of blocks in the offset table. There is no table for fewer than two.
    pub blocks: usize,
}

/// The part of an index to write into a file.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The whole index, in one file.
    Whole,
    /// The shared part of a split index: all entries, no extensions.
    Shared,
    /// The other part: the differences from the shared index, and the extensions.
    Split {
        /// The shared index.
        base: ObjectId,
        /// See [`Delta`].
        delta: &'a Delta,
    },
}

/// The reason why an index was not written. `E` is the caller's error type.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error<E> {
    #[error("cache entry has null sha1: {path}")]
    NullOid { path: BString },
    #[error("cannot write split index for a sparse index")]
    SplitSparse,
    #[error("writing a piece of the index failed")]
    Emit(E),
}

/// Writes one file without its trailer: calls `emit` with its bytes in order.
pub fn encode<E>(
    index: &Index,
    part: Part<'_>,
    options: &Options,
    emit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Error<E>> {
    if index.sparse && !matches!(part, Part::Whole) {
        return Err(Error::SplitSparse);
    }
    let mut out = Output { emit, piece: Vec::with_capacity(PIECE + 4096), flushed: 0 };
    let blocks = match part {
        Part::Whole | Part::Shared => {
            let all = (0..index.len()).map(|at| (at, index.path_at(at).as_bytes()));
            write_entries(index, all, options, &mut out)?
        }
        Part::Split { delta, .. } => {
            let replaced = delta.replaced.iter().map(|&(_, at)| (at, &b""[..]));
            let added = delta.added.iter().map(|&at| (at, index.path_at(at).as_bytes()));
            write_entries(index, Chain { replaced, added }, options, &mut out)?
        }
    };
    write_extensions(index, part, options, &blocks, &mut out)?;
    out.flush()
}

/// Writes one file into memory, trailer included.
pub fn to_vec(index: &Index, part: Part<'_>, options: &Options) -> Result<Vec<u8>, Error<Infallible>> {
    let mut file = Vec::new();
    encode(index, part, options, &mut |piece| {
        file.extend_from_slice(piece);
        Ok(())
    })?;
    let mut hasher = Hasher::checksum(index.hash);
    hasher.update(&file);
    file.extend_from_slice(checksum(hasher).as_bytes());
    Ok(file)
}

fn checksum(hasher: Hasher) -> ObjectId {
    hasher.finish().expect("only names of objects are looked at for collisions")
}

/// Buffers the output.
struct Output<'a, E> {
    emit: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
    piece: Vec<u8>,
    flushed: usize,
}

impl<E> Output<'_, E> {
    fn offset(&self) -> usize {
        self.flushed + self.piece.len()
    }

    fn flush_if_full(&mut self) -> Result<(), Error<E>> {
        if self.piece.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error<E>> {
        (self.emit)(&self.piece).map_err(Error::Emit)?;
        self.flushed += self.piece.len();
        self.piece.clear();
        Ok(())
    }
}

/// Replacements, then additions, as an iterator with a known length.
#[derive(Clone)]
struct Chain<R, A> {
    replaced: R,
    added: A,
}

impl<R: ExactSizeIterator, A: ExactSizeIterator<Item = R::Item>> Iterator for Chain<R, A> {
    type Item = R::Item;

    fn next(&mut self) -> Option<R::Item> {
        self.replaced.next().or_else(|| self.added.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let length = self.replaced.len() + self.added.len();
        (length, Some(length))
    }
}

impl<R: ExactSizeIterator, A: ExactSizeIterator<Item = R::Item>> ExactSizeIterator for Chain<R, A> {}

/// Writes header and entries, which are given as positions and paths. Returns the blocks for the
/// offset table.
fn write_entries<'i, E>(
    index: &Index,
    entries: impl ExactSizeIterator<Item = (usize, &'i [u8])> + Clone,
    options: &Options,
    out: &mut Output<'_, E>,
) -> Result<Vec<Block>, Error<E>> {
    let version = match index.version.unwrap_or(options.version) {
        Version::V4 => Version::V4,
        _ if index.may_have(Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD)
            && entries.clone().any(|(at, _)| is_extended(&index.entry(at))) =>
        {
            Version::V3
        }
        _ => Version::V2,
    };
    let count = entries.len();
    out.piece.extend_from_slice(b"DIRC");
    out.piece.extend_from_slice(&(version as u32).to_be_bytes());
    out.piece.extend_from_slice(&(count as u32).to_be_bytes());

    let codec = Codec { hash: index.hash, compressed: version == Version::V4 };
    let wanted = options.blocks.min(count);
    let block_size = if wanted > 1 { count.div_ceil(wanted) } else { usize::MAX };
    let mut blocks: Vec<Block> = Vec::new();
    let mut previous: &[u8] = b"";
    for (position, (at, path)) in entries.enumerate() {
        let entry = index.entry(at);
        if entry.oid.is_null() {
            return Err(Error::NullOid { path: index.path_at(at).to_owned() });
        }
        let starts_block = wanted > 1 && position.is_multiple_of(block_size);
        if starts_block {
            blocks.push(Block { offset: out.offset(), count: block_size.min(count - position) });
        }
        let known = if starts_block {
            Previous::Unknown { length: previous.len() }
        } else {
            Previous::Path(previous)
        };
        codec.write(&mut out.piece, &entry, path, known);
        previous = path;
        out.flush_if_full()?;
    }
    // Offsets are stored in 32 bits.
    if u32::try_from(out.offset()).is_err() {
        blocks.clear();
    }
    Ok(blocks)
}

fn write_extensions<E>(
    index: &Index,
    part: Part<'_>,
    options: &Options,
    blocks: &[Block],
    out: &mut Output<'_, E>,
) -> Result<(), Error<E>> {
    let start = out.offset();
    let mut headers = Hasher::checksum(index.hash);
    let mut data = Vec::new();
    let mut put = |signature: &[u8; 4], fill: &mut dyn FnMut(&mut Vec<u8>)| {
        data.clear();
        fill(&mut data);
        let mut header = [0; 8];
        header[..4].copy_from_slice(signature);
        header[4..].copy_from_slice(&(data.len() as u32).to_be_bytes());
        headers.update(&header);
        out.piece.extend_from_slice(&header);
        out.piece.extend_from_slice(&data);
        out.flush_if_full()
    };
    if !blocks.is_empty() {
        put(&offsets::TABLE, &mut |data| offsets::write_table(data, blocks))?;
    }
    if let Part::Split { base, delta } = part {
        put(b"link", &mut |data| delta.write(base, data))?;
    }
    if !matches!(part, Part::Shared) {
        if let Some(tree) = &index.cache_tree {
            put(b"TREE", &mut |data| tree.write(data))?;
        }
        if let Some(undo) = &index.resolve_undo {
            put(b"REUC", &mut |data| undo.write(data))?;
        }
        if let Some(untracked) = &index.untracked {
            put(b"UNTR", &mut |data| untracked.write(data))?;
        }
        if let Some(fsmonitor) = &index.fsmonitor {
            put(b"FSMN", &mut |data| fsmonitor.write(index, data))?;
        }
        for extension in &index.unknown {
            put(&extension.signature, &mut |data| data.extend_from_slice(&extension.data))?;
        }
    }
    if index.sparse {
        put(b"sdir", &mut |_| {})?;
    }
    if let (true, Ok(start)) = (options.end_of_entries, u32::try_from(start)) {
        let headers = checksum(headers);
        out.piece.extend_from_slice(&offsets::END);
        out.piece.extend_from_slice(&(4 + headers.as_bytes().len() as u32).to_be_bytes());
        out.piece.extend_from_slice(&start.to_be_bytes());
        out.piece.extend_from_slice(headers.as_bytes());
    }
    Ok(())
}
