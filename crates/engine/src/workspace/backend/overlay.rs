//! overlayfs in the mount namespace of this process.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use sys::{
    Dir, File, FileType, MountTable, by_path,
    mount::{Attributes, MountError, Overlay, Unmount},
};

use super::{
    super::{
        crash::{is_torn, mark},
        record::Durability,
    },
    Busy, Changes, Door, Error, Layers, Mounted, Process, Site, door,
    error::explained,
    marker::{self, Marker},
    place_of, real,
};

const FILE_SYSTEM: &str = "overlay";

/// The rights of the process that mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// Those of root.
    Full,
    /// Those within a user namespace.
    InUserNamespace,
}

/// Mounts the overlay. Returns the lock on its upper layer, which lasts until the file is closed.
/// The workspace must not be mounted.
pub(super) fn mount(layers: &Layers, rights: Rights, marker: &Marker) -> Result<File, Error> {
    refuse_absent(&layers.site.top)?;
    let lock = lock(&layers.site.upper, &layers.site.top)?;
    refuse_copies(&layers.site)?;
    mount_locked(layers, rights, marker).map(|()| lock)
}

/// Like [`mount`], for an upper layer that this process or the holder of the workspace locks.
pub(super) fn mount_locked(layers: &Layers, rights: Rights, marker: &Marker) -> Result<(), Error> {
    refuse_cover(&layers.site.top)?;
    make_work(&layers.site)?;
    match layers.durability {
        Durability::Synced => mark::settle(&layers.site)?,
        Durability::Volatile => mark::begin(&layers.site)?,
    }
    // Written before the mount: if this process is killed in between, the marker has no mount,
    // which is harmless.
    marker.write(&layers.site.state)?;
    make_git_place(&layers.site)?;
    attach(layers, rights).inspect_err(|_| Marker::remove(&layers.site.state))?;
    show_git(&layers.site)
}

