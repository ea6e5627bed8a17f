//! Tables: the frames and contents of a segment.
//!
//! Layout, numbers in network order:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `SWTABLE1` |
//! | 4 | kind of hash: 1 for SHA-1, 2 for SHA-256 |
//! | 4 | number of frames |
//! | 4 | number of contents |
//! | 4 | zero |
//! | 40 each | frame: lengths in the segment (4) and inflated (4), SHA-256 in the segment (32) |
//! | 20 or 32, and 8 each | content: object id, size |
//!
//! Frames are consecutive in the segment, so offsets follow from lengths, and no two frames
//! overlap. Contents are consecutive in the inflated frames. A frame contains whole contents, or a
//! part of one content; the frames of such a content contain nothing else.

use std::{collections::HashSet, ops::Range};

use crate::{HashKind, ObjectId};

use super::{
    Digest,
    frame::{MAX_RAW, max_compressed},
};

const MAGIC: &[u8; 8] = b"SWTABLE1";
const HEADER: usize = 24;
const FRAME: usize = 40;

/// A frame of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its length in the segment.
    pub compressed: u32,
    /// Its length before compression.
    pub raw: u32,
    /// The SHA-256 of its bytes in the segment.
    pub digest: Digest,
}

/// A content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The name of the blob.
    pub oid: ObjectId,
    /// Its size; never zero.
    pub size: u64,
}

/// Frames that are inflated together, and the contents in them: several contents in one frame, or
/// one content in several frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The range of frame numbers.
    pub frames: Range<usize>,
    /// The range of content numbers.
    pub contents: Range<usize>,
    /// The offset of the first frame in the segment, in bytes.
    pub offset: u64,
    /// The length of all frames in the segment, in bytes.
    pub len: u64,
}

/// A table; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    hash: HashKind,
    frames: Vec<Frame>,
    contents: Vec<Content>,
    groups: Vec<Group>,
    segment: u64,
}

/// The reason why the bytes are not a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("it is no table of this version")]
    Header,
    #[error("its length does not match its counts")]
    Length,
    #[error("the lengths of frame {0} are out of bounds")]
    Frame(usize),
    #[error("content {0} is empty, too large, or there twice")]
    Content(usize),
    #[error("content {0} does not end where its frame ends")]
    Boundary(usize),
}

impl Table {
    /// Creates a table. Returns an error if frames and contents do not match.
    pub fn new(hash: HashKind, frames: Vec<Frame>, contents: Vec<Content>) -> Result<Table, Error> {
        let mut segment = 0;
        for (at, frame) in frames.iter().enumerate() {
            let is_sound = frame.raw > 0
                && frame.raw <= MAX_RAW
                && frame.compressed > 0
                && frame.compressed <= max_compressed(frame.raw);
            if !is_sound {
                return Err(Error::Frame(at));
            }
            segment += u64::from(frame.compressed);
        }
        let mut seen = HashSet::with_capacity(contents.len());
        for (at, content) in contents.iter().enumerate() {
            if content.size == 0 || content.oid.kind() != hash || !seen.insert(content.oid) {
                return Err(Error::Content(at));
            }
        }
        let groups = groups(&frames, &contents)?;
        Ok(Table { hash, frames, contents, groups, segment })
    }

