//! The protocol versions 0 and 1.
//!
//! Over a stateful link the server keeps the state of the negotiation. Over a stateless link each
//! request repeats the wants and the commits that are known to be common. Format:
//! `gitprotocol-pack(5)`.

use bstr::ByteSlice;
use format::{HashKind, ObjectId, pkt};

use super::{
    Connection, Error, Feature, Negotiator, PackStream, RemoteRef, Request,
    capabilities::{Capabilities, agent},
    haves::{MAX_IN_VAIN, Pace},
    pack_stream::{Bands, Received},
    packets::chomped,
};

/// The form of the server's acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckMode {
    /// One `ACK`, which ends the negotiation.
    Single,
    /// `ACK … continue` (`multi_ack`).
    Multi,
    /// `ACK … common` and `ACK … ready` (`multi_ack_detailed`).
    Detailed,
}

/// A line of the server about an offered commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ack {
    Nak,
    Final,
    Continue(ObjectId),
    Common(ObjectId),
    Ready(ObjectId),
}

fn push(request: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    pkt::write_line(request, text.to_string().as_bytes());
}

fn message(text: &str) -> Error {
    Error::Message(text.into())
}

impl Connection {
    /// Reads the refs. `line` holds the first one.
    pub(super) fn read_v0_refs(&mut self, first: pkt::Header, mut line: Vec<u8>) -> Result<(), Error> {
        let mut header = first;
        let mut is_first = true;
        while let pkt::Header::Data(_) = header {
            if is_first {
                self.take_capabilities(&mut line)?;
                is_first = false;
            }
            self.add_v0_line(chomped(&line))?;
            header = self.packets.read(&mut line)?;
        }
        match header {
            pkt::Header::Flush => {}
            _ => return Err(Error::Protocol("expected flush after refs".into())),
        }
        for (name, target) in self.capabilities.values("symref").filter_map(|value| value.split_once_str(":"))
        {
            for found in self.advertisement.refs.iter_mut().filter(|found| found.name == name) {
                found.symref = Some(target.into());
            }
        }
        Ok(())
    }

    /// Splits the capabilities off the first line.
    fn take_capabilities(&mut self, line: &mut Vec<u8>) -> Result<(), Error> {
        if let Some(at) = line.find_byte(0) {
            self.capabilities = Capabilities::of_words(&line[at + 1..]);
            self.hash = self.capabilities.hash()?;
            line.truncate(at);
        }
        Ok(())
    }

    fn add_v0_line(&mut self, line: &[u8]) -> Result<(), Error> {
        let found = &mut self.advertisement;
        if let Some(hex) = line.strip_prefix(b"shallow ") {
            let oid = ObjectId::from_hex(self.hash, hex)
                .ok_or_else(|| Error::Protocol(format!("expected shallow sha-1, got '{}'", hex.as_bstr())))?;
            found.shallow.push(oid);
            return Ok(());
        }
        let parsed = line
            .split_once_str(" ")
            .and_then(|(hex, name)| Some((ObjectId::from_hex(self.hash, hex)?, name)));
        let Some((oid, name)) = parsed.filter(|_| found.shallow.is_empty()) else {
            return Err(Error::Protocol(format!("unexpected '{}'", line.as_bstr())));
        };
        if name == b"capabilities^{}" {
            return if found.refs.is_empty() && found.alternates.is_empty() {
                Ok(())
            } else {
                Err(Error::Protocol("unexpected capabilities^{}".into()))
            };
        }
        if name == b".have" {
            found.alternates.push(oid);
        } else if let Some(tag) = name.strip_suffix(b"^{}") {
            if let Some(last) = found.refs.last_mut().filter(|last| last.name == tag) {
                last.peeled = Some(oid);
            }
        } else {
            found.refs.push(RemoteRef { name: name.into(), oid, symref: None, peeled: None });
        }
        Ok(())
    }

    /// Returns an error for requests that the server does not support.
    fn check_v0(&self, wanted: &Request<'_>) -> Result<(), Error> {
        let limits = wanted.limits;
        let needs = [
            (!wanted.shallow.is_empty(), Feature::Shallow, "Server does not support shallow clients"),
            (limits.deepens(), Feature::Shallow, "Server does not support shallow clients"),
            (limits.since.is_some(), Feature::DeepenSince, "Server does not support --shallow-since"),
            (!limits.exclude.is_empty(), Feature::DeepenNot, "Server does not support --shallow-exclude"),
            (limits.relative, Feature::DeepenRelative, "Server does not support --deepen"),
            (!wanted.want_refs.is_empty(), Feature::RefInWant, "Server does not support ref-in-want"),
        ];
        match needs.into_iter().find(|(needed, feature, _)| *needed && !self.has(*feature)) {
            Some((_, _, text)) => Err(message(text)),
            None => Ok(()),
        }
    }