/// Makes the directory of the upper layer over which [`show_git`] mounts. If only the overlay is
/// mounted, Git must not look for a repository above, so it finds one whose version it refuses.
fn make_git_place(site: &Site) -> Result<(), Error> {
    const REFUSED: [(&str, &[u8]); 2] = [
        ("HEAD", b"ref: refs/heads/not-mounted\n"),
        ("config", b"[core]\n\trepositoryformatversion = 999\n"),
    ];
    if site.git.is_none() {
        return Ok(());
    }
    let place = site.upper.join(".git");
    // Processes may have put a link there.
    let found = by_path::stat(&place).map_err(Error::io("examine", &place))?;
    if found.is_some_and(|stat| stat.file_type != FileType::Directory) {
        by_path::remove_file(&place).map_err(Error::io("remove", &place))?;
    }
    for dir in [place.clone(), place.join("objects"), place.join("refs")] {
        match by_path::create_dir(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Io { action: "create", path: dir, source: error });
            }
            _ => {}
        }
    }
    for (name, content) in REFUSED {
        let path = place.join(name);
        // The overlay is mounted without `fsync`: a crash may have taken the content.
        if !is_torn(&path) && matches!(by_path::stat(&path), Ok(Some(_))) {
            continue;
        }
        let _ = by_path::remove_file(&path);
        let written = by_path::create_new(&path, 0o666).and_then(|mut file| file.write_all(content));
        written.map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// Shows the Git directory of a sealed workspace in the mounted overlay, unless it is shown.
/// Follows no link.
pub(super) fn show_git(site: &Site) -> Result<(), Error> {
    let (Some(git), path) = (&site.git, site.git_place()) else { return Ok(()) };
    let place = open_place(site).map_err(Error::io("open", &path))?;
    match sys::mount_id(&place.path()).map_err(Error::io("examine", &path))? {
        Some((_, true)) => Ok(()),
        _ => site.door.show_git(git, &site.top, &place.path()),
    }
}

/// Ends the mount of the Git directory. Returns [`Error::Busy`] if processes use it.
fn hide_git(site: &Site) -> Result<(), Error> {
    // A link or a file is no mount of this program's.
    let Ok(place) = open_place(site) else { return Ok(()) };
    let path = site.git_place();
    match sys::mount_id(&place.path()).map_err(Error::io("examine", &path))? {
        Some((_, true)) if site.git.is_some() => {
            // It would be in use.
            drop(place);
            unmount_unused(&path, &site.door)
        }
        _ => Ok(()),
    }
}

fn open_place(site: &Site) -> std::io::Result<Dir> {
    Dir::open(&site.top)?.open_dir(b".git")
}

fn attach(layers: &Layers, rights: Rights) -> Result<(), Error> {
    let base = layers.base.layers();
    let overlay = Overlay {
        lower: layers.frozen.iter().chain(&base).map(PathBuf::as_path).collect(),
        data: layers.base.data_layer(),
        upper: &layers.site.upper,
        work: &layers.site.work,
        attributes: match rights {
            Rights::Full => layers.site.door.attributes(),
            Rights::InUserNamespace => Attributes::User,
        },
        durability: match layers.durability {
            Durability::Synced => sys::mount::Durability::Synced,
            Durability::Volatile => sys::mount::Durability::Volatile,
        },
    };
    if let (Rights::Full, Some(socket)) = (rights, layers.site.door.service()) {
        return ask(socket, &overlay, &layers.site.top);
    }
    let made = make(&overlay, &layers.site.top).or_else(|error| match overlay.durability {
        // Linux 5.10 and newer know `volatile`.
        sys::mount::Durability::Volatile if sys::mount::takes_no_descriptors(&error) => {
            let synced = Overlay { durability: sys::mount::Durability::Synced, ..overlay.clone() };
            make(&synced, &layers.site.top)
        }
        _ => Err(error),
    });
    made.map_err(|error| {
        let needed: Vec<&Path> = overlay.lower.iter().copied().chain(overlay.data).collect();
        explained(error, &layers.site.top, FILE_SYSTEM, Some(&layers.site.upper), &needed)
    })
}

/// Lets the mount service mount the overlay at `top`.
fn ask(socket: &Path, overlay: &Overlay<'_>, top: &Path) -> Result<(), Error> {
    let layers = overlay.upper.parent().expect("an upper layer lies in a directory");
    debug_assert!(overlay.upper == layers.join("upper") && overlay.work == layers.join("work"));
    let wanted = mountd::client::Overlay {
        top,
        layers,
        lower: overlay.lower.clone(),
        is_volatile: overlay.durability == sys::mount::Durability::Volatile,
    };
    door::asked(socket, top, |service| service.mount_overlay(&wanted))
}

fn make(overlay: &Overlay<'_>, top: &Path) -> Result<(), MountError> {
    match sys::mount::overlay(overlay) {
        Ok(made) => made.attach(top).map_err(Into::into),
        Err(error) if sys::mount::takes_no_descriptors(&error) => {
            // The second form's error is clearer only if the kernel supports that form.
            sys::mount::overlay_by_names(overlay, top).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}

/// Unmounts the overlay of this namespace.
pub(super) fn unmount(site: &Site, busy: Busy, changes: Changes) -> Result<(), Error> {
    let top = &site.top;
    if busy == Busy::Detach {
        site.door.unmount(top, Unmount::Lazy).map_err(Error::io("unmount", top))?;
        return finish(site, changes);
    }
    refuse_users_elsewhere(site)?;
    hide_git(site)?;
    if let Err(error) = unmount_unused(top, &site.door) {
        show_git(site)?;
        return Err(error);
    }
    refuse_copies(site)?;
    refuse_users_elsewhere(site)?;
    finish(site, changes)
}

/// Returns an error if processes use a copy of the overlay in another mount namespace.
fn refuse_users_elsewhere(site: &Site) -> Result<(), Error> {
    let processes = users_elsewhere(&real(&site.upper));
    if processes.is_empty() { Ok(()) } else { Err(Error::Elsewhere { path: site.top.clone(), processes }) }
}

/// Unmounts the overlay in the namespace of a holder, which this process has joined. The marker
/// stays, so the holder does too.
pub(super) fn unmount_in_namespace(site: &Site) -> Result<(), Error> {
    refuse_copies(site)?;
    refuse_users_elsewhere(site)?;
    unmount_unused(&site.top, &site.door)?;
    mark::settle(site)
}

/// Unmounts the overlay at `top`. Returns [`Error::Busy`] if processes use it.
fn unmount_unused(top: &Path, door: &Door) -> Result<(), Error> {
    const TRIES: u32 = 4;
    const PAUSE: Duration = Duration::from_millis(5);
    let mut tries = 0;
    while let Err(source) = door.unmount(top, Unmount::Plain) {
        if source.kind() != std::io::ErrorKind::ResourceBusy {
            return Err(Error::Io { action: "unmount", path: top.to_owned(), source });
        }
        let processes = users(top)?;
        tries += 1;
        // A process that only passes through, such as a search through `/proc`, uses the mount for
        // a moment.
        if !processes.is_empty() || tries == TRIES {
            return Err(Error::Busy { path: top.to_owned(), processes });
        }
        thread::sleep(PAUSE * tries);
    }
    Ok(())
}

/// Completes an unmount: makes an upper layer that is kept durable, and removes the marks.
pub(super) fn finish(site: &Site, changes: Changes) -> Result<(), Error> {
    if changes == Changes::Kept {
        mark::settle(site)?;
    }
    Marker::remove(&site.state);
    Ok(())
}

/// Returns where the overlay is visible.
pub(super) fn state(site: &Site, table: &MountTable) -> Result<Mounted, Error> {
    let found = table.mount_at(&site.top).map_err(Error::io("examine", &site.top))?;
    let upper = real(&site.upper);
    match found {
        Some(mount) if mount.has_upper(&upper) => Ok(Mounted::Here),
        _ => Ok(marker::elsewhere(&site.state, |mount| mount.has_upper(&upper))),
    }
}

/// Returns the processes that use the mount at `top`.
pub(super) fn users(top: &Path) -> Result<Vec<Process>, Error> {
    let Some((id, true)) = sys::mount_id(top).map_err(Error::io("examine", top))? else {
        return Ok(Vec::new());
    };
    let pids = sys::users_of_mount(id).map_err(Error::io("read", Path::new("/proc")))?;
    Ok(pids.into_iter().map(Process::of).collect())
}

/// Returns the processes that use a copy of the overlay in another mount namespace. A namespace
/// that was created while the overlay was mounted has such a copy, which stays unless unmounts
/// propagate. An unused copy does no harm. A mount inside a copy counts as a part of it.
pub(super) fn users_elsewhere(upper: &Path) -> Vec<Process> {
    let ids = |pid: u32| {
        let mounts = sys::mounts_of(pid).unwrap_or_default();
        let copies = mounts.iter().filter(|mount| mount.has_upper(upper)).map(|mount| mount.id);
        let below = |id| sys::mounts_on(&mounts, id).into_iter().map(|mount| mount.id).chain([id]);
        copies.flat_map(below).collect::<Vec<u64>>()
    };
    let copies = sys::other_namespaces().unwrap_or_default().into_iter().flat_map(|(_, pid)| ids(pid));
    let mut users: Vec<u32> = copies.flat_map(|id| sys::users_of_mount(id).unwrap_or_default()).collect();
    users.sort_unstable();
    users.dedup();
    users.into_iter().map(Process::of).collect()
}

/// Returns an error if a bind mount shows the workspace at another place in this namespace. The
/// upper layer is in use there.
pub(super) fn refuse_copies(site: &Site) -> Result<(), Error> {
    let (top, upper) = (place_of(&site.top), real(&site.upper));
    let mounts = sys::mounts().map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
    match mounts.into_iter().find(|mount| mount.has_upper(&upper) && mount.point != top) {
        Some(copy) => Err(Error::Copied { path: site.top.clone(), copy: copy.point }),
        None => Ok(()),
    }
}

/// Returns an error if the directory of a workspace does not exist.
pub(super) fn refuse_absent(top: &Path) -> Result<(), Error> {
    match by_path::stat_followed(top).map_err(Error::io("examine", top))? {
        Some(_) => Ok(()),
        None => Err(Error::NoDirectory { path: top.to_owned() }),
    }
}

/// Creates the work directory if it is missing. It holds nothing between two mounts.
fn make_work(site: &Site) -> Result<(), Error> {
    let work = &site.work;
    if site.door.service().is_some() {
        // The kernel's directory may be one of a mount by root, which the service cannot empty.
        let _ = by_path::remove_dir(&work.join("work"));
    }
    match by_path::create_dir(work) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::Io { action: "create", path: work.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Locks the upper layer. The kernel only warns if an upper layer is mounted twice, and the
/// behavior is then undefined.
pub(super) fn lock(upper: &Path, top: &Path) -> Result<File, Error> {
    let dir = match by_path::open(upper) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NoUpper { top: top.to_owned(), upper: upper.to_owned() });
        }
        opened => opened.map_err(Error::io("open", upper))?,
    };
    if sys::try_lock(&dir).map_err(Error::io("lock", upper))? {
        Ok(dir)
    } else {
        Err(Error::Locked { upper: upper.to_owned() })
    }
}

/// Returns true if `lock` is the lock of the directory `upper`.
pub(super) fn is_lock_of(lock: &File, upper: &Path) -> bool {
    let id = |stat: sys::Stat| (stat.dev, stat.ino);
    let locked = sys::stat_of(lock).ok().map(id);
    locked.is_some() && by_path::stat_followed(upper).ok().flatten().map(id) == locked
}

fn refuse_cover(top: &Path) -> Result<(), Error> {
    match sys::mount_at(top).map_err(Error::io("examine", top))? {
        Some(mount) => Err(Error::Covered { path: top.to_owned(), file_system: mount.file_system }),
        None => Ok(()),
    }
}
