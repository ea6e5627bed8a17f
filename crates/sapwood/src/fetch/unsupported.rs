//! Remotes that only Git can fetch from, and repositories that only Git can fetch into.

use bstr::{BStr, BString};
use repo::keys;
use sys::{FileType, by_path};

use crate::{PlanError, refs};

/// A property of a remote that sapwood does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The remote is a file in the directory `remotes` of the repository.
    Remotes,
    /// The remote is a file in the directory `branches`.
    Branches,
    /// The remote has several values of `uploadpack`.
    UploadPacks,
    /// The remote has a value of `vcs`.
    ForeignVcs,
    /// The remote has a proxy of its own.
    Proxy,
}

impl Unsupported {
    /// Returns its name, for [`crate::PlanError::Unsupported`].
    pub fn name(self) -> &'static str {
        match self {
            Unsupported::Remotes => "remotes in 'remotes'",
            Unsupported::Branches => "remotes in 'branches'",
            Unsupported::UploadPacks => "remotes with several values of 'uploadpack'",
            Unsupported::ForeignVcs => "remotes with 'vcs'",
            Unsupported::Proxy => "remotes with a proxy of their own",
        }
    }
}

/// Returns the property of the remote `name` that sapwood does not support, if any.
pub fn unsupported(repo: &repo::Repository, name: &BStr) -> Option<Unsupported> {
    let is_file = |dir: &str| {
        let file = repo.common_dir().join(dir).join(sys::os_str(name));
        let stat = by_path::stat_followed(&file).ok().flatten();
        stat.is_some_and(|stat| stat.file_type == FileType::File)
    };
    if repo.config_all(&keys::remote::URL.of(name)).is_empty() && !name.is_empty() && !name.contains(&b'/') {
        if is_file("remotes") {
            return Some(Unsupported::Remotes);
        }
        if is_file("branches") {
            return Some(Unsupported::Branches);
        }
    }
    if repo.config_all(&keys::remote::UPLOADPACK.of(name)).len() > 1 {
        return Some(Unsupported::UploadPacks);
    }
    let is_set = |value: Option<BString>| value.is_some_and(|value| !value.is_empty());
    if is_set(repo.config_str(&keys::remote::VCS.of(name))) {
        return Some(Unsupported::ForeignVcs);
    }
    is_set(repo.config_str(&keys::remote::PROXY.of(name))).then_some(Unsupported::Proxy)
}

/// Returns an error for a state in which only Git changes refs as it does. The settings
/// `fetch.uriProtocols` and `transfer.advertiseSID` change no result, so they are not refused.
pub(super) fn check_repository(repo: &repo::Repository) -> Result<(), PlanError> {
    refs::check_state(repo)?;
    if !matches!(by_path::stat(&repo.common_dir().join("packed-refs.new")), Ok(None)) {
        return Err(PlanError::Unsupported("repositories with a file 'packed-refs.new'"));
    }
    Ok(())
}
