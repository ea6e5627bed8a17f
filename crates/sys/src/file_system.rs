//! The file system that a path is on.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use crate::by_path;

/// Types of file systems on another machine that [`by_path::is_remote`], which follows Git, does
/// not know.
const DISTANT: &[&str] = &["9p", "beegfs", "ceph", "gfs2", "glusterfs", "gpfs", "lustre", "virtiofs"];

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The kernel's name for its type: `ext4`, `nfs4`, `fuse.sshfs`. `None` if the kernel does not
    /// say.
    pub name: Option<String>,
    /// False if it is on another machine, or if a program serves it (FUSE).
    pub is_local: bool,
}

impl FileSystem {
    /// Returns the file system of `path`. Sources: `statfs(2)`, and `proc_pid_mountinfo(5)` for the
    /// name.
    pub fn of(path: &Path) -> io::Result<FileSystem> {
        let is_remote = by_path::is_remote(path)?;
        let real = by_path::canonical(path)?;
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let name = type_of(&mounts, &real);
        let is_distant = name.as_deref().is_some_and(|name| DISTANT.contains(&name));
        Ok(FileSystem { name, is_local: !is_remote && !is_distant })
    }
}

/// The type of the mount that `path` is on: the last of those with the longest mount point above
/// it, because a later mount covers an earlier one.
fn type_of(mounts: &[u8], path: &Path) -> Option<String> {
    let mounts = mounts.split(|&byte| byte == b'\n').filter_map(parse);
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    above.max_by_key(|(point, _)| point.as_os_str().len()).map(|(_, name)| name)
}

/// The mount point and the type in a line.
fn parse(line: &[u8]) -> Option<(PathBuf, String)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let point = unescaped(fields.nth(4)?);
    let name = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some((OsString::from_vec(point).into(), String::from_utf8_lossy(name).into_owned()))
}

/// A field in which the kernel wrote blanks and the like as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::with_capacity(field.len()), 0);
    while let Some(&byte) = field.get(at) {
        let digits = field.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                plain.push(code);
                at += 4;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    plain
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
        let found = |path: &str| type_of(MOUNTS, Path::new(path));
        assert_eq!(found("/usr/bin").as_deref(), Some("ext4"));
        assert_eq!(found("/home/me").as_deref(), Some("fuse.sshfs"));
        assert_eq!(found("/homework").as_deref(), Some("ext4"));
        assert_eq!(found("/my disk/x").as_deref(), Some("xfs"));
        assert_eq!(type_of(b"nonsense\n", Path::new("/")), None);
    }

    #[test]
    fn proc_is_local_and_has_a_name() {
        let found = FileSystem::of(Path::new("/proc/self")).expect("every Linux has it");
        assert_eq!(found, FileSystem { name: Some("proc".to_owned()), is_local: true });
    }
}
