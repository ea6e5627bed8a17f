//! The facts about HEAD and the operations in progress, read beside the worktree.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use bstr::BStr;
use engine::{
    crew::Deferred,
    switch::operations::{self, Operations},
};
use format::ObjectId;
use repo::{DetachedFrom, Head, Repository};
use sys::Dir;

use super::request::{Base, Compared, Request};
use crate::{
    Error,
    tracking::{self, AheadBehind, Relation, Tracking},
};

/// The comparison of HEAD's branch with others.
#[derive(Debug)]
pub enum Comparison {
    /// There is no branch, or no comparison was requested.
    Nothing,
    /// All branches that it follows, and the time that the status waited for this.
    Followed(Tracking, Duration),
    /// Its upstream.
    Upstream(Upstream),
}

/// A branch and its upstream.
#[derive(Debug)]
pub enum Upstream {
    /// It has none.
    No,
    /// The upstream and its relation to the branch.
    Is(repo::Tracking, Relation),
}

impl Upstream {
    /// Finds the upstream of a branch (full name) and compares the two.
    pub fn find(repo: &Repository, branch: &BStr, how: AheadBehind) -> Result<Upstream, repo::Error> {
        let Some(upstream) = repo.upstream_of(branch)? else { return Ok(Upstream::No) };
        let ours = match repo.find_ref(branch)? {
            Some(oid) => repo.commit_if_there(oid)?,
            None => None,
        };
        let relation = Relation::between(repo, ours, upstream.oid, how)?;
        Ok(Upstream::Is(upstream, relation))
    }
}

impl Comparison {
    fn find(repo: &Repository, request: &Request, head: &Head) -> Result<Comparison, repo::Error> {
        let Some(branch) = head.branch() else { return Ok(Comparison::Nothing) };
        match request.compared {
            Compared::Followed if head.oid().is_some() && branch.starts_with(b"refs/heads/") => {
                let began = Instant::now();
                let tracking = tracking::compare(repo, branch, request.exactness())?;
                Ok(Comparison::Followed(tracking, began.elapsed()))
            }
            Compared::Upstream => Upstream::find(repo, branch, request.exactness()).map(Comparison::Upstream),
            Compared::Followed | Compared::Nothing => Ok(Comparison::Nothing),
        }
    }

    /// Limits the reported time to `waited`, the time that the status was blocked.
    fn within(self, waited: Duration) -> Comparison {
        match self {
            Comparison::Followed(tracking, took) => Comparison::Followed(tracking, took.min(waited)),
            other => other,
        }
    }
}

/// The facts about HEAD.
pub(super) struct HeadInfo {
    pub(super) head: Head,
    /// The tree to compare the index with.
    pub(super) tree: Option<ObjectId>,
    /// An error is reported with the result, and does not stop the comparison.
    pub(super) detached: Result<Option<DetachedFrom>, repo::Error>,
    pub(super) comparison: Result<Comparison, repo::Error>,
}

impl HeadInfo {
    /// Reads the facts. `indexed` is the tree that equals the index, once that is known.
    pub(super) fn find(
        repo: &Repository,
        request: &Request,
        root: &Dir,
        indexed: &OnceLock<ObjectId>,
    ) -> Result<HeadInfo, Error> {
        let head = repo.head()?;
        let bad_head = |error: repo::Error| {
            if error.is_unreadable() || error.is_final() { error.into() } else { Error::BadHead }
        };
        let compared = match (head.oid(), request.base) {
            (Some(commit), Base::Parent) => repo.commit_text(commit)?.parents.first().copied(),
            (commit, _) => commit,
        };
        let tree = compared.map(|commit| repo.tree_of(commit)).transpose().map_err(bad_head)?;
        if let Some(tree) = tree.filter(|tree| is_slow_disk(root) && indexed.get() != Some(tree)) {
            // Read the tree into the page cache ahead of the comparison, which also reports errors.
            let _read = repo.tree_of(tree);
        }
        let detached = match head {
            Head::Detached { .. } if request.finds_detached => repo.detached_from(),
            _ => Ok(None),
        };
        let comparison = Comparison::find(repo, request, &head);
        Ok(HeadInfo { head, tree, detached, comparison })
    }

    /// Waits for the facts.
    pub(super) fn wait_for(facts: Deferred<'_, Result<HeadInfo, Error>>) -> Result<HeadInfo, Error> {
        let began = Instant::now();
        let facts = facts.get()?;
        let comparison = facts.comparison.map(|found| found.within(began.elapsed()));
        Ok(HeadInfo { comparison, ..facts })
    }
}

/// Returns true if the disk is slow: the first files were read from the device, so the next ones
/// will be too.
pub(super) fn is_slow_disk(root: &Dir) -> bool {
    root.is_remote() || sys::has_read_block_device()
}

/// The operations in progress, derived from files in the Git directory.
pub(super) struct InProgress {
    pub(super) operations: Operations,
    /// The next commit concludes a cherry-pick.
    pub(super) concludes_pick: bool,
}

impl InProgress {
    pub(super) fn find(repo: &Repository) -> Result<InProgress, Error> {
        Ok(InProgress {
            operations: operations::operations(repo)?,
            concludes_pick: repo.find_ref("CHERRY_PICK_HEAD".into())?.is_some(),
        })
    }
}
