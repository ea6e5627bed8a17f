//! Operations in progress, read from the files in the Git directory. Ends them when HEAD moves.

use std::{io, io::Read as _, os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BString, ByteSlice as _};
use repo::Repository;
use store::refs::{Change, Expected};

use super::{Error, operations::operations};

/// An operation that a switch would interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Merge,
    Am,
    Rebase,
    CherryPick,
    Revert,
}

/// The operations in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    /// The operation that makes `switch` refuse: the first one in Git's order of checks.
    pub operation: Option<Operation>,
    /// True during a bisection, for which `switch` only warns.
    pub bisect: bool,
}

/// Reads the files of the Git directory.
pub fn in_progress(repo: &Repository) -> Result<InProgress, Error> {
    let found = operations(repo)?;
    let operation = if found.merge {
        Some(Operation::Merge)
    } else if found.am.is_some() {
        Some(Operation::Am)
    } else if found.rebase.is_some() {
        Some(Operation::Rebase)
    } else if found.cherry_pick.is_some() {
        Some(Operation::CherryPick)
    } else if found.revert.is_some() {
        Some(Operation::Revert)
    } else {
        None
    };
    Ok(InProgress { operation, bisect: found.bisect.is_some() })
}

/// Returns true if a merge is not concluded.
pub fn is_merging(repo: &Repository) -> Result<bool, Error> {
    exists(&repo.git_dir().join("MERGE_HEAD"))
}

/// Removes the reflog of a branch (full name) that does not exist, if the reflog exists. A
/// directory of that name stays, because it contains the reflogs of other branches.
pub fn forget_reflog(repo: &Repository, branch: &bstr::BStr) -> Result<(), Error> {
    let path = repo.refs_dir().join("logs").join(sys::os_str(branch));
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => match sys::by_path::stat(&path) {
            Ok(Some(log)) if log.file_type == sys::FileType::File => remove(dir, name),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The operations that [`end`] ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ended {
    pub cherry_pick: bool,
    pub revert: bool,
}

/// Ends a merge, cherry-pick or revert in progress, as Git does when HEAD moves. The autostash of a
/// merge stays: sapwood cannot yet turn it into a stash entry.
pub fn end(repo: &Repository, refs: &store::refs::Options) -> Result<Ended, Error> {
    end_with(repo, refs, &["SQUASH_MSG", "MERGE_HEAD", "MERGE_RR", "MERGE_MSG", "MERGE_MODE"])
}

/// Ends the operation that a commit has concluded. The recorded conflicts stay: `rerere` reads them
/// once more.
pub fn conclude(repo: &Repository, refs: &store::refs::Options) -> Result<Ended, Error> {
    end_with(repo, refs, &["MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG"])
}

/// Ends a merge that has become a fast-forward, or had nothing to do.
pub fn end_merge(repo: &Repository, refs: &store::refs::Options) -> Result<(), Error> {
    let git_dir = repo.git_dir();
    let name = "AUTO_MERGE";
    if exists(&git_dir.join(name))? && matches!(repo.find_ref(name.into()), Ok(Some(_))) {
        store::refs::apply(refs, vec![Change::Delete { name: name.into(), expected: Expected::Any }])?;
    }
    ["MERGE_HEAD", "MERGE_RR", "MERGE_MSG", "MERGE_MODE"].iter().try_for_each(|file| remove(git_dir, file))
}

fn end_with(repo: &Repository, refs: &store::refs::Options, files: &[&str]) -> Result<Ended, Error> {
    let git_dir = repo.git_dir();
    let mut ended = Ended::default();
    let mut deletions = Vec::new();
    for name in ["CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE"] {
        // Git ends an operation only if its ref resolves. A file without a valid object name stays.
        if exists(&git_dir.join(name))? && matches!(repo.find_ref(name.into()), Ok(Some(_))) {
            deletions.push(Change::Delete { name: name.into(), expected: Expected::Any });
            ended.cherry_pick |= name == "CHERRY_PICK_HEAD";
            ended.revert |= name == "REVERT_HEAD";
        }
    }
    if !deletions.is_empty() {
        store::refs::apply(refs, deletions)?;
    }
    if ended.cherry_pick || ended.revert {
        end_sequence(git_dir)?;
    }
    for name in files {
        remove(git_dir, name)?;
    }
    Ok(ended)
}

/// Removes the sequencer's directory if the pick that has just ended was the last one.
fn end_sequence(git_dir: &Path) -> Result<(), Error> {
    let dir = git_dir.join("sequencer");
    let Some(todo) = read(&dir.join("todo"))? else { return Ok(()) };
    if todo.lines().filter(|line| !line.trim().is_empty()).count() > 1 {
        return Ok(());
    }
    let failed = |source| Error::Read { path: dir.clone(), source };
    let names = sys::Dir::open(&dir).and_then(|open| open.list()).map_err(failed)?;
    for (name, kind) in names {
        if kind == sys::FileType::File {
            remove(&dir, sys::os_str(&name))?;
        }
    }
    match sys::by_path::remove_dir(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

fn remove(dir: &Path, name: impl AsRef<std::ffi::OsStr>) -> Result<(), Error> {
    let name = name.as_ref();
    let failed = |source| Error::Read { path: dir.join(name), source };
    match sys::by_path::remove_file(&dir.join(name)) {
        // A directory of that name was not created by Git, and stays.
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {
            Err(failed(error))
        }
        _ => Ok(()),
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, Error> {
    let found = sys::by_path::stat_followed(path);
    found.map(|found| found.is_some()).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// Reads a small file of the Git directory. Returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<BString>, Error> {
    let missing =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let dir = match sys::Dir::open(dir) {
        Err(error) if missing(&error) => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut file = match dir.open_file(name.as_bytes()) {
        Err(error) if missing(&error) => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(failed)?;
    Ok(Some(content.into()))
}
