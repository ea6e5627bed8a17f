//! Protocol version 2.
//!
//! Each request repeats the complete state, so it is the same on stateful and stateless links.
//! Format: Git's `gitprotocol-v2(5)`.

use std::collections::HashSet;

use bstr::{BString, ByteSlice};
use format::{ObjectId, pkt};

use super::{
    Advertisement, Connection, Error, Feature, Negotiator, PackStream, Request,
    advertisement::parse_ref,
    capabilities::agent,
    haves::{MAX_IN_VAIN, Pace},
    pack_stream::{Bands, Received},
    packets::chomped,
};

/// The commits that were offered, and those that the server has.
struct Haves {
    /// In the order in which the server acknowledged them.
    common: Vec<ObjectId>,
    known: HashSet<ObjectId>,
    pace: Pace,
    in_vain: usize,
    acknowledged: bool,
}

impl Haves {
    fn new() -> Haves {
        Haves {
            common: Vec::new(),
            known: HashSet::new(),
            pace: Pace::new(true),
            in_vain: 0,
            acknowledged: false,
        }
    }

    /// Adds the next round of commits. Returns true if the negotiation should continue.
    fn add(&mut self, negotiator: &mut dyn Negotiator, request: &mut Vec<u8>) -> Result<bool, Error> {
        for oid in negotiator.always() {
            push(request, format_args!("have {oid}\n"));
        }
        let mut added = 0;
        while added < self.pace.limit {
            let Some(oid) = negotiator.next_have()? else { break };
            push(request, format_args!("have {oid}\n"));
            added += 1;
        }
        self.in_vain += added;
        self.pace.grow(self.pace.limit);
        Ok(added > 0 && !(self.acknowledged && self.in_vain >= MAX_IN_VAIN))
    }
}

/// The response to a round of commits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The server continues with the pack.
    Ready,
    /// The server waits for more commits, or for `done`.
    More,
}

fn push(request: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    pkt::write_line(request, text.to_string().as_bytes());
}

fn message(text: String) -> Error {
    Error::Message(text)
}

impl Connection {
    pub(super) fn read_v2_capabilities(&mut self) -> Result<(), Error> {
        let mut line = Vec::new();
        loop {
            match self.packets.read(&mut line) {
                Ok(pkt::Header::Data(_)) => self.capabilities.push(line.trim_ascii_end()),
                Ok(pkt::Header::Flush) => break,
                Ok(_) | Err(Error::HungUpAtContact) => {
                    return Err(message("expected flush after capabilities".into()));
                }
                Err(error) => return Err(error),
            }
        }
        self.hash = self.capabilities.hash()?;
        Ok(())
    }

    fn begin(&self, command: &str) -> Result<Vec<u8>, Error> {
        if !self.capabilities.has(command) {
            return Err(message(format!("server doesn't support '{command}'")));
        }
        let mut request = Vec::new();
        push(&mut request, format_args!("command={command}\n"));
        if self.capabilities.has("agent") {
            push(&mut request, format_args!("agent={}\n", agent()));
        }
        if self.capabilities.has("object-format") {
            push(&mut request, format_args!("object-format={}\n", self.hash.name()));
        }
        if !self.server_options.is_empty() && !self.capabilities.has("server-option") {
            return Err(message("server doesn't support 'server-option'".into()));
        }
        for option in &self.server_options {
            pkt::write_line(&mut request, &[b"server-option=", option.as_bytes()].concat());
        }
        pkt::write_delimiter(&mut request);
        Ok(request)
    }

    pub(super) fn list_refs_v2(&mut self, prefixes: &[BString]) -> Result<Advertisement, Error> {
        let mut request = self.begin("ls-refs")?;
        pkt::write_line(&mut request, b"peel\n");
        pkt::write_line(&mut request, b"symrefs\n");
        if self.capabilities.has_word("ls-refs", "unborn") {
            pkt::write_line(&mut request, b"unborn\n");
        }
        for prefix in prefixes {
            pkt::write_line(&mut request, &[b"ref-prefix ", prefix.as_bytes(), b"\n"].concat());
        }
        pkt::write_flush(&mut request);
        self.packets.send(&request)?;

        let mut advertisement = Advertisement::default();
        let mut line = Vec::new();
        loop {
            match self.packets.read(&mut line) {
                Ok(pkt::Header::Data(_)) => {
                    let found = parse_ref(self.hash, chomped(&line), &mut advertisement);
                    found.ok_or_else(|| {
                        message(format!("invalid ls-refs response: {}", chomped(&line).as_bstr()))
                    })?;
                }
                Ok(pkt::Header::Flush) => break,
                Ok(_) | Err(Error::Lost) => {
                    return Err(message("expected flush after ref listing".into()));
                }
                Err(error) => return Err(error),
            }
        }
        self.packets.expect_end("ref listing")?;
        Ok(advertisement)
    }

