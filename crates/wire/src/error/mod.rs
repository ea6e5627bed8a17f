//! Errors of connections.

mod http;

use std::io;

use ::http::Interrupted;
use bstr::BString;

pub use http::HttpError;

/// The reason why a connection failed. Messages are Git's, without `fatal: `.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("unable to run '{command}'")]
    Spawn { command: String, source: io::Error },
    /// The server hung up before it sent anything.
    #[error(
        "Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists."
    )]
    HungUp,
    /// The server hung up while it sent its refs or capabilities.
    #[error("the remote end hung up upon initial contact")]
    HungUpAtContact,
    /// The server hung up after that.
    #[error("the remote end hung up unexpectedly")]
    Lost,
    #[error("remote error: {0}")]
    Remote(BString),
    #[error("protocol error: {0}")]
    Protocol(String),
    /// A message of Git that needs no variant of its own.
    #[error("{0}")]
    Message(String),
    /// The configuration (`protocol.allow` or similar) forbids the transport.
    #[error("transport '{0}' not allowed")]
    Forbidden(BString),
    #[error("unable to find remote helper for '{0}'")]
    NoHelper(BString),
    #[error("remote helper '{0}' aborted session")]
    HelperAborted(BString),
    #[error("server options require protocol version 2 or later")]
    ServerOptions,
    /// A remote helper failed, and has printed the reason. Git then prints nothing and exits with
    /// 128.
    #[error("the remote helper failed")]
    HelperFailed,
    /// sapwood does not support this kind of URL. The command may be handed over to Git.
    #[error("cloning over {0} is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    Unsupported(BString),
    /// The server sent a complete response, and then failed.
    #[error("remote transport reported error")]
    Failed,
    #[error("protocol error while talking to upload-pack")]
    Io(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A boolean setting has another value.
    #[error("bad boolean config value '{value}' for '{key}'")]
    Boolean { key: String, value: BString },
    /// A boolean environment variable has another value.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    Variable { name: &'static str, value: BString },
    /// The caller's [`Settings`](crate::Settings) or [`Negotiator`](crate::Negotiator) failed.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns the error of a wait that may have been interrupted.
    pub(crate) fn of_wait(error: io::Error) -> Error {
        if Interrupted::caused(&error) { Error::Interrupted } else { Error::Io(error) }
    }

    /// Returns the error that a link wrapped into an [`io::Error`], or [`Error::Io`].
    pub(crate) fn of_io(error: io::Error) -> Error {
        match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Error::Lost,
            Err(error) => Error::Io(error),
        }
    }
}
