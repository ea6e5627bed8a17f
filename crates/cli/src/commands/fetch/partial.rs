//! The filter of a fetch, and turning a repository into a partial clone.

use bstr::{BString, ByteSlice as _};
use engine::clone::Filter;
use format::config::Edit;

use super::context::FetchContext;
use crate::term::{console, failure::Failure};

impl FetchContext<'_> {
    /// Returns the filter for a remote in the form of the protocol: that of the command line, else
    /// the configured one of an earlier fetch with a filter. A configured value that is not a
    /// filter counts as none.
    pub(super) fn filter(&self, remote: &BString) -> Option<BString> {
        if let Some(filter) = &self.request.filter {
            return Some(filter.expanded().to_owned());
        }
        if self.request.no_filter || !self.repo.objects().is_partial() {
            return None;
        }
        let configured = self.repo.config_str(&key(remote, "partialclonefilter"))?;
        Some(Filter::parse(configured.as_bstr()).ok()?.expanded().to_owned())
    }

    /// With `--filter`, makes the remote a promisor remote and records the filter, unless both is
    /// configured already. Returns true if the configuration has changed.
    pub(super) fn become_partial(&self, remote: &BString) -> Result<bool, Failure> {
        let repo = self.repo;
        let Some(filter) = self.request.filter.as_ref().filter(|_| !self.request.no_filter) else {
            return Ok(false);
        };
        if repo.config_value(&key(remote, "partialclonefilter")).is_some() {
            return Ok(false);
        }
        let is_extension = repo.extensions().partial_clone.as_ref() == Some(remote);
        let is_promisor = is_extension || repo.config_bool(&key(remote, "promisor"))? == Some(true);
        let mut edits = Vec::new();
        let mut set =
            |key: String, value: &[u8]| edits.push(Edit::Set { key: key.into(), value: value.into() });
        if !is_promisor {
            if repo.extensions().version.unwrap_or(0) < 1 {
                if let Some(unknown) = repo.extensions().unknown.first() {
                    let text = format!("cannot upgrade repository format: unknown extension {unknown}");
                    console::error(text);
                    let text = "unable to upgrade repository format to support partial clone";
                    return Err(Failure::fatal(text));
                }
                set("core.repositoryformatversion".into(), b"1");
            }
            set(key(remote, "promisor"), b"true");
        }
        set(key(remote, "partialclonefilter"), filter.expanded());
        let path = repo.common_dir().join("config");
        store::config::edit(&path, &edits, &self.settings.config_locks, &self.settings.fsync)?;
        Ok(true)
    }
}

fn key(remote: &BString, name: &str) -> String {
    format!("remote.{remote}.{name}")
}
