//! The bytes of one entry, and of runs of entries.
//!
//! Fixed part: ten `u32` (ctime, mtime, dev, ino, mode, uid, gid, size), the object name, `u16`
//! flags (assume-valid, extended, two bits of stage, twelve of path length, all set if longer), and
//! `u16` extended flags if the extended flag is set. Versions 2 and 3 continue with the path and
//! one to eight NULs, so that the entry's length is a multiple of eight. Version 4 continues with a
//! varint, the number of bytes to cut off the end of the previous path, then the bytes to append,
//! and one NUL.

use bstr::{BStr, BString, ByteSlice};

use super::{
    Entry, Flags, Overview, PathSpan, Stage, Stat,
    bytes::{Reader, prefetch_ahead, write_varint},
    read::Error,
};
use crate::{HashKind, Mode, ObjectId};

const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
const LENGTH_MASK: u16 = 0x0fff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// The number of entries that a thread reads in about 0.1 ms.
const TICK_INTERVAL: usize = 1024;
/// Offsets of the device and of the inode number that follows it.
const DEVICE: usize = 16;
const INODE: usize = 20;
/// The offset of the mode.
const MODE: usize = 24;
/// The offset of the object name.
const FIELDS: usize = 40;

/// The encoding of the entries of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    pub(super) hash: HashKind,
    /// True for version 4.
    pub(super) compressed: bool,
}

/// The fields of an entry that a scan needs.
pub(super) struct Head {
    /// Modification time in seconds.
    pub(super) modified: u32,
    pub(super) mode: Mode,
    pub(super) flags: Flags,
    pub(super) stage: Stage,
    pub(super) is_extended: bool,
    /// The length of the path, unless it is very long.
    pub(super) known_length: Option<usize>,
}

/// The paths of all entries, one after the other, each followed by a NUL.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) bytes: Vec<u8>,
    /// The first pair that is out of order. It is not an error yet: a split index is unsorted until
    /// it is merged.
    pub(super) disorder: Option<Error>,
}

/// The stored path of an entry.
struct Name<'a> {
    /// The length of the prefix shared with the previous path.
    shared: usize,
    rest: &'a [u8],
    stage: Stage,
    /// The offset of the next entry.
    end: usize,
}

impl Name<'_> {
    fn length(&self) -> usize {
        self.shared + self.rest.len()
    }
}

impl Codec {
    /// Returns the length of the shortest entry.
    pub(super) fn shortest(self) -> usize {
        let fixed = FIELDS + self.hash.len() + 2;
        if self.compressed { fixed + 2 } else { (fixed + 8) & !7 }
    }

    /// Reads `count` entries without their paths into `entries`. Returns them with their summary
    /// and their end. Refuses paths longer than `budget` bytes in all, because a few bytes of
    /// version 4 can repeat a long path again and again.
    pub(super) fn read_entries(
        self,
        data: &[u8],
        mut offset: usize,
        count: usize,
        budget: usize,
        mut entries: Vec<Entry>,
        tick: &dyn Fn(),
    ) -> Result<(Vec<Entry>, Overview, usize), Error> {
        let mut overview = Overview::default();
        let mut previous = None;
        let mut start = 0;
        for number in 0..count {
            if number % TICK_INTERVAL == 0 {
                tick();
            }
            prefetch_ahead(data, offset);
            let name = self.name(data, offset, previous)?;
            let length = name.length();
            if start + length > budget {
                return Err(Error::Truncated { offset });
            }
            let span = PathSpan { start: start as u32, len: length as u32 };
            let entry = self.content(data, offset, name.stage, span)?;
            overview.add(entry.flags, entry.stage, entry.mode, entry.stat.mtime.0);
            entries.push(entry);
            start += length + 1;
            previous = Some(length);
            offset = name.end;
        }
        Ok((entries, overview, offset))
    }

    /// Reads the entry at `offset` and its path. Returns it with the offset of the next one. `path`
    /// holds the previous path on entry, and its own path afterwards.
    pub(super) fn next(
        self,
        data: &[u8],
        offset: usize,
        path: &mut Option<Vec<u8>>,
    ) -> Result<(Entry, usize), Error> {
        let name = self.name(data, offset, path.as_ref().map(Vec::len))?;
        let path = path.get_or_insert_default();
        path.truncate(name.shared);
        path.extend_from_slice(name.rest);
        let entry = self.content(data, offset, name.stage, PathSpan { start: 0, len: 0 })?;
        Ok((entry, name.end))
    }

