//! EROFS images with metadata only: directories, symbolic links, regular files whose contents are
//! in other files, the extra devices, and whiteouts. This module does no I/O.
//!
//! - [`mod@write`]: collects a tree, assigns an offset to each inode, and produces the bytes;
//! - [`read`]: reads an image back, and refuses what the writer does not produce;
//! - [`canonical`]: refuses every image that differs in a byte from the one that the writer makes.
//!
//! # Layout
//!
//! | from | what |
//! |---|---|
//! | 0 | unused |
//! | 1,024 | superblock, 128 bytes |
//! | 1,152 | one slot of 128 bytes for each extra device |
//! | next block | inodes, each with its inline data, in steps of 32 bytes |
//! | next block | full blocks of directories, and targets of links that do not fit inline |
//!
//! The number of an inode (nid) is its offset divided by 32. It is also its inode number in
//! `stat(2)`. Blocks of the extra devices follow those of the image in one space of block numbers,
//! so a regular file takes 32 bytes. If the devices are too large for that, files refer to the
//! device and the block in chunk indexes, which takes 64 bytes.
//!
//! A whiteout is a character device with the number 0/0. As a layer of an overlay, the image hides
//! by it a path of the layers below.
//!
//! Source: Linux, `Documentation/filesystems/erofs.rst`, and "Core on-disk format" at
//! erofs.docs.kernel.org. Numbers are little-endian.

pub mod canonical;
mod disk;
pub mod read;
#[cfg(test)]
mod tests;
pub mod write;

pub use disk::crc32c;

/// The content of a regular file on an extra device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into the devices.
    pub device: u16,
    /// The first block.
    pub block: u32,
}
