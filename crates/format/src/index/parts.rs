//! The small file of a split index, as bytes: changes of single extensions, and their values.
//!
//! Changing the location in the untracked cache would otherwise require decoding both files with
//! all entries. This module replaces the extension and leaves the others byte for byte.

use ::bytes::Bytes;
use bstr::{BStr, ByteSlice as _};

use super::{
    CacheTree, HEADER, UntrackedCache, Version,
    bytes::{Reader, STAT_SIZE, write_varint},
    entry::Codec,
    fsmonitor,
    read::Header,
};
use crate::{HashKind, ObjectId, hash::Hasher};

const UNTRACKED: [u8; 4] = *b"UNTR";
const MONITOR: [u8; 4] = *b"FSMN";
const TREE: [u8; 4] = *b"TREE";
const LINK: [u8; 4] = *b"link";

/// An index file with few entries or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Small<'a> {
    /// The header and the entries.
    head: &'a [u8],
    extensions: Vec<([u8; 4], Vec<u8>)>,
    hash: HashKind,
    path_bytes: u64,
}

impl<'a> Small<'a> {
    /// Parses the file. Returns `None` if it is damaged.
    pub fn parse(bytes: &'a [u8], hash: HashKind) -> Option<Small<'a>> {
        let Header { content, version, count, .. } = Header::read(bytes, hash).ok()?;
        let codec = Codec { hash, compressed: version == Version::V4 };
        let (mut offset, mut path, mut path_bytes) = (HEADER, None, 0);
        for _ in 0..count {
            (_, offset) = codec.next(content, offset, &mut path).ok()?;
            path_bytes += path.as_ref().map_or(0, Vec::len) as u64;
        }
        let mut reader = Reader(content.get(offset..)?);
        let mut extensions = Vec::new();
        while !reader.0.is_empty() {
            let signature = reader.array()?;
            let size = reader.u32()?;
            extensions.push((signature, reader.take(size as usize)?.to_vec()));
        }
        Some(Small { head: &content[..offset], extensions, hash, path_bytes })
    }

    /// Returns the bytes of all paths, which version 4 stores in less space.
    pub fn path_bytes(&self) -> u64 {
        self.path_bytes
    }

    /// Returns the name of the shared half, if there is one.
    pub fn shared_index(&self) -> Option<ObjectId> {
        let name = self.extension(LINK)?.get(..self.hash.len())?;
        ObjectId::from_bytes(self.hash, name).filter(|name| !name.is_null())
    }

    fn extension(&self, wanted: [u8; 4]) -> Option<&[u8]> {
        self.extensions.iter().find(|(signature, _)| *signature == wanted).map(|(_, data)| &**data)
    }

    /// Decodes the cache-tree, if there is an intact one.
    pub fn cache_tree(&self) -> Option<CacheTree> {
        CacheTree::read(&Bytes::copy_from_slice(self.extension(TREE)?), self.hash)
    }

    /// Decodes the untracked cache, if there is an intact one.
    pub fn untracked(&self) -> Option<UntrackedCache> {
        UntrackedCache::read(self.extension(UNTRACKED)?.to_vec(), self.hash)
    }

    /// Returns the positions of the entries that the file system monitor does not vouch for. The
    /// index, both files together, has `entries` entries.
    pub fn unmonitored(&self, entries: usize) -> Option<Vec<usize>> {
        fsmonitor::Pending::read(self.extension(MONITOR)?)?.dirty(entries)
    }

    /// Changes the location (`ident`) for which the untracked cache is valid, if there is a cache.
    pub fn set_ident(&mut self, ident: &BStr) {
        for (signature, data) in &mut self.extensions {
            if *signature == UNTRACKED
                && let Some(rest) = after_ident(data)
            {
                let mut changed = Vec::with_capacity(data.len() + ident.len());
                write_varint(&mut changed, ident.len() as u64 + 1);
                changed.extend_from_slice(ident.as_bytes());
                changed.push(0);
                changed.extend_from_slice(rest);
                *data = changed;
            }
        }
    }

    /// Changes the blob names of `info/exclude` and `core.excludesFile` in the untracked cache, if
    /// there is a cache. Git hashes the files at their first use.
    pub fn set_excludes(&mut self, names: [&ObjectId; 2]) {
        // The stat fields of both files and the flags precede the names.
        let stats = 2 * STAT_SIZE;
        let at = stats + 4;
        let length = self.hash.len();
        for (signature, data) in &mut self.extensions {
            let Some(rest) = after_ident(data).filter(|_| *signature == UNTRACKED) else { continue };
            let start = data.len() - rest.len();
            if let Some(fields) = data[start..].get_mut(..at + 2 * length) {
                fields[..stats].fill(0);
                fields[at..].copy_from_slice(&names.map(ObjectId::as_bytes).concat());
            }
        }
    }

    /// Removes the data of the file system monitor, and the untracked cache that depends on them.
    pub fn remove_monitor(&mut self) {
        self.extensions.retain(|(signature, _)| ![MONITOR, UNTRACKED].contains(signature));
    }

    /// Returns the bytes of the file, with a new checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.to_vec();
        for (signature, data) in &self.extensions {
            bytes.extend_from_slice(signature);
            let size = u32::try_from(data.len()).expect("the size was read from 32 bits and grew by a path");
            bytes.extend_from_slice(&size.to_be_bytes());
            bytes.extend_from_slice(data);
        }
        let mut hasher = Hasher::checksum(self.hash);
        hasher.update(&bytes);
        let checksum = hasher.finish().expect("a checksum looks for no collision");
        bytes.extend_from_slice(checksum.as_bytes());
        bytes
    }
}

