//! The files of a new worktree, as `reset --hard --no-recurse-submodules` writes them there.

use std::path::Path;

use bstr::BString;
use repo::{OpenOptions, Repository};

use super::Worktrees;
use crate::{
    Error, Notice,
    reset::{self, Mode},
    settings::{
        Settings,
        refused::{self, Reader},
    },
    status::messages::about_objects,
    text,
};

/// Writes the files of HEAD into the worktree at `top`, which has none.
pub(crate) fn reset(worktrees: &Worktrees<'_>, top: &Path, quiet: bool) -> Result<(), Error> {
    let repo = open(worktrees.repo, top)?;
    let settings = Settings::read(&repo, worktrees.events)?;
    refused::check(&repo, &[Reader::Refs, Reader::Hooks])?;
    let request = reset::Request {
        mode: Mode::Hard,
        recurse_submodules: Some(false),
        reflog_action: repo.env().bytes("GIT_REFLOG_ACTION").map(BString::from),
        // Here Git shows progress without a terminal and without `--progress`.
        progress: !quiet,
        ..reset::Request::default()
    };
    let target = reset::resolve(&repo, &request)?;
    about_objects(&repo, worktrees.events);
    let prepared = reset::prepare(worktrees.context(&repo, &settings), request, target)?;
    let recorded = prepared.execute()?.record()?;
    if recorded.report().is_incomplete {
        return Err(Error::failed("Could not reset index file to revision 'HEAD'."));
    }
    let moved = recorded.move_head()?;
    if let Some(commit) = moved.report().new.filter(|_| !quiet) {
        let (short, subject) = (repo.abbreviate(commit)?, repo.subject(commit)?);
        let gap = if subject.is_empty() { "" } else { " " };
        worktrees.events.notice(Notice::HeadIsNowAt(text!(short, gap, subject)));
    }
    moved.end()?;
    Ok(())
}

/// Opens the new worktree as a child process of Git would.
fn open(repo: &Repository, top: &Path) -> Result<Repository, Error> {
    let mut options = OpenOptions { bare: false, ..repo.options_at(top) };
    options.env.insert("GIT_DIR".into(), top.join(".git").into());
    options.env.insert("GIT_WORK_TREE".into(), top.into());
    let of_children = repo.child_env().into_iter();
    options.env.extend(of_children.filter(|(name, _)| name == "GIT_IMPLICIT_WORK_TREE"));
    Ok(Repository::open(&options)?)
}
