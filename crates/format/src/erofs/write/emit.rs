//! The bytes of an image, in order.

use super::{Content, Entry, Layout, Node, Options};
use crate::erofs::{
    Place,
    disk::{
        CHUNK_BASED, CHUNK_HAS_INDEXES, CHUNKED_FILE, COMPAT, DEVICE_TABLE, DIRENT, EXTENDED, FLAT_INLINE,
        FLAT_PLAIN, MAGIC, MODE_CHARACTER_DEVICE, MODE_DIRECTORY, MODE_FILE, MODE_SYMLINK, SLOT,
        SUPER_OFFSET, TYPE_CHARACTER_DEVICE, TYPE_DIRECTORY, TYPE_FILE, TYPE_SYMLINK, UNIT, checksummed,
        chunk_bits, crc32c,
    },
};

impl Layout {
    /// Produces the bytes of the image, in order.
    pub fn emit<E>(&self, out: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut piece = Piece { out, bytes: self.header(), written: 0 };
        let mut order: Vec<Node> = (0..self.places.len() as Node).collect();
        order.sort_unstable_by_key(|&node| self.places[node as usize].offset);
        for node in order {
            piece.pad_to(self.places[node as usize].offset)?;
            self.inode(node, &mut piece.bytes);
            self.inline(node, &mut piece.bytes);
            piece.flush_if_full()?;
        }
        piece.pad_to(u64::from(self.data_start) << self.image.options.block_bits)?;
        for node in 0..self.places.len() as Node {
            if self.places[node as usize].blocks > 0 {
                self.blocks_of(node, &mut piece)?;
            }
        }
        piece.pad_to(self.len())?;
        piece.flush()
    }

    fn header(&self) -> Vec<u8> {
        let Options { block_bits, uuid, time, devices, .. } = &self.image.options;
        let mut header = vec![0; self.inodes_start()];
        let mut put =
            |at: usize, bytes: &[u8]| header[SUPER_OFFSET + at..][..bytes.len()].copy_from_slice(bytes);
        let mut incompat = 0;
        if !devices.is_empty() {
            incompat |= DEVICE_TABLE;
        }
        if self.chunked {
            incompat |= CHUNKED_FILE;
        }
        put(0x00, &MAGIC.to_le_bytes());
        put(0x08, &COMPAT.to_le_bytes());
        put(0x0c, &[*block_bits as u8]);
        put(0x0e, &(self.nid(0) as u16).to_le_bytes());
        put(0x10, &(self.places.len() as u64).to_le_bytes());
        put(0x18, &time.0.to_le_bytes());
        put(0x20, &time.1.to_le_bytes());
        put(0x24, &self.blocks.to_le_bytes());
        put(0x30, uuid);
        put(0x50, &incompat.to_le_bytes());
        put(0x56, &(devices.len() as u16).to_le_bytes());
        put(0x58, &(((SUPER_OFFSET + SLOT) / SLOT) as u16).to_le_bytes());
        for (number, blocks) in devices.iter().enumerate() {
            let slot = SLOT + number * SLOT;
            put(slot, format!("{number}").as_bytes());
            put(slot + 64, &blocks.to_le_bytes());
            put(slot + 68, &self.first_block(number).to_le_bytes());
        }
        let covered = &header[SUPER_OFFSET..][..checksummed(self.image.block_size())];
        let checksum = crc32c(!0, covered);
        header[SUPER_OFFSET + 4..][..4].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// Returns the number of a device's first block in the common space; 0 if there is no common
    /// space.
    fn first_block(&self, device: usize) -> u32 {
        if self.chunked {
            return 0;
        }
        self.blocks + self.image.options.devices[..device].iter().sum::<u32>()
    }

    fn inode(&self, node: Node, out: &mut Vec<u8>) {
        let (inode, place) = (&self.image.inodes[node as usize], &self.places[node as usize]);
        let Options { uid, gid, time, .. } = self.image.options;
        let is_extended = self.inode_size(node) == EXTENDED;
        let data = self.data_start + place.block;
        let (kind, layout, union) = match inode.content {
            Content::Directory if place.inline > 0 => (MODE_DIRECTORY, FLAT_INLINE, data),
            Content::Directory => (MODE_DIRECTORY, FLAT_PLAIN, data),
            Content::Symlink { .. } if place.inline > 0 => (MODE_SYMLINK, FLAT_INLINE, data),
            Content::Symlink { .. } => (MODE_SYMLINK, FLAT_PLAIN, data),
            Content::File(None) => (MODE_FILE, FLAT_PLAIN, 0),
            Content::Whiteout => (MODE_CHARACTER_DEVICE, FLAT_PLAIN, 0),
            Content::File(Some(_)) if self.chunked => {
                let bits =
                    chunk_bits(inode.size, self.image.options.block_bits) - self.image.options.block_bits;
                (MODE_FILE, CHUNK_BASED, u32::from(bits as u16 | CHUNK_HAS_INDEXES))
            }
            Content::File(Some(Place { device, block })) => {
                (MODE_FILE, FLAT_PLAIN, self.first_block(usize::from(device)) + block)
            }
        };
        let start = out.len();
        out.extend_from_slice(&(layout << 1 | u16::from(is_extended)).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(kind | inode.permissions & 0o7777).to_le_bytes());
        let links = self.links(node);
        let number = self.nid(node) as u32;
        if is_extended {
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&inode.size.to_le_bytes());
            out.extend_from_slice(&union.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&uid.to_le_bytes());
            out.extend_from_slice(&gid.to_le_bytes());
            out.extend_from_slice(&time.0.to_le_bytes());
            out.extend_from_slice(&time.1.to_le_bytes());
            out.extend_from_slice(&links.to_le_bytes());
            out.resize(start + EXTENDED, 0);
        } else {
            out.extend_from_slice(&(links as u16).to_le_bytes());
            out.extend_from_slice(&(inode.size as u32).to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&union.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&(uid as u16).to_le_bytes());
            out.extend_from_slice(&(gid as u16).to_le_bytes());
            out.resize(start + UNIT, 0);
        }
    }