/// Returns the data of the untracked cache after its location.
fn after_ident(data: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(data);
    let length = usize::try_from(reader.varint()?).ok()?;
    reader.take(length)?;
    Some(reader.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{
        Index, UntrackedCache,
        read::{Options, decode},
        write::{self, Part, encode},
    };

    fn file(index: &Index) -> Vec<u8> {
        let mut bytes = Vec::new();
        let options = write::Options { version: super::super::Version::V2, end_of_entries: false, blocks: 0 };
        encode(index, Part::Whole, &options, &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok::<_, std::convert::Infallible>(())
        })
        .expect("encoded");
        let mut hasher = Hasher::checksum(index.hash);
        hasher.update(&bytes);
        bytes.extend_from_slice(hasher.finish().expect("a checksum").as_bytes());
        bytes
    }

    #[test]
    fn changes_the_place_of_the_untracked_cache() {
        let mut index = Index::empty(HashKind::Sha1);
        index.untracked = Some(UntrackedCache::new("Location /a, system Linux".into(), 6, HashKind::Sha1));
        let before = file(&index);
        let mut small = Small::parse(&before, HashKind::Sha1).expect("parsed");
        assert_eq!(small.to_bytes(), before);
        let long = format!("Location /{}, system Linux", "b".repeat(200));
        small.set_ident(long.as_str().into());
        let names = [ObjectId::empty_blob(HashKind::Sha1), ObjectId::empty_tree(HashKind::Sha1)];
        small.set_excludes(names.each_ref());
        let after = small.to_bytes();
        let options = Options::new(1, true);
        let read = decode(&after, HashKind::Sha1, options).and_then(|read| read.finish()).expect("read");
        let cache = read.untracked.expect("kept");
        assert_eq!((cache.ident(), cache.excludes()), (long.as_str().into(), names.each_ref()));
        small.remove_monitor();
        let bytes = small.to_bytes();
        let read = decode(&bytes, HashKind::Sha1, options).and_then(|read| read.finish()).expect("read");
        assert_eq!(read.untracked, None);
    }

    #[test]
    fn refuses_other_files() {
        let whole = file(&Index::empty(HashKind::Sha1));
        assert_eq!(Small::parse(&whole[..whole.len() - 21], HashKind::Sha1), None);
        assert_eq!(Small::parse(b"", HashKind::Sha1), None);
        let mut without_its_entry = whole;
        without_its_entry[11] = 1;
        assert_eq!(Small::parse(&without_its_entry, HashKind::Sha1), None);
    }
}
