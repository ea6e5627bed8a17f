//! A branch beside its upstream and its push branch.

use bstr::{BStr, BString};
use repo::Repository;

/// How exactly two branches are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadBehind {
    /// Count the commits.
    Full,
    /// Only find out if the branches are equal.
    Quick,
}

/// A branch and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// One of them has no commit.
    Gone,
    /// Both have the same commit.
    Same,
    /// They differ; the commits were not counted.
    Different,
    /// The numbers of commits that only the branch, and only the other one has.
    Diverged(usize, usize),
}

impl Relation {
    /// Compares a branch (full name) with the commit of another one.
    pub fn between(
        repo: &Repository,
        ours: Option<format::ObjectId>,
        theirs: Option<format::ObjectId>,
        how: AheadBehind,
    ) -> Result<Relation, repo::Error> {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(Relation::Gone) };
        if ours == theirs {
            return Ok(Relation::Same);
        }
        match how {
            AheadBehind::Quick => Ok(Relation::Different),
            AheadBehind::Full => {
                let (ahead, behind) = repo.ahead_behind(ours, theirs)?;
                Ok(Relation::Diverged(ahead, behind))
            }
        }
    }
}

/// Another branch that a branch follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its short name.
    pub short: BString,
    /// It is the configured upstream.
    pub is_upstream: bool,
    /// The branch is pushed there.
    pub is_push: bool,
    /// The comparison.
    pub relation: Relation,
}

/// A branch beside all branches that it follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// The others: the upstream, and the push branch if it is another one.
    pub followed: Vec<Followed>,
    /// Warnings about the configuration.
    pub warnings: Vec<String>,
}

/// Compares a branch (full name) with its configured upstream and push branches.
pub fn compare(repo: &Repository, branch: &BStr, how: AheadBehind) -> Result<Tracking, repo::Error> {
    let (others, warnings) = repo.comparison_refs(branch)?;
    let ours = repo.find_ref(branch)?;
    let followed = others.into_iter().map(|other| {
        let relation = Relation::between(repo, ours, other.oid, how)?;
        let (is_upstream, is_push) = (other.is_upstream, other.is_push);
        Ok(Followed { short: other.short, is_upstream, is_push, relation })
    });
    Ok(Tracking { followed: followed.collect::<Result<_, repo::Error>>()?, warnings })
}
