//! Lists: the names of the objects of a pack, sorted.
//!
//! A writer reads the lists of earlier packs to leave their objects out of its pack. Layout:
//! `SWLIST01`, the kind of hash (4 bytes in network order: 1 for SHA-1, 2 for SHA-256), then the
//! raw names, ascending.

use crate::{HashKind, ObjectId};

const MAGIC: &[u8; 8] = b"SWLIST01";
const HEADER: usize = 12;

/// The bytes are not a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no list of objects of this version")]
pub struct Malformed;

/// Returns the bytes of a list of `names`.
pub fn encode(hash: HashKind, mut names: Vec<ObjectId>) -> Vec<u8> {
    names.sort_unstable();
    names.dedup();
    let kind: u32 = match hash {
        HashKind::Sha1 => 1,
        HashKind::Sha256 => 2,
    };
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&kind.to_be_bytes());
    names.iter().for_each(|name| out.extend_from_slice(name.as_bytes()));
    out
}

/// Reads a list.
pub fn parse(data: &[u8]) -> Result<Vec<ObjectId>, Malformed> {
    let (header, rest) = data.split_first_chunk::<HEADER>().ok_or(Malformed)?;
    let hash = match (header.starts_with(MAGIC), &header[8..]) {
        (true, [0, 0, 0, 1]) => HashKind::Sha1,
        (true, [0, 0, 0, 2]) => HashKind::Sha256,
        _ => return Err(Malformed),
    };
    if rest.len() % hash.len() != 0 {
        return Err(Malformed);
    }
    let name = |raw| ObjectId::from_bytes(hash, raw).expect("of this length");
    let names: Vec<ObjectId> = rest.chunks_exact(hash.len()).map(name).collect();
    if names.is_sorted_by(|one, next| one < next) { Ok(names) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_come_back(raw in prop::collection::vec(any::<[u8; 20]>(), 0..50)) {
            let name = |raw: &[u8; 20]| ObjectId::from_bytes(HashKind::Sha1, raw).expect("20 bytes");
            let mut names: Vec<_> = raw.iter().map(name).collect();
            let bytes = encode(HashKind::Sha1, names.clone());
            names.sort();
            names.dedup();
            prop_assert_eq!(parse(&bytes), Ok(names));
            for cut in 0..bytes.len() {
                let is_between = cut >= HEADER && (cut - HEADER).is_multiple_of(20);
                prop_assert_eq!(parse(&bytes[..cut]).is_ok(), is_between);
            }
        }
    }

    #[test]
    fn repeated_and_unsorted_names_are_refused() {
        let header = &encode(HashKind::Sha1, Vec::new())[..];
        for pair in [[[1; 20], [1; 20]], [[2; 20], [1; 20]]] {
            assert_eq!(parse(&[header, &pair.concat()].concat()), Err(Malformed));
        }
    }
}
