//! The ways to combine a base and an upper layer into one directory.
//!
//! - [`image`]: the mount of an EROFS image, shared by all workspaces that use it;
//! - `overlay`: overlayfs in the mount namespace of this process;
//! - [`holder`]: overlayfs in a namespace that a separate process keeps alive;
//! - [`fuse`]: programs that do the same without root;
//! - [`choose()`], [`probe`]: the backends that work at a place;
//! - [`snapshot`], [`copy`]: workspaces without an upper layer;
//! - [`form_for`]: the form in which a backend can use a base of another user;
//! - [`changed_base`]: notes that somebody changed the base;
//! - [`Door`]: this process mounts, or the mount service does;
//! - `marker`: a file in the state directory that records the process, host and namespace of the
//!   last mount.
//!
//! Promise: a call that fails leaves no mount behind. An upper layer is never mounted twice at the
//! same time.
//!
//! Design: docs/design/workspace-mounts.md.

pub(super) mod changed;
mod choose;
mod door;
mod error;
mod fill;
pub mod fuse;
pub mod holder;
pub mod image;
pub(super) mod marker;
mod overlay;
mod share;

use std::path::{Path, PathBuf};

pub use changed::changed_base;
pub use choose::{Place, Visibility, choose, door_for, probe};
pub use door::{Door, SERVICE};
pub use error::{Error, Process};
pub use fill::{copy, snapshot};
pub use share::form_for;
use sys::{Mount, MountTable, by_path};

use super::{
    base::Base,
    crash,
    record::{Durability, Workspace},
    upper::Form,
};

/// A way to provide the files of a workspace, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// overlayfs on an EROFS image. Needs the right to mount.
    Image,
    /// overlayfs on a plain checkout. Needs the right to mount.
    Overlay,
    /// overlayfs on a plain checkout, in a user and mount namespace of its own.
    OverlayUser,
    /// `fuse-overlayfs` or `unionfs-fuse` on a plain checkout.
    Fuse,
    /// A btrfs snapshot of a plain checkout.
    Btrfs,
    /// A copy of a plain checkout that shares its blocks (`FICLONE`).
    Reflink,
    /// A parallel checkout: an ordinary worktree.
    Copy,
}

impl Backend {
    /// All backends, in the order in which `auto` tries them.
    pub const ALL: [Backend; 7] = [
        Backend::Image,
        Backend::Overlay,
        Backend::OverlayUser,
        Backend::Fuse,
        Backend::Btrfs,
        Backend::Reflink,
        Backend::Copy,
    ];

    /// Returns the name on command lines and in records.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Image => "image",
            Backend::Overlay => "overlay",
            Backend::OverlayUser => "overlay-user",
            Backend::Fuse => "fuse",
            Backend::Btrfs => "btrfs",
            Backend::Reflink => "reflink",
            Backend::Copy => "copy",
        }
    }

    /// Returns the backend with this name.
    pub fn from_name(name: &[u8]) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.name().as_bytes() == name)
    }

    /// Returns true if the workspace has an upper layer, which contains all changes.
    pub fn has_upper(self) -> bool {
        matches!(self, Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse)
    }
}

/// The directories that make up a workspace.
#[derive(Clone, Debug)]
pub struct Layers {
    /// The base.
    pub base: Base,
    /// Frozen layers of ignored files above the base, from top to bottom.
    pub frozen: Vec<PathBuf>,
    /// The workspace's own directories.
    pub site: Site,
    /// The effect of `fsync` in the workspace.
    pub durability: Durability,
}

/// The directories that belong to a workspace alone. They suffice to find out where it is mounted,
/// and to unmount it, also if its base is gone.
#[derive(Clone, Debug)]
pub struct Site {
    /// The upper layer.
    pub upper: PathBuf,
    /// overlayfs' work directory, on the file system of `upper`.
    pub work: PathBuf,
    /// The directory of the workspace: the mount point.
    pub top: PathBuf,
    /// The state directory of the workspace.
    pub state: PathBuf,
    /// The Git directory of a sealed workspace, which a second mount shows at `.git`.
    pub git: Option<PathBuf>,
    /// The maker of its mounts.
    pub door: Door,
}

impl Site {
    /// Returns the directories of `workspace`.
    pub fn of(workspace: &Workspace) -> Site {
        Site {
            upper: workspace.upper(),
            work: workspace.work(),
            top: workspace.record.dir.clone(),
            state: workspace.state.clone(),
            git: workspace.bound_git_dir(),
            door: workspace.record.door.clone(),
        }
    }

