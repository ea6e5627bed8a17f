//! `worktree lock`, `unlock`, `prune` and `repair`: the records of worktrees.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::{
    UserPath,
    worktree::{
        lock::Lock,
        prune,
        records::Given,
        repair::{self, Finding, Outcome},
    },
};

use super::{
    context::{Request, WorktreeContext, only},
    list,
};
use crate::term::{
    console::{self, text},
    failure::Failure,
};

pub(super) fn lock(
    context: &WorktreeContext<'_>,
    request: &Request,
    args: &[BString],
) -> Result<u8, Failure> {
    let lock = named(context, args)?;
    lock.check()?;
    lock.write(request.reason.clone().unwrap_or_default().as_bstr())?;
    Ok(0)
}

pub(super) fn unlock(context: &WorktreeContext<'_>, _: &Request, args: &[BString]) -> Result<u8, Failure> {
    let lock = named(context, args)?;
    lock.check_locked()?;
    Ok(if lock.remove(context)? { 0 } else { 255 })
}

fn named(context: &WorktreeContext<'_>, args: &[BString]) -> Result<Lock, Failure> {
    let arg = only(context, args)?;
    Ok(Lock::of(context.find(&context.repo.worktrees()?, arg)?, arg)?)
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
    for record in prune::find(context.repo.common_dir(), prune::Request { expire }) {
        if !record.is_stale(context.repo.common_dir()) {
            continue;
        }
        if request.dry_run || request.verbose {
            console::eprint_line(record.text());
        }
        if !request.dry_run {
            record.remove(context)?;
        }
    }
    if !request.dry_run {
        context.drop_empty_list();
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
    let mut report = |Finding { path, message, outcome }: Finding| {
        let level = match outcome {
            Outcome::Mended => "repair: ",
            Outcome::Unrepairable => {
                code = 1;
                "error: "
            }
        };
        console::eprint_line(text!(level, message, ": ", path.as_os_str().as_bytes()));
    };
    let here = [BStr::new(".").to_owned()];
    for arg in if args.is_empty() { &here[..] } else { args } {
        // Git changes to the root of the worktree first, and resolves paths from there.
        let base = context.repo.work_tree().filter(|_| !context.repo.prefix().is_empty());
        let shown = UserPath::new(arg);
        let path = shown.resolve(base.unwrap_or(&context.run.cwd));
        let path = path.map_err(|refused| Failure::refused(&shown, refused))?;
        let given = Given { shown: arg.clone(), path };
        repair::at(context, &given, &linker)?.into_iter().for_each(&mut report);
    }
    repair::all(context, &linker, report)?;
    Ok(code)
}
