//! The list of an upper layer, and its serialization.
//!
//! The serialized list is a snapshot. A token contains its hash, so a torn or changed file is
//! detected.

use bstr::{BStr, BString, ByteSlice as _};
use format::{HashKind, hash::Hasher};

/// The content of an upper layer, sorted by path. The root and its `.git` are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The frozen layers below the upper layer, from top to bottom.
    pub(super) layers: Vec<BString>,
    /// The mount points inside the workspace whose files a status may report, sorted. They belong
    /// to the view of one process: another mount namespace has others.
    pub(super) mounts: Vec<BString>,
    pub(super) lines: Vec<Line>,
}

/// One path of an upper layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The path from the root of the worktree.
    pub path: BString,
    /// The entry at the path.
    pub kind: Kind,
    /// The inode number; 0 for a whiteout.
    pub ino: u64,
    /// The type and permission bits; 0 for a whiteout.
    pub mode: u32,
    /// The size in bytes; 0 for a directory or whiteout.
    pub size: u64,
    /// The change time (seconds and nanoseconds); 0 for a directory or whiteout.
    pub ctime: (i64, u32),
    /// The effect of a later change on the change time.
    pub time: Time,
}

/// The kind of an entry of an upper layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whiteout, which hides an entry of the base.
    Whiteout,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device. It is never opened.
    Special,
    /// A directory whose entries are listed.
    Directory(Below),
    /// An ignored directory without tracked paths. Its entries are not listed.
    Ignored,
    /// The `.git` of a nested repository. Its entries are not listed.
    Repository,
}

/// The part of a directory that comes from lower layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Below {
    /// The entries of the directory with the same path, if it exists.
    Same,
    /// Nothing. All entries of the directory are in the list.
    Nothing,
    /// The entries of another directory (a renamed directory of the base).
    Redirected(BString),
    /// Unknown, because this process may not read the attributes of the overlay.
    Unseen,
}

/// The effect of a change after the listing on the recorded change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// A change changes the time.
    Settled,
    /// A change may keep the time, because the clock has not advanced since the last change.
    Unsettled,
}

const MAGIC: &[u8] = b"sapwood upper 2\n";

impl List {
    /// Returns all paths, sorted.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the line of a path.
    pub(in crate::workspace) fn get(&self, path: &BStr) -> Option<&Line> {
        let at = self.lines.binary_search_by(|line| line.path.as_bstr().cmp(path)).ok()?;
        Some(&self.lines[at])
    }

    /// Returns true if nothing was changed between the two listings.
    pub(in crate::workspace) fn is_same_state(&self, other: &List) -> bool {
        // The clock goes on between them.
        let settled = |line: &Line| Line { time: Time::Settled, ..line.clone() };
        self.layers == other.layers && self.lines.iter().map(settled).eq(other.lines.iter().map(settled))
    }

    /// Returns the number of changed paths. Directories count only if they were renamed.
    pub fn changes(&self) -> usize {
        let is_way =
            |line: &&Line| matches!(line.kind, Kind::Directory(Below::Same | Below::Nothing | Below::Unseen));
        self.lines.len() - self.lines.iter().filter(is_way).count()
    }

