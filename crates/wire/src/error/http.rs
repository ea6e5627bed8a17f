//! Errors of HTTP, in Git's and curl's wording.

use std::io;

use bstr::BString;

/// The reason why an HTTP request failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum HttpError {
    #[error("unable to access '{url}': {reason}")]
    Access { url: BString, reason: String },
    #[error("repository '{0}' not found")]
    NotFound(BString),
    #[error("Authentication failed for '{0}'")]
    Authentication(BString),
    #[error("{0}info/refs not valid: is this a git repository?")]
    NotARepository(BString),
    /// The server supports only the dumb protocol. Git's remote helper can fetch from it.
    #[error("dumb http transport is not supported by sapwood's own HTTP client")]
    Dumb,
    #[error("unable to update url base from redirection:\n  asked for: {asked}\n   redirect: {redirect}")]
    RedirectBase { asked: BString, redirect: BString },
    /// A request after the first one failed.
    #[error("RPC failed; {0}")]
    Rpc(String),
    /// A setting has an unusable value.
    #[error("{0}")]
    Setting(String),
    /// No user name or password could be obtained.
    #[error("{0}")]
    Credential(String),
    #[error("rate limited by '{url}', please try again in {seconds} seconds")]
    RateLimited { url: BString, seconds: u64 },
    #[error(transparent)]
    Io(io::Error),
}
