//! Requests to one repository: connections, redirects, authentication, cookies, retries.
//!
//! Order: a request is sent; a response of 401, 407, 429 or a redirect leads to another request;
//! the final response's head is returned, and its body is read from the session. Secrets are sent
//! only to the server that requested them, never to the target of a redirect.

mod auth;

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ::http::{
    Address, AddressFamily, Broken, Cause, Connected, Conversation, Head, Interrupted, Message, Peer, Proxy,
    Route, Watch, tls::ClientConfig,
};
use bstr::{BString, ByteSlice};

use self::auth::Offered;
use super::{
    cookies::Jar,
    settings::{Redirects, UrlSettings},
};
use crate::{
    HttpError,
    credential::{Credential, Keeper},
};

/// The timeout for connecting, which is curl's.
const CONNECT: Duration = Duration::from_secs(300);

/// The maximum number of redirects in a row, which is the limit that Git sets for curl.
const MAX_REDIRECTS: usize = 20;

/// The maximum number of credentials that are tried for one request.
const MAX_ATTEMPTS: usize = 3;

/// The longest time for which an idle connection is used again. Servers and firewalls close others.
const IDLE: Duration = Duration::from_secs(60);

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    pub(super) address: Address,
    /// The end of the path that does not belong to the repository.
    pub(super) tail: &'a str,
    /// Headers of this request only.
    pub(super) headers: Vec<(&'static str, BString)>,
    pub(super) body: &'a [u8],
    /// True for the first request of a session.
    pub(super) is_first: bool,
}

/// The response to a request.
pub(super) struct Response {
    pub(super) head: Head,
    /// The URL that sent the response.
    pub(super) address: Address,
}

/// The state that is kept between requests.
pub(super) struct Session {
    pub(super) settings: UrlSettings,
    pub(super) family: AddressFamily,
    pub(super) watch: Watch,
    /// Prints a line.
    pub(super) print: fn(&str),
    pub(super) keeper: Keeper,
    pub(super) dir: PathBuf,
    allowed: Allowed,
    /// The credential, and the URL to which it belongs.
    credential: (Credential, Address),
    /// The value of `Authorization` for that URL.
    authorization: Option<BString>,
    offered: Offered,
    proxy_authorization: Option<BString>,
    tls: Option<Arc<ClientConfig>>,
    proxy_tls: Option<Arc<ClientConfig>>,
    jar: Jar,
    connection: Option<Open>,
}

/// The open connection.
struct Open {
    server: Address,
    conversation: Conversation,
    /// The time of the last response's head.
    used: Instant,
}

/// The schemes that a redirect may lead to: `protocol.allow`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    pub(super) http: bool,
    pub(super) https: bool,
}

/// The parts of a new session.
pub(super) struct Parts {
    pub(super) settings: UrlSettings,
    pub(super) family: AddressFamily,
    pub(super) watch: Watch,
    /// Prints a line.
    pub(super) print: fn(&str),
    pub(super) keeper: Keeper,
    pub(super) dir: PathBuf,
    pub(super) allowed: Allowed,
}

impl Session {
    pub(super) fn new(parts: Parts, address: &Address) -> Session {
        let Parts { settings, family, watch, print, keeper, dir, allowed } = parts;
        let jar = settings.cookie_file.as_ref().map(|path| Jar::load(path)).unwrap_or_default();
        Session {
            settings,
            family,
            watch,
            print,
            keeper,
            dir,
            allowed,
            credential: (Credential::of(address), address.clone()),
            authorization: None,
            offered: Offered::Nothing,
            proxy_authorization: None,
            tls: None,
            proxy_tls: None,
            jar,
            connection: None,
        }
    }

