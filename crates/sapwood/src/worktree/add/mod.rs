//! Adding a worktree.
//!
//! Order: the rules for arguments; the branch, as in `git branch`; the administrative directory
//! (locked against pruning), the two links, HEAD; sparse patterns and configuration; the files, as
//! in `reset --hard`; the hook. A failure before the files exist removes everything that was
//! created, except the branch, as in Git. A failing hook removes nothing.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::add};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = add::Request { path: "other".into(), ..add::Request::default() };
//! let plan = add::plan(&repository, request)?;
//! println!("{plan}");
//! plan.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod fill;
mod goal;
mod make;

use std::{
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::switch::tracking::Track;
use engine::{switch::names, worktree::admin::Admin};
use format::{ObjectId, refname};
use repo::Repository;

pub use goal::Goal;

use super::records::{Given, Worktrees};
use crate::{
    Error, Events, Notice, PlanError, RunError,
    events::Notices,
    locks,
    settings::{
        Settings,
        refused::{self, Reader},
    },
    text,
};

/// The options of a new worktree.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its directory, relative to that from which the repository was opened.
    pub path: PathBuf,
    /// The branch or commit to check out. `None` for the branch with the name of the directory,
    /// which is created at HEAD unless it exists.
    pub start: Option<BString>,
    /// 1 to check out a branch that another worktree uses, or to replace the record of a missing
    /// worktree; 2 if that one is locked.
    pub force: usize,
    /// A branch to create.
    pub branch: Option<BString>,
    /// A branch to create or reset.
    pub force_branch: Option<BString>,
    /// The branch has no commit yet.
    pub orphan: bool,
    /// HEAD is detached.
    pub detach: bool,
    /// Writes no file.
    pub no_checkout: bool,
    /// Locks the worktree against pruning.
    pub lock: bool,
    /// The reason of the lock.
    pub reason: Option<BString>,
    /// Leaves out the notices that only say what is done.
    pub quiet: bool,
    /// The upstream of a new branch; `None` for `branch.autoSetupMerge`.
    pub track: Option<Track>,
    /// Takes the branch with this name of a remote; `None` for `worktree.guessRemote`.
    pub guess_remote: Option<bool>,
    /// Writes relative links; `None` for `worktree.useRelativePaths`.
    pub relative: Option<bool>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory of the worktree.
    pub path: PathBuf,
    /// Its Git directory.
    pub git_dir: PathBuf,
    /// The exit code of the hook `post-checkout`, 0 without a hook.
    pub hook: u8,
}

/// A worktree to add.
pub struct Plan {
    repository: crate::Repository,
    request: Request,
    at: Given,
    goal: Goal,
    notices: Vec<Notice>,
}

/// Finds the branch or commit of the new worktree. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan, PlanError> {
    let repository = repository.again()?;
    let at = Given::of(&repository, &request.path)?;
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let add = Add::new(&worktrees, &repository.settings, &request, &at, None)?;
    let goal = add.plan()?;
    add.check_directory()?;
    Ok(Plan { at, goal, notices: notices.into_vec(), request, repository })
}

impl Plan {
    /// Adds the worktree.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        let add = Add::new(&worktrees, &self.repository.settings, &self.request, &self.at, None)?;
        Ok(add.run(&self.goal)?)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "add worktree '{}' ({})", self.at.shown, self.goal)
    }
}

/// A source of the files of a new worktree that is not a checkout.
pub trait FileSource {
    /// Returns the name that the user gave the worktree.
    fn name(&self) -> Option<&BStr>;

    /// Prepares the files of `commit` for the directory `top`. Returns `None` if only a checkout is
    /// possible.
    fn prepare<'s>(&'s self, commit: ObjectId, top: &Path) -> Result<Option<Box<dyn NewFiles + 's>>, Error>;
}

/// The files of one new worktree.
pub trait NewFiles {
    /// Returns the requested name of the administrative directory.
    fn name<'s>(&'s self, top: &'s Path) -> &'s BStr;

    /// Returns an error if the administrative directory has another name than requested.
    fn check_name(&self, admin: &Admin) -> Result<(), Error>;

    /// Returns true if the files come from an ordinary checkout.
    fn is_checkout(&self) -> bool;

    /// Creates what the files need. Returns the path of the file `.git` to write.
    fn create_state(&self, admin: &Admin) -> Result<PathBuf, Error>;

    /// Writes the configuration and the sparse patterns of the worktree.
    fn configure(&self, admin: &Admin) -> Result<(), Error>;

    /// Makes the files visible, with their index.
    fn mount(&self, admin: &Admin) -> Result<(), Error>;

    /// Makes the complete worktree durable.
    fn persist(&self, admin: &Admin) -> Result<(), Error>;

    /// Removes what was made.
    fn undo(&self);
}

