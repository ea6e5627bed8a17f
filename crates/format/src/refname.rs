//! Which names a ref may have: the rules of `git-check-ref-format(1)`.

use bstr::{BStr, BString, ByteSlice};

/// How many components a name must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// `main` will do: for names of branches and tags, and for `HEAD` and its kin.
    One,
    /// At least two: for full names such as `refs/heads/main`.
    Two,
}

/// The name is not one a ref may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ref name")]
pub struct InvalidRefName;

/// Checks a ref name. No component may be empty, begin with a dot or end in `.lock`; nowhere may
/// there be `..`, `@{`, a control character, a space or one of `~^:?*[\`; the name may not end with
/// a dot nor be `@`.
pub fn check(name: &BStr, levels: Levels) -> Result<(), InvalidRefName> {
    let bytes = name.as_bytes();
    let components = bytes.split(|&byte| byte == b'/');
    let valid = components.clone().all(is_component)
        && !bytes.ends_with(b".")
        && bytes != b"@"
        && (levels == Levels::One || components.count() >= 2);
    if valid { Ok(()) } else { Err(InvalidRefName) }
}

fn is_component(component: &[u8]) -> bool {
    !component.is_empty()
        && !component.starts_with(b".")
        && !component.ends_with(b".lock")
        && !component.contains_str("..")
        && !component.contains_str("@{")
        && !component.iter().any(|byte| is_forbidden(*byte))
}

fn is_forbidden(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | 127 | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\')
}

/// The nearest thing to `name`, without slashes, that may be a component of a ref's name: what may not be in it becomes
/// a dash. Git names the directories of worktrees so.
pub fn sanitized(name: &BStr) -> BString {
    if name == "@" {
        return BString::from("-");
    }
    let mut clean = BString::default();
    let mut last = 0;
    for &byte in name.iter().filter(|byte| **byte != b'/') {
        match byte {
            b'.' if last == b'.' => {}
            b'{' if last == b'@' => clean.push(b'-'),
            byte if is_forbidden(byte) => clean.push(b'-'),
            byte => clean.push(byte),
        }
        last = byte;
    }
    if name.starts_with(b".") && !clean.is_empty() {
        clean[0] = b'-';
    }
    if name.ends_with(b".lock") {
        while let Some(stem) = clean.strip_suffix(b".lock") {
            clean = stem.into();
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_either_kind() {
        for good in ["refs/heads/main", "a/@", "a/@a{", "a/b.lock.c", "a/b./c", "a/-", "ä/ö", "a/b}"] {
            assert_eq!(check(good.into(), Levels::Two), Ok(()), "{good}");
        }
        for bad in [
            "", "/", "a/", "/a", "a//b", "a/.b", ".a/b", "a/b..c", "a/b.", "a/b.lock", "a.lock/b", "a/b@{c",
            "a/b c", "a/b\t", "a/\x7f", "a/~", "a/^", "a/:", "a/?", "a/*", "a/[", "a/\\", "a/\0",
        ] {
            assert_eq!(check(bad.into(), Levels::Two), Err(InvalidRefName), "{bad:?}");
            assert_eq!(check(bad.into(), Levels::One), Err(InvalidRefName), "{bad:?}");
        }
        assert_eq!(check("main".into(), Levels::One), Ok(()));
        assert_eq!(check("main".into(), Levels::Two), Err(InvalidRefName));
        assert_eq!(check("@".into(), Levels::One), Err(InvalidRefName));
    }

    #[test]
    fn names_made_possible() {
        for (name, clean) in [
            ("plain", "plain"),
            (".a..b", "-a.b"),
            ("a b~c", "a-b-c"),
            ("x.lock.lock", "x"),
            ("@", "-"),
            ("a@{b", "a@-b"),
        ] {
            assert_eq!(sanitized(name.into()), clean, "{name}");
        }
    }
}