    /// Sends a request, and the further requests that its response requires.
    pub(super) fn request(&mut self, mut request: Request<'_>) -> Result<Response, HttpError> {
        self.offer_early(&request)?;
        let (mut redirects, mut attempts, mut proxy_attempts, mut retries) = (0, 0, 0, 0);
        loop {
            let head = self.exchange(&request)?;
            match head.status {
                401 => {
                    attempts += 1;
                    if attempts > MAX_ATTEMPTS || !self.authenticate(&head, &request)? {
                        self.show_text(&head);
                        return Err(HttpError::Authentication(self.shown(&request)));
                    }
                }
                407 => {
                    proxy_attempts += 1;
                    if proxy_attempts > 1 || !self.authenticate_at_proxy(&request)? {
                        return Err(self.broken(&request, "CONNECT tunnel failed, response 407"));
                    }
                }
                429 => {
                    retries += 1;
                    self.wait_to_retry(&head, &request, retries)?;
                }
                301 | 302 | 303 | 307 | 308 if self.follows(&request) && head.get("location").is_some() => {
                    redirects += 1;
                    if redirects > MAX_REDIRECTS {
                        let text = format!("Maximum ({MAX_REDIRECTS}) redirects followed");
                        return Err(self.broken(&request, &text));
                    }
                    self.redirect(&mut request, &head)?;
                }
                status => {
                    if status < 300 {
                        let (credential, place) = &mut self.credential;
                        self.keeper.approve(credential, place);
                    }
                    return Ok(Response { head, address: request.address });
                }
            }
        }
    }

    /// Returns the repository's URL for messages.
    pub(super) fn shown(&self, request: &Request<'_>) -> BString {
        let text = request.address.without_user();
        text.strip_suffix(request.tail.as_bytes()).unwrap_or(&text).into()
    }

    fn broken(&self, request: &Request<'_>, reason: &str) -> HttpError {
        HttpError::Access { url: self.shown(request), reason: reason.to_owned() }
    }

    fn follows(&self, request: &Request<'_>) -> bool {
        match self.settings.redirects {
            Redirects::Always => true,
            Redirects::Never => false,
            Redirects::Initial => request.is_first,
        }
    }

    /// Changes a request to follow a redirect.
    fn redirect(&mut self, request: &mut Request<'_>, head: &Head) -> Result<(), HttpError> {
        let location = head.get("location").unwrap_or_default();
        let next = request.address.redirected(location);
        let is_allowed = |next: &Address| if next.tls { self.allowed.https } else { self.allowed.http };
        let Some(next) = next.filter(is_allowed) else {
            let scheme = location.split_str(":").next().unwrap_or_default().as_bstr();
            return Err(self.broken(request, &format!("Protocol \"{scheme}\" disabled by redirect")));
        };
        // As in curl and browsers, a redirected POST becomes a GET.
        if request.method == "POST" && matches!(head.status, 301..=303) {
            (request.method, request.body) = ("GET", b"");
        }
        request.address = next;
        Ok(())
    }

    /// Waits before a retry after status 429 (too many requests): `http.maxRetries`.
    fn wait_to_retry(&self, head: &Head, request: &Request<'_>, number: u64) -> Result<(), HttpError> {
        let settings = &self.settings;
        let told = head.get("retry-after").and_then(|text| text.to_str().ok()?.trim().parse().ok());
        let seconds = told.unwrap_or(settings.retry_after);
        if number > settings.max_retries {
            return match told {
                Some(seconds) => Err(HttpError::RateLimited { url: self.shown(request), seconds }),
                None => Err(self.broken(request, "The requested URL returned error: 429")),
            };
        }
        if seconds > settings.max_retry_time {
            let limit = settings.max_retry_time;
            let refused = match told {
                Some(_) => format!(
                    "error: rate limited (HTTP 429) requested {seconds} second delay, \
                     but this is greater than http.maxRetryTime of {limit} seconds"
                ),
                None => format!(
                    "error: configured http.retryAfter of {seconds} seconds exceeds \
                     http.maxRetryTime of {limit} seconds"
                ),
            };
            (self.print)(&refused);
            return Err(self.broken(request, "The requested URL returned error: 429"));
        }
        (self.print)(&format!("warning: rate limited, waiting {seconds} seconds before retry"));
        ::http::sleep(&self.watch.interrupt, Duration::from_secs(seconds))
            .map_err(|Interrupted| interrupted())
    }

