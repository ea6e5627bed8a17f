//! `--with` and `.worktreeinclude`: ignored files of a worktree become a frozen layer of a new
//! workspace.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore::check::{Checker, Sources},
    workspace::{backend::Mounted, frozen, newer::Source},
};
use repo::Repository;
use sapwood::{Dir, index::Index, sparse_index, worktree::records::open_worktree};

use super::{context::Context, include, maker, mounts, request::Request};
use crate::{
    session::{index, settings::Settings},
    term::{console::text, failure::Failure},
};

/// The ignored files that a new workspace gets.
#[derive(Default)]
pub(super) struct Shared {
    /// The frozen layers, topmost first.
    pub(super) layers: Vec<PathBuf>,
    /// The paths that the layers contain.
    pub(super) paths: Vec<BString>,
    /// The worktree from which they come.
    pub(super) source: Option<Source>,
}

/// Creates the frozen layer of a request: the paths of `--with`, else those that `.worktreeinclude`
/// names and the commit `start` does not contain. Without paths there is no layer.
pub(super) fn share(
    context: &Context<'_>,
    request: &Request,
    start: Option<&BString>,
) -> Result<Shared, Failure> {
    if request.with.is_empty() && request.from.is_some() {
        return Err(Failure::fatal("--from needs --with, which names the files"));
    }
    let other;
    let repo = match &request.from {
        None => &context.repo,
        Some(name) => {
            other = opened(context, name.as_bstr())?;
            &other
        }
    };
    let Some(top) = repo.work_tree().map(Path::to_owned) else {
        let needs_none = request.with.is_empty();
        return if needs_none { Ok(Shared::default()) } else { Err(Failure::no_worktree()) };
    };
    let root = Dir::open(&top).map_err(Failure::cannot_open(&top))?;
    let index = || -> Result<Index, Failure> {
        let mut index = index::load_raw(repo, &Settings::read(repo)?)?;
        sparse_index::expand(repo, &mut index)?;
        Ok(index)
    };
    let paths = match request.with.is_empty() {
        true if request.no_include || !matches!(root.stat(include::NAME.as_bytes()), Ok(Some(_))) => {
            return Ok(Shared::default());
        }
        true => {
            let mut paths = include::paths(context.run, repo, &root, &index()?)?;
            let head = BString::from("HEAD");
            if let Ok(commit) = context.repo.rev_parse(start.unwrap_or(&head).as_bstr()) {
                paths.retain(|path| maker::hidden_by(&context.repo, commit, path.as_bstr()).is_none());
            }
            paths
        }
        false => {
            let paths: Vec<BString> =
                request.with.iter().map(|path| wanted(path.as_bstr())).collect::<Result<_, _>>()?;
            check(repo, &root, &top, &index()?, &paths)?;
            paths
        }
    };
    if paths.is_empty() {
        return Ok(Shared::default());
    }
    let named: Vec<&BStr> = paths.iter().map(|path| path.as_bstr()).collect();
    let layer = frozen::make(&context.common, &top, &named, context.settings.locks.shared)?;
    // The copies come first: a change while they are made makes a file newer than all of them.
    let source = Source::read(repo, &root, index()?, &layer)?;
    Ok(Shared { layers: vec![layer], paths, source: Some(source) })
}

/// Opens the workspace called `name`, whose files must be visible here.
fn opened(context: &Context<'_>, name: &BStr) -> Result<Repository, Failure> {
    let workspace = context.find(name)?;
    mounts::mount(&context.worktree_context(), &workspace)?;
    if mounts::state(&workspace)? != Mounted::Here {
        return Err(Failure::Fatal(text!(
            "the files of '",
            name,
            "' are visible only inside of it: run the command there, without --from"
        )));
    }
    workspace.refuse_sealed("workspace create --from")?;
    let worktree = workspace
        .linked_worktree(&context.repo)
        .ok_or_else(|| Failure::fatal(text!("'", name, "' has lost its administrative directory")))?;
    Ok(open_worktree(&context.repo, &worktree)?)
}

/// Returns a path of `--with`, relative to the worktree's root.
fn wanted(path: &BStr) -> Result<BString, Failure> {
    let plain = path.trim_end_with(|letter| letter == '/').as_bstr();
    let is_odd = |part: &[u8]| part.is_empty() || part == b"." || part == b".." || part == b".git";
    if plain.split(|byte| *byte == b'/').any(is_odd) {
        Err(Failure::Fatal(text!(
            "'",
            path,
            "' is not a path below the top of the worktree, as --with needs it"
        )))
    } else {
        Ok(plain.to_owned())
    }
}

/// Returns an error for paths that are missing, tracked, or not ignored.
fn check(repo: &Repository, root: &Dir, top: &Path, index: &Index, paths: &[BString]) -> Result<(), Failure> {
    let mut sources = Sources::default();
    let info = repo.display_common_file("info/exclude");
    sources.add_standard(repo, info.as_os_str().as_bytes().into())?;
    let mut checker = Checker::new(repo, Some(root), Some(index), sources)?;
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
