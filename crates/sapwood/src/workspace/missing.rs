//! Workspaces that cannot be mounted because their directory or their base is missing.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString};
use engine::{
    sparse,
    workspace::{
        backend::{self, Backend},
        base::{self, Bases, Kind, Named},
        record::{BaseRef, Workspace},
    },
};
use format::{ObjectId, shell};
use sys::by_path;

use super::{build, durable, mounts};
use crate::{Error, text, worktree::records::Worktrees};

/// Returns true if the directory of a workspace is missing.
pub fn lacks_directory(workspace: &Workspace) -> bool {
    matches!(by_path::stat(&workspace.record.dir), Ok(None))
}

/// Returns the error with which a mount of a workspace would end, and its remedy, if its
/// directory or its base is missing.
pub fn find(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Option<Error> {
    if !workspace.record.backend.has_upper() {
        return None;
    }
    if lacks_directory(workspace) {
        return Some(backend::Error::NoDirectory { path: workspace.record.dir.clone() }.into());
    }
    let error = mounts::layers(workspace).err()?;
    Some(explained(worktrees, workspace, error))
}

/// Returns the error for a workspace whose base cannot be opened. For a missing base, it names
/// the command that makes the base again.
pub fn explained(worktrees: &Worktrees<'_>, workspace: &Workspace, error: Error) -> Error {
    match &workspace.record.base {
        Some(base) if matches!(Bases::at(&base.dir).get(&base.name), Err(base::Error::Missing { .. })) => {
            missing_base(worktrees, workspace, base)
        }
        _ => error,
    }
}

fn missing_base(worktrees: &Worktrees<'_>, workspace: &Workspace, base: &BaseRef) -> Error {
    let kind = build::kind_of(workspace.record.backend);
    let name = workspace.name.as_bytes();
    let dir = base.dir.as_os_str().as_bytes();
    let remedy: BString = match commit_of(worktrees, workspace, base) {
        Ok(Some((_, Named::Special | Named::Difference))) => {
            text!("make the base again: sapwood workspace mount ", shell::quote_pretty(BStr::new(name)))
        }
        Ok(Some((commit, Named::Ordinary))) => text!(
            "make the base again: sapwood workspace base add --backend ",
            if kind == Kind::Image { Backend::Image.name() } else { Backend::Overlay.name() },
            " --base-dir ",
            shell::quote(BStr::new(dir)),
            " ",
            commit.to_string()
        ),
        _ => text!(
            "no commit behind HEAD makes this base with the present settings; to give up the workspace and \
             its changes: sapwood workspace remove --force ",
            shell::quote_pretty(BStr::new(name))
        ),
    };
    let (message, advice) = if durable::is_away(&base.dir) {
        let cause = "' does not exist, or is empty";
        (
            text!("the base directory '", dir, "' of the workspace '", name, cause),
            text!("mount the disk that holds it; if it is gone for good, ", remedy),
        )
    } else {
        (text!("'", dir, "' holds no base '", &*base.name, "' for the workspace '", name, "'"), remedy)
    };
    Error::Advised { message, advice: advice.to_string() }
}

fn commit_of(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    base: &BaseRef,
) -> Result<Option<(ObjectId, Named)>, Error> {
    let repo = durable::open_unmounted(worktrees.repo, &worktrees.common, workspace)?;
    let patterns = sparse::load(&repo)?.map(|loaded| loaded.patterns);
    durable::commit_of(&repo, build::kind_of(workspace.record.backend), base, patterns.as_ref())
}