    /// Sends one request and reads the head of its response. The body can be read afterwards.
    fn exchange(&mut self, request: &Request<'_>) -> Result<Head, HttpError> {
        let kept = self.kept(&request.address);
        let proxy = self.proxy(&request.address)?;
        let headers = self.headers(request, proxy.as_ref());
        let whole = request.address.without_user();
        let is_relayed = proxy.is_some() && !request.address.tls;
        let message = Message {
            method: request.method,
            target: if is_relayed { whole.as_bstr() } else { request.address.target.as_bstr() },
            headers: &headers,
            body: request.body,
        };
        if let Some(mut conversation) = kept {
            // The server may close an idle connection at any time. Sending the request again is
            // safe: requests of Git's protocol over HTTP change nothing on the server.
            match conversation.exchange(&message) {
                Ok(head) => return Ok(self.received(request, head, conversation)),
                Err(failure) if failure.may_be_stale() => {}
                Err(failure) => return Err(self.failed(request, failure.into())),
            }
        }
        let mut conversation = match self.connect(request, proxy.as_ref()) {
            Ok(Connected::Server(conversation)) => conversation,
            Ok(Connected::Refused(head)) => return Ok(head),
            Err(broken) => return Err(self.failed(request, broken)),
        };
        match conversation.exchange(&message) {
            Ok(head) => Ok(self.received(request, head, conversation)),
            Err(failure) => Err(self.failed(request, failure.into())),
        }
    }

    /// Returns the open connection if another request to this server can be sent on it.
    fn kept(&mut self, server: &Address) -> Option<Conversation> {
        let open = self.connection.take()?;
        if !open.server.is_same_server(server) || open.used.elapsed() >= IDLE {
            return None;
        }
        let mut conversation = open.conversation;
        conversation.drain();
        conversation.is_free().then_some(conversation)
    }

    fn failed(&self, request: &Request<'_>, broken: Broken) -> HttpError {
        match broken.cause {
            Cause::Interrupted => interrupted(),
            Cause::Setting => HttpError::Setting(broken.text),
            _ => self.broken(request, &broken.text),
        }
    }

    fn received(&mut self, request: &Request<'_>, head: Head, conversation: Conversation) -> Head {
        // As in curl, cookies count only if a file for them is configured.
        for cookie in head.all("set-cookie").filter(|_| self.settings.keeps_cookies) {
            self.jar.take(cookie, &request.address);
        }
        let server = request.address.clone();
        self.connection = Some(Open { server, conversation, used: Instant::now() });
        head
    }

    /// Returns all headers of a request.
    fn headers(&self, request: &Request<'_>, proxy: Option<&Proxy>) -> Vec<(String, BString)> {
        let mut headers: Vec<(String, BString)> = vec![("Host".into(), request.address.authority().into())];
        let mut put = |name: &str, value: BString| headers.push((name.to_owned(), value));
        let is_own_server = request.address.is_same_server(&self.credential.1);
        if let Some(authorization) = self.authorization.as_ref().filter(|_| is_own_server) {
            put("Authorization", authorization.clone());
        }
        if let Some(proxy) = proxy.filter(|_| !request.address.tls)
            && let Some(value) = self.proxy_authorization.as_ref().or(proxy.authorization.as_ref())
        {
            put("Proxy-Authorization", value.clone());
        }
        put("User-Agent", self.settings.user_agent.clone());
        for (name, value) in &request.headers {
            put(name, value.clone());
        }
        if let Some(languages) = &self.settings.accept_language {
            put("Accept-Language", languages.as_str().into());
        }
        if let Some(cookies) = self.jar.header(&request.address) {
            put("Cookie", cookies);
        }
        if request.method == "POST" {
            put("Content-Length", request.body.len().to_string().into());
        }
        let extra = self.settings.extra_headers.iter().filter_map(|header| {
            let (name, value) = header.split_once_str(":")?;
            let name = name.to_str().ok()?;
            let is_secret = ["authorization", "cookie"].iter().any(|one| name.eq_ignore_ascii_case(one));
            let is_sent = (is_own_server || !is_secret) && ::http::is_header(name, value);
            is_sent.then(|| (name.to_owned(), BString::from(value.trim())))
        });
        let extra: Vec<_> = extra.collect();
        // As in curl, a configured header replaces the default header of the same name, and an
        // empty value removes it.
        headers.retain(|(known, _)| !extra.iter().any(|(name, _)| name.eq_ignore_ascii_case(known)));
        headers.extend(extra.into_iter().filter(|(_, value)| !value.is_empty()));
        headers
    }

