//! HTTP URLs: `http[s]://[user[:password]@]host[:port]/path`.

use bstr::{BStr, BString, ByteSlice};

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// True for `https`.
    pub tls: bool,
    /// The decoded user name.
    pub user: Option<BString>,
    /// The decoded password.
    pub password: Option<BString>,
    /// The host in lower case; an IPv6 address is in brackets.
    pub host: String,
    /// The port, explicit or default.
    pub port: u16,
    /// The path with its leading slash, and the query.
    pub target: BString,
}

impl Address {
    /// Parses a URL. Returns `None` if it is not an HTTP URL, or has control characters. Blanks and
    /// bytes outside of ASCII in the path and the query are encoded, as browsers do.
    pub fn parse(text: &[u8]) -> Option<Address> {
        let (scheme, rest) = text.split_once_str("://")?;
        let tls = match scheme.to_ascii_lowercase().as_slice() {
            b"http" => false,
            b"https" => true,
            _ => return None,
        };
        let end = rest.find_byteset(b"/?#").unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = &target[..target.find_byte(b'#').unwrap_or(target.len())];
        if text.iter().any(u8::is_ascii_control) || authority.contains(&b' ') {
            return None;
        }
        let (userinfo, place) = match authority.rsplit_once_str("@") {
            Some((userinfo, place)) => (Some(userinfo), place),
            None => (None, authority),
        };
        let (user, password) = match userinfo.map(|info| (info, info.split_once_str(":"))) {
            None => (None, None),
            Some((_, Some((user, password)))) => (Some(decode(user)), Some(decode(password))),
            Some((user, None)) => (Some(decode(user)), None),
        };
        let (host, port) = split_port(place)?;
        let mut path = BString::from(if target.starts_with(b"/") { "" } else { "/" });
        for byte in target {
            match byte {
                b'!'..=b'~' => path.push(*byte),
                _ => path.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Some(Address { tls, user, password, host, port, target: path })
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Returns the host, with the port if it is not the default of the scheme.
    pub fn authority(&self) -> String {
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    /// Returns the host in the form for a resolver.
    pub fn host_name(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// Returns true if both URLs have the same server.
    pub fn is_same_server(&self, other: &Address) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }

    /// Returns the URL without user name and password.
    pub fn without_user(&self) -> BString {
        let mut text = BString::from(format!("{}://{}", self.scheme(), self.authority()));
        text.extend_from_slice(&self.target);
        text
    }

    /// Adds `name=value` to the query.
    pub fn append(&mut self, name: &str, value: &str) {
        let separator = if self.target.contains(&b'?') { b'&' } else { b'?' };
        self.target.push(separator);
        self.target.extend_from_slice(form(name).as_bytes());
        self.target.push(b'=');
        self.target.extend_from_slice(form(value).as_bytes());
    }

    /// Returns the target URL of a redirect from this URL.
    pub fn redirected(&self, location: &[u8]) -> Option<Address> {
        if let Some(scheme_end) = location.find(b"://")
            && location[..scheme_end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        {
            return Address::parse(location);
        }
        let text = match location {
            [b'/', b'/', ..] => [self.scheme().as_bytes(), b":", location].concat(),
            [b'/', ..] => [self.scheme().as_bytes(), b"://", self.authority().as_bytes(), location].concat(),
            _ => {
                let path = &self.target[..self.target.find_byte(b'?').unwrap_or(self.target.len())];
                let dir = &path[..path.rfind_byte(b'/').map_or(0, |slash| slash + 1)];
                // A query alone replaces the query.
                let kept = if location.starts_with(b"?") { path } else { dir };
                [self.scheme().as_bytes(), b"://", self.authority().as_bytes(), kept, location].concat()
            }
        };
        Address::parse(&text)
    }
}

/// Splits `host[:port]`; `None` if the host is empty or the port is not a number.
fn split_port(place: &[u8]) -> Option<(String, Option<u16>)> {
    let (host, port) = match place.strip_prefix(b"[").and_then(|rest| rest.find_byte(b']')) {
        Some(end) => place.split_at(end + 2),
        None => place.split_at(place.find_byte(b':').unwrap_or(place.len())),
    };
    let port = match port {
        b"" | b":" => None,
        _ => Some(port.strip_prefix(b":")?.to_str().ok()?.parse().ok()?),
    };
    let host = decode(host);
    let valid = |byte: &u8| !byte.is_ascii_control() && !b" /?#@[\\]\"<>^`{|}".contains(byte);
    let host = host.to_str().ok()?;
    // The address of IPv6 is in brackets.
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if name.is_empty() || !name.bytes().all(|byte| valid(&byte)) {
        return None;
    }
    Some((host.to_ascii_lowercase(), port))
}

/// Returns a URL, which may be one that nobody can parse, without what may be user and password:
/// all that is before its last `@`.
pub fn without_user(text: &BStr) -> BString {
    let Some(at) = text.rfind_byte(b'@') else { return text.into() };
    let is_scheme =
        |scheme: &[u8]| scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    match text.split_once_str("://") {
        Some((scheme, _)) if is_scheme(scheme) && scheme.len() < at => {
            [scheme, b"://", &text[at + 1..]].concat().into()
        }
        _ => text[at + 1..].into(),
    }
}

/// Encodes a text as forms of browsers do (`application/x-www-form-urlencoded`).
pub fn form(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'*' | b'-' | b'.' | b'_' => encoded.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Decodes percent escapes such as `%41`.
pub fn decode(text: &[u8]) -> BString {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses() {
        let parsed = Address::parse(b"HTTPS://al%40ice:s%3Acret@Example.COM/a/b?c=d#e").expect("valid");
        assert_eq!(parsed.user, Some("al@ice".into()));
        assert_eq!(parsed.password, Some("s:cret".into()));
        assert_eq!((parsed.host.as_str(), parsed.port), ("example.com", 443));
        assert_eq!(parsed.target, "/a/b?c=d");
        assert_eq!(parsed.without_user(), "https://example.com/a/b?c=d");
        let six = Address::parse(b"http://[::1]:8080").expect("valid");
        assert_eq!((six.host_name(), six.port, six.authority().as_str()), ("::1", 8080, "[::1]:8080"));
        for bad in [
            "ftp://x/",
            "http://",
            "http://x:99999/",
            "http:///x",
            "http://a b/",
            "http://x/\n",
            "http://[",
            "http://a[b]",
        ] {
            assert_eq!(Address::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn encodes_blanks_and_other_letters() {
        let parsed = Address::parse("http://x/a b/\u{e4}%20?c=\u{20ac} d".as_bytes()).expect("valid");
        assert_eq!(parsed.target, "/a%20b/%C3%A4%20?c=%E2%82%AC%20d");
        let to = parsed.redirected("/\u{e4} b".as_bytes()).expect("valid");
        assert_eq!(to.target, "/%C3%A4%20b");
        for bad in ["http://a b/", "http://u v@x/", "http://x/\t"] {
            assert_eq!(Address::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn shows_no_password() {
        for (text, shown) in [
            ("http://u:secret@h:x/", "http://h:x/"),
            ("http://u:sec/ret@h", "http://h"),
            ("u:secret@h", "h"),
            ("u:secret://x@h", "h"),
            ("ftp://h/x", "ftp://h/x"),
        ] {
            assert_eq!(without_user(text.into()), shown, "{text}");
        }
    }

    #[test]
    fn appends_to_queries() {
        let mut address = Address::parse(b"http://x/a").expect("valid");
        address.append("scope", "a:b c");
        address.append("n", "\u{e4}");
        assert_eq!(address.target, "/a?scope=a%3Ab+c&n=%C3%A4");
    }

    #[test]
    fn follows_redirects() {
        let from = Address::parse(b"http://x:81/a/b?c").expect("valid");
        for (location, to) in [
            ("https://y/z", "https://y/z"),
            ("//y/z", "http://y/z"),
            ("/z?u=http://v", "http://x:81/z?u=http://v"),
            ("z", "http://x:81/a/z"),
            ("?z", "http://x:81/a/b?z"),
        ] {
            assert_eq!(from.redirected(location.as_bytes()).expect("valid").without_user(), to);
        }
        assert_eq!(from.redirected(b"file:///etc/passwd"), None);
        assert_eq!(from.redirected(b"gopher://x/"), None);
    }
}
