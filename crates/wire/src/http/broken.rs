//! Failures of a connection, in curl's wording.

use std::io;

/// The reason why a request got no complete response.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl Broken {
    pub(super) fn new(text: impl Into<String>) -> Broken {
        Broken(text.into())
    }

    /// Describes a failure of the connection in curl's wording.
    pub(super) fn receiving(error: &io::Error) -> Broken {
        Broken(match error.kind() {
            io::ErrorKind::UnexpectedEof => "Empty reply from server".into(),
            io::ErrorKind::ConnectionReset => "Recv failure: Connection reset by peer".into(),
            _ => error.to_string(),
        })
    }
}