    /// Reads a table.
    pub fn parse(data: &[u8]) -> Result<Table, Error> {
        let header = data.first_chunk::<HEADER>().ok_or(Error::Header)?;
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| header[at + n]));
        let hash = match number(8) {
            1 => HashKind::Sha1,
            2 => HashKind::Sha256,
            _ => return Err(Error::Header),
        };
        if !header.starts_with(MAGIC) || number(20) != 0 {
            return Err(Error::Header);
        }
        let (frames, contents) = (number(12) as usize, number(16) as usize);
        let width = hash.len() + 8;
        let frames_len = frames.checked_mul(FRAME).ok_or(Error::Length)?;
        let contents_len = contents.checked_mul(width).ok_or(Error::Length)?;
        if frames_len.checked_add(contents_len) != Some(data.len() - HEADER) {
            return Err(Error::Length);
        }
        let (frames, contents) = data[HEADER..].split_at(frames_len);
        let frame = |bytes: &[u8; FRAME]| {
            let [compressed, raw] = [0, 4].map(|at| u32::from_be_bytes([0, 1, 2, 3].map(|n| bytes[at + n])));
            let mut digest = [0; 32];
            digest.copy_from_slice(&bytes[8..]);
            Frame { compressed, raw, digest: Digest::from_bytes(digest) }
        };
        let content = |bytes: &[u8]| {
            let (oid, size) = bytes.split_at(hash.len());
            let oid = ObjectId::from_bytes(hash, oid).expect("of this length");
            Content { oid, size: u64::from_be_bytes(size.try_into().expect("eight bytes")) }
        };
        let frames = frames.as_chunks::<FRAME>().0.iter().map(frame).collect();
        Table::new(hash, frames, contents.chunks_exact(width).map(content).collect())
    }

    /// Returns the table in its file format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let kind: u32 = match self.hash {
            HashKind::Sha1 => 1,
            HashKind::Sha256 => 2,
        };
        let count = |len: usize| u32::try_from(len).expect("a segment has fewer");
        for number in [kind, count(self.frames.len()), count(self.contents.len()), 0] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for frame in &self.frames {
            out.extend_from_slice(&frame.compressed.to_be_bytes());
            out.extend_from_slice(&frame.raw.to_be_bytes());
            out.extend_from_slice(frame.digest.as_bytes());
        }
        for content in &self.contents {
            out.extend_from_slice(content.oid.as_bytes());
            out.extend_from_slice(&content.size.to_be_bytes());
        }
        out
    }

    /// Returns the kind of hash of the contents' names.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the frames in the order of the segment.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the contents in the order of the segment.
    pub fn contents(&self) -> &[Content] {
        &self.contents
    }

    /// Returns the groups in the order of the segment.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the length of the segment.
    pub fn segment_len(&self) -> u64 {
        self.segment
    }
}

