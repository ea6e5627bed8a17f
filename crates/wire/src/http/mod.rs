//! sapwood's own HTTP client for Git's smart protocol: `https` and `http` without Git.
//!
//! Order: [`connect`] reads the settings for the URL and requests `info/refs`, which may redirect
//! to another URL. Each later request is one POST to `git-upload-pack` there.
//!
//! One connection at a time; the crate `http` makes it. Format: Git's `gitprotocol-http(5)`.
//! Messages that a user may search for are those of Git with libcurl and OpenSSL.

mod body;
mod client_settings;
mod cookies;
mod download;
mod netrc;
mod session;
mod settings;

use std::{
    io::{self, Read},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use ::http::{Address, AddressFamily, Watch, without_user};
use bstr::{BStr, BString, ByteSlice};

pub use client_settings::ClientSettings;
pub(super) use download::download;
pub use download::{Beginning, Resume};

use self::{
    session::{Allowed, Parts, Request, Response, Session},
    settings::UrlSettings,
};
use super::{Error, HttpError, Settings, Version, credential::Keeper, link::Link, policy};

/// The parameters of a connection.
pub(super) struct Setup<'a> {
    pub(super) settings: &'a dyn Settings,
    /// The directory in which helpers start.
    pub(super) dir: &'a Path,
    pub(super) family: AddressFamily,
    pub(super) interrupt: Option<Arc<AtomicBool>>,
    /// The number of `-v` options, or, negative, of `-q` options.
    pub(super) verbosity: i32,
    /// `remote.<name>.proxy`, which overrides `http.proxy`.
    pub(super) proxy: Option<BString>,
}

impl Setup<'_> {
    fn session(&self, url: &BStr) -> Result<(Session, Address), Error> {
        // libcurl takes no blank in a URL.
        let address = Address::parse(url).filter(|_| !url.contains(&b' '));
        let address = address.ok_or_else(|| {
            let reason = "URL rejected: Malformed input to a URL function".into();
            HttpError::Access { url: without_user(url), reason }
        })?;
        let mut settings = UrlSettings::load(self.settings, &address)?;
        if self.proxy.is_some() {
            settings.proxies.configured.clone_from(&self.proxy);
        }
        let keeper = Keeper::new(self.settings, self.dir.to_owned(), self.interrupt.clone());
        let is_allowed = |scheme: &str| policy::check(self.settings, scheme.into()).is_ok();
        let parts = Parts {
            watch: Watch { low_speed: settings.low_speed, idle: None, interrupt: self.interrupt.clone() },
            settings,
            family: self.family,
            print: self.settings.message_printer(),
            keeper,
            dir: self.dir.to_owned(),
            allowed: Allowed { http: is_allowed("http"), https: is_allowed("https") },
        };
        Ok((Session::new(parts, &address), address))
    }
}

/// A link to `upload-pack` behind an HTTP server.
struct HttpLink {
    session: Session,
    /// The URL of the repository, with a trailing slash.
    base: Address,
    version: Version,
    /// The beginning of the greeting, which was read to detect a smart server.
    prefix: io::Cursor<Vec<u8>>,
}

