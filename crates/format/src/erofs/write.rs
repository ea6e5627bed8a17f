//! Writes an image.
//!
//! Order: nodes are added, each after its directory; [`Image::lay_out`] assigns the offsets; then
//! [`Layout::nid`] gives inode numbers and [`Layout::emit`] the bytes, in order.

mod emit;

use bstr::BStr;

use super::{
    Place,
    disk::{CHUNK_INDEX, DIRENT, EXTENDED, MAX_NAME, SLOT, SUPER_OFFSET, UNIT, checksummed, chunk_bits},
};

/// Options that apply to a whole image.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary logarithm of the block size: 9 to 16.
    pub block_bits: u32,
    /// The UUID of the image. A kernel treats two images with the same UUID as the same image.
    pub uuid: [u8; 16],
    /// Modification and change time of all files: seconds and nanoseconds.
    pub time: (u64, u32),
    /// The owner of all files.
    pub uid: u32,
    /// The group of all files.
    pub gid: u32,
    /// The number of blocks of each extra device.
    pub devices: Vec<u32>,
}

/// The reason why a tree cannot be stored in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name is empty, too long, or contains a byte that is not allowed in names.
    #[error("a file name is empty, or longer than 255 bytes")]
    Name,
    /// A directory contains a name twice.
    #[error("a directory holds a name twice")]
    Duplicate,
    /// The target of a link is empty or too long for a path.
    #[error("the target of a symbolic link is empty, or longer than 4,095 bytes")]
    Target,
    /// The content of a file is outside of its device.
    #[error("a content lies outside of its device")]
    Place,
    /// There are more than 2^32 blocks, inodes, or bytes of names.
    #[error("there are too many files")]
    TooLarge,
}

/// A node of the tree: an index into the order of addition. The root is 0.
pub type Node = u32;

#[derive(Clone, Copy, Debug)]
enum Content {
    Directory,
    /// The target is in [`Image::bytes`].
    Symlink {
        start: u32,
    },
    File(Option<Place>),
    Whiteout,
}

#[derive(Clone, Copy, Debug)]
struct Inode {
    parent: Node,
    /// The offset of the name in [`Image::bytes`].
    name: u32,
    name_len: u8,
    permissions: u16,
    content: Content,
    /// The size in bytes. That of a directory is set by the layout.
    size: u64,
}

/// A tree that becomes an image.
#[derive(Debug)]
pub struct Image {
    options: Options,
    inodes: Vec<Inode>,
    /// Names and targets of links.
    bytes: Vec<u8>,
}

impl Image {
    /// Creates an image with only a root directory.
    pub fn new(options: Options, root_permissions: u16) -> Image {
        let root = Inode {
            parent: 0,
            name: 0,
            name_len: 0,
            permissions: root_permissions,
            content: Content::Directory,
            size: 0,
        };
        Image { options, inodes: vec![root], bytes: Vec::new() }
    }

    /// Adds a directory.
    pub fn add_directory(&mut self, parent: Node, name: &BStr, permissions: u16) -> Result<Node, Error> {
        self.add(parent, name, permissions, Content::Directory, 0)
    }

    /// Adds a symbolic link.
    pub fn add_symlink(&mut self, parent: Node, name: &BStr, target: &BStr) -> Result<Node, Error> {
        if target.is_empty() || target.len() > 4095 || target.contains(&0) {
            return Err(Error::Target);
        }
        let start = self.store(target)?;
        self.add(parent, name, 0o777, Content::Symlink { start }, target.len() as u64)
    }

    /// Adds a regular file of `size` bytes. An empty file has no location.
    pub fn add_file(
        &mut self,
        parent: Node,
        name: &BStr,
        permissions: u16,
        size: u64,
        place: Option<Place>,
    ) -> Result<Node, Error> {
        if let Some(Place { device, block }) = place {
            let blocks = self.options.devices.get(usize::from(device)).ok_or(Error::Place)?;
            let end = size.div_ceil(1 << self.options.block_bits).checked_add(u64::from(block));
            if end.is_none_or(|end| end > u64::from(*blocks)) {
                return Err(Error::Place);
            }
        }
        if place.is_none() && size > 0 {
            return Err(Error::Place);
        }
        self.add(parent, name, permissions, Content::File(place.filter(|_| size > 0)), size)
    }

    /// Adds a whiteout, which hides the path in the layers below.
    pub fn add_whiteout(&mut self, parent: Node, name: &BStr) -> Result<Node, Error> {
        self.add(parent, name, 0, Content::Whiteout, 0)
    }

