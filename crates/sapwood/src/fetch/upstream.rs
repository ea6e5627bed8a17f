//! Making the fetched branch the upstream of the current branch.

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{
    Report,
    map::{Mapping, Merge},
    remote::Remote,
};

use crate::{
    Context, Error, Notice, text,
    upstream::{self, Upstream},
};

/// Makes the fetched branch that is marked for merging the upstream of the current branch. A notice
/// says why there is none.
pub fn set_upstream(context: Context<'_>, remote: &Remote, done: &Report) -> Result<(), Error> {
    let warn = |text: BString| {
        context.events.notice(Notice::NoUpstream(text));
        Ok(())
    };
    let mut merged =
        done.mapped.iter().filter(|mapping| mapping.merge == Merge::Merged && mapping.local.is_none());
    let Some(source) = merged.next() else {
        return warn(
            "no source branch found;\n\
             you need to specify exactly one branch with the --set-upstream option"
                .into(),
        );
    };
    if merged.next().is_some() {
        return warn("multiple branches detected, incompatible with --set-upstream".into());
    }
    let head = context.repo.head()?;
    let Some(branch) = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/")) else {
        let name = source.name.strip_prefix(b"refs/heads/").unwrap_or(&source.name);
        return warn(text!(
            "could not set upstream of HEAD to '",
            name,
            "' from '",
            remote.name,
            "' when it does not point to any branch."
        ));
    };
    match unfit(source) {
        Some(why) => warn(why.into()),
        None => follow(context, branch.as_bstr(), remote, source),
    }
}

/// Returns why a ref of the remote cannot be an upstream.
fn unfit(source: &Mapping) -> Option<&'static str> {
    let name: &BString = &source.name;
    match () {
        () if name == "HEAD" || name.starts_with(b"refs/heads/") => None,
        () if name.starts_with(b"refs/remotes/") => {
            Some("not setting upstream for a remote remote-tracking branch")
        }
        () if name.starts_with(b"refs/tags/") => Some("not setting upstream for a remote tag"),
        () => Some("unknown branch type"),
    }
}

fn follow(context: Context<'_>, branch: &BStr, remote: &Remote, source: &Mapping) -> Result<(), Error> {
    let upstream = Upstream { remote: Some(remote.name.clone()), merge: vec![source.name.clone()] };
    upstream::install(context, branch, &upstream).map(drop)
}
