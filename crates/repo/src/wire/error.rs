//! Errors of connections.

use std::io;

use bstr::BString;

/// The reason why a conversation ended. Messages are Git's, without `fatal: `.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("unable to run '{command}'")]
    Spawn { command: String, source: io::Error },
    #[error(
        "Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists."
    )]
    HungUp,
    #[error("remote error: {0}")]
    Remote(BString),
    #[error("protocol error: {0}")]
    Protocol(String),
    /// `protocol.allow` and its kin forbid the transport.
    #[error("transport '{0}' not allowed")]
    Forbidden(BString),
    /// No part of sapwood speaks to this kind of address. The command may be handed over to Git.
    #[error("cloning over {0} is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    Unsupported(BString),
    /// The server sent everything, and then failed.
    #[error("remote transport reported error")]
    Failed,
    #[error("protocol error while talking to upload-pack")]
    Io(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Repo(#[from] crate::Error),
}
