//! `workspace move`, and `worktree move` of a workspace.
//!
//! Order: the unmount; a mark in the state that names both directories; the new directory; the
//! record; the links; the old directory; the mount. From the mark on, a killed move is completed:
//! [`recover`] repeats the steps.

use std::{
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    workspace::record::{self, Workspace},
    worktree::admin,
};
use serde_json::json;
use sys::by_path;

use super::{
    context::{self, Context, json_path},
    mounts, rebase,
    request::{MOVE, Request},
};
use crate::{
    commands::worktree::context::{WorktreeContext, refuse_submodules},
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = MOVE.parse(args)?.store(&mut request)?;
    let [name, to] = words.as_slice() else {
        return Err(Failure::fatal("name a workspace and a directory"));
    };
    let context = Context::open(run)?;
    let workspace = context.find(name.as_bstr())?;
    let worktree_context = context.worktree_context();
    let to = worktree_context.given(to.as_bstr())?;
    let worktrees = context.repo.worktrees()?;
    worktree_context.check_candidate(&to, 0, &worktrees, "move")?;
    if let Some(worktree) = context.repo.linked_worktree(&workspace.name) {
        refuse_submodules(&worktree_context, &worktree)?;
    }
    let moved = relocate(&worktree_context, &workspace, &by_path::realpath_forgiving(&to.path))?;
    if request.json {
        let dir = json_path(&moved.record.dir);
        context::print_json(&json!({"name": workspace.name.to_string_lossy(), "dir": dir}));
    } else if !request.quiet {
        console::eprint_line(text!("Workspace at '", moved.record.dir.as_os_str().as_bytes(), "'"));
    }
    Ok(0)
}

/// Moves a workspace to the directory `to`, which is missing or empty. Returns the updated
/// workspace.
pub(crate) fn relocate(
    worktree_context: &WorktreeContext<'_>,
    workspace: &Workspace,
    to: &Path,
) -> Result<Workspace, Failure> {
    let trust = worktree_context.repo.trust();
    let _lock = workspace.lock(&trust)?;
    trust.check_mount_point(&workspace.record.dir)?;
    let settings = Settings::read(worktree_context.run, worktree_context.repo)?;
    let workspace = rebase::recover_in(worktree_context, &settings, workspace)?;
    let workspace = finish(worktree_context, &settings, &workspace)?;
    if to == workspace.record.dir {
        return Ok(workspace);
    }
    if !workspace.record.backend.has_upper() {
        return rename(worktree_context, &settings, &workspace, to);
    }
    mounts::unmount(worktree_context.run, &workspace)?;
    let mark = [workspace.record.dir.as_os_str().as_bytes(), b"\0", to.as_os_str().as_bytes()].concat();
    record::clear_stale_lock(&mark_of(&workspace));
    let mut lock = store::Lock::take(&mark_of(&workspace), &store::LockOptions::default())?;
    lock.write(&mark)?;
    lock.commit_synced(&settings.fsync, store::Components::REFERENCE)?;
    let moved = finish(worktree_context, &settings, &workspace)?;
    mounts::mount(worktree_context.run, worktree_context.repo, &moved)?;
    Ok(moved)
}

fn mark_of(workspace: &Workspace) -> PathBuf {
    workspace.state.join(record::MOVING)
}

/// Moves a workspace whose directory itself contains the files.
fn rename(
    worktree_context: &WorktreeContext<'_>,
    settings: &Settings,
    workspace: &Workspace,
    to: &Path,
) -> Result<Workspace, Failure> {
    let from = &workspace.record.dir;
    by_path::rename(from, to).map_err(|error| {
        let (reason, to) = (crate::term::text::os_error(&error), to.as_os_str().as_bytes());
        Failure::Fatal(text!("failed to move '", from.as_os_str().as_bytes(), "' to '", to, "': ", reason))
    })?;
    worktree_context.linker(None)?.link(to, &admin_of(worktree_context, workspace))?;
    store(settings, workspace, to)
}

