//! Finds the entries of a file of version 2 or 3 without decoding them, for tables that keep
//! entries as stored.
//!
//! Any unusual data ends a scan. [`super::read`] then reports the error.
//!
//! Two threads can share a scan. The file does not contain the offset of its middle: each entry is
//! as long as its path, so finding one requires a pass over all previous entries. The second thread
//! begins where the bytes look like an entry. Its result is used only if the first thread arrives
//! at exactly this offset.

use std::ops::Range;

use bstr::ByteSlice as _;

use super::{
    HEADER, Mode, Overview, PathSpan, Stage,
    bytes::prefetch_ahead,
    entry::{Codec, Head},
};

/// The number of entries that a thread scans in about 0.1 ms.
const TICK_INTERVAL: usize = 4096;
/// The number of consecutive valid entries after which a guessed start is accepted.
const ENTRIES_TO_TRUST: usize = 3;
/// The maximum distance in bytes to search for an entry. Nearly all paths are shorter.
const MAX_SEARCH: usize = 8192;

/// The location of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPlace {
    /// The offset of its path.
    start: u32,
    /// Packed bits: the length of the path and the length of its directory part, trailing slash
    /// included (twelve bits each, as in an entry); a bit for extended flags; and a bit that is set
    /// if the previous entry is known to be in the same directory.
    rest: u32,
}

const LENGTH_BITS: u32 = 12;
const LENGTH: u32 = (1 << LENGTH_BITS) - 1;
const EXTENDED: u32 = 1 << (2 * LENGTH_BITS);
const SIBLING: u32 = 1 << (2 * LENGTH_BITS + 1);

impl EntryPlace {
    fn new(start: usize, length: usize, directory: usize, is_extended: bool) -> EntryPlace {
        let extended = if is_extended { EXTENDED } else { 0 };
        EntryPlace { start: start as u32, rest: length as u32 | (directory as u32) << LENGTH_BITS | extended }
    }

    /// Marks the previous entry as one in the same directory.
    pub(super) fn with_sibling(self) -> EntryPlace {
        EntryPlace { rest: self.rest | SIBLING, ..self }
    }

    /// Clears that mark.
    pub(super) fn without_sibling(self) -> EntryPlace {
        EntryPlace { rest: self.rest & !SIBLING, ..self }
    }

    /// Returns true if both places are one.
    #[inline]
    pub(super) fn is_at(self, other: EntryPlace) -> bool {
        self.start == other.start
    }

    /// Returns true if the previous entry is known to be in the same directory.
    #[inline]
    pub(super) fn follows_sibling(self) -> bool {
        self.rest & SIBLING != 0
    }

    /// Creates the location of a new entry at `start`. Returns `None` if the path is too long.
    pub(super) fn of(codec: Codec, start: usize, path: &[u8], is_extended: bool) -> Option<EntryPlace> {
        let start = start + codec.before_path(is_extended);
        let is_possible = path.len() < LENGTH as usize && u32::try_from(start + path.len()).is_ok();
        let directory = path.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        is_possible.then(|| EntryPlace::new(start, path.len(), directory, is_extended))
    }

    #[inline]
    pub(super) fn path(self) -> PathSpan {
        PathSpan { start: self.start, len: self.rest & LENGTH }
    }

    /// Returns the length of its directory part, trailing slash included.
    #[inline]
    pub(super) fn directory(self) -> usize {
        (self.rest >> LENGTH_BITS & LENGTH) as usize
    }

    /// Returns the offset of the entry.
    #[inline]
    pub(super) fn entry(self, codec: Codec) -> usize {
        self.start as usize - self.before_path(codec)
    }

    /// Returns the distance from the entry to its path.
    #[inline]
    fn before_path(self, codec: Codec) -> usize {
        codec.before_path(self.rest & EXTENDED != 0)
    }

    /// Returns the offset of the end of the path.
    #[inline]
    pub(super) fn end_of_path(self) -> usize {
        self.start as usize + (self.rest & LENGTH) as usize
    }

    /// Returns true if an entry at or after the offset `from` can have this place.
    #[inline]
    pub(super) fn is_possible(self, codec: Codec, from: usize) -> bool {
        let is_usual = self.directory() <= (self.rest & LENGTH) as usize;
        is_usual && self.start as usize >= from + self.before_path(codec)
    }

    /// Returns the bytes that stand for this place in a file.
    pub(super) fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.start) | u64::from(self.rest) << u32::BITS).to_le_bytes()
    }

    #[inline]
    pub(super) fn from_bytes(bytes: [u8; 8]) -> EntryPlace {
        let both = u64::from_le_bytes(bytes);
        EntryPlace { start: both as u32, rest: (both >> u32::BITS) as u32 }
    }
}

/// The result of a scan: consecutive entries.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) places: Vec<EntryPlace>,
    pub(super) overview: Overview,
    pub(super) end: usize,
    start: usize,
}

impl Scan {
    /// Returns a scan that ended at the offset `end`, with places that are known from elsewhere.
    pub(super) fn ending_at(end: usize, places: Vec<EntryPlace>, overview: Overview) -> Scan {
        Scan { places, overview, end, start: HEADER }
    }

