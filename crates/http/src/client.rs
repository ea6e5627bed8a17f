//! A client for many threads: it keeps connections between requests, and follows redirects.

use std::{
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bstr::{BString, ByteSlice as _};
use rustls::ClientConfig;
use sys::File;

use crate::{
    Address, AddressFamily, Broken, Cause, Connected, Conversation, Failure, Head, Message, Peer, Proxies,
    Proxy, Route, Watch, connect, kept::Kept, tls::TlsSettings, without_user,
};

/// The largest number of redirects in a row.
const REDIRECTS: usize = 10;

/// Headers that the target of a redirect gets also if it is another server. All others may be
/// secrets, or signatures for the first one.
const PUBLIC: [&str; 4] = ["accept", "accept-language", "if-range", "range"];

/// The parts of a client.
pub struct Parts {
    /// The configuration of TLS with servers.
    pub tls: Arc<ClientConfig>,
    /// The settings of TLS with proxies. They are read when a proxy needs them.
    pub proxy_tls: TlsSettings,
    /// The proxies.
    pub proxies: Proxies,
    /// The limits of each connection.
    pub watch: Watch,
    /// The longest time until a connection is there.
    pub connect: Duration,
    /// The value of `User-Agent`.
    pub user_agent: BString,
    /// The largest number of connections that are kept.
    pub kept: usize,
}

/// See the module.
pub struct Client {
    parts: Parts,
    kept: Kept,
    /// The configuration of TLS with proxies, once it is needed.
    proxy_tls: Mutex<Option<Arc<ClientConfig>>>,
}

/// The body of a request.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// None.
    Empty,
    /// These bytes.
    Bytes(&'a [u8]),
    /// The first `size` bytes of a file.
    File {
        /// The file.
        file: &'a File,
        /// Its path, for messages.
        path: &'a Path,
        /// The number of bytes.
        size: u64,
    },
}

impl Body<'_> {
    fn len(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File { size, .. } => *size,
        }
    }
}

/// A request.
#[derive(Clone)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The URL. Its user and password are not sent.
    pub address: Address,
    /// All headers except `Host`, `User-Agent`, `Content-Length`, and that of a proxy.
    pub headers: Vec<(String, BString)>,
    /// The body.
    pub body: Body<'a>,
}

/// A response. Its body is read from it.
pub struct Response<'c> {
    client: &'c Client,
    /// The head.
    pub head: Head,
    /// The URL that sent it.
    pub address: Address,
    conversation: Option<Conversation>,
}

impl Client {
    /// Makes a client. It connects when a request is sent.
    pub fn new(parts: Parts) -> Client {
        let kept = Kept::new(parts.kept);
        Client { parts, kept, proxy_tls: Mutex::default() }
    }

