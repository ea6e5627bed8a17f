//! Addresses of remotes. Written without user and password.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice};
use sys::UserPath;

use crate::{AddressError, Error};

/// The schemes of addresses.
const SCHEMES: [&[u8]; 6] = [b"s3", b"oci", b"oci+http", b"https", b"http", b"file"];

/// The protocol below a registry or a web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// The address of a web server.
#[derive(Clone, PartialEq, Eq)]
pub struct WebAddress {
    text: String,
    parsed: http::Address,
}

impl WebAddress {
    /// Returns the address as the user wrote it. It may hold a password.
    pub fn with_password(&self) -> &str {
        &self.text
    }

    pub(crate) fn parsed(&self) -> &http::Address {
        &self.parsed
    }
}

/// The address of a remote.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// `s3://bucket/prefix`
    S3 {
        /// The bucket.
        bucket: String,
        /// Names of objects begin with this, and a slash unless it is empty.
        prefix: String,
    },
    /// `oci://registry/name`, with TLS unless the registry is this machine; `oci+http://` without.
    Registry {
        /// The protocol.
        scheme: Scheme,
        /// Host and port.
        host: String,
        /// The name of the repository in the registry.
        name: String,
    },
    /// `https://host/path` and `http://host/path`; it may hold user and password.
    Web(WebAddress),
    /// `file:///dir`, or a path.
    Directory(PathBuf),
}

impl Address {
    /// Parses an address. A relative path starts at `cwd`.
    pub fn parse(text: &BStr, cwd: &Path) -> Result<Address, Error> {
        parse(text, cwd)
            .map_err(|source| Error::Address { text: http::without_user(text).to_string(), source })
    }

    /// Returns the address of a file below the remote, for messages.
    pub(crate) fn of(&self, path: &str) -> String {
        match self {
            Address::Directory(directory) => directory.join(path).display().to_string(),
            _ => format!("{self}/{path}"),
        }
    }
}

fn parse(text: &BStr, cwd: &Path) -> Result<Address, AddressError> {
    let Some((scheme, rest)) = text.split_once_str("://") else {
        let scheme = text.split_once_str(":").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| SCHEMES.contains(&scheme)) {
            return Err(AddressError::Slashes);
        }
        let path = UserPath::new(text).resolve(cwd).map_err(|_| AddressError::Part("path"))?;
        return Ok(Address::Directory(path));
    };
    if scheme == b"file" {
        let path = UserPath::new(Vec::from(http::decode(rest)))
            .resolve(Path::new("/"))
            .map_err(|_| AddressError::Part("path"))?;
        return match rest.first() {
            Some(b'/') => Ok(Address::Directory(path)),
            _ => Err(AddressError::Part("path (three slashes begin one)")),
        };
    }
    let rest = rest.to_str().map_err(|_| AddressError::Part("text, which is not UTF-8"))?;
    let (first, second) =
        rest.trim_end_matches('/').split_once('/').unwrap_or((rest.trim_end_matches('/'), ""));
    match scheme {
        b"s3" => {
            let good = !first.is_empty()
                && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            match good {
                false => Err(AddressError::Part("bucket")),
                true if second.split('/').any(|part| matches!(part, "." | "..")) || second.contains("//") => {
                    Err(AddressError::Part("prefix"))
                }
                true => Ok(Address::S3 { bucket: first.into(), prefix: second.into() }),
            }
        }
        b"oci" | b"oci+http" => {
            let parsed = http::Address::parse(format!("http://{first}/").as_bytes());
            let parsed = parsed.filter(|parsed| {
                parsed.user.is_none() && parsed.host.is_ascii() && !first.contains(['?', '#'])
            });
            let parsed = parsed.ok_or(AddressError::Part("registry"))?;
            let plain = scheme == b"oci+http" || is_loopback(&parsed);
            let scheme = if plain { Scheme::Http } else { Scheme::Https };
            if is_repository(second) {
                Ok(Address::Registry { scheme, host: first.into(), name: second.into() })
            } else {
                Err(AddressError::Part(
                    "name in the registry (lowercase letters, digits, '.', '_', '-', '/')",
                ))
            }
        }
        b"https" | b"http" => {
            let text = text.to_str().map_err(|_| AddressError::Part("URL"))?;
            let bare = text.trim_end_matches('/');
            let parsed = http::Address::parse(bare.as_bytes());
            let parsed = parsed.filter(|parsed| parsed.host.is_ascii() && !bare.contains(['?', '#']));
            let parsed = parsed.ok_or(AddressError::Part("URL"))?;
            Ok(Address::Web(WebAddress { text: bare.to_owned(), parsed }))
        }
        _ => Err(AddressError::Scheme),
    }
}

