//! The cases in which a merge is a fast-forward and nothing else.

use bstr::{BStr, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, keys};

use crate::Error;

/// The cases in which a fast-forward is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastForward {
    /// If it is possible.
    Allowed,
    /// Always: it is an error if it is not possible.
    Only,
    /// Never: there is a merge commit.
    Never,
}

/// Returns the reason why `git merge` does something else than a fast-forward, or more, with any
/// commit. `None` stands for the settings `merge.ff` and `merge.autoStash`.
pub fn obstacle(
    repo: &Repository,
    ff: Option<FastForward>,
    autostash: Option<bool>,
) -> Result<Option<&'static str>, Error> {
    const COMMIT: &str = "merges with a new commit";
    const STASH: &str = "merges with a stash of local changes";
    if ff == Some(FastForward::Never) {
        return Ok(Some(COMMIT));
    }
    if autostash == Some(true) {
        return Ok(Some(STASH));
    }
    if repo.config(&keys::merge::VERIFY_SIGNATURES)? {
        return Ok(Some("merges of verified commits"));
    }
    if autostash.is_none() && repo.config(&keys::merge::AUTOSTASH)? {
        return Ok(Some(STASH));
    }
    let forbids = || {
        let value = repo.config_str(&keys::merge::FF);
        value.is_some_and(|value| repo::parse_bool(Some(value.as_bstr())) == Some(false))
    };
    if ff.is_none() && forbids() {
        return Ok(Some(COMMIT));
    }
    let head = repo.head()?;
    let branch = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/")).map(BStr::new);
    if branch.is_some_and(|branch| repo.config_str(&keys::branch::MERGE_OPTIONS.of(branch)).is_some()) {
        return Ok(Some("merges with options of the branch"));
    }
    let is_there =
        |name: &str| sys::by_path::stat(&repo.git_dir().join(name)).is_ok_and(|found| found.is_some());
    if is_there("CHERRY_PICK_HEAD") {
        return Ok(Some("merges during a cherry-pick"));
    }
    Ok(is_there("MERGE_AUTOSTASH").then_some(STASH))
}

/// Returns true if `theirs` is a commit that one of both can be moved to without a merge. Git makes
/// a commit for a tag, unless the repository itself has the tag.
pub fn is_linear(repo: &Repository, ours: ObjectId, theirs: ObjectId) -> Result<bool, Error> {
    let is_commit = repo.peel_to_commit(theirs)? == Some(theirs);
    Ok(is_commit && (repo.is_reachable(ours, &[theirs])? || repo.is_reachable(theirs, &[ours])?))
}