    /// Returns the place where the second mount shows the Git directory.
    fn git_place(&self) -> PathBuf {
        self.top.join(".git")
    }
}

impl Layers {
    /// Returns the layers of `workspace`, which uses `base`.
    pub fn of(workspace: &Workspace, base: Base) -> Layers {
        Layers {
            base,
            frozen: workspace.record.layers.clone(),
            site: Site::of(workspace),
            durability: workspace.record.durability.unwrap_or_default(),
        }
    }
}

/// Where the files of a workspace are visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// For this process.
    Here,
    /// In another mount namespace.
    InNamespace {
        /// A process in that namespace: for the backend `overlay-user`, the holder.
        pid: u32,
    },
    /// Nowhere.
    No,
}

/// Programs that some backends start.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program that holds the namespace of a workspace ([`Backend::OverlayUser`]), if there is
    /// one.
    pub holder: Option<holder::Program>,
    /// The directories in which other programs are searched, as in `PATH`.
    pub search: Vec<PathBuf>,
}

/// The treatment of a workspace that processes are using.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Fail with an error that lists the processes.
    Refuse,
    /// Unmount it anyway. The processes keep their open files, and may still write to the upper
    /// layer. For a workspace that will be removed.
    Detach,
}

/// The treatment of the upper layer after an unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    /// It stays, and is durable.
    Kept,
    /// It is deleted. Nothing waits for the disk.
    Discarded,
}

/// Mounts a workspace, unless it is already mounted. A backend without an upper layer has nothing
/// to mount.
pub fn mount(backend: Backend, layers: &Layers, programs: &Programs) -> Result<Mounted, Error> {
    if backend == Backend::Fuse {
        fuse::remove_dead(&layers.site)?;
    }
    match state(backend, &layers.site)? {
        Mounted::No => {}
        Mounted::InNamespace { pid } if backend != Backend::OverlayUser => {
            return Err(elsewhere(&layers.site, pid));
        }
        Mounted::Here => {
            // A kill between the two mounts leaves the first one.
            overlay::show_git(&layers.site)?;
            return Ok(Mounted::Here);
        }
        mounted => return Ok(mounted),
    }
    marker::refuse_other_host(&layers.site.state, &layers.site.top)?;
    changed::note(layers)?;
    match backend {
        Backend::Image => {
            let door = &layers.site.door;
            let held = image::mount(&layers.base, door)?;
            let mounted = crash::recover(layers, door.form())
                .and_then(|()| overlay::mount(layers, overlay::Rights::Full, &marker::Marker::current()));
            drop(held);
            if let Err(error) = mounted {
                // The base may have been mounted only for this workspace.
                let _ = image::unmount_if_unused(&layers.base, door);
                return Err(error);
            }
        }
        Backend::Overlay => {
            crash::recover(layers, Form::Trusted)?;
            overlay::mount(layers, overlay::Rights::Full, &marker::Marker::current())?;
        }
        Backend::OverlayUser => {
            crash::recover(layers, Form::User)?;
            let holder = programs.holder.as_ref().ok_or(Error::NoProgram { name: "sapwood" })?;
            return holder::start_or_replace(layers, holder);
        }
        Backend::Fuse => fuse::mount(layers, &programs.search)?,
        Backend::Btrfs | Backend::Reflink | Backend::Copy => {}
    }
    Ok(Mounted::Here)
}

/// Unmounts a workspace, if it is mounted. Returns [`Error::Busy`] with the processes that use it,
/// or [`Error::Inside`] with a mount inside it, unless `busy` is [`Busy::Detach`].
pub fn unmount(backend: Backend, site: &Site, busy: Busy) -> Result<(), Error> {
    unmount_with(backend, site, busy, Changes::Kept)
}

fn unmount_with(backend: Backend, site: &Site, busy: Busy, changes: Changes) -> Result<(), Error> {
    if backend == Backend::Fuse && fuse::is_dead(&site.top) {
        return fuse::unmount(site, Busy::Detach);
    }
    if busy == Busy::Refuse {
        refuse_mounts_inside(backend, site)?;
    }
    match (backend, state(backend, site)?) {
        (Backend::Image | Backend::Overlay | Backend::OverlayUser, Mounted::Here) => {
            overlay::unmount(site, busy, changes)
        }
        (Backend::Fuse, Mounted::Here) => fuse::unmount(site, busy),
        (Backend::OverlayUser, Mounted::InNamespace { .. }) => holder::end(site, busy, changes),
        (_, Mounted::InNamespace { pid }) if busy == Busy::Refuse => Err(elsewhere(site, pid)),
        // An earlier unmount may have left a bind mount.
        (_, Mounted::No) if busy == Busy::Refuse => overlay::refuse_copies(site),
        _ => Ok(()),
    }
}

