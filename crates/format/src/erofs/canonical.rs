//! Checks that an image is the one that [`super::write`] makes of its tree, byte by byte.
//!
//! The reader yields the tree. The writer makes an image of the tree again, in the order of a Git
//! index. An image that differs in one byte is refused. So the bytes that a caller receives are
//! always those of the writer: whoever mounts them mounts no byte that another program chose,
//! except names, targets of links, permissions, sizes, and numbers of blocks within the devices.
//!
//! Memory is proportional to the image, and no recursion depends on it.

use bstr::{BStr, ByteSlice as _};

use super::{
    Place, read,
    write::{self, Node},
};

/// The reason why an image is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The image cannot be read.
    #[error(transparent)]
    Read(#[from] read::Error),
    /// The tree cannot be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// Inodes have different owners.
    #[error("its files have different owners")]
    Owners,
    /// Names or targets of links lie in the same bytes.
    #[error("its names and links are longer than the image")]
    Shared,
    /// The writer makes other bytes, or another length.
    #[error("it differs from the image of its tree at byte {offset}")]
    Differs {
        /// The offset of the first difference.
        offset: u64,
    },
}

/// The properties of a checked image that a policy may restrict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The owner of all files.
    pub uid: u32,
    /// The group of all files.
    pub gid: u32,
    /// The union of the permission bits of all files.
    pub permissions: u16,
    /// The binary logarithm of the block size.
    pub block_bits: u32,
    /// The number of blocks of each extra device.
    pub devices: Vec<u32>,
    /// The number of inodes.
    pub inodes: u64,
}

/// A checked image: the writer's layout of its tree.
#[derive(Debug)]
pub struct Checked {
    layout: write::Layout,
    facts: Facts,
}

impl Checked {
    /// Returns the properties of the image.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the length of the image in bytes.
    pub fn len(&self) -> u64 {
        self.layout.len()
    }

    /// Returns false: there is always a superblock.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Passes the bytes of the image to `out`, in order. The writer made them.
    pub fn emit<E>(&self, out: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.layout.emit(out)
    }
}

/// A node of the tree, as it was read.
struct Found<'a> {
    parent: u32,
    /// The last component of its path, in [`Tree::names`].
    name: std::ops::Range<usize>,
    permissions: u16,
    size: u64,
    content: read::Content<'a>,
}

#[derive(Default)]
struct Tree<'a> {
    found: Vec<Found<'a>>,
    names: Vec<u8>,
}

/// Checks an image.
pub fn check(data: &[u8]) -> Result<Checked, Error> {
    let image = read::Image::open(data)?;
    let (mut tree, mut owner, mut permissions) = (Tree::default(), None, 0);
    // The directories of the current path: the length of its path, and its number.
    let mut above: Vec<(usize, u32)> = Vec::new();
    // The writer stores each name and target once. Directories and links of a forged image may
    // share bytes, and the memory for them would be many times as large as the image.
    let mut texts = 0;
    image.walk::<Error>(&mut |path, inode| {
        if *owner.get_or_insert((inode.uid, inode.gid)) != (inode.uid, inode.gid) {
            return Err(Error::Owners);
        }
        permissions |= inode.permissions;
        let slash = path.rfind_byte(b'/');
        while above.last().is_some_and(|&(length, _)| length != slash.unwrap_or(0)) {
            above.pop();
        }
        texts += path.len() - slash.map_or(0, |slash| slash + 1);
        if let read::Content::Symlink(target) = inode.content {
            texts += target.len();
        }
        if texts > data.len() {
            return Err(Error::Shared);
        }
        let number = u32::try_from(tree.found.len()).map_err(|_| write::Error::TooLarge)?;
        let start = tree.names.len();
        tree.names.extend_from_slice(&path[slash.map_or(0, |slash| slash + 1)..]);
        tree.found.push(Found {
            parent: above.last().map_or(0, |&(_, parent)| parent),
            name: start..tree.names.len(),
            permissions: inode.permissions,
            size: inode.size,
            content: inode.content,
        });
        if inode.content == read::Content::Directory {
            above.push((path.len(), number));
        }
        Ok(())
    })?;
    let (uid, gid) = owner.expect("the root was visited");
    let facts = Facts {
        uid,
        gid,
        permissions,
        block_bits: image.block_bits(),
        devices: image.devices.clone(),
        inodes: image.inodes,
    };
    let options = write::Options {
        block_bits: facts.block_bits,
        uuid: image.uuid,
        time: image.time,
        uid,
        gid,
        devices: facts.devices.clone(),
    };
    let layout = tree.write(options)?.lay_out()?;
    compare(&layout, data)?;
    Ok(Checked { layout, facts })
}

/// Returns an error unless the layout's bytes are `data`.
fn compare(layout: &write::Layout, data: &[u8]) -> Result<(), Error> {
    let mut rest = data;
    let offset_of = |rest: &[u8]| (data.len() - rest.len()) as u64;
    layout.emit(&mut |piece| {
        let Some((same, after)) = rest.split_at_checked(piece.len()) else {
            return Err(Error::Differs { offset: data.len() as u64 });
        };
        if same != piece {
            let at = same.iter().zip(piece).take_while(|(one, other)| one == other).count();
            return Err(Error::Differs { offset: offset_of(rest) + at as u64 });
        }
        rest = after;
        Ok(())
    })?;
    if rest.is_empty() { Ok(()) } else { Err(Error::Differs { offset: offset_of(rest) }) }
}

impl Tree<'_> {
    fn name(&self, number: u32) -> &BStr {
        self.names[self.found[number as usize].name.clone()].as_bstr()
    }

    /// Adds all nodes to a new image in the order of a Git index: each directory before its first
    /// member, and members in the order of the full paths of what is in them. In that order a
    /// directory with members has a slash after its name.
    fn write(&self, options: write::Options) -> Result<write::Image, Error> {
        let mut first = vec![0u32; self.found.len() + 1];
        for found in &self.found[1..] {
            first[found.parent as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let range = |number: u32| first[number as usize] as usize..first[number as usize + 1] as usize;
        let mut next = first.clone();
        let mut members = vec![0u32; self.found.len() - 1];
        for (number, found) in self.found.iter().enumerate().skip(1) {
            let at = &mut next[found.parent as usize];
            members[*at as usize] = number as u32;
            *at += 1;
        }
        let key = |number: u32| {
            let slash: &[u8] = if range(number).is_empty() { b"" } else { b"/" };
            self.name(number).iter().chain(slash)
        };
        for number in 0..self.found.len() as u32 {
            members[range(number)].sort_unstable_by(|&one, &other| key(one).cmp(key(other)));
        }
        let mut image = write::Image::new(options, self.found[0].permissions);
        // The directories whose members are being added: their node, and the members that are left.
        let mut open: Vec<(Node, std::ops::Range<usize>)> = vec![(0, range(0))];
        while let Some((parent, left)) = open.last_mut() {
            let Some(at) = left.next() else {
                open.pop();
                continue;
            };
            let (parent, number) = (*parent, members[at]);
            let (found, name) = (&self.found[number as usize], self.name(number));
            match found.content {
                read::Content::Directory => {
                    let node = image.add_directory(parent, name, found.permissions)?;
                    open.push((node, range(number)));
                }
                read::Content::Symlink(target) => drop(image.add_symlink(parent, name, target)?),
                read::Content::File(place) => {
                    let place: Option<Place> = place;
                    image.add_file(parent, name, found.permissions, found.size, place)?;
                }
                read::Content::Whiteout => drop(image.add_whiteout(parent, name)?),
            }
        }
        Ok(image)
    }
}