/// Returns the last component of a path, without slashes.
pub fn basename(path: &BStr) -> &BStr {
    let path = path.trim_end_with(|letter| letter == '/');
    path.rsplit_str("/").next().unwrap_or_default().as_bstr()
}

/// Returns the name that the repository gives to a worktree at `path`, unless another one has it:
/// the last component, changed where it could not be a part of a ref name. The name of a path that
/// cannot be a worktree's is empty.
pub fn default_name(path: &BStr) -> BString {
    refname::sanitized(basename(path))
}

impl Request {
    /// Returns an error for options that exclude one another.
    pub fn check(&self) -> Result<(), Error> {
        let together = |one: &str, other: &str| {
            Err(Error::failed(format!("options '{one}' and '{other}' cannot be used together")))
        };
        let ways = [self.detach, self.branch.is_some(), self.force_branch.is_some()];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            return Err(Error::failed("options '-b', '-B', and '--detach' cannot be used together"));
        }
        if self.detach && self.orphan {
            return together("--orphan", "--detach");
        }
        if self.orphan && self.track.is_some() {
            return together("--orphan", "--track");
        }
        if self.orphan && self.no_checkout {
            return together("--orphan", "--no-checkout");
        }
        if self.orphan && self.start.is_some() {
            return Err(Error::failed("option '--orphan' and commit-ish cannot be used together"));
        }
        if self.reason.is_some() && !self.lock {
            return Err(Error::failed("the option '--reason' requires '--lock'"));
        }
        Ok(())
    }
}

/// A worktree to add, and the facts that the steps share.
pub struct Add<'a> {
    worktrees: &'a Worktrees<'a>,
    repo: &'a Repository,
    settings: &'a Settings,
    request: &'a Request,
    at: &'a Given,
    source: Option<&'a dyn FileSource>,
}

impl<'a> Add<'a> {
    /// Checks the options. `source`, if it is given and supports this case, provides the files.
    pub fn new(
        worktrees: &'a Worktrees<'a>,
        settings: &'a Settings,
        request: &'a Request,
        at: &'a Given,
        source: Option<&'a dyn FileSource>,
    ) -> Result<Add<'a>, Error> {
        request.check()?;
        if at.shown.is_empty() {
            return Err(Error::failed(sys::Refused::Empty.to_string()));
        }
        if default_name(at.shown.as_bstr()).is_empty() {
            return Err(Error::Failed(text!("'", at.shown, "' names no place for a worktree")));
        }
        refused::check(worktrees.repo, &[Reader::Refs, Reader::Hooks])?;
        Ok(Add { worktrees, repo: worktrees.repo, settings, request, at, source })
    }
}

impl Add<'_> {
    /// Returns an error if the directory cannot become a worktree, unless the request has force.
    pub fn check_directory(&self) -> Result<(), Error> {
        if self.request.force > 0 {
            return Ok(());
        }
        self.worktrees.check_candidate(self.at, 0, &self.repo.worktrees()?, "add")
    }

    /// Adds the worktree.
    pub fn run(&self, goal: &Goal) -> Result<Report, Error> {
        let request = self.request;
        // Prepare the base first: a failure then leaves no branch.
        let files = match (self.source, goal.commit) {
            (Some(source), Some(commit)) if !request.no_checkout => {
                self.check_directory()?;
                source.prepare(commit, &self.at.path)?
            }
            _ => None,
        };
        if !request.quiet {
            self.report_preparing(goal)?;
        }
        let mut name = goal.name.clone();
        if let Some(branch) = &goal.new_branch {
            if !goal.orphan {
                let made = self.make_branch(branch.as_bstr(), goal.name.as_bstr());
                made.map_err(|error| Error::NewBranch(Box::new(error)))?;
                self.worktrees.events.before_program();
            }
            name = branch.clone();
        } else if request.track.is_some() {
            return Err(Error::failed("--[no-]track can only be used if a new branch is created"));
        }
        self.make(name.as_bstr(), goal.orphan, files.as_deref())
    }

    /// Returns the commit that `name` names.
    fn commit(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        match self.repo.rev_parse(name).and_then(|oid| self.repo.peel_to_commit(oid)) {
            Ok(commit) => Ok(commit),
            Err(error) if error.is_unreadable() || error.is_final() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Returns the full name of the branch `word`, if it exists.
    fn existing(&self, word: &BStr) -> Result<Option<BString>, Error> {
        match names::branch_ref(self.repo, word)? {
            Some(full) if self.repo.find_ref(full.as_bstr())?.is_some() => Ok(Some(full)),
            _ => Ok(None),
        }
    }

    fn refuse_used(&self, full: &BStr) -> Result<(), Error> {
        match self.repo.worktree_using(full, false)? {
            None => Ok(()),
            Some(path) => {
                let short = full.strip_prefix(names::BRANCHES).unwrap_or(full);
                let path = path.as_os_str().as_bytes();
                Err(Error::Failed(text!("'", short, "' is already used by worktree at '", path, "'")))
            }
        }
    }
}
