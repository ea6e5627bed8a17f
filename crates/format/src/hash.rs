//! Object names and hash functions.
//!
//! There are two SHA-1 implementations, which are not interchangeable. Object names use the one
//! that detects collision attacks ([`Hasher::object`]). File trailers use the faster plain one
//! ([`Hasher::checksum`]).

use std::fmt;

use sha1::Digest as _;

/// The hash algorithm of a repository's object names (`extensions.objectFormat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashKind {
    /// 20 bytes; the default.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl HashKind {
    /// Returns the length of a raw name in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a length, not a collection's")]
    pub const fn len(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }

    /// Returns the length of a name in hexadecimal digits.
    pub const fn hex_len(self) -> usize {
        self.len() * 2
    }

    /// Returns the value of `extensions.objectFormat`.
    pub const fn name(self) -> &'static str {
        match self {
            HashKind::Sha1 => "sha1",
            HashKind::Sha256 => "sha256",
        }
    }
}

/// The name of an object: a raw hash and its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    // Bytes after the kind's length are always zero, so that the derived comparisons are correct.
    bytes: [u8; 32],
    kind: HashKind,
}

impl ObjectId {
    /// Returns the all-zero name, which Git uses for "no object".
    pub const fn null(kind: HashKind) -> Self {
        ObjectId { bytes: [0; 32], kind }
    }

    /// Creates a name from its raw bytes. Returns `None` if their number does not match `kind`.
    pub fn from_bytes(kind: HashKind, raw: &[u8]) -> Option<Self> {
        if raw.len() != kind.len() {
            return None;
        }
        let mut bytes = [0; 32];
        bytes[..raw.len()].copy_from_slice(raw);
        Some(ObjectId { bytes, kind })
    }

    /// Creates a name from exactly [`HashKind::hex_len`] hexadecimal digits of either case.
    pub fn from_hex(kind: HashKind, hex: &[u8]) -> Option<Self> {
        if hex.len() != kind.hex_len() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| DIGIT_VALUES[usize::from(digit)]);
            // Only the value 255, of a byte that is not a digit, has high bits.
            if (high | low) > 15 {
                return None;
            }
            *byte = high << 4 | low;
        }
        Some(ObjectId { bytes, kind })
    }

    /// Returns the raw name, 20 or 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.len()]
    }

    /// Returns the kind of hash.
    pub const fn kind(&self) -> HashKind {
        self.kind
    }

    /// Returns true for the all-zero name.
    pub fn is_null(&self) -> bool {
        self.bytes == [0; 32]
    }

    /// Returns the name of the empty tree.
    pub fn empty_tree(kind: HashKind) -> Self {
        Hasher::object(kind, "tree", 0).finish().expect("the empty tree is no collision attack")
    }

    /// Returns the name of the empty blob.
    pub fn empty_blob(kind: HashKind) -> Self {
        Hasher::object(kind, "blob", 0).finish().expect("the empty blob is no collision attack")
    }
}

/// The values of hexadecimal digits; 255 for other bytes.
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

impl ObjectId {
    /// Returns the number of leading hexadecimal digits that both names share.
    pub fn common_digits(&self, other: &ObjectId) -> usize {
        let same = self.as_bytes().iter().zip(other.as_bytes()).take_while(|(one, two)| one == two).count();
        let half =
            self.bytes.get(same).zip(other.bytes.get(same)).is_some_and(|(one, two)| one >> 4 == two >> 4);
        (2 * same + usize::from(half)).min(self.kind.hex_len())
    }

    /// Writes the hexadecimal digits into `room` and returns them. For lists as long as an index,
    /// this avoids an allocation per name.
    pub fn hex_into(self, room: &mut [u8; 64]) -> &[u8] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (pair, byte) in room.as_chunks_mut::<2>().0.iter_mut().zip(self.as_bytes()) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        &room[..2 * self.as_bytes().len()]
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(self.hex_into(&mut [0; 64])).expect("digits"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An abbreviated object name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The digits, padded with zeros.
    first: ObjectId,
    digits: usize,
}

impl Prefix {
    /// Creates a prefix from hexadecimal digits of either case, at most as many as a name has.
    pub fn from_hex(kind: HashKind, hex: &[u8]) -> Option<Prefix> {
        let mut whole = [b'0'; 64];
        whole.get_mut(..hex.len())?.copy_from_slice(hex);
        let first = ObjectId::from_hex(kind, &whole[..kind.hex_len()])?;
        (hex.len() <= kind.hex_len()).then_some(Prefix { first, digits: hex.len() })
    }

    /// Returns the first `digits` digits of a name, or all of them.
    pub fn of(oid: &ObjectId, digits: usize) -> Prefix {
        let digits = digits.min(oid.kind.hex_len());
        let mut first = *oid;
        first.bytes[digits.div_ceil(2)..].fill(0);
        if digits % 2 == 1 {
            first.bytes[digits / 2] &= 0xf0;
        }
        Prefix { first, digits }
    }

