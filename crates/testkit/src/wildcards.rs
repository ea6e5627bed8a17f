//! Random paths, and patterns that match some of them.

use bstr::{BString, ByteSlice as _};

/// A pseudo-random generator that is the same in each run.
pub struct Dice(u64);

/// No dot, and not all letters of `.git`: every path is valid, and every pattern is a valid line of
/// a file.
const LETTERS: &[u8] = b"aaaabbbccAABCzzZ-5]^!: \t\x0b\x7f\x80\xe9[\\*?";
const NAMES: [&[u8]; 14] = [
    b"alnum", b"alpha", b"blank", b"cntrl", b"digit", b"graph", b"lower", b"print", b"punct", b"space",
    b"upper", b"xdigit", b"none", b"",
];

impl Dice {
    /// Creates a generator. Each seed gives another sequence.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    /// Returns true with a probability of 1 in `number`.
    pub fn one_of(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    fn letter(&mut self) -> u8 {
        LETTERS[self.below(LETTERS.len())]
    }

    /// Returns a path of one to four components.
    pub fn path(&mut self) -> BString {
        let mut path = BString::default();
        for component in 0..=self.below(4) {
            if component > 0 {
                path.push(b'/');
            }
            for _ in 0..=self.below(4) {
                let letter = self.letter();
                path.push(letter);
            }
        }
        path
    }

    /// Returns a path, which may have a trailing slash.
    pub fn path_or_directory(&mut self) -> BString {
        let mut path = self.path();
        if self.one_of(4) {
            path.push(b'/');
        }
        path
    }

    /// Returns a random pattern, or one of `paths` with wildcards in it. It is not empty and does
    /// not begin with `!`.
    pub fn pattern(&mut self, paths: &[BString]) -> BString {
        let mut pattern = if self.one_of(4) {
            self.any_pattern()
        } else {
            let path = &paths[self.below(paths.len())];
            self.pattern_of(path.strip_suffix(b"/").unwrap_or(path))
        };
        if pattern.is_empty() || pattern.starts_with(b"!") {
            pattern.insert(0, b'*');
        }
        pattern
    }

    fn any_pattern(&mut self) -> BString {
        let mut pattern = BString::default();
        for _ in 0..=self.below(7) {
            match self.below(8) {
                0 | 1 => pattern.push(b'*'),
                2 => pattern.push(b'?'),
                3 => pattern.push(b'/'),
                4 => self.class(None, &mut pattern),
                5 => pattern.extend([b'\\', self.letter()]),
                6 => pattern.extend_from_slice(b"**/"),
                _ => pattern.push(self.letter()),
            }
        }
        pattern
    }

    fn pattern_of(&mut self, path: &[u8]) -> BString {
        let mut pattern = BString::default();
        let mut at = if self.one_of(6) { self.skip(path, 0, &mut pattern) } else { 0 };
        while at < path.len() {
            let byte = path[at];
            at += 1;
            match self.below(24) {
                0 | 1 => {
                    pattern.push(b'*');
                    at = (at - 1 + self.below(4)).min(path.len());
                }
                2 => pattern.push(b'?'),
                3..=6 => self.class(Some(byte), &mut pattern),
                7 | 8 => pattern.extend([b'\\', byte]),
                9 => pattern.push(byte ^ if byte.is_ascii_alphabetic() { 0x20 } else { 0 }),
                10 if byte == b'/' => {
                    pattern.push(b'/');
                    at = self.skip(path, at, &mut pattern);
                }
                _ => pattern.push(byte),
            }
        }
        if self.one_of(8) {
            pattern.push(b'/');
        }
        if self.one_of(8) && !pattern.is_empty() {
            pattern.insert(0, b'/');
        }
        pattern
    }

    /// Replaces a part of the path by a variant of `**`, and returns the position after that part.
    fn skip(&mut self, path: &[u8], at: usize, pattern: &mut BString) -> usize {
        let kinds: [&[u8]; 6] = [b"**/", b"**", b"***/", b"**\\/", b"*/", b"**/**/"];
        pattern.extend_from_slice(kinds[self.below(kinds.len())]);
        let slashes: Vec<usize> = path[at..].find_iter(b"/").map(|slash| at + slash + 1).collect();
        if slashes.is_empty() || self.one_of(2) { at } else { slashes[self.below(slashes.len())] }
    }

    /// Appends a bracket expression, which likely contains `member`.
    fn class(&mut self, member: Option<u8>, pattern: &mut BString) {
        pattern.push(b'[');
        if self.one_of(4) {
            pattern.push(if self.one_of(2) { b'!' } else { b'^' });
        }
        for _ in 0..=self.below(3) {
            let letter = match member {
                Some(member) if self.one_of(2) => member,
                _ => self.letter(),
            };
            match self.below(8) {
                0 | 1 => pattern.extend([letter, b'-', self.letter()]),
                2 => pattern.extend([self.letter(), b'-', letter]),
                3 => pattern.extend([b'\\', letter]),
                4 => {
                    let name = NAMES[self.below(NAMES.len())];
                    let end: &[u8] = if self.one_of(8) { b"]" } else { b":]" };
                    pattern.extend([b"[:", name, end].concat());
                }
                5 => pattern.push(b'-'),
                _ => pattern.push(letter),
            }
        }
        if !self.one_of(12) {
            pattern.push(b']');
        }
    }
}
