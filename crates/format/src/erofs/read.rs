//! Reads an image that [`super::write`] produced, for verification.
//!
//! Promise: for any bytes, the result is the tree or an error. Each inode is visited once, memory
//! is proportional to the image, and no recursion depends on it. Anything that the writer does not
//! produce is an error: other features, unsorted or repeated names, inodes that are reached twice,
//! and data outside of the image.

use bstr::{BStr, BString};

use super::{
    Place,
    disk::{
        CHUNK_BASED, CHUNK_HAS_INDEXES, CHUNK_INDEX, CHUNKED_FILE, COMPAT, DEVICE_TABLE, DIRENT, EXTENDED,
        FLAT_INLINE, FLAT_PLAIN, MAGIC, MODE_CHARACTER_DEVICE, MODE_DIRECTORY, MODE_FILE, MODE_SYMLINK,
        MODE_TYPE, SLOT, SUPER_OFFSET, TYPE_CHARACTER_DEVICE, TYPE_DIRECTORY, TYPE_FILE, TYPE_SYMLINK, UNIT,
        checksummed, chunk_bits, crc32c,
    },
};

/// The reason why the bytes are not a valid image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The image ends too early.
    #[error("the image is too short")]
    TooShort,
    /// The superblock is invalid.
    #[error("the superblock is damaged: {0}")]
    Superblock(&'static str),
    /// An inode, or the content of a directory or link, is invalid.
    #[error("'{path}' is damaged: {what}")]
    Inode {
        /// The path; empty for the root.
        path: BString,
        /// The flaw.
        what: &'static str,
    },
}

/// An image, and its superblock.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    data: &'a [u8],
    block_bits: u32,
    root: u64,
    chunked: bool,
    /// The number of inodes.
    pub inodes: u64,
    /// The UUID of the image.
    pub uuid: [u8; 16],
    /// Modification and change time of all files: seconds and nanoseconds.
    pub time: (u64, u32),
    /// The number of blocks of each extra device.
    pub devices: Vec<u32>,
    /// The first block of each extra device in the common space of block numbers.
    mapped: Vec<u32>,
}

/// The content of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A directory.
    Directory,
    /// A symbolic link, and its target.
    Symlink(&'a BStr),
    /// A regular file. An empty file has no location.
    File(Option<Place>),
    /// Hides the path in the layers below.
    Whiteout,
}

/// An inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode<'a> {
    /// Its number.
    pub nid: u64,
    /// The permission bits.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of links.
    pub links: u32,
    /// The size in bytes.
    pub size: u64,
    /// The content.
    pub content: Content<'a>,
}

/// An inode, and the parts of it that only the reader needs.
struct Raw<'a> {
    inode: Inode<'a>,
    layout: u16,
    union: u32,
    /// The offset after the inode.
    end: usize,
}

/// A directory whose entries are being read.
struct Open {
    nid: u64,
    parent: u64,
    /// The length of its path.
    path: usize,
    /// Its blocks that are left. They are not listed: nested directories may claim one range.
    blocks: Blocks,
    /// The number of the next entry of the current block.
    next: usize,
    /// The previous name.
    last: Vec<u8>,
    /// The number of `.` and `..` found, and of subdirectories.
    dots: u32,
    subdirectories: u32,
    links: u32,
}

/// The blocks of a directory that are left.
struct Blocks {
    /// The offset of the current block, and the end of the full size at `start`.
    start: usize,
    end: usize,
    block_size: usize,
    /// The offset and length of the inline data, which come last.
    tail: Option<(usize, usize)>,
}

impl Blocks {
    /// Returns the offset and the length of the current block.
    fn current(&self) -> Option<(usize, usize)> {
        if self.start < self.end {
            Some((self.start, self.block_size.min(self.end - self.start)))
        } else {
            self.tail
        }
    }

    /// Goes on to the next block.
    fn advance(&mut self) {
        if self.start < self.end {
            self.start = self.end.min(self.start + self.block_size);
        } else {
            self.tail = None;
        }
    }
}

fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.get(..N)?.try_into().ok()
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    array(data, at).map(u16::from_le_bytes)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    array(data, at).map(u32::from_le_bytes)
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    array(data, at).map(u64::from_le_bytes)
}

