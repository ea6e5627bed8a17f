//! Edits configuration files: lock, read, edit, rename.

use std::path::{Path, PathBuf};

use format::config::Edit;
use sys::{FileType, by_path};

use crate::{Components, Fsync, Lock, LockOptions};

/// The reason why a file was not changed. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Key(format::config::Error),
    #[error("bad config line {line} in file {}", .path.display())]
    Syntax { path: PathBuf, line: usize },
    #[error(transparent)]
    Store(#[from] crate::Error),
}

/// Applies all `edits` to the file at `path`, or none of them. A missing file counts as an empty
/// one. The file keeps its permissions. For a symbolic link, replaces the file that it points to.
pub fn edit(path: &Path, edits: &[Edit], options: &LockOptions, fsync: &Fsync) -> Result<(), Error> {
    rewrite(path, options, fsync, |before| edited(path, before, edits))
}

/// Like [`edit`], but the file is synced before it replaces the old one. Git never syncs a
/// configuration file, and a power cut may leave zeros in its place.
pub fn edit_durably(path: &Path, edits: &[Edit], options: &LockOptions, fsync: &Fsync) -> Result<(), Error> {
    let (fsync, all) = (Fsync { components: Components::all(), ..*fsync }, Components::all());
    replace(path, options, &fsync, all, |before| edited(path, before, edits))
}

fn edited(path: &Path, before: Option<Vec<u8>>, edits: &[Edit]) -> Result<Vec<u8>, Error> {
    format::config::edit(&before.unwrap_or_default(), edits).map_err(|error| match error {
        format::config::Error::Syntax { line } => Error::Syntax { path: path.to_owned(), line },
        other => Error::Key(other),
    })
}

/// Replaces the file at `path` under its lock. `change` receives the content, or `None` for a
/// missing file, and returns the new content. If it fails, the file is left unchanged. The mode and
/// symbolic links are kept as by [`edit`].
pub fn rewrite<E: From<crate::Error>>(
    path: &Path,
    options: &LockOptions,
    fsync: &Fsync,
    change: impl FnOnce(Option<Vec<u8>>) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    replace(path, options, fsync, Components::empty(), change)
}

fn replace<E: From<crate::Error>>(
    path: &Path,
    options: &LockOptions,
    fsync: &Fsync,
    component: Components,
    change: impl FnOnce(Option<Vec<u8>>) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    let (locked, before) = LockedFile::take(path, options)?;
    Ok(locked.replace(&change(before)?, fsync, component)?)
}

/// A locked file. A drop releases the lock.
pub struct LockedFile(Lock);

impl LockedFile {
    /// Locks the file at `path`. Returns also its content, or `None` for a missing file.
    pub fn take(path: &Path, options: &LockOptions) -> Result<(LockedFile, Option<Vec<u8>>), crate::Error> {
        refuse_device(path)?;
        let lock = Lock::take(path, options)?;
        let io = |source| crate::Error::Io { what: "read", path: path.to_owned(), source };
        let before = by_path::read(lock.path()).map_err(io)?;
        Ok((LockedFile(lock), before))
    }

    /// Replaces the file. The mode and symbolic links are kept as by [`edit`].
    pub fn replace(self, content: &[u8], fsync: &Fsync, component: Components) -> Result<(), crate::Error> {
        let LockedFile(mut lock) = self;
        lock.keep_mode()?;
        lock.write(content)?;
        lock.commit_synced(fsync, component)
    }
}

/// Returns an error for a device, FIFO or socket. Git replaces it by a file: a user of a container,
/// who is root, loses `/dev/null` in this way.
fn refuse_device(path: &Path) -> Result<(), crate::Error> {
    match by_path::stat_followed(path) {
        Ok(Some(stat)) if stat.file_type == FileType::Other => {
            Err(crate::Error::NotAFile { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn change(path: &Path, key: &str, value: &str) -> Result<(), Error> {
        let edit = Edit::Set { key: key.into(), value: value.into() };
        super::edit(path, &[edit], &LockOptions::default(), &Fsync::default())
    }

    #[test]
    fn applies_all_edits_or_none_and_keeps_the_mode() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("config");
        change(&path, "a.b", "1").expect("a new file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        change(&path, "a.c", "2").expect("changed");
        assert_eq!(fs::read_to_string(&path).expect("read"), "[a]\n\tb = 1\n\tc = 2\n");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);

        assert!(matches!(change(&path, "bad", "3"), Err(Error::Key(_))));
        fs::write(&path, "[a]\n?\n").expect("written");
        let refused = change(&path, "a.b", "3").expect_err("bad syntax").to_string();
        assert_eq!(refused, format!("bad config line 2 in file {}", path.display()));
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "no lock stays");
    }

    #[test]
    fn replaces_no_device_fifo_or_socket() {
        use std::os::unix::fs::FileTypeExt as _;
        let dir = tempfile::tempdir().expect("a directory for tests");
        let (socket, link) = (dir.path().join("socket"), dir.path().join("link"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        std::os::unix::fs::symlink(&socket, &link).expect("made");
        for path in [&socket, &link, Path::new("/dev/null")] {
            let refused = change(path, "a.b", "1").expect_err("it would be replaced").to_string();
            assert!(refused.contains("is not a regular file"), "{refused}");
        }
        assert!(fs::metadata(&link).expect("there").file_type().is_socket());
        assert!(fs::metadata("/dev/null").expect("there").file_type().is_char_device());
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 2, "no lock stays");
    }
}
