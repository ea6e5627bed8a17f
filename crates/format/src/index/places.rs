//! The places of an index's entries as a file beside the index, so that a reader need not pass over
//! the entries to find them.
//!
//! The file belongs to a shared index, which never changes, and names it. It has a header and eight
//! bytes for each entry. Numbers are in little-endian order. The header: the magic number with the
//! version of the layout (8 bytes); the trailer of the shared index, padded to 32 bytes; the length
//! of the shared index, the number of its entries, and the offset of their end (8 bytes each); a
//! summary of the entries: the union of their flags, two bits for unusual entries and submodules,
//! and the latest modification time (4 bytes each).

use super::{
    Flags, HEADER as FIRST_ENTRY, Overview, Version,
    entry::Codec,
    read::{self, PrepareMemory, with_room},
    scan::{EntryPlace, Scan},
};
use crate::{HashKind, ObjectId};

const MAGIC: [u8; 8] = *b"SWPLACE\x01";
const HEADER: usize = 8 + 32 + 3 * 8 + 3 * 4;
const AT_NAME: usize = 8;
const AT_LENGTH: usize = AT_NAME + 32;
const AT_COUNT: usize = AT_LENGTH + 8;
const AT_END: usize = AT_COUNT + 8;
const AT_FLAGS: usize = AT_END + 8;
const AT_KINDS: usize = AT_FLAGS + 4;
const AT_NEWEST: usize = AT_KINDS + 4;

const UNUSUAL: u32 = 1;
const GITLINKS: u32 = 2;

/// Returns the header for the shared index of `length` bytes.
fn header(length: usize, name: ObjectId, count: usize, end: usize, overview: Overview) -> [u8; HEADER] {
    let Overview { flags, unusual, gitlinks, newest } = overview;
    let kinds = if unusual { UNUSUAL } else { 0 } | if gitlinks { GITLINKS } else { 0 };
    let mut header = [0; HEADER];
    header[..AT_NAME].copy_from_slice(&MAGIC);
    header[AT_NAME..][..name.as_bytes().len()].copy_from_slice(name.as_bytes());
    for (at, number) in [(AT_LENGTH, length), (AT_COUNT, count), (AT_END, end)] {
        header[at..][..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    for (at, number) in [(AT_FLAGS, u32::from(flags.bits())), (AT_KINDS, kinds), (AT_NEWEST, newest)] {
        header[at..][..4].copy_from_slice(&number.to_le_bytes());
    }
    header
}

/// Returns the content of the file of places for the index file `shared`. Returns `None` if readers
/// decode the entries of this file.
pub fn list(shared: &[u8], hash: HashKind) -> Option<Vec<u8>> {
    let read::Header { content, version, count, checksum } = read::Header::read(shared, hash).ok()?;
    if version == Version::V4 || u32::try_from(shared.len()).is_err() {
        return None;
    }
    let codec = Codec { hash, compressed: false };
    let found = Scan::of(codec, content, FIRST_ENTRY..content.len(), count, &|| ());
    if found.places.len() < count {
        return None;
    }
    let mut file = header(shared.len(), checksum, count, found.end, found.overview).to_vec();
    file.extend(found.places.iter().flat_map(|place| place.to_bytes()));
    Some(file)
}

/// Reads the places of the entries of `shared` from their file. Returns `None` if the file belongs
/// to another index, or names a place that no entry can have.
pub(super) fn read(
    file: &[u8],
    shared: &[u8],
    found: &read::Header<'_>,
    codec: Codec,
    prepare_memory: PrepareMemory,
) -> Option<Scan> {
    let (head, places) = file.split_at_checked(HEADER)?;
    let u32_at = |at: usize| Some(u32::from_le_bytes(*head[at..].first_chunk()?));
    let end = usize::try_from(u64::from_le_bytes(*head[AT_END..].first_chunk()?)).ok()?;
    let kinds = u32_at(AT_KINDS)?;
    let overview = Overview {
        flags: Flags::from_bits(u32_at(AT_FLAGS)?.try_into().ok()?)?,
        unusual: kinds & UNUSUAL != 0,
        gitlinks: kinds & GITLINKS != 0,
        newest: u32_at(AT_NEWEST)?,
    };
    let expected = header(shared.len(), found.checksum, found.count, end, overview);
    let (places, rest) = places.as_chunks();
    if head != expected || !rest.is_empty() || places.len() != found.count || end > found.content.len() {
        return None;
    }
    let mut scan = Scan::ending_at(end, with_room(places.len(), prepare_memory), overview);
    let mut before = FIRST_ENTRY;
    for &bytes in places {
        let place = EntryPlace::from_bytes(bytes);
        if !place.is_possible(codec, before) {
            return None;
        }
        before = place.end_of_path();
        scan.places.push(place);
    }
    // A NUL follows each path.
    (before < end || places.is_empty()).then_some(scan)
}
