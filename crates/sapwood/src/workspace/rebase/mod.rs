//! Moving a workspace to the base of another commit.
//!
//! It is a switch (refusals, HEAD, reflog, hook) whose files come from the base of the new commit:
//! the steps of its plan are not executed. Instead the files that the base now provides are removed
//! from the upper layer. [`engine::workspace::rebase`] has the order, and what a kill leaves. A
//! workspace of a backend that shares nothing with a base is only switched.
//!
//! The run mounts the workspace and builds the base before it plans the switch, because the plan
//! needs the files. So a refusal of the switch is an error of the run; the workspace stays on its
//! base then.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::rebase};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let (name, commit) = ("agent-1".into(), "main".into());
//! let request = rebase::Request { name, commit, ..rebase::Request::default() };
//! let report = rebase::plan(&repository, request)?.run(&Silent)?;
//! println!("{:?}", report.base);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod next_base;
mod recover;
mod replacement;

use std::fmt;

use bstr::{BStr, BString, ByteSlice as _};
use engine::workspace::{
    backend::{Backend, Busy, fuse},
    base::{Base, Bases},
    record::{self, Workspace},
};
use sys::File;

pub use recover::{discard, discard_old, recover};
pub use replacement::Replacement;

use super::{durable, inner, mounts};
use crate::{
    Error, Events, PlanError, Repository, RunError, locks,
    settings::Settings,
    switch::{self, Source},
    text,
    worktree::records::{Worktrees, open_worktree},
};

/// The options of a rebase.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The name of the workspace.
    pub name: BString,
    /// The branch or commit.
    pub commit: BString,
    /// HEAD is detached, also at a branch. It is always detached at a commit.
    pub detach: bool,
}

/// The result.
#[derive(Debug)]
pub struct Report {
    /// The switch.
    pub switched: switch::Report,
    /// The name of the base that the workspace has now, if its backend uses one.
    pub base: Option<String>,
}

/// A workspace that can be moved to another base.
pub struct Plan<'r> {
    repository: &'r Repository,
    workspace: Workspace,
    commit: BString,
    detach: bool,
}

/// Finds the workspace and the commit. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let worktrees = Worktrees::of(repository.context(&crate::Silent), Vec::new());
    let Request { name, commit, detach } = request;
    let workspace = super::find(&worktrees, name.as_bstr())?;
    workspace.refuse_sealed("workspace rebase").map_err(Error::from)?;
    check(&workspace)?;
    if workspace.record.backend == Backend::OverlayUser {
        let message = text!("only processes that sapwood starts see the files of the workspace '", name, "'");
        let advice = format!("sapwood workspace rebase {name} {commit}");
        return Err(Error::Advised { message, advice }.into());
    }
    let repo = durable::open_unmounted(worktrees.repo, &worktrees.common, &workspace)?;
    next_base::commit_of(&repo, commit.as_bstr())?;
    Ok(Plan { repository, workspace, commit, detach })
}

impl Plan<'_> {
    /// Mounts the workspace, and moves it to the base of the commit. It is mounted afterwards.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, workspace, commit, detach } = self;
        let worktrees = Worktrees::of(repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        let _lock = workspace.lock(&worktrees.repo.trust()).map_err(Error::from)?;
        let workspace = recover(&worktrees, &repository.settings, &workspace)?;
        let rebase = Rebase { worktrees: &worktrees, settings: &repository.settings, workspace: &workspace };
        let name = commit.as_bstr();
        let switched = if shares_base(&workspace) {
            rebase.run(name, None, |exchange| rebase.switch(name, detach, Some(exchange)))?
        } else {
            rebase.switch(name, detach, None)?
        };
        let record = record::find(&worktrees.common, &workspace.name).map_err(Error::from)?.record;
        Ok(Report { switched, base: record.base.map(|base| base.name) })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rebase workspace '{}' on '{}'", self.workspace.name.display(), self.commit)
    }
}

/// Returns an error for a workspace whose base cannot change.
pub fn check(workspace: &Workspace) -> Result<(), Error> {
    let is_fuse = workspace.record.backend == Backend::Fuse;
    if is_fuse && fuse::program_of(&workspace.state) == Some(fuse::Program::UnionfsFuse) {
        return Err(Error::failed(
            "unionfs-fuse marks deletions in a way of its own, so the base cannot change; use 'git \
             switch' in the workspace",
        ));
    }
    Ok(())
}

/// Returns true if the files of a workspace come from a base that it shares. Others are switched.
pub fn shares_base(workspace: &Workspace) -> bool {
    match workspace.record.backend {
        Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse => true,
        Backend::Btrfs | Backend::Reflink | Backend::Copy => false,
    }
}

