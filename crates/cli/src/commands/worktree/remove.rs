//! `worktree remove`: the worktree disappears at once and is deleted in the background; also the
//! removal of administrative directories.
//!
//! Order: all checks; the worktree, through the trash if that is possible and cannot fail later, or
//! else directly with its errors; its administrative directory, in any case, as in Git. After a
//! kill in between, the worktree shows as prunable.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    crew::Meter,
    guard,
    sparse::Purpose,
    trash::{self, Trash},
    worktree::{
        admin::{self, Found},
        changes::{self, Untracked},
    },
};
use repo::Worktree;
use sys::{Dir, FileType, by_path};

use super::context::{
    Given, Request, WorktreeContext, find_by_path, is_empty_directory, lock_reason, only, open_worktree,
    refuse_submodules,
};
use crate::{
    commands::{
        trash::workers,
        workspace::remove::{Force, remove as remove_workspace},
    },
    session::{
        apply,
        invocation::Invocation,
        settings::Settings,
        sparse_index::{self, ExpansionHint},
    },
    term::{
        console::{self, text},
        failure::Failure,
        progress::{self, Progress, Watch},
    },
};

/// Runs the command.
pub(crate) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let arg = only(context, args)?;
    let force = request.force;
    let worktree = context.find(&context.repo.worktrees()?, arg)?;
    let Some(id) = &worktree.id else {
        return Err(Failure::Fatal(text!("'", arg, "' is a main working tree")));
    };
    let meant = Found::at(&worktree.git_dir);
    let reason = if force < 2 { lock_reason(&worktree)? } else { None };
    match reason {
        Some(reason) if reason.is_empty() => {
            return Err(Failure::fatal(
                "cannot remove a locked working tree;\nuse 'remove -f -f' to override or unlock first",
            ));
        }
        Some(reason) => {
            return Err(Failure::Fatal(text!(
                "cannot remove a locked working tree, lock reason: ",
                reason,
                "\nuse 'remove -f -f' to override or unlock first"
            )));
        }
        None => {}
    }
    if let Some(workspace) = context.workspace(&worktree)? {
        let force = if force > 0 { Force::Yes } else { Force::No };
        remove_workspace(context, &workspace, force)?;
        return Ok(0);
    }
    context
        .validate(&worktree, true)
        .map_err(|wrong| Failure::Fatal(text!("validation failed, cannot remove working tree: ", wrong)))?;
    let mut code = 0;
    if !matches!(by_path::stat(&worktree.path), Ok(None)) {
        guard::check_removal(context.repo, &worktree.path)?;
        if force == 0 {
            refuse_submodules(context, &worktree)?;
            refuse_changes(context, &worktree, arg)?;
        }
        if !delete_tree(context, &worktree)? {
            code = 255;
        }
    }
    if !delete_admin(context, id, &meant)? {
        code = 255;
    }
    drop_empty_list(context);
    Ok(code)
}

pub(crate) fn refuse_changes(
    context: &WorktreeContext<'_>,
    worktree: &Worktree,
    arg: &BStr,
) -> Result<(), Failure> {
    let repo = open_worktree(context.run, worktree)?;
    let settings = Settings::read(context.run, &repo)?;
    let root = Dir::open(&worktree.path).map_err(|error| {
        let reason = crate::term::text::os_error(&error);
        Failure::fatal(format!("cannot open '{}': {reason}", worktree.path.display()))
    })?;
    let untracked = match repo.config_str("status.showUntrackedFiles") {
        Some(value) if value == "no" => Untracked::Hidden,
        Some(_) if matches!(repo.config_bool("status.showUntrackedFiles"), Ok(Some(false))) => {
            Untracked::Hidden
        }
        _ => Untracked::Counts,
    };
    let mut index = apply::load_compact(&repo, &settings, &root, ExpansionHint::Print)?;
    let head = repo.head()?.oid();
    let purpose = match head {
        Some(head) => Purpose::Compare(repo.tree_of(head)?),
        None => Purpose::Files,
    };
    sparse_index::expand_for(&repo, &mut index, &|_| purpose)?;
    match changes::any(&repo, &root, &index, head, untracked)? {
        false => Ok(()),
        true => Err(Failure::Fatal(text!(
            "'",
            arg,
            "' contains modified or untracked files, use --force to delete it"
        ))),
    }
}

/// Removes a worktree's files. Returns false if some could not be removed; the errors were printed.
fn delete_tree(context: &WorktreeContext<'_>, worktree: &Worktree) -> Result<bool, Failure> {
    let is_link =
        matches!(by_path::stat(&worktree.path), Ok(Some(stat)) if stat.file_type == FileType::Symlink);
    let watch = watch(context);
    let meter = watch.meter();
    let removed = match is_link {
        true => empty_linked(context, &worktree.path, meter),
        false => split(&worktree.path).and_then(|(above, name)| {
            let shared = context.shared_or_default();
            let trash = Trash::new(&context.common, shared, workers(), context.run.interrupt.flag());
            let mut trash = trash.counting(meter);
            let root = Dir::open(&above).map_err(|source| stuck(name.as_bytes().as_bstr(), source))?;
            let name = name.as_bytes().as_bstr();
            match holds_current_directory(context.run, &worktree.path) {
                // Not through the trash: there, Git would find the repository that contains the
                // current directory.
                true => trash::remove_counted(&root, name, workers(), context.run.interrupt.flag(), meter),
                false => trash.discard(&root, name).map(drop),
            }
        }),
    };
    watch.finish();
    outcome(context, removed, worktree.path.as_os_str().as_bytes().as_bstr())
}