impl<'a> Image<'a> {
    /// Reads the superblock and the device table.
    pub fn open(data: &'a [u8]) -> Result<Image<'a>, Error> {
        let damaged = |what| Err(Error::Superblock(what));
        let superblock = data.get(SUPER_OFFSET..).filter(|rest| rest.len() >= SLOT).ok_or(Error::TooShort)?;
        let (u16_of, u32_of) =
            (|at| u16_at(superblock, at).unwrap_or(0), |at| u32_at(superblock, at).unwrap_or(0));
        if u32_of(0) != MAGIC {
            return damaged("it has another magic number");
        }
        let block_bits = u32::from(superblock[0x0c]);
        if !(9..=16).contains(&block_bits) {
            return damaged("it has an unknown block size");
        }
        let covered = superblock.get(..checksummed(1 << block_bits)).ok_or(Error::TooShort)?;
        let checksum = [&covered[..4], &[0; 4], &covered[8..]].iter().fold(!0, |crc, part| crc32c(crc, part));
        if checksum != u32_of(4) {
            return damaged("its checksum does not match");
        }
        let incompat = u32_of(0x50);
        if u32_of(8) != COMPAT || incompat & !(DEVICE_TABLE | CHUNKED_FILE) != 0 {
            return damaged("it has unknown features");
        }
        let blocks = u64::from(u32_of(0x24));
        if blocks << block_bits != data.len() as u64 || u32_of(0x28) != 0 || u32_of(0x2c) != 0 {
            return damaged("it has another size");
        }
        let count = usize::from(u16_of(0x56));
        if (incompat & DEVICE_TABLE != 0) != (count > 0)
            || usize::from(u16_of(0x58)) * SLOT != SUPER_OFFSET + SLOT
        {
            return damaged("its device table is elsewhere");
        }
        let chunked = incompat & CHUNKED_FILE != 0;
        let (mut devices, mut mapped, mut next) = (Vec::new(), Vec::new(), blocks);
        for number in 0..count {
            let slot = SLOT + number * SLOT;
            let length = u32_at(superblock, slot + 64).ok_or(Error::TooShort)?;
            let start = u32_at(superblock, slot + 68).ok_or(Error::TooShort)?;
            if u64::from(start) != if chunked { 0 } else { next } {
                return damaged("its devices overlap");
            }
            next += u64::from(length);
            devices.push(length);
            mapped.push(start);
        }
        if !chunked && next > 1 << 32 {
            return damaged("its devices are too large");
        }
        Ok(Image {
            data,
            block_bits,
            root: u64::from(u16_of(0x0e)),
            chunked,
            inodes: u64_at(superblock, 0x10).unwrap_or(0),
            uuid: array(superblock, 0x30).unwrap_or_default(),
            time: (u64_at(superblock, 0x18).unwrap_or(0), u32_of(0x20)),
            devices,
            mapped,
        })
    }

    /// Returns the binary logarithm of the block size.
    pub fn block_bits(&self) -> u32 {
        self.block_bits
    }

    /// Calls `visit` for the root, with an empty path, and then for each inode, in the order of the
    /// names, a directory before its members.
    pub fn walk<E: From<Error>>(
        &self,
        visit: &mut dyn FnMut(&BStr, &Inode<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = BString::default();
        let mut seen = vec![0u64; self.data.len() / UNIT / 64 + 1];
        let mut mark = |nid: u64| {
            let (word, bit) = (&mut seen[nid as usize / 64], 1 << (nid % 64));
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        };
        let root = self.inode(self.root, BStr::new(""))?;
        if root.inode.content != Content::Directory {
            return Err(flaw(BStr::new(""), "the root is no directory").into());
        }
        mark(self.root);
        visit(BStr::new(""), &root.inode)?;
        let (mut found, mut open) = (1, vec![self.enter(&root, self.root, path.as_ref())?]);
        while let Some(dir) = open.last_mut() {
            path.truncate(dir.path);
            let Some((name, nid, file_type)) = self.next_entry(dir, path.as_ref())? else {
                if dir.dots != 2 || dir.links != 2 + dir.subdirectories {
                    return Err(flaw(path.as_ref(), "its links do not match its entries").into());
                }
                open.pop();
                continue;
            };
            if name == "." || name == ".." {
                let expected = if name == "." { dir.nid } else { dir.parent };
                if nid != expected || file_type != TYPE_DIRECTORY {
                    return Err(flaw(path.as_ref(), "'.' or '..' leads elsewhere").into());
                }
                dir.dots += 1;
                continue;
            }
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let raw = self.inode(nid, path.as_ref())?;
            let expected = match raw.inode.content {
                Content::Directory => TYPE_DIRECTORY,
                Content::Symlink(_) => TYPE_SYMLINK,
                Content::File(_) => TYPE_FILE,
                Content::Whiteout => TYPE_CHARACTER_DEVICE,
            };
            if file_type != expected {
                return Err(flaw(path.as_ref(), "its directory gives it another type").into());
            }
            if !mark(nid) {
                return Err(flaw(path.as_ref(), "its inode has two names").into());
            }
            found += 1;
            visit(path.as_ref(), &raw.inode)?;
            if raw.inode.content == Content::Directory {
                dir.subdirectories += 1;
                let parent = dir.nid;
                open.push(self.enter(&raw, parent, path.as_ref())?);
            }
        }
        if found == self.inodes { Ok(()) } else { Err(Error::Superblock("it counts other inodes").into()) }
    }

    fn inode(&self, nid: u64, path: &BStr) -> Result<Raw<'a>, Error> {
        self.read_inode(nid, path).unwrap_or_else(|| Err(flaw(path, "its inode lies outside of the image")))
    }

    /// Returns `None` if the inode or its inline data lie outside of the image.
    fn read_inode(&self, nid: u64, path: &BStr) -> Option<Result<Raw<'a>, Error>> {
        let start = usize::try_from(nid).ok()?.checked_mul(UNIT)?;
        let data = self.data.get(start..)?;
        let damaged = |what| Some(Err(flaw(path, what)));
        let format = u16_at(data, 0)?;
        let (is_extended, layout) = (format & 1 == 1, format >> 1);
        if u16_at(data, 2)? != 0 {
            return damaged("it has extended attributes");
        }
        let mode = u16_at(data, 4)?;
        let (size, uid, gid, links, length) = if is_extended {
            if (u64_at(data, 0x20)?, u32_at(data, 0x28)?) != self.time {
                return damaged("it has a time of its own");
            }
            (u64_at(data, 8)?, u32_at(data, 0x18)?, u32_at(data, 0x1c)?, u32_at(data, 0x2c)?, EXTENDED)
        } else {
            if u32_at(data, 0x0c)? != 0 {
                return damaged("it has a time of its own");
            }
            let (uid, gid) = (u16_at(data, 0x18)?, u16_at(data, 0x1a)?);
            (u64::from(u32_at(data, 8)?), uid.into(), gid.into(), u16_at(data, 6)?.into(), UNIT)
        };
        let mut raw = Raw {
            inode: Inode {
                nid,
                permissions: mode & !MODE_TYPE,
                uid,
                gid,
                links,
                size,
                content: Content::Directory,
            },
            layout,
            union: u32_at(data, 0x10)?,
            end: start + length,
        };
        if self.data.len() < raw.end {
            return None;
        }
        match mode & MODE_TYPE {
            MODE_DIRECTORY if matches!(layout, FLAT_PLAIN | FLAT_INLINE) => {}
            MODE_SYMLINK if matches!(layout, FLAT_PLAIN | FLAT_INLINE) && links == 1 => {
                match self.target(&raw) {
                    Some(target) => raw.inode.content = Content::Symlink(target),
                    None => return damaged("its target lies outside of the image"),
                }
            }
            MODE_FILE if links == 1 => match self.place(&raw) {
                Ok(place) => raw.inode.content = Content::File(place),
                Err(what) => return damaged(what),
            },
            MODE_CHARACTER_DEVICE if layout == FLAT_PLAIN && links == 1 && size == 0 && raw.union == 0 => {
                raw.inode.content = Content::Whiteout;
            }
            _ => return damaged("it has an unknown type or layout"),
        }
        Some(Ok(raw))
    }

