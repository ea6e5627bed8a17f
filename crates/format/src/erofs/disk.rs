//! The constants of the format.

/// Offset of the superblock.
pub(super) const SUPER_OFFSET: usize = 1024;
/// Size of the superblock, and of a device slot.
pub(super) const SLOT: usize = 128;
pub(super) const MAGIC: u32 = 0xe0f5_e1e2;
/// Compatible features: the superblock has a checksum; times are modification times.
pub(super) const COMPAT: u32 = 1 | 2;
/// Incompatible features.
pub(super) const CHUNKED_FILE: u32 = 4;
pub(super) const DEVICE_TABLE: u32 = 8;

/// The unit of inode numbers in bytes, and the size of a compact inode.
pub(super) const UNIT: usize = 32;
/// The size of an extended inode.
pub(super) const EXTENDED: usize = 64;
/// The size of a directory entry without its name.
pub(super) const DIRENT: usize = 12;
/// The size of a chunk index.
pub(super) const CHUNK_INDEX: usize = 8;
/// Chunk format flag: the file has chunk indexes, which name a device.
pub(super) const CHUNK_HAS_INDEXES: u16 = 0x20;
/// A chunk has at most 1 GiB: fewer bits than any reader's arithmetic.
pub(super) const MAX_CHUNK_BITS: u32 = 30;
/// The longest name.
pub(super) const MAX_NAME: usize = 255;

/// Data layouts of an inode.
pub(super) const FLAT_PLAIN: u16 = 0;
pub(super) const FLAT_INLINE: u16 = 2;
pub(super) const CHUNK_BASED: u16 = 4;

/// File types in directories.
pub(super) const TYPE_FILE: u8 = 1;
pub(super) const TYPE_DIRECTORY: u8 = 2;
pub(super) const TYPE_CHARACTER_DEVICE: u8 = 3;
pub(super) const TYPE_SYMLINK: u8 = 7;

/// `S_IFMT` and its values.
pub(super) const MODE_TYPE: u16 = 0o170_000;
pub(super) const MODE_FILE: u16 = 0o100_000;
pub(super) const MODE_DIRECTORY: u16 = 0o040_000;
pub(super) const MODE_CHARACTER_DEVICE: u16 = 0o020_000;
pub(super) const MODE_SYMLINK: u16 = 0o120_000;

/// Returns the binary logarithm of the chunk size for a file: one chunk where possible.
pub(super) fn chunk_bits(size: u64, block_bits: u32) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros().clamp(block_bits, MAX_CHUNK_BITS.max(block_bits))
}

/// Returns the number of bytes of the superblock's block that its checksum covers.
pub(super) fn checksummed(block_size: usize) -> usize {
    if block_size > SUPER_OFFSET { block_size - SUPER_OFFSET } else { block_size }
}

/// Continues a CRC-32C (Castagnoli) from `crc`. The value is inverted at neither end: a
/// checksum begins with `!0`.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &byte| crc >> 8 ^ CRC[usize::from(crc as u8 ^ byte)])
}

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};
