//! Settings for some URLs: `http.<url>.*`, `credential.<url>.*`.
//!
//! Source: git-config(1), `http.<url>.*`.

use bstr::{BStr, BString, ByteSlice};

use ::http::{Address, decode};

/// The specificity with which the URL of a setting matches: the longer host wins, then the longer
/// path, then the user name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Precision {
    host: usize,
    path: usize,
    user: bool,
}

/// The selection among the settings that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Skip a value if an earlier value of the same name matches better.
    Best,
    /// Take every value that matches.
    All,
}

/// Returns the variables of `section` for a URL, in order: the name in lower case, and the value.
/// `entries` are the keys and values of a configuration, in order.
pub(crate) fn settings<'c>(
    entries: impl IntoIterator<Item = (&'c BStr, Option<&'c BStr>)>,
    section: &str,
    address: &Address,
    choice: Choice,
) -> Vec<(&'c BStr, Option<&'c BStr>)> {
    let mut best: Vec<(&BStr, Precision)> = Vec::new();
    let mut found = Vec::new();
    for (key, value) in entries {
        let Some(rest) = key.strip_prefix(section.as_bytes()).and_then(|k| k.strip_prefix(b".")) else {
            continue;
        };
        let (pattern, name) = match rest.rsplit_once_str(".") {
            Some((pattern, name)) => (Some(pattern), name.as_bstr()),
            None => (None, rest.as_bstr()),
        };
        let precision = match pattern {
            None => Some(Precision::default()),
            Some(pattern) => precision(pattern, address),
        };
        let Some(precision) = precision else { continue };
        match best.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if choice == Choice::Best && precision < *known => continue,
            Some((_, known)) => *known = precision,
            None => best.push((name, precision)),
        }
        found.push((name, value));
    }
    found
}

/// Matches the URL of a setting against the URL of a request.
fn precision(pattern: &[u8], address: &Address) -> Option<Precision> {
    let pattern = Address::parse(pattern)?;
    if pattern.tls != address.tls
        || pattern.port != address.port
        || !host_matches(&pattern.host, &address.host)
    {
        return None;
    }
    if pattern.user.is_some() && pattern.user != address.user {
        return None;
    }
    let (prefix, path) = (path_of(&pattern), path_of(address));
    let prefix = prefix.strip_suffix(b"/").unwrap_or(&prefix);
    let rest = path.strip_prefix(prefix)?;
    if !rest.is_empty() && !rest.starts_with(b"/") {
        return None;
    }
    Some(Precision { host: pattern.host.len(), path: prefix.len() + 1, user: pattern.user.is_some() })
}

/// Returns the path without the query, decoded, and without `.` and `..`.
fn path_of(address: &Address) -> BString {
    let path = &address.target[..address.target.find_byte(b'?').unwrap_or(address.target.len())];
    let mut parts: Vec<BString> = Vec::new();
    for part in path[1..].split_str("/") {
        match part {
            b"." => {}
            b".." => drop(parts.pop()),
            _ => parts.push(decode(part)),
        }
    }
    [b"/".as_slice(), &bstr::join("/", parts)].concat().into()
}

/// Matches hosts label by label; `*` matches one label.
fn host_matches(pattern: &str, host: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('.'), host.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str, address: &str) -> Option<(usize, usize, bool)> {
        let address = Address::parse(address.as_bytes()).expect("valid");
        precision(pattern.as_bytes(), &address).map(|found| (found.host, found.path, found.user))
    }

    #[test]
    fn matches_addresses_as_git() {
        assert_eq!(of("https://example.com", "https://example.com/foo/bar"), Some((11, 1, false)));
        assert_eq!(of("https://example.com/foo", "https://example.com/foo/bar"), Some((11, 5, false)));
        assert_eq!(of("https://example.com/foo/", "https://example.com/foo"), Some((11, 5, false)));
        assert_eq!(of("https://example.com/fo", "https://example.com/foo"), None);
        assert_eq!(of("https://*.example.com", "https://a.example.com/"), Some((13, 1, false)));
        assert_eq!(of("https://*.example.com", "https://example.com/"), None);
        assert_eq!(of("https://*.example.com", "https://a.b.example.com/"), None);
        assert_eq!(of("https://example.com:443", "https://Example.com/"), Some((11, 1, false)));
        assert_eq!(of("http://example.com", "https://example.com/"), None);
        assert_eq!(of("https://user@example.com", "https://user@example.com/"), Some((11, 1, true)));
        assert_eq!(of("https://user@example.com", "https://example.com/"), None);
        assert_eq!(of("https://example.com/a/../b", "https://example.com/%62"), Some((11, 3, false)));
    }
}
