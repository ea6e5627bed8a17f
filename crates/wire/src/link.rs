//! The interface between the protocol and a transport.

use std::io;

use super::Error;

/// A link to a server's `upload-pack`.
///
/// Over a stateful transport (a process, a socket) all requests go to one server process, and its
/// responses are one stream. Over a stateless transport (HTTP) requests are independent: the
/// protocol repeats the state that the server needs, and [`io::Read::read`] ends with each
/// response.
///
/// [`io::Read::read`] of a new link returns the server's greeting: the capabilities, and in
/// versions 0 and 1 the refs.
pub trait Link: io::Read + Send {
    /// Returns true if requests are independent of each other.
    fn is_stateless(&self) -> bool;

    /// Sends one request, which consists of complete packets. The bytes read afterwards are its
    /// response.
    fn send(&mut self, request: &[u8]) -> Result<(), Error>;

    /// Closes the link. Returns an error if the server reports a failure at this point.
    fn finish(self: Box<Self>) -> Result<(), Error>;
}
