//! Building bases. See [`sapwood::workspace::build`].

use engine::{
    sparse::Patterns,
    workspace::base::{self, AddOptions, Base, Bases, Kind, Owner, Persist, Wanted},
};
use format::ObjectId;
use repo::Repository;
use sapwood::workspace::build;

use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{failure::Failure, progress},
};

/// Adds the base of a commit, if it is missing.
#[expect(clippy::too_many_arguments, reason = "the parts of a base have no common owner")]
pub(crate) fn add_base(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    bases: &Bases,
    commit: ObjectId,
    kind: Kind,
    patterns: Option<&Patterns>,
    is_visible: bool,
    persist: Persist,
) -> Result<Base, Failure> {
    let wanted = Wanted::new(repo, repo.tree_of(commit)?, kind, Owner::of_process(), patterns)?;
    build_base(run, settings, commit, is_visible, persist, |options, messages| {
        bases.add(&wanted, options, messages)
    })
}

/// Returns true if progress is shown, with the option `--[no-]progress` and with `--quiet`.
pub(crate) fn shows(option: Option<bool>, quiet: bool) -> bool {
    option.unwrap_or_else(progress::has_terminal) && !quiet
}

/// See [`build::build_base`].
pub(crate) fn build_base<T>(
    run: &Invocation,
    settings: &Settings,
    commit: ObjectId,
    is_visible: bool,
    persist: Persist,
    add: impl FnOnce(&AddOptions<'_>, &mut Vec<String>) -> Result<T, base::Error>,
) -> Result<T, Failure> {
    let reports = (run as &dyn sapwood::Events, run.interrupt.flag());
    Ok(build::build_base(reports, settings, commit, Some(is_visible), persist, add)?)
}
