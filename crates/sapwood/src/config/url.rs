//! Settings for a URL: the best match among `section.<url>.key`.
//!
//! Git normalizes URLs by its own rules. A URL that is already normalized, except for upper case in
//! scheme and host and for the default port, is compared here. Any other is left to Git.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice as _};
use repo::Configured;

/// A URL in Git's normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: Vec<u8>,
    user: Option<Vec<u8>>,
    /// In a setting's name, `*` stands for one label between dots.
    host: Vec<u8>,
    port: Option<Vec<u8>>,
    /// The path, with its leading slash.
    path: Vec<u8>,
}

/// The URL has parts that require Git's normalization.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnsupportedUrl;

impl Url {
    /// Parses a URL. Returns `None` if it has no scheme, or parts that require Git's normalization.
    pub fn parse(text: &BStr) -> Option<Url> {
        Url::read(text, false).ok().flatten()
    }

    /// Parses a URL. Returns `None` if it has no scheme; Git refuses such a URL.
    fn read(text: &BStr, has_globs: bool) -> Result<Option<Url>, UnsupportedUrl> {
        let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
        let (scheme, rest) = match text.split_once_str("://") {
            Some((scheme, rest)) if scheme.iter().all(is_scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => return Ok(None),
        };
        if !scheme.first().is_some_and(u8::is_ascii_alphabetic) {
            return Ok(None);
        }
        let (authority, path) = rest.split_at(rest.find_byte(b'/').unwrap_or(rest.len()));
        let (user, place) = match authority.split_once_str("@") {
            Some((user, place)) => (Some(user.to_vec()), place),
            None => (None, authority),
        };
        let (host, port) = match place.split_once_str(":") {
            Some((host, port)) => (host, Some(port.to_vec())),
            None => (place, None),
        };
        let is_host =
            |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte) || has_globs && *byte == b'*';
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+=,".contains(byte);
        let is_user = |user: &Vec<u8>| !user.is_empty() && user.iter().all(is_plain);
        let is_port = |port: &Vec<u8>| {
            let number = port.to_str().ok().and_then(|port| port.parse::<u16>().ok());
            number.is_some_and(|number| number > 0 && number.to_string().as_bytes() == *port)
        };
        let is_segment = |segment: &[u8]| segment != b"." && segment != b".." && segment.iter().all(is_plain);
        if host.is_empty()
            || !host.iter().all(is_host)
            || !user.as_ref().is_none_or(is_user)
            || !port.as_ref().is_none_or(is_port)
            || !path.split(|&byte| byte == b'/').all(is_segment)
        {
            return Err(UnsupportedUrl);
        }
        let is_default =
            |port: &Vec<u8>| matches!((&scheme[..], &port[..]), (b"http", b"80") | (b"https", b"443"));
        let port = port.filter(|port| !is_default(port));
        let path = if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
        Ok(Some(Url { user, host: host.to_ascii_lowercase(), port, path, scheme }))
    }

    /// Returns how well `pattern`, the URL in a setting's name, matches this URL; `None` if it does
    /// not.
    fn matched_by(&self, pattern: &Url) -> Option<Rank> {
        let is_same_user = pattern.user.is_none() || pattern.user == self.user;
        let is_same = pattern.scheme == self.scheme && pattern.port == self.port && is_same_user;
        if !is_same || !has_host(&self.host, &pattern.host) {
            return None;
        }
        let prefix = pattern.path.strip_suffix(b"/").unwrap_or(&pattern.path);
        let rest = self.path.strip_prefix(prefix)?;
        let path = (rest.is_empty() || rest.starts_with(b"/")).then_some(prefix.len() + 1)?;
        Some(Rank { host: pattern.host.len(), path, has_user: pattern.user.is_some() })
    }
}

/// Compares hosts label by label.
fn has_host(host: &[u8], pattern: &[u8]) -> bool {
    let labels = |text| <[u8]>::split(text, |&byte| byte == b'.');
    labels(host).count() == labels(pattern).count()
        && labels(host).zip(labels(pattern)).all(|(label, wanted)| wanted == b"*" || label == wanted)
}

/// How specific a match is. A setting without a URL has the lowest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    host: usize,
    path: usize,
    has_user: bool,
}

/// Returns the best settings for `url` in `section`, by the names that Git shows. `key`, in lower
/// case, restricts the result to one name. Among equals, the last one is the best.
pub(super) fn best<'c>(
    entries: Vec<Configured<'c>>,
    section: &BStr,
    key: Option<&BStr>,
    url: &Url,
) -> Result<BTreeMap<BString, Configured<'c>>, UnsupportedUrl> {
    let mut found: BTreeMap<BString, (Rank, Configured<'_>)> = BTreeMap::new();
    for entry in entries {
        let rest = entry.key.strip_prefix(section.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        let Some(rest) = rest else { continue };
        let (rank, name) = match rest.rsplit_once_str(".") {
            None => (Rank::default(), rest),
            Some((pattern, name)) => {
                let Some(pattern) = Url::read(pattern.as_bstr(), true)? else { continue };
                let Some(rank) = url.matched_by(&pattern) else { continue };
                (rank, name)
            }
        };
        if key.is_some_and(|key| key != name) {
            continue;
        }
        let shown = BString::from([section.as_bytes(), b".", name].concat());
        if found.get(&shown).is_none_or(|(before, _)| *before <= rank) {
            found.insert(shown, (rank, entry));
        }
    }
    Ok(found.into_iter().map(|(name, (_, entry))| (name, entry)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(url: &str, pattern: &str) -> Option<Rank> {
        let parsed = |text: &str, globs| Url::read(text.into(), globs).expect("plain").expect("a scheme");
        parsed(url, false).matched_by(&parsed(pattern, true))
    }

    #[test]
    fn a_longer_host_and_path_match_better() {
        let url = "https://me@Example.com:443/a/b";
        let of = |host, path, has_user| Some(Rank { host, path, has_user });
        assert_eq!(rank(url, "https://example.com"), of(11, 1, false));
        assert_eq!(rank(url, "https://me@example.com/a/"), of(11, 3, true));
        assert_eq!(rank(url, "https://*.com/a/b"), of(5, 5, false));
        for other in ["http://example.com", "https://you@example.com", "https://example.com/ab", "https://*"]
        {
            assert_eq!(rank(url, other), None, "{other}");
        }
    }

    #[test]
    fn odd_urls_are_left_alone() {
        for odd in
            ["http://h/%41", "http://h/../x", "http://h?q", "http://h:080/", "http://u:p@h", "file:///x"]
        {
            assert_eq!(Url::read(odd.into(), false), Err(UnsupportedUrl), "{odd}");
        }
        assert_eq!(Url::read("example.com".into(), true), Ok(None));
    }
}
