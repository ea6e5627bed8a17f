//! `--set-upstream`: makes the fetched branch the upstream of the current branch.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    fetch::{
        Report,
        map::{Mapping, Merge},
        remote::Remote,
    },
    switch::tracking::Upstream,
};

use super::context::FetchContext;
use crate::{
    commands::upstream,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

impl FetchContext<'_> {
    /// Makes the fetched branch that is marked for merging the upstream of the current branch.
    pub(super) fn set_upstream(&self, remote: &Remote, done: &Report) -> Result<(), Failure> {
        let mut merged =
            done.mapped.iter().filter(|mapping| mapping.merge == Merge::Merged && mapping.local.is_none());
        let Some(source) = merged.next() else {
            console::warning(
                "no source branch found;\n\
                 you need to specify exactly one branch with the --set-upstream option",
            );
            return Ok(());
        };
        if merged.next().is_some() {
            console::warning("multiple branches detected, incompatible with --set-upstream");
            return Ok(());
        }
        let head = self.repo.head()?;
        let Some(branch) = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/")) else {
            let name = source.name.strip_prefix(b"refs/heads/").unwrap_or(&source.name);
            console::warning(text!(
                "could not set upstream of HEAD to '",
                name,
                "' from '",
                remote.name,
                "' when it does not point to any branch."
            ));
            return Ok(());
        };
        self.follow(branch.as_bstr(), remote, source)
    }

    fn follow(&self, branch: &BStr, remote: &Remote, source: &Mapping) -> Result<(), Failure> {
        let name: &BString = &source.name;
        if name == "HEAD" || name.starts_with(b"refs/heads/") {
            let upstream = Upstream { remote: Some(remote.name.clone()), merge: vec![name.clone()] };
            return upstream::install(self.repo, self.settings, branch, &upstream, true);
        }
        match () {
            () if name.starts_with(b"refs/remotes/") => {
                console::warning("not setting upstream for a remote remote-tracking branch");
            }
            () if name.starts_with(b"refs/tags/") => {
                console::warning("not setting upstream for a remote tag")
            }
            () => console::warning("unknown branch type"),
        }
        Ok(())
    }
}
