//! One entry's bytes, and runs of them.
//!
//! Fixed part: ten `u32` (ctime, mtime, dev, ino, mode, uid, gid, size), the object name, `u16` flags
//! (assume-valid, extended, two bits of stage, twelve of path length, all set if longer), `u16`
//! extended flags if announced. Then in versions 2 and 3 the path and one to eight NULs, so that the
//! entry's length is a multiple of eight; in version 4 a varint saying how many bytes to cut off the
//! end of the previous path, what to append, and one NUL.

use bstr::{BStr, ByteSlice};

use super::{
    Entry, Flags, PathSpan, Stage, Stat,
    bytes::{Reader, write_varint},
    read::Error,
};
use crate::{HashKind, Mode, ObjectId};

const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const LENGTH_MASK: u16 = 0x0fff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// Bytes before the object name.
const FIELDS: usize = 40;

/// How entries of one file are encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    pub(super) hash: HashKind,
    /// Version 4.
    pub(super) compressed: bool,
}

/// The place of an entry: its offset and, in version 4, the path before it. Without one the entry
/// shares nothing, whatever it says.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    pub(super) offset: usize,
    previous: Option<Vec<u8>>,
}

/// A run of entries, read.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) entries: Vec<Entry>,
    pub(super) paths: Vec<u8>,
    /// Where the bytes after it start.
    pub(super) end: usize,
    /// The first breach of order. No error in itself: a split index is not sorted until merged.
    pub(super) disorder: Option<Error>,
}

/// An entry's path on disk.
struct Name<'a> {
    /// How much of the previous path it starts with.
    shared: usize,
    rest: &'a [u8],
    end: usize,
}

impl Codec {
    /// Length of the shortest entry.
    pub(super) fn shortest(self) -> usize {
        let fixed = FIELDS + self.hash.len() + 2;
        if self.compressed { fixed + 2 } else { (fixed + 8) & !7 }
    }

    /// A cursor at the first entry of a file or of a block.
    pub(super) fn start(offset: usize) -> Cursor {
        Cursor { offset, previous: None }
    }