/// Divides frames and contents into groups, and thereby checks that they match.
fn groups(frames: &[Frame], contents: &[Content]) -> Result<Vec<Group>, Error> {
    let mut groups = Vec::new();
    let (mut frame, mut content, mut offset) = (0, 0, 0);
    while frame < frames.len() {
        let (first_frame, first_content) = (frame, content);
        let one = contents.get(content).ok_or(Error::Frame(frame))?;
        let mut room = u64::from(frames[frame].raw);
        frame += 1;
        if one.size > room {
            // The sum cannot overflow: there are fewer than 2^32 frames, each of fewer than 2^32
            // bytes.
            while room < one.size {
                room += u64::from(frames.get(frame).ok_or(Error::Boundary(content))?.raw);
                frame += 1;
            }
            if room != one.size {
                return Err(Error::Boundary(content));
            }
            content += 1;
        } else {
            while room > 0 {
                let size = contents.get(content).ok_or(Error::Frame(first_frame))?.size;
                room = room.checked_sub(size).ok_or(Error::Boundary(content))?;
                content += 1;
            }
        }
        let len = frames[first_frame..frame].iter().map(|frame| u64::from(frame.compressed)).sum();
        groups.push(Group { frames: first_frame..frame, contents: first_content..content, offset, len });
        offset += len;
    }
    if content < contents.len() { Err(Error::Content(content)) } else { Ok(groups) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn oid(hash: HashKind, number: u32) -> ObjectId {
        let mut raw = vec![7; hash.len()];
        raw[..4].copy_from_slice(&number.to_be_bytes());
        ObjectId::from_bytes(hash, &raw).expect("of this length")
    }

    fn frame(compressed: u32, raw: u32) -> Frame {
        Frame { compressed, raw, digest: Digest::from_bytes([3; 32]) }
    }

    /// Builds a table. Each element is a group: `Ok` with the sizes of the contents in one frame,
    /// or `Err` with the lengths of the frames of one content.
    fn table(hash: HashKind, parts: &[Result<Vec<u32>, Vec<u32>>]) -> Table {
        let (mut frames, mut contents) = (Vec::new(), Vec::new());
        let content = |contents: &mut Vec<Content>, size| {
            contents.push(Content { oid: oid(hash, contents.len() as u32), size });
        };
        for part in parts {
            match part {
                Ok(sizes) => {
                    frames.push(frame(9, sizes.iter().sum()));
                    sizes.iter().for_each(|size| content(&mut contents, u64::from(*size)));
                }
                Err(lens) => {
                    frames.extend(lens.iter().map(|len| frame(7, *len)));
                    content(&mut contents, lens.iter().map(|len| u64::from(*len)).sum());
                }
            }
        }
        Table::new(hash, frames, contents).expect("sound")
    }

    fn parts() -> impl Strategy<Value = Vec<Result<Vec<u32>, Vec<u32>>>> {
        let sizes = || prop::collection::vec(1..1000_u32, 1..6);
        let frames = prop::collection::vec(1..1000_u32, 2..6);
        prop::collection::vec(prop_oneof![sizes().prop_map(Ok), frames.prop_map(Err)], 0..20)
    }

    proptest! {
        #[test]
        fn tables_come_back(parts in parts(), is_long in any::<bool>()) {
            let hash = if is_long { HashKind::Sha256 } else { HashKind::Sha1 };
            let table = table(hash, &parts);
            prop_assert_eq!(table.groups().len(), parts.len());
            let bytes = table.to_bytes();
            prop_assert_eq!(&Table::parse(&bytes).expect("sound"), &table);
            for cut in 0..bytes.len() {
                prop_assert!(Table::parse(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn any_table_keeps_its_promises(parts in parts(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = table(HashKind::Sha1, &parts).to_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(table) = Table::parse(&bytes) {
                check(&table);
                prop_assert_eq!(table.to_bytes(), bytes);
            }
        }
    }

    fn check(table: &Table) {
        let (mut frame, mut content, mut offset) = (0, 0, 0);
        for group in table.groups() {
            assert_eq!((group.frames.start, group.contents.start, group.offset), (frame, content, offset));
            let raw: u64 =
                table.frames()[group.frames.clone()].iter().map(|frame| u64::from(frame.raw)).sum();
            let size: u64 = table.contents()[group.contents.clone()].iter().map(|one| one.size).sum();
            assert_eq!(raw, size);
            assert!(group.frames.len() == 1 || group.contents.len() == 1);
            (frame, content, offset) = (group.frames.end, group.contents.end, offset + group.len);
        }
        assert_eq!((frame, content), (table.frames().len(), table.contents().len()));
        assert_eq!(offset, table.segment_len());
    }

    #[test]
    fn hostile_tables_are_refused() {
        let hash = HashKind::Sha1;
        let content = |number, size| Content { oid: oid(hash, number), size };
        let refused = |frames: &[Frame], contents: &[Content]| {
            Table::new(hash, frames.to_vec(), contents.to_vec()).expect_err("refused")
        };
        assert_eq!(refused(&[frame(1, 5)], &[content(1, 5), content(1, 5)]), Error::Content(1));
        assert_eq!(refused(&[frame(1, 5)], &[content(1, 5), content(2, 0)]), Error::Content(1));
        assert_eq!(refused(&[frame(1, 5)], &[content(1, 5), content(2, 5)]), Error::Content(1));
        assert_eq!(refused(&[frame(1, 5)], &[content(1, 4), content(2, 2)]), Error::Boundary(1));
        assert_eq!(refused(&[frame(1, 5)], &[content(1, u64::MAX)]), Error::Boundary(0));
        assert_eq!(refused(&[frame(1, 5), frame(1, 5)], &[content(1, 6)]), Error::Boundary(0));
        assert_eq!(refused(&[frame(1, 5)], &[]), Error::Frame(0));
        assert_eq!(refused(&[frame(1, MAX_RAW + 1)], &[content(1, 5)]), Error::Frame(0));
        assert_eq!(refused(&[frame(5000, 5)], &[content(1, 5)]), Error::Frame(0));
        assert_eq!(refused(&[frame(0, 5)], &[content(1, 5)]), Error::Frame(0));
        assert_eq!(refused(&[frame(1, 0)], &[content(1, 5)]), Error::Frame(0));
        // Counts that exceed the file must not allocate memory.
        let mut bytes = table(hash, &[Ok(vec![1])]).to_bytes();
        bytes[12..20].fill(0xff);
        assert_eq!(Table::parse(&bytes), Err(Error::Length));
    }
}
