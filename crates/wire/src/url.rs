//! Repository URLs: URLs, scp-like addresses, remote helpers, paths.
//!
//! Parsing accepts any text; [`Url::check`] returns an error for a URL that no transport can use.
//! Source: git-fetch(1), "GIT URLS" and "REMOTES".

use bstr::{BStr, BString, ByteSlice};

use super::{Error, Settings};

pub use super::relative::{NoParent, is_relative, relative};

/// The transport to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A path, or `file://`.
    File,
    /// `ssh://`, `git+ssh://`, `ssh+git://`, or `host:path`.
    Ssh,
    /// `git://`
    Git,
    /// `http://` or `https://`, by this name.
    Http(BString),
    /// `<helper>::<address>`, or another scheme, for which `git remote-<helper>` is run.
    Helper(BString),
}

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The URL as written, after `url.<base>.insteadOf`.
    pub text: BString,
    /// The transport.
    pub scheme: Scheme,
    /// The host with its user, without the brackets of an IPv6 address. Empty for files, helpers.
    pub host: BString,
    /// The explicit port.
    pub port: Option<BString>,
    /// The path on the host, percent-decoded where Git decodes it; for a helper its address.
    pub path: BString,
}

impl Url {
    /// Returns the URL of a path on this machine.
    pub fn of_path(path: &BStr) -> Url {
        Url::plain(path, Scheme::File, path)
    }

    fn plain(text: &BStr, scheme: Scheme, path: &[u8]) -> Url {
        Url { text: text.into(), scheme, host: BString::default(), port: None, path: path.into() }
    }

    /// Parses a URL as Git does.
    pub fn parse(text: &BStr) -> Url {
        if let Some((helper, address)) = helper_address(text) {
            return Url::plain(text, Scheme::Helper(helper.into()), address);
        }
        let Some((scheme, _)) = scheme_of(text) else {
            return if is_path(text) {
                Url::of_path(text)
            } else {
                Url::of_host(text, Scheme::Ssh, text, b':')
            };
        };
        let decoded = percent_decoded(&text[scheme.len() + 3..]);
        match scheme {
            b"file" => {
                let start = decoded.find_byte(b'/').unwrap_or(decoded.len());
                Url::plain(text, Scheme::File, &decoded[start..])
            }
            b"ssh" | b"git+ssh" | b"ssh+git" => Url::of_host(text, Scheme::Ssh, &decoded, b'/'),
            b"git" => Url::of_host(text, Scheme::Git, &decoded, b'/'),
            b"http" | b"https" => Url::plain(text, Scheme::Http(scheme.into()), text),
            _ => Url::plain(text, Scheme::Helper(scheme.into()), text),
        }
    }

    /// Parses `host:path` or `host[:port]/path`. `separator` ends the host.
    fn of_host(text: &BStr, scheme: Scheme, rest: &[u8], separator: u8) -> Url {
        let bracket = host_end(rest);
        let at = rest[bracket..].find_byte(separator).map_or(rest.len(), |at| bracket + at);
        let mut path = &rest[at..];
        if separator == b':' {
            path = path.get(1..).unwrap_or_default();
        }
        // `/~user/…` is a path below a home directory.
        if path.get(1) == Some(&b'~') {
            path = &path[1..];
        }
        let (host, port) = host_and_port(&rest[..at]);
        Url { text: text.into(), scheme, host, port, path: path.into() }
    }

    /// Returns the name of the transport in `protocol.<name>.allow`.
    pub fn protocol(&self) -> &BStr {
        match &self.scheme {
            Scheme::File => "file".into(),
            Scheme::Ssh => "ssh".into(),
            Scheme::Git => "git".into(),
            Scheme::Http(name) | Scheme::Helper(name) => name.as_bstr(),
        }
    }

    /// Returns an error for a URL that another program would parse as an option, and for one
    /// without a path.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Message(text));
        if matches!(self.scheme, Scheme::Http(_) | Scheme::Helper(_)) {
            return Ok(());
        }
        // `host:` means the server's own default, which may be one fixed repository.
        let is_short = self.scheme == Scheme::Ssh && !has_scheme(self.text.as_bstr());
        if self.path.is_empty() && !is_short {
            return refuse("no path specified; see 'git help pull' for valid url syntax".into());
        }
        if self.scheme == Scheme::Git && self.text.contains(&b'\n') {
            return refuse("newline is forbidden in git:// hosts and repo paths".into());
        }
        if self.scheme == Scheme::Ssh && self.host.starts_with(b"-") {
            return refuse(format!("strange hostname '{}' blocked", self.host));
        }
        if self.scheme != Scheme::Git && self.path.starts_with(b"-") {
            return refuse(format!("strange pathname '{}' blocked", self.path));
        }
        if self.scheme == Scheme::Git && self.host.starts_with(b"-") {
            return refuse(format!("strange hostname '{}' blocked", self.host));
        }
        Ok(())
    }

    /// Returns the URL without a password and, for HTTP, without a user name.
    pub fn shown(&self) -> BString {
        without_credentials(self.text.as_bstr())
    }
}

/// Returns true if a text is a path on this machine and not a URL with a host: it has no colon, or
/// a slash before the first one.
pub fn is_path(text: &BStr) -> bool {
    match (text.find_byte(b':'), text.find_byte(b'/')) {
        (None, _) => true,
        (Some(colon), Some(slash)) => slash < colon,
        (Some(_), None) => false,
    }
}

