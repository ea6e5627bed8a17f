//! HTTP/1.1 messages on one connection.
//!
//! A response's head is bounded, its body is framed by length, by chunks, or by the end of the
//! connection. A body that ends early is an error.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write as _},
};

use bstr::{BStr, BString, ByteSlice};

use crate::{Interrupted, is_header, stream::Duplex};

/// The maximum size of a response's head, and of the trailers of a body in chunks, in bytes.
const MAX_HEAD: usize = 300 << 10;

/// The maximum number of interim responses (1xx) before the response.
const MAX_INTERIM: usize = 64;

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

/// The reason why a request got no response.
#[derive(Debug)]
pub enum Failure {
    /// Nothing was sent: this header has a line end or a NUL, which would end it early.
    Header(String),
    /// The source of the body failed. The server waits for the rest, so the connection cannot be
    /// used again.
    Body(io::Error),
    /// The connection failed.
    Connection(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Header(name) => write!(f, "the header '{name}' has a line end or a NUL"),
            Failure::Body(error) | Failure::Connection(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Connection(error)
    }
}

impl Failure {
    /// Returns true if a new connection may succeed: the server may close an idle one at any time.
    pub fn may_be_stale(&self) -> bool {
        matches!(self, Failure::Connection(error) if !ends_request(error))
    }
}

/// Returns true for an error after which no response is waited for.
fn ends_request(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut || Interrupted::caused(error)
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

    /// Sends a request and reads the head of its response. The body can be read afterwards.
    pub fn exchange(&mut self, message: &Message<'_>) -> Result<Head, Failure> {
        self.exchange_from(message, &mut io::empty(), 0)
    }

    /// Like [`Conversation::exchange`], for a request whose body continues with `length` bytes of
    /// `body`.
    pub fn exchange_from(
        &mut self,
        message: &Message<'_>,
        body: &mut dyn Read,
        length: u64,
    ) -> Result<Head, Failure> {
        let sent = self.send(message).and_then(|()| self.send_body(body, length));
        match sent {
            Ok(()) => Ok(self.receive(message.method)?),
            // A server that refuses a long request may respond before it has read all of it.
            Err(failure) if failure.may_be_stale() => match self.receive(message.method) {
                Ok(head) if head.status >= 300 => {
                    self.keeps = false;
                    Ok(head)
                }
                Err(error) if ends_request(&error) => Err(error.into()),
                Ok(_) | Err(_) => Err(failure),
            },
            Err(failure) => Err(failure),
        }
    }

    fn send_body(&mut self, body: &mut dyn Read, length: u64) -> Result<(), Failure> {
        let mut piece = vec![0; BUFFER.min(usize::try_from(length).unwrap_or(BUFFER))];
        let mut left = length;
        while left > 0 {
            let room = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            body.read_exact(&mut piece[..room]).map_err(Failure::Body)?;
            self.stream.get_mut().write_all(&piece[..room])?;
            left -= room as u64;
        }
        Ok(self.stream.get_mut().flush()?)
    }

    /// Sends the head of a request, and the body of the message.
    fn send(&mut self, message: &Message<'_>) -> Result<(), Failure> {
        if let Some((name, _)) = message.headers.iter().find(|(name, value)| !is_header(name, value)) {
            return Err(Failure::Header(name.escape_default().to_string()));
        }
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
        Ok(stream.flush()?)
    }

    fn receive(&mut self, method: &str) -> io::Result<Head> {
        for _ in 0..=MAX_INTERIM {
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
        Err(invalid("Too many interim responses"))
    }

    fn read_head(&mut self) -> io::Result<(Head, u8)> {
        let mut bytes = Vec::new();
        while !(bytes.ends_with(b"\r\n\r\n") || bytes.ends_with(b"\n\n")) {
            let room = (MAX_HEAD - bytes.len()) as u64;
            let read = without_end(self.stream.by_ref().take(room).read_until(b'\n', &mut bytes))?;
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
                    self.skip_trailers()?;
                    self.framing = Framing::Over;
                }
                Some(left) => self.framing = Framing::Chunk { left, first: false },
            }
        }
        Ok(())
    }

    /// Reads the trailers, which end with an empty line.
    fn skip_trailers(&mut self) -> io::Result<()> {
        let mut size = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(());
            }
            size += line.len();
            if size > MAX_HEAD {
                return Err(invalid("Too large response trailers"));
            }
        }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        const MAX_LINE: u64 = 16 << 10;
        let mut line = Vec::new();
        without_end(self.stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut line))?;
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
        let read = match self.framing {
            // Only the end of the connection says that the body is complete.
            Framing::UntilClose => self.stream.read(&mut out[..room])?,
            _ => without_end(self.stream.read(&mut out[..room]))?,
        };
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
    let mut codings = head.all("transfer-encoding");
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(coding), None) if is_word(coding.trim(), "chunked") => {
            return Ok(Framing::Chunk { left: 0, first: true });
        }
        _ => return Err(invalid("Unsupported transfer encoding")),
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

