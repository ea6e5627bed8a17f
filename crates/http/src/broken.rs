//! Failures of a connection, in curl's wording.

use std::{io, path::PathBuf};

use rustls::CertificateError;

use crate::message::Failure;

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
    /// The certificate of the proxy at this address is refused.
    ProxyCertificate(String, CertificateError),
    /// The proxy answered with this status.
    Proxy(u16),
    /// A setting cannot be used.
    Setting,
    /// A redirect that is not followed.
    Redirect,
    /// The file with the request's body could not be read.
    Body {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The command was interrupted.
    Interrupted,
    /// The server made no progress for too long.
    TimedOut,
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

    pub(crate) fn redirect(text: impl Into<String>) -> Broken {
        Broken { text: text.into(), cause: Cause::Redirect }
    }

    /// Describes a failure of the connection in curl's wording.
    pub fn receiving(error: &io::Error) -> Broken {
        if crate::Interrupted::caused(error) {
            return Broken { text: "interrupted".into(), cause: Cause::Interrupted };
        }
        let cause = match error.kind() {
            io::ErrorKind::TimedOut => Cause::TimedOut,
            _ => Cause::Transfer,
        };
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => "Empty reply from server".into(),
            io::ErrorKind::ConnectionReset => "Recv failure: Connection reset by peer".into(),
            _ => error.to_string(),
        };
        Broken { text, cause }
    }

    /// Describes a failed request whose body, if it has one, is in the file `path`.
    pub(crate) fn failed(failure: Failure, path: Option<&std::path::Path>) -> Broken {
        match failure {
            Failure::Connection(error) => Broken::receiving(&error),
            Failure::Header(_) => Broken::setting(failure.to_string()),
            Failure::Body(source) => {
                let path = path.unwrap_or_else(|| "".as_ref()).to_owned();
                Broken { text: source.to_string(), cause: Cause::Body { path, source } }
            }
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::receiving(&error)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::failed(failure, None)
    }
}