    /// Sends a request and follows redirects. Another server gets no body, and only the headers
    /// that are no secrets.
    pub fn send(&self, mut request: Request<'_>) -> Result<Response<'_>, Broken> {
        for _ in 0..=REDIRECTS {
            let mut response = self.exchange(&request)?;
            let location = match response.head.status {
                301 | 302 | 303 | 307 | 308 => response.head.get("location"),
                _ => None,
            };
            let Some(location) = location else { return Ok(response) };
            let next = request.address.redirected(location);
            let next =
                next.ok_or_else(|| Broken::redirect(format!("a redirect to '{}'", without_user(location))))?;
            let becomes_get = match response.head.status {
                301 | 302 => request.method == "POST",
                303 => request.method != "HEAD",
                _ => false,
            };
            if becomes_get {
                (request.method, request.body) = ("GET", Body::Empty);
                request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            }
            if !next.is_same_server(&request.address) {
                if request.body.len() > 0 {
                    let place = next.authority();
                    return Err(Broken::redirect(format!("a redirect of an upload to the server '{place}'")));
                }
                let is_public = |name: &str| PUBLIC.iter().any(|one| name.eq_ignore_ascii_case(one));
                request.headers.retain(|(name, _)| is_public(name));
            }
            response.skip_arrived();
            drop(response);
            request.address = next;
        }
        Err(Broken::redirect(format!("more than {REDIRECTS} redirects")))
    }

    /// Sends a request and reads the head of its response.
    fn exchange(&self, request: &Request<'_>) -> Result<Response<'_>, Broken> {
        let proxy = self.parts.proxies.for_address(&request.address).map_err(Broken::setting)?;
        let is_relayed = proxy.is_some() && !request.address.tls;
        let whole = request.address.without_user();
        let authorization = proxy.as_ref().and_then(Proxy::authorization_without_asking);
        let headers = self.headers(request, authorization.as_ref().filter(|_| is_relayed));
        let message = Message {
            method: request.method,
            target: if is_relayed { whole.as_bstr() } else { request.address.target.as_bstr() },
            headers: &headers,
            body: match request.body {
                Body::Bytes(bytes) => bytes,
                _ => b"",
            },
        };
        while let Some(mut conversation) = self.kept.take(&request.address, Instant::now()) {
            match exchange(&mut conversation, &message, request.body) {
                Ok(head) => return Ok(self.response(request, head, conversation)),
                Err(failure) if failure.may_be_stale() => {}
                Err(failure) => return Err(self.broken(request, failure)),
            }
        }
        let mut conversation = self.connect(request, proxy.as_ref(), authorization.as_ref())?;
        let head = exchange(&mut conversation, &message, request.body);
        let head = head.map_err(|failure| self.broken(request, failure))?;
        Ok(self.response(request, head, conversation))
    }

    fn connect(
        &self,
        request: &Request<'_>,
        proxy: Option<&Proxy>,
        proxy_authorization: Option<&BString>,
    ) -> Result<Conversation, Broken> {
        let route = Route {
            address: &request.address,
            proxy,
            proxy_authorization,
            user_agent: self.parts.user_agent.as_bstr(),
            family: AddressFamily::Any,
            timeout: self.parts.connect,
            watch: &self.parts.watch,
        };
        let mut tls = |peer| match peer {
            Peer::Server => Ok(Arc::clone(&self.parts.tls)),
            Peer::Proxy => self.proxy_tls(),
        };
        match connect(&route, &mut tls)? {
            Connected::Server(conversation) => Ok(conversation),
            Connected::Refused(head) => {
                let text = format!("CONNECT tunnel failed, response {}", head.status);
                Err(Broken { text, cause: Cause::Proxy(head.status) })
            }
        }
    }

    fn proxy_tls(&self) -> Result<Arc<ClientConfig>, String> {
        let mut known = self.proxy_tls.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(config) => Ok(Arc::clone(config)),
            None => Ok(Arc::clone(known.insert(self.parts.proxy_tls.load()?))),
        }
    }

    fn broken(&self, request: &Request<'_>, failure: Failure) -> Broken {
        let path = match request.body {
            Body::File { path, .. } => Some(path),
            Body::Empty | Body::Bytes(_) => None,
        };
        let broken = Broken::failed(failure, path);
        self.forget_slow(&request.address, &broken);
        broken
    }

    /// Drops the kept connections to a server that did not answer in time: they have the same way,
    /// and each would wait as long.
    fn forget_slow(&self, address: &Address, broken: &Broken) {
        if matches!(broken.cause, Cause::TimedOut) {
            self.kept.forget(address);
        }
    }

    fn headers(&self, request: &Request<'_>, proxy: Option<&BString>) -> Vec<(String, BString)> {
        let mut headers: Vec<(String, BString)> = vec![
            ("Host".into(), request.address.authority().into()),
            ("User-Agent".into(), self.parts.user_agent.clone()),
        ];
        headers.extend(request.headers.iter().cloned());
        if let Some(value) = proxy {
            headers.push(("Proxy-Authorization".into(), value.clone()));
        }
        if request.body.len() > 0 || matches!(request.method, "POST" | "PUT") {
            headers.push(("Content-Length".into(), request.body.len().to_string().into()));
        }
        headers
    }

    fn response(&self, request: &Request<'_>, head: Head, conversation: Conversation) -> Response<'_> {
        Response { client: self, head, address: request.address.clone(), conversation: Some(conversation) }
    }
}

fn exchange(conversation: &mut Conversation, message: &Message<'_>, body: Body<'_>) -> Result<Head, Failure> {
    match body {
        Body::File { file, size, .. } => {
            conversation.exchange_from(message, &mut Positioned { file, offset: 0, size }, size)
        }
        Body::Empty | Body::Bytes(_) => conversation.exchange(message),
    }
}

/// Reads a file from an offset, so that several requests can send it.
struct Positioned<'a> {
    file: &'a File,
    offset: u64,
    size: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size - self.offset).unwrap_or(usize::MAX);
        let room = out.len().min(left);
        self.file.read_exact_at(&mut out[..room], self.offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "the file became shorter while it was sent")
            }
            _ => error,
        })?;
        self.offset += room as u64;
        Ok(room)
    }
}

impl Response<'_> {
    /// Returns the length of the body, if the server says it.
    pub fn length(&self) -> Option<u64> {
        self.head.get("content-length")?.to_str().ok()?.parse().ok()
    }

    fn skip_arrived(&mut self) {
        if let Some(conversation) = &mut self.conversation {
            conversation.skip_arrived();
        }
    }
}

impl Read for Response<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.conversation {
            Some(conversation) => conversation.read(out).inspect_err(|error| {
                self.client.forget_slow(&self.address, &Broken::receiving(error));
            }),
            None => Ok(0),
        }
    }
}

impl Drop for Response<'_> {
    /// Keeps the connection if the response was read completely.
    fn drop(&mut self) {
        let Some(mut conversation) = self.conversation.take() else { return };
        conversation.skip_arrived();
        if conversation.is_free() {
            self.client.kept.put(&self.address, conversation, Instant::now());
        }
    }
}