    /// Returns the server's bundle list: keys and values of a configuration.
    pub fn list_bundles(&mut self) -> Result<Vec<(BString, BString)>, Error> {
        let mut request = self.begin("bundle-uri")?;
        // The command has no arguments, so a flush follows its capabilities, and no delimiter.
        request.truncate(request.len() - b"0001".len());
        pkt::write_flush(&mut request);
        self.packets.send(&request)?;
        let (mut line, mut found) = (Vec::new(), Vec::new());
        loop {
            match self.packets.read(&mut line)? {
                pkt::Header::Data(_) => {}
                pkt::Header::Flush => break,
                _ => return Err(message("expected flush after bundle-uri listing".into())),
            }
            let text = chomped(&line);
            let (key, value) = text
                .split_once_str("=")
                .filter(|(key, value)| !key.is_empty() && !value.is_empty())
                .ok_or_else(|| message(format!("error on bundle-uri response line: {}", text.as_bstr())))?;
            found.push((key.into(), value.into()));
        }
        self.packets.expect_end("ref listing")?;
        Ok(found)
    }

    pub(super) fn fetch_v2<'a>(mut self, wanted: &mut Request<'a>) -> Result<PackStream<'a>, Error> {
        let base = self.fetch_request(wanted)?;
        let mut haves = Haves::new();
        loop {
            let mut request = base.clone();
            for oid in &haves.common {
                push(&mut request, format_args!("have {oid}\n"));
            }
            let more = haves.add(wanted.negotiator, &mut request)?;
            if !more {
                pkt::write_line(&mut request, b"done\n");
            }
            pkt::write_flush(&mut request);
            self.packets.send(&request)?;
            if !more || self.read_acknowledgments(&mut haves, wanted.negotiator)? == Answer::Ready {
                break;
            }
        }
        let received = self.read_sections()?;
        Ok(PackStream::new(self, wanted.texts, Bands::Multiplexed, received))
    }

    /// Returns the first part of every request of this fetch.
    fn fetch_request(&self, wanted: &Request<'_>) -> Result<Vec<u8>, Error> {
        let mut request = self.begin("fetch")?;
        let flags: [(bool, &[u8]); 4] = [
            (wanted.thin_pack, b"thin-pack\n"),
            (!wanted.progress, b"no-progress\n"),
            (wanted.include_tags, b"include-tag\n"),
            (true, b"ofs-delta\n"),
        ];
        for (_, text) in flags.into_iter().filter(|(is_set, _)| *is_set) {
            pkt::write_line(&mut request, text);
        }
        let limits = wanted.limits;
        if self.has(Feature::Shallow) {
            limits.write(wanted.shallow, &mut request);
            if limits.relative {
                pkt::write_line(&mut request, b"deepen-relative\n");
            }
        } else if limits.deepens() || !wanted.shallow.is_empty() {
            return Err(message("Server does not support shallow requests".into()));
        }
        if let Some(filter) = limits.filter.as_ref().filter(|_| self.has(Feature::Filter)) {
            push(&mut request, format_args!("filter {filter}\n"));
        }
        if !wanted.uri_protocols.is_empty() && self.capabilities.has_word("fetch", "packfile-uris") {
            let protocols = bstr::join(",", wanted.uri_protocols);
            push(&mut request, format_args!("packfile-uris {}\n", protocols.as_bstr()));
        }
        for name in wanted.want_refs {
            pkt::write_line(&mut request, &[b"want-ref ", name.as_bytes(), b"\n"].concat());
        }
        for want in wanted.wants {
            push(&mut request, format_args!("want {want}\n"));
        }
        Ok(request)
    }

    fn read_acknowledgments(
        &mut self,
        haves: &mut Haves,
        negotiator: &mut dyn Negotiator,
    ) -> Result<Answer, Error> {
        let mut line = Vec::new();
        self.expect_section("acknowledgments", &mut line)?;
        let (mut acknowledged, mut answer) = (false, Answer::More);
        let end = loop {
            let header = self.packets.read(&mut line)?;
            if !matches!(header, pkt::Header::Data(_)) {
                break header;
            }
            match chomped(&line) {
                b"NAK" => {}
                b"ready" => answer = Answer::Ready,
                text => {
                    let oid = text.strip_prefix(b"ACK ").and_then(|hex| ObjectId::from_hex(self.hash, hex));
                    let oid = oid.ok_or_else(|| {
                        message(format!("unexpected acknowledgment line: '{}'", text.as_bstr()))
                    })?;
                    if haves.known.insert(oid) {
                        haves.common.push(oid);
                    }
                    negotiator.acknowledge(&oid)?;
                    acknowledged = true;
                }
            }
        };
        match (answer, end) {
            (Answer::Ready, pkt::Header::Delimiter) | (Answer::More, pkt::Header::Flush) => {}
            (Answer::Ready, _) => {
                return Err(message("expected packfile to be sent after 'ready'".into()));
            }
            (Answer::More, _) => {
                return Err(message("expected no other sections to be sent after no 'ready'".into()));
            }
        }
        if acknowledged {
            haves.in_vain = 0;
            haves.acknowledged = true;
        }
        Ok(answer)
    }

    /// Reads the header of a section, which must be `name`.
    fn expect_section(&mut self, name: &str, line: &mut Vec<u8>) -> Result<(), Error> {
        match self.packets.read_line(line)? {
            true if chomped(line) == name.as_bytes() => Ok(()),
            true => Err(message(format!("expected '{name}', received '{}'", chomped(line).as_bstr()))),
            false => Err(message(format!("error reading section header '{name}'"))),
        }
    }

    /// Reads all sections before the pack.
    fn read_sections(&mut self) -> Result<Received, Error> {
        const ORDER: [&str; 4] = ["shallow-info", "wanted-refs", "packfile-uris", "packfile"];
        let (mut line, mut received, mut next) = (Vec::new(), Received::default(), 0);
        loop {
            if !self.packets.read_line(&mut line)? {
                return Err(message("error reading section header 'packfile'".into()));
            }
            let name = chomped(&line).to_vec();
            let Some(at) = ORDER.iter().position(|known| name == known.as_bytes()).filter(|at| *at >= next)
            else {
                return Err(message(format!("expected 'packfile', received '{}'", name.as_bstr())));
            };
            next = at + 1;
            if ORDER[at] == "packfile" {
                return Ok(received);
            }
            loop {
                match self.packets.read(&mut line)? {
                    pkt::Header::Data(_) => {
                        received.add(ORDER[at], chomped(&line), self.hash)?;
                    }
                    pkt::Header::Delimiter => break,
                    _ => return Err(message(format!("error processing {}", ORDER[at]))),
                }
            }
        }
    }

    /// Negotiates without a pack, and returns the offered commits that the server has
    /// (`--negotiate-only`).
    pub fn negotiate(&mut self, negotiator: &mut dyn Negotiator) -> Result<Vec<ObjectId>, Error> {
        if !self.has(Feature::WaitForDone) {
            return Err(message("server does not support wait-for-done".into()));
        }
        let mut haves = Haves::new();
        let mut line = Vec::new();
        loop {
            let mut request = self.begin("fetch")?;
            pkt::write_line(&mut request, b"wait-for-done");
            let more = haves.add(negotiator, &mut request)?;
            pkt::write_flush(&mut request);
            self.packets.send(&request)?;
            self.expect_section("acknowledgments", &mut line)?;
            while self.packets.read_line(&mut line)? {
                match chomped(&line) {
                    b"NAK" => {}
                    b"ready" => return Err(message("unexpected 'ready' from remote".into())),
                    text => {
                        let oid =
                            text.strip_prefix(b"ACK ").and_then(|hex| ObjectId::from_hex(self.hash, hex));
                        let oid = oid.ok_or_else(|| {
                            message(format!("unexpected acknowledgment line: '{}'", text.as_bstr()))
                        })?;
                        if haves.known.insert(oid) {
                            haves.common.push(oid);
                        }
                        negotiator.acknowledge(&oid)?;
                        (haves.in_vain, haves.acknowledged) = (0, true);
                    }
                }
            }
            if !more || negotiator.is_settled()? {
                return Ok(haves.common);
            }
        }
    }
}
