//! Where a clone resumes that was killed: [`Point`].
//!
//! Promise: the same command finishes the clone, and removes only files that the clone created.
//! While a clone is unfinished its Git directory holds a marker ([`marker`]), which is created
//! first and removed last. The state of the destination decides:
//!
//! - There is no repository, or one without refs in which no user created a branch: remove it and
//!   start again with the skeleton. If packs of an interrupted transfer are worth it, they stay,
//!   and the clone resumes at its objects (`salvage`).
//! - All refs are written: fill the worktree. A file in the way is replaced only if its content
//!   shows that the clone may have left it (`Premise::Remnant`). Entries that the index holds as
//!   finished or staged stay as they are.
//!
//! If another file is in the way the marker stays. After the user has moved the file away, the same
//! command finishes the clone.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use bstr::BStr;
use sys::{FileType, by_path};

use super::{
    junk::{self, gone},
    marker::{self, Claim, Error, Extent, MARKER, io_error},
    pipeline::STAGING,
    salvage::{self, Keeping, TRANSFER},
};

const ASSEMBLY_PREFIX: &[u8] = b".clone-";

/// The target of HEAD until refs are written: a branch name that no user has. `git fsck` reports
/// Git's own placeholder, `refs/heads/.invalid`, as an error.
pub(super) const UNFINISHED: &str = "refs/heads/unfinished-clone";

/// Returns the name of a directory in which this process assembles a skeleton. Threads of a process
/// clone at the same time, so each call returns another name.
pub(super) fn assembly_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!(".clone-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The ref that a clone writes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastRef {
    /// HEAD: in a bare clone, whose branches are those of the source.
    Head,
    /// The branch of HEAD.
    Branch,
}

/// The stage at which a clone begins, by the state of its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The skeleton: there is no repository. A killed clone may have left directories in which it
    /// assembled one.
    Skeleton { assemblies: Vec<PathBuf> },
    /// The objects: a repository without refs. Its packs may be worth keeping; [`Point::enter`]
    /// decides that.
    Objects { assemblies: Vec<PathBuf> },
    /// The worktree: all refs are written.
    Worktree,
}

/// A stage that was entered: other processes are kept away, and only what the stage needs is left.
#[derive(Debug)]
pub(super) enum Entered {
    /// Nothing is left.
    Skeleton,
    /// Packs are in [`TRANSFER`], and nothing else but the marker.
    Objects(Claim),
    /// A clone whose refs are written.
    Worktree(Claim),
}

impl Point {
    /// The point of a destination that is free.
    pub(super) const NEW: Point = Point::Skeleton { assemblies: Vec::new() };

    /// Examines a destination that is not empty. Returns `None` if it is not a killed clone of
    /// `url`.
    pub(super) fn find(
        place: &Path,
        git_dir: &Path,
        url: &BStr,
        last: LastRef,
    ) -> Result<Option<Point>, Error> {
        let bare = place == git_dir;
        let mut assemblies = Vec::new();
        let mut others = 0;
        for (name, file_type) in by_path::list(place).map_err(io_error("opendir", place))? {
            let path = place.join(&name);
            if file_type == FileType::Directory && is_abandoned_assembly(&path, name.as_encoded_bytes(), url)?
            {
                assemblies.push(path);
            } else if bare || name != ".git" {
                others += 1;
            } else if file_type != FileType::Directory {
                return Ok(None);
            }
        }
        let Some(marker) = marker::read(git_dir)? else {
            // An empty directory is the last state of a repository that was being removed.
            let is_repository = !bare && !is_empty(git_dir)?;
            return Ok((others == 0 && !is_repository).then_some(Point::Skeleton { assemblies }));
        };
        if marker.url != url {
            return Ok(None);
        }
        marker::claim(git_dir)?;
        if has_all_refs(git_dir, last) {
            return Ok(Some(Point::Worktree));
        }
        // A user may have created these branches. Without HEAD, the repository was being removed.
        if has_head(git_dir) && has_branch(&git_dir.join("refs/heads"))? {
            return Ok(None);
        }
        Ok((bare || others == 0).then_some(Point::Objects { assemblies }))
    }