    fn add(
        &mut self,
        parent: Node,
        name: &BStr,
        permissions: u16,
        content: Content,
        size: u64,
    ) -> Result<Node, Error> {
        let usable = !name.is_empty() && name.len() <= MAX_NAME && name != "." && name != "..";
        if !usable || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Error::Name);
        }
        debug_assert!(matches!(self.inodes[parent as usize].content, Content::Directory));
        let node = Node::try_from(self.inodes.len()).map_err(|_| Error::TooLarge)?;
        let start = self.store(name)?;
        let name_len = name.len() as u8;
        self.inodes.push(Inode { parent, name: start, name_len, permissions, content, size });
        Ok(node)
    }

    fn store(&mut self, bytes: &[u8]) -> Result<u32, Error> {
        let start = u32::try_from(self.bytes.len()).map_err(|_| Error::TooLarge)?;
        self.bytes.extend_from_slice(bytes);
        Ok(start)
    }

    fn name(&self, node: Node) -> &[u8] {
        let inode = &self.inodes[node as usize];
        &self.bytes[inode.name as usize..][..usize::from(inode.name_len)]
    }

    fn block_size(&self) -> usize {
        1 << self.options.block_bits
    }

    /// Assigns an offset to each inode, and block numbers to contents outside of inodes.
    pub fn lay_out(self) -> Result<Layout, Error> {
        let children = Children::of(&self)?;
        let mut layout = Layout {
            places: Vec::with_capacity(self.inodes.len()),
            data_start: 0,
            blocks: 0,
            chunked: self.needs_chunks(),
            children,
            image: self,
        };
        layout.assign()?;
        Ok(layout)
    }

    /// Returns true if the blocks of all devices may not fit into one space of 32 bits, with 2^30
    /// blocks left for the image.
    fn needs_chunks(&self) -> bool {
        self.options.devices.iter().map(|&blocks| u64::from(blocks)).sum::<u64>() > 3 << 30
    }
}

/// The members of each directory, sorted by name.
#[derive(Debug)]
struct Children {
    /// The first of a node's members in `members`; one more element ends the last.
    first: Vec<u32>,
    members: Vec<Node>,
}

impl Children {
    fn of(image: &Image) -> Result<Children, Error> {
        let mut first = vec![0u32; image.inodes.len() + 1];
        for inode in &image.inodes[1..] {
            first[inode.parent as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut next = first.clone();
        let mut members = vec![0; image.inodes.len() - 1];
        for (node, inode) in image.inodes.iter().enumerate().skip(1) {
            let at = &mut next[inode.parent as usize];
            members[*at as usize] = node as Node;
            *at += 1;
        }
        let mut children = Children { first, members };
        for node in 0..image.inodes.len() {
            let range = children.range(node as Node);
            let members = &mut children.members[range];
            members.sort_unstable_by_key(|&node| image.name(node));
            if members.windows(2).any(|two| image.name(two[0]) == image.name(two[1])) {
                return Err(Error::Duplicate);
            }
        }
        Ok(children)
    }

    fn range(&self, node: Node) -> std::ops::Range<usize> {
        self.first[node as usize] as usize..self.first[node as usize + 1] as usize
    }
}

/// The location of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct InodePlace {
    /// The offset in bytes. The inode's number is the offset divided by 32.
    offset: u64,
    /// Bytes after the inode that belong to its content.
    inline: u32,
    /// The first of the blocks outside of the inode, and their number.
    block: u32,
    blocks: u32,
}

/// An image with the location of each inode.
#[derive(Debug)]
pub struct Layout {
    image: Image,
    children: Children,
    places: Vec<InodePlace>,
    /// The first block after the inodes.
    data_start: u32,
    /// The number of blocks of the image.
    blocks: u32,
    /// True if files refer to a device and a block in chunk indexes.
    chunked: bool,
}

impl Layout {
    /// Returns the inode number of a node.
    pub fn nid(&self, node: Node) -> u64 {
        self.places[node as usize].offset / UNIT as u64
    }

    /// Returns the size of a node in bytes, as `stat(2)` reports it.
    pub fn size(&self, node: Node) -> u64 {
        self.image.inodes[node as usize].size
    }

    /// Returns the number of bytes of the image.
    pub fn len(&self) -> u64 {
        u64::from(self.blocks) << self.image.options.block_bits
    }

    /// Returns false: there is always a superblock.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the offset after the device table, rounded up to a block.
    fn inodes_start(&self) -> usize {
        let devices = self.image.options.devices.len();
        let end = SUPER_OFFSET + SLOT + devices * SLOT;
        end.max(SUPER_OFFSET + checksummed(self.image.block_size())).next_multiple_of(self.image.block_size())
    }

