//! The file system monitor of a run: what is configured, asking it, and its answer put to the index
//! ([`engine::monitor`]).
//!
//! It is asked once, after the index was read and before anything is looked at. A monitor that fails, or is not there, only makes the
//! command slower: everything is looked at, and nothing is vouched for. Its word spares looks; it never stands for the look
//! before a file is overwritten or removed. Source: git-config(1) `core.fsmonitor`, git-fsmonitor--daemon(1).

mod configured;
mod daemon;
mod program;

use bstr::BString;
use engine::monitor::{self, Changes, Names};
use format::index::{Index, MonitorAnswer};
use repo::Repository;

use crate::{
    session::{
        invocation::Invocation,
        settings::Settings,
        sparse_index::{self, Tell},
    },
    term::{console, failure::Failure},
};

pub(crate) use configured::{Monitor, configured};
pub(crate) use engine::monitor::WriteIndex;

/// When an index was read: what it holds for a monitor goes if none is configured any more, as in Git.
pub(crate) fn settle(repo: &Repository, index: &mut Index) -> Result<WriteIndex, Failure> {
    let is_gone = index.fsmonitor.is_some() && matches!(configured(repo)?, Monitor::None | Monitor::Unfit(_));
    Ok(if is_gone { monitor::remove(index) } else { WriteIndex::NotNeeded })
}

/// Asks the monitor what happened since `index` was written, if there is one and it was not asked yet, and makes the index say so; where none is
/// configured, what the index holds for one goes. The answer is whether that alone is worth writing the index.
///
/// Afterwards what [`Index::is_fsmonitor_valid`] need not be looked at, and what was looked at and found clean is to be
/// vouched for ([`Index::vouch`]).
pub(crate) fn refresh(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    index: &mut Index,
) -> Result<WriteIndex, Failure> {
    refresh_submodule(run, (repo, settings), (repo, settings), index)
}

/// The same for the index of a submodule: the monitor is the one that is configured there, and it is asked as that of the superproject `top`, as by Git.
pub(crate) fn refresh_submodule(
    run: &Invocation,
    top: (&Repository, &Settings),
    (repo, settings): (&Repository, &Settings),
    index: &mut Index,
) -> Result<WriteIndex, Failure> {
    if index.monitor_answer() != MonitorAnswer::NotAsked {
        return Ok(WriteIndex::NotNeeded);
    }
    let token = index.fsmonitor.as_ref().map(|monitor| monitor.token.clone());
    let answer = match configured(repo)? {
        Monitor::None => return Ok(monitor::remove(index)),
        Monitor::Unfit(why) => {
            console::warning(why.message(repo, &run.cwd));
            return Ok(monitor::remove(index));
        }
        Monitor::Program(command) => program::ask(top.0, top.1, command.as_ref(), token)?,
        Monitor::Daemon(_) => {
            daemon::ask(run, &configured::socket(top.0, top.0.work_tree().unwrap_or(&run.cwd))?, token)
        }
    };
    let is_collapsed = |path: &BString| sparse_index::is_collapsed(Some(&*index), path.as_ref());
    if index.sparse && matches!(&answer.changes, Changes::To(paths) if paths.iter().any(is_collapsed)) {
        // Git looks for what is named in the directory that is one entry.
        sparse_index::expanded(repo, settings, index, Tell::Hint)?;
    }
    let names = match repo.config_bool("core.ignoreCase")? {
        Some(true) => Names::IgnoreCase,
        _ => Names::Exact,
    };
    Ok(monitor::apply(index, answer, names))
}
