//! The pack of a fetch: the data band of the answer. The callback receives the progress band.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::BString;
use format::{ObjectId, pkt};

use super::{Error, Packet, Sideband, Tracer, link::Link};

/// The pack of a fetch. Reading it gives the bytes of the pack.
pub struct PackStream<'a> {
    link: Box<dyn Link>,
    texts: &'a Sideband<'a>,
    aborted: Arc<AtomicBool>,
    left: usize,
    over: bool,
    shallow: Vec<ObjectId>,
    unshallow: Vec<ObjectId>,
    wanted_refs: Vec<(ObjectId, BString)>,
    tracer: Option<Arc<Tracer>>,
}

impl<'a> PackStream<'a> {
    pub(super) fn new(
        link: Box<dyn Link>,
        texts: &'a Sideband<'a>,
        shallow: Vec<ObjectId>,
        tracer: Option<Arc<Tracer>>,
    ) -> PackStream<'a> {
        PackStream {
            link,
            texts,
            aborted: Arc::default(),
            left: 0,
            over: false,
            shallow,
            unshallow: Vec::new(),
            wanted_refs: Vec::new(),
            tracer,
        }
    }

    /// Returns the commits whose parents the server does not send.
    pub fn shallow(&self) -> &[ObjectId] {
        &self.shallow
    }

    /// Returns the commits that are cut off no longer.
    pub fn unshallow(&self) -> &[ObjectId] {
        &self.unshallow
    }

    /// Returns the values of the refs that were requested by name.
    pub fn wanted_refs(&self) -> &[(ObjectId, BString)] {
        &self.wanted_refs
    }

    /// Returns a flag that becomes true when the server aborts before the end of the pack.
    pub fn aborted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.aborted)
    }

    /// Reads to the end of the answer and ends the conversation. It is an error if the server fails
    /// now.
    pub fn finish(mut self) -> Result<(), Error> {
        io::copy(&mut self, &mut io::sink()).map_err(Error::Io)?;
        self.link.finish()
    }

    /// Advances to the next bytes of the pack; returns false at the end.
    fn next_packet(&mut self) -> io::Result<bool> {
        while self.left == 0 && !self.over {
            let mut digits = [0; 4];
            self.link.read_exact(&mut digits)?;
            let length = match pkt::parse_header(digits) {
                Some(pkt::Header::Data(length)) if length > 0 => length,
                Some(pkt::Header::Flush | pkt::Header::Delimiter | pkt::Header::ResponseEnd) => {
                    self.over = true;
                    break;
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "bad line length")),
            };
            let mut band = [0];
            self.link.read_exact(&mut band)?;
            if band[0] == 1 {
                self.left = length - 1;
                continue;
            }
            let mut text = vec![0; length - 1];
            self.link.read_exact(&mut text)?;
            match band[0] {
                2 => (self.texts)(&text),
                3 => {
                    (self.texts)(&[text.trim_ascii_end(), b"\n"].concat());
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "bad band")),
            }
        }
        Ok(!self.over)
    }
}

impl Read for PackStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let more = self.next_packet().inspect_err(|_| self.aborted.store(true, Ordering::Relaxed));
        if out.is_empty() || !more? {
            return Ok(0);
        }
        let wanted = out.len().min(self.left);
        let read = self.link.read(&mut out[..wanted])?;
        if read == 0 {
            self.aborted.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        if let Some(tracer) = &self.tracer {
            tracer(Packet::Pack(&out[..read]));
        }
        Ok(read)
    }
}