/// Returns the branch or commit called `name`.
pub fn source(repo: &repo::Repository, name: &BStr) -> Result<Source, Error> {
    let invalid = || Error::Failed(text!("invalid reference: ", name));
    let oid = repo.rev_parse(name).map_err(|error| Error::of_name(error, invalid()))?;
    Source::describe(repo, name, oid)
}

/// A workspace that is moved to another base. The caller holds its lock.
#[derive(Clone, Copy)]
pub struct Rebase<'a> {
    /// The worktrees of the repository.
    pub worktrees: &'a Worktrees<'a>,
    /// The settings of the repository.
    pub settings: &'a Settings,
    /// The workspace.
    pub workspace: &'a Workspace,
}

/// The base that a workspace has, and the one that it gets.
pub struct Exchange<'a> {
    old: &'a Base,
    new: &'a Base,
    /// Keeps the new base from being removed until the record names it.
    _held: File,
}

impl Rebase<'_> {
    /// Opens the repository from the workspace. Its files must be visible here.
    pub fn open(&self) -> Result<repo::Repository, Error> {
        let Rebase { worktrees, workspace, .. } = self;
        let worktree = recover::worktree_of(worktrees, workspace)?;
        open_worktree(worktrees.repo, &worktree)
    }

    /// Mounts the workspace, and makes the base of the commit called `name`. `switch` then switches
    /// the workspace with a [`Replacement`]. `progress` is passed to [`Events::adding_base`].
    pub fn run<T, E: From<Error>>(
        &self,
        name: &BStr,
        progress: Option<bool>,
        switch: impl FnOnce(Exchange<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Rebase { worktrees, workspace, .. } = self;
        mounts::mount(worktrees, workspace)?;
        if !inner::exist(workspace)? {
            return self.run_alone(name, progress, switch);
        }
        // Without `--recurse-submodules` a switch leaves submodules as they are.
        inner::unmount(worktrees, workspace, Busy::Refuse)?;
        let done = self.run_alone(name, progress, switch);
        inner::mount(worktrees, workspace)?;
        done
    }

    /// Rebases a workspace in which no submodule is mounted.
    fn run_alone<T, E: From<Error>>(
        &self,
        name: &BStr,
        progress: Option<bool>,
        switch: impl FnOnce(Exchange<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        mounts::refuse_mounts_inside(self.workspace)?;
        let old = self.old_base()?;
        let new = next_base::make(self, &old, name, progress)?;
        let done = self.exchange(&old, &new).map_err(E::from).and_then(switch);
        if done.is_err() {
            next_base::retire(self.settings, &new);
        }
        done
    }

    fn old_base(&self) -> Result<Base, Error> {
        let old = self.workspace.record.base.as_ref();
        let old = old.expect("a workspace with an upper layer has a base");
        Ok(Bases::trusted(&old.dir, self.worktrees.repo.trust())?.get(&old.name)?)
    }

    fn exchange<'a>(&self, old: &'a Base, new: &'a Base) -> Result<Exchange<'a>, Error> {
        Ok(Exchange { old, new, _held: new.hold()? })
    }

    /// Switches the workspace to the branch or commit called `name`: with another base, if one is
    /// given.
    fn switch(
        &self,
        name: &BStr,
        detach: bool,
        exchange: Option<Exchange<'_>>,
    ) -> Result<switch::Report, Error> {
        let repo = self.open()?;
        // A crash after the rebase must not take the index: the files are those of the new base.
        let settings = Settings::read(&repo, self.worktrees.events)?.for_recording();
        let context = self.worktrees.context(&repo, &settings);
        let source = source(&repo, name)?;
        let detach = detach || source.branch.is_none();
        let request = switch::Request { detach, ..switch::Request::default() };
        let (mut executed, replacement) = match exchange {
            Some(exchange) => {
                let replacement = Replacement::new(*self, context, &source, exchange)?;
                let prepared = switch::prepare_replacement(context, request, source).map_err(Error::from)?;
                let executed = prepared
                    .execute_by(|locked, branch, message| replacement.perform(locked, branch, message))?;
                (executed, Some(replacement))
            }
            None => {
                let prepared = switch::prepare(context, request, Some(source)).map_err(Error::from)?;
                (prepared.execute()?, None)
            }
        };
        executed.move_head()?;
        executed.end_operations()?;
        if let Some(replacement) = replacement {
            replacement.finish()?;
        }
        executed.run_hook()?;
        Ok(executed.into_report())
    }
}
