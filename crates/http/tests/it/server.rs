//! A server that answers each request by a closure, and a client for it.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Address, Body, Broken, Client, Parts, Proxies, Request, Watch, tls::TlsSettings};
use testkit::servers::Acceptor;

/// A running server.
pub(crate) struct Server {
    pub(crate) acceptor: Acceptor,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answer` gets the head and the body of each request. An empty answer is none: the connection
    /// stays open in silence.
    pub(crate) fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Server {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let acceptor = Acceptor::start(move |stream, _| {
            // A client that hangs up is no error.
            let _ = serve(stream, &seen, &answer);
        });
        Server { acceptor, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.acceptor.address())
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// Answers the requests on one connection.
pub(crate) fn serve(
    stream: impl Read + Write,
    seen: &Mutex<Vec<String>>,
    answer: &impl Fn(&str) -> String,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if stream.read_line(&mut request)? == 0 {
                return Ok(());
            }
        }
        let length = request.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        let length = length.map_or(0, |length| length.parse().expect("a number"));
        stream.by_ref().take(length).read_to_string(&mut request)?;
        seen.lock().expect("no panic").push(request.clone());
        let answer = answer(&request);
        stream.get_mut().write_all(answer.as_bytes())?;
        stream.get_mut().flush()?;
        if answer.contains("Connection: close") {
            return Ok(());
        }
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns the parts of a client that trusts nobody, with the proxy that `proxy` names.
pub(crate) fn parts(proxy: &str) -> Parts {
    let proxies = Proxies::of(Some(proxy.into()), &|_| None);
    Parts {
        tls: http::tls::trusting(Vec::new()).expect("TLS can be set up"),
        proxy_tls: TlsSettings::default(),
        proxies,
        watch: Watch { idle: Some(Duration::from_secs(20)), ..Watch::default() },
        connect: Duration::from_secs(20),
        user_agent: "test".into(),
        kept: 4,
    }
}

pub(crate) fn request<'a>(method: &'a str, url: &str, body: Body<'a>) -> Request<'a> {
    let address = Address::parse(url.as_bytes()).expect("a URL");
    Request { method, address, headers: Vec::new(), body }
}

/// Sends a GET and returns the body.
pub(crate) fn get(client: &Client, url: &str) -> Result<String, Broken> {
    let mut text = String::new();
    client.send(request("GET", url, Body::Empty))?.read_to_string(&mut text)?;
    Ok(text)
}
