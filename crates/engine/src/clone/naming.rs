//! The name of a clone's directory if the user gave none.

use bstr::{BString, ByteSlice};

/// The properties of a clone that affect its directory's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Naming {
    pub bundle: bool,
    pub bare: bool,
}

/// Returns the last component of `source`, a path or URL, without `.git` or `.bundle`, as Git
/// guesses it. Returns `None` if nothing remains.
pub(super) fn guess_directory(source: &[u8], naming: Naming) -> Option<BString> {
    let mut rest = match source.find("://") {
        Some(scheme) => &source[scheme + 3..],
        None => source,
    };
    let host_end = rest.find_byte(b'/').unwrap_or(rest.len());
    if let Some(at) = rest[..host_end].rfind_byte(b'@') {
        rest = &rest[at + 1..];
    }
    rest = trim_slashes(rest);
    if let Some(outside) = rest.strip_suffix(b"/.git").filter(|outside| !outside.is_empty()) {
        rest = outside.trim_end_with(|c| c == '/');
    }
    // A port is not a name.
    if !rest.contains(&b'/')
        && let Some(colon) = rest.rfind_byte(b':')
        && rest[colon + 1..].iter().all(u8::is_ascii_digit)
    {
        rest = &rest[..colon];
    }
    let start = rest.rfind_byteset(b"/:").map_or(0, |at| at + 1);
    let suffix: &[u8] = if naming.bundle { b".bundle" } else { b".git" };
    let name = rest[start..].strip_suffix(suffix).unwrap_or(&rest[start..]);
    if name.is_empty() {
        return None;
    }
    let mut directory = name.to_vec();
    if naming.bare {
        directory.extend_from_slice(b".git");
    }
    Some(squeeze(&directory))
}

fn trim_slashes(name: &[u8]) -> &[u8] {
    name.trim_end_with(|c| matches!(c, '/' | ' ' | '\t' | '\n' | '\r'))
}

/// Replaces each run of control characters and white space by one space, and removes runs at the
/// ends.
fn squeeze(name: &[u8]) -> BString {
    let mut out = BString::default();
    for &byte in name {
        if byte > b' ' {
            out.push(byte);
        } else if !out.is_empty() && out.last() != Some(&b' ') {
            out.push(b' ');
        }
    }
    if out.last() == Some(&b' ') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_names_like_git() {
        let plain = Naming { bundle: false, bare: false };
        for (source, expected) in [
            ("/srv/foo", "foo"),
            ("/srv/foo/", "foo"),
            ("/srv/foo.git", "foo"),
            ("/srv/foo/.git", "foo"),
            ("/srv/foo//.git///", "foo"),
            ("foo.git/", "foo"),
            ("../up", "up"),
            ("file:///srv/foo.git", "foo"),
            ("ssh://user:pass@host:22/foo", "foo"),
            ("ssh://host:1234", "host"),
            ("ssh://u@h:p@host/", "host"),
            ("host:foo.git", "foo"),
            ("host:22", "host"),
            ("/foo:22", "22"),
            ("/srv/a\tb  c ", "a b c"),
            ("/srv/foo.bundle", "foo.bundle"),
        ] {
            assert_eq!(guess_directory(source.as_bytes(), plain), Some(expected.into()), "{source}");
        }
        for source in ["/", "", "ssh://", "/.git", ".git"] {
            assert_eq!(guess_directory(source.as_bytes(), plain), None, "{source}");
        }
    }

    #[test]
    fn guesses_names_of_bundles_and_bare_clones() {
        let bundle = Naming { bundle: true, bare: false };
        assert_eq!(guess_directory(b"/x/foo.bundle", bundle), Some("foo".into()));
        assert_eq!(guess_directory(b"/x/foo.git", bundle), Some("foo.git".into()));
        let bare = Naming { bundle: false, bare: true };
        assert_eq!(guess_directory(b"/x/foo.git", bare), Some("foo.git".into()));
        assert_eq!(guess_directory(b"foo", bare), Some("foo.git".into()));
    }
}