    /// Estimates the bytes that the paths of `count` entries in `length` bytes of file need.
    pub(super) fn room_for_paths(self, length: usize, count: usize, budget: usize) -> usize {
        if self.compressed {
            count.saturating_mul(64).min(budget)
        } else {
            length - (count * self.shortest()).min(length) + 8 * count
        }
    }

    /// Reads the paths into `bytes`, at the places that [`Codec::read_entries`] assigns. Also
    /// checks the order of the entries and returns their end.
    pub(super) fn read_paths(
        self,
        data: &[u8],
        mut offset: usize,
        count: usize,
        budget: usize,
        mut bytes: Vec<u8>,
    ) -> Result<(Paths, usize), Error> {
        let mut found = None;
        let mut previous: Option<(usize, Stage)> = None;
        for _ in 0..count {
            prefetch_ahead(data, offset);
            let before = previous.map_or(&b""[..], |(start, _)| &bytes[start..bytes.len() - 1]);
            let name =
                self.name(data, offset, previous.map(|_| before.len())).map_err(|error| match error {
                    Error::Name { .. } => Error::Name { near: before.into() },
                    error => error,
                })?;
            if !self.compressed && name.rest.find_byte(0).is_some() {
                return Err(Error::Name { near: before.into() });
            }
            let start = bytes.len();
            if start + name.length() > budget {
                return Err(Error::Truncated { offset });
            }
            let from = previous.map_or(0, |(start, _)| start);
            bytes.extend_from_within(from..from + name.shared);
            bytes.extend_from_slice(name.rest);
            if let (Some((before, stage)), None) = (previous, &found) {
                let (one, two) = bytes[before..].split_at(start - before);
                let one = EntryKey { path: one[..one.len() - 1].as_bstr(), stage };
                found = disorder(one, EntryKey { path: two.as_bstr(), stage: name.stage });
            }
            bytes.push(0);
            previous = Some((start, name.stage));
            offset = name.end;
        }
        Ok((Paths { bytes, disorder: found }, offset))
    }

