//! The commits of a graph in memory: read in parallel, and numbered in the order of their
//! discovery.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::ByteSlice as _;
use format::{HashKind, Kind, ObjectId};
use repo::objects::{Objects, Reader};

use crate::crew::parallel;

/// Fewer commits than this are read on the calling thread.
const FEW: usize = 64;
/// The number of commits in a batch that a thread reads.
const BATCH: usize = 256;

/// A commit.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: ObjectId,
    pub(super) state: State,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Not read yet.
    Unread,
    /// The object is missing, malformed or not a commit.
    Absent,
    Read(Commit),
}

#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) tree: ObjectId,
    /// Seconds since the epoch.
    pub(super) date: u64,
    parents: Range<u32>,
}

/// A parsed commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) tree: ObjectId,
    pub(super) parents: Vec<ObjectId>,
    pub(super) date: u64,
}

/// Parses the headers that a graph needs, as Git does. Returns `None` for a commit that Git rejects
/// as malformed.
pub(super) fn parse(hash: HashKind, data: &[u8]) -> Option<Parsed> {
    let hex = |line: &[u8], key: &[u8]| {
        let digits = line.strip_prefix(key)?;
        (digits.len() == hash.hex_len()).then(|| ObjectId::from_hex(hash, digits))?
    };
    let (first, mut rest) = data.split_once_str("\n")?;
    let tree = hex(first, b"tree ")?;
    let mut parents = Vec::new();
    while rest.starts_with(b"parent ") {
        let (line, after) = rest.split_once_str("\n")?;
        parents.push(hex(line, b"parent ")?);
        rest = after;
    }
    Some(Parsed { tree, parents, date: date(rest).unwrap_or(0) })
}

/// Parses the committer's date. `lines` starts with the author's line.
fn date(lines: &[u8]) -> Option<u64> {
    let rest = lines.strip_prefix(b"author")?;
    let (_, committer) = rest.split_once_str("\n")?;
    let line = committer.strip_prefix(b"committer")?.split_once_str("\n")?.0;
    let after = line.rfind_byte(b'>').map(|at| &line[at + 1..])?;
    let after = after.trim_start_with(|letter| letter.is_ascii_whitespace());
    let (is_negative, digits) = match after {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let digits = &digits[..digits.iter().take_while(|byte| byte.is_ascii_digit()).count()];
    let number = if digits.is_empty() { 0 } else { digits.to_str().ok()?.parse().unwrap_or(u64::MAX) };
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// Uses a part of an object name as its hash value, since object names are already hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_ne_bytes(*first);
        }
    }

    // Length prefixes and discriminants are the same for all names.
    fn write_usize(&mut self, _: usize) {}

    fn write_isize(&mut self, _: isize) {}
}

impl BuildHasher for NameHasher {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher::default()
    }
}

/// All discovered commits.
#[derive(Debug, Default)]
pub(super) struct Commits {
    numbers: HashMap<ObjectId, u32, NameHasher>,
    pub(super) nodes: Vec<Node>,
    parents: Vec<u32>,
}

impl Commits {
    /// Returns the number of a commit, and assigns the next number to a new commit.
    pub(super) fn number(&mut self, id: ObjectId) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.nodes.push(Node { id, state: State::Unread });
        }
        number
    }

    /// Returns the commit with this number, if it was read.
    pub(super) fn get(&self, number: u32) -> Option<&Commit> {
        match &self.nodes[number as usize].state {
            State::Read(commit) => Some(commit),
            State::Unread | State::Absent => None,
        }
    }

    pub(super) fn id(&self, number: u32) -> ObjectId {
        self.nodes[number as usize].id
    }

    /// Returns the numbers of a commit's parents. Empty if the commit was not read.
    pub(super) fn parents(&self, number: u32) -> &[u32] {
        self.get(number)
            .map_or(&[], |commit| &self.parents[commit.parents.start as usize..commit.parents.end as usize])
    }

    /// Stores a parsed commit, and assigns numbers to its parents.
    pub(super) fn store(&mut self, number: u32, parsed: Parsed) {
        let start = self.parents.len() as u32;
        for parent in parsed.parents {
            let parent = self.number(parent);
            self.parents.push(parent);
        }
        let parents = start..self.parents.len() as u32;
        let commit = Commit { tree: parsed.tree, date: parsed.date, parents };
        self.nodes[number as usize].state = State::Read(commit);
    }

    /// Reads those of the commits that are still unread. Objects that are missing, malformed or not
    /// commits become absent. Once `interrupt` is set, all remaining ones become absent too.
    pub(super) fn read(
        &mut self,
        objects: &Objects,
        readers: &mut [Reader<'_>],
        numbers: &[u32],
        interrupt: &AtomicBool,
    ) {
        let unread: Vec<u32> = numbers
            .iter()
            .copied()
            .filter(|&number| matches!(self.nodes[number as usize].state, State::Unread))
            .collect();
        let ids: Vec<ObjectId> = unread.iter().map(|&number| self.id(number)).collect();
        let hash = objects.hash();
        let read = |reader: &mut Reader<'_>, batch: &&[ObjectId]| {
            let parse = |id: &ObjectId| {
                if interrupt.load(Ordering::Relaxed) {
                    return None;
                }
                match reader.read(id) {
                    Ok((Kind::Commit, data)) => parse(hash, data),
                    _ => None,
                }
            };
            Ok::<_, std::convert::Infallible>(batch.iter().map(parse).collect::<Vec<_>>())
        };
        let batch = if ids.len() < FEW { FEW } else { BATCH.min(ids.len().div_ceil(readers.len())) };
        let batches: Vec<&[ObjectId]> = ids.chunks(batch).collect();
        let used = readers.len().min(batches.len().max(1));
        let Ok(parsed) = parallel::map(&batches, &mut readers[..used], read);
        for (number, parsed) in unread.into_iter().zip(parsed.into_iter().flatten()) {
            match parsed {
                Some(parsed) => self.store(number, parsed),
                None => self.nodes[number as usize].state = State::Absent,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_git_reads_them() {
        let commit = |committer: &str| {
            let text = format!("tree {}\nauthor a <a> 1 +0000\n{committer}\n\nx\n", "1".repeat(40));
            parse(HashKind::Sha1, text.as_bytes()).expect("a commit").date
        };
        assert_eq!(commit("committer a <a> 12 +0000"), 12);
        assert_eq!(commit("committer a <a> 99999999999999999999 +0000"), u64::MAX);
        assert_eq!(commit("committer a <a>"), 0);
        assert_eq!(commit("nobody"), 0);
        assert_eq!(parse(HashKind::Sha1, b"tree 12\n"), None);
    }
}
