//! Failures of a connection, in curl's wording.

use std::io;

use rustls::CertificateError;

/// The reason why a request got no complete response.
#[derive(Debug)]
pub struct Broken {
    /// The reason in curl's words.
    pub text: String,
    /// The cause, for a caller with words of its own.
    pub cause: Cause,
}

/// A cause of a [`Broken`].
#[derive(Debug)]
pub enum Cause {
    /// No connection came about; the system's reason.
    Unreachable(String),
    /// The server's certificate is refused.
    Certificate(CertificateError),
    /// The proxy answered with this status.
    Proxy(u16),
    /// A setting cannot be used.
    Setting,
    /// The command was interrupted.
    Interrupted,
    /// The connection broke.
    Transfer,
}

impl Broken {
    /// Makes one whose cause is the connection.
    pub fn new(text: impl Into<String>) -> Broken {
        Broken { text: text.into(), cause: Cause::Transfer }
    }

    pub(crate) fn setting(text: impl Into<String>) -> Broken {
        Broken { text: text.into(), cause: Cause::Setting }
    }

    /// Describes a failure of the connection in curl's wording.
    pub fn receiving(error: &io::Error) -> Broken {
        if crate::Interrupted::caused(error) {
            return Broken { text: "interrupted".into(), cause: Cause::Interrupted };
        }
        Broken::new(match error.kind() {
            io::ErrorKind::UnexpectedEof => "Empty reply from server".into(),
            io::ErrorKind::ConnectionReset => "Recv failure: Connection reset by peer".into(),
            _ => error.to_string(),
        })
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::receiving(&error)
    }
}
