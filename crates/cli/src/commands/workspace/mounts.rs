//! Mounting and unmounting for the subcommands, and the process that keeps a namespace alive.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use bstr::BString;
use engine::{
    workspace::{
        backend::{self, Backend, Busy, Layers, Mounted, Process, Programs, Site, holder, image},
        base::Bases,
        crash::{Notice, is_torn},
        record::{self, Activity, Durability, Workspace},
    },
    worktree::admin,
};
use repo::{Repository, Trust};
use sys::by_path;

use super::{context, crash, durable, submodules};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Returns the layers of a workspace; `None` if it has no upper layer.
pub(super) fn layers(workspace: &Workspace) -> Result<Option<Layers>, Failure> {
    match &workspace.record.base {
        Some(base) if workspace.record.backend.has_upper() => {
            Ok(Some(Layers::of(workspace, Bases::at(&base.dir).get(&base.name)?)))
        }
        _ => Ok(None),
    }
}

/// Returns the directories with which a workspace is unmounted; `None` if it has no upper layer.
pub(super) fn site(workspace: &Workspace) -> Option<Site> {
    workspace.record.backend.has_upper().then(|| Site::of(workspace))
}

/// Mounts a workspace of `repo`, unless it is mounted. Tells the user what a crash of the machine
/// did to it.
pub(super) fn mount(run: &Invocation, repo: &Repository, workspace: &Workspace) -> Result<(), Failure> {
    if workspace.record.activity == Activity::Frozen {
        let name = workspace.name.as_bytes();
        let advice = String::from_utf8_lossy(&text!("thaw it: sapwood workspace thaw ", name)).into_owned();
        return Err(Failure::Fatal(text!("the workspace '", name, "' is frozen")).advised(Some(advice)));
    }
    let common = repo.real_common_dir();
    let trust = Trust::of(run.outside(), &common);
    workspace.check(&trust)?;
    trust.check_mount_point(&workspace.record.dir)?;
    let is_mounted = || matches!(state(workspace), Ok(Mounted::Here | Mounted::InNamespace { .. }));
    if !is_mounted() {
        durable::restore(run, &common, workspace)?;
    }
    let layers = match layers(workspace) {
        // A mount that exists needs no base.
        Err(_) if is_mounted() => return Ok(()),
        layers => layers?,
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
    let holder = holder(&common, workspace, layers.durability)?;
    let programs = Programs { holder, search: context::programs(run) };
    let known = Notice::read(&workspace.state)?.findings.len();
    let mounted = backend::mount(workspace.record.backend, &layers, &programs);
    crash::tell(workspace, known)?;
    mounted?;
    durable::harden_in_background(&layers.base, &workspace.state);
    submodules::mount(run, repo, workspace)?;
    if let Some(dir) = backend::changed_base(&layers.site.state) {
        let dir = dir.as_os_str().as_bytes();
        console::warning(text!(
            "somebody changed '",
            dir,
            "' after the base was built: each status examines every file. Make the base \
             again, or restore it and mount the workspace again"
        ));
    }
    Ok(())
}

fn is_empty(dir: &Path) -> bool {
    by_path::list(dir).is_ok_and(|names| names.is_empty())
}

/// Tells the user how to see the files of a workspace that not every process sees.
pub(super) fn tell_visibility(workspace: &Workspace) {
    if workspace.record.backend == Backend::OverlayUser {
        let name = workspace.name.as_bytes();
        console::hint(text!(
            "Only processes that sapwood starts see its files: sapwood workspace enter ",
            name,
            ", or sapwood workspace exec ",
            name,
            " -- <command>"
        ));
    }
}

/// Unmounts a workspace if it is mounted, and its base if no other workspace uses it.
pub(super) fn unmount(run: &Invocation, workspace: &Workspace) -> Result<(), Failure> {
    let Some(site) = site(workspace) else { return Ok(()) };
    submodules::unmount(run, workspace, Busy::Refuse)?;
    let unmount = || backend::unmount(workspace.record.backend, &site, Busy::Refuse);
    after_maintenance(run, unmount, |error| Some(error))?;
    release_base(workspace);
    Ok(())
}

/// Returns an error that names a mount inside a workspace, if there is one.
pub(super) fn refuse_mounts_inside(workspace: &Workspace) -> Result<(), Failure> {
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
pub(super) fn after_maintenance<E>(
    run: &Invocation,
    mut act: impl FnMut() -> Result<(), E>,
    busy: fn(&E) -> Option<&backend::Error>,
) -> Result<(), Failure>
where
    Failure: From<E>,
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
            console::eprint_line(format!("Waiting for work in the background, {process}"));
            is_told = true;
        }
        run.interrupt.check()?;
        thread::sleep(Duration::from_millis(20));
    }
}

