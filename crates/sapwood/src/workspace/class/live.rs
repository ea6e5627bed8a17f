//! The processes that use workspaces: one pass over all processes, for any number of workspaces.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use engine::workspace::{
    backend::{Backend, Mounted},
    record::Workspace,
};
use sys::{Use, by_path, namespace::MountNamespace};

/// The files that the processes of this machine use, as far as this user may see it.
pub struct Users {
    /// A process that uses this directory, or something below it.
    below: HashMap<PathBuf, u32>,
    /// A process that uses an overlay with this upper layer, in any namespace.
    of_upper: HashMap<PathBuf, u32>,
    /// The processes of each mount namespace.
    namespaces: HashMap<String, Vec<u32>>,
}

impl Users {
    /// Examines all processes.
    pub fn read() -> io::Result<Users> {
        let uses: HashSet<Use> = sys::all_uses()?;
        let (mut below, mut on_mount) = (HashMap::new(), HashMap::new());
        for Use { pid, mount, path } in &uses {
            on_mount.insert(*mount, *pid);
            for dir in path.ancestors() {
                below.insert(dir.to_owned(), *pid);
            }
        }
        let mut of_upper = HashMap::new();
        let mut namespaces: HashMap<String, Vec<u32>> = HashMap::new();
        for pid in sys::namespace::process_ids()? {
            if let Some(namespace) = MountNamespace::of(pid) {
                namespaces.entry(namespace.to_string()).or_default().push(pid);
            }
        }
        let tables =
            namespaces.values().filter_map(|pids| pids.iter().find_map(|pid| sys::mounts_of(*pid).ok()));
        for mount in tables.flatten() {
            if let (Some(upper), Some(pid)) = (mount.upper_layer(), on_mount.get(&mount.id)) {
                of_upper.insert(upper, *pid);
            }
        }
        Ok(Users { below, of_upper, namespaces })
    }

    /// Returns a process that uses a workspace.
    pub fn of(&self, workspace: &Workspace, mounted: Mounted) -> Option<u32> {
        let real = |path: &Path| by_path::realpath_forgiving(path);
        let has_upper = workspace.record.backend.has_upper();
        let by_upper = || has_upper.then(|| self.of_upper.get(&real(&workspace.upper()))).flatten();
        self.below.get(&real(&workspace.record.dir)).or_else(by_upper).copied().or_else(|| match mounted {
            Mounted::InNamespace { pid } if workspace.record.backend == Backend::OverlayUser => {
                self.beside(pid)
            }
            // Somebody else's namespace keeps it.
            Mounted::InNamespace { pid } => Some(pid),
            Mounted::Here | Mounted::No => None,
        })
    }

    /// Returns another process in the namespace of a holder.
    fn beside(&self, holder: u32) -> Option<u32> {
        let namespace = MountNamespace::of(holder)?.to_string();
        self.namespaces.get(&namespace)?.iter().find(|pid| **pid != holder).copied()
    }
}
