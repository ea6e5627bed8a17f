//! The header of a bundle, which precedes its pack.
//!
//! Format: Git's `gitformat-bundle(5)`, versions 2 and 3. No allocation depends on a number in the
//! file. A header without its final empty line is refused.

use bstr::{BString, ByteSlice};

use crate::{HashKind, ObjectId};

/// A parsed header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version: 2 or 3.
    pub version: u32,
    /// `@object-format=`; SHA-1 by default.
    pub hash: HashKind,
    /// `@filter=`: the filter of a partial bundle. The pack lacks the objects that the filter
    /// omits.
    pub filter: Option<BString>,
    /// Commits that the receiver must already have.
    pub prerequisites: Vec<ObjectId>,
    /// Names and values, in the bundle's order. `HEAD` may be among them.
    pub refs: Vec<(BString, ObjectId)>,
    /// The offset of the pack in the file, in bytes.
    pub pack_offset: usize,
}

/// The reason why a header was refused. The messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// The caller adds the file: `'<file>' does not look like a v2 or v3 bundle file`.
    #[error("does not look like a v2 or v3 bundle file")]
    Signature,
    #[error("unrecognized bundle hash algorithm: {0}")]
    Hash(BString),
    #[error("unknown capability '{0}'")]
    Capability(BString),
    #[error("unrecognized header: {line} ({})", .line.len())]
    Line { line: BString },
    #[error("bundle header ends before its empty line")]
    Truncated,
}

/// Parses the header at the start of `data`, which may contain more after the header.
pub fn parse(data: &[u8]) -> Result<Header, Error> {
    let version = match data.get(..16) {
        Some(b"# v2 git bundle\n") => 2,
        Some(b"# v3 git bundle\n") => 3,
        _ => return Err(Error::Signature),
    };
    let mut header = Header {
        version,
        hash: HashKind::Sha1,
        filter: None,
        prerequisites: Vec::new(),
        refs: Vec::new(),
        pack_offset: 16,
    };
    loop {
        let rest = &data[header.pack_offset..];
        let end = rest.find_byte(b'\n').ok_or(Error::Truncated)?;
        header.pack_offset += end + 1;
        if end == 0 {
            return Ok(header);
        }
        let line = rest[..end].trim_ascii_end();
        match line.strip_prefix(b"@") {
            Some(capability) if version == 3 => header.capability(capability)?,
            _ => header.tip(line)?,
        }
    }
}

impl Header {
    fn capability(&mut self, capability: &[u8]) -> Result<(), Error> {
        if let Some(name) = capability.strip_prefix(b"object-format=") {
            self.hash = match name {
                b"sha1" => HashKind::Sha1,
                b"sha256" => HashKind::Sha256,
                other => return Err(Error::Hash(other.into())),
            };
        } else if let Some(spec) = capability.strip_prefix(b"filter=") {
            self.filter = Some(spec.into());
        } else {
            return Err(Error::Capability(capability.into()));
        }
        Ok(())
    }

    fn tip(&mut self, line: &[u8]) -> Result<(), Error> {
        let refused = || Error::Line { line: line.into() };
        let (prerequisite, body) = match line.strip_prefix(b"-") {
            Some(body) => (true, body),
            None => (false, line),
        };
        let hex = body.get(..self.hash.hex_len()).ok_or_else(refused)?;
        let oid = ObjectId::from_hex(self.hash, hex).ok_or_else(refused)?;
        let rest = &body[hex.len()..];
        match rest.first() {
            Some(byte) if !byte.is_ascii_whitespace() => return Err(refused()),
            None if !prerequisite => return Err(refused()),
            _ => {}
        }
        if prerequisite {
            self.prerequisites.push(oid)
        } else {
            self.refs.push((rest[1..].into(), oid))
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const B: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn oid(hex: &str) -> ObjectId {
        ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).expect("a full name")
    }

    #[test]
    fn version_two_with_prerequisites() {
        let text = format!("# v2 git bundle\n-{A} a subject\n-{B}\n{B} refs/heads/main\n{A} HEAD\n\nPACK");
        let header = parse(text.as_bytes()).expect("valid");
        assert_eq!(header.prerequisites, [oid(A), oid(B)]);
        assert_eq!(header.refs, [("refs/heads/main".into(), oid(B)), ("HEAD".into(), oid(A))]);
        assert_eq!(&text.as_bytes()[header.pack_offset..], b"PACK");
    }

    #[test]
    fn version_three_capabilities() {
        let text = format!("# v3 git bundle\n@object-format=sha1\n@filter=blob:none\n{A} refs/tags/t\n\n");
        let header = parse(text.as_bytes()).expect("valid");
        assert_eq!((header.version, header.filter), (3, Some("blob:none".into())));
        let refused = parse(b"# v3 git bundle\n@object-format=md5\n\n");
        assert_eq!(refused, Err(Error::Hash("md5".into())));
        assert_eq!(parse(b"# v3 git bundle\n@later\n\n"), Err(Error::Capability("later".into())));
    }

    #[test]
    fn refusals() {
        assert_eq!(parse(b"gitdir: x\n"), Err(Error::Signature));
        assert_eq!(parse(b"# v4 git bundle\n\n"), Err(Error::Signature));
        assert_eq!(parse(format!("# v2 git bundle\n{A} HEAD\n").as_bytes()), Err(Error::Truncated));
        for line in ["@filter=blob:none", "zz", A, &format!("{A}x HEAD"), &A[..39]] {
            let text = format!("# v2 git bundle\n{line}\n\n");
            assert!(matches!(parse(text.as_bytes()), Err(Error::Line { .. })), "{line}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(version in 1u8..5, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut text = format!("# v{version} git bundle\n").into_bytes();
            text.extend(body);
            if let Ok(header) = parse(&text) {
                prop_assert!(header.pack_offset <= text.len());
            }
        }
    }
}
