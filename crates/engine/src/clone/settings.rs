//! The values that a clone writes into the new configuration, as data in Git's order, and the
//! settings outside of any repository.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, config::Edit};
use store::{BadSharedRepository, SharedRepository};

use super::select::{LaterTags, NewHead, RefOptions, Selection};

const SHARED: &str = "core.sharedRepository";

/// The configuration outside of any repository.
pub(super) struct OuterConfig(repo::StandaloneConfig);

impl OuterConfig {
    /// Reads the configuration.
    pub(super) fn load(options: &repo::OpenOptions) -> Result<OuterConfig, repo::Error> {
        Ok(OuterConfig(repo::StandaloneConfig::load(options)?))
    }

    /// Reads the configuration of the repository that will be in `git_dir` and whose file is still
    /// at `config`.
    pub(super) fn with_file(
        options: &repo::OpenOptions,
        git_dir: &Path,
        config: &Path,
    ) -> Result<OuterConfig, repo::Error> {
        Ok(OuterConfig(repo::StandaloneConfig::with_file(options, git_dir, config)?))
    }

    /// Returns the configured permissions. A bad value is an error only where permissions are
    /// needed.
    pub(super) fn shared(&self) -> Result<SharedRepository, BadSharedRepository> {
        crate::look::shared::of(self.0.config_value(SHARED))
    }
}

/// Returns the permissions in the new repository, with `--config` in effect.
pub(super) fn shared(repo: &repo::Repository) -> Result<SharedRepository, BadSharedRepository> {
    crate::look::shared::of(repo.config_value(SHARED))
}

/// A `--config` parameter that is not of the form `section.name[=value]`. The source is Git's
/// `error: ` line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to write parameters to config file")]
pub struct BadParameter {
    /// The syntax error.
    pub source: format::config::Error,
}

pub(super) fn set(key: impl Into<BString>, value: impl Into<BString>) -> Edit {
    Edit::Set { key: key.into(), value: value.into() }
}

/// Parses a `--config` parameter: `section.name=value`, or `section.name` for `true`.
pub(super) fn parameter(parameter: &BStr) -> Result<Edit, BadParameter> {
    let (key, value) = match parameter.split_once_str("=") {
        Some((key, value)) => (key.trim_ascii(), value),
        None => (parameter.trim_ascii(), b"true".as_slice()),
    };
    let key = format::config::Key::parse(key).map_err(|source| BadParameter { source })?;
    // Git writes these names in lower case, unlike all others.
    let mut name = key.section.to_ascii_lowercase();
    if let Some(subsection) = key.subsection {
        name.push(b'.');
        name.extend_from_slice(subsection);
    }
    name.push(b'.');
    name.extend(key.name.to_ascii_lowercase());
    Ok(Edit::Add { key: name.into(), value: value.into() })
}

/// Returns the settings of the remote and the branch. With `rebase`, pulls rebase the branch.
pub(super) fn clone_edits(
    ref_options: &RefOptions,
    url: &BStr,
    hash: HashKind,
    rebase: bool,
    selection: &Selection,
) -> Vec<Edit> {
    let remote = |name: &str| [b"remote.", ref_options.remote.as_slice(), b".", name.as_bytes()].concat();
    let mut edits = vec![set(remote("url"), url)];
    if ref_options.later_tags == LaterTags::None {
        edits.push(set(remote("tagOpt"), "--no-tags"));
    }
    if hash != HashKind::Sha1 {
        edits.push(set("extensions.objectformat", hash.name()));
        edits.push(set("core.repositoryformatversion", "1"));
    }
    if let Some(refspec) = ref_options.fetch_refspec(selection) {
        edits.push(Edit::Add { key: remote("fetch").into(), value: refspec });
        if ref_options.mirror {
            edits.push(set(remote("mirror"), "true"));
        }
    }
    let full = match &selection.head {
        NewHead::Branch(theirs) => theirs.name.as_bstr(),
        NewHead::Unborn(name) => name.as_bstr(),
        NewHead::Tag(_) | NewHead::Detached(_) => return edits,
    };
    if let (Some(short), false) = (full.strip_prefix(b"refs/heads/"), ref_options.bare) {
        let branch = |name: &str| [b"branch.", short, name.as_bytes()].concat();
        edits.push(set(branch(".remote"), ref_options.remote.as_bstr()));
        edits.push(set(branch(".merge"), full));
        if rebase {
            edits.push(set(branch(".rebase"), "true"));
        }
    }
    edits
}

/// Returns the settings that make the remote a promisor of the omitted objects.
pub(super) fn partial_clone_edits(ref_options: &RefOptions, filter: &BStr) -> Vec<Edit> {
    let remote = |name: &str| [b"remote.", ref_options.remote.as_slice(), b".", name.as_bytes()].concat();
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
    fn parses_config_parameters() {
        let add = |key: &str, value: &str| Edit::Add { key: key.into(), value: value.into() };
        assert_eq!(parameter("a.b=c=d".into()), Ok(add("a.b", "c=d")));
        assert_eq!(parameter("A.Sub.Bc=1".into()), Ok(add("a.Sub.bc", "1")));
        assert_eq!(parameter("a.b".into()), Ok(add("a.b", "true")));
        assert_eq!(parameter("a.b=".into()), Ok(add("a.b", "")));
        let refused = parameter("bad".into()).expect_err("no section");
        assert_eq!(refused.source.to_string(), "key does not contain a section: bad");
    }
}
