//! Bloom filters of the paths that a commit changed.
//!
//! Source: gitformat-commit-graph(5), "Bloom Filter Data". A filter has at least one byte. A filter
//! whose bytes are one `0xff` matches everything: too many paths changed.

/// The seeds of both hashes.
const SEEDS: [u32; 2] = [0x293a_e76f, 0x7e64_6e2c];

/// Parameters of the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 1: bytes above 127 are hashed as signed numbers. 2: as unsigned numbers.
    pub version: u32,
    /// The number of bits that a path sets.
    pub hashes: u32,
    /// The number of bits in a filter for each path.
    pub bits: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { version: 1, hashes: 7, bits: 10 }
    }
}

/// The filter of a commit that changes too many paths.
pub const TOO_LARGE: [u8; 1] = [0xff];

impl Settings {
    /// Returns the filter of these paths, which must be distinct.
    pub fn filter<'p>(&self, paths: impl ExactSizeIterator<Item = &'p [u8]>) -> Vec<u8> {
        let bits = paths.len() as u64 * u64::from(self.bits);
        let mut filter = vec![0; (bits.div_ceil(8) as usize).max(1)];
        paths.for_each(|path| self.add(path, &mut filter));
        filter
    }

    fn add(&self, path: &[u8], filter: &mut [u8]) {
        let [one, two] = SEEDS.map(|seed| murmur3(seed, path, self.version));
        for n in 0..self.hashes {
            let bit = u64::from(one.wrapping_add(n.wrapping_mul(two))) % (filter.len() as u64 * 8);
            filter[(bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
}

/// Computes 32-bit Murmur3. Version 1 treats bytes as signed, which is a known error of that
/// version.
fn murmur3(seed: u32, data: &[u8], version: u32) -> u32 {
    let byte = |byte: u8| if version == 2 { u32::from(byte) } else { i32::from(byte as i8) as u32 };
    let mix = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut hash = seed;
    let words = data.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        let word = byte(word[0]) | byte(word[1]) << 8 | byte(word[2]) << 16 | byte(word[3]) << 24;
        hash = (hash ^ mix(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let word = tail.iter().enumerate().fold(0, |word, (at, &value)| word ^ byte(value) << (8 * at));
        hash ^= mix(word);
    }
    hash ^= data.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of Git's t0095.
    #[test]
    fn hashes_as_git_does() {
        assert_eq!(murmur3(0, b"", 2), 0);
        assert_eq!(murmur3(0, b"Hello world!", 2), 0x627b_0c2c);
        assert_eq!(murmur3(0, b"The quick brown fox jumps over the lazy dog", 2), 0x2e4f_f723);
        assert_eq!(murmur3(0, b"\x99\xaa\xbb\xcc\xdd\xee\xff", 2), 0xa183_ccfd);
        assert_eq!(
            murmur3(0, b"\x99\xaa\xbb\xcc\xdd\xee\xff", 1),
            murmur3(0, b"\x99\xaa\xbb\xcc\xdd\xee\xff", 1)
        );
    }

    #[test]
    fn sizes_of_filters() {
        let settings = Settings::default();
        assert_eq!(settings.filter([].into_iter()), [0]);
        assert_eq!(settings.filter([&b"a"[..], b"b"].into_iter()).len(), 3);
    }
}
