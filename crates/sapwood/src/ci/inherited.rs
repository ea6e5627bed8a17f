//! The part of an earlier job's repository that the next job may use.
//!
//! A job can write everything below its directory. So only objects, refs, the index and named
//! settings stay in the Git directories of the worktree and of its submodules. Everything that
//! starts a program, or that leads to files elsewhere, is removed before the first command of Git
//! runs there: hooks, other settings, attributes, alternates, links, FIFOs, logs (Git appends to
//! them, and a name of another file may be one).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use sys::{FileType, by_path};

use super::{
    directory::cannot,
    linked,
    removal::remove,
    settings::{self, Owner},
};
use crate::Error;

const FILE: FileType = FileType::File;
const DIRECTORY: FileType = FileType::Directory;

/// The entries of a Git directory that stay, if they have this type.
const ENTRIES: &[(&str, FileType)] = &[
    ("HEAD", FILE),
    ("config", FILE),
    ("config.worktree", FILE),
    ("index", FILE),
    ("info", DIRECTORY),
    ("lfs", DIRECTORY),
    ("modules", DIRECTORY),
    ("objects", DIRECTORY),
    ("packed-refs", FILE),
    ("refs", DIRECTORY),
    ("reftable", DIRECTORY),
    ("sapwood", DIRECTORY),
    ("shallow", FILE),
    ("worktrees", DIRECTORY),
];

/// The entries in which only files and directories stay.
const PLAIN: &[&str] = &["lfs", "objects", "refs", "reftable", "worktrees"];

/// The entries in which no lock stays: Git would wait for its owner, or refuse.
const WITHOUT_LOCKS: &[&str] = &["objects", "refs", "reftable"];

/// The entries of `sapwood` that stay without a workspace. Others say where workspaces are.
const OF_SAPWOOD: &[&str] = &["bases", "pulled"];

/// Removes the rest from the repository in `dir` and from its submodules.
pub(super) fn discard(dir: &Path) -> Result<(), Error> {
    let top = dir.join(".git");
    keep_entries(&top, Owner::Job)?;
    let linked = linked::worktrees(dir);
    keep(&top.join("worktrees"), |name, _| linked.iter().any(|known| known == name))?;
    // The layers of a workspace have links of its user.
    if linked.is_empty() {
        keep_own(&top.join("sapwood"))?;
    }
    keep_repositories(&top.join("modules"))
}

/// Removes from a Git directory all entries but [`ENTRIES`], and settings ([`settings::keep`]).
fn keep_entries(git_dir: &Path, owner: Owner) -> Result<(), Error> {
    keep(git_dir, |name, kind| {
        // A list of places is not checked against its shared index.
        let is_shared_index = kind == FILE && name.starts_with("sharedindex.") && !name.ends_with(".places");
        is_shared_index || ENTRIES.contains(&(name, kind))
    })?;
    keep(&git_dir.join("info"), |name, kind| (name, kind) == ("sparse-checkout", FILE))?;
    // Objects that another directory holds are fetched, or the repository is made anew.
    keep(&git_dir.join("objects"), |_, kind| kind == DIRECTORY)?;
    keep(&git_dir.join("objects/info"), |name, _| !matches!(name, "alternates" | "http-alternates"))?;
    for name in PLAIN {
        keep_plain(git_dir.join(name), WITHOUT_LOCKS.contains(name))?;
    }
    settings::keep(git_dir, owner)
}

/// Removes from the directory of sapwood all but [`OF_SAPWOOD`], and bases with a link or a FIFO.
fn keep_own(dir: &Path) -> Result<(), Error> {
    keep(dir, |name, kind| kind == DIRECTORY && OF_SAPWOOD.contains(&name))?;
    keep_plain(dir.join("pulled"), false)?;
    let bases = dir.join("bases");
    for (name, kind) in entries(&bases)? {
        let path = bases.join(name);
        if !(kind == FILE || kind == DIRECTORY && is_plain(&path)?) {
            remove(&path, kind)?;
        }
    }
    Ok(())
}

/// Returns true if there are only files and directories below a directory.
fn is_plain(dir: &Path) -> Result<bool, Error> {
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for (name, kind) in entries(&dir)? {
            match kind {
                FILE => {}
                DIRECTORY => pending.push(dir.join(name)),
                _ => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// Applies [`keep_entries`] to the Git directories of submodules below `dir`. The name of a
/// submodule may have slashes, so a directory without `HEAD` has others below it.
fn keep_repositories(dir: &Path) -> Result<(), Error> {
    keep(dir, |_, kind| kind == DIRECTORY)?;
    for (name, _) in entries(dir)? {
        let inner = dir.join(name);
        if by_path::stat(&inner.join("HEAD")).map_err(cannot("examine", &inner))?.is_some() {
            keep_entries(&inner, Owner::Submodule)?;
            keep(&inner, |name, _| !matches!(name, "sapwood" | "worktrees"))?;
            keep_repositories(&inner.join("modules"))?;
        } else {
            keep_repositories(&inner)?;
        }
    }
    Ok(())
}

/// Removes below a directory everything that is neither a file nor a directory: a write through a
/// link changes another file, and a read of a FIFO does not end. `locks` removes locks too.
fn keep_plain(dir: PathBuf, locks: bool) -> Result<(), Error> {
    let mut pending = vec![dir];
    while let Some(dir) = pending.pop() {
        keep(&dir, |name, kind| kind == DIRECTORY || kind == FILE && !(locks && name.ends_with(".lock")))?;
        let inner = entries(&dir)?.into_iter().filter(|(_, kind)| *kind == DIRECTORY);
        pending.extend(inner.map(|(name, _)| dir.join(name)));
    }
    Ok(())
}

/// Removes the entries of a directory for which `stays` is false. A missing directory has none.
/// Names that are not UTF-8 are passed with other characters.
pub(super) fn keep(dir: &Path, stays: impl Fn(&str, FileType) -> bool) -> Result<(), Error> {
    for (name, kind) in entries(dir)? {
        if !stays(&name.to_string_lossy(), kind) {
            remove(&dir.join(name), kind)?;
        }
    }
    Ok(())
}

/// Returns the entries of a directory; none if it is missing.
pub(super) fn entries(dir: &Path) -> Result<Vec<(OsString, FileType)>, Error> {
    match by_path::list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(cannot("read", dir)),
    }
}
