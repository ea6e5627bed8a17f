//! The client against servers in threads.

#![allow(clippy::disallowed_methods, missing_docs)]

mod client;
mod server;
mod tls;
