//! `sparse-checkout clean`: removes directories outside the cone, with all their files.

use bstr::{BStr, BString};
use repo::{Repository, keys};
use sapwood::{Dir, FileType, sparse_checkout::Selection};

use super::Request;
use crate::term::{
    console::{self, text},
    failure::Failure,
};

pub(super) fn run(repo: &Repository, selection: &Selection<'_>, request: &Request) -> Result<u8, Failure> {
    selection.must_be_on("must be in a sparse-checkout to clean directories")?;
    if !selection.cone {
        return Err(Failure::fatal("must be in a cone-mode sparse-checkout to clean directories"));
    }
    let requires_force = repo.config(&keys::clean::REQUIRE_FORCE)?;
    if requires_force && !request.force && !request.dry_run {
        return Err(Failure::fatal("for safety, refusing to clean without one of --force or --dry-run"));
    }
    let lead = if request.dry_run { "Would remove " } else { "Removing " };
    selection.clean(request.dry_run, &mut |worktree, dir| {
        if request.verbose {
            list_files(worktree, dir, lead);
        } else {
            console::out(text!(lead, dir, "/"));
        }
    })?;
    Ok(0)
}

/// Lists regular files below `dir`, in the order of the file system.
fn list_files(worktree: &Dir, dir: &BStr, lead: &str) {
    let Ok(names) = worktree.open_dir(dir).and_then(|opened| opened.list()) else { return };
    for (name, file_type) in names {
        let path: BString = text!(dir, "/", name);
        match file_type {
            FileType::File => console::out(text!(lead, path)),
            FileType::Directory => list_files(worktree, path.as_ref(), lead),
            FileType::Symlink | FileType::Other => {}
        }
    }
}