    fn target(&self, raw: &Raw<'a>) -> Option<&'a BStr> {
        let size = usize::try_from(raw.inode.size).ok().filter(|size| (1..4096).contains(size))?;
        let start = match raw.layout {
            FLAT_INLINE => raw.end,
            _ => (raw.union as usize).checked_mul(1 << self.block_bits)?,
        };
        let target = self.data.get(start..)?.get(..size)?;
        (!target.contains(&0)).then(|| target.into())
    }

    fn place(&self, raw: &Raw<'_>) -> Result<Option<Place>, &'static str> {
        let size = raw.inode.size;
        let place = match raw.layout {
            FLAT_PLAIN if size == 0 => return Ok(None),
            FLAT_PLAIN if !self.chunked => {
                let device = self.mapped.partition_point(|&start| start <= raw.union).checked_sub(1);
                let device = device.ok_or("its content lies in the image")?;
                Place { device: device as u16, block: raw.union - self.mapped[device] }
            }
            CHUNK_BASED if self.chunked && size > 0 => self.chunks(raw)?,
            _ => return Err("it has an unknown layout"),
        };
        let end = u64::from(place.block) + size.div_ceil(1 << self.block_bits);
        if end <= u64::from(self.devices[usize::from(place.device)]) {
            Ok(Some(place))
        } else {
            Err("its content lies outside of its device")
        }
    }

    /// Reads chunk indexes, which must name one range of one device.
    fn chunks(&self, raw: &Raw<'_>) -> Result<Place, &'static str> {
        let bits = chunk_bits(raw.inode.size, self.block_bits);
        if raw.union != (bits - self.block_bits) | u32::from(CHUNK_HAS_INDEXES) {
            return Err("it has unknown chunks");
        }
        let count = usize::try_from(raw.inode.size.div_ceil(1 << bits)).map_err(|_| "it is too large")?;
        let indexes = self.data[raw.end..].get(..count.saturating_mul(CHUNK_INDEX));
        let indexes = indexes.ok_or("its chunks lie outside of the image")?;
        let mut first = None;
        for (number, index) in indexes.as_chunks::<CHUNK_INDEX>().0.iter().enumerate() {
            let device =
                u16_at(index, 2).unwrap_or(0).checked_sub(1).ok_or("its content lies in the image")?;
            let block = u64::from(u32_at(index, 4).unwrap_or(0));
            let place = *first.get_or_insert(Place { device, block: block as u32 });
            let expected = u64::from(place.block) + ((number as u64) << (bits - self.block_bits));
            if device != place.device || block != expected || index[..2] != [0; 2] {
                return Err("its chunks are not one range");
            }
        }
        first
            .filter(|place| usize::from(place.device) < self.devices.len())
            .ok_or("it names an unknown device")
    }

    /// Finds the blocks of a directory.
    fn enter(&self, raw: &Raw<'_>, parent: u64, path: &BStr) -> Result<Open, Error> {
        let block_size = 1usize << self.block_bits;
        let damaged = |what| Err(flaw(path, what));
        let Ok(size) = usize::try_from(raw.inode.size) else { return damaged("it is too large") };
        if size == 0 || size > self.data.len() {
            return damaged("it has an impossible size");
        }
        let (full, tail) = match raw.layout {
            FLAT_INLINE => ((size - 1) / block_size, size - (size - 1) / block_size * block_size),
            _ => (size.div_ceil(block_size), 0),
        };
        let start = (raw.union as usize).saturating_mul(block_size);
        let end = start.saturating_add((full * block_size).min(size));
        if tail > 0 && (raw.end % block_size + tail > block_size || raw.end.is_multiple_of(block_size)) {
            return damaged("its inline data cross a block");
        }
        if full > 0 && end > self.data.len() || raw.end + tail > self.data.len() {
            return damaged("it lies outside of the image");
        }
        let tail = (tail > 0).then_some((raw.end, tail));
        let blocks = if full > 0 {
            Blocks { start, end, block_size, tail }
        } else {
            Blocks { start: 0, end: 0, block_size, tail }
        };
        let (nid, links) = (raw.inode.nid, raw.inode.links);
        let path = path.len();
        Ok(Open { nid, parent, path, blocks, next: 0, last: Vec::new(), dots: 0, subdirectories: 0, links })
    }

    /// Returns the next entry: name, inode number and type.
    fn next_entry(&self, dir: &mut Open, path: &BStr) -> Result<Option<(&'a BStr, u64, u8)>, Error> {
        let Some((begin, length)) = dir.blocks.current() else { return Ok(None) };
        let block = &self.data[begin..begin + length];
        let read = || {
            let count = usize::from(u16_at(block, 8)?) / DIRENT;
            let entry = block.get(dir.next * DIRENT..)?.get(..DIRENT)?;
            let name_at = usize::from(u16_at(entry, 8)?);
            let is_last = dir.next + 1 == count;
            let end =
                if is_last { block.len() } else { usize::from(u16_at(block, (dir.next + 1) * DIRENT + 8)?) };
            let name = block.get(name_at..end)?;
            let name = if is_last {
                // Zeros pad the block after the last name.
                &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())]
            } else {
                name
            };
            let is_name =
                (1..=255).contains(&name.len()) && !name.iter().any(|byte| matches!(byte, 0 | b'/'));
            let first_name = u16_at(block, 8)? as usize;
            let fits = first_name.is_multiple_of(DIRENT) && dir.next < count && name_at >= first_name;
            let nid = u64_at(entry, 0)?;
            (is_name && fits && entry[11] == 0).then_some((name, nid, entry[10], is_last))
        };
        let Some((name, nid, file_type, is_last)) = read() else {
            return Err(flaw(path, "it has a malformed entry"));
        };
        if dir.last.as_slice() >= name {
            return Err(flaw(path, "its names are not sorted"));
        }
        dir.last = name.to_vec();
        dir.next += 1;
        if is_last {
            dir.blocks.advance();
            dir.next = 0;
        }
        Ok(Some((name.into(), nid, file_type)))
    }
}

fn flaw(path: &BStr, what: &'static str) -> Error {
    Error::Inode { path: path.to_owned(), what }
}
