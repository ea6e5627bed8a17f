//! Building bases, with progress and messages.

use std::time::Duration;

use engine::{
    sparse::Patterns,
    workspace::{
        backend::Backend,
        base::{self, AddOptions, Base, Bases, Kind, Owner, Persist, Wanted},
    },
};
use format::ObjectId;
use repo::{Repository, convert::Metadata};

use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console,
        failure::Failure,
        progress::{self, Progress},
    },
};

/// Returns the kind of base that the backend uses.
pub(super) fn kind_of(backend: Backend) -> Kind {
    if backend == Backend::Image { Kind::Image } else { Kind::Directory }
}

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

/// The delay before the progress of a base: a user who expects a workspace in milliseconds should
/// know soon why this one takes longer.
const SOON: Duration = Duration::from_millis(300);

/// Builds the base of a commit by `add`, with progress and messages.
pub(crate) fn build_base<T>(
    run: &Invocation,
    settings: &Settings,
    commit: ObjectId,
    is_visible: bool,
    persist: Persist,
    add: impl FnOnce(&AddOptions<'_>, &mut Vec<String>) -> Result<T, base::Error>,
) -> Result<T, Failure> {
    let delay = if run.variable("GIT_PROGRESS_DELAY").is_some() { settings.progress_delay } else { SOON };
    let progress = Progress::new("Adding base", is_visible, delay);
    let options = AddOptions {
        workers: settings.workers,
        interrupt: run.interrupt.flag(),
        progress: &|done, total| progress.update(done, total),
        big_file_threshold: settings.big_file_threshold,
        metadata: Metadata { reference: None, treeish: Some(commit) },
        fsync: &settings.fsync,
        shared: settings.locks.shared,
        persist,
    };
    let mut messages = Vec::new();
    let added = add(&options, &mut messages);
    progress.abandon();
    messages.iter().for_each(console::eprint_line);
    run.interrupt.check()?;
    Ok(added?)
}
