//! A connection to a server, in the protocol version of the server.

use std::{io, sync::Arc};

use bstr::{BString, ByteSlice};
use format::{HashKind, pkt};

use super::{
    Advertisement, ConnectOptions, Error, HelperRequest, Version,
    capabilities::Capabilities,
    helper::Helper,
    link::Link,
    packets::{Contact, Packets, chomped},
};

/// A feature that a server may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Filters of objects (`--filter`).
    Filter,
    /// Shallow clones: `--depth`.
    Shallow,
    /// `--shallow-since`
    DeepenSince,
    /// `--shallow-exclude`
    DeepenNot,
    /// `--deepen`
    DeepenRelative,
    /// Requests for refs by name.
    RefInWant,
    /// Lists of bundles (`bundle-uri`).
    BundleUri,
    /// A negotiation without a pack.
    WaitForDone,
    /// Requests for hidden tips by object name.
    TipInWant,
    /// Requests for any reachable object by its name. Servers of version 2 do not announce it, and
    /// fail for objects that they refuse.
    ReachableInWant,
    /// Refs limited by prefixes, and other features of version 2.
    Version2,
}

/// An open connection to a server.
pub struct Connection {
    pub(super) packets: Packets,
    pub(super) hash: HashKind,
    pub(super) version: Version,
    pub(super) capabilities: Capabilities,
    pub(super) server_options: Vec<BString>,
    /// The refs that a server of version 0 or 1 sends without a request.
    pub(super) advertisement: Advertisement,
    /// The remote helper that writes objects itself; such a connection has no packets.
    helper: Option<Box<Helper>>,
}

impl Connection {
    /// Reads the capabilities.
    pub(super) fn open(link: Box<dyn Link>, options: &ConnectOptions) -> Result<Connection, Error> {
        let mut connection = Connection {
            packets: Packets::new(link, options.tracer.as_ref().map(Arc::clone)),
            hash: HashKind::Sha1,
            version: Version::V0,
            capabilities: Capabilities::default(),
            server_options: if options.server_options.is_empty() {
                options.configured_server_options.clone()
            } else {
                options.server_options.clone()
            },
            advertisement: Advertisement::default(),
            helper: None,
        };
        let mut line = Vec::new();
        let mut first = connection.packets.read(&mut line)?;
        if line.starts_with(b"# service=") && connection.packets.link.is_stateless() {
            while connection.packets.read_line(&mut line)? {}
            first = connection.packets.read(&mut line)?;
        }
        connection.packets.contact = Contact::Begun;
        match (first, chomped(&line)) {
            (pkt::Header::Data(_), b"version 2") => {
                connection.version = Version::V2;
                connection.read_v2_capabilities()?;
            }
            (pkt::Header::Data(_), b"version 1") => {
                connection.version = Version::V1;
                let first = connection.packets.read(&mut line)?;
                connection.read_v0_refs(first, line)?;
            }
            (_, text) if text.starts_with(b"version ") => {
                return Err(Error::Message(format!(
                    "server is speaking an unknown protocol: {}",
                    text.as_bstr()
                )));
            }
            _ => connection.read_v0_refs(first, line)?,
        }
        connection.packets.contact = Contact::Made;
        if !options.server_options.is_empty() && connection.version != Version::V2 {
            return Err(Error::ServerOptions);
        }
        Ok(connection)
    }

    /// Lists the refs of a remote helper that writes objects itself.
    pub(super) fn of_helper(mut helper: Helper, options: &ConnectOptions) -> Result<Connection, Error> {
        let (advertisement, hash) = helper.list()?;
        Ok(Connection {
            packets: Packets::new(Box::new(NoLink), options.tracer.as_ref().map(Arc::clone)),
            hash,
            version: Version::V0,
            capabilities: Capabilities::default(),
            server_options: Vec::new(),
            advertisement,
            helper: Some(Box::new(helper)),
        })
    }

    /// Returns true if a remote helper writes the objects. The caller then uses
    /// [`Connection::fetch_by_helper`] instead of [`Connection::fetch`].
    pub fn writes_objects(&self) -> bool {
        self.helper.is_some()
    }

    /// Lets the remote helper fetch objects into the repository of the client. Returns the paths of
    /// the `.keep` files that protect the new packs; the caller removes them once refs point to the
    /// objects.
    pub fn fetch_by_helper(self, wanted: &HelperRequest<'_>) -> Result<Vec<BString>, Error> {
        match self.helper {
            Some(helper) => helper.fetch(wanted),
            None => Err(Error::Message("the transport does not write objects".into())),
        }
    }

    /// Returns the hash algorithm of the server's object names.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the protocol version of the server.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns true if the server has the feature.
    pub fn has(&self, feature: Feature) -> bool {
        if self.version == Version::V2 {
            return match feature {
                Feature::Filter => self.capabilities.has_word("fetch", "filter"),
                Feature::Shallow | Feature::DeepenSince | Feature::DeepenNot | Feature::DeepenRelative => {
                    self.capabilities.has_word("fetch", "shallow")
                }
                Feature::RefInWant => self.capabilities.has_word("fetch", "ref-in-want"),
                Feature::WaitForDone => self.capabilities.has_word("fetch", "wait-for-done"),
                Feature::BundleUri => self.capabilities.has("bundle-uri"),
                Feature::TipInWant | Feature::ReachableInWant | Feature::Version2 => true,
            };
        }
        match feature {
            Feature::Filter => self.capabilities.has("filter"),
            Feature::Shallow => self.capabilities.has("shallow"),
            Feature::DeepenSince => self.capabilities.has("deepen-since"),
            Feature::DeepenNot => self.capabilities.has("deepen-not"),
            Feature::DeepenRelative => self.capabilities.has("deepen-relative"),
            Feature::TipInWant => self.capabilities.has("allow-tip-sha1-in-want"),
            Feature::ReachableInWant => self.capabilities.has("allow-reachable-sha1-in-want"),
            Feature::RefInWant | Feature::WaitForDone | Feature::BundleUri | Feature::Version2 => false,
        }
    }

    /// Requests the refs that begin with one of `prefixes`. A server of version 0 or 1 lists all
    /// refs.
    pub fn list_refs(&mut self, prefixes: &[BString]) -> Result<Advertisement, Error> {
        match self.version {
            Version::V2 => self.list_refs_v2(prefixes),
            Version::V0 | Version::V1 => Ok(self.advertisement.clone()),
        }
    }

    /// Closes the connection. The failure of a remote helper is an error. The exit code of other
    /// servers is ignored, because they may still have output to write.
    pub fn close(mut self) -> Result<(), Error> {
        if let Some(helper) = self.helper {
            return helper.end();
        }
        if self.packets.link.is_stateless() {
            return self.packets.link.finish();
        }
        self.packets.send(b"0000")?;
        match self.packets.link.finish() {
            Err(Error::Failed) => Ok(()),
            other => other,
        }
    }
}

/// The link of a connection without packets.
struct NoLink;

impl io::Read for NoLink {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}

impl Link for NoLink {
    fn is_stateless(&self) -> bool {
        true
    }

    fn send(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
