//! The file system monitor of a run. See [`sapwood::monitor`].

use engine::monitor::Response;
use repo::Repository;
pub(crate) use sapwood::monitor::{
    Monitor, WriteIndex, asking_git_has_defect, configured, everything, is_running, printed, query_workspace,
};
use sapwood::{Context, index::Index, monitor};

use crate::{
    session::{events::Terminal, invocation::Invocation, settings::Settings},
    term::{failure::Failure, interrupt::Interrupt, notice::Printer},
};

/// See [`monitor::refresh`].
pub(crate) fn refresh(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    index: &mut Index,
) -> Result<WriteIndex, Failure> {
    refresh_submodule(run, (repo, settings), (repo, settings), index)
}

/// See [`monitor::refresh_submodule`].
pub(crate) fn refresh_submodule(
    run: &Invocation,
    top: (&Repository, &Settings),
    (repo, settings): (&Repository, &Settings),
    index: &mut Index,
) -> Result<WriteIndex, Failure> {
    let events = Terminal::new(run);
    let interrupt = Interrupt::default().flag();
    let top = Context { repo: top.0, settings: top.1, events: &events, interrupt, hands_over: false };
    Ok(monitor::refresh_submodule(top, Context { repo, settings, ..top }, index)?)
}

/// See [`monitor::unknown`].
pub(crate) fn unknown(error: &dyn std::error::Error) -> Response {
    monitor::unknown(error, &Printer)
}
