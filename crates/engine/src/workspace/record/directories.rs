//! Creates and removes the state of a workspace, each in one step.

use std::{
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use store::{Components, Fsync, SharedRepository};
use sys::{File, by_path};

use super::{
    Activity, CHECK, Error, Record, Workspace, directory,
    stored::{hardened, write},
};
use crate::workspace::quota;

/// Creates the state of a workspace, with empty upper and work directories. It appears under its
/// name in one step. If the record has a place for these directories, a number is appended to the
/// place while the path exists, because other repositories may have workspaces there. With a
/// `limit`, the upper layer gets a quota of so many bytes. Also returns the lock of a check, which
/// lasts until the file is closed; `None` for another workspace.
pub fn create(
    common: &Path,
    name: &OsStr,
    mut record: Record,
    limit: Option<u64>,
    shared: SharedRepository,
    fsync: &Fsync,
) -> Result<(Workspace, Option<File>), Error> {
    let all = directory(common);
    let mut staged_name = OsString::from(format!("{STAGED}{}-", std::process::id()));
    staged_name.push(name);
    let staged = all.join(staged_name);
    let state = all.join(name);
    let io = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    };
    shared.create_dir_all(&all).or_else(present).map_err(io("create", &all))?;
    shared.create_dir_all(&staged).map_err(io("create", &staged))?;
    if let Some(wanted) = &record.place {
        record.place = Some(claim(wanted).map_err(io("create", wanted))?);
    }
    let place = record.place.clone().unwrap_or_else(|| staged.clone());
    let mut made = || -> Result<Option<File>, Error> {
        // Only what is made in the directory afterwards belongs to its project.
        record.project = limit.map(|limit| quota::allot(&place, limit)).transpose()?;
        for dir in [place.join("upper"), place.join("work")] {
            by_path::create_dir_all(&dir).map_err(io("create", &dir))?;
        }
        if record.project.is_some() {
            // With a full quota no file can be made, and the limit is changed under the lock.
            let lock = staged.join("lock");
            by_path::create_new(&lock, 0o666).map_err(io("create", &lock))?;
        }
        let check = match record.activity {
            Activity::Check(_) => Some(lock_check(&staged)?),
            Activity::Active | Activity::Frozen | Activity::Begun(_) => None,
        };
        write(&staged, &record, fsync)?;
        by_path::rename_new(&staged, &state).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => Error::Exists(name.to_owned()),
            _ => Error::Io { action: "create", path: state.clone(), source },
        })?;
        hardened(fsync).directory(Components::all(), &all).map_err(|source| {
            let _ = by_path::remove_dir_all(&state);
            Error::Io { action: "sync", path: all.clone(), source }
        })?;
        Ok(check)
    };
    match made() {
        Ok(check) => Ok((Workspace { name: name.to_owned(), state, record }, check)),
        Err(error) => {
            let _ = by_path::remove_dir_all(&staged);
            let _ = record.place.map(|place| by_path::remove_dir_all(&place));
            Err(error)
        }
    }
}

/// Takes the lock of a check in a state that nobody else knows.
fn lock_check(staged: &Path) -> Result<File, Error> {
    let path = staged.join(CHECK);
    let failed = |source| Error::Io { action: "lock", path: path.clone(), source };
    let file = by_path::lock_file(&path, 0o666).map_err(failed)?;
    sys::lock(&file).map_err(failed)?;
    Ok(file)
}

/// Creates a new directory with the path `wanted`, or that path with a number appended.
fn claim(wanted: &Path) -> io::Result<PathBuf> {
    if let Some(above) = wanted.parent() {
        by_path::create_dir_all(above).or_else(present)?;
    }
    let mut number = 0u32;
    loop {
        let mut name = wanted.as_os_str().to_owned();
        if number > 0 {
            name.push(format!("-{number}"));
        }
        match by_path::create_dir(Path::new(&name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| name.into()),
        }
    }
}

/// The prefix of an incomplete state directory. No workspace has such a name, because Git allows no
/// leading dot in a worktree's id.
const STAGED: &str = ".new-";
/// The prefix of a state directory that is being removed.
const TAKEN: &str = ".old-";

fn present(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    }
}

/// Renames the state of a workspace away from its name, in one step. Returns the new path. If this
/// process is killed, [`remove_abandoned`] removes it.
pub fn rename_away(workspace: &Workspace) -> Result<PathBuf, Error> {
    let mut name = OsString::from(format!("{TAKEN}{}-", std::process::id()));
    name.push(&workspace.name);
    let (from, to) = (&workspace.state, workspace.state.with_file_name(name));
    match by_path::rename(from, &to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::Io { action: "rename", path: from.clone(), source: error })
        }
        _ => Ok(to),
    }
}

/// Removes the leftovers of killed processes that created or removed states.
pub fn remove_abandoned(common: &Path) -> Result<(), Error> {
    let dir = directory(common);
    let names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
    };
    for (name, _) in names {
        let rest = [STAGED, TAKEN].iter().find_map(|prefix| name.as_bytes().strip_prefix(prefix.as_bytes()));
        let owner = rest.and_then(|rest| rest.split_once_str("-"));
        let owner = owner.and_then(|(pid, _)| pid.to_str().ok()?.parse().ok());
        if owner.is_some_and(|pid| sys::is_running(pid) == Some(false)) {
            let path = dir.join(&name);
            by_path::remove_dir_all(&path).map_err(|source| Error::Io { action: "remove", path, source })?;
        }
    }
    Ok(())
}
