//! `stateless-connect`: each request to the helper is one request to the server, and a response-end
//! packet ends each response.

use std::io::{self, Read};

use format::pkt;

use super::super::{Error, link::Link, process::Process};

/// The link of a helper whose requests are independent of each other.
pub(super) struct Stateless {
    process: Process,
    /// The length digits of the current packet; `given` counts the digits that the reader already
    /// has.
    digits: [u8; 4],
    given: usize,
    /// The number of payload bytes that the reader does not have yet.
    left: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The capabilities of the server, which end with a flush packet.
    Greeting,
    Response,
    Over,
}

impl Stateless {
    pub(super) fn new(process: Process) -> Stateless {
        Stateless { process, digits: *b"0000", given: 4, left: 0, state: State::Greeting }
    }

    /// Skips the rest of the last response.
    fn skip_response(&mut self) -> io::Result<()> {
        while self.state == State::Response {
            io::copy(self, &mut io::sink())?;
        }
        Ok(())
    }

    /// Reads the digits of the next packet. Returns false at the end of the response.
    fn next_packet(&mut self) -> io::Result<bool> {
        if self.state == State::Over {
            return Ok(false);
        }
        self.process.read_exact(&mut self.digits)?;
        self.given = 0;
        self.left = match pkt::parse_header(self.digits) {
            Some(pkt::Header::Data(length)) => length,
            Some(pkt::Header::ResponseEnd) => {
                // This packet is never passed to the reader.
                self.given = self.digits.len();
                self.state = State::Over;
                return Ok(false);
            }
            Some(pkt::Header::Flush) if self.state == State::Greeting => {
                self.state = State::Over;
                0
            }
            // The code that parses the packet reports malformed digits.
            _ => 0,
        };
        Ok(true)
    }
}

impl Read for Stateless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == 4 && self.left == 0 && (buffer.is_empty() || !self.next_packet()?) {
            return Ok(0);
        }
        if self.given < 4 {
            let count = buffer.len().min(4 - self.given);
            buffer[..count].copy_from_slice(&self.digits[self.given..self.given + count]);
            self.given += count;
            return Ok(count);
        }
        let wanted = buffer.len().min(self.left);
        let read = self.process.read(&mut buffer[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        Ok(read)
    }
}

impl Link for Stateless {
    fn is_stateless(&self) -> bool {
        true
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.skip_response().map_err(Error::of_io)?;
        self.state = State::Response;
        self.process.send(request)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        // A helper that cannot write the rest of its response would fail.
        let _ = self.skip_response();
        self.process.end()
    }
}
