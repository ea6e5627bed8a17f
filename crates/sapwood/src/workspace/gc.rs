//! Completing or removing the remains of killed commands.
//!
//! - A workspace whose creation was interrupted is removed, unless somebody may have worked in it.
//!   A directory that it has not claimed stays in any case.
//! - The workspace of a check of a landing is removed if the process of the landing is gone.
//! - A removal, a move and a rebase that a killed command could not take back are completed.
//! - The temporary files of other killed commands are removed.
//!
//! A workspace that another command has locked is skipped. Each finding is searched again under the
//! lock before something is changed.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::gc};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let plan = gc::plan(&repository)?;
//! print!("{plan}");
//! plan.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    mem::discriminant,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use bstr::{BString, ByteSlice as _};
use engine::{
    workspace::{
        backend::Backend,
        base::Bases,
        crash,
        record::{self, Activity, BaseRef, LOCK_REASON, Workspace},
    },
    worktree::admin,
};
use sys::by_path;

use super::{
    all, budget, land, mounts, rebase, relocate,
    remove::{self, Attempt, Force, is_empty},
    seal::{self, Remains},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, events::Notices, locks, settings::Settings, text,
    trash, worktree::records::Worktrees,
};

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The workspaces whose remains were completed or removed, in order.
    pub completed: Vec<BString>,
    /// The workspaces that stay as they are, with the reasons.
    pub kept: Vec<(BString, String)>,
}

/// The remains in a repository.
pub struct Plan<'r> {
    repository: &'r Repository,
    leftovers: Vec<Leftover>,
    unread: Vec<Error>,
    notices: Vec<Notice>,
}

/// Searches the remains. Changes nothing.
pub fn plan(repository: &Repository) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let mut unread = Vec::new();
    let leftovers = find(&worktrees, &mut |error| unread.push(error))?;
    Ok(Plan { repository, leftovers, unread, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the remains, in the order in which they are completed.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// Returns the reasons why some workspaces could not be examined.
    pub fn unread(&self) -> &[Error] {
        &self.unread
    }

    /// Completes or removes the remains, and removes temporary files. A failure does not end the
    /// run.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let context = self.repository.context(events);
        let settings = context.settings;
        let worktrees = Worktrees::of(context, Vec::new());
        locks::recover(&worktrees.common, events);
        let mut report = Report::default();
        for leftover in &self.leftovers {
            worktrees.check_interrupt()?;
            let name = BString::from(leftover.name().as_encoded_bytes());
            match leftover.complete(&worktrees, settings) {
                Ok(End::Done) => report.completed.push(name),
                Ok(End::Incomplete) => {
                    report.kept.push((name, "its record could not be removed".to_owned()));
                }
                Ok(End::Locked) => report.kept.push((name, "another command has locked it".to_owned())),
                Err(Error::Interrupted) => return Err(Error::Interrupted.into()),
                Err(error) => report.kept.push((name, error.to_string())),
            }
        }
        remove_temporary(&worktrees)?;
        budget::discard_unused_layers(&worktrees)?;
        trash::empty(&worktrees.common, events.program().as_deref());
        Ok(report)
    }
}

/// Each finding, in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.leftovers.iter().try_for_each(|leftover| {
            writeln!(formatter, "workspace '{}': {}", leftover.name().display(), leftover.description())
        })
    }
}

/// Searches the remains in a repository. Calls `failed` for each workspace that cannot be examined.
pub fn find(worktrees: &Worktrees<'_>, failed: &mut dyn FnMut(Error)) -> Result<Vec<Leftover>, Error> {
    let mut found: Vec<Leftover> = Vec::new();
    let mut add = |found: &mut Vec<Leftover>, searched: Result<Option<Leftover>, Error>| match searched {
        Ok(leftover) => found.extend(leftover),
        Err(error) => failed(error),
    };
    for id in administrative(worktrees)? {
        add(&mut found, Leftover::of_admin(worktrees, id));
    }
    // Both searches find a workspace whose creation was interrupted.
    let known: Vec<OsString> = found.iter().map(|leftover| leftover.name().to_owned()).collect();
    let is_known =
        |workspace: &Workspace| workspace.record.sealed.is_none() && known.contains(&workspace.name);
    for workspace in all(worktrees)?.into_iter().filter(|workspace| !is_known(workspace)) {
        add(&mut found, Leftover::of_state(worktrees, workspace));
    }
    Ok(found)
}

/// Removes the temporary files of killed commands.
pub fn remove_temporary(worktrees: &Worktrees<'_>) -> Result<(), Error> {
    let removed = record::remove_abandoned(&worktrees.common);
    worktrees.drop_empty_list();
    Ok(removed?)
}

