//! Landing: a branch of the repository gets the commits of a workspace.
//!
//! Order: the commit of the workspace; for a sealed one its objects, checked and durable; a merge
//! or a rebase by the real Git in memory, unless the branch can be moved forward; the check; the
//! branch. A failure leaves the branch, and everything else that a command shows. The lock of the
//! workspace is free during the check. After the check its record must be what it was before.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::land};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = land::Request { name: "agent-1".into(), ..land::Request::default() };
//! let report = land::plan(&repository, request)?.run(&Silent)?;
//! println!("{} is at {}", report.branch, report.new);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Design: docs/design/sealed.md.

mod merge;
mod rebase;

use std::{
    cell::OnceCell,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    rc::Rc,
    sync::atomic::AtomicBool,
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    fetch::connected::{self, Connected},
    landing::{self, Foreign, Import, Tip},
    switch::{self, names},
    workspace::{
        backend::Visibility,
        record::{self, Workspace},
    },
};
use format::{Kind, ObjectId};
use repo::{WorktreeHeadKind, fsck::Rules};
use store::{
    objects::ObjectTransaction,
    refs::{Change, Expected},
};
use sys::{Dir, File, by_path};

use super::{
    create,
    maker::{Fallback, Maker, WorkspaceOptions},
    remove::{self, Force},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError,
    context::Context,
    events::Notices,
    hooks, locks, refs,
    settings::Settings,
    text,
    worktree::{
        add,
        add::Add,
        records::{Given, Worktrees},
    },
};

/// The workspace to land.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its name.
    pub name: BString,
    /// The branch that gets the commits; `None` for the branch that the workspace began with.
    pub onto: Option<BString>,
    /// A command for the shell, which runs in a worktree of the result. Unless it succeeds, nothing
    /// is landed.
    pub check: Option<BString>,
    /// Writes the commits again on top of the branch if it cannot be moved forward, instead of
    /// merging.
    pub rebase: bool,
}

/// The change of the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// The branch had the commits.
    AlreadyThere,
    /// The branch is new.
    Created,
    /// The branch was moved forward.
    Forwarded,
    /// A merge commit was made.
    Merged,
    /// The commits were written again, on top of the branch.
    Rebased,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The full name of the branch.
    pub branch: BString,
    /// Its commit before.
    pub old: Option<ObjectId>,
    /// Its commit now.
    pub new: ObjectId,
    /// The change.
    pub landed: Landed,
    /// The number of objects that came from the workspace.
    pub objects: usize,
}

/// A workspace whose branch may be changed.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    branch: BString,
    notices: Vec<Notice>,
}

/// Finds the workspace and the branch. Changes nothing. The commits are examined by the run.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let found = record::find(&worktrees.common, sys::os_str(&request.name));
    let workspace = found.map_err(Error::from)?;
    workspace.refuse_begun().map_err(Error::from)?;
    let branch = branch_of(&worktrees, &workspace, request.onto.as_ref())?;
    Ok(Plan { repository, request, branch, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Lands the workspace.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let Context { settings, .. } = self.repository.recording_context(events);
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        Ok(land(&worktrees, settings, &self.request)?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "land workspace '{}' on '{}'", self.request.name, self.branch)
    }
}

