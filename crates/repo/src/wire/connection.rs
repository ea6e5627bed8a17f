//! The dialogue with a server: protocol version 2.
//!
//! Format: Git's `gitprotocol-v2(5)`.

use std::{
    collections::BTreeSet,
    io::{self, Read},
    sync::Arc,
};

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId, pkt};

use super::{
    Advertisement, ConnectOptions, Error, PackStream, Packet, Request, Tracer, advertisement::parse_ref,
    link::Link,
};

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Version {
    V0,
    V1,
    V2,
}

impl Version {
    /// Returns the number.
    pub fn number(self) -> u8 {
        match self {
            Version::V0 => 0,
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}

/// A feature that a server may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Object filters.
    Filter,
    /// Shallow clones: `--depth`.
    Shallow,
    /// Requests for refs by name.
    RefInWant,
    /// Lists of bundles.
    BundleUri,
}

/// A running conversation with a server.
pub struct Connection {
    link: Box<dyn Link>,
    hash: HashKind,
    version: Version,
    capabilities: BTreeSet<BString>,
    server_options: Vec<BString>,
    tracer: Option<Arc<Tracer>>,
}

impl Connection {
    /// Reads the capabilities.
    pub(super) fn open(link: Box<dyn Link>, options: &ConnectOptions) -> Result<Connection, Error> {
        let mut connection = Connection {
            link,
            hash: HashKind::Sha1,
            version: Version::V2,
            capabilities: BTreeSet::new(),
            server_options: options.server_options.clone(),
            tracer: options.tracer.clone(),
        };
        connection.read_capabilities()?;
        Ok(connection)
    }

