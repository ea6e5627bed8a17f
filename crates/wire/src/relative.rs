//! URLs that are relative to another URL.

use bstr::{BStr, BString, ByteSlice as _};

/// The URL has no component left for `..` to remove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot strip one component off url '{0}'")]
pub struct NoParent(pub BString);

/// Returns true for a relative URL: it begins with `./` or `../`.
pub fn is_relative(url: &BStr) -> bool {
    url.starts_with(b"./") || url.starts_with(b"../")
}

/// Resolves the relative URL `url` against `base`.
pub fn relative(base: &BStr, url: &BStr) -> Result<BString, NoParent> {
    if !is_local(url) || url.starts_with(b"/") {
        return Ok(url.to_owned());
    }
    let mut base = BString::from(base.strip_suffix(b"/").unwrap_or(base));
    let is_path = is_local(base.as_bstr()) && !base.starts_with(b"/");
    if is_path && !is_relative(base.as_bstr()) {
        base = [b"./", base.as_slice()].concat().into();
    }
    let (mut url, mut separator) = (url, &b"/"[..]);
    loop {
        if let Some(rest) = url.strip_prefix(b"../") {
            url = rest.as_bstr();
            if chop(&mut base, is_path)? == Chopped::AtColon {
                separator = b":";
            }
        } else if let Some(rest) = url.strip_prefix(b"./") {
            url = rest.as_bstr();
        } else {
            break;
        }
    }
    let joined = BString::from([base.as_slice(), separator, url].concat());
    let joined = if url.ends_with(b"/") { joined[..joined.len() - 1].into() } else { joined };
    Ok(joined.strip_prefix(b"./").map_or(joined.clone(), BString::from))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chopped {
    AtSlash,
    AtColon,
}

/// Removes the last component.
fn chop(base: &mut BString, is_path: bool) -> Result<Chopped, NoParent> {
    if let Some(slash) = base.rfind_byte(b'/') {
        base.truncate(slash);
        return Ok(Chopped::AtSlash);
    }
    if let Some(colon) = base.rfind_byte(b':') {
        base.truncate(colon);
        return Ok(Chopped::AtColon);
    }
    if is_path || *base == "." {
        return Err(NoParent(base.clone()));
    }
    *base = ".".into();
    Ok(Chopped::AtSlash)
}

/// Returns true for a path, as opposed to a URL or `host:path`.
fn is_local(url: &BStr) -> bool {
    match (url.find_byte(b':'), url.find_byte(b'/')) {
        (Some(colon), Some(slash)) => slash < colon,
        (Some(_), None) => false,
        (None, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_addresses() {
        for (base, url, expected) in [
            ("https://host/a/b", "../c", "https://host/a/c"),
            ("https://host/a/b/", "./c/", "https://host/a/b/c"),
            ("host:a/b", "../c", "host:a/c"),
            ("host:b", "../c", "host:c"),
            ("/srv/a", "../../c", "/c"),
            ("sub/a", "../c", "sub/c"),
            ("a", "../c", "c"),
            ("../a", "../c", "../c"),
            ("/srv/a", "/else", "/else"),
            ("/srv/a", "https://host/x", "https://host/x"),
        ] {
            assert_eq!(relative(base.into(), url.into()).expect("resolved"), expected, "{base} {url}");
        }
        assert!(relative("a".into(), "../../../c".into()).is_err());
    }
}
