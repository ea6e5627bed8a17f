//! Refusals that need no lock: combinations of options, and other worktrees and operations.

use bstr::{BStr, BString};
use engine::switch::{
    names,
    state::{self, Operation},
};
use repo::{Repository, keys};

use super::{Head, NewBranch, NewBranchKind, Request, Rules, Source};
use crate::{Context, Error, Notice, text};

fn refused<T>(message: impl Into<BString>) -> Result<T, Error> {
    Err(Error::Failed(message.into()))
}

/// Refuses combinations of options that have no meaning.
pub fn check(context: Context<'_>, request: &Request, source: Option<&Source>) -> Result<(), Error> {
    let clash = |one: &str, other: &str| refused(format!("'{one}' cannot be used with '{other}'"));
    let orphan = request.makes(NewBranchKind::Orphan);
    let new = request.new_branch.is_some();
    if request.detach && new {
        return clash("--detach", "-b/-B/--orphan");
    }
    if orphan && request.track.is_some() {
        return clash("--orphan", "-t");
    }
    if request.starts_empty() && source.is_some() {
        return refused("'--orphan' cannot take <start-point>");
    }
    if request.detach && request.track.is_some() {
        return clash("--detach", "-t");
    }
    let Some(source) = source else {
        let nothing = !new && !request.detach;
        let needs_target = request.rules == Rules::Switch || request.only_head;
        return if nothing && needs_target { refused("missing branch or commit argument") } else { Ok(()) };
    };
    if source.commit.is_none() {
        return refused(text!("Cannot switch branch to a non-commit '", source.name, "'"));
    }
    if request.rules == Rules::Switch && !request.detach && !new && source.branch.is_none() {
        return Err(a_branch_is_expected(context, source)?);
    }
    Ok(())
}

fn a_branch_is_expected(context: Context<'_>, source: &Source) -> Result<Error, Error> {
    let refs = names::expand(context.repo, source.name.as_ref())?;
    let found = match &refs[..] {
        [(full, _)] => {
            if let Some(tag) = full.strip_prefix(b"refs/tags/") {
                text!("tag '", tag, "'")
            } else if let Some(branch) = full.strip_prefix(b"refs/remotes/") {
                text!("remote branch '", branch, "'")
            } else {
                text!("'", full, "'")
            }
        }
        _ => text!("commit '", source.name, "'"),
    };
    Ok(Error::BranchExpected { found, advises: context.advises(keys::advice::SUGGEST_DETACHING_HEAD)? })
}

/// Returns the full name of a branch to create, which may exist.
pub fn new_branch_ref(repo: &Repository, name: &BStr) -> Result<BString, Error> {
    if let Some(full) = names::branch_ref(repo, name)? {
        return Ok(full);
    }
    let advice = repo.config_as(&keys::advice::REF_SYNTAX)?;
    Err(Error::InvalidBranchName { name: name.to_owned(), advice })
}

/// Refuses the name of a branch to create that is not valid, or exists.
pub fn check_new_branch(repo: &Repository, branch: &NewBranch) -> Result<(), Error> {
    let full = new_branch_ref(repo, branch.name.as_ref())?;
    if branch.kind != NewBranchKind::Reset && repo.find_ref(full.as_ref())?.is_some() {
        return Err(Error::BranchExists(full));
    }
    Ok(())
}

/// Refuses a switch while another operation is in progress, or to a branch of another worktree.
pub(super) fn check_state(
    context: Context<'_>,
    request: &Request,
    source: Option<&Source>,
    old: &Head,
) -> Result<(), Error> {
    if request.rules == Rules::Switch {
        refuse_in_progress(context)?;
    }
    let branch = match (source, &request.new_branch) {
        (Some(Source { branch: Some(branch), .. }), None) if !request.detach => branch.clone(),
        (_, Some(NewBranch { name, kind: NewBranchKind::Reset })) => {
            text!(names::BRANCHES, names::local_branch(context.repo, name.as_ref())?)
        }
        _ => return Ok(()),
    };
    if request.ignore_other_worktrees || old.branch.as_ref() == Some(&branch) {
        return Ok(());
    }
    let Some(path) = context.repo.worktree_using(branch.as_ref(), true)? else { return Ok(()) };
    let short = branch.strip_prefix(names::BRANCHES).unwrap_or(&branch);
    refused(text!("'", short, "' is already used by worktree at '", path.display().to_string(), "'"))
}

fn refuse_in_progress(context: Context<'_>) -> Result<(), Error> {
    let found = state::in_progress(context.repo)?;
    let (doing, quit) = match found.operation {
        Some(Operation::Merge) => ("while merging", "merge"),
        Some(Operation::Am) => ("in the middle of an am session", "am"),
        Some(Operation::Rebase) => ("while rebasing", "rebase"),
        Some(Operation::CherryPick) => ("while cherry-picking", "cherry-pick"),
        Some(Operation::Revert) => ("while reverting", "revert"),
        None => {
            if found.bisect {
                context.events.notice(Notice::Bisecting);
            }
            return Ok(());
        }
    };
    refused(format!("cannot switch branch {doing}\nConsider \"git {quit} --quit\" or \"git worktree add\"."))
}
