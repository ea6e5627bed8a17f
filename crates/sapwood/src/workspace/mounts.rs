//! Mounting and unmounting.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use engine::{
    workspace::{
        backend::{self, Backend, Busy, Layers, Mounted, Process, Programs, Site, holder, image},
        base::Bases,
        crash::{self as damage, is_torn},
        record::{Activity, Durability, Workspace},
    },
    worktree::admin,
};
use repo::{Repository, keys};
use sys::{MountTable, by_path};

use super::{crash, durable, inner, missing, places};
use crate::{Error, Notice, text, worktree::records::Worktrees};

/// Returns the layers of a workspace; `None` if it has no upper layer.
pub fn layers(workspace: &Workspace) -> Result<Option<Layers>, Error> {
    match &workspace.record.base {
        Some(base) if workspace.record.backend.has_upper() => {
            Ok(Some(Layers::of(workspace, Bases::at(&base.dir).get(&base.name)?)))
        }
        _ => Ok(None),
    }
}

/// Returns the directories with which a workspace is unmounted; `None` if it has no upper layer.
pub fn site(workspace: &Workspace) -> Option<Site> {
    workspace.record.backend.has_upper().then(|| Site::of(workspace))
}

/// Mounts a workspace of `repo`, unless it is mounted. Tells the user what a crash of the machine
/// did to it.
pub fn mount(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    let Worktrees { repo, events, .. } = worktrees;
    refuse_frozen(workspace)?;
    let trust = repo.trust();
    workspace.check(&trust)?;
    trust.check_mount_point(&workspace.record.dir)?;
    let is_mounted = || matches!(state(workspace), Ok(Mounted::Here | Mounted::InNamespace { .. }));
    if !is_mounted() {
        durable::restore(worktrees, workspace)?;
    }
    let layers = match layers(workspace) {
        // A mount that exists needs no base.
        Err(_) if is_mounted() => return Ok(()),
        layers => layers.map_err(|error| missing::explained(worktrees, workspace, error))?,
    };
    let Some(mut layers) = layers else { return Ok(()) };
    layers.durability = durability(repo, workspace)?;
    if let Some(base) = &workspace.record.base {
        Bases::trusted(&base.dir, trust)?.to_mount(&base.name)?;
    }
    // The directory may have been made again, or a crash may have taken the content of the file.
    // Without it, Git would find a repository above it after the next unmount.
    let dir = &workspace.record.dir;
    if (is_empty(dir) || is_torn(&dir.join(".git"))) && !is_mounted() {
        mark_unmounted(workspace)?;
    }
    let programs = programs(worktrees, workspace, layers.durability);
    let known = damage::Notice::read(&workspace.state)?.findings.len();
    let mounted = backend::mount(workspace.record.backend, &layers, &programs);
    crash::tell(workspace, known, *events)?;
    mounted?;
    durable::harden_in_background(&layers.base, &workspace.state, *events);
    inner::mount(worktrees, workspace)?;
    if let Some(dir) = backend::changed_base(&layers.site.state) {
        events.notice(Notice::ChangedBase(dir));
    }
    Ok(())
}

/// Returns an error for a frozen workspace.
pub(super) fn refuse_frozen(workspace: &Workspace) -> Result<(), Error> {
    if workspace.record.activity != Activity::Frozen {
        return Ok(());
    }
    let name = workspace.name.as_bytes();
    let advice = String::from_utf8_lossy(&text!("thaw it: sapwood workspace thaw ", name)).into_owned();
    Err(Error::Advised { message: text!("the workspace '", name, "' is frozen"), advice })
}

fn is_empty(dir: &Path) -> bool {
    by_path::list(dir).is_ok_and(|names| names.is_empty())
}

/// Unmounts a workspace if it is mounted, and its base if no other workspace uses it.
pub fn unmount(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    let Some(site) = site(workspace) else { return Ok(()) };
    inner::unmount(worktrees, workspace, Busy::Refuse)?;
    let unmount = || backend::unmount(workspace.record.backend, &site, Busy::Refuse);
    after_maintenance(worktrees, unmount, |error| Some(error))?;
    release_base(workspace);
    Ok(())
}

/// Returns an error that names a mount inside a workspace, if there is one.
pub fn refuse_mounts_inside(workspace: &Workspace) -> Result<(), Error> {
    Ok(backend::refuse_mounts_inside(workspace.record.backend, &Site::of(workspace))?)
}

