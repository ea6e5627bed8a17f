//! The request for a pack.

use bstr::{BString, ByteSlice};
use format::{ObjectId, pkt};

use super::Error;

/// Receives the server's texts as they arrive, on any thread.
pub type Sideband<'a> = dyn Fn(&[u8]) + Sync + 'a;

/// The requested part of the history and its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `--depth`
    pub depth: Option<u32>,
    /// `--deepen`: the depth counts from the current boundary.
    pub relative: bool,
    /// `--shallow-since`, in seconds since the epoch.
    pub since: Option<i64>,
    /// `--shallow-exclude`, in order.
    pub exclude: Vec<BString>,
    /// `--filter`, in the form that the server expects.
    pub filter: Option<BString>,
}

impl Limits {
    /// Returns true if the request limits the history.
    pub fn deepens(&self) -> bool {
        self.depth.is_some() || self.since.is_some() || !self.exclude.is_empty()
    }

    /// Appends the lines about the client's current boundary and the requested one.
    pub(super) fn write(&self, shallow: &[ObjectId], request: &mut Vec<u8>) {
        for oid in shallow {
            pkt::write_line(request, format!("shallow {oid}\n").as_bytes());
        }
        if let Some(depth) = self.depth {
            pkt::write_line(request, format!("deepen {depth}\n").as_bytes());
        }
        if let Some(since) = self.since {
            pkt::write_line(request, format!("deepen-since {since}\n").as_bytes());
        }
        for name in &self.exclude {
            pkt::write_line(request, &[b"deepen-not ", name.as_bytes(), b"\n"].concat());
        }
    }
}

/// A request for objects.
pub struct Request<'a> {
    /// The requested objects, in the order in which they are sent.
    pub wants: &'a [ObjectId],
    /// Refs to request by name, if the server has the feature `ref-in-want`.
    pub want_refs: &'a [BString],
    /// The commits that the client offers as a base.
    pub negotiator: &'a mut dyn Negotiator,
    /// The client's shallow commits.
    pub shallow: &'a [ObjectId],
    /// The requested part of the history.
    pub limits: &'a Limits,
    /// Request annotated tags of the sent objects too.
    pub include_tags: bool,
    /// Accept deltas against objects that the client has.
    pub thin_pack: bool,
    /// Request progress.
    pub progress: bool,
    /// Protocols of URIs from which parts of the pack may be fetched (`fetch.uriProtocols`).
    pub uri_protocols: &'a [BString],
    /// Receives the texts of the server, unchanged: messages, and progress if it is requested.
    pub texts: &'a Sideband<'a>,
}

/// Chooses the commits that are offered to the server. Source: `fetch.negotiationAlgorithm` in
/// git-config(1).
pub trait Negotiator {
    /// Returns the next commit to offer; `None` if there are no more.
    fn next_have(&mut self) -> Result<Option<ObjectId>, Error>;

    /// Returns the commits that are sent before all others in each round, and counts them as
    /// offered.
    fn always(&mut self) -> Vec<ObjectId> {
        Vec::new()
    }

    /// Records that the server has `commit`. Returns true if this was known before.
    fn acknowledge(&mut self, commit: &ObjectId) -> Result<bool, Error>;

    /// Returns true if the acknowledged commits cover all commits that could be offered. Only
    /// [`super::Connection::negotiate`] calls this.
    fn is_settled(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Offers nothing: a clone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHaves;

impl Negotiator for NoHaves {
    fn next_have(&mut self) -> Result<Option<ObjectId>, Error> {
        Ok(None)
    }

    fn acknowledge(&mut self, _: &ObjectId) -> Result<bool, Error> {
        Ok(false)
    }
}
