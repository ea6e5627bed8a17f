//! `workspace remove`.
//!
//! Order: the check for unsaved work; the unmount; the files, through the trash; the administrative
//! directory. A background process deletes the files.

use std::{
    collections::HashSet,
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    fleet::pulled,
    trash::Trash,
    workspace::{
        backend::Busy,
        record::{Activity, Workspace},
        remove as files,
    },
    worktree::admin::Found,
};
use format::ObjectId;
use repo::{Repository, Worktree, WorktreeHeadKind};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    gc, mounts,
    request::{REMOVE, Request},
    submodules,
};
use crate::{
    commands::{
        trash,
        worktree::{
            context::WorktreeContext,
            remove::{delete_admin, drop_empty_list, refuse_changes},
        },
    },
    session::{invocation::Invocation, reexec},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The treatment of unsaved work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// Unsaved work keeps the workspace from being removed.
    No,
    /// Unsaved work is lost.
    Yes,
}

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = REMOVE.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let force = if request.force { Force::Yes } else { Force::No };
    let mut code = 0;
    let mut report = Vec::new();
    let worktree_context = context.worktree_context();
    for workspace in context.chosen(&names, false)? {
        match remove(&worktree_context, &workspace, force) {
            Ok(()) => report.push(removed(&workspace)),
            Err(failure) => {
                failure.print();
                code = failure.code();
            }
        }
    }
    if request.json {
        context::print_json(&Value::from(report));
    }
    Ok(code)
}

/// Removes a workspace.
pub(crate) fn remove(
    worktree_context: &WorktreeContext<'_>,
    workspace: &Workspace,
    force: Force,
) -> Result<(), Failure> {
    let trust = worktree_context.repo.trust();
    let _lock = workspace.lock(&trust)?;
    trust.check_mount_point(&workspace.record.dir)?;
    let worktree = worktree_context.repo.linked_worktree(&workspace.name);
    let found = worktree.as_ref().map(|worktree| Found::at(&worktree.git_dir));
    let busy = if force == Force::Yes { Busy::Detach } else { Busy::Refuse };
    let has_submodules = submodules::exist(workspace)?;
    if let (Some(worktree), Force::No, true) = (&worktree, force, has_submodules) {
        submodules::refuse_own_objects(&worktree.git_dir, workspace)?;
        refuse_unsaved(worktree_context, workspace, worktree)?;
    }
    if has_submodules {
        submodules::unmount(worktree_context.run, workspace, busy)?;
    }
    // An unmount by force detaches all mounts inside. Without an unmount, they would stay in the
    // way.
    if force == Force::No || !workspace.record.backend.has_upper() {
        mounts::refuse_mounts_inside(workspace)?;
    }
    if let (Some(worktree), Force::No, false) = (&worktree, force, has_submodules) {
        refuse_unsaved(worktree_context, workspace, worktree)?;
    }
    remove_files(worktree_context, workspace, busy)?;
    if let Some(found) = found
        && !delete_admin(worktree_context, &workspace.name, &found)?
    {
        return Err(Failure::Reported(1));
    }
    drop_empty_list(worktree_context);
    trash::empty_in_background(&worktree_context.common);
    Ok(())
}

/// Unmounts a workspace and removes its files and its state.
fn remove_files(
    worktree_context: &WorktreeContext<'_>,
    workspace: &Workspace,
    busy: Busy,
) -> Result<(), Failure> {
    let shared = worktree_context.shared_or_default();
    let mut discarded =
        Trash::new(&worktree_context.common, shared, trash::workers(), worktree_context.run.interrupt.flag());
    let remove = || files::remove(workspace, busy, &mut discarded);
    mounts::after_maintenance(worktree_context.run, remove, |error| match error {
        files::Error::Backend(error) => Some(error),
        _ => None,
    })?;
    mounts::release_base(workspace);
    Ok(())
}