/// Returns true if the URL begins with `<scheme>://`.
pub fn has_scheme(text: &BStr) -> bool {
    scheme_of(text).is_some()
}

/// Splits `<scheme>://<rest>`.
fn scheme_of(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = scheme_end(text);
    let rest = text[end..].strip_prefix(b"://")?;
    (end > 0).then(|| (&text[..end], rest))
}

/// Returns the length of the longest prefix that consists of characters of a scheme.
fn scheme_end(text: &[u8]) -> usize {
    let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
    let is_other = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if text.first().is_some_and(is_first) {
        text.iter().position(|byte| !is_other(byte)).unwrap_or(text.len())
    } else {
        0
    }
}

/// Splits `<helper>::<address>`.
fn helper_address(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (helper, rest) = text.split_at(scheme_end(text));
    Some((helper, rest.strip_prefix(b"::")?)).filter(|(helper, _)| !helper.is_empty())
}

/// Returns the offset from which to search for the end of the host: after an IPv6 address in
/// brackets.
fn host_end(host: &[u8]) -> usize {
    let start = host.find("@[").map_or(0, |at| at + 1);
    match host.get(start) {
        Some(b'[') => host[start..].find_byte(b']').map_or(0, |end| start + end),
        _ => 0,
    }
}

/// Splits `[user@]host[:port]`, and removes the brackets of an IPv6 address. Brackets may also hold
/// the port: `[host:port]`, a form of scp-like addresses.
fn host_and_port(text: &[u8]) -> (BString, Option<BString>) {
    let start = text.find("@[").map_or(0, |at| at + 1);
    let close = text[start..].starts_with(b"[").then(|| text[start..].find_byte(b']')).flatten();
    let Some(close) = close.map(|close| start + close) else {
        return split_port(text, text.find_byte(b':'));
    };
    let (user, inner, rest) = (&text[..start], &text[start + 1..close], &text[close + 1..]);
    let host = [user, inner].concat();
    match rest.split_first() {
        Some((b':', port)) if is_port(port) => (host.into(), Some(port.into())),
        Some((b':', [])) => (host.into(), None),
        Some(_) => ([host, rest.to_vec()].concat().into(), None),
        None => split_port(&host, host.find_byte(b':')),
    }
}

fn split_port(host: &[u8], colon: Option<usize>) -> (BString, Option<BString>) {
    match colon.map(|at| (&host[..at], &host[at + 1..])) {
        Some((host, port)) if is_port(port) => (host.into(), Some(port.into())),
        Some((host, [])) => (host.into(), None),
        _ => (host.into(), None),
    }
}

fn is_port(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<u16>().is_ok()) && !text.starts_with(b"+")
}

/// Decodes `%XX`. A sequence that is malformed, or that encodes a NUL, is left unchanged.
pub fn percent_decoded(text: &[u8]) -> BString {
    let mut out = BString::default();
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' && byte != 0 => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// Removes user name and password from a URL, so that it can be printed: Git's form in messages and
/// FETCH_HEAD. Text without a scheme is left unchanged.
pub fn without_credentials(text: &BStr) -> BString {
    let Some((scheme, rest)) = scheme_of(text) else { return text.into() };
    let end = rest.find_byte(b'/').unwrap_or(rest.len());
    match rest[..end].rfind_byte(b'@') {
        Some(at) => [scheme, b"://", &rest[at + 1..]].concat().into(),
        None => text.into(),
    }
}

/// Returns a URL with `<redacted>` in the place of its password; `None` if it has no password.
pub(super) fn with_redacted_password(text: &BStr) -> Option<BString> {
    let (scheme, rest) = scheme_of(text)?;
    let end = rest.find_byte(b'/').unwrap_or(rest.len());
    let at = rest[..end].rfind_byte(b'@')?;
    let colon = rest[..at].find_byte(b':')?;
    Some([scheme, b"://", &rest[..=colon], b"<redacted>", &rest[at..]].concat().into())
}

/// Replaces the longest prefix for which there is a `url.<base>.insteadOf`. Among prefixes of the
/// same length, the base that appears first wins.
pub(super) fn instead_of(settings: &dyn Settings, text: &BStr) -> BString {
    // The bases in order, each with its longest prefix that matches.
    let mut bases: Vec<(&[u8], Option<usize>)> = Vec::new();
    for (name, value) in settings.entries() {
        let base = name.strip_prefix(b"url.").and_then(|rest| rest.strip_suffix(b".insteadof"));
        let Some(base) = base else { continue };
        let prefix = value.unwrap_or_default();
        let length = text.starts_with(prefix).then_some(prefix.len());
        match bases.iter_mut().find(|(known, _)| *known == base) {
            Some((_, longest)) => *longest = length.max(*longest),
            None => bases.push((base, length)),
        }
    }
    let mut best: Option<(&[u8], usize)> = None;
    for (base, length) in bases {
        if let Some(length) = length
            && best.is_none_or(|(_, longest)| length > longest)
        {
            best = Some((base, length));
        }
    }
    match best {
        Some((base, length)) => [base, &text[length..]].concat().into(),
        None => text.into(),
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
