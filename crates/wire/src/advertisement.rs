//! The refs of a server.

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId};

/// A ref of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RemoteRef {
    pub name: BString,
    pub oid: ObjectId,
    /// The target, if the ref is symbolic.
    pub symref: Option<BString>,
    /// The object that the tag leads to, if the ref names a tag object.
    pub peeled: Option<ObjectId>,
}

/// The refs of a server, with the other facts that it sends together with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement {
    /// The refs, in the server's order.
    pub refs: Vec<RemoteRef>,
    /// The target of HEAD, if it is a branch without commits.
    pub unborn_head: Option<BString>,
    /// Tips in the alternates of the server. Only versions 0 and 1 send them.
    pub alternates: Vec<ObjectId>,
    /// The commits at which the server's history is shallow. Only versions 0 and 1 send them.
    pub shallow: Vec<ObjectId>,
}

pub(super) fn parse_ref(hash: HashKind, line: &[u8], into: &mut Advertisement) -> Option<()> {
    let mut words = line.split_str(" ");
    let value = words.next()?;
    let name: BString = words.next()?.into();
    let (mut symref, mut peeled) = (None, None);
    for attribute in words {
        if let Some(target) = attribute.strip_prefix(b"symref-target:") {
            symref = Some(BString::from(target));
        } else if let Some(hex) = attribute.strip_prefix(b"peeled:") {
            peeled = Some(ObjectId::from_hex(hash, hex)?);
        }
    }
    if value == b"unborn" {
        if name == "HEAD" {
            into.unborn_head = symref;
        }
    } else {
        into.refs.push(RemoteRef { name, oid: ObjectId::from_hex(hash, value)?, symref, peeled });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn parses_refs_with_attributes() {
        let mut found = Advertisement::default();
        for line in
            [format!("{A} HEAD symref-target:refs/heads/main"), format!("{A} refs/tags/v1 peeled:{A}")]
        {
            parse_ref(HashKind::Sha1, line.as_bytes(), &mut found).expect("valid");
        }
        let oid = ObjectId::from_hex(HashKind::Sha1, A.as_bytes()).expect("a full name");
        assert_eq!(found.refs[0].symref, Some("refs/heads/main".into()));
        assert_eq!(found.refs[1].peeled, Some(oid));
        assert_eq!(found.unborn_head, None);
    }

    #[test]
    fn parses_an_unborn_head_and_refuses_nonsense() {
        let mut found = Advertisement::default();
        parse_ref(HashKind::Sha1, b"unborn HEAD symref-target:refs/heads/trunk", &mut found).expect("valid");
        assert_eq!((found.unborn_head.as_ref(), found.refs.len()), (Some(&"refs/heads/trunk".into()), 0));
        for line in ["", "zz refs/heads/x", A, &format!("{A} x peeled:12")] {
            assert_eq!(parse_ref(HashKind::Sha1, line.as_bytes(), &mut found), None, "{line}");
        }
    }
}
