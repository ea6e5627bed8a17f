//! Similarity of two contents by their chunks, which end at a line end or after 64 bytes. The order
//! of chunks does not matter.
//!
//! The hash function is Git's, collisions included, because they affect its scores.

/// The longest chunk, in bytes.
const MAX_CHUNK: u32 = 64;
/// Number of different hashes.
const HASH_COUNT: u32 = 107_927;
/// Number of bytes that Git examines to detect text.
const TEXT_PROBE: usize = 8000;

/// The chunk hashes of a content, sorted, each with the number of bytes in its chunks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::diff) struct Spans(Vec<(u32, u32)>);

/// Returns true if a content looks like text: its first bytes contain no NUL.
pub(super) fn looks_like_text(content: &[u8]) -> bool {
    !content[..content.len().min(TEXT_PROBE)].contains(&0)
}

impl Spans {
    /// Cuts a content into chunks. In text, a carriage return before a line feed is ignored.
    pub(super) fn of(content: &[u8], is_text: bool) -> Spans {
        // Git counts in 32 bits, so it uses the size modulo 4 GiB.
        let content = &content[..content.len() as u32 as usize];
        let mut chunks: Vec<(u32, u32)> = Vec::new();
        let (mut one, mut other, mut length) = (0u32, 0u32, 0u32);
        let mut bytes = content.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            if is_text && byte == b'\r' && bytes.peek() == Some(&b'\n') {
                continue;
            }
            let old = one;
            one = (one << 7) ^ (other >> 25);
            other = (other << 7) ^ (old >> 25);
            one = one.wrapping_add(u32::from(byte));
            length += 1;
            if length == MAX_CHUNK || byte == b'\n' {
                chunks.push((hash(one, other), length));
                (one, other, length) = (0, 0, 0);
            }
        }
        if length > 0 {
            chunks.push((hash(one, other), length));
        }
        chunks.sort_unstable_by_key(|&(hash, _)| hash);
        chunks.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.wrapping_add(next.1);
            }
            is_same
        });
        chunks.shrink_to_fit();
        Spans(chunks)
    }

    /// Returns the number of bytes of `other` that may come from this content, and of those that do
    /// not.
    pub(in crate::diff) fn changes(&self, other: &Spans) -> (u64, u64) {
        let copied = self.common_bytes(other);
        (copied, other.0.iter().map(|&(_, length)| u64::from(length)).sum::<u64>() - copied)
    }

    /// Returns the number of bytes of `other` that may come from this content.
    pub(super) fn common_bytes(&self, other: &Spans) -> u64 {
        let mut others = other.0.iter().peekable();
        let mut common = 0;
        for &(hash, length) in &self.0 {
            while others.next_if(|other| other.0 < hash).is_some() {}
            if let Some(other) = others.next_if(|other| other.0 == hash) {
                common += u64::from(length.min(other.1));
            }
        }
        common
    }
}

fn hash(one: u32, other: u32) -> u32 {
    one.wrapping_add(other.wrapping_mul(0x61)) % HASH_COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_order_and_line_ends_of_text() {
        let one = Spans::of(b"a line\nanother\nthe last", true);
        assert_eq!(one, Spans::of(b"another\r\na line\r\nthe last", true));
        assert_ne!(one, Spans::of(b"another\r\na line\r\nthe last", false));
        assert_eq!(one.common_bytes(&Spans::of(b"another\nand more\n", true)), 8);
        assert_eq!(one.common_bytes(&Spans::default()), 0);
        assert_eq!(Spans::of(&[b'x'; 64], true).0.len(), 1);
        assert_eq!(Spans::of(&[b'x'; 65], true).0.len(), 2);
        assert_eq!(Spans::of(&[b'x'; 128], true).0[0].1, 128);
    }
}
