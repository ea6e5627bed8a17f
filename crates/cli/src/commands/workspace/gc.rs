//! `workspace gc`: completes or removes the remains of killed commands.
//!
//! - a workspace whose creation was interrupted is removed, unless somebody may have worked in it;
//!   a directory that it has not claimed stays in any case;
//! - the workspace of a check of a landing is removed if the process of the landing is gone;
//! - a removal, a move and a rebase that a killed command could not take back are completed;
//! - the temporary files of other killed commands are removed;
//! - with `--all`, mounts whose repository was deleted are unmounted;
//! - with `--landed` or `--idle`, workspaces that nobody needs are removed
//!   ([`sapwood::workspace::budget`]).
//!
//! A workspace that another command has locked is skipped. A failure does not end the command: the
//! others are completed.

use std::{
    ffi::{OsStr, OsString},
    mem::discriminant,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use bstr::{BString, ByteSlice as _};
use engine::{
    workspace::{
        backend::{self, Backend, Mounted},
        base::Bases,
        crash, orphans,
        record::{self, Activity, BaseRef, LOCK_REASON, Workspace},
    },
    worktree::admin,
};
use sapwood::workspace::{
    budget, land, missing, places,
    remove::{self as files, Attempt, is_empty},
    seal::{self, Remains},
};
use serde_json::{Value, json};
use sys::by_path;

use super::{
    context::{self, Context},
    mounts, quota, rebase, relocate,
    remove::Force,
    request::{GC, Request},
};
use crate::{
    commands::{base::time, trash},
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        text::{bytes::readable, os_str},
    },
};

/// Runs the command. Returns its exit code: 1 if something could not be completed.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    if let Some(extra) = GC.parse(args)?.store(&mut request)?.first() {
        return Err(Failure::Fatal(text!("gc takes no arguments, and so not '", extra, "'")));
    }
    let unneeded = unneeded(&request)?;
    let mut sweep = Sweep { request: &request, code: 0, report: Vec::new() };
    let service = match Context::open(run) {
        Ok(context) => {
            sweep.repository(&context)?;
            sweep.unneeded(&context, unneeded)?;
            sweep.layers(&context);
            places::mount_service(&context.repo)?
        }
        // The current directory may be what is left of a deleted repository.
        Err(_) if request.all && unneeded.is_empty() => backend::SERVICE.into(),
        Err(failure) => return Err(failure),
    };
    if request.all {
        sweep.orphans(&service)?;
    }
    if request.json {
        context::print_document(sweep.report.into());
    }
    Ok(sweep.code)
}

/// Returns the workspaces that are to be removed though they are whole.
fn unneeded(request: &Request) -> Result<budget::Request, Failure> {
    let idle = request.idle.as_ref().map(|time| time::parse(time.as_bstr())).transpose()?;
    let budget = request.budget.as_ref().map(|size| {
        quota::bytes(size)
            .ok_or_else(|| Failure::fatal(text!("'", size, "' is not a size such as 500M or 20G")))
    });
    let unneeded = budget::Request { landed: request.landed, idle, budget: budget.transpose()? };
    if unneeded.budget.is_some() && unneeded.is_empty() {
        return Err(Failure::fatal("--budget needs --landed or --idle: nothing else is removed"));
    }
    Ok(unneeded)
}

/// One run of `gc`. A failure is printed, and the rest goes on.
struct Sweep<'a> {
    request: &'a Request,
    code: u8,
    report: Vec<Value>,
}

