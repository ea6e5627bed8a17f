//! The values a clone writes into the new repository's configuration, as data, in Git's order; and what
//! is configured before there is a repository.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, config::Edit};
use store::{BadSharedRepository, SharedRepository};

use super::select::{NewHead, Selection, Wishes};

const SHARED: &str = "core.sharedRepository";

/// The configuration outside of any repository.
pub(super) struct Outer(repo::Outside);

impl Outer {
    /// Reads it.
    pub(super) fn load(options: &repo::OpenOptions) -> Result<Outer, repo::Error> {
        Ok(Outer(repo::Outside::load(options)?))
    }

    /// The configuration of the repository that will be in `git_dir` and whose file is still at `config`.
    pub(super) fn with_file(
        options: &repo::OpenOptions,
        git_dir: &Path,
        config: &Path,
    ) -> Result<Outer, repo::Error> {
        Ok(Outer(repo::Outside::with_file(options, git_dir, config)?))
    }

    /// Permissions. A bad value is an error of what needs them.
    pub(super) fn shared(&self) -> Result<SharedRepository, BadSharedRepository> {
        crate::shared::of(self.0.config_value(SHARED))
    }
}

/// Permissions in the new repository, with `--config` in effect.
pub(super) fn shared(repo: &repo::Repository) -> Result<SharedRepository, BadSharedRepository> {
    crate::shared::of(repo.config_value(SHARED))
}

/// A `--config` parameter that is no `section.name[=value]`. The reason is Git's `error: ` line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to write parameters to config file")]
pub struct BadParameter {
    /// What is wrong with it.
    pub source: format::config::Error,
}

pub(super) fn set(key: impl Into<BString>, value: impl Into<BString>) -> Edit {
    Edit::Set { key: key.into(), value: value.into() }
}

/// `section.name=value`, or `section.name` for `true`, as `--config` takes it.
pub(super) fn parameter(parameter: &BStr) -> Result<Edit, BadParameter> {
    let (key, value) = match parameter.split_once_str("=") {
        Some((key, value)) => (key.trim_ascii(), value),
        None => (parameter.trim_ascii(), b"true".as_slice()),
    };
    let key = format::config::Key::parse(key).map_err(|source| BadParameter { source })?;
    // Git writes these in lower case, unlike all others.
    let mut name = key.section.to_ascii_lowercase();
    if let Some(subsection) = key.subsection {
        name.push(b'.');
        name.extend_from_slice(subsection);
    }
    name.push(b'.');
    name.extend(key.name.to_ascii_lowercase());
    Ok(Edit::Add { key: name.into(), value: value.into() })
}

/// What the remote and the branch need, once it is known what is cloned. `rebase`: the branch is to
/// be rebased when pulled.
pub(super) fn of_clone(
    wishes: &Wishes,
    url: &BStr,
    hash: HashKind,
    rebase: bool,
    selection: &Selection,
) -> Vec<Edit> {
    let remote = |name: &str| [b"remote.", wishes.remote.as_slice(), b".", name.as_bytes()].concat();
    let mut edits = vec![set(remote("url"), url)];
    if !wishes.tags {
        edits.push(set(remote("tagOpt"), "--no-tags"));
    }
    if hash != HashKind::Sha1 {
        edits.push(set("extensions.objectformat", hash.name()));
        edits.push(set("core.repositoryformatversion", "1"));
    }
    if let Some(refspec) = wishes.fetch_refspec(selection) {
        edits.push(Edit::Add { key: remote("fetch").into(), value: refspec });
        if wishes.mirror {
            edits.push(set(remote("mirror"), "true"));
        }
    }
    let full = match &selection.head {
        NewHead::Branch(theirs) => theirs.name.as_bstr(),
        NewHead::Unborn(name) => name.as_bstr(),
        NewHead::Tag(_) | NewHead::Detached(_) => return edits,
    };
    if let (Some(short), false) = (full.strip_prefix(b"refs/heads/"), wishes.bare) {
        let branch = |name: &str| [b"branch.", short, name.as_bytes()].concat();
        edits.push(set(branch(".remote"), wishes.remote.as_bstr()));
        edits.push(set(branch(".merge"), full));
        if rebase {
            edits.push(set(branch(".rebase"), "true"));
        }
    }
    edits
}

/// What makes the remote one that promised what was left out.
pub(super) fn of_partial_clone(wishes: &Wishes, filter: &BStr) -> Vec<Edit> {
    let remote = |name: &str| [b"remote.", wishes.remote.as_slice(), b".", name.as_bytes()].concat();
    vec![
        set("core.repositoryformatversion", "1"),
        set(remote("promisor"), "true"),
        set(remote("partialclonefilter"), filter),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let add = |key: &str, value: &str| Edit::Add { key: key.into(), value: value.into() };
        assert_eq!(parameter("a.b=c=d".into()), Ok(add("a.b", "c=d")));
        assert_eq!(parameter("A.Sub.Bc=1".into()), Ok(add("a.Sub.bc", "1")));
        assert_eq!(parameter("a.b".into()), Ok(add("a.b", "true")));
        assert_eq!(parameter("a.b=".into()), Ok(add("a.b", "")));
        let refused = parameter("bad".into()).expect_err("no section");
        assert_eq!(refused.source.to_string(), "key does not contain a section: bad");
    }
}
