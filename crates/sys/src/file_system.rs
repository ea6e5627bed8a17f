//! The file system of a path.

use std::{io, path::Path};

use crate::{by_path, mount_table};

/// Types of network file systems that [`by_path::is_remote`], which follows Git, does not
/// recognize.
const DISTANT: &[&str] = &["9p", "beegfs", "ceph", "gfs2", "glusterfs", "gpfs", "lustre", "virtiofs"];

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The kernel's name for its type: `ext4`, `nfs4`, `fuse.sshfs`. `None` if the kernel does not
    /// report it.
    pub name: Option<String>,
    /// False for a network file system, and for one that a program serves (FUSE).
    pub is_local: bool,
}

impl FileSystem {
    /// Returns the file system of `path`. Sources: `statfs(2)`, and `proc_pid_mountinfo(5)` for the
    /// name.
    pub fn of(path: &Path) -> io::Result<FileSystem> {
        let is_remote = by_path::is_remote(path)?;
        let real = by_path::canonical(path)?;
        let mounts = mount_table::mounts().unwrap_or_default();
        let name = mount_table::type_of(&mounts, &real);
        let is_distant = name.as_deref().is_some_and(|name| DISTANT.contains(&name));
        Ok(FileSystem { name, is_local: !is_remote && !is_distant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
        30 22 0:25 / /home rw - nfs4 server:/home rw\n\
        31 22 0:26 / /home rw shared:2 master:3 - fuse.sshfs host: rw\n\
        32 22 0:27 / /my\\040disk rw - xfs /dev/sdb rw\n";

    #[test]
    fn the_nearest_and_last_mount_counts() {
        let found = |path: &str| mount_table::type_of(&mount_table::all_in(MOUNTS), Path::new(path));
        assert_eq!(found("/usr/bin").as_deref(), Some("ext4"));
        assert_eq!(found("/home/me").as_deref(), Some("fuse.sshfs"));
        assert_eq!(found("/homework").as_deref(), Some("ext4"));
        assert_eq!(found("/my disk/x").as_deref(), Some("xfs"));
        assert_eq!(mount_table::type_of(&mount_table::all_in(b"nonsense\n"), Path::new("/")), None);
    }

    #[test]
    fn proc_is_local_and_has_a_name() {
        let found = FileSystem::of(Path::new("/proc/self")).expect("every Linux has it");
        assert_eq!(found, FileSystem { name: Some("proc".to_owned()), is_local: true });
    }
}