/// Like [`unmount`], for a process that mounts the workspace again with another base.
pub(super) fn unmount_to_replace(run: &Invocation, workspace: &Workspace) -> Result<(), Failure> {
    let Some(site) = site(workspace) else { return Ok(()) };
    submodules::unmount(run, workspace, Busy::Refuse)?;
    let unmount = || backend::unmount_to_replace(workspace.record.backend, &site);
    after_maintenance(run, unmount, |error| Some(error))?;
    release_base(workspace);
    Ok(())
}

/// Moves this process into the namespace in which the workspace is mounted. This process must have
/// only one thread.
pub(super) fn join(workspace: &Workspace) -> Result<(), Failure> {
    let Some(site) = site(workspace) else { return Ok(()) };
    holder::join(workspace.record.backend, &site, Path::new(""))?;
    // A process in the directory would keep it from being unmounted.
    std::env::set_current_dir("/")
        .map_err(|error| Failure::fatal(format!("cannot change to the directory '/': {error}")))
}

/// Unmounts the base of a workspace if it is unused. A failure leaves a mount, which is harmless.
pub(super) fn release_base(workspace: &Workspace) {
    if let (Backend::Image, Ok(Some(layers))) = (workspace.record.backend, layers(workspace)) {
        let _ = image::unmount_if_unused(&layers.base);
    }
}

/// Returns where the files of a workspace are visible.
pub(super) fn state(workspace: &Workspace) -> Result<Mounted, Failure> {
    match site(workspace) {
        Some(site) => Ok(backend::state(workspace.record.backend, &site)?),
        None => Ok(Mounted::Here),
    }
}

/// Returns the durability of a workspace: the recorded one, else that of the setting.
pub(super) fn durability(repo: &Repository, workspace: &Workspace) -> Result<Durability, Failure> {
    if let Some(chosen) = workspace.record.durability {
        return Ok(chosen);
    }
    match repo.config_str("sapwood.workspaceSync") {
        None => Ok(Durability::Volatile),
        Some(value) if value == "auto" => Ok(Durability::Volatile),
        Some(value) if value == "always" => Ok(Durability::Synced),
        Some(value) => Err(Failure::fatal(format!(
            "bad value '{value}' for sapwood.workspaceSync: it is 'auto' or 'always'"
        ))),
    }
}

/// Returns the command line of the process that keeps a workspace's namespace alive.
pub(super) fn holder(
    common: &Path,
    workspace: &Workspace,
    durability: Durability,
) -> Result<holder::Program, Failure> {
    let program = context::this_program()?;
    let words = ["workspace", HOLD].map(OsString::from);
    let sync = if durability == Durability::Synced { "always" } else { "auto" };
    let places = [common.as_os_str().to_owned(), workspace.name.clone(), sync.into()];
    Ok(holder::Program { program, argv0: "sapwood".into(), args: words.into_iter().chain(places).collect() })
}

/// The internal subcommand that runs the holder.
const HOLD: &str = "hold";

/// Writes the file `.git` that the workspace's directory contains while it is not mounted.
pub(super) fn mark_unmounted(workspace: &Workspace) -> Result<(), Failure> {
    Ok(admin::write(&workspace.record.dir.join(".git"), &workspace.unmounted_gitfile())?)
}

/// Runs the holder: `workspace hold <common directory> <name> <sync>`.
pub(super) fn hold(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [common, name, sync] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    // At a system shutdown, SIGTERM ends the holder.
    sys::end_by_signals();
    let workspace = record::find(Path::new(sys::os_str(common)), sys::os_str(name))?;
    if let Some(mut layers) = layers(&workspace)? {
        layers.durability = if sync == "always" { Durability::Synced } else { Durability::Volatile };
        holder::hold(&layers, std::io::stdout())?;
    }
    Ok(0)
}
