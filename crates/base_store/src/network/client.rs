//! The HTTP client of all remotes: TLS by rustls with ring, proxies by `http.proxy`, else by the
//! usual variables.

use std::{ops::Range, sync::Arc, time::Duration};

use reqwest::{
    Client, ClientBuilder, NoProxy, Proxy, RequestBuilder, Response, StatusCode, header::CONTENT_RANGE,
};
use rustls::ClientConfig;

use super::{
    progress::Progress,
    retry::{Attempt, Retry, bad_status, no_answer},
    tls,
};
use crate::{Error, Options};

/// The longest time for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A client, and how it repeats.
#[derive(Clone)]
pub(super) struct Http {
    /// For requests without bodies. A read that takes long fails.
    pub(super) client: Client,
    /// For requests with bodies: the time until the answer includes that of sending.
    pub(super) sender: Client,
    pub(super) retry: Retry,
    pub(super) timeout: Duration,
    /// The file of trusted certificates, for messages.
    pub(super) authorities: Arc<str>,
}

impl Http {
    /// Makes a client. `ca_variable` is one more variable that names a file of certificates.
    pub(super) fn new(options: &Options<'_>, ca_variable: Option<&str>) -> Result<Http, Error> {
        let (tls, authorities) = tls::config(options, ca_variable)?;
        let built = |builder: ClientBuilder| {
            builder.build().map_err(|error| Error::Setting(format!("cannot make an HTTP client: {error}")))
        };
        let sender = builder(options, tls.clone())?;
        let client = builder(options, tls)?.read_timeout(options.timeout);
        Ok(Http {
            client: built(client)?,
            sender: built(sender)?,
            retry: Retry::of(options),
            timeout: options.timeout,
            authorities: authorities.to_string().into(),
        })
    }

    /// Sends a request that has no body, or a short one.
    pub(super) async fn send(&self, request: RequestBuilder, address: &str) -> Result<Response, Attempt> {
        request.send().await.map_err(|error| no_answer(address, error))
    }

    /// Sends a request of [`Http::sender`] whose body marks its progress.
    pub(super) async fn send_watched(
        &self,
        request: RequestBuilder,
        progress: &Progress,
        address: &str,
    ) -> Result<Response, Attempt> {
        match progress.watch(self.timeout, request.send()).await {
            Some(sent) => sent.map_err(|error| no_answer(address, error)),
            None => {
                let reason = format!("no progress for {} seconds", self.timeout.as_secs_f32());
                Err(Attempt::Passing {
                    error: Error::Failed { address: address.to_owned(), reason },
                    after: None,
                })
            }
        }
    }
}

/// Reads a response that must hold exactly the bytes of `range`.
pub(super) async fn read_range(
    response: Response,
    range: &Range<u64>,
    address: &str,
) -> Result<Vec<u8>, Attempt> {
    let wrong = |reason: String| Attempt::Final(Error::Wrong { address: address.to_owned(), reason });
    let expected = range.end - range.start;
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let given = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
            let asked = format!("bytes {}-{}/", range.start, range.end - 1);
            if !given.is_some_and(|given| given.starts_with(&asked)) {
                return Err(wrong(format!("asked for {asked}, got {}", given.unwrap_or("no range"))));
            }
        }
        // The server sends whole files alone. That is right for one that is asked for as a whole.
        StatusCode::OK if range.start == 0 && response.content_length() == Some(expected) => {}
        StatusCode::OK => {
            return Err(wrong(format!(
                "asked for bytes {}-{}, got the whole file",
                range.start,
                range.end - 1
            )));
        }
        _ => return Err(bad_status(address, response).await),
    }
    let length = usize::try_from(expected).map_err(|_| wrong("a range larger than memory".into()))?;
    let bytes = read_body(response, length, address).await?;
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(wrong(format!("asked for {expected} bytes, got {}", bytes.len())))
    }
}

/// Reads the body of a response. One longer than `limit` is an error.
pub(super) async fn read_body(
    mut response: Response,
    limit: usize,
    address: &str,
) -> Result<Vec<u8>, Attempt> {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(limit));
    while let Some(chunk) = response.chunk().await.map_err(|error| no_answer(address, error))? {
        if chunk.len() > limit - bytes.len() {
            let reason = format!("more than {limit} bytes");
            return Err(Error::Wrong { address: address.to_owned(), reason }.into());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn builder(options: &Options<'_>, tls: ClientConfig) -> Result<ClientBuilder, Error> {
    let text = |name: &str| {
        let upper = (options.variable)(name).or_else(|| (options.variable)(&name.to_lowercase()));
        upper.and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
    };
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .connect_timeout(options.timeout.min(CONNECT))
        .pool_max_idle_per_host(options.connections)
        .user_agent(concat!("sapwood/", env!("CARGO_PKG_VERSION")));
    let except = text("NO_PROXY").and_then(|hosts| NoProxy::from_string(&hosts));
    let bad = |name: &str| Error::Setting(format!("bad URL of a proxy in {name}"));
    match options.proxy.as_deref() {
        Some("") => return Ok(builder),
        Some(url) => {
            return Ok(builder.proxy(
                Proxy::all(url).map_err(|_| bad(format::keys::http::PROXY.name()))?.no_proxy(except),
            ));
        }
        None => {}
    }
    for (name, proxy) in [
        ("HTTPS_PROXY", Proxy::https as fn(String) -> reqwest::Result<Proxy>),
        // Upper case may come from a request that a CGI program serves.
        ("http_proxy", Proxy::http),
        ("ALL_PROXY", Proxy::all),
    ] {
        if let Some(url) = text(name) {
            builder = builder.proxy(proxy(url).map_err(|_| bad(name))?.no_proxy(except.clone()));
        }
    }
    Ok(builder)
}