fn admin_of(worktree_context: &WorktreeContext<'_>, workspace: &Workspace) -> PathBuf {
    worktree_context.common.join("worktrees").join(&workspace.name)
}

fn store(settings: &Settings, workspace: &Workspace, to: &Path) -> Result<Workspace, Failure> {
    let mut moved = workspace.clone();
    moved.record.dir = to.to_owned();
    moved.store(&settings.fsync)?;
    Ok(moved)
}

/// Completes a move that was killed. The caller holds the workspace's lock. Returns the updated
/// workspace.
pub(super) fn recover(context: &Context<'_>, workspace: &Workspace) -> Result<Workspace, Failure> {
    finish(&context.worktree_context(), &context.settings, workspace)
}

fn finish(
    worktree_context: &WorktreeContext<'_>,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<Workspace, Failure> {
    let mark = mark_of(workspace);
    let failed = |path: &Path, error: &std::io::Error| {
        let reason = crate::term::text::os_error(error);
        Failure::Fatal(text!("cannot move to '", path.as_os_str().as_bytes(), "': ", reason))
    };
    let Some(content) = by_path::read(&mark).map_err(|error| failed(&mark, &error))? else {
        return Ok(workspace.clone());
    };
    let (from, to) = content.split_once_str("\0").ok_or_else(|| {
        Failure::fatal(format!("'{}' is damaged: remove it, and repeat the move", mark.display()))
    })?;
    let (from, to) = (Path::new(sys::os_str(from)), Path::new(sys::os_str(to)));
    settings.locks.shared.create_dir_all(to).or_else(|error| match error.kind() {
        ErrorKind::AlreadyExists => Ok(()),
        _ => Err(failed(to, &error)),
    })?;
    let moved = store(settings, workspace, to)?;
    let gitfile = workspace.upper().join(".git");
    for path in [&to.join(".git"), &gitfile, &admin_of(worktree_context, workspace).join("gitdir")] {
        record::clear_stale_lock(path);
    }
    mounts::mark_unmounted(&moved)?;
    worktree_context.linker(None)?.link_through(&gitfile, to, &admin_of(worktree_context, workspace))?;
    leave(worktree_context, &workspace.name, from);
    by_path::remove_file(&mark).map_err(|error| failed(&mark, &error))?;
    Ok(moved)
}

/// Removes the file that marks an unmounted workspace from its previous directory, and the
/// directory if it is empty then.
pub(super) fn leave(worktree_context: &WorktreeContext<'_>, name: &std::ffi::OsStr, dir: &Path) {
    let is_ours = record::unmounted_at(dir)
        .is_some_and(|(common, id)| common == worktree_context.common && id == *name);
    let is_begun = matches!(by_path::read(&dir.join(".git")), Ok(Some(content)) if content.is_empty());
    if is_ours || is_begun {
        let _ = by_path::remove_file(&dir.join(".git"));
    }
    // The removal fails, as intended, if the directory has other entries.
    let _ = by_path::remove_dir(dir);
}

/// Removes what a killed creation or removal has left of a workspace without a state: its directory
/// and the administrative directory `id`.
pub(super) fn forget(
    worktree_context: &WorktreeContext<'_>,
    id: &std::ffi::OsStr,
    dir: &Path,
) -> Result<(), Failure> {
    let admin = worktree_context.common.join("worktrees").join(id);
    let trust = worktree_context.repo.trust();
    [&admin, &admin.join("locked"), &admin.join("gitdir")]
        .into_iter()
        .try_for_each(|path| trust.check_file(path))?;
    leave(worktree_context, id, dir);
    let found = admin::Found::at(&admin);
    match crate::commands::worktree::remove::delete_admin(worktree_context, id, &found)? {
        true => Ok(()),
        false => Err(Failure::Reported(1)),
    }
}
