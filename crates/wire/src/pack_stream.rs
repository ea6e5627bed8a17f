//! The pack of a fetch: the data band of the response. A callback receives the progress band.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId, pkt};

use super::{Connection, Error, Packet, Request, Sideband, Version};

/// The form in which the pack arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bands {
    /// Packets whose first byte is the band: data, progress or error.
    Multiplexed,
    /// The pack alone, up to the end of the stream.
    Raw,
}

/// The facts that the server sends before the pack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) shallow: Vec<ObjectId>,
    pub(super) unshallow: Vec<ObjectId>,
    pub(super) wanted_refs: Vec<(ObjectId, BString)>,
    pub(super) uris: Vec<PackUri>,
}

/// A pack that the client has to download from a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackUri {
    /// The checksum at the end of the pack.
    pub checksum: ObjectId,
    /// The URI.
    pub uri: BString,
}

impl Received {
    /// Adds a line of a section of protocol version 2.
    pub(super) fn add(&mut self, section: &str, line: &[u8], hash: HashKind) -> Result<(), Error> {
        let invalid = |what: &str| Error::Message(format!("{what}: {}", line.as_bstr()));
        match section {
            "shallow-info" => {
                if self.add_shallow(line, hash)? {
                    Ok(())
                } else {
                    Err(Error::Message(format!("expected shallow/unshallow, got {}", line.as_bstr())))
                }
            }
            "wanted-refs" => {
                let (hex, name) = line.split_once_str(" ").ok_or_else(|| wanted_ref(line))?;
                let oid = ObjectId::from_hex(hash, hex).ok_or_else(|| wanted_ref(line))?;
                self.wanted_refs.push((oid, name.into()));
                Ok(())
            }
            _ => {
                let invalid = || invalid("expected '<hash> <uri>', got");
                let (hex, uri) = line.split_once_str(" ").ok_or_else(invalid)?;
                let checksum = ObjectId::from_hex(hash, hex).ok_or_else(invalid)?;
                self.uris.push(PackUri { checksum, uri: uri.into() });
                Ok(())
            }
        }
    }

    /// Parses a `shallow` or `unshallow` line. Returns false if it is another line.
    pub(super) fn add_shallow(&mut self, line: &[u8], hash: HashKind) -> Result<bool, Error> {
        let (list, hex, word) = if let Some(hex) = line.strip_prefix(b"shallow ") {
            (&mut self.shallow, hex, "shallow")
        } else if let Some(hex) = line.strip_prefix(b"unshallow ") {
            (&mut self.unshallow, hex, "unshallow")
        } else {
            return Ok(false);
        };
        let oid = ObjectId::from_hex(hash, hex)
            .ok_or_else(|| Error::Message(format!("invalid {word} line: {}", line.as_bstr())))?;
        list.push(oid);
        Ok(true)
    }
}

fn wanted_ref(line: &[u8]) -> Error {
    Error::Message(format!("expected wanted-ref, got '{}'", line.as_bstr()))
}

/// The pack of a fetch. Reading it gives the bytes of the pack.
pub struct PackStream<'a> {
    connection: Connection,
    texts: &'a Sideband<'a>,
    bands: Bands,
    aborted: Arc<AtomicBool>,
    left: usize,
    over: bool,
    received: Received,
}

impl Connection {
    /// Negotiates, and requests all objects that are reachable from the wants. The caller reads the
    /// pack from the returned value.
    pub fn fetch<'a>(self, wanted: &mut Request<'a>) -> Result<PackStream<'a>, Error> {
        match self.version {
            Version::V2 => self.fetch_v2(wanted),
            Version::V0 | Version::V1 => self.fetch_v0(wanted),
        }
    }
}

impl<'a> PackStream<'a> {
    pub(super) fn new(
        connection: Connection,
        texts: &'a Sideband<'a>,
        bands: Bands,
        received: Received,
    ) -> PackStream<'a> {
        PackStream { connection, texts, bands, aborted: Arc::default(), left: 0, over: false, received }
    }

    /// Returns the commits whose parents the server does not send: the new shallow commits.
    pub fn shallow(&self) -> &[ObjectId] {
        &self.received.shallow
    }

    /// Returns the commits that are no longer shallow.
    pub fn unshallow(&self) -> &[ObjectId] {
        &self.received.unshallow
    }

    /// Returns the values of the refs that were requested by name.
    pub fn wanted_refs(&self) -> &[(ObjectId, BString)] {
        &self.received.wanted_refs
    }

    /// Returns the packs that the client has to download from URIs.
    pub fn pack_uris(&self) -> &[PackUri] {
        &self.received.uris
    }

    /// Returns a flag that becomes true when the server aborts before the end of the pack.
    pub fn aborted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.aborted)
    }

    /// Reads to the end of the response and closes the connection. Returns an error if the server
    /// reports a failure at this point.
    pub fn finish(mut self) -> Result<(), Error> {
        io::copy(&mut self, &mut io::sink()).map_err(Error::of_io)?;
        self.connection.packets.link.finish()
    }

    /// Reads to the end of the response. Returns the connection for another request, or `None` if
    /// the protocol allows only one.
    pub fn finish_and_reuse(mut self) -> Result<Option<Connection>, Error> {
        io::copy(&mut self, &mut io::sink()).map_err(Error::of_io)?;
        if self.connection.version == super::Version::V2 {
            return Ok(Some(self.connection));
        }
        self.connection.packets.link.finish().map(|()| None)
    }

    /// Advances to the next bytes of the pack; returns false at the end.
    fn next_packet(&mut self) -> io::Result<bool> {
        let link = &mut self.connection.packets.link;
        while self.left == 0 && !self.over {
            let mut digits = [0; 4];
            link.read_exact(&mut digits)?;
            let length = match pkt::parse_header(digits) {
                Some(pkt::Header::Data(length)) if length > 0 => length,
                Some(pkt::Header::Flush | pkt::Header::Delimiter | pkt::Header::ResponseEnd) => {
                    self.over = true;
                    break;
                }
                Some(pkt::Header::Data(_)) => return Err(invalid("missing sideband designator".into())),
                None => return Err(io::Error::other(super::packets::bad_length(digits))),
            };
            let mut band = [0];
            link.read_exact(&mut band)?;
            if band[0] == 1 {
                self.left = length - 1;
                continue;
            }
            let mut text = vec![0; length - 1];
            link.read_exact(&mut text)?;
            match band[0] {
                2 => (self.texts)(&text),
                3 => {
                    (self.texts)(&[text.trim_ascii_end(), b"\n"].concat());
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                other => return Err(invalid(format!("bad band #{other}"))),
            }
        }
        Ok(!self.over)
    }

    fn read_data(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.bands == Bands::Raw {
            return self.connection.packets.link.read(out);
        }
        if !self.next_packet()? || out.is_empty() {
            return Ok(0);
        }
        let wanted = out.len().min(self.left);
        let read = self.connection.packets.link.read(&mut out[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        Ok(read)
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::other(Error::Protocol(text))
}

impl Read for PackStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.read_data(out).inspect_err(|_| self.aborted.store(true, Ordering::Relaxed))?;
        if let Some(tracer) = self.connection.packets.tracer.as_ref().filter(|_| read > 0) {
            tracer(Packet::Pack(&out[..read]));
        }
        Ok(read)
    }
}