/// Lands a workspace. `settings` are those of a command that records the user's work.
pub fn land(worktrees: &Worktrees<'_>, settings: &Settings, request: &Request) -> Result<Report, Error> {
    let repo = worktrees.repo;
    let named = record::find(&worktrees.common, sys::os_str(&request.name))?;
    named.refuse_begun()?;
    let mut lock = Some(named.lock(&repo.trust())?);
    // Another command may have changed the record before this one got the lock.
    let workspace = record::find(&worktrees.common, sys::os_str(&request.name))?;
    workspace.refuse_begun()?;
    let branch = branch_of(worktrees, &workspace, request.onto.as_ref())?;
    if repo.symbolic_target(branch.as_bstr())?.is_some() {
        // The branch that it names may be checked out.
        return Err(Error::Failed(text!("the branch '", branch, "' is a symbolic ref")));
    }
    // Asked before anything is written: a hook may forbid the change.
    let refs = refs::options(worktrees.context(repo, settings))?;
    let old = repo.find_ref(branch.as_bstr())?;
    let (tip, objects) = match workspace.record.sealed {
        Some(_) => take(worktrees, settings, &workspace)?,
        None => (own_tip(worktrees, &workspace)?, 0),
    };
    let (new, landed) = match old {
        None => (tip, Landed::Created),
        Some(old) if repo.is_reachable(tip, &[old])? => (old, Landed::AlreadyThere),
        Some(old) if repo.is_reachable(old, &[tip])? => (tip, Landed::Forwarded),
        Some(old) => {
            refuse_checked_out(worktrees, branch.as_bstr())?;
            let sides = merge::Sides { name: request.name.as_bstr(), branch: &branch, old, tip };
            if request.rebase {
                match rebase::rebase(worktrees, settings, &sides)? {
                    new if new == old => (old, Landed::AlreadyThere),
                    new => (new, Landed::Rebased),
                }
            } else {
                (merge::merge(worktrees, settings, &sides)?, Landed::Merged)
            }
        }
    };
    let report = Report { branch, old, new, landed, objects };
    if landed == Landed::AlreadyThere {
        note(worktrees, settings, workspace, (tip, new))?;
        return Ok(report);
    }
    refuse_checked_out(worktrees, report.branch.as_bstr())?;
    if let Some(command) = &request.check {
        // The command may use the workspace, and takes as long as it likes.
        drop(lock.take());
        let code = check(worktrees, settings, new, command.as_bstr())?;
        if code != 0 {
            return Err(Error::LandCheck { name: request.name.clone(), code });
        }
        lock = Some(lock_again(worktrees, &workspace)?);
        refuse_checked_out(worktrees, report.branch.as_bstr())?;
    }
    worktrees.check_interrupt()?;
    note(worktrees, settings, workspace, (tip, new))?;
    let expected = old.map_or(Expected::Missing, Expected::Is);
    let message = text!(
        "workspace land: ",
        request.name,
        match landed {
            Landed::Created => ": created",
            Landed::Merged => ": merge",
            Landed::Rebased => ": rebase",
            Landed::Forwarded | Landed::AlreadyThere => ": fast-forward",
        }
    );
    let change = Change::Update { name: report.branch.clone(), new, expected, message };
    store::refs::apply(&refs, vec![change]).map_err(switch::Error::from)?;
    drop(lock);
    Ok(report)
}

/// Takes the lock of a workspace again. Returns an error if another command has changed its record.
fn lock_again(worktrees: &Worktrees<'_>, before: &Workspace) -> Result<File, Error> {
    let unchanged = || match record::find(&worktrees.common, &before.name)? {
        now if now == *before => Ok(()),
        _ => Err(remove::changed_meanwhile(before)),
    };
    // Without its state, there is nothing to lock.
    unchanged()?;
    let lock = before.lock(&worktrees.repo.trust())?;
    unchanged().map(|()| lock)
}

/// Records that `new` has the changes of the commit `tip` of a sealed workspace, though not the
/// commit. So its removal loses nothing once a ref reaches `new`. This comes before the ref: a kill
/// in between leaves a record that says nothing, because no ref reaches `new`.
fn note(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    mut workspace: Workspace,
    (tip, new): (ObjectId, ObjectId),
) -> Result<(), Error> {
    let Some(sealed) = &mut workspace.record.sealed else { return Ok(()) };
    if worktrees.repo.is_reachable(tip, &[new])? {
        return Ok(());
    }
    sealed.landed = Some(record::Landed { tip, new });
    Ok(workspace.store(&settings.fsync)?)
}

/// Returns the full name of the branch that gets the commits.
fn branch_of(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    onto: Option<&BString>,
) -> Result<BString, Error> {
    let word = match (onto, &workspace.record.sealed) {
        (Some(onto), _) => onto.clone(),
        (None, Some(sealed)) => return Ok(sealed.branch.clone()),
        (None, None) => workspace.name.as_bytes().into(),
    };
    let invalid = || Error::InvalidBranchName { name: word.clone(), advice: None };
    names::branch_ref(worktrees.repo, word.as_bstr())?.ok_or_else(invalid)
}