    /// Serializes the list: for each path the length of the prefix that it shares with the previous
    /// path, the rest, and the fields as variable-length integers.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for paths in [&self.layers, &self.mounts] {
            put(&mut out, paths.len() as u64);
            paths.iter().for_each(|path| put_bytes(&mut out, path));
        }
        let mut before: &[u8] = b"";
        for line in &self.lines {
            let shared = line.path.iter().zip(before).take_while(|(one, two)| one == two).count();
            put(&mut out, shared as u64);
            put_bytes(&mut out, &line.path[shared..]);
            let (code, target) = line.kind.code();
            out.push(code | if line.time == Time::Unsettled { UNSETTLED } else { 0 });
            if let Some(target) = target {
                put_bytes(&mut out, target);
            }
            // Zigzag encoding: the sign is in the lowest bit.
            let seconds = ((line.ctime.0 << 1) ^ (line.ctime.0 >> 63)).cast_unsigned();
            for number in [line.ino, u64::from(line.mode), line.size, seconds, u64::from(line.ctime.1)] {
                put(&mut out, number);
            }
            before = &line.path;
        }
        out
    }

    /// Parses a serialized list. Returns `None` if the bytes are not a valid list.
    pub(super) fn parse(bytes: &[u8]) -> Option<List> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let layers = take_paths(&mut rest)?;
        let mounts = take_paths(&mut rest)?;
        let mut lines: Vec<Line> = Vec::new();
        while !rest.is_empty() {
            let shared = usize::try_from(take(&mut rest)?).ok()?;
            let before = lines.last().map_or(&b""[..], |line| &line.path);
            let mut path = BString::from(before.get(..shared)?);
            path.extend_from_slice(take_bytes(&mut rest)?);
            let (&code, after) = rest.split_first()?;
            rest = after;
            let kind = Kind::parse(code & !UNSETTLED, &mut rest)?;
            let time = if code & UNSETTLED == 0 { Time::Settled } else { Time::Unsettled };
            let (ino, mode, size) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
            let seconds = take(&mut rest)?;
            let seconds = (seconds >> 1).cast_signed() ^ -((seconds & 1).cast_signed());
            let ctime = (seconds, u32::try_from(take(&mut rest)?).ok()?);
            lines.push(Line { path, kind, ino, mode: u32::try_from(mode).ok()?, size, ctime, time });
        }
        Some(List { layers, mounts, lines })
    }
}

/// Returns the name of a snapshot with these bytes.
pub(super) fn name_of(bytes: &[u8]) -> String {
    let mut hasher = Hasher::checksum(HashKind::Sha256);
    hasher.update(bytes);
    hasher.finish().expect("a checksum looks for no collisions").to_string()
}

const UNSETTLED: u8 = 0x80;

impl Kind {
    fn code(&self) -> (u8, Option<&BStr>) {
        match self {
            Kind::Whiteout => (0, None),
            Kind::File => (1, None),
            Kind::Symlink => (2, None),
            Kind::Special => (3, None),
            Kind::Directory(Below::Same) => (4, None),
            Kind::Directory(Below::Nothing) => (5, None),
            Kind::Directory(Below::Unseen) => (6, None),
            Kind::Directory(Below::Redirected(target)) => (7, Some(target.as_ref())),
            Kind::Ignored => (8, None),
            Kind::Repository => (9, None),
        }
    }

    fn parse(code: u8, rest: &mut &[u8]) -> Option<Kind> {
        Some(match code {
            0 => Kind::Whiteout,
            1 => Kind::File,
            2 => Kind::Symlink,
            3 => Kind::Special,
            4 => Kind::Directory(Below::Same),
            5 => Kind::Directory(Below::Nothing),
            6 => Kind::Directory(Below::Unseen),
            7 => Kind::Directory(Below::Redirected(take_bytes(rest)?.into())),
            8 => Kind::Ignored,
            9 => Kind::Repository,
            _ => return None,
        })
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 64)?;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn take_bytes<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn take_paths(rest: &mut &[u8]) -> Option<Vec<BString>> {
    let mut paths = Vec::new();
    for _ in 0..take(rest)? {
        paths.push(take_bytes(rest)?.into());
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, kind: Kind) -> Line {
        Line {
            path: path.into(),
            kind,
            ino: u64::MAX,
            mode: 0o100_644,
            size: 300,
            ctime: (-5, 999_999_999),
            time: Time::Unsettled,
        }
    }

    #[test]
    fn reads_back_its_bytes() {
        let redirected = Kind::Directory(Below::Redirected("/a b".into()));
        let list = List {
            layers: vec!["/frozen".into(), "".into()],
            mounts: vec!["d/e".into()],
            lines: vec![
                line("a", Kind::Directory(Below::Same)),
                line("a/b", redirected),
                Line { time: Time::Settled, ctime: (i64::MAX, 0), ..line("a/bc", Kind::Whiteout) },
                line("z", Kind::Ignored),
            ],
        };
        let bytes = list.to_bytes();
        assert_eq!(List::parse(&bytes), Some(list));
        assert_eq!(List::parse(&List::default().to_bytes()), Some(List::default()));
        for end in 0..bytes.len() {
            // Truncated bytes may end in the middle of a line, but must not yield additional lines.
            if let Some(part) = List::parse(&bytes[..end]) {
                assert!(part.lines.len() < 4);
            }
        }
        assert_eq!(List::parse(b"sapwood upper 2\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
