//! Writing deltas.

use std::collections::HashMap;

/// The shortest run of bytes that is looked for in the base. An entry of a tree has about 35.
const BLOCK: usize = 16;
/// The longest run that one instruction inserts, and that one copies.
const MAX_INSERT: usize = 0x7f;
const MAX_COPY: usize = 0xff_ffff;

/// Returns a delta that turns `base` into `result`, header included.
///
/// Blocks of the base are found wherever they are in the result, and each match is extended in both
/// directions. So the delta of a tree whose entries changed has little more than their new names.
/// Only the first 4 GiB of the base count.
pub fn encode_delta(base: &[u8], result: &[u8]) -> Vec<u8> {
    let mut delta = Vec::new();
    encode_size(base.len(), &mut delta);
    encode_size(result.len(), &mut delta);
    let base = &base[..base.len().min(u32::MAX as usize)];
    let mut blocks = HashMap::new();
    for (number, block) in base.chunks_exact(BLOCK).enumerate() {
        blocks.entry(block).or_insert(number * BLOCK);
    }
    // Bytes before `done` are written, and those before `at` have no match.
    let (mut done, mut at) = (0, 0);
    while let Some(block) = result.get(at..at + BLOCK) {
        let Some(&offset) = blocks.get(block) else {
            at += 1;
            continue;
        };
        let before = result[done..at].iter().rev().zip(base[..offset].iter().rev());
        let before = before.take_while(|(one, other)| one == other).count();
        let after = result[at..].iter().zip(&base[offset..]).take_while(|(one, other)| one == other).count();
        insert(&result[done..at - before], &mut delta);
        copy(offset - before, before + after, &mut delta);
        at += after;
        done = at;
    }
    insert(&result[done..], &mut delta);
    delta
}

fn encode_size(mut size: usize, out: &mut Vec<u8>) {
    while size > 0x7f {
        out.push(size as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
}

fn insert(bytes: &[u8], delta: &mut Vec<u8>) {
    for piece in bytes.chunks(MAX_INSERT) {
        delta.push(piece.len() as u8);
        delta.extend_from_slice(piece);
    }
}

fn copy(mut offset: usize, mut len: usize, delta: &mut Vec<u8>) {
    while len > 0 {
        let now = len.min(MAX_COPY);
        let command = delta.len();
        delta.push(0x80);
        let bytes = (offset as u32).to_le_bytes().into_iter().chain((now as u32).to_le_bytes());
        // The last byte of the length is zero and has no bit.
        for (bit, byte) in bytes.take(7).enumerate().filter(|(_, byte)| *byte != 0) {
            delta[command] |= 1 << bit;
            delta.push(byte);
        }
        offset += now;
        len -= now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{apply_delta, delta_output_size, parse_delta_header};
    use proptest::prelude::*;

    /// Applies the delta. Returns its length.
    fn verify(base: &[u8], result: &[u8]) -> usize {
        let delta = encode_delta(base, result);
        let header = parse_delta_header(&delta).expect("a header");
        assert_eq!((header.base_size, header.result_size), (base.len() as u64, result.len() as u64));
        let instructions = &delta[header.len..];
        assert_eq!(delta_output_size(instructions), Ok(header.result_size));
        let mut made = vec![0; result.len()];
        apply_delta(base, instructions, &mut made).expect("instructions that fit");
        assert!(made == result);
        delta.len()
    }

    /// Returns a tree with the numbers as names and as contents.
    fn tree(entries: impl Iterator<Item = (u32, u64)>) -> Vec<u8> {
        entries
            .flat_map(|(name, content)| {
                let mut hash = content.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().repeat(3);
                hash.truncate(20);
                [format!("100644 file{name}.c\0").into_bytes(), hash].concat()
            })
            .collect()
    }

    #[test]
    fn the_delta_of_a_tree_has_its_new_entries_alone() {
        let before = tree((100..600).map(|name| (name, name.into())));
        let changed = tree((100..600).map(|name| (name, if name % 100 == 7 { 9999 } else { name.into() })));
        // 5 names of 20 bytes, each between two instructions; a copy takes up to 8 bytes.
        assert!((100..5 * (20 + 1) + 6 * 8 + 8).contains(&verify(&before, &changed)));
        let added = tree((100..601).map(|name| (name, name.into())));
        assert!((20..60).contains(&verify(&before, &added)));
        assert!(verify(&before, &tree((100..599).map(|name| (name, name.into())))) < 16);
    }

    #[test]
    fn runs_longer_than_an_instruction() {
        let long: Vec<u8> = (0..6_000_000_u32).flat_map(u32::to_le_bytes).collect();
        assert!(verify(&long, &long) < 40);
        assert!(verify(b"", &long[..1000]) < 1020);
        assert_eq!(verify(&long[..1000], b""), 3);
    }

    proptest! {
        #[test]
        fn any_delta_makes_its_result(
            base in prop::collection::vec(0..3_u8, 0..400),
            pieces in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..90_usize, prop::collection::vec(any::<u8>(), 0..200)),
                0..8,
            ),
        ) {
            let mut result = Vec::new();
            for (at, len, bytes) in pieces {
                let at = at.index(base.len() + 1);
                result.extend_from_slice(&base[at..base.len().min(at + len)]);
                result.extend(bytes);
            }
            verify(&base, &result);
        }
    }
}