/// Returns an error if a removal would lose changes, or commits that no ref reaches and no base
/// brought.
fn refuse_unsaved(
    worktree_context: &WorktreeContext<'_>,
    workspace: &Workspace,
    worktree: &Worktree,
) -> Result<(), Failure> {
    let name = workspace.name.as_bytes().as_bstr();
    let head = worktree_context.repo.head_of(worktree);
    if head.kind == WorktreeHeadKind::Detached {
        refuse_unreachable(worktree_context.repo, workspace, head.oid)?;
    }
    match workspace.record.backend.has_upper() {
        true => refuse_changes_inside(worktree_context, workspace, worktree),
        false => refuse_changes(worktree_context, worktree, name),
    }
}

fn refuse_unreachable(repo: &Repository, workspace: &Workspace, oid: ObjectId) -> Result<(), Failure> {
    let refs = repo.refs("refs/")?;
    if refs.iter().any(|(_, tip)| *tip == oid) || pulled::has_commit(repo.common_dir(), &oid) {
        return Ok(());
    }
    let commits = refs.iter().filter_map(|(_, tip)| repo.peel_to_commit(*tip).ok().flatten());
    let commits: Vec<ObjectId> = commits.collect();
    if !repo.reachable_tips(&commits, &HashSet::from([oid]))?.is_empty() {
        return Ok(());
    }
    let short = repo.abbreviate(oid)?;
    Err(Failure::fatal(text!(
        "'",
        workspace.name.as_bytes(),
        "' is at commit ",
        short,
        ", which no branch or tag contains; make a branch, or use --force to lose it"
    )))
}

/// Runs `status` inside the workspace, where its files are visible. It examines only changes.
fn refuse_changes_inside(
    worktree_context: &WorktreeContext<'_>,
    workspace: &Workspace,
    worktree: &Worktree,
) -> Result<(), Failure> {
    let name = workspace.name.as_bytes();
    let mounted = mounts::mount(worktree_context.run, worktree_context.repo, workspace);
    if let Err(failure) = mounted {
        if workspace.record.activity == Activity::Frozen {
            return Err(failure);
        }
        // The files of a base are no work of the user's.
        if gc::is_empty(workspace) && !has_staged_changes(worktree_context.repo, worktree)? {
            return Ok(());
        }
        failure.print();
        return Err(unknown_changes(name));
    }
    let failed =
        |error: std::io::Error| Failure::fatal(format!("cannot run status in the workspace: {error}"));
    let program = context::this_program()?;
    let mut child = Command::new(&program);
    reexec::pass_settings(worktree_context.run, &mut child);
    child.current_dir(&workspace.record.dir).args(["workspace", "exec"]).arg(&workspace.name);
    child.arg("--").arg(&program).arg("--no-optional-locks");
    child.args(["status", "--porcelain", "--ignore-submodules=none"]);
    console::flush();
    sys::interrupt::install();
    let output = child.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(failed)?;
    if !output.status.success() {
        return Err(unknown_changes(name));
    }
    if output.stdout.is_empty() {
        return Ok(());
    }
    Err(Failure::fatal(text!("'", name, "' contains modified or untracked files, use --force to delete it")))
}

/// Returns the failure after the changes of a workspace could not be examined. The cause was
/// printed.
fn unknown_changes(name: &[u8]) -> Failure {
    Failure::Fatal(text!(
        "cannot find out whether '",
        name,
        "' contains unsaved work, use --force to delete it in any case"
    ))
}

/// Returns true if the index of a worktree may differ from its HEAD.
fn has_staged_changes(repo: &Repository, worktree: &Worktree) -> Result<bool, Failure> {
    let Ok(tree) = repo.tree_of(repo.head_of(worktree).oid) else { return Ok(true) };
    let mut child = Command::new(context::this_program()?);
    child.env("GIT_DIR", &worktree.git_dir).current_dir(&worktree.git_dir).arg("write-tree");
    console::flush();
    let ended = child.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| Failure::fatal(format!("cannot run write-tree: {error}")))?;
    Ok(ended.stdout.trim() != tree.to_string().as_bytes())
}

/// Returns the JSON document of a removed workspace.
fn removed(workspace: &Workspace) -> Value {
    json!({"name": workspace.name.to_string_lossy(), "removed": true})
}
