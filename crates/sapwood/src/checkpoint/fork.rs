//! A workspace that begins with the present state of this worktree, uncommitted work included.
//!
//! Order: the present state as objects, without a lock; a workspace at the commit of HEAD; the
//! files and the index entries that differ from this commit; the first entry of the workspace.
//! Nothing is changed in this worktree.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, checkpoint::fork};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = fork::Request { name: "second-try".into(), ..fork::Request::default() };
//! let report = fork::plan(&repository, request)?.run(&Silent)?;
//! println!("{}", report.workspace.path.display());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::{Path, PathBuf};

use bstr::BString;
use engine::checkpoint::{self, LeftOut, Snapshot, State};
use format::ObjectId;
use repo::Repository as Opened;

use super::{
    Series,
    info::{Info, Kind, Place},
    limits::Limits,
    look, undo,
};
use crate::{
    Context, Error, Events, PlanError, Repository, RunError, text,
    transaction::{IndexTransaction, Start},
    workspace::{create, quota},
};

/// The options of a fork.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The name of the workspace, and of its new branch.
    pub name: BString,
    /// Its directory; `None` for the one that a new workspace gets.
    pub dir: Option<PathBuf>,
    /// Its backend; `None` for the best one.
    pub backend: Option<create::Backend>,
    /// The command that asked for it.
    pub command: BString,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The workspace.
    pub workspace: create::Report,
    /// The files that the workspace got.
    pub filled: Filled,
}

/// The files that a workspace got from its source.
#[derive(Clone, Debug)]
pub struct Filled {
    /// The number of files that were written.
    pub written: usize,
    /// The paths of the source that the workspace does not have.
    pub left_out: Vec<LeftOut>,
}

/// A fork to make.
pub struct Plan<'r> {
    repository: &'r Repository,
    command: BString,
    source: Source,
    create: create::Plan,
}

/// Stores the present state, and plans the workspace.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let Request { name, dir, backend, command } = request;
    if backend == Some(create::Backend::OverlayUser) {
        return Err(Error::failed("a fork needs a backend whose files this process sees").into());
    }
    let source = source(repository.recording_context(&crate::Silent))?;
    let branch = Some(name.clone());
    let start = Some(source.commit.to_string().into());
    let quota = quota::inherited(&repository.inner);
    let request = create::Request { name, start, branch, dir, backend, quota, ..create::Request::default() };
    let create = create::plan(repository, request)?;
    Ok(Plan { repository, command, source, create })
}

impl Plan<'_> {
    /// Creates the workspace, and gives it the state.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, command, source, create } = self;
        let workspace = create.run(events)?;
        let opened = open(&repository.inner, &workspace.path, &workspace.git_dir)?;
        let fork = Repository::of(opened, repository.interrupt())?;
        let filled = source.fill(fork.recording_context(events), &command)?;
        Ok(Report { workspace, filled })
    }
}

/// Opens the repository of a new workspace.
pub fn open(repo: &Opened, top: &Path, git_dir: &Path) -> Result<Opened, Error> {
    Ok(Opened::open_for(&repo.options_at(top), top, git_dir)?)
}

/// The state that a fork begins with. Its objects are published.
pub struct Source {
    /// The commit of HEAD.
    pub commit: ObjectId,
    info: Info,
    snapshot: Snapshot,
    limits: Limits,
}

/// Stores the present state.
pub fn source(context: Context<'_>) -> Result<Source, Error> {
    let commit = context.repo.head()?.oid().ok_or(Error::NoHead)?;
    let limits = Limits::read(context.repo)?;
    let present = look(context)?;
    let info = present.info(Kind::Fork, Place::New { parent: None }, &BString::default());
    Ok(Source { commit, info, snapshot: present.publish()?, limits })
}

impl Source {
    /// Writes the state as an object, for a process that sees the files of the workspace.
    pub fn store(&self, context: Context<'_>, command: &BString) -> Result<ObjectId, Error> {
        let info = Info { command: command.clone(), ..self.info.clone() };
        super::present::write(context, &self.snapshot.state, &info)
    }

    /// Reads what [`Source::store`] wrote, in the new workspace.
    pub fn read(context: Context<'_>, stored: ObjectId) -> Result<Source, Error> {
        let commit = context.repo.head()?.oid().ok_or(Error::NoHead)?;
        let limits = Limits::read(context.repo)?;
        let (state, info) = checkpoint::read(context.repo, stored)?;
        let info = Info::decode(context.repo.hash(), &info);
        let info = info.ok_or(Error::Checkpoint(checkpoint::Error::NoEntry(stored)))?;
        Ok(Source { commit, info, snapshot: Snapshot::of_state(state), limits })
    }

    /// Returns the command that asked for the fork.
    pub fn command(&self) -> BString {
        self.info.command.clone()
    }

    /// Returns the paths that the fork will not have.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.snapshot.left_out
    }

    /// Gives a new workspace, whose HEAD is the commit, the state.
    pub fn fill(self, context: Context<'_>, command: &BString) -> Result<Filled, Error> {
        let Source { commit, info, snapshot, limits } = self;
        let mut transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
        transaction.query_monitor()?;
        let base = Snapshot::of_tree(context.repo.tree_of(commit)?);
        let index = transaction.index.clone();
        let planned = undo::plan_files(&transaction, index, &base, &snapshot.state)?;
        let done = undo::carry_out(&mut transaction, planned)?;
        if !done.is_complete() {
            return Err(Error::Failed("the workspace did not get all files of its source".into()));
        }
        record(context, &snapshot.state, info, command, &limits)?;
        Ok(Filled { written: transaction.report.written, left_out: snapshot.left_out })
    }
}

/// Makes the first entry of the workspace.
fn record(
    context: Context<'_>,
    state: &State,
    source: Info,
    command: &BString,
    limits: &Limits,
) -> Result<(), Error> {
    let head = context.repo.head()?;
    let branch = source.branch.as_ref().map_or_else(|| "a detached HEAD".into(), BString::clone);
    let branch = branch.strip_prefix(b"refs/heads/").unwrap_or(&branch);
    let info = Info {
        head: head.oid(),
        branch: head.branch().map(ToOwned::to_owned),
        command: command.clone(),
        label: text!("fork of ", branch),
        ..source
    };
    let tree = super::present::write(context, state, &info)?;
    Series::find(context.repo)?.append(context, tree, &info, false, limits).map(drop)
}
