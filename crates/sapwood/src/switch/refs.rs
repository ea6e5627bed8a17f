//! The checks that refs can be changed.

use engine::switch::{self, Target, names};
use store::refs::{LogPolicy, Options};

use super::{NewBranchKind, Request, Track, prepare::NewHead};
use crate::{Context, Error, HeadChange, PlanError, refs, text, upstream};

/// Returns the options for changing refs. A reflog that is asked for a new branch means HEAD's too,
/// as in Git.
pub(super) fn options(context: Context<'_>, request: &Request) -> Result<Options, PlanError> {
    let mut refs = refs::planned_options(context)?;
    let new = request.new_branch.as_ref().filter(|new| new.kind != NewBranchKind::Orphan);
    if request.reflog && new.is_some() {
        refs.log = LogPolicy::Standard;
    }
    Ok(refs)
}

/// Returns an error if the branch or HEAD could not be changed after the files.
pub(super) fn check(
    context: Context<'_>,
    refs: &Options,
    request: &Request,
    new: &NewHead,
) -> Result<(), Error> {
    let repo = context.repo;
    let mut target = new.branch.clone();
    let orphan = request.makes(NewBranchKind::Orphan);
    if let Some(branch) = &request.new_branch {
        let short = names::local_branch(repo, branch.name.as_ref())?;
        let full = text!(names::BRANCHES, short);
        if let (Some(commit), false) = (new.commit, orphan) {
            let exists = repo.find_ref(full.as_ref())?.is_some();
            let track = track(context, request)?;
            let start = upstream::Start::find(repo, new.name.as_ref(), track)?;
            switch::check_branch(refs, full.as_ref(), commit, exists)?;
            upstream::preflight(context, short.as_ref(), &start, track)?;
        }
        target = Some(full);
    }
    let commit = new.commit.filter(|_| !orphan);
    match (&target, commit) {
        (Some(full), commit) if !request.detach => {
            switch::check_head(refs, Target::Branch(full.as_ref()), commit)
                .map_err(Error::cannot_move_head(HeadChange::Attach))
        }
        (None, _) if new.stays(request) => Ok(()),
        (_, Some(commit)) => switch::check_head(refs, Target::Commit(commit), Some(commit))
            .map_err(Error::cannot_move_head(HeadChange::Detach)),
        (_, None) => Ok(()),
    }
}

/// Returns the rule for the upstream of the new branch.
pub(super) fn track(context: Context<'_>, request: &Request) -> Result<Track, Error> {
    match request.track {
        Some(track) => Ok(track),
        None => Ok(Track::configured(context.repo)?),
    }
}
