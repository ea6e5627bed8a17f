//! HTTP/1.1 messages on one connection.
//!
//! A response's head is bounded, its body is framed by length, by chunks, or by the end of the
//! connection. A body that ends early is an error.

use std::io::{self, BufRead, BufReader, Read, Write as _};

use bstr::{BStr, BString, ByteSlice};

use crate::stream::Duplex;

/// The maximum size of a response's head, in bytes.
const MAX_HEAD: usize = 300 << 10;

/// The maximum number of headers.
const MAX_HEADERS: usize = 256;

/// The size of the read buffer, in bytes.
const BUFFER: usize = 128 << 10;

/// A request.
pub struct Message<'a> {
    /// The method.
    pub method: &'a str,
    /// The path, or the whole URL for a proxy.
    pub target: &'a BStr,
    /// All headers in order, including `Host` and `Content-Length`.
    pub headers: &'a [(String, BString)],
    /// The body.
    pub body: &'a [u8],
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The server's word for it, without control characters.
    pub reason: String,
    headers: Vec<(String, BString)>,
}

impl Head {
    /// Returns the first header with this name.
    pub fn get(&self, name: &str) -> Option<&BStr> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_bstr())
    }

    /// Returns all headers with this name.
    pub fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h BStr> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_bstr())
    }
}

/// The remaining length of a body.
#[derive(Debug)]
enum Framing {
    /// This many bytes are left.
    Length(u64),
    /// This many bytes of the chunk are left; the next chunk begins after its line end if there was
    /// a chunk before.
    Chunk {
        left: u64,
        first: bool,
    },
    UntilClose,
    Over,
}

/// A connection to a server or proxy.
pub struct Conversation {
    stream: BufReader<Box<dyn Duplex>>,
    framing: Framing,
    /// False if the server closes the connection after the response.
    keeps: bool,
}

impl Conversation {
    pub(crate) fn new(stream: Box<dyn Duplex>) -> Conversation {
        Conversation { stream: BufReader::with_capacity(BUFFER, stream), framing: Framing::Over, keeps: true }
    }

    /// Returns true if another request can be sent: the response was read completely.
    pub fn is_free(&self) -> bool {
        self.keeps && matches!(self.framing, Framing::Over) && self.stream.buffer().is_empty()
    }

    /// Returns the connection, for TLS through a proxy.
    pub(crate) fn into_stream(self) -> Box<dyn Duplex> {
        self.stream.into_inner()
    }

    /// Sends a request whose body is `length` bytes of `body`.
    pub fn send_from(&mut self, message: &Message<'_>, body: &mut dyn Read, length: u64) -> io::Result<()> {
        self.send(message)?;
        let mut piece = vec![0; BUFFER];
        let mut left = length;
        while left > 0 {
            let room = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            body.read_exact(&mut piece[..room])?;
            self.stream.get_mut().write_all(&piece[..room])?;
            left -= room as u64;
        }
        self.stream.get_mut().flush()
    }

