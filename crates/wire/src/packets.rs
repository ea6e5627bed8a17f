//! Packet lines over a link, and their trace.
//!
//! Promise: no line is longer than the protocol allows, and an `ERR` line is an error. If the
//! server hangs up, the message depends on the part of the greeting that it had sent.

use std::{
    io::{self, Read},
    sync::Arc,
};

use bstr::ByteSlice;
use format::pkt;

use super::{Error, Packet, Tracer, link::Link};

/// The received part of the server's greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    /// The server has sent nothing.
    None,
    /// The server's greeting has begun.
    Begun,
    /// The server's greeting is complete.
    Made,
}

/// Packet lines over a link.
pub(super) struct Packets {
    pub(super) link: Box<dyn Link>,
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) contact: Contact,
}

impl Packets {
    pub(super) fn new(link: Box<dyn Link>, tracer: Option<Arc<Tracer>>) -> Packets {
        Packets { link, tracer, contact: Contact::None }
    }

    /// Returns the error for a server that hangs up at this point.
    pub(super) fn hung_up(&self) -> Error {
        match self.contact {
            Contact::None => Error::HungUp,
            Contact::Begun => Error::HungUpAtContact,
            Contact::Made => Error::Lost,
        }
    }

    /// Reads one packet into `line`.
    pub(super) fn read(&mut self, line: &mut Vec<u8>) -> Result<pkt::Header, Error> {
        let header = read_packet(&mut self.link, line).map_err(|error| match error {
            Error::Lost => self.hung_up(),
            other => other,
        });
        if let Some(tracer) = &self.tracer {
            match &header {
                Ok(pkt::Header::Data(_)) | Err(Error::Remote(_)) => tracer(Packet::Received(line)),
                Ok(pkt::Header::Flush) => tracer(Packet::Received(b"0000")),
                Ok(pkt::Header::Delimiter) => tracer(Packet::Received(b"0001")),
                Ok(pkt::Header::ResponseEnd) => tracer(Packet::Received(b"0002")),
                Err(_) => {}
            }
        }
        header
    }

    /// Reads one packet into `line`; returns true if it is a line, and false if it is a flush, a
    /// delimiter or the end of the response.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool, Error> {
        Ok(matches!(self.read(line)?, pkt::Header::Data(_)))
    }

    /// Reads the end of a response over a stateless link. More data, or a response that is cut off
    /// here, is an error.
    pub(super) fn expect_end(&mut self, of: &str) -> Result<(), Error> {
        if !self.link.is_stateless() {
            return Ok(());
        }
        let unexpected = || Error::Message(format!("expected response end packet after {of}"));
        match self.link.read(&mut [0]).map_err(Error::of_io) {
            Ok(0) => Ok(()),
            Ok(_) | Err(Error::Lost) => Err(unexpected()),
            Err(error) => Err(error),
        }
    }

    /// Sends complete packets. If the server has stopped reading, the next read returns the reason.
    pub(super) fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        if let Some(tracer) = &self.tracer {
            let mut rest = request;
            while let Some((digits, after)) = rest.split_first_chunk::<4>() {
                let length = match pkt::parse_header(*digits) {
                    Some(pkt::Header::Data(length)) => length,
                    _ => 0,
                };
                tracer(Packet::Sent(if length == 0 { digits } else { &after[..length] }));
                rest = &after[length..];
            }
        }
        match self.link.send(request) {
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Returns a line without its trailing newline.
pub(super) fn chomped(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Returns the error for digits that are not a length, or for a length that no packet has.
pub(super) fn bad_length(digits: [u8; 4]) -> Error {
    let number = std::str::from_utf8(&digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
    Error::Protocol(match number.and_then(|text| i32::from_str_radix(text, 16).ok()) {
        Some(length) if length < 4 => format!("bad line length {length}"),
        Some(length) => format!("bad line length {}", length - 4),
        None => format!("bad line length character: {}", digits.as_bstr()),
    })
}

/// Reads one packet from a stream. The error of a stream that ends early is [`Error::Lost`].
pub(super) fn read_packet(from: &mut (impl Read + ?Sized), line: &mut Vec<u8>) -> Result<pkt::Header, Error> {
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Lost,
        _ => Error::of_io(error),
    };
    line.clear();
    let mut digits = [0; 4];
    from.read_exact(&mut digits).map_err(lost)?;
    let header = pkt::parse_header(digits).ok_or_else(|| bad_length(digits))?;
    if let pkt::Header::Data(length) = header {
        line.resize(length, 0);
        from.read_exact(line).map_err(lost)?;
        if let Some(text) = line.strip_prefix(b"ERR ") {
            return Err(Error::Remote(text.trim_ascii_end().into()));
        }
    }
    Ok(header)
}