    /// Returns the hash of the server's object names.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the protocol that the server speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns true if the server has the feature.
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Filter => self.has_word("fetch", "filter"),
            Feature::Shallow => self.has_word("fetch", "shallow"),
            Feature::RefInWant => self.has_word("fetch", "ref-in-want"),
            Feature::BundleUri => self.capabilities.iter().any(|capability| capability == "bundle-uri"),
        }
    }

    fn read_capabilities(&mut self) -> Result<(), Error> {
        let mut line = Vec::new();
        let first = self.read_line(&mut line)?;
        if !matches!(first, pkt::Header::Data(_)) || line.trim_ascii_end() != b"version 2" {
            return Err(Error::Protocol("upload-pack does not speak protocol version 2".into()));
        }
        while let pkt::Header::Data(_) = self.read_line(&mut line)? {
            let capability = line.trim_ascii_end();
            if let Some(name) = capability.strip_prefix(b"object-format=") {
                self.hash = match name {
                    b"sha1" => HashKind::Sha1,
                    b"sha256" => HashKind::Sha256,
                    other => {
                        return Err(Error::Protocol(format!(
                            "unknown object format '{}' specified by server",
                            other.as_bstr()
                        )));
                    }
                };
            }
            self.capabilities.insert(capability.into());
        }
        Ok(())
    }

    /// Returns true if `word` is among the space-separated values of the capability `name`.
    fn has_word(&self, name: &str, word: &str) -> bool {
        let prefix = format!("{name}=");
        self.capabilities
            .iter()
            .filter_map(|capability| capability.strip_prefix(prefix.as_bytes()))
            .any(|values| values.split_str(" ").any(|value| value == word.as_bytes()))
    }

    fn begin(&self, command: &str) -> Vec<u8> {
        let mut request = Vec::new();
        pkt::write_line(&mut request, format!("command={command}\n").as_bytes());
        pkt::write_line(&mut request, concat!("agent=sapwood/", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
        if self.capabilities.iter().any(|capability| capability.starts_with(b"object-format=")) {
            pkt::write_line(&mut request, format!("object-format={}\n", self.hash.name()).as_bytes());
        }
        for option in &self.server_options {
            pkt::write_line(&mut request, format!("server-option={option}").as_bytes());
        }
        pkt::write_delimiter(&mut request);
        request
    }

    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<pkt::Header, Error> {
        let header = read_line(&mut self.link, line);
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

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
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
        self.link.send(request)
    }

    /// Requests the refs that begin with one of `prefixes`.
    pub fn list_refs(&mut self, prefixes: &[BString]) -> Result<Advertisement, Error> {
        let mut request = self.begin("ls-refs");
        pkt::write_line(&mut request, b"peel\n");
        pkt::write_line(&mut request, b"symrefs\n");
        if self.has_word("ls-refs", "unborn") {
            pkt::write_line(&mut request, b"unborn\n");
        }
        for prefix in prefixes {
            pkt::write_line(&mut request, format!("ref-prefix {prefix}\n").as_bytes());
        }
        pkt::write_flush(&mut request);
        self.send(&request)?;

        let mut advertisement = Advertisement::default();
        let mut line = Vec::new();
        while let pkt::Header::Data(_) = self.read_line(&mut line)? {
            parse_ref(self.hash, line.trim_end_with(|c| c == '\n'), &mut advertisement)
                .ok_or_else(|| Error::Protocol(format!("invalid ls-refs response: {}", line.as_bstr())))?;
        }
        Ok(advertisement)
    }

    /// Negotiates, and requests all objects that are reachable from the wants. The caller reads the
    /// pack from the returned value.
    pub fn fetch<'a>(mut self, wanted: &mut Request<'a>) -> Result<PackStream<'a>, Error> {
        let mut request = self.begin("fetch");
        if wanted.thin_pack {
            pkt::write_line(&mut request, b"thin-pack\n");
        }
        if !wanted.progress {
            pkt::write_line(&mut request, b"no-progress\n");
        }
        if wanted.include_tags {
            pkt::write_line(&mut request, b"include-tag\n");
        }
        pkt::write_line(&mut request, b"ofs-delta\n");
        let limits = wanted.limits;
        if let Some(depth) = limits.depth {
            pkt::write_line(&mut request, format!("deepen {depth}\n").as_bytes());
        }
        for name in &limits.exclude {
            pkt::write_line(&mut request, format!("deepen-not {name}\n").as_bytes());
        }
        if let Some(filter) = limits.filter.as_ref().filter(|_| self.has(Feature::Filter)) {
            pkt::write_line(&mut request, format!("filter {filter}\n").as_bytes());
        }
        for want in wanted.wants {
            pkt::write_line(&mut request, format!("want {want}\n").as_bytes());
        }
        pkt::write_line(&mut request, b"done\n");
        pkt::write_flush(&mut request);
        self.send(&request)?;

        let mut line = Vec::new();
        let mut shallow = Vec::new();
        loop {
            match self.read_line(&mut line)? {
                pkt::Header::Data(_) => {}
                other => return Err(Error::Protocol(format!("expected a section, found {other:?}"))),
            }
            match line.trim_ascii_end() {
                b"packfile" => break,
                b"shallow-info" => {
                    while let pkt::Header::Data(_) = self.read_line(&mut line)? {
                        let oid = line
                            .trim_ascii_end()
                            .strip_prefix(b"shallow ")
                            .and_then(|hex| ObjectId::from_hex(self.hash, hex))
                            .ok_or_else(|| {
                                Error::Protocol(format!("invalid shallow line: {}", line.as_bstr()))
                            })?;
                        shallow.push(oid);
                    }
                }
                other => return Err(Error::Protocol(format!("unexpected section '{}'", other.as_bstr()))),
            }
        }
        Ok(PackStream::new(self.link, wanted.texts, shallow, self.tracer))
    }
}

fn read_line(from: &mut impl Read, line: &mut Vec<u8>) -> Result<pkt::Header, Error> {
    let hung_up = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::HungUp,
        _ => Error::Io(error),
    };
    line.clear();
    let mut digits = [0; 4];
    from.read_exact(&mut digits).map_err(hung_up)?;
    let header = pkt::parse_header(digits)
        .ok_or_else(|| Error::Protocol(format!("bad line length character: {}", digits.as_bstr())))?;
    if let pkt::Header::Data(length) = header {
        line.resize(length, 0);
        from.read_exact(line).map_err(hung_up)?;
        if let Some(text) = line.strip_prefix(b"ERR ") {
            return Err(Error::Remote(text.trim_ascii_end().into()));
        }
    }
    Ok(header)
}
