//! A remote: `remote.<name>.*`, or a URL that the user gave instead of a name.
//!
//! Source: git-config(1), `remote.<name>.*`, `branch.<name>.*`; git-fetch(1), "REMOTES".

use bstr::{BStr, BString, ByteSlice};
use repo::{
    Repository,
    keys::{self, Key},
    wire::ConnectOptions,
};

use super::refspec::{self, Refspec};

/// `remote.<name>.tagOpt`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagOption {
    /// Tags of fetched commits are fetched.
    #[default]
    Follow,
    /// `--tags`
    All,
    /// `--no-tags`
    None,
}

/// `remote.<name>.followRemoteHEAD`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FollowHead {
    #[default]
    Create,
    Never,
    Always,
    /// Warns of a change, unless HEAD refers to this branch.
    Warn(Option<BString>),
}

/// A remote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The name, or the URL if the remote has no name.
    pub name: BString,
    /// The URLs. A fetch uses the first one.
    pub urls: Vec<BString>,
    /// True if the configuration contains the remote.
    pub is_configured: bool,
    /// `remote.<name>.fetch`
    pub refspecs: Vec<Refspec>,
    /// `remote.<name>.tagOpt`
    pub tags: TagOption,
    /// `remote.<name>.prune`
    pub prune: Option<bool>,
    /// `remote.<name>.pruneTags`
    pub prune_tags: Option<bool>,
    /// `remote.<name>.uploadpack`
    pub upload_pack: Option<BString>,
    /// `remote.<name>.serverOption`
    pub server_options: Vec<BString>,
    /// `remote.<name>.negotiationRestrict`
    pub negotiation_restrict: Vec<BString>,
    /// `remote.<name>.negotiationInclude`
    pub negotiation_include: Vec<BString>,
    /// `remote.<name>.followRemoteHEAD`
    pub follow_head: FollowHead,
}

/// A remote that cannot be used. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Refspec(#[from] refspec::Invalid),
    #[error(transparent)]
    Repo(#[from] repo::Error),
}

impl Remote {
    /// Reads the remote of this name. A name that is not configured is a URL.
    pub fn load(repo: &Repository, name: &BStr) -> Result<Remote, Error> {
        let is_name = is_remote_name(name);
        let all =
            |key: Key<Option<BString>>| if is_name { repo.config_all(&key.of(name)) } else { Vec::new() };
        let flag = |key: Key<Option<bool>>| if is_name { repo.config(&key.of(name)) } else { Ok(None) };
        let list = |key| in_effect(all(key));
        let mut urls = list(keys::remote::URL);
        let is_configured = is_name && repo.remotes().iter().any(|remote| *remote == name);
        if urls.is_empty() {
            urls.push(name.to_owned());
        }
        let refspecs = all(keys::remote::FETCH);
        let parse = |text: &BString| Refspec::parse(text.as_bstr(), repo.hash());
        let tags = all(keys::remote::TAG_OPT).into_iter().fold(
            TagOption::Follow,
            |before, value| match &value[..] {
                b"--no-tags" => TagOption::None,
                b"--tags" => TagOption::All,
                _ => before,
            },
        );
        Ok(Remote {
            name: name.to_owned(),
            urls,
            is_configured,
            refspecs: refspecs.iter().map(parse).collect::<Result<_, _>>()?,
            tags,
            prune: flag(keys::remote::PRUNE)?,
            prune_tags: flag(keys::remote::PRUNE_TAGS)?,
            upload_pack: all(keys::remote::UPLOADPACK).into_iter().next(),
            server_options: list(keys::remote::SERVER_OPTION),
            negotiation_restrict: list(keys::remote::NEGOTIATION_RESTRICT),
            negotiation_include: list(keys::remote::NEGOTIATION_INCLUDE),
            follow_head: all(keys::remote::FOLLOW_REMOTE_HEAD)
                .pop()
                .map_or(FollowHead::Create, |value| follow(value.as_bstr())),
        })
    }

    /// Returns the URL that a fetch uses.
    pub fn url(&self) -> &BStr {
        self.urls.first().map_or(self.name.as_bstr(), |url| url.as_bstr())
    }

    /// Applies the remote's settings to connection options that are not set.
    pub fn complete(&self, options: &mut ConnectOptions) {
        if options.program.is_none() {
            options.program.clone_from(&self.upload_pack);
        }
        options.configured_server_options.clone_from(&self.server_options);
    }

    /// Returns the name of the remote that a fetch uses if the user named none.
    pub fn default_name(repo: &Repository) -> Result<BString, repo::Error> {
        let head = repo.head()?;
        let branch = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/"));
        let configured =
            branch.and_then(|branch| repo.config_str(&keys::branch::REMOTE.of(branch.as_bstr())));
        Ok(configured.unwrap_or_else(|| match repo.remotes().as_slice() {
            [only] => only.clone(),
            _ => "origin".into(),
        }))
    }
}

/// Returns true if `name` is a valid name of a remote in the configuration.
pub fn is_remote_name(name: &BStr) -> bool {
    !name.is_empty() && !name.starts_with(b"/")
}

/// Returns the values of a list that count: an empty value resets it.
pub fn in_effect(values: Vec<BString>) -> Vec<BString> {
    let start = values.iter().rposition(|value| value.is_empty()).map_or(0, |at| at + 1);
    values.into_iter().skip(start).collect()
}

fn follow(value: &BStr) -> FollowHead {
    match value.as_bytes() {
        b"never" => FollowHead::Never,
        b"always" => FollowHead::Always,
        b"warn" => FollowHead::Warn(None),
        other => match other.strip_prefix(b"warn-if-not-") {
            Some(branch) => FollowHead::Warn(Some(branch.into())),
            None => FollowHead::Create,
        },
    }
}

/// The upstream of the current branch: `branch.<name>.remote` and `branch.<name>.merge`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    /// The remote.
    pub remote: BString,
    /// The refs on the remote. They may be abbreviated.
    pub merge: Vec<BString>,
}

impl Upstream {
    /// Reads the upstream of HEAD's branch. Returns `None` if the branch has no `remote` or no
    /// `merge`.
    pub fn load(repo: &Repository) -> Result<Option<Upstream>, repo::Error> {
        let head = repo.head()?;
        let Some(branch) = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/")) else {
            return Ok(None);
        };
        let merge = repo.config_all(&keys::branch::MERGE.of(branch.as_bstr()));
        let remote = repo.config_str(&keys::branch::REMOTE.of(branch.as_bstr()));
        Ok(remote.filter(|_| !merge.is_empty()).map(|remote| Upstream { remote, merge }))
    }
}