/// Connects to the repository at `url`, and requests this protocol version.
pub(super) fn connect(setup: &Setup<'_>, url: &BStr, version: Version) -> Result<Box<dyn Link>, Error> {
    let (mut session, mut base) = setup.session(url)?;
    if !base.target.ends_with(b"/") {
        base.target.push(b'/');
    }
    let separator = if base.target.contains(&b'?') { '&' } else { '?' };
    let tail = format!("info/refs{separator}service=git-upload-pack");
    let mut address = base.clone();
    address.target.extend_from_slice(tail.as_bytes());
    let mut headers: Vec<(&'static str, BString)> =
        vec![("Accept", "*/*".into()), ("Pragma", "no-cache".into())];
    headers.extend(version_header(version));
    let request = Request { method: "GET", address, tail: &tail, headers, body: b"", is_first: true };
    let asked = request.address.clone();
    let Response { head, address } = session.request(request)?;
    if address != asked {
        match redirected_base(&asked, &address, &tail) {
            Ok(new) => {
                base = new;
                if setup.verbosity >= 0 {
                    (session.print)(&format!("warning: redirecting to {}", base.without_user()));
                }
            }
            Err(error) if head.status < 300 => return Err(error.into()),
            Err(_) => {}
        }
    }
    let shown = base.without_user();
    if head.status >= 300 {
        session.show_text(&head);
    }
    match head.status {
        200..=299 => {}
        404 | 410 => return Err(HttpError::NotFound(shown).into()),
        status => {
            let reason = format!("The requested URL returned error: {status}");
            return Err(HttpError::Access { url: shown, reason }.into());
        }
    }
    let content_type =
        head.get("content-type").map(|text| text.split_str(";").next().unwrap_or_default().trim());
    let is_smart = content_type == Some(b"application/x-git-upload-pack-advertisement");
    let prefix = if is_smart {
        skip_service_line(&mut session).map_err(HttpError::Io)?
    } else {
        return Err(dumb(&mut session, shown).into());
    };
    Ok(Box::new(HttpLink { session, base, version, prefix: io::Cursor::new(prefix) }))
}

/// Returns the header that requests a protocol version.
fn version_header(version: Version) -> Option<(&'static str, BString)> {
    (version != Version::V0).then(|| ("Git-Protocol", format!("version={}", version.number()).into()))
}

/// Returns the URL of the repository after a redirect. The end of the path must be unchanged.
fn redirected_base(asked: &Address, address: &Address, tail: &str) -> Result<Address, HttpError> {
    let mut base = address.clone();
    match address.target.strip_suffix(tail.as_bytes()) {
        Some(path) => base.target = path.into(),
        None => {
            return Err(HttpError::RedirectBase {
                asked: asked.without_user(),
                redirect: address.without_user(),
            });
        }
    }
    Ok(base)
}

/// Reads `# service=git-upload-pack` and the flush packet after it. Returns the bytes that were
/// read beyond them, which belong to the greeting.
fn skip_service_line(session: &mut Session) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    session.read_exact(&mut packet)?;
    let length = std::str::from_utf8(&packet).ok().and_then(|text| u16::from_str_radix(text, 16).ok());
    if let Some(length) = length.filter(|length| *length > 4) {
        packet.resize(usize::from(length), 0);
        session.read_exact(&mut packet[4..])?;
    }
    if !packet[4..].starts_with(b"# service=") {
        return Ok(packet);
    }
    let mut flush = vec![0; 4];
    session.read_exact(&mut flush)?;
    Ok(if flush == b"0000" { Vec::new() } else { flush })
}

/// Returns the error for a server without the smart protocol: it is a dumb server, or not a
/// repository.
fn dumb(session: &mut Session, url: BString) -> HttpError {
    const BEGINNING: u64 = 64 << 10;
    let mut text = Vec::new();
    if let Err(error) = session.take(BEGINNING).read_to_end(&mut text) {
        return HttpError::Io(error);
    }
    let line = text.lines().next().unwrap_or_default();
    let is_ref = |line: &[u8]| {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        matches!(digits, 40 | 64) && line.get(digits) == Some(&b'\t')
    };
    if text.is_empty() || is_ref(line) { HttpError::Dumb } else { HttpError::NotARepository(url) }
}

impl Read for HttpLink {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.prefix.read(out)? {
            0 => self.session.read(out),
            read => Ok(read),
        }
    }
}

impl Link for HttpLink {
    fn is_stateless(&self) -> bool {
        true
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        let mut address = self.base.clone();
        address.target.extend_from_slice(b"git-upload-pack");
        let mut headers: Vec<(&'static str, BString)> = vec![
            ("Content-Type", "application/x-git-upload-pack-request".into()),
            ("Accept", "application/x-git-upload-pack-result".into()),
        ];
        headers.extend(version_header(self.version));
        let packed = body::compressed(request);
        if packed.is_some() {
            headers.push(("Content-Encoding", "gzip".into()));
        }
        let request = Request {
            method: "POST",
            address,
            tail: "git-upload-pack",
            headers,
            body: packed.as_deref().unwrap_or(request),
            is_first: false,
        };
        self.prefix = io::Cursor::default();
        let Response { head, .. } = self.session.request(request)?;
        match head.status {
            200..=299 => Ok(()),
            status => {
                let reason = format!("HTTP {status} curl 22 The requested URL returned error: {status}");
                Err(HttpError::Rpc(reason).into())
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.session.drain();
        Ok(())
    }
}
