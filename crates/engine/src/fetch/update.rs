//! Decides the update of each local ref, and makes the updates in one transaction.
//!
//! Order: [`decide`] decides each update, and changes nothing. The caller collects the edits in a
//! [`store::refs::RefTransaction`]. If the transaction rejects an edit, its update is reported as
//! failed.

use std::collections::HashMap;

use bstr::{BString, ByteSlice};
use format::ObjectId;
use repo::Repository;
use store::refs::{Edit, Old};

use super::map::{Force, Local, Mapping};

/// The first column of the table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Flag {
    FastForward,
    Forced,
    Pruned,
    Tag,
    New,
    Rejected,
    UpToDate,
}

impl Flag {
    /// Returns the character that Git prints.
    pub fn symbol(self) -> char {
        match self {
            Flag::FastForward => ' ',
            Flag::Forced => '+',
            Flag::Pruned => '-',
            Flag::Tag => 't',
            Flag::New => '*',
            Flag::Rejected => '!',
            Flag::UpToDate => '=',
        }
    }
}

/// A line of the table of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The first column.
    pub flag: Flag,
    /// The second column: `[new branch]`, `1234567..89abcde`.
    pub summary: BString,
    /// The reason in brackets, if there is one.
    pub reason: Option<&'static str>,
    /// The ref on the remote.
    pub theirs: BString,
    /// The full name of the local ref, or `FETCH_HEAD`.
    pub ours: BString,
    /// The value before the update; null for a new ref.
    pub old: ObjectId,
    /// The value on the remote.
    pub new: ObjectId,
}

/// The reason in the table for an update that the transaction rejected.
pub const FAILED: &str = "unable to update local ref";

/// The decision about one ref.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The line of the table.
    pub update: Update,
    /// The edit of the ref; `None` if the ref is not changed.
    pub edit: Option<Edit>,
    /// The message about a value that is invalid for the ref.
    pub error: Option<String>,
}

/// The options that affect updates.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `--force`
    pub force: Force,
    /// `--update-head-ok`
    pub may_update_head: bool,
    /// `--show-forced-updates`: check for lost commits.
    pub checks_forced: bool,
    /// `--dry-run`: new values are not validated.
    pub dry_run: bool,
    /// The reflog message, without the colon.
    pub action: BString,
}

/// Caches for each branch whether a worktree has it checked out.
#[derive(Debug, Default)]
pub struct CheckedOut(HashMap<BString, bool>);

impl CheckedOut {
    /// Returns true if the branch (full name) is checked out in a worktree.
    pub fn uses(&mut self, repo: &Repository, name: &BString) -> Result<bool, repo::Error> {
        if !name.starts_with(b"refs/heads/") {
            return Ok(false);
        }
        if let Some(known) = self.0.get(name) {
            return Ok(*known);
        }
        let used = repo.worktree_using(name.as_bstr(), false)?.is_some();
        self.0.insert(name.clone(), used);
        Ok(used)
    }
}

/// Decides the update of the local ref of `mapping`. The new object must exist locally.
pub fn decide(
    repo: &Repository,
    mapping: &Mapping,
    local: &Local,
    policy: &Policy,
    checked_out: &mut CheckedOut,
) -> Result<Decision, repo::Error> {
    let null = ObjectId::null(repo.hash());
    let (old, new) = (local.old.unwrap_or(null), mapping.oid);
    let line = |flag, summary: BString, reason| Update {
        flag,
        summary,
        reason,
        theirs: mapping.name.clone(),
        ours: local.name.clone(),
        old,
        new,
    };
    let stays = |flag, summary: &str, reason| Decision {
        update: line(flag, summary.into(), reason),
        edit: None,
        error: None,
    };
    let commit = |oid: ObjectId| repo.commit_if_there(oid);
    let forced = policy.force == Force::Yes || local.force == Force::Yes;
    if local.old == Some(new) {
        return Ok(stays(Flag::UpToDate, "[up to date]", None));
    }
    if local.old.is_some() && !policy.may_update_head && checked_out.uses(repo, &local.name)? {
        return Ok(stays(Flag::Rejected, "[rejected]", Some("can't fetch into checked-out branch")));
    }
    let after = commit(new)?;
    let is_branch = local.name.starts_with(b"refs/heads/");
    let is_wrong = is_branch && after != Some(new) && !policy.dry_run;
    let sets = |flag, summary, reason, (action, old): (&str, Old)| {
        if is_wrong {
            Decision {
                update: line(Flag::Rejected, summary, Some(FAILED)),
                edit: None,
                error: Some(format!("trying to write non-commit object {new} to branch '{}'", local.name)),
            }
        } else {
            let message = format!("{}: {action}", policy.action);
            let edit = Edit { old, ..Edit::set(local.name.as_bstr(), new, message.as_str().into()) };
            Decision { update: line(flag, summary, reason), edit: Some(edit), error: None }
        }
    };
    if local.old.is_some() && local.name.starts_with(b"refs/tags/") {
        return Ok(if forced {
            sets(Flag::Tag, "[tag update]".into(), None, ("updating tag", Old::Any))
        } else {
            stays(Flag::Rejected, "[rejected]", Some("would clobber existing tag"))
        });
    }
    let before = match local.old {
        Some(old) => commit(old)?,
        None => None,
    };
    let (Some(before), Some(after)) = (before, after) else {
        let (action, what) = match () {
            () if mapping.name.starts_with(b"refs/tags/") => ("storing tag", "[new tag]"),
            () if mapping.name.starts_with(b"refs/heads/") => ("storing head", "[new branch]"),
            () => ("storing ref", "[new ref]"),
        };
        return Ok(sets(Flag::New, what.into(), None, (action, Old::Any)));
    };
    let range = |dots: &str| -> Result<BString, repo::Error> {
        Ok(format!("{}{dots}{}", repo.abbreviate(before)?, repo.abbreviate(new)?).into())
    };
    if !policy.checks_forced || repo.ahead_behind(before, after)?.0 == 0 {
        return Ok(sets(Flag::FastForward, range("..")?, None, ("fast-forward", Old::Id(old))));
    }
    Ok(if forced {
        let reason = Some("forced update");
        sets(Flag::Forced, range("...")?, reason, ("forced-update", Old::Id(old)))
    } else {
        stays(Flag::Rejected, "[rejected]", Some("non-fast-forward"))
    })
}
