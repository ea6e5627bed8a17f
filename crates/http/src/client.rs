//! A client for many threads: it keeps connections between requests, and follows redirects.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bstr::{BString, ByteSlice as _};
use rustls::ClientConfig;
use sys::File;

use crate::{
    Address, AddressFamily, Broken, Cause, Connected, Conversation, Head, Interrupted, Message, Proxies,
    Route, Watch, connect,
};

/// The largest number of redirects in a row.
const REDIRECTS: usize = 10;

/// Headers that only the server gets to which the request was addressed.
const SECRETS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-amz-security-token"];

/// The parts of a client.
pub struct Parts {
    /// The configuration of TLS.
    pub tls: Arc<ClientConfig>,
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
    /// Connections that no request uses, the newest last.
    kept: Mutex<Vec<(Address, Conversation)>>,
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
        Client { parts, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Address, Conversation)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and follows redirects. Secrets go to no other server.
    pub fn send(&self, mut request: Request<'_>) -> Result<Response<'_>, Broken> {
        for _ in 0..=REDIRECTS {
            let mut response = self.exchange(&request)?;
            let location = match response.head.status {
                301 | 302 | 303 | 307 | 308 => response.head.get("location"),
                _ => None,
            };
            let Some(location) = location else { return Ok(response) };
            let next = request.address.redirected(location);
            let next = next.ok_or_else(|| Broken::setting(format!("a redirect to '{location}'")))?;
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
                let is_secret = |name: &str| SECRETS.iter().any(|one| name.eq_ignore_ascii_case(one));
                request.headers.retain(|(name, _)| !is_secret(name));
            }
            response.skip_arrived();
            drop(response);
            request.address = next;
        }
        Err(Broken::setting(format!("more than {REDIRECTS} redirects")))
    }

    /// Sends a request and reads the head of its response.
    fn exchange(&self, request: &Request<'_>) -> Result<Response<'_>, Broken> {
        let proxy = self.parts.proxies.for_address(&request.address).map_err(Broken::setting)?;
        let is_relayed = proxy.is_some() && !request.address.tls;
        let whole = request.address.without_user();
        let authorization = proxy.as_ref().and_then(|proxy| proxy.authorization.as_ref());
        let headers = self.headers(request, authorization.filter(|_| is_relayed));
        let message = Message {
            method: request.method,
            target: if is_relayed { whole.as_bstr() } else { request.address.target.as_bstr() },
            headers: &headers,
            body: match request.body {
                Body::Bytes(bytes) => bytes,
                _ => b"",
            },
        };
        while let Some(mut conversation) = self.take(&request.address) {
            match exchange(&mut conversation, &message, request.body) {
                Ok(head) => return Ok(self.response(request, head, conversation)),
                Err(error) if error.kind() == io::ErrorKind::TimedOut || Interrupted::caused(&error) => {
                    return Err(error.into());
                }
                // The server may close an idle connection at any time.
                Err(_) => {}
            }
        }
        let route = Route {
            address: &request.address,
            proxy: proxy.as_ref(),
            proxy_authorization: authorization,
            user_agent: self.parts.user_agent.as_bstr(),
            family: AddressFamily::Any,
            timeout: self.parts.connect,
            watch: &self.parts.watch,
        };
        let mut conversation = match connect(&route, &mut || Ok(Arc::clone(&self.parts.tls)))? {
            Connected::Server(conversation) => conversation,
            Connected::Refused(head) => {
                let text = format!("CONNECT tunnel failed, response {}", head.status);
                return Err(Broken { text, cause: Cause::Proxy(head.status) });
            }
        };
        let head = exchange(&mut conversation, &message, request.body)?;
        Ok(self.response(request, head, conversation))
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

    /// Returns a kept connection to a server.
    fn take(&self, address: &Address) -> Option<Conversation> {
        let mut kept = self.kept();
        let at = kept.iter().rposition(|(server, _)| server.is_same_server(address))?;
        Some(kept.remove(at).1)
    }

    fn response(&self, request: &Request<'_>, head: Head, conversation: Conversation) -> Response<'_> {
        Response { client: self, head, address: request.address.clone(), conversation: Some(conversation) }
    }
}

fn exchange(conversation: &mut Conversation, message: &Message<'_>, body: Body<'_>) -> io::Result<Head> {
    let sent = match body {
        Body::File { file, size } => {
            conversation.send_from(message, &mut Positioned { file, offset: 0, size }, size)
        }
        Body::Empty | Body::Bytes(_) => conversation.send(message),
    };
    match sent {
        Err(error) if error.kind() == io::ErrorKind::TimedOut || Interrupted::caused(&error) => Err(error),
        // A server that refuses a long request may respond before it has read all of it.
        sent => conversation.receive(message.method).map_err(|error| sent.err().unwrap_or(error)),
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
        self.file.read_exact_at(&mut out[..room], self.offset)?;
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
            Some(conversation) => conversation.read(out),
            None => Ok(0),
        }
    }
}

impl Drop for Response<'_> {
    /// Keeps the connection if the response was read completely.
    fn drop(&mut self) {
        let Some(mut conversation) = self.conversation.take() else { return };
        conversation.skip_arrived();
        if !conversation.is_free() {
            return;
        }
        let mut kept = self.client.kept();
        if kept.len() >= self.client.parts.kept.max(1) {
            kept.remove(0);
        }
        kept.push((self.address.clone(), conversation));
    }
}
