//! EWAH bitmaps, as in the link, UNTR and FSMN extensions. Source: Git's `gitformat-index(5)`.
//!
//! `u32` size in bits, `u32` number of words, the words (64 bits, big endian), `u32` position of
//! the last marker word. A marker holds the run's bit (bit 0), the length of the run in words (32
//! bits) and the number of literal words after it (31 bits). Its literals follow. Their bits count
//! from the least significant one.

use super::bytes::Reader;

/// A bitmap as stored. Its numbers are checked when its bits are visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bitmap {
    words: Vec<u64>,
}

const MAX_RUN: u64 = u32::MAX as u64;
const MAX_LITERALS: u64 = (1 << 31) - 1;

impl Bitmap {
    /// Reads a bitmap and consumes its bytes.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Bitmap> {
        let _bits = reader.u32()?;
        let count = reader.u32()? as usize;
        let words = reader.take(count.checked_mul(8)?)?;
        let _last_marker = reader.u32()?;
        let (words, _) = words.as_chunks();
        Some(Bitmap { words: words.iter().map(|word| u64::from_be_bytes(*word)).collect() })
    }

    /// Calls `visit` for each set bit, in ascending order. Stops with an error at the first
    /// position that is not below `limit`, so that a few bytes cannot cause endless work.
    pub(super) fn for_each(&self, limit: usize, mut visit: impl FnMut(usize)) -> Result<(), u64> {
        let limit = limit as u64;
        let mut position = 0u64;
        let mut words = self.words.iter();
        while let Some(marker) = words.next() {
            let run = (marker >> 1 & MAX_RUN) * 64;
            let end = position.saturating_add(run);
            if marker & 1 == 1 {
                (position..end.min(limit)).for_each(|bit| visit(bit as usize));
                if run > 0 && end > limit {
                    return Err(position.max(limit));
                }
            }
            position = end;
            for literal in words.by_ref().take((marker >> 33) as usize) {
                let mut bits = *literal;
                while bits != 0 {
                    let bit = position.saturating_add(u64::from(bits.trailing_zeros()));
                    if bit >= limit {
                        return Err(bit);
                    }
                    visit(bit as usize);
                    bits &= bits - 1;
                }
                position = position.saturating_add(64);
            }
        }
        Ok(())
    }
}

/// Appends a bitmap of the given positions, which must ascend.
pub(super) fn write(out: &mut Vec<u8>, positions: impl IntoIterator<Item = usize>) {
    let mut writer = Writer::default();
    let mut size = 0;
    let mut current = (0u64, 0u64); // number of the word being filled, its bits
    for position in positions {
        let word = position as u64 / 64;
        if word != current.0 {
            writer.word(current.1);
            writer.run(0, word - current.0 - 1);
            current = (word, 0);
        }
        current.1 |= 1 << (position % 64);
        size = position + 1;
    }
    if size > 0 {
        writer.word(current.1);
    }
    writer.close_marker();
    out.extend_from_slice(&(size as u32).to_be_bytes());
    out.extend_from_slice(&(writer.words.len() as u32).to_be_bytes());
    writer.words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    out.extend_from_slice(&(writer.marker as u32).to_be_bytes());
}

/// The words written so far. The last marker's word is filled in when its counts are known.
struct Writer {
    words: Vec<u64>,
    marker: usize,
    bit: u64,
    run: u64,
    literals: u64,
}

impl Default for Writer {
    fn default() -> Self {
        Writer { words: vec![0], marker: 0, bit: 0, run: 0, literals: 0 }
    }
}

impl Writer {
    fn word(&mut self, word: u64) {
        match word {
            0 => self.run(0, 1),
            u64::MAX => self.run(1, 1),
            _ => {
                if self.literals == MAX_LITERALS {
                    self.next_marker();
                }
                self.literals += 1;
                self.words.push(word);
            }
        }
    }

    fn run(&mut self, bit: u64, mut count: u64) {
        while count > 0 {
            if self.literals > 0 || self.run == MAX_RUN || (self.run > 0 && self.bit != bit) {
                self.next_marker();
            }
            self.bit = bit;
            let more = count.min(MAX_RUN - self.run);
            self.run += more;
            count -= more;
        }
    }

    fn next_marker(&mut self) {
        self.close_marker();
        self.marker = self.words.len();
        self.words.push(0);
        (self.bit, self.run, self.literals) = (0, 0, 0);
    }

    fn close_marker(&mut self) {
        self.words[self.marker] = self.bit | self.run << 1 | self.literals << 33;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bits(bitmap: &Bitmap, limit: usize) -> Result<Vec<usize>, u64> {
        let mut found = Vec::new();
        bitmap.for_each(limit, |bit| found.push(bit)).map(|()| found)
    }

    proptest! {
        #[test]
        fn bitmaps_round_trip(
            singles in prop::collection::btree_set(0usize..2000, 0..40),
            runs in prop::collection::vec((0usize..2000, 0usize..400), 0..4),
        ) {
            let mut set: BTreeSet<usize> = singles;
            runs.into_iter().for_each(|(start, length)| set.extend(start..start + length));
            let mut out = Vec::new();
            write(&mut out, set.iter().copied());
            let mut reader = Reader(&out);
            let bitmap = Bitmap::read(&mut reader).expect("just written");
            prop_assert!(reader.0.is_empty());
            prop_assert_eq!(bits(&bitmap, 4096), Ok(set.iter().copied().collect()));
            if let Some(last) = set.last() {
                prop_assert!(bits(&bitmap, *last).is_err());
            }
            for cut in 0..out.len() {
                prop_assert_eq!(Bitmap::read(&mut Reader(&out[..cut])), None);
            }
        }
    }

    #[test]
    fn a_huge_run_ends_at_the_limit() {
        let ones = Bitmap { words: vec![1 | MAX_RUN << 1] };
        assert_eq!(bits(&ones, 1000), Err(1000));
        let far = Bitmap { words: vec![MAX_RUN << 1, MAX_RUN << 1 | 1 << 33, 1] };
        assert!(bits(&far, 1000).is_err());
    }
}
