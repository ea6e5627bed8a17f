//! The interface between the protocol and a transport.

use std::io;

use super::Error;

/// A way to a server's `upload-pack`.
///
/// A stateful transport (a process, a socket) is one dialogue: all requests go to one server
/// process, and what it answers is one stream. Over a stateless transport (HTTP) each request
/// stands alone: the protocol repeats what the server must know, and [`io::Read::read`] ends with
/// the response.
///
/// [`io::Read::read`] of a new link gives the server's greeting: the capabilities, and for the
/// versions 0 and 1 the refs.
pub trait Link: io::Read + Send {
    /// Returns true if each request stands alone.
    fn is_stateless(&self) -> bool;

    /// Sends one request, which is whole packets. The bytes read afterwards are its response.
    fn send(&mut self, request: &[u8]) -> Result<(), Error>;

    /// Ends the dialogue. It is an error if the server reports a failure now.
    fn finish(self: Box<Self>) -> Result<(), Error>;
}