impl Sweep<'_> {
    /// Completes or removes the remains in a repository.
    fn repository(&mut self, context: &Context<'_>) -> Result<(), Failure> {
        let mut found = Vec::new();
        for id in administrative(context)? {
            found.extend(self.tried(Leftover::of_admin(context, id)).flatten());
        }
        // Both searches find a workspace whose creation was interrupted.
        let known: Vec<OsString> =
            found.iter().map(|leftover: &Leftover| leftover.name().to_owned()).collect();
        let is_known =
            |workspace: &Workspace| workspace.record.sealed.is_none() && known.contains(&workspace.name);
        for workspace in context.all()?.into_iter().filter(|workspace| !is_known(workspace)) {
            found.extend(self.tried(Leftover::of_state(context, workspace)).flatten());
        }
        for leftover in found {
            context.run.interrupt.check()?;
            let (name, what) = (leftover.name().to_string_lossy().into_owned(), leftover.description());
            self.each("Workspace", name, what, || leftover.complete(context));
        }
        self.missing(context)?;
        if self.request.dry_run {
            return Ok(());
        }
        self.tried(record::remove_abandoned(&context.common).map_err(Failure::from));
        context.worktree_context().drop_empty_list();
        trash::empty_in_background(&context.common);
        Ok(())
    }

    /// Removes the frozen layers that no workspace uses, also those of workspaces that this run
    /// removed.
    fn layers(&mut self, context: &Context<'_>) {
        if !self.request.dry_run {
            let worktrees = context.worktree_context();
            self.tried(budget::discard_unused_layers(&worktrees).map_err(Failure::from));
        }
    }

    /// Warns of workspaces that cannot be mounted because something is missing.
    fn missing(&self, context: &Context<'_>) -> Result<(), Failure> {
        if self.request.json || self.request.quiet {
            return Ok(());
        }
        // Damaged records were reported before.
        for workspace in record::all(&context.common)?.into_iter().flatten() {
            context.run.interrupt.check()?;
            if matches!(mounts::state(&workspace), Ok(Mounted::No))
                && let Some(error) = missing::find(&context.worktree_context(), &workspace)
            {
                let failure = Failure::from(error);
                failure.print_as_warning();
                failure.advice().into_iter().for_each(console::hint);
            }
        }
        Ok(())
    }

    /// Removes workspaces that nobody needs.
    fn unneeded(&mut self, context: &Context<'_>, request: budget::Request) -> Result<(), Failure> {
        if request.is_empty() {
            return Ok(());
        }
        let worktrees = context.worktree_context();
        let selected = budget::Steps::select(&worktrees, request)?;
        let mut rest = selected.total;
        for step in &selected.steps {
            context.run.interrupt.check()?;
            let (name, why) = (step.workspace.name.to_string_lossy().into_owned(), step.to_string());
            let end = self.each("Workspace", name, &why, || end_of(selected.remove(&worktrees, step)?));
            if end == Some(End::Done) {
                rest = rest.saturating_sub(step.size);
            }
        }
        match request.budget.filter(|budget| rest > *budget) {
            Some(budget) if !self.request.quiet => {
                let (rest, budget) = (readable(rest), readable(budget));
                console::warning(format!(
                    "the workspaces need {rest}, more than {budget}; the others are in use, unsaved or needed"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Unmounts what belongs to repositories that were deleted.
    fn orphans(&mut self, service: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::fatal(format!(
                "cannot read the table of mounts: {}",
                crate::term::text::os_error(&error)
            ))
        };
        for orphan in orphans::find().map_err(failed)? {
            let what = match orphan.kind {
                orphans::Kind::Workspace(Some(_)) => "its repository was deleted; its changes are kept",
                orphans::Kind::Workspace(None) => "its repository was deleted",
                orphans::Kind::Base => "its repository or its base directory was deleted",
            };
            let name = orphan.point.to_string_lossy().into_owned();
            self.each("Mount", name, what, || Ok(orphan.unmount(service).map(|()| End::Done)?));
            if let orphans::Kind::Workspace(Some(upper)) = &orphan.kind
                && !self.request.json
                && !self.request.quiet
            {
                console::eprint_line(text!("The changes are in '", upper.as_os_str().as_bytes(), "'"));
            }
        }
        Ok(())
    }

    /// Reports one finding, and completes it unless this is a dry run, which assumes success.
    /// Returns `None` after a failure.
    fn each(
        &mut self,
        kind: &str,
        name: String,
        what: &str,
        complete: impl FnOnce() -> Result<End, Failure>,
    ) -> Option<End> {
        let is_shown = !self.request.json && !self.request.quiet;
        if is_shown {
            console::eprint_line(text!(kind, " '", name.as_str(), "': ", what));
        }
        let end = if self.request.dry_run { Some(End::Done) } else { self.tried(complete()) };
        if is_shown && end == Some(End::Locked) {
            console::eprint_line(text!(kind, " '", name.as_str(), "': another command uses it: it is kept"));
        }
        let done = !self.request.dry_run && end == Some(End::Done);
        self.report.push(json!({"name": name, "found": what, "done": done}));
        end
    }

    /// Returns the value, or prints the failure.
    fn tried<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        result
            .map_err(|failure| {
                failure.print();
                self.code = 1;
            })
            .ok()
    }
}

/// The end of an attempt to complete or to remove something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is done.
    Done,
    /// Another command has locked the workspace, and nothing was changed.
    Locked,
}

/// Returns the end of an attempt to remove a workspace.
fn end_of(attempt: Attempt) -> Result<End, Failure> {
    match attempt {
        Attempt::Removed => Ok(End::Done),
        Attempt::Locked => Ok(End::Locked),
        Attempt::RecordStays => Err(Failure::Reported(1)),
    }
}

/// The remains of a killed creation.
pub(crate) enum Recovered {
    /// Nothing. The directory may hold files of the user.
    Nothing,
    /// A complete workspace, mounted.
    Workspace,
    /// A workspace of backend `copy` whose checkout was interrupted, by its administrative
    /// directory. [`settle`] marks it as complete.
    Unfilled(PathBuf),
}

/// Removes what a killed creation left of a workspace at `top`, or completes it. The caller holds a
/// lock, so no other process makes one there.
pub(crate) fn recover_at(run: &Invocation, top: &Path) -> Result<Recovered, Failure> {
    let (context, top) = (Context::open(run)?, by_path::realpath_forgiving(top));
    for id in administrative(&context)? {
        match Leftover::of_admin(&context, id)?.filter(|leftover| leftover.top() == top) {
            Some(Leftover::Complete(workspace)) if workspace.record.backend == Backend::Copy => {
                let admin = context.common.join("worktrees").join(&workspace.name);
                ["index", "HEAD"].iter().for_each(|name| record::clear_stale_lock(&admin.join(name)));
                return Ok(Recovered::Unfilled(admin));
            }
            Some(Leftover::Complete(workspace)) if !workspace.record.backend.has_upper() => {
                let top = top.as_os_str().as_bytes();
                let advice = "remove the directory, and run the same command again".to_owned();
                return Err(Failure::Fatal(text!("'", top, "' holds files of a clone that was killed"))
                    .advised(Some(advice)));
            }
            Some(leftover) => {
                while leftover.complete(&context)? == End::Locked {
                    run.interrupt.check()?;
                    thread::sleep(Duration::from_millis(20));
                }
            }
            None => {}
        }
    }
    record::remove_abandoned(&context.common)?;
    let Some(workspace) = context.all()?.into_iter().find(|found| found.record.dir == top) else {
        return Ok(Recovered::Nothing);
    };
    mounts::mount(&context.worktree_context(), &workspace)?;
    Ok(Recovered::Workspace)
}

/// Marks a workspace as complete, by its administrative directory.
pub(crate) fn settle(admin: &Path) -> Result<(), Failure> {
    Ok(admin::write(&admin.join("locked"), LOCK_REASON.as_bytes())?)
}

/// Returns the ids of all administrative directories.
fn administrative(context: &Context<'_>) -> Result<Vec<OsString>, Failure> {
    let dir = context.common.join("worktrees");
    match by_path::list(&dir) {
        Ok(names) => Ok(names.into_iter().map(|(name, _)| name).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::cannot_open(&dir)(error)),
    }
}

/// The remains of a killed command.
enum Leftover {
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
    fn of_admin(context: &Context<'_>, id: OsString) -> Result<Option<Leftover>, Failure> {
        let dir = context.common.join("worktrees").join(&id);
        let Ok(Some(reason)) = by_path::read(&dir.join("locked")) else { return Ok(None) };
        let reason = reason.trim_end_with(|letter| letter == '\n');
        let state = record::of_worktree(&context.common, &id)?;
        Ok(match (record::parse_initializing(reason), state) {
            // This process makes none, so one with its id is gone.
            (Some((pid, _)), _) if is_another(pid) && sys::is_running(pid) == Some(true) => None,
            (Some((_, top)), None) => Some(Leftover::Admin(id, top)),
            (_, Some(workspace)) if workspace.is_being_checked() => None,
            (_, Some(workspace)) if land::is_killed_check(&workspace) => Some(Leftover::Check(workspace)),
            (Some(_), Some(workspace)) if is_empty(&workspace) => Some(Leftover::Begun(workspace)),
            (Some(_), Some(workspace)) => Some(Leftover::Complete(workspace)),
            (None, None) if reason == LOCK_REASON.as_bytes() => {
                let gitdir = by_path::read(&dir.join("gitdir")).ok().flatten().unwrap_or_default();
                let gitfile = Path::new(os_str(format::blank::trim_end(&gitdir)));
                let top = dir.join(gitfile.parent().unwrap_or(Path::new("")));
                Some(Leftover::Admin(id, by_path::realpath_forgiving(&top)))
            }
            _ => None,
        })
    }

    fn of_state(context: &Context<'_>, workspace: Workspace) -> Result<Option<Leftover>, Failure> {
        let has = |path: &Path| matches!(by_path::stat(path), Ok(Some(_)));
        if workspace.record.sealed.is_some() {
            return Ok(match workspace.record.activity {
                _ if has(&workspace.removal()) => Some(Leftover::Removal(workspace)),
                Activity::Begun(pid) if is_another(pid) && sys::is_running(pid) == Some(true) => None,
                Activity::Begun(_) => Some(match seal::remains(&context.worktree_context(), &workspace) {
                    Remains::Work => Leftover::Complete(workspace),
                    Remains::Nothing => Leftover::Begun(workspace),
                }),
                Activity::Active | Activity::Frozen | Activity::Check(_) => None,
            });
        }
        let aside = ["rebase", record::MOVING].map(|name| workspace.state.join(name));
        let beside = ["upper.new", "upper.old", "newer.new", "newer.old"]
            .map(|name| workspace.upper().with_file_name(name));
        Ok(if has(&workspace.removal()) {
            Some(Leftover::Removal(workspace))
        } else if workspace.linked_worktree(&context.repo).is_none() {
            Some(Leftover::Orphan(workspace))
        } else if aside.iter().chain(&beside).any(|path| has(path)) {
            Some(Leftover::Change(workspace))
        } else if land::is_killed_check(&workspace) {
            Some(Leftover::Check(workspace))
        } else if is_torn(context, &workspace) {
            Some(Leftover::Begun(workspace))
        } else {
            None
        })
    }

    fn name(&self) -> &OsStr {
        match self {
            Leftover::Admin(id, _) => id,
            Leftover::Begun(workspace)
            | Leftover::Complete(workspace)
            | Leftover::Check(workspace)
            | Leftover::Removal(workspace)
            | Leftover::Change(workspace)
            | Leftover::Orphan(workspace) => &workspace.name,
        }
    }

    /// The directory of the workspace.
    fn top(&self) -> &Path {
        match self {
            Leftover::Admin(_, top) => top,
            Leftover::Begun(workspace)
            | Leftover::Complete(workspace)
            | Leftover::Check(workspace)
            | Leftover::Removal(workspace)
            | Leftover::Change(workspace)
            | Leftover::Orphan(workspace) => &workspace.record.dir,
        }
    }

    fn description(&self) -> &'static str {
        match self {
            Leftover::Admin(..) => "the rest of an incomplete workspace",
            Leftover::Begun(_) => "its creation was interrupted",
            Leftover::Complete(_) => "its creation was interrupted, and it holds files: it is kept",
            Leftover::Check(_) => "the check of a landing was interrupted",
            Leftover::Removal(_) => "its removal was interrupted",
            Leftover::Change(_) => "a rebase or a move was interrupted",
            Leftover::Orphan(workspace) if is_empty(workspace) => "it has no administrative directory",
            Leftover::Orphan(_) => "it has no administrative directory, but holds files: it is kept",
        }
    }

    /// Completes it, unless another command did, or somebody works in the workspace again.
    fn complete(&self, context: &Context<'_>) -> Result<End, Failure> {
        let worktree_context = context.worktree_context();
        match self {
            Leftover::Admin(..) if !self.is_still(context) => Ok(End::Done),
            Leftover::Admin(id, top) => {
                relocate::forget(&worktree_context, id, top)?;
                Ok(End::Done)
            }
            Leftover::Begun(workspace) | Leftover::Check(workspace) => {
                let end = self.remove(context, workspace)?;
                if end == End::Done && workspace.record.sealed.is_none() {
                    // Git does not list a worktree with an incomplete administrative directory.
                    relocate::forget(&worktree_context, &workspace.name, &workspace.record.dir)?;
                }
                Ok(end)
            }
            Leftover::Removal(workspace) => self.remove(context, workspace),
            Leftover::Orphan(workspace) if is_empty(workspace) => self.remove(context, workspace),
            Leftover::Orphan(_) => Ok(End::Done),
            Leftover::Complete(workspace) | Leftover::Change(workspace) => {
                let Some(_lock) = workspace.try_lock(&context.repo.trust())? else { return Ok(End::Locked) };
                if self.is_still(context) {
                    self.restore(context)?;
                }
                Ok(End::Done)
            }
        }
    }

    /// Removes the workspace, if there is still nothing of the user's in it.
    fn remove(&self, context: &Context<'_>, workspace: &Workspace) -> Result<End, Failure> {
        let worktrees = context.worktree_context();
        let is_still = || {
            let used = || sapwood::Error::failed(format!("'{}' is used again", workspace.name.display()));
            if self.is_still(context) { Ok(()) } else { Err(used()) }
        };
        // The files of a check are nobody's work.
        let force = if let Leftover::Check(_) = self { Force::Yes } else { Force::Remains };
        end_of(files::remove_if(&worktrees, workspace, force, &is_still)?)
    }

    /// Completes a workspace that stays. The caller holds its lock.
    fn restore(&self, context: &Context<'_>) -> Result<(), Failure> {
        let mut workspace = record::find(&context.common, self.name())?;
        if let Leftover::Change(_) = self {
            let workspace = rebase::recover(context, &workspace)?;
            relocate::recover(context, &workspace)?;
            return rebase::discard_old(context, &workspace);
        }
        if workspace.record.sealed.is_some() {
            workspace.record.activity = Activity::Active;
            return Ok(workspace.store(&context.settings.fsync)?);
        }
        settle(&context.common.join("worktrees").join(&workspace.name))
    }

    /// Returns true if a search would find the same now.
    fn is_still(&self, context: &Context<'_>) -> bool {
        let is_it = |found: Result<Option<Leftover>, Failure>| {
            let found = found.ok().flatten();
            found.is_some_and(|found| discriminant(&found) == discriminant(self) && found.top() == self.top())
        };
        let state = record::find(&context.common, self.name()).ok();
        let holds_files = |workspace: &Workspace| matches!(self, Leftover::Orphan(_)) && !is_empty(workspace);
        if state.as_ref().is_some_and(holds_files) {
            return false;
        }
        is_it(Leftover::of_admin(context, self.name().to_owned()))
            || state.is_some_and(|workspace| is_it(Leftover::of_state(context, workspace)))
    }
}

/// Returns true for a workspace whose creation a power cut interrupted: it has no files, and a file
/// of its administrative directory has no content.
fn is_torn(context: &Context<'_>, workspace: &Workspace) -> bool {
    if !workspace.record.backend.has_upper() || !is_empty(workspace) {
        return false;
    }
    let admin = context.common.join("worktrees").join(&workspace.name);
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
    let summary = index.ok().and_then(|index| format::index::summarize(&index, context.repo.hash()));
    let shared = summary.and_then(|summary| summary.shared);
    shared.is_some_and(|shared| is_missing(&admin.join(format!("sharedindex.{shared}"))))
}

fn is_another(pid: u64) -> bool {
    pid != u64::from(std::process::id())
}
