//! A server of Git's protocol that sends any bytes that a test chooses: over `git://`, or over
//! http.
//!
//! It does not validate requests, and sends the replies of the test. A request is classified by the
//! words in it: `command=ls-refs`, `command=fetch`, or `want` lines.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use super::Acceptor;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The start of a connection: capabilities, and with protocol version 0 the refs.
    Greeting,
    /// `command=ls-refs`
    Refs,
    /// A request for objects that does not end the negotiation.
    Haves,
    /// A request for objects that ends with `done`.
    Pack,
    /// Any other request.
    Other,
}

/// The action after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// Read the next request.
    #[default]
    GoOn,
    /// Close the connection.
    HangUp,
    /// Send nothing more, and keep the connection open.
    Stall,
}

/// A reply.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Over http: the status line and the headers, without the empty line. `None` for the default.
    pub head: Option<String>,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The action after the reply.
    pub then: Then,
}

/// The transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Carrier {
    Git,
    Http,
}

/// A running server.
pub struct Scripted {
    acceptor: Acceptor,
    carrier: Carrier,
}

/// A client that hung up.
struct Gone;

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Gone {
        Gone
    }
}

impl Scripted {
    /// Starts a server. `answer` receives each request, classified and as bytes.
    pub fn start(
        carrier: Carrier,
        answer: impl Fn(Question, &[u8]) -> Reply + Send + Sync + 'static,
    ) -> Scripted {
        let acceptor = Acceptor::start(move |stream, _| {
            // A client that hangs up is not an error.
            let _ = match carrier {
                Carrier::Git => talk(&stream, &answer),
                Carrier::Http => serve(&stream, &answer),
            };
            let _ = stream.shutdown(Shutdown::Both);
        });
        Scripted { acceptor, carrier }
    }

    /// Returns the URL of the only repository.
    pub fn url(&self) -> String {
        let scheme = match self.carrier {
            Carrier::Git => "git",
            Carrier::Http => "http",
        };
        format!("{scheme}://{}/repository", self.address())
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.acceptor.accepted()
    }
}

/// Returns a packet.
pub fn packet(payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    [format!("{:04x}", payload.len() + 4).as_bytes(), payload].concat()
}

/// Returns packets of a side band.
pub fn band(number: u8, bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(8000).flat_map(|chunk| packet([&[number], chunk].concat())).collect()
}

/// Classifies a request.
fn question(request: &[u8]) -> Question {
    let has = |words: &str| request.windows(words.len()).any(|window| window == words.as_bytes());
    if has("command=ls-refs") {
        Question::Refs
    } else if has("command=fetch") || has("want ") || has("have ") || has("done") {
        if has("0009done") || has("0008done") { Question::Pack } else { Question::Haves }
    } else {
        Question::Other
    }
}

/// Waits until the client hangs up.
fn stall(mut stream: &TcpStream) {
    let mut ignored = [0; 4096];
    while matches!(stream.read(&mut ignored), Ok(length) if length > 0) {}
}

fn end(stream: &TcpStream, then: Then) -> Result<(), Gone> {
    match then {
        Then::GoOn => Ok(()),
        Then::HangUp => Err(Gone),
        Then::Stall => {
            stall(stream);
            Err(Gone)
        }
    }
}

fn talk(stream: &TcpStream, answer: &impl Fn(Question, &[u8]) -> Reply) -> Result<(), Gone> {
    let say = |question, request: &[u8]| {
        let reply = answer(question, request);
        let mut out = stream;
        out.write_all(&reply.bytes)?;
        end(stream, reply.then)
    };
    let mut request = Vec::new();
    hear_packet(stream, &mut request)?;
    say(Question::Greeting, &request)?;
    loop {
        request.clear();
        // A request ends with a flush packet; in version 0, `done` ends it without a flush packet.
        while hear_packet(stream, &mut request)? && !request.ends_with(b"0009done\n") {}
        if request == b"0000" {
            return Ok(());
        }
        say(question(&request), &request)?;
    }
}

/// Appends the next packet. Returns false if it is a flush packet.
fn hear_packet(mut stream: &TcpStream, request: &mut Vec<u8>) -> Result<bool, Gone> {
    let mut digits = [0; 4];
    stream.read_exact(&mut digits)?;
    request.extend(digits);
    let length = std::str::from_utf8(&digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
    let length = length.ok_or(Gone)?;
    let mut payload = vec![0; length.saturating_sub(4)];
    stream.read_exact(&mut payload)?;
    request.extend(payload);
    Ok(length != 0)
}

fn serve(mut stream: &TcpStream, answer: &impl Fn(Question, &[u8]) -> Reply) -> Result<(), Gone> {
    loop {
        let request = hear_http(stream)?;
        let (question, kind) = if request.starts_with(b"GET ") {
            (Question::Greeting, "advertisement")
        } else {
            (question(&request), "result")
        };
        let reply = answer(question, &request);
        let missing = if reply.then == Then::GoOn { 0 } else { 1000 };
        let usual = || {
            let service = format!("application/x-git-upload-pack-{kind}");
            format!("HTTP/1.1 200 OK\r\nContent-Type: {service}\r\nCache-Control: no-cache")
        };
        let head = reply.head.clone().unwrap_or_else(usual);
        let length = reply.bytes.len() + missing;
        stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n").as_bytes())?;
        stream.write_all(&reply.bytes)?;
        end(stream, reply.then)?;
    }
}

/// Returns the next request, with its body.
fn hear_http(mut stream: &TcpStream) -> Result<Vec<u8>, Gone> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
    if head.contains("\r\nexpect: 100-continue") {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if head.contains("\r\ntransfer-encoding: chunked") {
        return hear_chunks(stream, request);
    }
    let length = head.split("\r\ncontent-length:").nth(1).and_then(|rest| rest.lines().next());
    let length = length.map_or(Ok(0), |text| text.trim().parse()).map_err(|_| Gone)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    request.extend(body);
    Ok(request)
}

fn hear_chunks(mut stream: &TcpStream, mut request: Vec<u8>) -> Result<Vec<u8>, Gone> {
    loop {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        let length = usize::from_str_radix(&text, 16).map_err(|_| Gone)?;
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(request);
        }
        request.extend(&chunk[..length]);
    }
}
