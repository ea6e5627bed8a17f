//! How alike two contents are: by their chunks, which end with a line or after 64 bytes, without regard to order.
//!
//! The hashes are Git's, collisions included, as its scores show them.

/// A chunk is this long at most, in bytes.
const LONGEST: u32 = 64;
/// There are so many different hashes.
const HASHES: u32 = 107_927;
/// Git looks at so much to tell whether it is text.
const LOOKED_AT: usize = 8000;

/// What a content is made of: hashes of chunks, each with the bytes in chunks of it; by hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::diff) struct Spans(Vec<(u32, u32)>);

/// Whether it looks like text.
pub(super) fn looks_like_text(content: &[u8]) -> bool {
    !content[..content.len().min(LOOKED_AT)].contains(&0)
}

impl Spans {
    /// In text, a carriage return at the end of a line does not count.
    pub(super) fn of(content: &[u8], is_text: bool) -> Spans {
        // Git counts in 32 bits, and so sees nothing of what is a multiple of 4 GiB.
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
            if length == LONGEST || byte == b'\n' {
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

    /// How many bytes of `other` may come from this, and how many do not.
    pub(in crate::diff) fn changes(&self, other: &Spans) -> (u64, u64) {
        let copied = self.in_common(other);
        (copied, other.0.iter().map(|&(_, length)| u64::from(length)).sum::<u64>() - copied)
    }

    /// How many bytes of `other` may come from this.
    pub(super) fn in_common(&self, other: &Spans) -> u64 {
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
    one.wrapping_add(other.wrapping_mul(0x61)) % HASHES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_count_and_line_ends_of_text_do_not() {
        let one = Spans::of(b"a line\nanother\nthe last", true);
        assert_eq!(one, Spans::of(b"another\r\na line\r\nthe last", true));
        assert_ne!(one, Spans::of(b"another\r\na line\r\nthe last", false));
        assert_eq!(one.in_common(&Spans::of(b"another\nand more\n", true)), 8);
        assert_eq!(one.in_common(&Spans::default()), 0);
        assert_eq!(Spans::of(&[b'x'; 64], true).0.len(), 1);
        assert_eq!(Spans::of(&[b'x'; 65], true).0.len(), 2);
        assert_eq!(Spans::of(&[b'x'; 128], true).0[0].1, 128);
    }
}