    pub(super) fn fetch_v0<'a>(mut self, wanted: &mut Request<'a>) -> Result<PackStream<'a>, Error> {
        self.check_v0(wanted)?;
        let mode = if self.capabilities.has("multi_ack_detailed") {
            AckMode::Detailed
        } else if self.capabilities.has("multi_ack") {
            AckMode::Multi
        } else {
            AckMode::Single
        };
        let stateless = self.packets.link.is_stateless();
        if stateless && mode != AckMode::Detailed && self.capabilities.has("multi_ack") {
            return Err(message("the option '--stateless-rpc' requires 'multi_ack_detailed'"));
        }
        let bands = if self.capabilities.has("side-band-64k") || self.capabilities.has("side-band") {
            Bands::Multiplexed
        } else {
            Bands::Raw
        };
        let base = self.v0_request(wanted, mode);
        let mut received = Received::default();
        let deepens = wanted.limits.deepens();
        if !deepens {
            received.shallow.clone_from(&self.advertisement.shallow);
        }
        Dialogue {
            no_done: stateless && mode == AckMode::Detailed && self.capabilities.has("no-done"),
            connection: &mut self,
            base,
            request: Vec::new(),
            mode,
            stateless,
            deepens,
            unanswered: 0,
            in_vain: 0,
            found: false,
            ready: false,
        }
        .run(wanted, &mut received)?;
        Ok(PackStream::new(self, wanted.texts, bands, received))
    }

    /// Returns the wants, with the capabilities that the client uses, and the limits.
    fn v0_request(&self, wanted: &Request<'_>, mode: AckMode) -> Vec<u8> {
        let has = |name: &str| self.capabilities.has(name);
        let mut words = String::new();
        match mode {
            AckMode::Detailed => words.push_str(" multi_ack_detailed"),
            AckMode::Multi => words.push_str(" multi_ack"),
            AckMode::Single => {}
        }
        let stateless = self.packets.link.is_stateless();
        let flags = [
            (stateless && mode == AckMode::Detailed && has("no-done"), " no-done"),
            (has("side-band-64k"), " side-band-64k"),
            (has("side-band") && !has("side-band-64k"), " side-band"),
            (wanted.limits.relative, " deepen-relative"),
            (wanted.thin_pack && has("thin-pack"), " thin-pack"),
            (!wanted.progress && has("no-progress"), " no-progress"),
            (wanted.include_tags && has("include-tag"), " include-tag"),
            (has("ofs-delta"), " ofs-delta"),
            (has("deepen-since"), " deepen-since"),
            (has("deepen-not"), " deepen-not"),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).for_each(|(_, word)| words.push_str(word));
        if has("agent") {
            words.push_str(&format!(" agent={}", agent()));
        }
        let filter = wanted.limits.filter.as_ref().filter(|_| has("filter"));
        if filter.is_some() {
            words.push_str(" filter");
        }
        let mut request = Vec::new();
        for (at, want) in wanted.wants.iter().enumerate() {
            push(&mut request, format_args!("want {want}{}\n", if at == 0 { words.as_str() } else { "" }));
        }
        wanted.limits.write(wanted.shallow, &mut request);
        if let Some(filter) = filter {
            push(&mut request, format_args!("filter {filter}\n"));
        }
        pkt::write_flush(&mut request);
        request
    }
}

/// A negotiation in progress.
struct Dialogue<'c> {
    connection: &'c mut Connection,
    /// The part that is repeated in each request over a stateless link: wants, limits and common
    /// commits.
    base: Vec<u8>,
    /// The rest of the request.
    request: Vec<u8>,
    mode: AckMode,
    /// True if the server sends the pack as soon as it is ready, without `done`.
    no_done: bool,
    stateless: bool,
    deepens: bool,
    /// The number of sent rounds without a response.
    unanswered: usize,
    in_vain: usize,
    /// True if the server has one of the offered commits.
    found: bool,
    /// True if the server has sent `ready`.
    ready: bool,
}

