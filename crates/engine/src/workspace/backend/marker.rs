//! The file `mounted` in a workspace's state directory: the process that mounted the workspace
//! last, and its host and namespace.
//!
//! The kernel's mount table shows only one namespace on one machine. The marker covers the others.
//! A stale marker does no harm, because each field is compared with the current state before it is
//! used.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use sys::{
    by_path,
    namespace::{self, MountNamespace},
};

use super::{super::boot::Boot, Error, Mounted};

/// The facts about a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::workspace) struct Marker {
    /// The host's name.
    pub(super) host: String,
    /// The kernel's boot id, which changes with every boot.
    pub(super) boot: String,
    /// The mount namespace, in the format of `/proc/PID/ns/mnt`.
    pub(super) namespace: String,
    /// The process that holds the mount, for backends with one.
    pub(super) holder: Option<namespace::Process>,
}

impl Marker {
    /// Returns the marker for a mount that this process makes in its own namespace.
    pub(super) fn current() -> Marker {
        let namespace = MountNamespace::current().map(|namespace| namespace.to_string()).unwrap_or_default();
        Marker { host: host(), boot: boot(), namespace, holder: None }
    }

    /// Returns true if the marker was written since the last boot.
    pub(in crate::workspace) fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// Writes the marker atomically to the state directory.
    pub(super) fn write(&self, state: &Path) -> Result<(), Error> {
        let path = place(state);
        let mut text = format!("host {}\nboot {}\nnamespace {}\n", self.host, self.boot, self.namespace);
        if let Some(holder) = self.holder {
            writeln!(text, "holder {} {}", holder.pid, holder.start).expect("memory takes any text");
        }
        let staged = state.join(format!(".{NAME}-{}", std::process::id()));
        let written = || {
            use std::io::Write as _;
            let _ = by_path::remove_file(&staged);
            by_path::create_new(&staged, 0o666)?.write_all(text.as_bytes())?;
            by_path::rename(&staged, &path)
        };
        written().map_err(|source| {
            let _ = by_path::remove_file(&staged);
            Error::Io { action: "write", path, source }
        })
    }

    /// Reads the marker. Returns `None` if it is missing or damaged.
    pub(in crate::workspace) fn read(state: &Path) -> Option<Marker> {
        let text = String::from_utf8(by_path::read(&place(state)).ok()??).ok()?;
        let mut marker = Marker::default();
        for line in text.lines() {
            match line.split_once(' ')? {
                ("host", value) => marker.host = value.to_owned(),
                ("boot", value) => marker.boot = value.to_owned(),
                ("namespace", value) => marker.namespace = value.to_owned(),
                ("holder", value) => {
                    let (pid, start) = value.split_once(' ')?;
                    marker.holder =
                        Some(namespace::Process { pid: pid.parse().ok()?, start: start.parse().ok()? });
                }
                _ => {}
            }
        }
        // A crash may take the content of the file.
        (!marker.host.is_empty()).then_some(marker)
    }

    /// Removes the marker, if it exists.
    pub(super) fn remove(state: &Path) {
        let _ = by_path::remove_file(&place(state));
    }
}

const NAME: &str = "mounted";

pub(super) fn place(state: &Path) -> PathBuf {
    state.join(NAME)
}

/// Returns an error if another running host may have mounted the workspace.
pub(super) fn refuse_other_host(state: &Path, top: &Path) -> Result<(), Error> {
    match Marker::read(state) {
        Some(marker) if marker.host != host() && !marker.is_of_this_boot() => {
            Err(Error::OtherHost { path: top.to_owned(), host: marker.host, marker: place(state) })
        }
        _ => Ok(()),
    }
}

/// Returns true if a process belongs to this user or to the owner of the workspace. The kernel
/// reuses the numbers of namespaces, so a process of another user may be in one with a recorded
/// number, with mounts of that user's choice.
fn is_ours(state: &Path, pid: u32) -> bool {
    let user = namespace::user_of(pid);
    let owner = || by_path::stat(state).ok().flatten().map(|stat| stat.uid);
    user.is_some() && (user == Some(sys::user::effective_uid()) || user == owner())
}

/// Returns where the workspace is mounted according to the marker, for a process that does not see
/// the mount. `is_mount` returns true for the workspace's mount.
pub(super) fn elsewhere(state: &Path, is_mount: impl Fn(&sys::Mount) -> bool) -> Mounted {
    let Some(marker) = Marker::read(state).filter(Marker::is_of_this_boot) else { return Mounted::No };
    if let Some(holder) = marker.holder.filter(namespace::Process::is_alive)
        && is_ours(state, holder.pid)
    {
        // A rebase that was killed leaves a holder without a mount.
        let is_empty = sys::mounts_of(holder.pid).is_ok_and(|mounts| !mounts.iter().any(&is_mount));
        return if is_empty { Mounted::No } else { Mounted::InNamespace { pid: holder.pid } };
    }
    let current = MountNamespace::current().map(|namespace| namespace.to_string());
    if current.as_deref() == Some(&*marker.namespace) {
        return Mounted::No;
    }
    let sees = |pid: &u32| {
        is_ours(state, *pid)
            && MountNamespace::of(*pid).is_some_and(|namespace| namespace.to_string() == marker.namespace)
            && sys::mounts_of(*pid).is_ok_and(|mounts| mounts.iter().any(&is_mount))
    };
    match namespace::process_ids().unwrap_or_default().into_iter().find(sees) {
        Some(pid) => Mounted::InNamespace { pid },
        None => Mounted::No,
    }
}

fn host() -> String {
    String::from_utf8_lossy(&sys::user::host_name()).into_owned()
}

/// Returns the kernel's boot id.
pub(in crate::workspace) fn boot() -> String {
    Boot::current().map(|boot| boot.id().to_owned()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_the_caller_and_the_owner_are_joined() {
        use std::{
            os::unix::{fs::chown, process::CommandExt as _},
            process::Command,
        };
        const OTHER: u32 = 54321;
        let state = tempfile::tempdir().expect("a directory for tests");
        assert!(is_ours(state.path(), std::process::id()));
        // Only root can become another user.
        let Ok(mut child) = Command::new("sleep").arg("100").uid(OTHER).spawn() else {
            return;
        };
        assert!(!is_ours(state.path(), child.id()));
        chown(state.path(), Some(OTHER), None).expect("root may");
        assert!(is_ours(state.path(), child.id()));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(!is_ours(state.path(), child.id()), "it has ended");
    }
}
