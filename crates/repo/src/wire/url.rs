//! Addresses of repositories: URLs, scp-like addresses, remote helpers, paths.
//!
//! Source: git-fetch(1), "GIT URLS" and "REMOTES".

use bstr::{BStr, BString, ByteSlice};

/// The way to a repository.
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

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The address as it was written, after `url.<base>.insteadOf`.
    pub text: BString,
    /// The transport.
    pub scheme: Scheme,
    /// The host with its user, as ssh takes it. Empty for files.
    pub host: BString,
    /// The port, if one is given.
    pub port: Option<BString>,
    /// The path on the host, percent-decoded where Git decodes it.
    pub path: BString,
}

impl Url {
    /// Returns the address of a path on this machine.
    pub fn of_path(path: &BStr) -> Url {
        Url {
            text: path.to_owned(),
            scheme: Scheme::File,
            host: BString::default(),
            port: None,
            path: path.to_owned(),
        }
    }

    /// Parses an address as Git does.
    pub fn parse(text: &BStr) -> Url {
        let of = |scheme, host: &[u8], path: &[u8]| Url {
            text: text.to_owned(),
            scheme,
            host: host.into(),
            port: None,
            path: path.into(),
        };
        match text.split_once_str("://") {
            Some((b"file", path)) => of(Scheme::File, b"", path),
            Some((name @ (b"http" | b"https"), rest)) => of(Scheme::Http(name.into()), rest, b""),
            Some((name, rest)) => of(Scheme::Helper(name.into()), rest, b""),
            None => of(Scheme::File, b"", text),
        }
    }
}
