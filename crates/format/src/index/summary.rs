//! Summarizes an index from its bytes without decoding paths: one pass over the modes of the
//! entries, and one over the names of the extensions.
//!
//! Nothing is verified. The result is `None` if the bytes do not look like an index.

use ::bytes::Bytes;
use bstr::{BStr, ByteSlice as _};

use super::{CacheTree, bytes::Reader};
use crate::{HashKind, Mode, ObjectId};

/// A summary of an index: facts beyond its ordinary entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSummary {
    /// Number of entries in this file.
    pub entries: usize,
    /// True if some entry is a submodule.
    pub gitlinks: bool,
    /// True if entries may stand for whole directories (`sdir`).
    pub sparse: bool,
    /// The name of the shared index that holds most entries (`link`).
    pub shared: Option<ObjectId>,
}

/// Summarizes the content of an index file.
pub fn summarize(data: &[u8], hash: HashKind) -> Option<IndexSummary> {
    let content = data.get(..data.len().checked_sub(hash.len())?)?;
    let mut header = Reader(content);
    let (signature, version, count) = (header.u32()?, header.u32()?, header.u32()?);
    if signature != u32::from_be_bytes(*b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let mut found = IndexSummary { entries: count as usize, ..IndexSummary::default() };
    let mut at = 12;
    for _ in 0..count {
        let (end, mode) = entry(content, at, hash, version)?;
        found.gitlinks |= Mode::from_raw(mode).is_gitlink();
        at = end;
    }
    while at < content.len() {
        let mut extension = Reader(content.get(at..)?);
        let (signature, size) = (extension.u32()?.to_be_bytes(), extension.u32()?);
        match &signature {
            b"sdir" => found.sparse = true,
            b"link" => found.shared = extension.oid(hash).filter(|oid| *oid != ObjectId::null(hash)),
            _ => {}
        }
        at = at.checked_add(8)?.checked_add(size as usize)?;
    }
    (at == content.len()).then_some(found)
}

/// Returns the tree that the index equals, if its cache-tree says so: then nothing in it is
/// unmerged or only intended, and its entries are those of the tree. In a split index this holds
/// for both halves together.
pub fn cached_tree(data: &[u8], hash: HashKind) -> Option<ObjectId> {
    let content = data.get(..data.len().checked_sub(hash.len())?)?;
    let mut header = Reader(content);
    let (signature, version, count) = (header.u32()?, header.u32()?, header.u32()?);
    if signature != u32::from_be_bytes(*b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    for _ in 0..count {
        at = entry(content, at, hash, version)?.0;
    }
    loop {
        let mut extension = Reader(content.get(at..)?);
        let (signature, size) = (extension.u32()?.to_be_bytes(), extension.u32()?);
        let end = at.checked_add(8)?.checked_add(size as usize)?;
        if &signature == b"TREE" {
            let extension = content.get(at + 8..end)?;
            return CacheTree::read(&Bytes::copy_from_slice(extension), hash)?.valid.map(|(oid, _)| oid);
        }
        at = end;
    }
}

/// Returns true if an entry of this file is below the directory `dir`. Returns `None` if this
/// requires decoding the entries.
///
/// The shared index of a split index is another file. An entry of it may be deleted in this one.
pub fn has_entry_below(data: &[u8], hash: HashKind, dir: &BStr) -> Option<bool> {
    const AT_ENTRIES: usize = 12;
    let content = data.get(..data.len().checked_sub(hash.len())?)?;
    let mut header = Reader(content);
    let (signature, version, count) = (header.u32()?, header.u32()?, header.u32()?);
    if signature != u32::from_be_bytes(*b"DIRC") || !(2..=3).contains(&version) {
        return None;
    }
    let mut at = AT_ENTRIES;
    for _ in 0..count {
        let (end, _) = entry(content, at, hash, version)?;
        let name = content.get(at + STAT + hash.len() + 2..end)?;
        // Extended flags precede the name.
        let is_below =
            |name: &[u8]| name.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'));
        if is_below(name) || version == 3 && name.get(2..).is_some_and(is_below) {
            return Some(true);
        }
        at = end;
    }
    Some(false)
}

/// The length of the stat fields of an entry.
const STAT: usize = 40;

/// Returns the end of the entry at `at`, and its mode.
fn entry(content: &[u8], at: usize, hash: HashKind, version: u32) -> Option<(usize, u32)> {
    const AT_MODE: usize = 24;
    const EXTENDED: u16 = 0x4000;
    const NAME_LENGTH: u16 = 0x0fff;
    let mode = u32::from_be_bytes(content.get(at + AT_MODE..at + AT_MODE + 4)?.try_into().ok()?);
    let flags_at = at + STAT + hash.len();
    let flags = u16::from_be_bytes(content.get(flags_at..flags_at + 2)?.try_into().ok()?);
    let mut name_at = flags_at + 2;
    if flags & EXTENDED != 0 {
        name_at += 2;
    }
    if version == 4 {
        // The rest of the name follows a variable-length number: the length to cut off the previous
        // name.
        while content.get(name_at)? & 0x80 != 0 {
            name_at += 1;
        }
        name_at += 1;
        return Some((name_at + nul(content, name_at)? + 1, mode));
    }
    let length = match flags & NAME_LENGTH {
        NAME_LENGTH => nul(content, name_at)?,
        length => usize::from(length),
    };
    // One to eight NULs pad the entry to a multiple of eight bytes.
    let size = (name_at - at + length + 8) & !7;
    Some((at + size, mode))
}

fn nul(content: &[u8], from: usize) -> Option<usize> {
    content.get(from..)?.iter().position(|&byte| byte == 0)
}
