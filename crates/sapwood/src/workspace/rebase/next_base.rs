//! The base that a workspace gets by a rebase.

use std::time::{SystemTime, UNIX_EPOCH};

use bstr::BStr;
use engine::{
    sparse,
    workspace::base::{Base, Bases},
};
use format::ObjectId;
use repo::Repository;
use sys::by_path;

use super::Rebase;
use crate::{
    Error,
    settings::Settings,
    text,
    workspace::{
        durable, places,
        supply::{Supply, stacks},
    },
};

/// With at most this many changed files, a base with the present time is not worth it: to copy them
/// takes less time than to wait for the next second, half a second on average.
const FEW: usize = 4096;

/// Returns the base of the commit called `name` for the backend of a workspace, and builds it if it
/// does not exist. The files of the workspace need not be visible here.
///
/// If the commit differs widely from the old base, all files of the new one get the present time.
/// So they are newer than every build before, and none has to be copied. The bases of later rebases
/// get the same time: no file may become older than a build.
pub(super) fn make(
    rebase: &Rebase<'_>,
    old: &Base,
    name: &BStr,
    progress: Option<bool>,
) -> Result<Base, Error> {
    let Rebase { worktrees, workspace, .. } = *rebase;
    let repo = durable::open_unmounted(worktrees.repo, &worktrees.common, workspace)?;
    let settings = Settings::read(&repo, worktrees.events)?;
    let commit = commit_of(&repo, name)?;
    let patterns = sparse::load(&repo)?.map(|loaded| loaded.patterns);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let backend = workspace.record.backend;
    let mut supply = Supply {
        worktrees,
        repo: &repo,
        settings: &settings,
        commit,
        patterns: patterns.as_ref(),
        time: old.time(),
        progress,
        dirs: directories(rebase)?,
    };
    // A backend that shows one directory would need a whole base for each later rebase.
    if stacks(backend) && supply.can_build() && old.differs_widely(&supply.wanted(backend)?, FEW)? {
        supply.time = Some((now.as_secs(), now.subsec_nanos()));
    }
    supply.base(backend)
}

/// Returns the commit called `name`.
pub(super) fn commit_of(repo: &Repository, name: &BStr) -> Result<ObjectId, Error> {
    let invalid = || Error::Failed(text!("invalid reference: ", name));
    let oid = repo.rev_parse(name).map_err(|error| Error::of_name(error, invalid()))?;
    let commit = repo.peel_to_commit(oid)?;
    commit.ok_or_else(|| Error::Failed(text!("'", name, "' is no commit")))
}

/// Returns the base directories for a new base: that of the old base, and the configured one, which
/// comes first if it has the other one as an alternate.
fn directories(rebase: &Rebase<'_>) -> Result<Vec<Bases>, Error> {
    let repo = rebase.worktrees.repo;
    let configured = places::bases(repo, None)?;
    let Some(old) = &rebase.workspace.record.base else { return Ok(vec![configured]) };
    let old = Bases::trusted(&old.dir, repo.trust())?;
    let real = |bases: &Bases| by_path::canonical(bases.dir()).unwrap_or_else(|_| bases.dir().to_owned());
    if configured.alternates()?.contains(&real(&old)) {
        return Ok(vec![configured, old]);
    }
    Ok(if real(&configured) == real(&old) { vec![old] } else { vec![old, configured] })
}

/// Removes a base that only this workspace wanted, if it does not use it. If the base stays, `base
/// gc` removes it.
pub(super) fn retire(settings: &Settings, base: &Base) {
    if base.time().is_some() {
        let bases = Bases::at(base.dir.parent().unwrap_or(&base.dir));
        let _ = bases.retire(base, settings.locks.shared);
    }
}