    /// Appends the data that directly follow the inode.
    fn inline(&self, node: Node, out: &mut Vec<u8>) {
        let (inode, place) = (&self.image.inodes[node as usize], &self.places[node as usize]);
        if place.inline == 0 {
            return;
        }
        match inode.content {
            Content::Symlink { start } => {
                out.extend_from_slice(&self.image.bytes[start as usize..][..inode.size as usize]);
            }
            Content::Directory => {
                let mut number = 0;
                self.split(node, |entries, _| {
                    if number == place.blocks {
                        self.directory_block(entries, out);
                    }
                    number += 1;
                });
            }
            Content::File(Some(Place { device, block })) => {
                let bits = chunk_bits(inode.size, self.image.options.block_bits);
                let step = 1u32 << (bits - self.image.options.block_bits);
                for chunk in 0..inode.size.div_ceil(1 << bits) as u32 {
                    out.extend_from_slice(&[0; 2]);
                    out.extend_from_slice(&(device + 1).to_le_bytes());
                    out.extend_from_slice(&(block + chunk * step).to_le_bytes());
                }
            }
            Content::File(None) | Content::Whiteout => {}
        }
    }

    /// Writes the blocks of a node's content that are outside of its inode.
    fn blocks_of<E>(&self, node: Node, piece: &mut Piece<'_, E>) -> Result<(), E> {
        let (inode, place) = (&self.image.inodes[node as usize], &self.places[node as usize]);
        let block_bits = self.image.options.block_bits;
        let first = u64::from(self.data_start + place.block);
        piece.pad_to(first << block_bits)?;
        match inode.content {
            Content::Symlink { start } => {
                piece.bytes.extend_from_slice(&self.image.bytes[start as usize..][..inode.size as usize]);
                piece.flush_if_full()
            }
            Content::Directory => {
                let (mut number, mut result) = (0, Ok(()));
                self.split(node, |entries, _| {
                    if number < place.blocks && result.is_ok() {
                        result = piece.pad_to((first + u64::from(number)) << block_bits);
                        self.directory_block(entries, &mut piece.bytes);
                    }
                    number += 1;
                });
                result?;
                piece.flush_if_full()
            }
            Content::File(_) | Content::Whiteout => Ok(()),
        }
    }

    fn directory_block(&self, entries: &[Entry<'_>], out: &mut Vec<u8>) {
        let mut name_at = entries.len() * DIRENT;
        for entry in entries {
            let file_type = match self.image.inodes[entry.node as usize].content {
                Content::Directory => TYPE_DIRECTORY,
                Content::Symlink { .. } => TYPE_SYMLINK,
                Content::File(_) => TYPE_FILE,
                Content::Whiteout => TYPE_CHARACTER_DEVICE,
            };
            out.extend_from_slice(&self.nid(entry.node).to_le_bytes());
            out.extend_from_slice(&(name_at as u16).to_le_bytes());
            out.extend_from_slice(&[file_type, 0]);
            name_at += entry.name.len();
        }
        for entry in entries {
            out.extend_from_slice(entry.name);
        }
    }
}

/// The output, in pieces.
struct Piece<'a, E> {
    out: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
    bytes: Vec<u8>,
    written: u64,
}

impl<E> Piece<'_, E> {
    /// Pads with zeros up to the offset.
    fn pad_to(&mut self, offset: u64) -> Result<(), E> {
        self.flush_if_full()?;
        let missing = offset - self.written - self.bytes.len() as u64;
        self.bytes.resize(self.bytes.len() + missing as usize, 0);
        Ok(())
    }

    fn flush_if_full(&mut self) -> Result<(), E> {
        const PIECE: usize = 256 * 1024;
        if self.bytes.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), E> {
        (self.out)(&self.bytes)?;
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