    /// Passes over `count` entries.
    pub(super) fn skip(self, data: &[u8], cursor: &mut Cursor, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let name = self.name(data, cursor.offset, cursor.previous.as_deref())?;
            if self.compressed {
                let previous = cursor.previous.get_or_insert_default();
                previous.truncate(name.shared);
                previous.extend_from_slice(name.rest);
            }
            cursor.offset = name.end;
        }
        Ok(())
    }

    /// Reads `count` entries, with room for `capacity`. `budget` bounds the bytes of paths: a few bytes
    /// of version 4 can ask for a long path again and again.
    pub(super) fn read(
        self,
        data: &[u8],
        from: Cursor,
        count: usize,
        capacity: usize,
        budget: usize,
    ) -> Result<Run, Error> {
        let mut run = Run { entries: Vec::with_capacity(capacity), ..Run::default() };
        let typical = if self.compressed { 64 } else { 48 };
        run.paths.reserve(capacity.saturating_mul(typical).min(budget));
        let Cursor { mut offset, previous } = from;
        let mut span = PathSpan { start: 0, len: 0 };
        for _ in 0..count {
            let before = match run.entries.last() {
                Some(_) => Some(&run.paths[span.start as usize..]),
                None => previous.as_deref(),
            };
            let name = self.name(data, offset, before)?;
            let start = run.paths.len();
            let length = name.shared + name.rest.len();
            if start + length > budget {
                return Err(Error::Truncated { offset });
            }
            if run.entries.is_empty() {
                run.paths.extend(previous.iter().flat_map(|previous| &previous[..name.shared]));
            } else {
                let from = span.start as usize;
                run.paths.extend_from_within(from..from + name.shared);
            }
            run.paths.extend_from_slice(name.rest);
            let entry = self.content(data, offset, PathSpan { start: start as u32, len: length as u32 })?;
            if let Some(last) = run.entries.last()
                && run.disorder.is_none()
            {
                let (one, two) = run.paths[span.start as usize..].split_at(span.len as usize);
                run.disorder = disorder((one.as_bstr(), last.stage), (two.as_bstr(), entry.stage));
            }
            span = entry.path;
            run.entries.push(entry);
            offset = name.end;
        }
        run.end = offset;
        Ok(run)
    }

    fn name<'a>(self, data: &'a [u8], offset: usize, previous: Option<&[u8]>) -> Result<Name<'a>, Error> {
        let short = || Error::Truncated { offset };
        let flags_at = offset + FIELDS + self.hash.len();
        let flags = u16_at(data, flags_at).ok_or_else(short)?;
        let name_at = flags_at + if flags & EXTENDED == 0 { 2 } else { 4 };
        let length = usize::from(flags & LENGTH_MASK);
        let known = length < usize::from(LENGTH_MASK);
        let bytes = data.get(name_at..).ok_or_else(short)?;
        if self.compressed {
            let mut reader = Reader(bytes);
            let strip = reader.varint().ok_or_else(short)?;
            let rest = reader.string().ok_or_else(short)?;
            let shared = match previous {
                Some(previous) => {
                    usize::try_from(strip).ok().and_then(|strip| previous.len().checked_sub(strip))
                }
                None => Some(0),
            };
            match shared {
                Some(shared) if !known || shared + rest.len() == length => {
                    Ok(Name { shared, rest, end: data.len() - reader.0.len() })
                }
                _ => Err(Error::Name { near: previous.unwrap_or_default().into() }),
            }
        } else {
            let length = if known { length } else { bytes.find_byte(0).ok_or_else(short)? };
            let rest = bytes.get(..length).ok_or_else(short)?;
            if known && rest.contains(&0) {
                return Err(Error::Name { near: rest.as_bstr().to_owned() });
            }
            let end = offset + ((name_at - offset + length + 8) & !7);
            if end > data.len() {
                return Err(short());
            }
            Ok(Name { shared: 0, rest, end })
        }
    }

    /// All of an entry but its path. `name` has found its bytes to be there.
    fn content(self, data: &[u8], offset: usize, path: PathSpan) -> Result<Entry, Error> {
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
        let mut flags = Flags::empty();
        flags.set(Flags::ASSUME_VALID, stored & ASSUME_VALID != 0);
        if stored & EXTENDED != 0 {
            let Some(extended) = u16_at(data, flags_at + 2) else {
                return Err(short);
            };
            if extended & !(SKIP_WORKTREE | INTENT_TO_ADD) != 0 {
                return Err(Error::EntryFormat(u32::from(extended) << 16));
            }
            flags.set(Flags::SKIP_WORKTREE, extended & SKIP_WORKTREE != 0);
            flags.set(Flags::INTENT_TO_ADD, extended & INTENT_TO_ADD != 0);
        }
        let stage = match stored >> 12 & 3 {
            0 => Stage::Normal,
            1 => Stage::Base,
            2 => Stage::Ours,
            _ => Stage::Theirs,
        };
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

    /// Appends an entry. `previous` is the path before it, for version 4; `None` at the start of a
    /// run that is to be read without knowing what came before, of which only the length counts.
    pub(super) fn write(self, out: &mut Vec<u8>, entry: &Entry, path: &[u8], previous: Previous<'_>) {
        let start = out.len();
        let Stat { ctime, mtime, dev, ino, uid, gid, size } = entry.stat;
        let mut fields = [0; FIELDS];
        let values = [ctime.0, ctime.1, mtime.0, mtime.1, dev, ino, entry.mode.bits(), uid, gid, size];
        for (field, value) in fields.as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *field = value.to_be_bytes();
        }
        out.extend_from_slice(&fields);
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

/// What [`Codec::write`] may refer to.
#[derive(Clone, Copy)]
pub(super) enum Previous<'a> {
    /// This path.
    Path(&'a [u8]),
    /// A path of this length, which a reader that starts here does not have.
    Unknown { length: usize },
}

/// Whether the entry needs version 3.
pub(super) fn is_extended(entry: &Entry) -> bool {
    entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD)
}

/// What is wrong with the order of two neighbours, if anything, as Git words it.
pub(super) fn disorder(one: (&BStr, Stage), two: (&BStr, Stage)) -> Option<Error> {
    match one.0.cmp(two.0) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Greater => Some(Error::Unordered),
        std::cmp::Ordering::Equal if one.1 == Stage::Normal => {
            Some(Error::MultipleMerged { path: one.0.to_owned() })
        }
        std::cmp::Ordering::Equal if one.1 > two.1 => Some(Error::UnorderedStages { path: one.0.to_owned() }),
        std::cmp::Ordering::Equal => None,
    }
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}
