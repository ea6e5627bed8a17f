//! The permission to clone repositories of this machine: `protocol.file.allow`, `protocol.allow`.
//!
//! Source: git-config(1) `protocol.allow`, git(1) `GIT_ALLOW_PROTOCOL` and
//! `GIT_PROTOCOL_FROM_USER`.

use bstr::{BString, ByteSlice};

use super::{Kind, Source};

/// The reason why the protocol is not allowed. Messages are Git's.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("transport 'file' not allowed")]
    Forbidden,
    #[error("unknown value for config '{key}': {value}")]
    Value { key: &'static str, value: BString },
    #[error(transparent)]
    Repo(#[from] repo::Error),
}

/// Checks the permission for a source on this machine. Connections to others check theirs.
pub(super) fn check(repo: &repo::Repository, source: &Source) -> Result<(), Error> {
    let is_here = match source.kind {
        Kind::Repository { .. } | Kind::Bundle { .. } => true,
        Kind::Server => source.url.starts_with(b"file://"),
    };
    if is_here { check_files(repo) } else { Ok(()) }
}

/// Checks the environment first, then the configuration of the new repository.
fn check_files(repo: &repo::Repository) -> Result<(), Error> {
    if let Some(list) = repo.env().bytes("GIT_ALLOW_PROTOCOL") {
        let allowed = list.split_str(":").any(|name| name == b"file");
        return if allowed { Ok(()) } else { Err(Error::Forbidden) };
    }
    let keys = ["protocol.file.allow", "protocol.allow"];
    let configured = keys.into_iter().find_map(|key| Some((key, repo.config_str(key)?)));
    let allowed = match configured {
        Some((_, value)) if value.eq_ignore_ascii_case(b"always") => true,
        Some((_, value)) if value.eq_ignore_ascii_case(b"never") => false,
        Some((key, value)) if !value.eq_ignore_ascii_case(b"user") => {
            return Err(Error::Value { key, value });
        }
        _ => repo.env().boolean("GIT_PROTOCOL_FROM_USER")?.unwrap_or(true),
    };
    if allowed { Ok(()) } else { Err(Error::Forbidden) }
}
