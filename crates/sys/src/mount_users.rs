//! The processes that use a mount, and therefore prevent its unmount.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

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

fn uses(pid: u32, id: u64) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let is_on_mount = |link: &Path| matches!(mount_id(link), Ok(Some((found, _))) if found == id);
    let any_in = |name: &str| {
        let links = fs::read_dir(process.join(name)).into_iter().flatten();
        links.flatten().any(|link| is_on_mount(&link.path()))
    };
    ["cwd", "root", "exe"].iter().any(|name| is_on_mount(&process.join(name)))
        || any_in("fd")
        || any_in("map_files")
}