    /// Returns the smallest name with this prefix.
    pub fn first(&self) -> ObjectId {
        self.first
    }

    /// Returns true if the name begins with this prefix.
    pub fn matches(&self, oid: &ObjectId) -> bool {
        let (bytes, half) = (self.digits / 2, self.digits % 2 == 1);
        oid.kind == self.first.kind
            && oid.bytes[..bytes] == self.first.bytes[..bytes]
            && (!half || oid.bytes[bytes] >> 4 == self.first.bytes[bytes] >> 4)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.to_string()[..self.digits])
    }
}

/// The hashed content is part of a SHA-1 collision attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("SHA-1 collision attack detected")]
pub struct CollisionDetected;

/// A running hash. Its clone is independent, so a writer can return to an earlier state.
#[derive(Clone)]
pub struct Hasher(Inner);

#[derive(Clone)]
enum Inner {
    Detecting(Box<sha1dc::Hasher>),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl Hasher {
    /// Starts the hash of an object: hashes `<type> SP <size> NUL`. The caller adds `size` bytes of
    /// content. Detects SHA-1 collision attacks.
    pub fn object(kind: HashKind, object_type: &str, size: u64) -> Self {
        let mut hasher = Hasher(match kind {
            HashKind::Sha1 => Inner::Detecting(Box::new(sha1dc::Hasher::new())),
            HashKind::Sha256 => Inner::Sha256(sha2::Sha256::new()),
        });
        hasher.update(object_type.as_bytes());
        hasher.update(format!(" {size}\0").as_bytes());
        hasher
    }

    /// Starts the hash for a file's trailing checksum.
    pub fn checksum(kind: HashKind) -> Self {
        Hasher(match kind {
            HashKind::Sha1 => Inner::Sha1(sha1::Sha1::new()),
            HashKind::Sha256 => Inner::Sha256(sha2::Sha256::new()),
        })
    }

    /// Adds bytes.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.0 {
            Inner::Detecting(hasher) => hasher.update(data),
            Inner::Sha1(hasher) => hasher.update(data),
            Inner::Sha256(hasher) => hasher.update(data),
        }
    }

    /// Returns the hash of all bytes. Only a SHA-1 hasher from [`Hasher::object`] can fail.
    pub fn finish(self) -> Result<ObjectId, CollisionDetected> {
        let mut bytes = [0; 32];
        let kind = match self.0 {
            Inner::Detecting(hasher) => {
                let digest = hasher.finalize().map_err(|_| CollisionDetected)?;
                bytes[..20].copy_from_slice(digest.as_ref());
                HashKind::Sha1
            }
            Inner::Sha1(hasher) => {
                bytes[..20].copy_from_slice(&hasher.finalize());
                HashKind::Sha1
            }
            Inner::Sha256(hasher) => {
                bytes.copy_from_slice(&hasher.finalize());
                HashKind::Sha256
            }
        };
        Ok(ObjectId { bytes, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_names() {
        let hex = |id: ObjectId| id.to_string();
        assert_eq!(hex(ObjectId::empty_tree(HashKind::Sha1)), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        assert_eq!(hex(ObjectId::empty_blob(HashKind::Sha1)), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(
            hex(ObjectId::empty_tree(HashKind::Sha256)),
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        );
    }

    #[test]
    fn prefixes_match_names_that_share_their_digits() {
        for hex in ["00ff10".repeat(7)[..40].to_owned(), "0123456789abcdef".repeat(4)] {
            let kind = if hex.len() == 40 { HashKind::Sha1 } else { HashKind::Sha256 };
            let oid = ObjectId::from_hex(kind, hex.as_bytes()).expect("digits");
            for digits in 0..=hex.len() {
                let prefix = Prefix::of(&oid, digits);
                assert_eq!(Some(prefix), Prefix::from_hex(kind, &hex.as_bytes()[..digits]));
                assert_eq!(prefix.to_string(), hex[..digits]);
                if digits < hex.len() {
                    let mut other = hex.clone().into_bytes();
                    other[digits] = if other[digits] == b'7' { b'8' } else { b'7' };
                    let other = ObjectId::from_hex(kind, &other).expect("digits");
                    assert_eq!(oid.common_digits(&other), digits);
                }
            }
            assert_eq!(Prefix::of(&oid, 1000), Prefix::of(&oid, hex.len()));
            assert_eq!(oid.common_digits(&oid), hex.len());
        }
    }

    #[test]
    fn hexadecimal_round_trip_and_refusals() {
        let id = ObjectId::empty_blob(HashKind::Sha1);
        assert_eq!(ObjectId::from_hex(HashKind::Sha1, id.to_string().as_bytes()), Some(id));
        assert_eq!(ObjectId::from_hex(HashKind::Sha1, b"e69d"), None);
        assert_eq!(ObjectId::from_hex(HashKind::Sha1, &[b'g'; 40]), None);
        assert_eq!(ObjectId::from_bytes(HashKind::Sha256, &[0; 20]), None);
    }
}