impl Dialogue<'_> {
    fn run(mut self, wanted: &mut Request<'_>, received: &mut Received) -> Result<(), Error> {
        if self.deepens || !self.stateless {
            self.connection.packets.send(&self.base)?;
        }
        if self.deepens {
            self.read_shallow(Some(received))?;
        }
        if !self.stateless {
            self.base.clear();
        }
        self.offer(wanted)?;
        if !self.ready || !self.no_done {
            pkt::write_line(&mut self.request, b"done\n");
            self.send()?;
            self.skip_shallow()?;
        }
        if !self.found {
            self.mode = AckMode::Single;
            self.unanswered += 1;
        }
        while self.unanswered > 0 || self.mode != AckMode::Single {
            match self.read_ack()? {
                Ack::Nak => self.unanswered = self.unanswered.saturating_sub(1),
                Ack::Final => break,
                Ack::Continue(_) | Ack::Common(_) | Ack::Ready(_) => self.mode = AckMode::Multi,
            }
        }
        Ok(())
    }

    /// Offers commits, until the server is ready or no commits are left.
    fn offer(&mut self, wanted: &mut Request<'_>) -> Result<(), Error> {
        let (mut pace, mut count) = (Pace::new(self.stateless), 0);
        for oid in wanted.negotiator.always() {
            push(&mut self.request, format_args!("have {oid}\n"));
            count += 1;
        }
        while let Some(oid) = wanted.negotiator.next_have()? {
            push(&mut self.request, format_args!("have {oid}\n"));
            self.in_vain += 1;
            count += 1;
            if count < pace.limit {
                continue;
            }
            pkt::write_flush(&mut self.request);
            self.send()?;
            self.unanswered += 1;
            pace.grow(count);
            // Over a stateful link the client stays one round ahead of the server.
            if !self.stateless && Pace::is_first(count) {
                continue;
            }
            self.skip_shallow()?;
            if !self.read_round(wanted.negotiator)? {
                return Ok(());
            }
            self.unanswered -= 1;
            if self.ready || (self.found && self.in_vain > MAX_IN_VAIN) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the response to one round. Returns false if the server ended the negotiation.
    fn read_round(&mut self, negotiator: &mut dyn Negotiator) -> Result<bool, Error> {
        loop {
            let ack = self.read_ack()?;
            match ack {
                Ack::Nak => return Ok(true),
                Ack::Final => {
                    self.unanswered = 0;
                    self.mode = AckMode::Single;
                    self.found = true;
                    return Ok(false);
                }
                Ack::Continue(oid) | Ack::Common(oid) | Ack::Ready(oid) => {
                    let known = negotiator.acknowledge(&oid)?;
                    let is_common = matches!(ack, Ack::Common(_));
                    if self.stateless && is_common && !known {
                        push(&mut self.base, format_args!("have {oid}\n"));
                    }
                    if !(self.stateless && is_common && known) {
                        self.in_vain = 0;
                    }
                    self.found = true;
                    self.ready |= matches!(ack, Ack::Ready(_));
                }
            }
        }
    }

    fn send(&mut self) -> Result<(), Error> {
        let request = std::mem::take(&mut self.request);
        if self.base.is_empty() {
            self.connection.packets.send(&request)
        } else {
            self.connection.packets.send(&[self.base.as_slice(), &request].concat())
        }
    }

    /// Skips the shallow section, which the server repeats in each response over a stateless link.
    fn skip_shallow(&mut self) -> Result<(), Error> {
        if self.stateless && self.deepens { self.read_shallow(None) } else { Ok(()) }
    }

    fn read_shallow(&mut self, mut received: Option<&mut Received>) -> Result<(), Error> {
        let mut line = Vec::new();
        while self.connection.packets.read_line(&mut line)? {
            let text = chomped(&line);
            let mut ignored = Received::default();
            let target = received.as_deref_mut().unwrap_or(&mut ignored);
            if !target.add_shallow(text, self.connection.hash)? {
                let text = text.as_bstr();
                return Err(Error::Message(format!("expected shallow/unshallow, got {text}")));
            }
        }
        Ok(())
    }

    fn read_ack(&mut self) -> Result<Ack, Error> {
        let mut line = Vec::new();
        if !self.connection.packets.read_line(&mut line)? {
            return Err(message("git fetch-pack: expected ACK/NAK, got a flush packet"));
        }
        let text = chomped(&line);
        parse_ack(text, self.connection.hash).ok_or_else(|| {
            Error::Message(format!("git fetch-pack: expected ACK/NAK, got '{}'", text.as_bstr()))
        })
    }
}

fn parse_ack(text: &[u8], hash: HashKind) -> Option<Ack> {
    if text == b"NAK" {
        return Some(Ack::Nak);
    }
    let mut words = text.strip_prefix(b"ACK ")?.split_str(" ");
    let oid = ObjectId::from_hex(hash, words.next()?)?;
    Some(match words.next() {
        Some(b"continue") => Ack::Continue(oid),
        Some(b"common") => Ack::Common(oid),
        Some(b"ready") => Ack::Ready(oid),
        _ => Ack::Final,
    })
}
