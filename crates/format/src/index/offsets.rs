//! The two extensions that let a reader start in the middle: where the entries end (EOIE), and where
//! blocks of them start (IEOT). Both are hints: when anything in them is off, they are as good as absent.

use super::bytes::Reader;
use crate::{HashKind, hash::Hasher};

/// Signature of the end-of-entries extension.
pub(super) const END: [u8; 4] = *b"EOIE";
/// Signature of the entry offset table.
pub(super) const TABLE: [u8; 4] = *b"IEOT";

const HEADER: usize = 12;
const TABLE_VERSION: u32 = 1;

/// A block of entries that can be read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: usize,
    pub(super) count: usize,
}

/// Finds the offset table of a file (`content` is the file without its trailer), which takes an EOIE
/// extension that holds. The blocks cover all `entries` and ascend.
pub(super) fn find_table(content: &[u8], hash: HashKind, entries: usize) -> Option<Vec<Block>> {
    let extensions = end_of_entries(content, hash)?;
    let mut reader = Reader(content.get(extensions..)?);
    loop {
        let signature: [u8; 4] = reader.array()?;
        let size = reader.u32()? as usize;
        let data = reader.take(size)?;
        if signature == TABLE {
            return read_table(data, extensions, entries);
        }
    }
}

fn end_of_entries(content: &[u8], hash: HashKind) -> Option<usize> {
    let size = 4 + hash.len();
    let start = content.len().checked_sub(8 + size)?;
    let mut reader = Reader(&content[start..]);
    if reader.array()? != END || reader.u32()? as usize != size {
        return None;
    }
    let offset = reader.u32()? as usize;
    let claimed = reader.oid(hash)?;
    let mut headers = Hasher::checksum(hash);
    let mut rest = Reader(content[..start].get(offset..)?);
    while !rest.0.is_empty() {
        let header = rest.take(8)?;
        headers.update(header);
        let size = Reader(&header[4..]).u32()? as usize;
        rest.take(size)?;
    }
    (offset >= HEADER && headers.finish().ok()? == claimed).then_some(offset)
}

fn read_table(data: &[u8], end: usize, entries: usize) -> Option<Vec<Block>> {
    let mut reader = Reader(data);
    if reader.u32()? != TABLE_VERSION {
        return None;
    }
    let mut blocks: Vec<Block> = Vec::with_capacity(reader.0.len() / 8);
    let mut total = 0usize;
    while !reader.0.is_empty() {
        let block = Block { offset: reader.u32()? as usize, count: reader.u32()? as usize };
        let ascends = match blocks.last() {
            Some(last) => last.offset < block.offset,
            None => block.offset == HEADER,
        };
        if !ascends || block.offset >= end {
            return None;
        }
        total = total.checked_add(block.count)?;
        blocks.push(block);
    }
    (total == entries && !blocks.is_empty()).then_some(blocks)
}

/// Appends the payload of an IEOT extension.
pub(super) fn write_table(out: &mut Vec<u8>, blocks: &[Block]) {
    out.extend_from_slice(&TABLE_VERSION.to_be_bytes());
    for block in blocks {
        out.extend_from_slice(&(block.offset as u32).to_be_bytes());
        out.extend_from_slice(&(block.count as u32).to_be_bytes());
    }
}