/// Returns true for a name as the OCI distribution specification defines it.
fn is_repository(name: &str) -> bool {
    let part = |part: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = part.as_bytes();
        let known = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(byte);
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(known)
    };
    name.len() <= 255 && name.split('/').all(part)
}

fn is_loopback(url: &http::Address) -> bool {
    let host = url.host_name();
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Address::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Address::Registry { host, name, .. } => write!(f, "oci://{host}/{name}"),
            Address::Web(url) => {
                let text = url.parsed.without_user();
                f.write_str(text.to_str_lossy().trim_end_matches('/'))
            }
            Address::Directory(path) => write!(f, "file://{}", path.display()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Address, Error> {
        Address::parse(text.into(), Path::new("/home/alice"))
    }

    #[test]
    fn addresses_are_read_and_written() {
        let registry =
            |scheme, host: &str| Address::Registry { scheme, host: host.into(), name: "a/b".into() };
        let s3 = |prefix: &str| Address::S3 { bucket: "bucket".into(), prefix: prefix.into() };
        for (text, address, written) in [
            ("s3://bucket", s3(""), "s3://bucket"),
            ("s3://bucket/a/b/", s3("a/b"), "s3://bucket/a/b"),
            ("oci://example.com/a/b", registry(Scheme::Https, "example.com"), "oci://example.com/a/b"),
            ("oci+http://host:5000/a/b", registry(Scheme::Http, "host:5000"), "oci://host:5000/a/b"),
            (
                "oci://127.0.0.1:5000/a/b",
                registry(Scheme::Http, "127.0.0.1:5000"),
                "oci://127.0.0.1:5000/a/b",
            ),
            ("oci://[::1]:5000/a/b", registry(Scheme::Http, "[::1]:5000"), "oci://[::1]:5000/a/b"),
            ("oci://localhost/a/b", registry(Scheme::Http, "localhost"), "oci://localhost/a/b"),
            ("file:///a%20dir/x", Address::Directory("/a dir/x".into()), "file:///a dir/x"),
            ("dir", Address::Directory("/home/alice/dir".into()), "file:///home/alice/dir"),
            ("./s3:/x", Address::Directory("/home/alice/s3:/x".into()), "file:///home/alice/./s3:/x"),
        ] {
            let found = parsed(text).expect(text);
            assert_eq!(found, address);
            assert_eq!(found.to_string(), written);
        }
        let web = parsed("https://alice:se%2fcret@example.com:8443/x/").expect("a URL");
        assert_eq!(web.to_string(), "https://example.com:8443/x");
        assert_eq!(web.of("commits/1"), "https://example.com:8443/x/commits/1");
        assert_eq!(
            parsed("http://example.com").expect("a URL").of("commits/1"),
            "http://example.com/commits/1"
        );
    }

    #[test]
    fn bad_addresses_are_named_without_passwords() {
        for text in [
            "",
            "ftp://x/y",
            "s3://",
            "s3:/x",
            "file:x",
            "https:host/x",
            "s3://a b/c",
            "s3://b/../c",
            "oci://host",
            "oci://host/Upper",
            "oci:///a",
            "oci://h?x/a",
            "oci+http://h?x/a",
            "oci+http://h#x/a",
            "oci://alice:secret@host/a",
            "file://host/x",
            "https://",
            "https://alice:secret@host/a?b",
            "https://h/#f",
            "https://alice:sec/secret@host/a?b",
        ] {
            let error = parsed(text).expect_err(text).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