/// The end of an attempt to complete or to remove something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Done,
    /// A record stays. The reason was reported.
    Incomplete,
    /// Another command has locked the workspace, and nothing was changed.
    Locked,
}

impl From<Attempt> for End {
    fn from(attempt: Attempt) -> End {
        match attempt {
            Attempt::Removed => End::Done,
            Attempt::RecordStays => End::Incomplete,
            Attempt::Locked => End::Locked,
        }
    }
}

/// The remains of a killed creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing. The directory may hold files of the user.
    Nothing,
    /// A complete workspace, mounted.
    Workspace,
    /// A workspace of backend `copy` whose checkout was interrupted, by its administrative
    /// directory. [`settle`] marks it as complete.
    Unfilled(PathBuf),
}

/// Removes the remains of a killed creation of a workspace at `top`, or completes it. The caller
/// holds a lock, so no other process makes one there.
pub fn recover_at(worktrees: &Worktrees<'_>, settings: &Settings, top: &Path) -> Result<Recovered, Error> {
    let top = by_path::realpath_forgiving(top);
    for id in administrative(worktrees)? {
        let found = Leftover::of_admin(worktrees, id)?.filter(|leftover| leftover.top() == top);
        let Some(leftover) = found else { continue };
        if let Kind::Complete(workspace) = &leftover.0 {
            if workspace.record.backend == Backend::Copy {
                let admin = worktrees.common.join("worktrees").join(&workspace.name);
                ["index", "HEAD"].iter().for_each(|name| record::clear_stale_lock(&admin.join(name)));
                return Ok(Recovered::Unfilled(admin));
            }
            if !workspace.record.backend.has_upper() {
                return Err(Error::Advised {
                    message: text!(
                        "'",
                        top.as_os_str().as_encoded_bytes(),
                        "' holds files of a clone that was killed"
                    ),
                    advice: "remove the directory, and run the same command again".to_owned(),
                });
            }
        }
        loop {
            match leftover.complete(worktrees, settings)? {
                End::Done => break,
                End::Incomplete => return Err(stays(&leftover)),
                End::Locked => {
                    worktrees.check_interrupt()?;
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
    record::remove_abandoned(&worktrees.common)?;
    let Some(workspace) = all(worktrees)?.into_iter().find(|found| found.record.dir == top) else {
        return Ok(Recovered::Nothing);
    };
    mounts::mount(worktrees, &workspace)?;
    Ok(Recovered::Workspace)
}

fn stays(leftover: &Leftover) -> Error {
    Error::failed(format!("the record of '{}' could not be removed", leftover.name().display()))
}

/// Marks a workspace as complete, by its administrative directory.
pub fn settle(admin: &Path) -> Result<(), Error> {
    Ok(admin::write(&admin.join("locked"), LOCK_REASON.as_bytes())?)
}

/// Returns the ids of all administrative directories.
fn administrative(worktrees: &Worktrees<'_>) -> Result<Vec<OsString>, Error> {
    let dir = worktrees.common.join("worktrees");
    match by_path::list(&dir) {
        Ok(names) => Ok(names.into_iter().map(|(name, _)| name).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::CannotOpen { path: dir, source }),
    }
}

/// The remains of a killed command, in one workspace.
#[derive(Clone, Debug)]
pub struct Leftover(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// An administrative directory without a state, and the workspace's directory.
    Admin(OsString, PathBuf),
    /// An interrupted creation without files.
    Begun(Workspace),
    /// An interrupted creation with files: the workspace is kept.
    Complete(Workspace),
    /// An interrupted check of a landing.
    Check(Workspace),
    /// An interrupted removal.
    Removal(Workspace),
    /// An interrupted move or rebase.
    Change(Workspace),
    /// A state without an administrative directory.
    Orphan(Workspace),
}

impl Leftover {
    fn of_admin(worktrees: &Worktrees<'_>, id: OsString) -> Result<Option<Leftover>, Error> {
        let dir = worktrees.common.join("worktrees").join(&id);
        let Ok(Some(reason)) = by_path::read(&dir.join("locked")) else { return Ok(None) };
        let reason = reason.trim_end_with(|letter| letter == '\n');
        let state = record::of_worktree(&worktrees.common, &id)?;
        let kind = match (record::parse_initializing(reason), state) {
            // This process makes none, so one with its id is gone.
            (Some((pid, _)), _) if is_another(pid) && sys::is_running(pid) == Some(true) => None,
            (Some((_, top)), None) => Some(Kind::Admin(id, top)),
            (_, Some(workspace)) if workspace.is_being_checked() => None,
            (_, Some(workspace)) if land::is_killed_check(&workspace) => Some(Kind::Check(workspace)),
            (Some(_), Some(workspace)) if is_empty(&workspace) => Some(Kind::Begun(workspace)),
            (Some(_), Some(workspace)) => Some(Kind::Complete(workspace)),
            (None, None) if reason == LOCK_REASON.as_bytes() => {
                let gitdir = by_path::read(&dir.join("gitdir")).ok().flatten().unwrap_or_default();
                let gitfile = Path::new(sys::os_str(format::blank::trim_end(&gitdir)));
                let top = dir.join(gitfile.parent().unwrap_or(Path::new("")));
                Some(Kind::Admin(id, by_path::realpath_forgiving(&top)))
            }
            _ => None,
        };
        Ok(kind.map(Leftover))
    }

    fn of_state(worktrees: &Worktrees<'_>, workspace: Workspace) -> Result<Option<Leftover>, Error> {
        let has = |path: &Path| matches!(by_path::stat(path), Ok(Some(_)));
        if workspace.record.sealed.is_some() {
            let kind = match workspace.record.activity {
                _ if has(&workspace.removal()) => Some(Kind::Removal(workspace)),
                Activity::Begun(pid) if is_another(pid) && sys::is_running(pid) == Some(true) => None,
                Activity::Begun(_) => Some(match seal::remains(worktrees, &workspace) {
                    Remains::Work => Kind::Complete(workspace),
                    Remains::Nothing => Kind::Begun(workspace),
                }),
                Activity::Active | Activity::Frozen | Activity::Check(_) => None,
            };
            return Ok(kind.map(Leftover));
        }
        let aside = ["rebase", record::MOVING].map(|name| workspace.state.join(name));
        let beside = ["upper.new", "upper.old", "newer.new", "newer.old"]
            .map(|name| workspace.upper().with_file_name(name));
        let kind = if has(&workspace.removal()) {
            Kind::Removal(workspace)
        } else if workspace.linked_worktree(worktrees.repo).is_none() {
            Kind::Orphan(workspace)
        } else if aside.iter().chain(&beside).any(|path| has(path)) {
            Kind::Change(workspace)
        } else if land::is_killed_check(&workspace) {
            Kind::Check(workspace)
        } else if is_torn(worktrees, &workspace) {
            Kind::Begun(workspace)
        } else {
            return Ok(None);
        };
        Ok(Some(Leftover(kind)))
    }

    /// Returns the name and the directory of the workspace.
    fn place(&self) -> (&OsStr, &Path) {
        match &self.0 {
            Kind::Admin(id, top) => (id, top),
            Kind::Begun(workspace)
            | Kind::Complete(workspace)
            | Kind::Check(workspace)
            | Kind::Removal(workspace)
            | Kind::Change(workspace)
            | Kind::Orphan(workspace) => (&workspace.name, &workspace.record.dir),
        }
    }

    /// Returns the name of the workspace.
    pub fn name(&self) -> &OsStr {
        self.place().0
    }

    /// Returns the directory of the workspace.
    pub fn top(&self) -> &Path {
        self.place().1
    }

    /// Returns a description of the finding.
    pub fn description(&self) -> &'static str {
        match &self.0 {
            Kind::Admin(..) => "the rest of an incomplete workspace",
            Kind::Begun(_) => "its creation was interrupted",
            Kind::Complete(_) => "its creation was interrupted, and it holds files: it is kept",
            Kind::Check(_) => "the check of a landing was interrupted",
            Kind::Removal(_) => "its removal was interrupted",
            Kind::Change(_) => "a rebase or a move was interrupted",
            Kind::Orphan(workspace) if is_empty(workspace) => "it has no administrative directory",
            Kind::Orphan(_) => "it has no administrative directory, but holds files: it is kept",
        }
    }

    /// Completes it, unless another command did, or somebody works in the workspace again.
    pub fn complete(&self, worktrees: &Worktrees<'_>, settings: &Settings) -> Result<End, Error> {
        let forget = |id: &OsStr, top: &Path| {
            Ok(if relocate::forget(worktrees, id, top)? { End::Done } else { End::Incomplete })
        };
        match &self.0 {
            Kind::Admin(..) if !self.is_still(worktrees) => Ok(End::Done),
            Kind::Admin(id, top) => forget(id, top),
            Kind::Begun(workspace) | Kind::Check(workspace) => match self.remove(worktrees, workspace)? {
                // Git does not list a worktree with an incomplete administrative directory.
                End::Done if workspace.record.sealed.is_none() => {
                    forget(&workspace.name, &workspace.record.dir)
                }
                end => Ok(end),
            },
            Kind::Removal(workspace) => self.remove(worktrees, workspace),
            Kind::Orphan(workspace) if is_empty(workspace) => self.remove(worktrees, workspace),
            Kind::Orphan(_) => Ok(End::Done),
            Kind::Complete(workspace) | Kind::Change(workspace) => {
                let lock = workspace.try_lock(&worktrees.repo.trust())?;
                let Some(_lock) = lock else { return Ok(End::Locked) };
                if self.is_still(worktrees) {
                    self.restore(worktrees, settings)?;
                }
                Ok(End::Done)
            }
        }
    }

    /// Removes the workspace, if there is still nothing of the user's in it.
    fn remove(&self, worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<End, Error> {
        let is_still = || {
            let used = || Error::failed(format!("'{}' is used again", workspace.name.display()));
            if self.is_still(worktrees) { Ok(()) } else { Err(used()) }
        };
        // The files of a check are nobody's work.
        let force = if let Kind::Check(_) = self.0 { Force::Yes } else { Force::Remains };
        Ok(remove::remove_if(worktrees, workspace, force, &is_still)?.into())
    }

    /// Completes a workspace that stays. The caller holds its lock.
    fn restore(&self, worktrees: &Worktrees<'_>, settings: &Settings) -> Result<(), Error> {
        let mut workspace = record::find(&worktrees.common, self.name())?;
        if let Kind::Change(_) = self.0 {
            let workspace = rebase::recover(worktrees, settings, &workspace)?;
            relocate::recover(worktrees, settings, &workspace)?;
            return rebase::discard_old(worktrees, &workspace);
        }
        if workspace.record.sealed.is_some() {
            workspace.record.activity = Activity::Active;
            return Ok(workspace.store(&settings.fsync)?);
        }
        settle(&worktrees.common.join("worktrees").join(&workspace.name))
    }

    /// Returns true if a search would find the same now.
    fn is_still(&self, worktrees: &Worktrees<'_>) -> bool {
        let is_it = |found: Result<Option<Leftover>, Error>| {
            let found = found.ok().flatten();
            found.is_some_and(|found| {
                discriminant(&found.0) == discriminant(&self.0) && found.top() == self.top()
            })
        };
        let state = record::find(&worktrees.common, self.name()).ok();
        let holds_files = |workspace: &Workspace| matches!(self.0, Kind::Orphan(_)) && !is_empty(workspace);
        if state.as_ref().is_some_and(holds_files) {
            return false;
        }
        is_it(Leftover::of_admin(worktrees, self.name().to_owned()))
            || state.is_some_and(|workspace| is_it(Leftover::of_state(worktrees, workspace)))
    }
}

/// Returns true for a workspace whose creation a power cut interrupted: it has no files, and a file
/// of its administrative directory has no content.
fn is_torn(worktrees: &Worktrees<'_>, workspace: &Workspace) -> bool {
    if !workspace.record.backend.has_upper() || !is_empty(workspace) {
        return false;
    }
    let admin = worktrees.common.join("worktrees").join(&workspace.name);
    let locked = by_path::read(&admin.join("locked")).ok().flatten().unwrap_or_default();
    let maker = record::parse_initializing(locked.trim_end_with(|letter| letter == '\n'));
    if maker.is_some_and(|(pid, _)| is_another(pid) && sys::is_running(pid) == Some(true)) {
        return false;
    }
    let is_missing = |path: &Path| matches!(by_path::stat(path), Ok(None)) || crash::is_torn(path);
    let are_missing = ["HEAD", "commondir", "gitdir"].iter().any(|name| is_missing(&admin.join(name)));
    if are_missing || crash::is_torn(&admin.join("config.worktree")) {
        return true;
    }
    // With a base that a crash took, the index is made again.
    let has_lost = |base: &BaseRef| Bases::at(&base.dir).has_lost(&base.name);
    if workspace.record.base.as_ref().is_none_or(|base| !matches!(has_lost(base), Ok(false))) {
        return false;
    }
    if is_missing(&admin.join("index")) {
        return true;
    }
    let index = by_path::open(&admin.join("index")).and_then(|file| sys::Map::of(&file));
    let summary = index.ok().and_then(|index| format::index::summarize(&index, worktrees.repo.hash()));
    let shared = summary.and_then(|summary| summary.shared);
    shared.is_some_and(|shared| is_missing(&admin.join(format!("sharedindex.{shared}"))))
}

fn is_another(pid: u64) -> bool {
    pid != u64::from(std::process::id())
}
