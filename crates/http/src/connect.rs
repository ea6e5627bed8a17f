//! Connections to servers, through a proxy if there is one.

use std::{sync::Arc, time::Duration};

use bstr::{BStr, BString};
use rustls::ClientConfig;

use crate::{
    Address, AddressFamily, Broken, Cause, Conversation, Head, Message, Proxy, Watch,
    dial::dial,
    interruptible,
    stream::{self, Duplex},
};

/// The way to a server.
pub struct Route<'a> {
    /// The server.
    pub address: &'a Address,
    /// The proxy before it.
    pub proxy: Option<&'a Proxy>,
    /// The value of `Proxy-Authorization`.
    pub proxy_authorization: Option<&'a BString>,
    /// The value of `User-Agent` for a proxy.
    pub user_agent: &'a BStr,
    /// The family of the address.
    pub family: AddressFamily,
    /// The longest time until a connection is there.
    pub timeout: Duration,
    /// The limits of the connection.
    pub watch: &'a Watch,
}

/// The other end of TLS, which decides its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The server.
    Server,
    /// The proxy before it. Settings of the server say nothing about it: it gets the password of
    /// the proxy.
    Proxy,
}

/// The outcome of an attempt to connect.
pub enum Connected {
    /// The connection.
    Server(Conversation),
    /// The proxy requires authentication.
    Refused(Head),
}

/// Connects to a server. `tls` returns the configuration of TLS with a peer, or a message.
pub fn connect(
    route: &Route<'_>,
    tls: &mut dyn FnMut(Peer) -> Result<Arc<ClientConfig>, String>,
) -> Result<Connected, Broken> {
    let place = route.proxy.map_or(route.address, |proxy| &proxy.address);
    let (host, port) = (place.host_name().to_owned(), place.port);
    let (family, timeout, watch) = (route.family, route.timeout, route.watch.clone());
    let dialed = interruptible(&route.watch.interrupt, move || dial(&host, port, family, timeout, watch));
    let mut stream = dialed?.map_err(|error| match route.proxy {
        Some(_) => Broken { text: error.text.replacen("resolve host", "resolve proxy", 1), ..error },
        None => error,
    })?;
    if let Some(proxy) = route.proxy.filter(|proxy| proxy.address.tls) {
        let config = tls(Peer::Proxy).map_err(Broken::setting)?;
        let secured = stream::secure(stream, proxy.address.host_name(), &config);
        stream = secured.map_err(|error| match error.cause {
            Cause::Certificate(why) => {
                let place = proxy.address.authority();
                Broken { cause: Cause::ProxyCertificate(place, why), ..error }
            }
            _ => error,
        })?;
    }
    if !route.address.tls {
        return Ok(Connected::Server(Conversation::new(stream)));
    }
    if route.proxy.is_some() {
        stream = match tunnel(route, stream)? {
            Tunnel::Open(stream) => stream,
            Tunnel::Refused(head) => return Ok(Connected::Refused(head)),
        };
    }
    let stream =
        stream::secure(stream, route.address.host_name(), &tls(Peer::Server).map_err(Broken::setting)?)?;
    Ok(Connected::Server(Conversation::new(stream)))
}

enum Tunnel {
    Open(Box<dyn Duplex>),
    Refused(Head),
}

/// Asks a proxy for a connection to the server.
fn tunnel(route: &Route<'_>, stream: Box<dyn Duplex>) -> Result<Tunnel, Broken> {
    let target = format!("{}:{}", route.address.host, route.address.port);
    let mut headers: Vec<(String, BString)> = vec![
        ("Host".into(), target.as_str().into()),
        ("User-Agent".into(), route.user_agent.to_owned()),
        ("Proxy-Connection".into(), "Keep-Alive".into()),
    ];
    if let Some(value) = route.proxy_authorization {
        headers.push(("Proxy-Authorization".into(), value.clone()));
    }
    let message = Message { method: "CONNECT", target: target.as_str().into(), headers: &headers, body: b"" };
    let mut conversation = Conversation::new(stream);
    let head = conversation.exchange(&message)?;
    match head.status {
        200..=299 => Ok(Tunnel::Open(conversation.into_stream())),
        407 => Ok(Tunnel::Refused(head)),
        status => Err(Broken {
            text: format!("CONNECT tunnel failed, response {status}"),
            cause: Cause::Proxy(status),
        }),
    }
}
