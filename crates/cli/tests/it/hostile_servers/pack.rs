//! Packs, written byte by byte.

use format::{HashKind, hash::Hasher};
use testkit::servers::scripted::{band, packet};

/// Returns the section `packfile` of a response, with the pack in the first side band.
pub(super) fn section(pack: &[u8]) -> Vec<u8> {
    [packet("packfile\n"), band(1, pack), b"0000".to_vec()].concat()
}

/// Deflates without compression.
pub(super) fn zlib(content: &[u8]) -> Vec<u8> {
    let (mut low, mut high) = (1u32, 0u32);
    for &byte in content {
        low = (low + u32::from(byte)) % 65521;
        high = (high + low) % 65521;
    }
    let length = u16::try_from(content.len()).expect("short");
    let mut out = vec![0x78, 0x01, 0x01];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(content);
    out.extend((high << 16 | low).to_be_bytes());
    out
}

/// Returns the header of an entry that announces `size` bytes.
pub(super) fn head(kind: u8, size: u64) -> Vec<u8> {
    let mut out = vec![kind << 4 | (size & 15) as u8];
    let mut rest = size >> 4;
    while rest > 0 {
        *out.last_mut().expect("one") |= 0x80;
        out.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    out
}

/// Returns an entry with a reference to its base, which may be empty.
pub(super) fn entry(kind: u8, base: &[u8], content: &[u8]) -> Vec<u8> {
    [head(kind, content.len() as u64), base.to_vec(), zlib(content)].concat()
}

/// Returns a pack that announces `count` entries, with its checksum.
pub(super) fn pack(count: u32, entries: &[Vec<u8>]) -> Vec<u8> {
    summed([b"PACK\0\0\0\x02".as_slice(), &count.to_be_bytes(), &entries.concat()].concat())
}

/// Appends the checksum.
pub(super) fn summed(mut pack: Vec<u8>) -> Vec<u8> {
    let mut hasher = Hasher::checksum(HashKind::Sha1);
    hasher.update(&pack);
    pack.extend(hasher.finish().expect("no collision").as_bytes());
    pack
}