    /// Scans at most `count` entries from the start of `range` on, up to its end or to the first
    /// bytes that are not a valid entry.
    pub(super) fn of(codec: Codec, data: &[u8], range: Range<usize>, count: usize, tick: &dyn Fn()) -> Scan {
        let (places, overview) = (Vec::with_capacity(count), Overview::default());
        let mut scan = Scan { places, overview, end: range.start, start: range.start };
        let mut before = Previous::nothing();
        while scan.end < range.end && scan.places.len() < count {
            if scan.places.len().is_multiple_of(TICK_INTERVAL) {
                tick();
            }
            prefetch_ahead(data, scan.end);
            let Some(found) = Found::at(codec, data, scan.end) else { break };
            let Some((directory, follows_sibling)) = found.follow(&before) else { break };
            let Head { flags, stage, mode, modified, is_extended, .. } = found.head;
            let place = EntryPlace::new(found.start, found.name.len(), directory, is_extended);
            let follows_sibling = follows_sibling && !scan.places.is_empty();
            scan.places.push(if follows_sibling { place.with_sibling() } else { place });
            scan.overview.add(flags, stage, mode, modified);
            scan.end = found.end;
            before = Previous { name: found.name, stage, directory };
        }
        scan
    }

    /// Joins two scans into one of exactly `count` entries. `next` has the rest of them. It may
    /// contain further entries that were read from extensions; they are dropped.
    pub(super) fn join(mut self, codec: Codec, data: &[u8], mut next: Scan, count: usize) -> Option<Scan> {
        let rest = count.checked_sub(self.places.len())?;
        if self.end != next.start || rest > next.places.len() {
            return None;
        }
        let (last, first) = (*self.places.last()?, *next.places.first()?);
        let found = |place: EntryPlace| Found::at(codec, data, place.entry(codec));
        let Found { name, head: Head { stage, .. }, .. } = found(last)?;
        found(first)?.follow(&Previous { name, stage, directory: last.directory() })?;
        self.end = next.places.get(rest).map_or(next.end, |place| place.entry(codec));
        next.places.truncate(rest);
        self.places.append(&mut next.places);
        self.overview = self.overview.join(next.overview);
        Some(self)
    }
}

/// Returns the first offset near `from` where the bytes look like an entry.
pub(super) fn guess_entry_start(codec: Codec, data: &[u8], from: usize) -> Option<usize> {
    // The length of an entry is a multiple of eight.
    let from = HEADER + from.saturating_sub(HEADER).next_multiple_of(8);
    (from..from + MAX_SEARCH).step_by(8).find(|&at| {
        Scan::of(codec, data, at..data.len(), ENTRIES_TO_TRUST, &|| ()).places.len() == ENTRIES_TO_TRUST
    })
}

/// A scanned entry.
struct Found<'a> {
    head: Head,
    name: &'a [u8],
    /// The offset of the name.
    start: usize,
    end: usize,
}

/// The previous entry.
struct Previous<'a> {
    name: &'a [u8],
    stage: Stage,
    /// The length of its directory part.
    directory: usize,
}

impl Previous<'_> {
    fn nothing() -> Self {
        Previous { name: b"", stage: Stage::Normal, directory: 0 }
    }
}

impl Found<'_> {
    #[inline]
    fn at(codec: Codec, data: &[u8], offset: usize) -> Option<Found<'_>> {
        let head = codec.head(data, offset)?;
        let is_usual = matches!(head.mode, Mode::FILE | Mode::EXECUTABLE | Mode::SYMLINK | Mode::GITLINK);
        let length = head.known_length.filter(|&length| length > 0 && is_usual)?;
        let start = offset + codec.before_path(head.is_extended);
        let name = data.get(start..start + length)?;
        // At least one NUL ends an entry.
        let end = offset + ((start - offset + length + 8) & !7);
        if end > data.len() || data[end - 1] != 0 {
            return None;
        }
        Some(Found { head, name, start, end })
    }

    /// Returns the length of the directory part, and true if `before` is in the same directory.
    /// Returns `None` if the entry may not follow `before`, or its name contains a NUL. The name of
    /// `before` contains none.
    #[inline]
    fn follow(&self, before: &Previous<'_>) -> Option<(usize, bool)> {
        let name = self.name;
        let shared = shared(before.name, name);
        let is_in_order = match (before.name.get(shared), name.get(shared)) {
            (None, None) => before.stage != Stage::Normal && before.stage <= self.head.stage,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(one), Some(two)) => one < two,
        };
        let (mut has_nul, mut slash) = (false, None);
        for (at, &byte) in name[shared..].iter().enumerate() {
            has_nul |= byte == 0;
            slash = if byte == b'/' { Some(shared + at) } else { slash };
        }
        if has_nul || !is_in_order {
            return None;
        }
        Some(match slash {
            Some(slash) => (slash + 1, false),
            None if before.directory <= shared => (before.directory, true),
            None => {
                (name[..shared].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1), false)
            }
        })
    }
}

/// Returns the number of leading bytes that both share.
#[inline]
fn shared(one: &[u8], two: &[u8]) -> usize {
    let (ones, _) = one.as_chunks::<8>();
    let (twos, _) = two.as_chunks::<8>();
    for (at, (one, two)) in ones.iter().zip(twos).enumerate() {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*two);
        if differ != 0 {
            return 8 * at + differ.trailing_zeros() as usize / 8;
        }
    }
    let from = 8 * ones.len().min(twos.len());
    from + one[from..].iter().zip(&two[from..]).take_while(|(one, two)| one == two).count()
}