/// Shows the progress of a slow removal.
fn watch(context: &WorktreeContext<'_>) -> Watch {
    let delay = progress::delay(context.run.variable("GIT_PROGRESS_DELAY"));
    Watch::start(Progress::new("Removing files", progress::has_terminal(), delay), 0)
}

fn holds_current_directory(run: &Invocation, path: &Path) -> bool {
    let place = by_path::realpath_forgiving(path);
    let is_inside = |cwd: &PathBuf| by_path::canonical(cwd).is_ok_and(|cwd| cwd.starts_with(&place));
    [&run.cwd, &run.started_in].into_iter().any(is_inside)
}

/// Empties the directory behind a symlink. Like Git, the removal of the link by `rmdir` then fails.
fn empty_linked(
    context: &WorktreeContext<'_>,
    path: &Path,
    meter: Option<&Meter>,
) -> Result<(), trash::Error> {
    let shown = path.as_os_str().as_bytes().as_bstr();
    let root = Dir::open(path).map_err(|source| stuck(shown, source))?;
    for (name, _) in root.list().map_err(|source| stuck(shown, source))? {
        trash::remove_counted(&root, name.as_bstr(), workers(), context.run.interrupt.flag(), meter)?;
    }
    by_path::remove_dir(path).map_err(|source| stuck(shown, source))
}

/// Removes the parts of a worktree that could not be completed.
pub(crate) fn remove_junk(paths: &[&Path]) {
    for path in paths {
        if let Ok((above, name)) = split(path)
            && let Ok(root) = Dir::open(&above)
        {
            // Ignore signals here: the failure was already reported.
            let go_on = std::sync::atomic::AtomicBool::new(false);
            let _ = trash::remove(&root, name.as_bytes().as_bstr(), workers(), &go_on);
        }
    }
}

fn split(path: &Path) -> Result<(PathBuf, std::ffi::OsString), trash::Error> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok((above.to_owned(), name.to_owned())),
        _ => Err(stuck(path.as_os_str().as_bytes().as_bstr(), std::io::ErrorKind::ResourceBusy.into())),
    }
}

fn stuck(path: &BStr, source: std::io::Error) -> trash::Error {
    trash::Error::Unremovable(vec![trash::Unremovable { path: path.to_owned(), source }])
}

fn outcome(
    context: &WorktreeContext<'_>,
    removed: Result<(), trash::Error>,
    shown: &BStr,
) -> Result<bool, Failure> {
    match removed {
        Ok(()) => Ok(true),
        Err(trash::Error::Interrupted) => Err(context.run.interrupt.failure()),
        Err(trash::Error::Unremovable(stuck)) => {
            let reason =
                stuck.first().map(|stuck| crate::term::text::os_error(&stuck.source)).unwrap_or_default();
            console::error(text!("failed to delete '", shown, "': ", reason));
            Ok(false)
        }
    }
}

/// Removes `worktrees/<id>` if it still is `meant`. Returns false if it stays; the reason was
/// printed.
pub(crate) fn delete_admin(
    context: &WorktreeContext<'_>,
    id: &OsStr,
    meant: &Found,
) -> Result<bool, Failure> {
    let interrupt = context.run.interrupt.flag();
    let removed = admin::delete(&context.common, id, meant, context.shared_or_default(), interrupt);
    outcome(context, removed, context.admin_shown(id).as_bstr())
}

/// Removes `worktrees/` if it is empty.
pub(crate) fn drop_empty_list(context: &WorktreeContext<'_>) {
    let _ = by_path::remove_dir(&context.common.join("worktrees"));
}

impl WorktreeContext<'_> {
    /// Checks that a path may become a worktree. If the path is recorded for a missing worktree,
    /// the record may have to be removed first.
    pub(crate) fn check_candidate(
        &self,
        at: &Given,
        force: usize,
        worktrees: &[Worktree],
        command: &str,
    ) -> Result<(), Failure> {
        let quoted = |after: &str| Failure::Fatal(text!("'", at.shown, "'", after));
        if !matches!(by_path::stat(&at.path), Ok(None)) && !is_empty_directory(&at.path) {
            return Err(quoted(" already exists"));
        }
        let Some(found) = find_by_path(worktrees, &at.path) else { return Ok(()) };
        let Some(id) = &found.id else { return Ok(()) };
        let locked = lock_reason(found)?.is_some();
        if force > usize::from(locked) {
            let meant = Found::at(&found.git_dir);
            return match delete_admin(self, id, &meant)? {
                true => Ok(()),
                false => Err(Failure::Fatal(text!("unusable worktree destination '", at.shown, "'"))),
            };
        }
        Err(match locked {
            true => quoted(&format!(
                " is a missing but locked worktree;\nuse '{command} -f -f' to override, or 'unlock' and 'prune' or \
                 'remove' to clear"
            )),
            false => quoted(&format!(
                " is a missing but already registered worktree;\nuse '{command} -f' to override, or 'prune' or 'remove' \
                 to clear"
            )),
        })
    }
}
