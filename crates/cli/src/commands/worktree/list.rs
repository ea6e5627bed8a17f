//! `worktree list`.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use engine::worktree::prune::Expire;
use sapwood::worktree::list::{self, Found, WorktreeHeadKind};

use repo::keys;

use super::context::{Request, WorktreeContext};
use crate::{
    session::settings::expiry::expire_date,
    term::{
        console::{self, text},
        failure::Failure,
        text::quote,
    },
};

/// Runs the command.
pub(super) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let Request { porcelain, verbose, nul, .. } = *request;
    let expire = expire(request)?;
    if !args.is_empty() {
        return Err(context.misused());
    }
    if verbose && porcelain {
        return Err(Failure::fatal("options '--verbose' and '--porcelain' cannot be used together"));
    }
    if nul && !porcelain {
        return Err(Failure::requires("-z", "--porcelain"));
    }
    let shown = list::examine(context.repo, list::Request { expire })?.worktrees;
    let high = context.repo.config(&keys::core::QUOTE_PATH)?;
    if porcelain {
        shown.iter().for_each(|found| print(found, nul, high))
    } else {
        table(context, &shown, verbose, high)?
    }
    Ok(0)
}

fn print(found: &Found, nul: bool, high: bool) {
    let mut lines = vec![text!("worktree ", found.worktree.path.as_os_str().as_bytes())];
    if found.worktree.is_bare {
        lines.push("bare".into());
    } else {
        lines.push(format!("HEAD {}", found.head.oid).into());
        match &found.head.kind {
            WorktreeHeadKind::Branch(name) => lines.push(text!("branch ", name)),
            WorktreeHeadKind::Detached => lines.push("detached".into()),
            WorktreeHeadKind::Unreadable => {}
        }
    }
    match &found.locked {
        Some(reason) if reason.is_empty() => lines.push("locked".into()),
        Some(reason) if nul => lines.push(text!("locked ", reason)),
        Some(reason) => lines.push(text!("locked ", quote(reason.as_bstr(), high))),
        None => {}
    }
    lines.extend(found.prunable.as_ref().map(|reason| text!("prunable ", reason)));
    lines.push(BString::default());
    for line in lines {
        if nul { console::out_raw(&text!(line, "\0")) } else { console::out(line) }
    }
}

fn table(context: &WorktreeContext<'_>, all: &[Found], verbose: bool, high: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for shown in all {
        let path = quote(BStr::new(shown.worktree.path.as_os_str().as_bytes()), high);
        rows.push((shown, path, context.repo.abbreviate(shown.head.oid)?));
    }
    let width = rows.iter().map(|(_, path, _)| path.chars().count()).max().unwrap_or(0);
    let digits = rows.iter().map(|(.., short)| short.len()).max().unwrap_or(0);
    for (shown, path, short) in rows {
        let gap = " ".repeat(1 + width - path.chars().count());
        let what = match (&shown.head.kind, shown.worktree.is_bare) {
            (_, true) => "(bare)".into(),
            (WorktreeHeadKind::Detached, _) => text!(format!("{short:digits$} "), "(detached HEAD)"),
            (WorktreeHeadKind::Branch(name), _) => {
                let name = context.repo.shorten_ref(name.as_bstr())?;
                text!(format!("{short:digits$} "), "[", name, "]")
            }
            (WorktreeHeadKind::Unreadable, _) => text!(format!("{short:digits$} "), "(error)"),
        };
        let mut line = text!(path, gap, what);
        match &shown.locked {
            Some(reason) if verbose && !reason.is_empty() => {
                line.extend_from_slice(&text!("\n\tlocked: ", reason));
            }
            Some(_) => line.extend_from_slice(b" locked"),
            None => {}
        }
        match &shown.prunable {
            Some(reason) if verbose => line.extend_from_slice(&text!("\n\tprunable: ", reason)),
            Some(_) => line.extend_from_slice(b" prunable"),
            None => {}
        }
        console::out(line);
    }
    Ok(())
}

/// Parses `--expire`.
pub(super) fn expire(request: &Request) -> Result<Expire, Failure> {
    let Some(given) = &request.expire else { return Ok(Expire::Now) };
    expire_date(given.as_bstr())
        .ok_or_else(|| Failure::Fatal(text!("malformed expiration date '", given, "'")))
}
