//! The content of a loose ref's file: `ref: <name>`, or an object name. A symbolic link can
//! represent a symbolic ref. Source: gitrepository-layout(5).

use bstr::{BStr, BString, ByteSlice};

use crate::{
    HashKind, ObjectId,
    refname::{self, Levels},
};

/// The value of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The name of an object.
    Id(ObjectId),
    /// The name of another ref. It may be invalid.
    Symbolic(BString),
}

/// Parses the content. Returns `None` if it has neither form. Any text may follow an object name
/// and white space; FETCH_HEAD uses this.
pub fn parse(hash: HashKind, content: &[u8]) -> Option<Value> {
    let is_space = |letter: char| matches!(letter, ' ' | '\t' | '\n' | '\r');
    let content = content.trim_end_with(is_space);
    if let Some(target) = content.strip_prefix(b"ref:") {
        return Some(Value::Symbolic(target.trim_start_with(is_space).into()));
    }
    let (name, rest) = content.split_at_checked(hash.hex_len())?;
    let ends = rest.first().is_none_or(|&letter| is_space(char::from(letter)));
    ObjectId::from_hex(hash, name).filter(|_| ends).map(Value::Id)
}

/// Returns true if a symbolic link to `target` is a symbolic ref. Any other link is read as the
/// file that it leads to.
pub fn is_symbolic_link(target: &BStr) -> bool {
    target.starts_with(b"refs/") && refname::check(target, Levels::Two).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_object_names_and_symbolic_refs() {
        let hex = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let id = ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).map(Value::Id);
        for good in [hex.to_owned(), format!("{hex}\n"), format!("{hex}\tbranch 'x'\n{hex}\n")] {
            assert_eq!(parse(HashKind::Sha1, good.as_bytes()), id, "{good:?}");
        }
        for bad in ["", "\n", &hex[1..], &format!("{hex}a\n"), &format!(" {hex}"), "re: x"] {
            assert_eq!(parse(HashKind::Sha1, bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse(HashKind::Sha256, hex.as_bytes()), None);
        for (text, target) in [("ref: refs/heads/a\n", "refs/heads/a"), ("ref:a b \r\n", "a b"), ("ref:", "")]
        {
            assert_eq!(parse(HashKind::Sha1, text.as_bytes()), Some(Value::Symbolic(target.into())));
        }
    }
}
