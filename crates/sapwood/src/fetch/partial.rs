//! The filter of a fetch, and turning a repository into a partial clone.

use bstr::{BString, ByteSlice as _};
use engine::clone::Filter;
use format::config::Edit;
use repo::keys;

use super::Request;
use crate::{Context, Error, Notice};

/// Returns the filter for a remote in the form of the protocol: that of the request, else the
/// configured one of an earlier fetch with a filter. A configured value that is not a filter counts
/// as none.
pub(super) fn filter(repo: &repo::Repository, request: &Request, remote: &BString) -> Option<BString> {
    if let Some(filter) = &request.filter {
        return Some(filter.expanded().to_owned());
    }
    if request.no_filter || !repo.objects().is_partial() {
        return None;
    }
    let configured = repo.config_str(&keys::remote::PARTIAL_CLONE_FILTER.of(remote))?;
    Some(Filter::parse(configured.as_bstr()).ok()?.expanded().to_owned())
}

/// With a filter, makes the remote a promisor remote and records the filter, unless both is
/// configured already. Returns true if the configuration has changed: the repository must be opened
/// again.
pub fn become_partial(
    context: Context<'_>,
    remote: &BString,
    filter: Option<&Filter>,
) -> Result<bool, Error> {
    let Context { repo, settings, .. } = context;
    let Some(filter) = filter else { return Ok(false) };
    if repo.config_value(&keys::remote::PARTIAL_CLONE_FILTER.of(remote)).is_some() {
        return Ok(false);
    }
    let is_extension = repo.extensions().partial_clone.as_ref() == Some(remote);
    let is_promisor = is_extension || repo.config(&keys::remote::PROMISOR.of(remote))?;
    let mut edits = Vec::new();
    let mut set = |key: BString, value: &[u8]| edits.push(Edit::Set { key, value: value.into() });
    if !is_promisor {
        if repo.extensions().version.unwrap_or(0) < 1 {
            if let Some(unknown) = repo.extensions().unknown.first() {
                let text = format!("cannot upgrade repository format: unknown extension {unknown}");
                context.events.notice(Notice::FetchError(text.into()));
                return Err(Error::failed("unable to upgrade repository format to support partial clone"));
            }
            set(keys::core::REPOSITORY_FORMAT_VERSION.lower().into(), b"1");
        }
        set(keys::remote::PROMISOR.with(remote), b"true");
    }
    set(keys::remote::PARTIAL_CLONE_FILTER.with(remote), filter.expanded());
    let path = repo.common_dir().join("config");
    store::config::edit(&path, &edits, &settings.config_locks, &settings.fsync)?;
    Ok(true)
}
