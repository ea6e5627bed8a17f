//! Two extensions that let a reader start in the middle: the end of the entries (EOIE), and the
//! offsets of blocks of entries (IEOT). sapwood writes them for Git. Its own reader splits the work
//! in another way (see [`super::read`]) and needs neither.

/// The signature of the end-of-entries extension.
pub(super) const END: [u8; 4] = *b"EOIE";
/// The signature of the entry offset table.
pub(super) const TABLE: [u8; 4] = *b"IEOT";

const TABLE_VERSION: u32 = 1;

/// A block of entries that can be read on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: usize,
    pub(super) count: usize,
}

/// Appends the payload of an IEOT extension.
pub(super) fn write_table(out: &mut Vec<u8>, blocks: &[Block]) {
    out.extend_from_slice(&TABLE_VERSION.to_be_bytes());
    for block in blocks {
        out.extend_from_slice(&(block.offset as u32).to_be_bytes());
        out.extend_from_slice(&(block.count as u32).to_be_bytes());
    }
}
