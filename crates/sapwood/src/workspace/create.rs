//! Creating a workspace: a worktree is added, as by `git worktree add`, with files from a base.
//!
//! Order: the backend and the base, then as in [`crate::worktree::add`]. A failure removes
//! everything that was made, except the branch and the base.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::create};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = create::Request { name: "agent-1".into(), ..create::Request::default() };
//! let report = create::plan(&repository, request)?.run(&Silent)?;
//! println!("{} ({})", report.path.display(), report.backend.name());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::workspace::{
    backend::Backend,
    sealed::{Hooks, Sharing},
};
use engine::workspace::{
    backend::Visibility,
    record::{self, Durability},
};
use format::refname;
use repo::keys;

use super::{
    maker::{Fallback, Maker, WorkspaceOptions},
    places,
    seal::{self, Start},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    locks, text,
    worktree::{
        add::{self, Add, Goal},
        records::{Given, Worktrees},
    },
};

/// The options of a new workspace.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its name, which follows the rules for names of branches.
    pub name: BString,
    /// The branch or commit to check out. `None` for the branch with the name of the workspace,
    /// which is created at HEAD unless it exists.
    pub start: Option<BString>,
    /// A branch to create.
    pub branch: Option<BString>,
    /// HEAD is detached.
    pub detach: bool,
    /// Its directory; `None` for `sapwood.workspaceDir`, else one next to the main worktree.
    pub dir: Option<PathBuf>,
    /// The backend; `None` for the best one whose files every process can see.
    pub backend: Option<Backend>,
    /// The directory of the bases; `None` for `sapwood.baseDir`, else one in the repository.
    pub base_dir: Option<PathBuf>,
    /// The directory that holds the changes; `None` for `sapwood.upperDir`, else one in the
    /// repository.
    pub upper_dir: Option<PathBuf>,
    /// The directories of a sparse workspace.
    pub sparse: Vec<BString>,
    /// True to ignore `fsync` in the workspace, whatever `sapwood.workspaceSync` says.
    pub volatile: bool,
    /// The workspace is a repository of its own, which gets the objects in this way: for a sandbox
    /// that sees only its directory. `None` for a linked worktree.
    pub sealed: Option<Sharing>,
    /// Its hooks.
    pub hooks: Hooks,
    /// Settings that only this workspace has.
    pub settings: Vec<(BString, BString)>,
    /// The most bytes that its changes may have on the disk; 0 for no quota, and `None` for
    /// `sapwood.workspaceQuota`. Files of its Git directory count only if it is sealed.
    pub quota: Option<u64>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory of the workspace.
    pub path: PathBuf,
    /// Its Git directory.
    pub git_dir: PathBuf,
    /// Its backend.
    pub backend: Backend,
    /// The exit code of the hook `post-checkout`, 0 without a hook.
    pub hook: u8,
}

/// A workspace to create.
pub struct Plan {
    repository: Repository,
    name: BString,
    options: WorkspaceOptions,
    added: add::Request,
    at: Given,
    kind: Kind,
    notices: Vec<Notice>,
}

/// The kind of the new workspace.
enum Kind {
    Linked(Goal),
    Sealed(seal::Options),
}