/// Returns an error if a worktree has the branch checked out: its files would not follow.
fn refuse_checked_out(worktrees: &Worktrees<'_>, branch: &BStr) -> Result<(), Error> {
    let Some(path) = worktrees.repo.worktree_using(branch, false)? else { return Ok(()) };
    let short = branch.strip_prefix(names::BRANCHES).unwrap_or(branch);
    let path = path.as_os_str().as_bytes();
    Err(Error::Advised {
        message: text!("the branch '", short, "' is checked out at '", path, "'"),
        advice: "land it on a branch of its own, and merge that there: git merge <branch>".to_owned(),
    })
}

/// Returns the commit of a workspace whose objects are those of the repository.
fn own_tip(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<ObjectId, Error> {
    let none = || Error::from(landing::Error::NoCommit);
    let worktree = workspace.linked_worktree(worktrees.repo).ok_or_else(none)?;
    let head = worktrees.repo.head_of(&worktree);
    match head.kind {
        WorktreeHeadKind::Branch(_) | WorktreeHeadKind::Detached if !head.oid.is_null() => Ok(head.oid),
        _ => Err(none()),
    }
}

/// Opens the Git directory of a sealed workspace, without following a link.
pub(super) fn open_foreign(workspace: &Workspace) -> Result<Dir, landing::Error> {
    let path = workspace.git_dir();
    let unreadable = |source| landing::Error::Unreadable { path: ".git".into(), source };
    let mut above = path.ancestors().skip(2);
    let above = above.next().ok_or_else(|| unreadable(std::io::ErrorKind::NotFound.into()))?;
    let inside = path.strip_prefix(above).expect("it is one of its ancestors");
    Dir::open(above).and_then(|dir| dir.open_dir(inside.as_os_str().as_bytes())).map_err(unreadable)
}

/// Reads HEAD of a sealed workspace.
pub(super) fn foreign_tip(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<Tip, landing::Error> {
    landing::tip(&open_foreign(workspace)?, worktrees.repo.hash())
}

/// Copies the new objects of a sealed workspace into the repository, where no ref reaches them yet.
/// Returns the commit, and the number of objects.
fn take(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<(ObjectId, usize), Error> {
    let repo = worktrees.repo;
    let git = open_foreign(workspace)?;
    let tip = landing::tip(&git, repo.hash())?.commit.ok_or(landing::Error::NoCommit)?;
    let foreign = Foreign::open(repo, &git, &workspace.state.join("landing"))?;
    let missing =
        |oid: ObjectId| Error::failed(format!("the object {oid}, which the workspace needs, is missing"));
    let (mut root, mut count) = ((tip, Kind::Commit), 0);
    for _ in 0..ROUNDS {
        count += take_from(worktrees, settings, &foreign, root)?;
        let options = connected::Options { workers: settings.workers, interrupt: worktrees.interrupt };
        match connected::check(repo, &[tip], options) {
            Ok(Connected::Complete) => return is_commit(repo, tip).map(|()| (tip, count)),
            Ok(Connected::Missing(oid)) => match foreign.kind_of(&oid)? {
                Some(kind) => root = (oid, kind),
                None => return Err(missing(oid)),
            },
            Err(connected::Error::Interrupted) => return Err(Error::Interrupted),
            Err(connected::Error::Repo(error)) => return Err(error.into()),
        }
    }
    Err(missing(root.0))
}

/// A landing that was killed may leave some of its objects, and the walk ends at them. Then the
/// check for connected objects names a missing one, and the walk begins again there. Only
/// transactions with fewer objects than this can be cut in the middle.
const ROUNDS: usize = 64;

/// Copies an object and what it needs.
fn take_from(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    foreign: &Foreign<'_>,
    root: (ObjectId, Kind),
) -> Result<usize, Error> {
    let repo = worktrees.repo;
    let transaction = ObjectTransaction::new(settings.objects(repo));
    let (big, interrupt) = (settings.big_file_threshold, worktrees.interrupt);
    let import = Import { repo, foreign, transaction: &transaction, big, interrupt };
    let (rules, warnings) = repo.fetch_rules()?;
    warnings.into_iter().for_each(|warning| worktrees.events.notice(Notice::Repository(warning)));
    let rules = rules.unwrap_or_else(|| Rules::strict(repo.hash()));
    let count = landing::import(&import, rules, root).map_err(|error| match error {
        landing::Error::Interrupted => Error::Interrupted,
        error => error.into(),
    })?;
    transaction.publish()?;
    Ok(count)
}

fn is_commit(repo: &repo::Repository, tip: ObjectId) -> Result<(), Error> {
    match repo.peel_to_commit(tip)? {
        Some(commit) if commit == tip => Ok(()),
        _ => Err(landing::Error::NoCommit.into()),
    }
}

/// Returns true if the process that checked a landing in the workspace is gone.
pub fn is_killed_check(workspace: &Workspace) -> bool {
    workspace.is_check() && !workspace.is_being_checked()
}

/// Removes the workspaces of checks whose process is gone. A failure is reported: they belong to
/// other landings.
fn remove_killed_checks(worktrees: &Worktrees<'_>) -> Result<(), Error> {
    for workspace in super::all(worktrees)?.iter().filter(|workspace| is_killed_check(workspace)) {
        let is_still = || {
            if is_killed_check(workspace) { Ok(()) } else { Err(remove::changed_meanwhile(workspace)) }
        };
        match remove::remove_if(worktrees, workspace, Force::Yes, &is_still) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => worktrees.events.notice(Notice::CheckNotRemoved(text!(
                "cannot remove '",
                workspace.name.as_bytes(),
                "', in which a landing was checked: ",
                error.to_string()
            ))),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Returns a name for the workspace of a check that nothing has, and its directory.
fn place_of_check(worktrees: &Worktrees<'_>) -> Result<(BString, PathBuf), Error> {
    let pid = std::process::id();
    let mut number = 0u32;
    loop {
        let name = match number {
            0 => BString::from(format!("land-check-{pid}")),
            number => BString::from(format!("land-check-{pid}-{number}")),
        };
        let dir = create::directory(worktrees, name.as_bstr())?;
        let is_free = |path: &Path| matches!(by_path::stat(path), Ok(None));
        let admin = worktrees.common.join("worktrees").join(sys::os_str(&name));
        let state = record::directory(&worktrees.common).join(sys::os_str(&name));
        if [&dir, &admin, &state].into_iter().all(|path| is_free(path)) {
            return Ok((name, dir));
        }
        number += 1;
    }
}

/// Runs a command in a workspace of `commit`, which is removed afterwards. Returns its exit code.
fn check(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    commit: ObjectId,
    command: &BStr,
) -> Result<u8, Error> {
    remove_killed_checks(worktrees)?;
    let (name, dir) = place_of_check(worktrees)?;
    let at = Given::new(dir);
    // Other commands leave the workspace alone until this lock is released.
    let running = Rc::new(OnceCell::new());
    let check = Some(Rc::clone(&running));
    let options = WorkspaceOptions { name: Some(name.clone()), check, ..WorkspaceOptions::default() };
    let maker = Maker::new(worktrees, settings, Visibility::Everybody, Fallback::Copy, &options);
    let request = add::Request {
        path: at.path.clone(),
        start: Some(commit.to_string().into()),
        detach: true,
        quiet: true,
        ..add::Request::default()
    };
    let add = Add::new(worktrees, settings, &request, &at, Some(&maker))?;
    add.run(&add.plan()?)?;
    let code = hooks::in_shell_at(worktrees.context(worktrees.repo, settings), &at.path, command, &[]);
    let made = record::find(&worktrees.common, sys::os_str(&name))?;
    // A signal to the whole group of processes ends the command. The workspace goes first.
    let never = AtomicBool::new(false);
    let Worktrees { repo, events, .. } = *worktrees;
    let (common, occupied) = (worktrees.common.clone(), worktrees.occupied.clone());
    let uninterrupted = Worktrees { repo, common, events, interrupt: &never, occupied };
    remove::remove(&uninterrupted, &made, Force::Yes)?;
    worktrees.check_interrupt()?;
    Ok(code)
}
