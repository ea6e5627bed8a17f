//! Failures of remotes. No message holds a password or a token.

use std::{io, path::PathBuf};

use format::base_files::Digest;

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing that sapwood knows begins so.
    #[error("expected s3://, oci://, https://, http://, file:// or a directory")]
    Scheme,
    /// One slash, or none, behind a scheme.
    #[error("two slashes follow the colon; a directory of this name is written with './' in front")]
    Slashes,
    /// A part is missing or holds characters that it may not have.
    #[error("bad {0}")]
    Part(&'static str),
}

/// Why a remote could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("bad address of a base remote '{text}': {source}")]
    Address { text: String, source: AddressError },
    /// The remote cannot do this: writing to a web server, or listing its files.
    #[error("{address}: {what} is not possible there")]
    Unsupported { address: String, what: &'static str },
    /// `address` is that of the file.
    #[error("{address} does not exist")]
    Missing { address: String },
    #[error(
        "'{}' does not exist, and '{}' is missing or empty: perhaps its disk is not mounted; if it is \
         right, create '{}'",
        .path.display(), .above.display(), .path.display()
    )]
    NoPlace { path: PathBuf, above: PathBuf },
    /// The remote knows the caller and says no, or does not know the caller.
    #[error("{address}: access denied: {reason}")]
    Denied { address: String, reason: String },
    /// The remote sent something that it must not send.
    #[error("{address}: wrong answer: {reason}")]
    Wrong { address: String, reason: String },
    /// The request failed, after all repetitions if it may be repeated.
    #[error("{address}: {reason}")]
    Failed { address: String, reason: String },
    /// No connection came about.
    #[error("{address}: cannot connect: {reason}")]
    Unreachable { address: String, reason: String },
    /// The server's certificate is not trusted. `authorities` says where the trusted ones are.
    #[error("{address}: the server's certificate is refused: {reason}; it was checked against {authorities}")]
    Certificate { address: String, reason: String, authorities: String },
    #[error("{address}: the bucket does not exist ({reason})")]
    NoBucket { address: String, reason: String },
    /// The file to send is not the one that its name says.
    #[error("'{}' has the digest {found}, not {expected}", .path.display())]
    WrongDigest { path: PathBuf, expected: Digest, found: Digest },
    #[error("could not {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// A setting, a variable or a file of credentials cannot be used.
    #[error("{0}")]
    Setting(String),
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a line of advice for the user.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Io { source, .. } if source.raw_os_error() == Some(28) => {
                Some("make room there and run the command again: files that arrived are kept")
            }
            Error::Failed { .. } => {
                Some("run the command again later, or let it try longer: see sapwood.baseRetry")
            }
            Error::Unreachable { .. } => Some(
                "check the address, the network and the proxy; sapwood.baseRetry says how long a server may \
                 be away",
            ),
            Error::Certificate { .. } => {
                Some("name the file with the certificate of the server's authority in http.sslCAInfo")
            }
            Error::NoBucket { .. } => {
                Some("create it, or correct the address, AWS_ENDPOINT_URL or AWS_REGION")
            }
            Error::Unsupported { .. } => {
                Some("a web server is read only, and has no list: use the address to which bases are pushed")
            }
            Error::Wrong { .. } => Some("if the file is damaged, remove it there and push the base again"),
            Error::Denied { address, .. } if is_web(address) => Some(
                "check the name and the password that the program in credential.helper gives for this address, or \
                 send a token with http.extraHeader; see sapwood-base(1)",
            ),
            Error::Denied { .. } => Some("check the credentials and their rights: see sapwood-base(1)"),
            _ => None,
        }
    }
}

fn is_web(address: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| address.starts_with(scheme))
}