    /// Sends a request.
    pub fn send(&mut self, message: &Message<'_>) -> io::Result<()> {
        let mut head = format!("{} {} HTTP/1.1\r\n", message.method, message.target).into_bytes();
        for (name, value) in message.headers {
            head.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        head.extend_from_slice(b"\r\n");
        let stream = self.stream.get_mut();
        // A small body goes into one packet with the head.
        if message.body.len() <= BUFFER {
            head.extend_from_slice(message.body);
            stream.write_all(&head)?;
        } else {
            stream.write_all(&head)?;
            stream.write_all(message.body)?;
        }
        stream.flush()
    }

    /// Reads the head of the response. The body can be read afterwards.
    pub fn receive(&mut self, method: &str) -> io::Result<Head> {
        loop {
            let (head, minor) = self.read_head()?;
            // Status 101 would switch the protocol; no request asks for that.
            if (100..200).contains(&head.status) && head.status != 101 {
                continue;
            }
            let says = |word: &str| {
                head.all("connection").any(|value| value.split_str(",").any(|v| is_word(v.trim(), word)))
            };
            self.keeps = if minor == 0 { says("keep-alive") } else { !says("close") };
            self.framing = framing(&head, method)?;
            if matches!(self.framing, Framing::UntilClose) {
                self.keeps = false;
            }
            return Ok(head);
        }
    }

    fn read_head(&mut self) -> io::Result<(Head, u8)> {
        let mut bytes = Vec::new();
        while !(bytes.ends_with(b"\r\n\r\n") || bytes.ends_with(b"\n\n")) {
            let room = (MAX_HEAD - bytes.len()) as u64;
            let read = self.stream.by_ref().take(room).read_until(b'\n', &mut bytes)?;
            if bytes.len() >= MAX_HEAD {
                return Err(invalid("Too large response headers"));
            }
            if read == 0 {
                return Err(if bytes.is_empty() {
                    io::ErrorKind::UnexpectedEof.into()
                } else {
                    invalid("Recv failure: the response ends within its headers")
                });
            }
            // Input that is not a status line is refused at once.
            if bytes.len() == read && !bytes.starts_with(b"HTTP/1.") {
                return Err(invalid("Received HTTP/0.9 when not allowed"));
            }
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let bad = || invalid("Weird server reply");
        let status = httparse::ParserConfig::default().parse_response(&mut response, &bytes);
        if !status.is_ok_and(|status| status.is_complete()) {
            return Err(bad());
        }
        let (Some(minor), Some(status)) = (response.version, response.code) else { return Err(bad()) };
        let reason = response.reason.unwrap_or_default().replace(|char: char| char.is_control(), " ");
        let headers = response.headers.iter();
        let headers = headers.map(|header| (header.name.to_owned(), header.value.into())).collect();
        Ok((Head { status, reason, headers }, minor))
    }

    /// Reads and drops the rest of a short body, so that the connection can be used again.
    pub fn drain(&mut self) {
        const SHORT: u64 = 64 << 10;
        let read = io::copy(&mut self.by_ref().take(SHORT), &mut io::sink());
        if !read.is_ok_and(|read| read < SHORT) {
            self.keeps = false;
        }
    }

    /// Drops the rest of the body if all of it has arrived.
    pub fn skip_arrived(&mut self) {
        if let Framing::Length(left) = self.framing
            && let Ok(left) = usize::try_from(left)
            && left <= self.stream.buffer().len()
        {
            self.stream.consume(left);
            self.framing = Framing::Over;
        }
    }

    /// Advances to a chunk with bytes, or to the end.
    fn next_chunk(&mut self) -> io::Result<()> {
        while let Framing::Chunk { left: 0, first } = self.framing {
            if !first && !self.line()?.is_empty() {
                return Err(invalid("Illegal or missing hexadecimal sequence in chunked-encoding"));
            }
            let line = self.line()?;
            let digits = line[..line.find_byte(b';').unwrap_or(line.len())].trim();
            let size = digits.to_str().ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let size = size.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            match size {
                None => {
                    return Err(invalid("Illegal or missing hexadecimal sequence in chunked-encoding"));
                }
                Some(0) => {
                    // Trailers end with an empty line.
                    while !self.line()?.is_empty() {}
                    self.framing = Framing::Over;
                }
                Some(left) => self.framing = Framing::Chunk { left, first: false },
            }
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        const MAX_LINE: u64 = 16 << 10;
        let mut line = Vec::new();
        self.stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(early());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }
}

impl Read for Conversation {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if matches!(self.framing, Framing::Chunk { left: 0, .. }) {
            self.next_chunk()?;
        }
        let left = match self.framing {
            Framing::Over => return Ok(0),
            Framing::UntilClose => u64::MAX,
            Framing::Length(left) | Framing::Chunk { left, .. } => left,
        };
        let room = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.stream.read(&mut out[..room])?;
        match &mut self.framing {
            Framing::UntilClose if read == 0 => self.framing = Framing::Over,
            Framing::UntilClose | Framing::Over => {}
            Framing::Length(_) | Framing::Chunk { .. } if read == 0 => {
                self.keeps = false;
                return Err(early());
            }
            Framing::Length(left) => {
                *left -= read as u64;
                if *left == 0 {
                    self.framing = Framing::Over;
                }
            }
            Framing::Chunk { left, .. } => *left -= read as u64,
        }
        Ok(read)
    }
}

fn framing(head: &Head, method: &str) -> io::Result<Framing> {
    if method == "HEAD" || matches!(head.status, 204 | 304) {
        return Ok(Framing::Over);
    }
    if method == "CONNECT" && (200..300).contains(&head.status) {
        return Ok(Framing::Over);
    }
    if let Some(coding) = head.all("transfer-encoding").last() {
        return if is_word(coding.trim(), "chunked") {
            Ok(Framing::Chunk { left: 0, first: true })
        } else {
            Err(invalid("Unsupported transfer encoding"))
        };
    }
    let mut lengths = head.all("content-length");
    let Some(length) = lengths.next() else { return Ok(Framing::UntilClose) };
    let number = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match number.and_then(|text| text.parse().ok()) {
        Some(_) if lengths.any(|other| other != length) => Err(invalid("Invalid Content-Length: value")),
        Some(0) => Ok(Framing::Over),
        Some(number) => Ok(Framing::Length(number)),
        None => Err(invalid("Invalid Content-Length: value")),
    }
}

fn is_word(value: &[u8], word: &str) -> bool {
    value.eq_ignore_ascii_case(word.as_bytes())
}

fn early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "transfer closed with outstanding read data remaining")
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
