//! The file system monitor of a run: its configuration, the query, and the response applied to the
//! index ([`engine::look::monitor`]).
//!
//! sapwood queries it once, after reading the index and before examining files. A monitor that
//! fails or is missing only makes the command slower: every file is examined. Its response never
//! replaces the check before a file is overwritten or removed. Source: git-config(1)
//! `core.fsmonitor`, git-fsmonitor--daemon(1).

mod asking;
mod configured;
mod daemon;
mod program;
mod workspace;

use bstr::{BStr, BString};
use engine::{
    monitor::{self, Changes, NameComparison, Response},
    workspace::upper::{self, Layer, MonitorClient},
};
use format::index::{Index, MonitorAnswer};
use repo::{Repository, keys};

use crate::{
    Error,
    context::Context,
    events::Events,
    notice::Notice,
    sparse_index::{self, ExpansionHint},
    trace,
};

pub use asking::has_defect as asking_git_has_defect;
pub use configured::{Monitor, configured};
pub use daemon::is_running;
pub use engine::monitor::WriteIndex;
pub use workspace::{printed, query as query_workspace};

/// Drops the monitor data of an index that was just read, if no monitor is configured, as Git does.
pub fn remove_unused_data(repo: &Repository, index: &mut Index) -> Result<WriteIndex, Error> {
    let is_gone = index.fsmonitor.is_some() && matches!(configured(repo)?, Monitor::None | Monitor::Unfit(_));
    Ok(if is_gone { monitor::remove(index) } else { WriteIndex::NotNeeded })
}

/// Queries the monitor for the changes since `index` was written, and applies them. Without a
/// configured monitor, drops the monitor data of the index. Returns true if the index should be
/// written for this alone.
///
/// Afterwards, entries marked valid need no check, and the caller marks entries found clean as
/// valid.
pub fn refresh(context: Context<'_>, index: &mut Index) -> Result<WriteIndex, Error> {
    refresh_submodule(context, context, index)
}

/// Like [`refresh`], for an index that will not be written: what a later query would need is not
/// stored.
pub fn refresh_unwritten(context: Context<'_>, index: &mut Index) -> Result<(), Error> {
    query(context, context, index, MonitorClient::Reader).map(drop)
}

/// Like [`refresh`], for the index of a submodule: queries the monitor configured there, as part of
/// the superproject `top`, as Git does.
pub fn refresh_submodule(
    top: Context<'_>,
    context: Context<'_>,
    index: &mut Index,
) -> Result<WriteIndex, Error> {
    query(top, context, index, MonitorClient::Sapwood)
}

fn query(
    top: Context<'_>,
    context: Context<'_>,
    index: &mut Index,
    client: MonitorClient,
) -> Result<WriteIndex, Error> {
    let Context { repo, events, .. } = context;
    if index.monitor_answer() != MonitorAnswer::NotAsked {
        return Ok(WriteIndex::NotNeeded);
    }
    let token = index.fsmonitor.as_ref().map(|monitor| monitor.token.clone());
    let response = match configured(repo)? {
        Monitor::None => return Ok(monitor::remove(index)),
        Monitor::Unfit(why) => {
            events.notice(Notice::UnfitMonitor(why.message(repo, repo.cwd())));
            return Ok(monitor::remove(index));
        }
        Monitor::Program(command) => program::query(top, command.as_ref(), token)?,
        Monitor::Workspace(workspace) => of_layer(context, Layer::of(&workspace), index, token, client),
        Monitor::Union(union) => match union.layer(repo.git_dir()) {
            Ok(layer) => of_layer(context, Some(layer), index, token, client),
            Err(error) => unknown(&error, events),
        },
        Monitor::Daemon(_) => daemon::query(
            events,
            &configured::socket(top.repo, top.repo.work_tree().unwrap_or(top.repo.cwd()))?,
            token,
        ),
    };
    let is_collapsed = |path: &BString| sparse_index::is_collapsed(Some(&*index), path.as_ref());
    if index.sparse && matches!(&response.changes, Changes::To(paths) if paths.iter().any(is_collapsed)) {
        // Git looks the reported path up in the collapsed directory, and expands the index for
        // that.
        sparse_index::report_expansion(context, index, ExpansionHint::Print)?;
    }
    let ignores_case = repo.config(&keys::core::IGNORE_CASE)?;
    let comparison = if ignores_case { NameComparison::IgnoreCase } else { NameComparison::Exact };
    Ok(monitor::apply(index, response, comparison))
}

/// Queries the upper layer of a workspace or union.
fn of_layer(
    context: Context<'_>,
    layer: Option<Layer>,
    index: &Index,
    token: Option<BString>,
    client: MonitorClient,
) -> Response {
    let repo = context.repo;
    let Some(layer) = layer else { return Response::none(upper::unknown_token()) };
    trace::region("fsm_workspace", "query");
    let top = repo.work_tree().unwrap_or(repo.base_dir());
    let token = token.unwrap_or_default();
    let has_tracked = |path: &BStr| !index.range_below(path).is_empty();
    workspace::query(layer, top, token.as_ref(), client, Some(repo), has_tracked)
        .unwrap_or_else(|error| unknown(&error, context.events))
}

/// Warns that the changes are unknown.
pub fn unknown(error: &dyn std::error::Error, events: &dyn Events) -> Response {
    events.notice(Notice::MonitorFailed(format!("{error}; every file is examined")));
    everything()
}

/// Returns the response that any file may have changed.
pub fn everything() -> Response {
    Response::none(upper::unknown_token())
}
