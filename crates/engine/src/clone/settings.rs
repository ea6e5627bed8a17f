//! The values that a clone writes into the new configuration, as data in Git's order.

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, config::Edit};
use repo::keys;

use super::select::{LaterTags, NewHead, RefOptions, Selection};

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

/// Returns the settings of the remote and the branch. `auto_setup_rebase` is the value of
/// `branch.autoSetupRebase`.
pub(super) fn clone_edits(
    ref_options: &RefOptions,
    url: &BStr,
    hash: HashKind,
    auto_setup_rebase: Option<&BStr>,
    selection: &Selection,
) -> Vec<Edit> {
    let remote = ref_options.remote.as_slice();
    let mut edits = vec![set(keys::remote::URL.with(remote), url)];
    if ref_options.later_tags == LaterTags::None {
        edits.push(set(keys::remote::TAG_OPT.with(remote), "--no-tags"));
    }
    if hash != HashKind::Sha1 {
        edits.push(set(keys::extensions::OBJECT_FORMAT.lower(), hash.name()));
        edits.push(set(keys::core::REPOSITORY_FORMAT_VERSION.lower(), "1"));
    }
    if let Some(refspec) = ref_options.fetch_refspec(selection) {
        edits.push(Edit::Add { key: keys::remote::FETCH.with(remote), value: refspec });
        if ref_options.mirror {
            edits.push(set(keys::remote::MIRROR.with(remote), "true"));
        }
    }
    let full = match &selection.head {
        NewHead::Branch(theirs) => theirs.name.as_bstr(),
        NewHead::Unborn(name) => name.as_bstr(),
        NewHead::Tag(_) | NewHead::Detached(_) => return edits,
    };
    if let (Some(short), false) = (full.strip_prefix(b"refs/heads/"), ref_options.bare) {
        edits.push(set(keys::branch::REMOTE.with(short), ref_options.remote.as_bstr()));
        edits.push(set(keys::branch::MERGE.with(short), full));
        if auto_setup_rebase.is_some_and(|value| value == "always" || value == "remote") {
            edits.push(set(keys::branch::REBASE.with(short), "true"));
        }
    }
    edits
}

/// Returns the settings that make the remote a promisor of the omitted objects.
pub(super) fn partial_clone_edits(ref_options: &RefOptions, filter: &BStr) -> Vec<Edit> {
    let remote = ref_options.remote.as_slice();
    vec![
        set(keys::core::REPOSITORY_FORMAT_VERSION.lower(), "1"),
        set(keys::remote::PROMISOR.with(remote), "true"),
        set(keys::remote::PARTIAL_CLONE_FILTER.with(remote), filter),
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
