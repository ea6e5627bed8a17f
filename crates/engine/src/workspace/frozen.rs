//! Frozen layers: read-only copies of ignored files, as layers between the base and the upper
//! layers of any number of workspaces.
//!
//! A layer is created in a staged directory, and appears under its name in one step. Its name
//! begins with the id of the creating process, so that it is not removed before a record refers to
//! it.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice as _};
use std::os::unix::ffi::OsStrExt as _;
use store::SharedRepository;
use sys::{Dir, FileType, by_path};

use super::record;

/// The reason why a frozen layer could not be created.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("'{}' is no file, link or directory: it cannot be shared", .path.display())]
    Special { path: PathBuf },
    #[error(transparent)]
    Record(#[from] record::Error),
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}

fn directory(common: &Path) -> PathBuf {
    common.join("sapwood").join("layers")
}

/// Creates a layer with the given paths of a worktree. Blocks are shared if the file system
/// supports that.
pub fn make(
    common: &Path,
    worktree: &Path,
    paths: &[&BStr],
    shared: SharedRepository,
) -> Result<PathBuf, Error> {
    let all = directory(common);
    match shared.create_dir_all(&all) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::io("create", &all)(error));
        }
        _ => {}
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{}-{}", std::process::id(), now.as_nanos());
    let (staged, layer) = (all.join(format!(".{name}")), all.join(&name));
    by_path::create_dir(&staged).map_err(Error::io("create", &staged))?;
    let made = paths.iter().try_for_each(|path| {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends {
            let dir = sys::os_str(&path[..end]);
            match copy_directory(&worktree.join(dir), &staged.join(dir)) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {}
                copied => copied?,
            }
        }
        copy(&worktree.join(sys::os_str(path)), &staged.join(sys::os_str(path)))?;
        // The deepest first: a new entry changes the time of its directory.
        path.rfind_iter("/").try_for_each(|end| {
            let dir = sys::os_str(&path[..end]);
            copy_time(&worktree.join(dir), &staged.join(dir))
        })
    });
    let made = made.and_then(|()| by_path::rename(&staged, &layer).map_err(Error::io("rename", &staged)));
    if let Err(error) = made {
        let _ = by_path::remove_dir_all(&staged);
        return Err(error);
    }
    Ok(layer)
}

/// Creates a directory with the permissions of another.
fn copy_directory(from: &Path, to: &Path) -> Result<(), Error> {
    by_path::create_dir(to).map_err(Error::io("create", to))?;
    match by_path::stat(from).map_err(Error::io("look at", from))? {
        Some(stat) => by_path::set_mode(to, stat.mode & 0o7777).map_err(Error::io("change", to)),
        None => Ok(()),
    }
}

/// Gives a directory the modification time of another.
fn copy_time(from: &Path, to: &Path) -> Result<(), Error> {
    match by_path::stat(from).map_err(Error::io("look at", from))? {
        Some(stat) => by_path::set_modified(to, stat.mtime).map_err(Error::io("change", to)),
        None => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let missing = || Error::io("read", from)(ErrorKind::NotFound.into());
    let stat = by_path::stat(from).map_err(Error::io("look at", from))?.ok_or_else(missing)?;
    match stat.file_type {
        FileType::Directory => {
            copy_directory(from, to)?;
            for (name, _) in by_path::list(from).map_err(Error::io("read", from))? {
                copy(&from.join(&name), &to.join(&name))?;
            }
            by_path::set_modified(to, stat.mtime).map_err(Error::io("change", to))
        }
        FileType::Symlink => {
            let target = by_path::read_link(from).map_err(Error::io("read", from))?.ok_or_else(missing)?;
            by_path::symlink(&target, to).map_err(Error::io("create", to))?;
            by_path::set_modified(to, stat.mtime).map_err(Error::io("change", to))
        }
        FileType::File => copy_file(from, to, &stat),
        FileType::Other => Err(Error::Special { path: from.to_owned() }),
    }
}

fn copy_file(from: &Path, to: &Path, stat: &sys::Stat) -> Result<(), Error> {
    let source = by_path::open(from).map_err(Error::io("read", from))?;
    let target = by_path::create_new(to, 0o600).map_err(Error::io("create", to))?;
    if sys::reflink(&source, &target).is_err() {
        sys::copy(&source, &target).map_err(Error::io("copy to", to))?;
    }
    sys::set_mode(&target, stat.mode & 0o7777).map_err(Error::io("change", to))?;
    let since = std::time::Duration::new(u64::try_from(stat.mtime.0).unwrap_or(0), stat.mtime.1);
    target.set_modified(std::time::UNIX_EPOCH + since).map_err(Error::io("change", to))
}

/// Copies a layer into a worktree without layers. The directories above the copied files may exist.
pub fn copy_into(layer: &Path, worktree: &Path) -> Result<(), Error> {
    for (name, kind) in by_path::list(layer).map_err(Error::io("read", layer))? {
        let (from, to) = (layer.join(&name), worktree.join(&name));
        let is_there = by_path::stat(&to).map_err(Error::io("look at", &to))?.is_some();
        if kind == FileType::Directory && is_there { copy_into(&from, &to)? } else { copy(&from, &to)? }
    }
    Ok(())
}

/// Returns the layers that no workspace uses and no running process is creating. The caller removes
/// them.
pub fn unused(common: &Path) -> Result<Vec<PathBuf>, Error> {
    let all = directory(common);
    let names = match by_path::list(&all) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", &all)(error)),
    };
    let mut used = Vec::new();
    for workspace in record::all(common)? {
        used.extend(workspace?.record.layers);
    }
    let is_unused = |name: &BStr| {
        let pid = name.trim_start_with(|letter| letter == '.').split(|byte| *byte == b'-').next();
        let pid = pid.and_then(|pid| pid.to_str().ok()?.parse().ok());
        pid.is_some_and(|pid| sys::is_running(pid) == Some(false))
    };
    let unused = names.into_iter().filter(|(name, _)| is_unused(name.as_bytes().as_bstr()));
    Ok(unused.map(|(name, _)| all.join(name)).filter(|layer| !used.contains(layer)).collect())
}

/// Returns true if one of the layers contains the path.
pub fn has(layers: &[PathBuf], path: &BStr) -> bool {
    let is_in = |layer: &PathBuf| matches!(Dir::open(layer).and_then(|layer| layer.stat(path)), Ok(Some(_)));
    layers.iter().any(is_in)
}