    /// Reads the path of the entry at `offset`. `previous` is the length of the previous path. The
    /// first entry shares no prefix, whatever its prefix length states. [`Codec::read_paths`]
    /// checks for a NUL in the path.
    fn name(self, data: &[u8], offset: usize, previous: Option<usize>) -> Result<Name<'_>, Error> {
        let short = || Error::Truncated { offset };
        let malformed = || Error::Name { near: BString::default() };
        let flags_at = offset + FIELDS + self.hash.len();
        let flags = u16_at(data, flags_at).ok_or_else(short)?;
        let name_at = flags_at + if flags & EXTENDED == 0 { 2 } else { 4 };
        let length = usize::from(flags & LENGTH_MASK);
        let known = length < usize::from(LENGTH_MASK);
        let stage = stage(flags);
        let bytes = data.get(name_at..).ok_or_else(short)?;
        if self.compressed {
            let mut reader = Reader(bytes);
            let strip = reader.varint().ok_or_else(short)?;
            let rest = reader.string().ok_or_else(short)?;
            let shared = match previous {
                Some(previous) => usize::try_from(strip).ok().and_then(|strip| previous.checked_sub(strip)),
                None => Some(0),
            };
            let shared = shared.ok_or_else(malformed)?;
            if known && shared + rest.len() != length {
                return Err(malformed());
            }
            Ok(Name { shared, rest, stage, end: data.len() - reader.0.len() })
        } else {
            let length = if known { length } else { bytes.find_byte(0).ok_or_else(short)? };
            let rest = bytes.get(..length).ok_or_else(short)?;
            let end = offset + ((name_at - offset + length + 8) & !7);
            if end > data.len() {
                return Err(short());
            }
            Ok(Name { shared: 0, rest, stage, end })
        }
    }

    /// Reads an entry without its path. `name` has checked that its bytes are present.
    fn content(self, data: &[u8], offset: usize, stage: Stage, path: PathSpan) -> Result<Entry, Error> {
        let short = Error::Truncated { offset };
        let Some(fields) = data.get(offset..).and_then(|data| data.first_chunk::<FIELDS>()) else {
            return Err(short);
        };
        let (fields, _) = fields.as_chunks::<4>();
        let field = |at: usize| u32::from_be_bytes(fields[at]);
        let oid_at = offset + FIELDS;
        let oid =
            data.get(oid_at..oid_at + self.hash.len()).and_then(|raw| ObjectId::from_bytes(self.hash, raw));
        let flags_at = oid_at + self.hash.len();
        let (Some(oid), Some(stored)) = (oid, u16_at(data, flags_at)) else {
            return Err(short);
        };
        let extended = match stored & EXTENDED {
            0 => Some(0),
            _ => u16_at(data, flags_at + 2),
        };
        let extended = extended.ok_or(short)?;
        let flags = flags(stored, extended).ok_or(Error::EntryFormat(u32::from(extended) << 16))?;
        let stat = Stat {
            ctime: (field(0), field(1)),
            mtime: (field(2), field(3)),
            dev: field(4),
            ino: field(5),
            uid: field(7),
            gid: field(8),
            size: field(9),
        };
        Ok(Entry { stat, oid, mode: Mode::from_raw(field(6)), flags, stage, path })
    }

    /// Reads an entry without its path, whose location is known to be valid. The result is
    /// arbitrary if `data` has changed since.
    #[inline]
    pub(super) fn entry(self, data: &[u8], offset: usize, path: PathSpan) -> Entry {
        let flags = u16_at(data, offset + FIELDS + self.hash.len()).unwrap_or_default();
        self.content(data, offset, stage(flags), path).unwrap_or_else(|_| Entry {
            stat: Stat::default(),
            oid: ObjectId::null(self.hash),
            mode: Mode::FILE,
            flags: Flags::empty(),
            stage: stage(flags),
            path,
        })
    }

    /// Returns the stage of an entry whose location is known to be valid.
    #[inline]
    pub(super) fn stage(self, data: &[u8], offset: usize) -> Stage {
        stage(u16_at(data, offset + FIELDS + self.hash.len()).unwrap_or_default())
    }

    /// Returns the mode of an entry whose location is known to be valid.
    pub(super) fn mode(self, data: &[u8], offset: usize) -> Mode {
        let bytes = data.get(offset + MODE..).and_then(|data| data.first_chunk());
        Mode::from_raw(bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes)))
    }

    /// Implements [`super::Index::has_mode_and_stat`] for an entry whose location is known to be
    /// valid.
    #[inline]
    pub(super) fn has_mode_and_stat(self, data: &[u8], offset: usize, mode: Mode, stat: &Stat) -> bool {
        let Some(fixed) = data.get(offset..offset + self.before_path(false)) else { return false };
        let (stored, fields) = (&fixed[..FIELDS], fields(stat, mode));
        stored[INODE..] == fields[INODE..]
            && stored[..DEVICE] == fields[..DEVICE]
            && u16_at(fixed, FIELDS + self.hash.len()).is_some_and(|flags| flags & (EXTENDED | STAGE) == 0)
    }

    /// Returns the offset of the path in an entry of version 2 or 3.
    #[inline]
    pub(super) fn before_path(self, is_extended: bool) -> usize {
        FIELDS + self.hash.len() + if is_extended { 4 } else { 2 }
    }

    /// Reads the fields that a scan needs, in version 2 or 3. Returns `None` if the bytes cannot be
    /// an entry.
    #[inline]
    pub(super) fn head(self, data: &[u8], offset: usize) -> Option<Head> {
        const MODIFIED: usize = 8;
        let fixed = data.get(offset..offset + self.before_path(false))?;
        let u32_at = |at: usize| Some(u32::from_be_bytes(*fixed[at..].first_chunk()?));
        let stored = u16_at(fixed, FIELDS + self.hash.len())?;
        let is_extended = stored & EXTENDED != 0;
        let extended = if is_extended { u16_at(data, offset + self.before_path(false))? } else { 0 };
        let length = usize::from(stored & LENGTH_MASK);
        Some(Head {
            modified: u32_at(MODIFIED)?,
            mode: Mode::from_raw(u32_at(MODE)?),
            flags: flags(stored, extended)?,
            stage: stage(stored),
            is_extended,
            known_length: (length < usize::from(LENGTH_MASK)).then_some(length),
        })
    }

    /// Appends an entry. For version 4, `previous` is the path before it. At the start of a block,
    /// which a reader decodes without the entries before it, only its length is used.
    pub(super) fn write(self, out: &mut Vec<u8>, entry: &Entry, path: &[u8], previous: Previous<'_>) {
        let start = out.len();
        out.extend_from_slice(&fields(&entry.stat, entry.mode));
        out.extend_from_slice(entry.oid.as_bytes());
        let mut flags = (path.len().min(usize::from(LENGTH_MASK)) as u16) | (entry.stage as u16) << 12;
        if entry.flags.contains(Flags::ASSUME_VALID) {
            flags |= ASSUME_VALID;
        }
        if is_extended(entry) {
            let mut extended = 0;
            if entry.flags.contains(Flags::SKIP_WORKTREE) {
                extended |= SKIP_WORKTREE;
            }
            if entry.flags.contains(Flags::INTENT_TO_ADD) {
                extended |= INTENT_TO_ADD;
            }
            out.extend_from_slice(&(flags | EXTENDED).to_be_bytes());
            out.extend_from_slice(&extended.to_be_bytes());
        } else {
            out.extend_from_slice(&flags.to_be_bytes());
        }
        if self.compressed {
            let (length, shared) = match previous {
                Previous::Path(previous) => {
                    let shared = path.iter().zip(previous).take_while(|(one, two)| one == two).count();
                    (previous.len(), shared)
                }
                Previous::Unknown { length } => (length, 0),
            };
            write_varint(out, (length - shared) as u64);
            out.extend_from_slice(&path[shared..]);
            out.push(0);
        } else {
            out.extend_from_slice(path);
            let length = out.len() - start;
            out.extend_from_slice(&[0; 8][..((length + 8) & !7) - length]);
        }
    }
}

