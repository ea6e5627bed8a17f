//! Chooses a backend from facts that cost a few system calls.
//!
//! Nothing is mounted to test a backend. If a mount fails later, the kernel's reason is reported.

use std::{
    io,
    path::{Path, PathBuf},
};

use mountd::disks::Use;
use sys::{FileSystem, by_path};

use super::{
    Backend, Door, Error,
    door::{may_mount as is_privileged, serves},
    fill, fuse,
};

/// The processes that must see the files of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Every process on the machine.
    Everybody,
    /// Every process on the machine, unless only a full copy would serve them all. Then those that
    /// join the workspace.
    EverybodyWithoutCopy,
    /// At least those that join the workspace.
    Joined,
}

/// The directories of a future workspace. They need not exist.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory that holds the upper layer.
    pub upper: &'a Path,
    /// The base directory.
    pub bases: &'a Path,
    /// The directory of the workspace.
    pub top: &'a Path,
    /// The directories in which programs are searched, as in `PATH`.
    pub programs: &'a [PathBuf],
    /// The socket of the mount service, which need not exist.
    pub service: &'a Path,
}

/// Returns each backend that can serve `visibility`, the best first. The result of a backend that
/// does not work here is the reason.
pub fn probe(visibility: Visibility, place: &Place<'_>) -> Vec<(Backend, Result<(), String>)> {
    let verdict = |backend| (backend, works(backend, place));
    candidates(visibility).into_iter().map(verdict).collect()
}

/// Returns the wanted backend, or without one the best that works here. Returns [`Error::Unfit`] if
/// the wanted backend does not work.
pub fn choose(wanted: Option<Backend>, visibility: Visibility, place: &Place<'_>) -> Result<Backend, Error> {
    match wanted {
        Some(backend) => match works(backend, place) {
            Ok(()) => Ok(backend),
            Err(reason) => Err(Error::Unfit { backend, reason }),
        },
        None => {
            let mut all = candidates(visibility).into_iter();
            Ok(all.find(|backend| works(*backend, place).is_ok()).unwrap_or(Backend::Copy))
        }
    }
}

/// Returns the backends to try, the best first.
fn candidates(visibility: Visibility) -> Vec<Backend> {
    let mut all = Backend::ALL.to_vec();
    match visibility {
        Visibility::Joined => {}
        Visibility::Everybody => all.retain(|backend| *backend != Backend::OverlayUser),
        // A stable sort keeps the order otherwise.
        Visibility::EverybodyWithoutCopy => all.sort_by_key(|backend| match backend {
            Backend::OverlayUser => 1,
            Backend::Copy => 2,
            _ => 0,
        }),
    }
    all
}

/// Returns an error with the reason if a backend does not work here.
fn works(backend: Backend, place: &Place<'_>) -> Result<(), String> {
    let has_upper =
        matches!(backend, Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse);
    if has_upper && !is_there("/proc/self/mountinfo") {
        return Err("there is no '/proc/self/mountinfo', in which a workspace finds its mount".to_owned());
    }
    match backend {
        Backend::Image => {
            match may_mount("erofs") {
                Err(Denied::User) => is_served(place)?,
                other => other.map_err(Denied::reason)?,
            }
            is_in_first_user_namespace()?;
            if sys::user::kernel_version() < (6, 12) {
                return Err("this kernel cannot mount an image file (Linux 6.12 can)".to_owned());
            }
            let bases = file_system(place.bases)?;
            if bases.name.as_deref() == Some("tmpfs") {
                return Err(format!(
                    "the base directory '{}' lies in memory, where the kernel mounts no image",
                    place.bases.display()
                ));
            }
            holds_upper(place.upper)
        }
        Backend::Overlay => {
            may_mount("overlay").map_err(Denied::reason)?;
            is_in_first_user_namespace()?;
            holds_upper(place.upper)
        }
        Backend::OverlayUser => {
            may_make_namespaces()?;
            if sys::user::kernel_version() < (5, 11) {
                return Err("this kernel has no overlayfs for ordinary users (Linux 5.11 has)".to_owned());
            }
            holds_upper(place.upper)
        }
        Backend::Fuse => {
            fuse::works(place.programs)?;
            holds_upper(place.upper)
        }
        Backend::Btrfs => fill::can_snapshot(&existing(place.bases), &existing(place.top)),
        Backend::Reflink => fill::can_share_blocks(&existing(place.bases), &existing(place.top)),
        Backend::Copy => Ok(()),
    }
}