    /// Assigns locations in the order of the nodes. An inode and its inline data are in one block.
    /// If the rest of a block is too small for the next inode, later inodes that fit fill it.
    fn assign(&mut self) -> Result<(), Error> {
        let block_size = self.image.block_size();
        let (mut next, mut gap) = (self.inodes_start(), 0..0);
        let mut data_blocks = 0u64;
        for node in 0..self.image.inodes.len() as Node {
            let (inline, blocks) = self.measure(node);
            let need = (self.inode_size(node) + inline).next_multiple_of(UNIT);
            // Only chunk indexes may cross a block boundary. They are not inline data.
            let is_fixed = need <= block_size;
            let offset = if need <= gap.len() {
                gap.start += need;
                gap.start - need
            } else {
                if is_fixed && next % block_size + need > block_size {
                    let end = next.next_multiple_of(block_size);
                    if end - next > gap.len() {
                        gap = next..end;
                    }
                    next = end;
                }
                next += need;
                next - need
            };
            let block = u32::try_from(data_blocks).map_err(|_| Error::TooLarge)?;
            data_blocks += u64::from(blocks);
            self.places.push(InodePlace { offset: offset as u64, inline: inline as u32, block, blocks });
        }
        let data_start = next.div_ceil(block_size) as u64;
        let total = u32::try_from(data_start + data_blocks).ok().filter(|&total| total < 1 << 30);
        self.blocks = total.ok_or(Error::TooLarge)?;
        self.data_start = data_start as u32;
        Ok(())
    }

    /// Returns the number of inline bytes and of full blocks of a node's content, and sets the size
    /// of a directory.
    fn measure(&mut self, node: Node) -> (usize, u32) {
        let block_size = self.image.block_size();
        match self.image.inodes[node as usize].content {
            Content::File(None) | Content::Whiteout => (0, 0),
            Content::File(Some(_)) if self.chunked => {
                let size = self.image.inodes[node as usize].size;
                let chunks = size.div_ceil(1 << chunk_bits(size, self.image.options.block_bits));
                (chunks as usize * CHUNK_INDEX, 0)
            }
            Content::File(Some(_)) => (0, 0),
            Content::Symlink { .. } => {
                let size = self.image.inodes[node as usize].size as usize;
                if self.inode_size(node) + size <= block_size {
                    (size, 0)
                } else {
                    (0, size.div_ceil(block_size) as u32)
                }
            }
            Content::Directory => {
                let (mut full, mut tail) = (0, 0);
                self.split(node, |_, used| (full, tail) = (full + 1, used));
                full -= 1;
                self.image.inodes[node as usize].size = (full * block_size + tail) as u64;
                if self.inode_size(node) + tail <= block_size {
                    (tail, full as u32)
                } else {
                    (0, full as u32 + 1)
                }
            }
        }
    }

    /// Calls `block` with the entries of each block of a directory, and the bytes that they take.
    fn split(&self, node: Node, mut block: impl FnMut(&[Entry<'_>], usize)) {
        let block_size = self.image.block_size();
        let (mut entries, mut used) = (Vec::new(), 0);
        for entry in self.entries(node) {
            let need = DIRENT + entry.name.len();
            if used + need > block_size {
                block(&entries, used);
                entries.clear();
                used = 0;
            }
            used += need;
            entries.push(entry);
        }
        block(&entries, used);
    }

    /// Iterates over the entries of a directory in order, `.` and `..` included.
    fn entries(&self, node: Node) -> impl Iterator<Item = Entry<'_>> {
        let parent = self.image.inodes[node as usize].parent;
        let mut dots =
            [Entry { name: b".", node }, Entry { name: b"..", node: parent }].into_iter().peekable();
        let members = self.children.members[self.children.range(node)].iter();
        let mut members = members.map(|&node| Entry { name: self.image.name(node), node }).peekable();
        std::iter::from_fn(move || match (dots.peek(), members.peek()) {
            (Some(dot), Some(member)) if dot.name < member.name => dots.next(),
            (_, Some(_)) => members.next(),
            _ => dots.next(),
        })
    }

    fn inode_size(&self, node: Node) -> usize {
        let inode = &self.image.inodes[node as usize];
        let Options { uid, gid, .. } = self.image.options;
        let is_small = inode.size <= u64::from(u32::MAX)
            && uid.max(gid) <= u32::from(u16::MAX)
            && self.links(node) <= u32::from(u16::MAX);
        if is_small { UNIT } else { EXTENDED }
    }

    /// Returns the number of links: a directory has one in itself and one in each subdirectory.
    fn links(&self, node: Node) -> u32 {
        match self.image.inodes[node as usize].content {
            Content::Directory => {
                let members = self.children.members[self.children.range(node)].iter();
                let is_dir =
                    |node: &&Node| matches!(self.image.inodes[**node as usize].content, Content::Directory);
                2 + members.filter(is_dir).count() as u32
            }
            _ => 1,
        }
    }
}

/// An entry of a directory.
struct Entry<'a> {
    name: &'a [u8],
    node: Node,
}
