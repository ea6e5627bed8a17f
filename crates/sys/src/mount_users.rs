//! The processes that use a mount, and therefore prevent its unmount.

use std::{collections::HashSet, fs, io, path::PathBuf};

use crate::{
    mount_table::mount_id,
    namespace::{MountNamespace, process_ids},
};

/// Returns the processes with an open file, a mapped file, a program, a root or a working directory
/// on the mount with the id `id`. Processes of other users are examined only if this process has
/// permission.
pub fn users_of_mount(id: u64) -> io::Result<Vec<u32>> {
    Ok(process_ids()?.into_iter().filter(|pid| uses(*pid, id)).collect())
}

/// Returns the processes in a mount namespace.
pub fn processes_in(namespace: &MountNamespace) -> io::Result<Vec<u32>> {
    let is_in = |pid: &u32| MountNamespace::of(*pid).as_ref() == Some(namespace);
    Ok(process_ids()?.into_iter().filter(is_in).collect())
}

/// Returns one process of each other mount namespace that this process has permission to examine.
pub fn other_namespaces() -> io::Result<Vec<(MountNamespace, u32)>> {
    let own = MountNamespace::current();
    let mut found: Vec<(MountNamespace, u32)> = Vec::new();
    for pid in process_ids()? {
        if let Some(namespace) = MountNamespace::of(pid)
            && Some(&namespace) != own.as_ref()
            && found.iter().all(|(known, _)| *known != namespace)
        {
            found.push((namespace, pid));
        }
    }
    Ok(found)
}

/// A file or directory that a process uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// The process.
    pub pid: u32,
    /// The id of the mount.
    pub mount: u64,
    /// The path, as the process sees it.
    pub path: PathBuf,
}

/// Returns what all processes use that this process may examine: their open and mapped files, their
/// programs, roots and working directories. One pass, for many mounts.
pub fn all_uses() -> io::Result<HashSet<Use>> {
    let mut found = HashSet::new();
    for pid in process_ids()? {
        for link in links_of(pid) {
            // A socket or a pipe has no path.
            if let Ok(path) = fs::read_link(&link)
                && path.is_absolute()
                && let Ok(Some((mount, _))) = mount_id(&link)
            {
                found.insert(Use { pid, mount, path });
            }
        }
    }
    Ok(found)
}

fn uses(pid: u32, id: u64) -> bool {
    links_of(pid).any(|link| matches!(mount_id(&link), Ok(Some((found, _))) if found == id))
}

/// Returns the links in `/proc` to what a process uses. Each directory is read when it is reached.
fn links_of(pid: u32) -> impl Iterator<Item = PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let single = ["cwd", "root", "exe"].map(|name| process.join(name));
    let lists = ["fd", "map_files"].map(|name| process.join(name));
    let links = |list: PathBuf| fs::read_dir(list).into_iter().flatten().flatten().map(|link| link.path());
    single.into_iter().chain(lists.into_iter().flat_map(links))
}
