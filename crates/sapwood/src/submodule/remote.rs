//! The URL of a submodule, and the remotes of a superproject and of a submodule.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{
    Repository, keys,
    wire::url::{is_relative, relative},
};

use super::Superproject;
use crate::{Error, Notice};

/// The messages for a superproject without a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A warning.
    Warn,
    /// None.
    Silent,
}

/// Resolves `url`, which may be relative to the superproject's URL.
pub fn resolve(superproject: &Superproject<'_>, url: &BStr, missing: Missing) -> Result<BString, Error> {
    let repo = superproject.repo;
    let key = keys::remote::URL.of(default_remote(repo)?);
    let base = match repo.config_str(&key) {
        Some(base) => base,
        None => {
            if missing == Missing::Warn {
                superproject.context.events.notice(Notice::Submodule(
                    format!(
                        "could not look up configuration '{}'. \
                         Assuming this repository is its own authoritative upstream.",
                        key.name()
                    )
                    .into(),
                ));
            }
            let top = repo.work_tree().unwrap_or_else(|| repo.git_dir());
            top.as_os_str().as_bytes().into()
        }
    };
    relative(base.as_bstr(), url).map_err(|error| Error::failed(error.to_string()))
}

/// Returns Git's default remote.
pub fn default_remote(repo: &Repository) -> Result<BString, Error> {
    let head = repo.head()?;
    Ok(repo.remote_of(head.branch().unwrap_or_default()))
}

/// Returns the remote of the submodule at `path` that has its URL, else its default remote.
pub fn of_submodule(
    superproject: &Superproject<'_>,
    path: &BStr,
    submodule: &Repository,
) -> Result<BString, Error> {
    let url = superproject.submodules.module(path).and_then(|module| module.url);
    let url = match url {
        Some(url) if is_relative(url.as_bstr()) => {
            Some(resolve(superproject, url.as_bstr(), Missing::Silent)?)
        }
        url => url,
    };
    let first_url = |remote: &BString| submodule.config_all(&keys::remote::URL.of(remote)).into_iter().next();
    let found = url.and_then(|url| {
        submodule.remotes().into_iter().find(|remote| first_url(remote).is_some_and(|first| first == url))
    });
    found.map_or_else(|| default_remote(submodule), Ok)
}
