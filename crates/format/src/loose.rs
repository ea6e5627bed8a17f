//! Object types, and the header of a loose object: `<type> SP <size> NUL`. The header precedes the
//! content and is deflated with it.
//!
//! Source: gitformat-loose(5) and Git's behaviour: the size is decimal without leading zeros.

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A commit.
    Commit,
    /// A tree.
    Tree,
    /// A blob.
    Blob,
    /// An annotated tag.
    Tag,
}

impl Kind {
    /// Returns the type's name, as in the header of a loose object and in the hashed data.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Tree => "tree",
            Kind::Blob => "blob",
            Kind::Tag => "tag",
        }
    }

    /// Returns the type with this name.
    pub fn from_name(name: &[u8]) -> Option<Kind> {
        Some(match name {
            b"commit" => Kind::Commit,
            b"tree" => Kind::Tree,
            b"blob" => Kind::Blob,
            b"tag" => Kind::Tag,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The maximum length of a header in bytes, which is also Git's limit.
pub const MAX_HEADER_LEN: usize = 32;

/// A loose object's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the object.
    pub kind: Kind,
    /// The length of the content that follows, in bytes.
    pub size: u64,
    /// The length of the header in bytes, NUL included.
    pub len: usize,
}

/// Parses the header at the start of the inflated bytes. Returns `None` if it is malformed or does
/// not end within [`MAX_HEADER_LEN`].
pub fn parse_header(inflated: &[u8]) -> Option<Header> {
    let inflated = &inflated[..inflated.len().min(MAX_HEADER_LEN)];
    let nul = inflated.iter().position(|&byte| byte == 0)?;
    let space = inflated[..nul].iter().position(|&byte| byte == b' ')?;
    let digits = &inflated[space + 1..nul];
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    let size = digits.iter().try_fold(0u64, |size, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        size.checked_mul(10)?.checked_add(digit)
    })?;
    Some(Header { kind: Kind::from_name(&inflated[..space])?, size, len: nul + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_git_writes() {
        assert_eq!(parse_header(b"blob 12\0hello"), Some(Header { kind: Kind::Blob, size: 12, len: 8 }));
        assert_eq!(parse_header(b"tree 0\0"), Some(Header { kind: Kind::Tree, size: 0, len: 7 }));
        let longest = parse_header(b"commit 18446744073709551615\0").expect("fits in 32 bytes");
        assert_eq!((longest.kind, longest.size), (Kind::Commit, u64::MAX));
    }

    #[test]
    fn headers_git_refuses() {
        for bad in [
            &b""[..],
            b"blob 12",
            b"blob\0",
            b"blob \0",
            b"blob 012\0",
            b"blob -1\0",
            b"blob 1 \0",
            b"blob 1x\0",
            b" 1\0",
            b"blub 1\0",
            b"BLOB 1\0",
            b"blob 18446744073709551616\0",
            b"blob 000000000000000000000000000001\0",
        ] {
            assert_eq!(parse_header(bad), None, "{:?}", bad.escape_ascii().to_string());
        }
    }
}
