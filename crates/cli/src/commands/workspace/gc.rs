//! `workspace gc`: completes or removes the remains of killed commands. See
//! [`sapwood::workspace::gc`].
//!
//! With `--all`, mounts whose repository was deleted are unmounted. With `--landed` or `--idle`,
//! workspaces that nobody needs are removed ([`sapwood::workspace::budget`]).
//!
//! A workspace that another command has locked is skipped. A failure does not end the command: the
//! others are completed.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    backend::{self, Mounted},
    orphans, record,
};
use sapwood::workspace::{
    budget,
    gc::{self, End, Recovered},
    missing, places,
};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    mounts, quota,
    request::{GC, Request},
};
use crate::{
    commands::{base::time, trash},
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        text::bytes::readable,
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
        let worktrees = context.worktree_context();
        let found = gc::find(&worktrees, &mut |error| self.failed(&error.into()))?;
        for leftover in found {
            context.run.interrupt.check()?;
            let (name, what) = (leftover.name().to_string_lossy().into_owned(), leftover.description());
            self.each("Workspace", name, what, || Ok(leftover.complete(&worktrees, &context.settings)?));
        }
        self.missing(context)?;
        if self.request.dry_run {
            return Ok(());
        }
        self.tried(gc::remove_temporary(&worktrees).map_err(Failure::from));
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
            let end = self.each("Workspace", name, &why, || Ok(selected.remove(&worktrees, step)?.into()));
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
        if end == Some(End::Incomplete) {
            self.code = 1;
        }
        if is_shown && end == Some(End::Locked) {
            console::eprint_line(text!(kind, " '", name.as_str(), "': another command uses it: it is kept"));
        }
        let done = !self.request.dry_run && end == Some(End::Done);
        self.report.push(json!({"name": name, "found": what, "done": done}));
        end
    }

    /// Returns the value, or prints the failure.
    fn tried<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        result.inspect_err(|failure| self.failed(failure)).ok()
    }

    fn failed(&mut self, failure: &Failure) {
        failure.print();
        self.code = 1;
    }
}

/// See [`gc::recover_at`].
pub(crate) fn recover_at(run: &Invocation, top: &Path) -> Result<Recovered, Failure> {
    let context = Context::open(run)?;
    Ok(gc::recover_at(&context.worktree_context(), &context.settings, top)?)
}
