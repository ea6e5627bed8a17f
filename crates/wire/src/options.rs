//! How to connect to a server.

use std::sync::{Arc, atomic::AtomicBool};

use ::http::AddressFamily;
use bstr::BString;

use super::Tracer;

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

/// How to connect.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// `--upload-pack`, or `remote.<name>.uploadpack`.
    pub program: Option<BString>,
    /// `--server-option`, in order. They are an error with a server of version 0 or 1.
    pub server_options: Vec<BString>,
    /// `remote.<name>.serverOption`, unless `server_options` overrides it. Not sent to a server of
    /// version 0 or 1.
    pub configured_server_options: Vec<BString>,
    /// `-4`, `-6`
    pub family: AddressFamily,
    /// The protocol version to request; `None` for `protocol.version`.
    pub version: Option<Version>,
    /// Show progress. Passed on to remote helpers.
    pub progress: bool,
    /// The number of `-v` options, or, negative, of `-q` options. Passed on to remote helpers.
    pub verbosity: i32,
    /// Receives all packets.
    pub tracer: Option<Arc<Tracer>>,
    /// Ends every wait when it becomes true.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// The name of the remote. Passed on to remote helpers.
    pub remote: Option<BString>,
    /// Prints a part of a line about the progress of connecting. `None` prints nothing.
    pub voice: Option<fn(&str)>,
}
