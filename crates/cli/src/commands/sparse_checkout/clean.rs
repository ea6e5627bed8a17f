//! `sparse-checkout clean`: removes directories outside the cone, with all their files.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout,
    sparse::{self, Patterns},
};

use repo::keys;
use sapwood::{Dir, FileType};

use super::{Request, State};
use crate::{
    session::sparse_index::{Expansion, ExpansionHint, Read},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

pub(super) fn run(state: &State<'_>, request: &Request) -> Result<u8, Failure> {
    if !state.on {
        return Err(Failure::fatal("must be in a sparse-checkout to clean directories"));
    }
    if !state.cone {
        return Err(Failure::fatal("must be in a cone-mode sparse-checkout to clean directories"));
    }
    let requires_force = state.repo.config(&keys::clean::REQUIRE_FORCE)?;
    if requires_force && !request.force && !request.dry_run {
        return Err(Failure::fatal("for safety, refusing to clean without one of --force or --dry-run"));
    }
    let root = state.repo.work_tree().expect("looked at before any action");
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let Read { index, before, .. } = crate::session::index::read_index(
        state.repo,
        state.settings,
        &worktree,
        ExpansionHint::Print,
        Expansion::AtOnce,
    )?;
    let patterns = Patterns::read(&state.file(), true, state.icase)?;
    if let Some(loaded) = &patterns {
        loaded.warnings.iter().for_each(console::warning);
    }
    let patterns = patterns.map(|loaded| loaded.patterns).filter(|patterns| patterns.cone().is_some());
    let is_full = before.is_none() && (index.is_unmerged() || index.entries().is_empty());
    let (Some(patterns), false) = (patterns, is_full) else {
        return Err(Failure::fatal(
            "failed to convert index to a sparse index; resolve merge conflicts and try again",
        ));
    };
    let lead = if request.dry_run { "Would remove " } else { "Removing " };
    for (dir, _) in sparse::directories(&index, &patterns, before.as_ref()) {
        let dir = dir.as_bstr();
        let found = worktree.stat(dir).ok().flatten();
        if found.is_none_or(|stat| stat.file_type != FileType::Directory) {
            continue;
        }
        if request.verbose {
            list_files(&worktree, dir, lead);
        } else {
            console::out(text!(lead, dir, "/"));
        }
        if request.dry_run {
            continue;
        }
        if let Err(error) = checkout::remove_directory(state.repo, &worktree, dir) {
            let reason = crate::term::text::os_error(&error);
            console::warning(text!("failed to remove '", dir, "/': ", reason));
        }
    }
    Ok(0)
}

/// Lists regular files below `dir`, in the order of the file system.
fn list_files(worktree: &Dir, dir: &BStr, lead: &str) {
    let Ok(names) = worktree.open_dir(dir).and_then(|opened| opened.list()) else { return };
    for (name, file_type) in names {
        let path: BString = text!(dir, "/", name);
        match file_type {
            FileType::File => console::out(text!(lead, path)),
            FileType::Directory => list_files(worktree, path.as_bstr(), lead),
            FileType::Symlink | FileType::Other => {}
        }
    }
}
