//! The HTTP client of all remotes: that of the crate `http`, with the settings of remotes.

use std::{
    io::{self, Read as _},
    ops::Range,
    os::unix::ffi::OsStringExt as _,
    sync::Arc,
    time::Duration,
};

use bstr::{BString, ByteSlice as _};
use http::{
    Broken, Cause, Client, Interrupted, Parts, Proxies, Proxy, Request, Response, Watch,
    tls::{ClientConfig, TlsSettings},
};

use super::{
    retry::{Attempt, Retry, bad_status},
    tls,
};
use crate::{Error, Options};

/// The longest time for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A client, and how it repeats.
#[derive(Clone)]
pub(super) struct Http {
    client: Arc<Client>,
    tls: Arc<ClientConfig>,
    pub(super) retry: Retry,
    /// The file of trusted certificates, for messages.
    pub(super) authorities: Arc<str>,
}

impl Http {
    /// Makes a client. `ca_variable` is one more variable that names a file of certificates.
    pub(super) fn new(options: &Options<'_>, ca_variable: Option<&str>) -> Result<Http, Error> {
        let (tls, authorities) = tls::config(options, ca_variable)?;
        let variable = |name: &str| Some(BString::from((options.variable)(name)?.into_vec()));
        if options.proxy.as_deref().is_some_and(|url| !url.is_empty() && Proxy::parse(url.into()).is_err()) {
            return Err(Error::Setting(format!(
                "bad URL of a proxy in {}",
                format::keys::http::PROXY.name()
            )));
        }
        let configured = options.proxy.as_ref().map(|proxy| proxy.as_str().into());
        Ok(Http::of(
            options,
            tls,
            Proxies::of(configured, &variable),
            options.timeout,
            &authorities.to_string(),
        ))
    }

    /// Returns a client for services of this machine, which answer within `timeout` or are not
    /// there. It trusts the same authorities, and has no proxy.
    pub(super) fn near(&self, options: &Options<'_>, timeout: Duration) -> Http {
        let tls = Arc::clone(&self.tls);
        let http = Http::of(options, tls, Proxies::default(), timeout, &self.authorities);
        Http { retry: http.retry.short(), ..http }
    }

    fn of(
        options: &Options<'_>,
        tls: Arc<ClientConfig>,
        proxies: Proxies,
        timeout: Duration,
        authorities: &str,
    ) -> Http {
        let client = Client::new(Parts {
            tls: Arc::clone(&tls),
            proxy_tls: TlsSettings { ca_file: tls::proxy_authorities(options), ..TlsSettings::default() },
            proxies,
            watch: Watch {
                low_speed: None,
                idle: Some(timeout),
                interrupt: Some(Arc::clone(&options.interrupt)),
            },
            connect: timeout.min(CONNECT),
            user_agent: concat!("sapwood/", env!("CARGO_PKG_VERSION")).into(),
            kept: options.connections,
        });
        Http { client: Arc::new(client), tls, retry: Retry::of(options), authorities: authorities.into() }
    }

    /// Sends a request. Returns the response, whatever its status is.
    pub(super) fn send(&self, mut request: Request<'_>, address: &str) -> Result<Response<'_>, Attempt> {
        if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            request.headers.push(("Accept".into(), "*/*".into()));
        }
        self.client.send(request).map_err(|broken| no_answer(address, broken))
    }
}

/// Returns the text of a header.
pub(super) fn text<'r>(response: &'r Response<'_>, name: &str) -> Option<&'r str> {
    response.head.get(name)?.to_str().ok()
}

/// Returns true for a status of success.
pub(super) fn is_success(response: &Response<'_>) -> bool {
    (200..300).contains(&response.head.status)
}

/// Reads a response that must hold exactly the bytes of `range`.
pub(super) fn read_range(
    response: Response<'_>,
    range: &Range<u64>,
    address: &str,
) -> Result<Vec<u8>, Attempt> {
    let wrong = |reason: String| Attempt::Final(Error::Wrong { address: address.to_owned(), reason });
    let expected = range.end - range.start;
    match response.head.status {
        206 => {
            let given = text(&response, "content-range");
            let asked = format!("bytes {}-{}/", range.start, range.end - 1);
            if !given.is_some_and(|given| given.starts_with(&asked)) {
                return Err(wrong(format!("asked for {asked}, got {}", given.unwrap_or("no range"))));
            }
        }
        // The server sends whole files alone. That is right for one that is asked for as a whole.
        200 if range.start == 0 && response.length() == Some(expected) => {}
        200 => {
            return Err(wrong(format!(
                "asked for bytes {}-{}, got the whole file",
                range.start,
                range.end - 1
            )));
        }
        _ => return Err(bad_status(address, response)),
    }
    let length = usize::try_from(expected).map_err(|_| wrong("a range larger than memory".into()))?;
    let bytes = read_body(response, length, address)?;
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(wrong(format!("asked for {expected} bytes, got {}", bytes.len())))
    }
}

/// Reads the body of a response. One longer than `limit` is an error.
pub(super) fn read_body(mut response: Response<'_>, limit: usize, address: &str) -> Result<Vec<u8>, Attempt> {
    let announced = response.length().and_then(|length| usize::try_from(length).ok());
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(limit) + 1);
    let read = response.by_ref().take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| cut(address, &error))?;
    if bytes.len() > limit {
        let reason = format!("more than {limit} bytes");
        return Err(Error::Wrong { address: address.to_owned(), reason }.into());
    }
    Ok(bytes)
}

/// Returns the failure that a body without an end is.
fn cut(address: &str, error: &io::Error) -> Attempt {
    if Interrupted::caused(error) {
        return Attempt::Final(Error::Interrupted);
    }
    let error = Error::Failed { address: address.to_owned(), reason: error.to_string() };
    Attempt::Passing { error, after: None }
}

/// Returns the failure that a request without an answer is.
fn no_answer(address: &str, broken: Broken) -> Attempt {
    let (address, reason) = (address.to_owned(), broken.text);
    let error = match broken.cause {
        Cause::Certificate(why) => {
            let (reason, authorities) = (tls::words(&why), String::new());
            return Attempt::Final(Error::Certificate { address, reason, authorities });
        }
        Cause::ProxyCertificate(proxy, why) => {
            let reason = format!(
                "the certificate of the proxy '{proxy}' is refused: {}; http.proxySSLCAInfo names the file with \
                 that of its authority",
                tls::words(&why)
            );
            return Attempt::Final(Error::Unreachable { address, reason });
        }
        Cause::Interrupted => return Attempt::Final(Error::Interrupted),
        Cause::Setting => return Attempt::Final(Error::Setting(format!("{address}: {reason}"))),
        Cause::Redirect => return Attempt::Final(Error::Failed { address, reason }),
        Cause::Body { path, source } => return Attempt::Final(Error::Io { what: "read", path, source }),
        Cause::Proxy(407) => return Attempt::Final(Error::Denied { address, reason }),
        Cause::Proxy(_) => Error::Unreachable { address, reason },
        Cause::Unreachable(reason) => Error::Unreachable { address, reason },
        Cause::TimedOut | Cause::Transfer => Error::Failed { address, reason },
    };
    Attempt::Passing { error, after: None }
}