/// The longest wait for processes that end by themselves.
const LONGEST_MAINTENANCE: Duration = Duration::from_secs(60);

/// The time after which the user is told about the wait.
const SILENCE: Duration = Duration::from_secs(1);

/// Repeats `act` while nothing but Git's own maintenance uses the workspace, or the process that
/// makes a base durable. Git starts its maintenance in the background after a commit, in the
/// current directory, so it would keep a workspace from being unmounted though its user has
/// finished. `busy` returns the error of the backend.
pub fn after_maintenance<E>(
    worktrees: &Worktrees<'_>,
    mut act: impl FnMut() -> Result<(), E>,
    busy: fn(&E) -> Option<&backend::Error>,
) -> Result<(), Error>
where
    Error: From<E>,
{
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let error = match act() {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let process = match busy(&error) {
            Some(backend::Error::Busy { processes, .. }) if processes.iter().all(Process::ends_by_itself) => {
                processes.first()
            }
            _ => None,
        };
        let Some(process) = process.filter(|_| begun.elapsed() < LONGEST_MAINTENANCE) else {
            return Err(error.into());
        };
        if !is_told && begun.elapsed() > SILENCE {
            worktrees.events.notice(Notice::Waiting(process.to_string()));
            is_told = true;
        }
        worktrees.check_interrupt()?;
        thread::sleep(Duration::from_millis(20));
    }
}

/// Like [`unmount`], for a process that mounts the workspace again with another base.
pub fn unmount_to_replace(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    let Some(site) = site(workspace) else { return Ok(()) };
    inner::unmount(worktrees, workspace, Busy::Refuse)?;
    let unmount = || backend::unmount_to_replace(workspace.record.backend, &site);
    after_maintenance(worktrees, unmount, |error| Some(error))?;
    release_base(workspace);
    Ok(())
}

/// Unmounts the base of a workspace if it is unused. A failure leaves a mount, which is harmless.
pub fn release_base(workspace: &Workspace) {
    if let (Backend::Image, Ok(Some(layers))) = (workspace.record.backend, layers(workspace)) {
        let _ = image::unmount_if_unused(&layers.base, &workspace.record.door);
    }
}

/// Returns where the files of a workspace are visible.
pub fn state(workspace: &Workspace) -> Result<Mounted, Error> {
    state_in(workspace, &MountTable::default())
}

/// Like [`state`], for many workspaces: the table is read once.
pub fn state_in(workspace: &Workspace, table: &MountTable) -> Result<Mounted, Error> {
    match site(workspace) {
        Some(site) => Ok(backend::state_in(workspace.record.backend, &site, table)?),
        None => Ok(Mounted::Here),
    }
}

/// Returns the durability of a workspace: the recorded one, else that of the setting.
pub fn durability(repo: &Repository, workspace: &Workspace) -> Result<Durability, Error> {
    if let Some(chosen) = workspace.record.durability {
        return Ok(chosen);
    }
    let value = repo.config_text(&keys::sapwood::WORKSPACE_SYNC);
    match value.as_slice() {
        b"auto" => Ok(Durability::Volatile),
        b"always" => Ok(Durability::Synced),
        _ => Err(Error::failed(format!(
            "bad value '{value}' for sapwood.workspaceSync: it is 'auto' or 'always'"
        ))),
    }
}

/// Returns the programs that a mount may start.
pub fn programs(worktrees: &Worktrees<'_>, workspace: &Workspace, durability: Durability) -> Programs {
    let program = worktrees.events.program();
    let holder = program.map(|program| holder(program, &worktrees.common, workspace, durability));
    Programs { holder, search: places::programs(worktrees.repo) }
}

/// Returns the command line of the process that keeps a workspace's namespace alive.
fn holder(program: PathBuf, common: &Path, workspace: &Workspace, durability: Durability) -> holder::Program {
    let words = ["workspace", HOLD].map(OsString::from);
    let sync = if durability == Durability::Synced { "always" } else { "auto" };
    let places = [common.as_os_str().to_owned(), workspace.name.clone(), sync.into()];
    holder::Program { program, argv0: "sapwood".into(), args: words.into_iter().chain(places).collect() }
}

/// The subcommand of `sapwood workspace` that runs the holder.
const HOLD: &str = "hold";

/// Writes the file `.git` that the workspace's directory contains while it is not mounted.
pub fn mark_unmounted(workspace: &Workspace) -> Result<(), Error> {
    Ok(admin::write(&workspace.record.dir.join(".git"), &workspace.unmounted_gitfile())?)
}