/// Returns [`Error::Inside`] if something is mounted inside a workspace or over it, in the
/// namespace in which the workspace is mounted.
pub fn refuse_mounts_inside(backend: Backend, site: &Site) -> Result<(), Error> {
    let mounts = match state(backend, site)? {
        Mounted::InNamespace { pid } => sys::mounts_of(pid),
        Mounted::Here | Mounted::No => sys::mounts(),
    };
    let mounts = mounts.map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
    let (top, upper) = (place_of(&site.top), real(&site.upper));
    let is_ours = |mount: &&Mount| {
        mount.point == top
            && if backend == Backend::Fuse {
                sys::is_fuse(&mount.file_system)
            } else {
                mount.has_upper(&upper)
            }
    };
    let git = site.git.is_some().then(|| top.join(".git"));
    let inner = if backend.has_upper() {
        let own = mounts.iter().find(is_ours);
        let mut inside = own.map(|own| sys::mounts_on(&mounts, own.id)).unwrap_or_default();
        inside.retain(|mount| git.as_ref() != Some(&mount.point));
        inside.pop()
    } else {
        mounts.iter().rfind(|mount| mount.point.starts_with(&top))
    };
    match inner {
        Some(inner) => Err(Error::Inside { path: site.top.clone(), inner: inner.point.clone() }),
        None => Ok(()),
    }
}

/// Like [`unmount`] with [`Busy::Refuse`], for a process that mounts the workspace again with other
/// layers. A process that has joined the namespace of the workspace keeps that namespace: the next
/// [`mount`] is made there.
pub fn unmount_to_replace(backend: Backend, site: &Site) -> Result<(), Error> {
    match (backend, state(backend, site)?) {
        (Backend::OverlayUser, Mounted::Here) => overlay::unmount_in_namespace(site),
        _ => unmount(backend, site, Busy::Refuse),
    }
}

/// Unmounts a workspace whose upper layer will be deleted. Like [`unmount`], but does not wait for
/// the upper layer's writeback.
pub fn discard(backend: Backend, site: &Site, busy: Busy) -> Result<(), Error> {
    let is_overlay = matches!(backend, Backend::Image | Backend::Overlay | Backend::OverlayUser);
    // With the last mount, the kernel syncs the whole file system of the upper layer. So the mount
    // is kept and ended in the background. If that fails, the unmount is only slower.
    let kept = match state(backend, site)? {
        Mounted::Here if is_overlay => sys::mount::keep(&site.top).ok(),
        _ => None,
    };
    let unmounted = unmount_with(backend, site, busy, Changes::Discarded);
    if let Some(kept) = kept {
        kept.end_behind_us();
    }
    unmounted
}

fn elsewhere(site: &Site, pid: u32) -> Error {
    Error::Elsewhere { path: site.top.clone(), processes: vec![Process::of(pid)] }
}

/// Returns where the files of a workspace are visible.
pub fn state(backend: Backend, site: &Site) -> Result<Mounted, Error> {
    state_in(backend, site, &MountTable::default())
}

/// Like [`state`], for many workspaces: the table is read once.
pub fn state_in(backend: Backend, site: &Site, table: &MountTable) -> Result<Mounted, Error> {
    match backend {
        Backend::Image | Backend::Overlay | Backend::OverlayUser => overlay::state(site, table),
        Backend::Fuse => fuse::state(site),
        Backend::Btrfs | Backend::Reflink | Backend::Copy => Ok(Mounted::Here),
    }
}

/// Returns the path as it appears in the kernel's mount tables.
fn real(path: &Path) -> PathBuf {
    by_path::canonical(path).unwrap_or_else(|_| path.to_owned())
}

/// Like [`real`], without accessing `top` itself.
fn place_of(top: &Path) -> PathBuf {
    match (top.parent(), top.file_name()) {
        (Some(above), Some(name)) => real(above).join(name),
        _ => top.to_owned(),
    }
}
