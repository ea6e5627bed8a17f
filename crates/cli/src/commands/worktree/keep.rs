//! `worktree lock`, `unlock`, `prune` and `repair`: the records of worktrees.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString};
use engine::{
    workspace::record::LOCK_REASON,
    worktree::{
        admin::{self, Found},
        prune::{self, Verdict},
        repair::{self, Finding, Outcome},
    },
};
use sys::{UserPath, by_path};

use super::{
    context::{Request, WorktreeContext, lock_reason, only},
    list, remove,
};
use crate::term::{
    console::{self, text},
    failure::Failure,
};

const MAIN: &str = "The main working tree cannot be locked or unlocked";

pub(super) fn lock(
    context: &WorktreeContext<'_>,
    request: &Request,
    args: &[BString],
) -> Result<u8, Failure> {
    let arg = only(context, args)?;
    let worktree = context.find(&context.repo.worktrees()?, arg)?;
    if worktree.id.is_none() {
        return Err(Failure::fatal(MAIN));
    }
    match lock_reason(&worktree)? {
        Some(reason) if reason.is_empty() => {
            return Err(Failure::Fatal(text!("'", arg, "' is already locked")));
        }
        Some(reason) => {
            return Err(Failure::Fatal(text!("'", arg, "' is already locked, reason: ", reason)));
        }
        None => {}
    }
    let reason = request.reason.clone().unwrap_or_default();
    admin::write(&worktree.git_dir.join("locked"), &reason)?;
    Ok(0)
}

pub(super) fn unlock(context: &WorktreeContext<'_>, _: &Request, args: &[BString]) -> Result<u8, Failure> {
    let arg = only(context, args)?;
    let worktree = context.find(&context.repo.worktrees()?, arg)?;
    let Some(id) = &worktree.id else { return Err(Failure::fatal(MAIN)) };
    if lock_reason(&worktree)?.is_none() {
        return Err(Failure::Fatal(text!("'", arg, "' is not locked")));
    }
    if context.workspace(&worktree)?.is_some() {
        admin::write(&worktree.git_dir.join("locked"), LOCK_REASON.as_bytes())?;
        return Ok(0);
    }
    if let Err(error) = by_path::remove_file(&worktree.git_dir.join("locked")) {
        let path = text!(context.admin_shown(id), "/locked");
        console::warning(text!("unable to unlink '", path, "': ", crate::term::text::os_error(&error)));
        return Ok(255);
    }
    Ok(0)
}

pub(super) fn prune(
    context: &WorktreeContext<'_>,
    request: &Request,
    args: &[BString],
) -> Result<u8, Failure> {
    let expire = list::expire(request)?;
    if !args.is_empty() {
        return Err(context.misused());
    }
    let dry_run = request.dry_run;
    let verbose = dry_run || request.verbose;
    let common = context.repo.common_dir();
    let Ok(names) = by_path::list(&common.join("worktrees")) else { return Ok(0) };
    let place = |id: &OsString| common.join("worktrees").join(id);
    let drop = |id: &OsString, meant: &Found, reason: &str| {
        if verbose {
            console::eprint_line(text!("Removing worktrees/", id.as_bytes(), ": ", reason));
        }
        match dry_run {
            true => Ok(true),
            false => remove::delete_admin(context, id, meant),
        }
    };
    // If several records name one worktree, the first one is kept; the main worktree precedes all.
    let mut kept: Vec<(PathBuf, Option<(OsString, Found)>)> = vec![(common.to_owned(), None)];
    for (id, _) in names {
        let found = Found::at(&place(&id));
        if let Found::Missing = found {
            continue;
        }
        match prune::verdict(common, &id, expire) {
            Verdict::Prune(reason) => drop(&id, &found, &reason).map(|_| ())?,
            Verdict::Keep(Some(gitfile)) => kept.push((gitfile, Some((id, found)))),
            Verdict::Keep(None) => {}
        }
    }
    let key = |(path, owner): &(PathBuf, Option<(OsString, Found)>)| {
        (path.as_os_str().to_owned(), owner.as_ref().map(|(id, _)| id.clone()))
    };
    kept.sort_by_cached_key(key);
    for pair in kept.windows(2) {
        if let [(before, other), (path, Some((id, found)))] = pair
            && before.as_os_str() == path.as_os_str()
            // A record that was removed and created again meanwhile is not a duplicate of itself.
            && other.as_ref().is_none_or(|(other, found)| found.is_at(&place(other)))
        {
            drop(id, found, "duplicate entry")?;
        }
    }
    if !dry_run {
        remove::drop_empty_list(context);
    }
    Ok(0)
}

pub(super) fn repair(
    context: &WorktreeContext<'_>,
    request: &Request,
    args: &[BString],
) -> Result<u8, Failure> {
    let linker = context.linker(request.relative)?;
    let mut code = 0;
    let mut report = |finding: Option<Finding>| match finding {
        None => {}
        Some(Finding { path, message, outcome: Outcome::Mended }) => {
            console::eprint_line(text!("repair: ", message, ": ", path.as_os_str().as_bytes()));
        }
        Some(Finding { path, message, outcome: Outcome::Unrepairable }) => {
            console::eprint_line(text!("error: ", message, ": ", path.as_os_str().as_bytes()));
            code = 1;
        }
    };
    let here = [BStr::new(".").to_owned()];
    let args = if args.is_empty() { &here[..] } else { args };
    for arg in args {
        // Git changes to the root of the worktree first, and resolves paths from there.
        let base = context.repo.work_tree().filter(|_| !context.repo.prefix().is_empty());
        let shown = UserPath::new(arg);
        let path = shown.resolve(base.unwrap_or(&context.run.cwd));
        let path = path.map_err(|refused| Failure::refused(&shown, refused))?;
        report(repair::at_path(&path, Path::new(shown.as_os_str()), context.repo, &linker)?);
    }
    for worktree in context.repo.worktrees()? {
        report(repair::from_admin(&worktree, context.repo, &linker)?);
    }
    Ok(code)
}