/// Encodes the fixed part before the object name.
#[inline]
fn fields(stat: &Stat, mode: Mode) -> [u8; FIELDS] {
    let &Stat { ctime, mtime, dev, ino, uid, gid, size } = stat;
    let mut fields = [0; FIELDS];
    let values = [ctime.0, ctime.1, mtime.0, mtime.1, dev, ino, mode.bits(), uid, gid, size];
    for (field, value) in fields.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *field = value.to_be_bytes();
    }
    fields
}

/// The part of the previous path that [`Codec::write`] may refer to.
#[derive(Clone, Copy)]
pub(super) enum Previous<'a> {
    /// The whole path.
    Path(&'a [u8]),
    /// Only its length, because a reader that starts here does not have the path.
    Unknown { length: usize },
}

/// Returns true if the entry needs version 3.
pub(super) fn is_extended(entry: &Entry) -> bool {
    entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD)
}

/// The sort key of an entry.
#[derive(Clone, Copy)]
pub(super) struct EntryKey<'a> {
    pub(super) path: &'a BStr,
    pub(super) stage: Stage,
}

/// Returns Git's error if two neighbours are out of order.
pub(super) fn disorder(one: EntryKey<'_>, two: EntryKey<'_>) -> Option<Error> {
    match one.path.cmp(two.path) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Greater => Some(Error::Unordered),
        std::cmp::Ordering::Equal if one.stage == Stage::Normal => {
            Some(Error::MultipleMerged { path: one.path.to_owned() })
        }
        std::cmp::Ordering::Equal if one.stage > two.stage => {
            Some(Error::UnorderedStages { path: one.path.to_owned() })
        }
        std::cmp::Ordering::Equal => None,
    }
}

/// Returns `None` if an unknown flag is set.
fn flags(stored: u16, extended: u16) -> Option<Flags> {
    let mut flags = Flags::empty();
    flags.set(Flags::ASSUME_VALID, stored & ASSUME_VALID != 0);
    flags.set(Flags::SKIP_WORKTREE, extended & SKIP_WORKTREE != 0);
    flags.set(Flags::INTENT_TO_ADD, extended & INTENT_TO_ADD != 0);
    (extended & !(SKIP_WORKTREE | INTENT_TO_ADD) == 0).then_some(flags)
}

fn stage(flags: u16) -> Stage {
    match flags >> 12 & 3 {
        0 => Stage::Normal,
        1 => Stage::Base,
        2 => Stage::Ours,
        _ => Stage::Theirs,
    }
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}