/// Finds the place, and the branch or commit. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let repository = repository.again()?;
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let Request { name, start, branch, detach, dir, backend, base_dir, upper_dir, .. } = request;
    check_name(&worktrees.common, name.as_bstr())?;
    let at = match dir {
        Some(dir) => Given::of(&repository, &dir)?,
        None => Given::new(directory(&worktrees, name.as_bstr())?),
    };
    let absolute = |dir: Option<PathBuf>| dir.map(|dir| Given::of(&repository, &dir)).transpose();
    let sealed = request.sealed.map(|_| {
        let start = Start { name: name.clone(), revision: start.clone(), branch: branch.clone() };
        start.find(worktrees.repo)
    });
    let options = WorkspaceOptions {
        name: Some(name.clone()),
        backend,
        base_dir: absolute(base_dir)?.map(|given| given.path),
        upper_dir: absolute(upper_dir)?.map(|given| given.path),
        sparse: request.sparse,
        durability: request.volatile.then_some(Durability::Volatile),
        sealed: sealed.transpose()?,
        hooks: request.hooks,
        settings: request.settings,
        quota: request.quota,
        ..WorkspaceOptions::default()
    };
    let added = add::Request { path: at.path.clone(), start, branch, detach, ..add::Request::default() };
    let maker = maker(&repository, &worktrees, &options);
    maker.check_quota()?;
    let add = Add::new(&worktrees, &repository.settings, &added, &at, Some(&maker))?;
    add.check_directory()?;
    let kind = match request.sealed {
        Some(sharing) => Kind::Sealed(seal::Options { detach, sharing }),
        None => Kind::Linked(add.plan()?),
    };
    Ok(Plan { repository, name, options, kind, notices: notices.into_vec(), added, at })
}

impl Plan {
    /// Creates the workspace. Its files are there when this returns.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, name, options, added, at, kind, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        let maker = maker(&repository, &worktrees, &options);
        let goal = match kind {
            Kind::Linked(goal) => goal,
            Kind::Sealed(kind) => {
                return Ok(seal::create(&worktrees, &repository.settings, (&maker, &options), &at, kind)?);
            }
        };
        let add = Add::new(&worktrees, &repository.settings, &added, &at, Some(&maker))?;
        let add::Report { path, git_dir, hook } = add.run(&goal)?;
        let workspace = record::find(&worktrees.common, sys::os_str(&name)).map_err(Error::from)?;
        Ok(Report { path, git_dir, backend: workspace.record.backend, hook })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "create workspace '{}' at '{}' (", self.name, self.at.shown)?;
        match (&self.kind, &self.options.sealed) {
            (Kind::Linked(goal), _) => write!(formatter, "{goal})"),
            (Kind::Sealed(_), Some(sealed)) => write!(formatter, "sealed, at {})", sealed.commit),
            (Kind::Sealed(_), None) => write!(formatter, "sealed)"),
        }
    }
}

/// The program that links this crate sees the files only if every process does.
fn maker<'a>(
    repository: &'a Repository,
    worktrees: &'a Worktrees<'a>,
    options: &'a WorkspaceOptions,
) -> Maker<'a> {
    Maker::new(worktrees, &repository.settings, Visibility::Everybody, Fallback::Copy, options)
}

/// Returns an error for a name that cannot be both a directory name and the end of a branch name,
/// and for one that exists.
pub fn check_name(common: &Path, name: &BStr) -> Result<(), Error> {
    if name.is_empty() || refname::sanitized(name) != *name || name.contains(&b'/') {
        return Err(Error::Failed(text!(
            "'",
            name,
            "' cannot be the name of a workspace: it is the name of a directory, and follows \
             the rules for names of branches"
        )));
    }
    match record::find(common, sys::os_str(name)) {
        Err(record::Error::Missing(_)) => Ok(()),
        Ok(_) => Err(record::Error::Exists(sys::os_str(name).to_owned()).into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the directory of a new workspace without one of its own: in `sapwood.workspaceDir`, else
/// next to the main worktree.
pub fn directory(worktrees: &Worktrees<'_>, name: &BStr) -> Result<PathBuf, Error> {
    let name = sys::os_str(name);
    if let Some(all) = places::configured_dir(worktrees.repo, keys::sapwood::WORKSPACE_DIR)? {
        return Ok(all.join(name));
    }
    let main = match worktrees.repo.worktrees()?.into_iter().next() {
        Some(main) => main.path,
        None => worktrees.common.clone(),
    };
    let mut all = OsString::from(main.file_name().unwrap_or_default());
    all.push(".workspaces");
    Ok(main.with_file_name(all).join(name))
}