    /// Returns the proxy for a URL; `None` for a direct connection.
    fn proxy(&self, address: &Address) -> Result<Option<Proxy>, HttpError> {
        self.settings.proxies.for_address(address).map_err(HttpError::Setting)
    }

    /// Connects to the server, or to the proxy.
    fn connect(&mut self, request: &Request<'_>, proxy: Option<&Proxy>) -> Result<Connected, Broken> {
        let own = proxy.and_then(|proxy| proxy.authorization.as_ref());
        let route = Route {
            address: &request.address,
            proxy,
            proxy_authorization: self.proxy_authorization.as_ref().or(own),
            user_agent: self.settings.user_agent.as_bstr(),
            family: self.family,
            timeout: CONNECT,
            watch: &self.watch,
        };
        let (tls, proxy_tls, settings) = (&mut self.tls, &mut self.proxy_tls, &self.settings);
        ::http::connect(&route, &mut |peer| {
            let (known, settings) = match peer {
                Peer::Server => (&mut *tls, &settings.tls),
                Peer::Proxy => (&mut *proxy_tls, &settings.proxy_tls),
            };
            match known {
                Some(config) => Ok(Arc::clone(config)),
                None => Ok(Arc::clone(known.insert(settings.load()?))),
            }
        })
    }

    /// Prints the body of a response that refuses a request, if it is plain text: it is the
    /// server's explanation. Control characters, which could change the terminal, are replaced.
    pub(super) fn show_text(&mut self, head: &Head) {
        const LIMIT: u64 = 64 << 10;
        let is_text =
            |text: &[u8]| text.split_str(";").next().is_some_and(|kind| kind.trim() == b"text/plain");
        if !head.get("content-type").is_some_and(|kind| is_text(kind)) {
            return;
        }
        let mut body = Vec::new();
        // The status is the error to report, even if the body cannot be read.
        let _ = self.take(LIMIT).read_to_end(&mut body);
        let clean = |letter: char| if letter.is_control() && letter != '\t' { '?' } else { letter };
        let body = body.to_str_lossy();
        let lines = body.trim().lines();
        for line in lines {
            (self.print)(&format!("remote: {}", line.chars().map(clean).collect::<String>()));
        }
    }

    /// Skips the rest of the response, if it is short, so that the connection can be reused.
    pub(super) fn drain(&mut self) {
        if let Some(open) = &mut self.connection {
            open.conversation.drain();
        }
    }
}

impl Read for Session {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.connection {
            Some(open) => open.conversation.read(out).map_err(|error| {
                if Interrupted::caused(&error) { io::Error::other(crate::Error::Interrupted) } else { error }
            }),
            None => Ok(0),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(path) = self.settings.cookie_file.as_ref().filter(|_| self.settings.saves_cookies) {
            save(&self.dir.join(path), &self.jar.file());
        }
    }
}

/// Writes the cookies. An error is ignored, as in Git.
fn save(path: &std::path::Path, content: &[u8]) {
    let mut beside = path.to_owned().into_os_string();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = sys::by_path::create_new(&beside, 0o600)
        .and_then(|mut file| io::Write::write_all(&mut file, content))
        .and_then(|()| sys::by_path::rename(&beside, path));
    if written.is_err() {
        let _ = sys::by_path::remove_file(&beside);
    }
}

fn interrupted() -> HttpError {
    HttpError::Io(io::Error::other(crate::Error::Interrupted))
}