/// Returns an error with the reason if the mount service does not mount at this place.
fn is_served(place: &Place<'_>) -> Result<(), String> {
    serves(place.service)?;
    for (path, purpose) in [(place.bases, Use::File), (place.upper, Use::Upper), (place.top, Use::Place)] {
        let path = existing(path);
        if !purpose.takes_path(&path).unwrap_or(false) {
            return Err(format!(
                "this user may not mount, and '{}' lies on a file system that the mount service does not take",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Returns who mounts a new workspace with this backend.
pub fn door_for(backend: Backend, place: &Place<'_>) -> Door {
    if backend == Backend::Image && !is_privileged() {
        Door::Service(place.service.to_owned())
    } else {
        Door::Own
    }
}

/// The reason why this process cannot mount a file system.
enum Denied {
    User,
    Kernel(&'static str),
}

impl Denied {
    fn reason(self) -> String {
        match self {
            Denied::User => "this user may not mount".to_owned(),
            Denied::Kernel(kind) => format!("this kernel has no file system '{kind}'"),
        }
    }
}

fn may_mount(kind: &'static str) -> Result<(), Denied> {
    sys::mount::may_mount(kind).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Denied::User,
        _ => Denied::Kernel(kind),
    })
}

/// Returns an error in a container whose root is an unprivileged user of the host, because mounts
/// there have fewer rights.
fn is_in_first_user_namespace() -> Result<(), String> {
    let map = by_path::read(Path::new("/proc/self/uid_map")).ok().flatten().unwrap_or_default();
    let mut fields = map.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let all = [b"0".as_slice(), b"0", b"4294967295"];
    if map.is_empty() || all.iter().all(|field| fields.next() == Some(field)) {
        Ok(())
    } else {
        Err("this process is in a user namespace".to_owned())
    }
}

fn may_make_namespaces() -> Result<(), String> {
    let is = |path: &str, value: &[u8]| {
        let content = by_path::read(Path::new(path)).ok().flatten();
        content.is_some_and(|content| content.trim_ascii() == value)
    };
    let is_root = sys::user::effective_uid() == 0;
    if is("/proc/sys/user/max_user_namespaces", b"0") {
        return Err("the setting user.max_user_namespaces forbids user namespaces".to_owned());
    }
    if !is_root && is("/proc/sys/kernel/unprivileged_userns_clone", b"0") {
        return Err("the setting kernel.unprivileged_userns_clone forbids user namespaces".to_owned());
    }
    let is_restricted = is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", b"1");
    if !is_root && is_restricted && !has_profile() {
        return Err(
            "the setting kernel.apparmor_restrict_unprivileged_userns forbids user namespaces; the profile of the \
             package allows them: apparmor_parser -r /etc/apparmor.d/sapwood"
                .to_owned(),
        );
    }
    if !is_there("/proc/self/uid_map") {
        return Err("there is no '/proc/self/uid_map', in which a user namespace gets its ids".to_owned());
    }
    sys::namespace::probe().map_err(|error| {
        let reason = sys::reason(&error);
        format!("the kernel refuses user namespaces to this process ({reason}), as in most containers")
    })
}

fn is_there(path: &str) -> bool {
    matches!(by_path::stat_followed(Path::new(path)), Ok(Some(_)))
}

/// Returns true if AppArmor applies the profile of the package to this process.
fn has_profile() -> bool {
    let label = by_path::read(Path::new("/proc/self/attr/apparmor/current")).ok().flatten();
    label.is_some_and(|label| is_profile(&label))
}

/// `packaging/apparmor/sapwood` names the profile.
fn is_profile(label: &[u8]) -> bool {
    label.split(u8::is_ascii_whitespace).next() == Some(b"sapwood")
}

/// Types of file systems that the kernel rejects for an upper layer, because they cannot store its
/// extended attributes or change by themselves.
const UNFIT: &[&str] =
    &["overlay", "vfat", "exfat", "msdos", "ntfs3", "fuseblk", "squashfs", "erofs", "iso9660", "ecryptfs"];

fn holds_upper(upper: &Path) -> Result<(), String> {
    let found = file_system(upper)?;
    let name = found.name.as_deref().unwrap_or("unknown");
    if found.is_local && !UNFIT.contains(&name) {
        Ok(())
    } else {
        Err(format!(
            "the file system '{name}' of '{}' cannot hold an upper layer; choose another one with \
             --upper-dir",
            upper.display()
        ))
    }
}

fn file_system(path: &Path) -> Result<FileSystem, String> {
    let path = existing(path);
    FileSystem::of(&path)
        .map_err(|error| format!("cannot examine '{}': {}", path.display(), sys::reason(&error)))
}

/// Returns the path, or its nearest parent directory that exists.
fn existing(path: &Path) -> PathBuf {
    let there = |path: &&Path| matches!(by_path::stat_followed(path), Ok(Some(_)));
    path.ancestors().find(there).unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_the_profile_of_the_package() {
        assert!(is_profile(b"sapwood (unconfined)\n"));
        for label in [&b"unconfined\n"[..], b"", b"sapwood-other (enforce)\n", b"snap.sapwood (enforce)\n"] {
            assert!(!is_profile(label));
        }
    }

    #[test]
    fn orders_backends_by_who_sees_the_files() {
        use Backend::*;
        assert_eq!(candidates(Visibility::Joined), Backend::ALL);
        assert_eq!(candidates(Visibility::Everybody), [Image, Overlay, Fuse, Btrfs, Reflink, Copy]);
        let without_copy = [Image, Overlay, Fuse, Btrfs, Reflink, OverlayUser, Copy];
        assert_eq!(candidates(Visibility::EverybodyWithoutCopy), without_copy);
    }
}