/// Replaces the error of a stream that ends where TLS does not say so.
fn without_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

fn early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "transfer closed with outstanding read data remaining")
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has sent `answer` already. Writes end with `write`, and reads after the answer
    /// with `read`.
    struct Fake {
        answer: io::Cursor<Vec<u8>>,
        write: Option<io::ErrorKind>,
        read: Option<io::ErrorKind>,
    }

    impl Read for Fake {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match (self.answer.read(out)?, self.read) {
                (0, Some(kind)) => Err(kind.into()),
                (read, _) => Ok(read),
            }
        }
    }

    impl io::Write for Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write.map_or(Ok(bytes.len()), |kind| Err(kind.into()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn conversation(answer: &str) -> Conversation {
        let answer = io::Cursor::new(answer.as_bytes().to_vec());
        Conversation::new(Box::new(Fake { answer, write: None, read: None }))
    }

    fn get() -> Message<'static> {
        Message { method: "GET", target: "/".into(), headers: &[], body: b"" }
    }

    /// Returns the body of an answer, or the error's text.
    fn body(answer: &str) -> Result<String, String> {
        let mut conversation = conversation(answer);
        conversation.exchange(&get()).map_err(|failure| failure.to_string())?;
        let mut body = String::new();
        conversation.read_to_string(&mut body).map_err(|error| error.to_string())?;
        Ok(body)
    }

    #[test]
    fn interim_responses_are_limited() {
        let interim = |number| "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(number);
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(body(&(interim(64) + last)), Ok("ok".into()));
        assert_eq!(body(&(interim(65) + last)), Err("Too many interim responses".into()));
    }

    #[test]
    fn trailers_are_limited() {
        let answer = |lines| {
            let line = format!("X: {}\r\n", "x".repeat(1000));
            let lines: String = std::iter::repeat_n(line, lines).collect();
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n{lines}\r\n")
        };
        assert_eq!(body(&answer(0)), Ok("ok".into()));
        assert_eq!(body(&answer(100)), Ok("ok".into()));
        assert_eq!(body(&answer(400)), Err("Too large response trailers".into()));
    }

    #[test]
    fn one_coding_is_accepted() {
        let answer = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n2\r\nok\r\n0\r\n\r\n");
        for headers in ["Transfer-Encoding: chunked\r\n", "transfer-encoding:  Chunked \r\n"] {
            assert_eq!(body(&answer(headers)), Ok("ok".into()), "{headers}");
        }
        for headers in [
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: \r\n",
        ] {
            assert_eq!(body(&answer(headers)), Err("Unsupported transfer encoding".into()), "{headers}");
        }
    }

    #[test]
    fn a_header_is_one_line() {
        for (name, value) in [("X-Test", "a\r\nY: b"), ("X-Test", "a\n"), ("X-Test", "a\0"), ("X\r\nY", "a")]
        {
            let headers = [(name.to_owned(), BString::from(value))];
            let failure = conversation("HTTP/1.1 204 No Content\r\n\r\n")
                .exchange(&Message { headers: &headers, ..get() })
                .expect_err("not sent");
            assert!(matches!(failure, Failure::Header(_)) && !failure.may_be_stale(), "{failure:?}");
            assert_eq!(
                failure.to_string(),
                format!("the header '{}' has a line end or a NUL", name.escape_default())
            );
        }
    }

    #[test]
    fn the_reason_for_the_end_of_a_request_is_kept() {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
        for (read, expected) in [(TimedOut, TimedOut), (ConnectionReset, BrokenPipe)] {
            let answer = io::Cursor::default();
            let fake = Fake { answer, write: Some(BrokenPipe), read: Some(read) };
            let failure = Conversation::new(Box::new(fake)).exchange(&get()).expect_err("no answer");
            let Failure::Connection(error) = &failure else { panic!("{failure:?}") };
            assert_eq!(error.kind(), expected);
            assert_eq!(failure.may_be_stale(), expected == BrokenPipe);
        }
        // A refusal that came before the request was sent counts, and ends the connection. A
        // success does not count.
        let early = |answer: &str| {
            let answer = io::Cursor::new(answer.as_bytes().to_vec());
            Conversation::new(Box::new(Fake { answer, write: Some(BrokenPipe), read: None }))
        };
        let mut conversation = early("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(conversation.exchange(&get()).expect("an answer").status, 413);
        assert!(!conversation.is_free());
        let mut conversation = early("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
        assert!(conversation.exchange(&get()).is_err());
    }

    #[test]
    fn a_source_that_fails_ends_the_request() {
        let mut conversation = conversation("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let failure = conversation.exchange_from(&get(), &mut &b"short"[..], 100).expect_err("too short");
        assert!(matches!(&failure, Failure::Body(_)) && !failure.may_be_stale(), "{failure:?}");
    }
}
