//! Files by any path, symbolic links followed as the kernel does: for the Git directory and for what
//! the user named. Never for what a tree names; that is [`crate::Dir`]'s business.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD};

use crate::{Dir, FileType, Stat, stat::stat_at};

/// Opens for reading.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Creates for writing, `O_EXCL`, with these permission bits less the umask.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Opens for appending; creates with these permission bits less the umask if `create`.
pub fn append(path: &Path, create: bool, mode: u32) -> io::Result<File> {
    OpenOptions::new().append(true).create(create).mode(mode).open(path)
}

/// The whole content; `None` if there is no such file (`ENOENT`, `ENOTDIR`).
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    absent_is_none(fs::read(path))
}

/// `lstat`; `None` if there is nothing.
pub fn stat(path: &Path) -> io::Result<Option<Stat>> {
    stat_at(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// `stat`, links followed; `None` if there is nothing or the link leads nowhere.
pub fn stat_followed(path: &Path) -> io::Result<Option<Stat>> {
    stat_at(CWD, path, AtFlags::empty())
}

/// `unlink`.
pub fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// `rename`.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// `renameat2` with `RENAME_NOREPLACE`: `EEXIST` if there is anything at `to`, an empty directory included.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, rustix::fs::RenameFlags::NOREPLACE)?)
}

/// `link`: a second name for `from`, which is not followed if it is a symbolic link.
pub fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)
}

/// `symlink`.
pub fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// `readlink`; `None` if there is nothing or it is no link.
pub fn read_link(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_link(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        answer => absent_is_none(answer),
    }
}

/// `mkdir` with mode 0777 and umask.
pub fn create_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o777).create(path)
}

/// `mkdir` of the path and of whatever is missing above it.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// `chmod`: sets the permission bits, umask ignored. Links are followed.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// `rmdir`.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
}

/// Removes a directory with all it holds. Links are removed, not followed.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

/// Names and types of a directory's entries; see [`Dir::list`].
pub fn list(path: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let names = Dir::open_with(path, crate::Capabilities::NONE)?.list()?;
    Ok(names.into_iter().map(|(name, file_type)| (OsString::from_vec(name), file_type)).collect())
}

/// The path without links, `.` and `..`, absolute. It must exist.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// As [`canonical`], of a path that need not exist: from the first component that is missing on, it is taken by
/// its letters. Absolute if `path` is.
pub fn resolved(path: &Path) -> PathBuf {
    let components: Vec<_> = path.components().collect();
    let found = (1..=components.len()).rev().find_map(|there| {
        let real = fs::canonicalize(components[..there].iter().collect::<PathBuf>()).ok()?;
        Some((real, there))
    });
    let (mut real, there) = found.unwrap_or_default();
    for component in &components[there..] {
        match component {
            Component::ParentDir => {
                real.pop();
            }
            Component::CurDir => {}
            other => real.push(other),
        }
    }
    real
}

/// `fsync` of a directory: the names in it survive a crash from here on.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    crate::sync_file(File::open(path)?)
}

fn absent_is_none<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_taken_by_its_letters() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let real = place.path().canonicalize().expect("there");
        fs::create_dir(real.join("a")).expect("made");
        symlink("a".as_ref(), &real.join("l")).expect("made");
        for (path, expected) in [("l", "a"), ("l/x/y", "a/x/y"), ("l/x/../y", "a/y"), ("l/./x/../../z", "z")]
        {
            assert_eq!(resolved(&real.join(path)), real.join(expected), "{path}");
        }
    }
}