    /// Enters the stage, and removes what a run of this extent does not need.
    pub(super) fn enter(&self, git_dir: &Path, keeping: Keeping, extent: Extent) -> Result<Entered, Error> {
        match self {
            Point::Skeleton { assemblies } => {
                assemblies.iter().try_for_each(|path| remove_claimed(path))?;
                Ok(Entered::Skeleton)
            }
            Point::Objects { assemblies } => {
                assemblies.iter().try_for_each(|path| remove_claimed(path))?;
                let is_of_use = marker::read(git_dir)?.is_some_and(|marker| marker.words == extent.words());
                if !is_of_use || !salvage::is_worth_keeping(git_dir, keeping) {
                    remove_claimed(git_dir)?;
                    return Ok(Entered::Skeleton);
                }
                let claim = marker::claim(git_dir)?;
                strip(git_dir).map_err(io_error("remove", git_dir))?;
                Ok(Entered::Objects(claim))
            }
            Point::Worktree => {
                let claim = marker::claim(git_dir)?;
                // The killed process left these locks. HEAD.lock protects the reflog after the
                // branch is written.
                for name in ["index.lock", "HEAD.lock"] {
                    let lock = git_dir.join(name);
                    gone(by_path::remove_file(&lock)).map_err(io_error("remove", &lock))?;
                }
                let staging = git_dir.join(STAGING);
                gone(by_path::remove_dir_all(&staging)).map_err(io_error("remove", &staging))?;
                Ok(Entered::Worktree(claim))
            }
        }
    }
}

/// Removes a directory, unless another process works in it.
fn remove_claimed(path: &Path) -> Result<(), Error> {
    let is_marked = matches!(by_path::stat(&path.join(MARKER)), Ok(Some(_)));
    let _claim = is_marked.then(|| marker::claim(path)).transpose()?;
    junk::remove(path).map_err(io_error("remove", path))
}

/// Sets the packs of a Git directory aside, and removes everything else but the marker. Without
/// HEAD, the directory counts as one that is being removed.
fn strip(git_dir: &Path) -> io::Result<()> {
    gone(by_path::remove_file(&git_dir.join("HEAD")))?;
    salvage::set_aside(git_dir)?;
    junk::empty_except(git_dir, &|name| name == MARKER || name == TRANSFER)
}

/// Returns true if a directory is empty or missing.
fn is_empty(path: &Path) -> Result<bool, Error> {
    match by_path::list(path) {
        Ok(entries) => Ok(entries.is_empty()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(io_error("opendir", path)(error)),
    }
}

/// Returns true if a directory is an abandoned assembly of a clone of `url`: it has such a name,
/// and its marker names `url` or is not written yet.
fn is_abandoned_assembly(path: &Path, name: &[u8], url: &BStr) -> Result<bool, Error> {
    let numbers = name.strip_prefix(ASSEMBLY_PREFIX).unwrap_or_default();
    if numbers.is_empty() || !numbers.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-') {
        return Ok(false);
    }
    let entries = by_path::list(path).map_err(io_error("opendir", path))?;
    let marker = path.join(MARKER);
    let is_ours = match (marker::read(path)?, entries.as_slice()) {
        (Some(marker), _) => marker.url == url,
        (None, []) => return Ok(true),
        (None, [(name, _)]) if name == MARKER => {
            let stat = by_path::stat(&marker).map_err(io_error("stat", &marker))?;
            stat.is_some_and(|stat| stat.file_type == FileType::File && stat.size == 0)
        }
        (None, _) => false,
    };
    if is_ours {
        marker::claim(path)?;
    }
    Ok(is_ours)
}

/// Returns true if all refs were written.
fn has_all_refs(git_dir: &Path, last: LastRef) -> bool {
    let Ok(Some(head)) = by_path::read(&git_dir.join("HEAD")) else { return false };
    match head.strip_prefix(b"ref: ") {
        None => true,
        Some(target) => {
            let target = target.trim_ascii_end();
            let exists = |path: PathBuf| matches!(by_path::stat(&path), Ok(Some(_)));
            let is_last = || last == LastRef::Head || exists(git_dir.join(sys::os_str(target)));
            target != UNFINISHED.as_bytes() && is_last()
        }
    }
}

/// Returns true if HEAD exists. HEAD is removed first, and no user works in a repository without
/// it.
fn has_head(git_dir: &Path) -> bool {
    !matches!(by_path::stat(&git_dir.join("HEAD")), Ok(None))
}

/// Returns true if a branch has a file of its own. A clone writes none before it
/// writes its refs; only lock files and their directories may be left.
fn has_branch(heads: &Path) -> Result<bool, Error> {
    let entries = match by_path::list(heads) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        listed => listed.map_err(io_error("opendir", heads))?,
    };
    for (name, file_type) in entries {
        let is_branch = match file_type {
            FileType::Directory => has_branch(&heads.join(name))?,
            _ => !name.as_encoded_bytes().ends_with(b".lock"),
        };
        if is_branch {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
#[path = "resume_tests.rs"]
mod tests;
