//! `--with`: ignored files of a worktree become a frozen layer of a new workspace.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore::check::{Checker, Sources},
    workspace::{backend::Mounted, frozen},
};
use repo::Repository;
use sys::Dir;

use super::{context::Context, mounts, request::Request};
use crate::{
    commands::worktree::remove::open_worktree,
    session::{apply, settings::Settings, sparse_index},
    term::{console::text, failure::Failure},
};

/// Creates the frozen layer of a request. Returns no layer if none is requested.
pub(super) fn layers(context: &Context<'_>, request: &Request) -> Result<Vec<PathBuf>, Failure> {
    if request.with.is_empty() {
        return match &request.from {
            Some(_) => Err(Failure::fatal("--from needs --with, which names the files")),
            None => Ok(Vec::new()),
        };
    }
    let other;
    let repo = match &request.from {
        None => &context.repo,
        Some(name) => {
            let workspace = context.find(name.as_bstr())?;
            mounts::mount(context.run, &context.repo, &workspace)?;
            if mounts::state(&workspace)? != Mounted::Here {
                return Err(Failure::Fatal(text!(
                    "the files of '",
                    name,
                    "' are visible only inside of it: run the command there, without --from"
                )));
            }
            let worktree = context
                .repo
                .linked_worktree(&workspace.name)
                .ok_or_else(|| Failure::fatal(text!("'", name, "' has lost its administrative directory")))?;
            other = open_worktree(context.run, &worktree)?;
            &other
        }
    };
    let top = repo.work_tree().ok_or_else(Failure::no_worktree)?.to_owned();
    let paths = paths(request)?;
    check(context, repo, &top, &paths)?;
    let paths: Vec<&BStr> = paths.iter().map(|path| path.as_bstr()).collect();
    Ok(vec![frozen::make(&context.common, &top, &paths, context.settings.locks.shared)?])
}

/// Returns the paths of `--with`, relative to the worktree's root.
pub(super) fn paths(request: &Request) -> Result<Vec<BString>, Failure> {
    request.with.iter().map(|path| wanted(path.as_bstr())).collect()
}

/// Returns a path of `--with`, relative to the worktree's root.
fn wanted(path: &BStr) -> Result<BString, Failure> {
    let plain = path.trim_end_with(|letter| letter == '/').as_bstr();
    let is_odd = |part: &[u8]| part.is_empty() || part == b"." || part == b".." || part == b".git";
    match plain.split(|byte| *byte == b'/').any(is_odd) {
        true => Err(Failure::Fatal(text!(
            "'",
            path,
            "' is not a path below the top of the worktree, as --with needs it"
        ))),
        false => Ok(plain.to_owned()),
    }
}

/// Returns an error for paths that are missing, tracked, or not ignored.
fn check(context: &Context<'_>, repo: &Repository, top: &Path, paths: &[BString]) -> Result<(), Failure> {
    let settings = Settings::read(context.run, repo)?;
    let root = Dir::open(top).map_err(Failure::cannot_open(top))?;
    let mut index = apply::load_raw(repo, &settings)?;
    sparse_index::expand(repo, &mut index)?;
    let mut sources = Sources::default();
    let info = repo.display_common_file("info/exclude");
    sources.add_standard(repo, info.as_os_str().as_bytes().into())?;
    let mut checker = Checker::new(repo, Some(&root), Some(&index), sources)?;
    for path in paths {
        let refused = |why: &str| Err(Failure::Fatal(text!("'", path, "' ", why)));
        let tracked =
            !index.range_below(path.as_bstr()).is_empty() || !index.range_of(path.as_bstr()).is_empty();
        if !matches!(root.stat(path), Ok(Some(_))) {
            return refused(&format!("does not exist in '{}'", top.display()));
        }
        if tracked {
            return refused("holds tracked files; --with shares only ignored files");
        }
        if checker.find(path.as_bstr(), None).is_none_or(|found| found.negative) {
            return refused("is not ignored; --with shares only ignored files");
        }
    }
    Ok(())
}
