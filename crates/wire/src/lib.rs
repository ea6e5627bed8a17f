//! The client's side of Git's transfer protocols: URLs, transports, and the protocol of
//! `upload-pack`.
//!
//! Order: [`Client`] holds the settings that configuration and environment make for connections.
//! [`Client::connect`] starts a transport (a [`link::Link`]) and reads the server's capabilities.
//! [`Connection::list_refs`] requests refs. [`Connection::fetch`] negotiates and returns the stream
//! of the pack. Dropping a connection ends its process or closes its socket.
//!
//! Data from a server is not trusted: every length is bounded, and a malformed line is an error
//! that quotes it. Formats: Git's `gitprotocol-common(5)`, `gitprotocol-pack(5)`,
//! `gitprotocol-v2(5)`, `gitremote-helpers(7)`.

mod advertisement;
mod capabilities;
mod client;
mod connection;
mod credential;
mod environment;
mod error;
mod haves;
mod helper;
mod http;
mod interrupt;
pub mod link;
mod matching;
mod options;
mod pack_stream;
mod packets;
mod policy;
mod process;
mod relative;
mod request;
#[cfg(any(test, feature = "fuzz"))]
pub mod scripted;
mod settings;
mod shell;
mod socket;
mod ssh;
mod trace;
pub mod url;
mod v0;
mod v2;

pub use ::http::AddressFamily;
pub use advertisement::{Advertisement, RemoteRef};
pub use client::Client;
pub use connection::{Connection, Feature};
pub use environment::without_repository;
pub use error::{Error, HttpError};
pub use helper::Wanted as HelperRequest;
pub use http::{Beginning, ClientSettings, Resume};
pub use options::{ConnectOptions, Version};
pub use pack_stream::{PackStream, PackUri};
pub use request::{Limits, Negotiator, NoHaves, Request, Sideband};
pub use settings::Settings;
pub use trace::{Packet, Tracer};
