//! Resuming a clone that was killed.
//!
//! Promise: the same command finishes the clone, and removes only files that the clone created.
//! While a clone is unfinished its Git directory holds a marker file that names the source and the
//! extent. The marker is created first and removed last, and a running clone holds a lock on it.
//! The state of the Git directory decides:
//!
//! - Refs are not published, and no user created a branch: remove the Git directory and start
//!   again. If packs of an interrupted transfer are worth it, they stay (`salvage`).
//! - Refs are published: fill the worktree. A file in the way is replaced only if its content shows
//!   that the clone may have left it (`Premise::Remnant`). Entries that the index holds as finished
//!   or staged stay as they are.
//!
//! If another file is in the way the marker stays. After the user has moved the file away, the same
//! command finishes the clone.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use sys::{File, FileType, by_path};

use super::{
    pipeline::STAGING,
    salvage::{self, Keeping, TRANSFER},
};

const MARKER: &str = "sapwood-clone";
const ASSEMBLY_PREFIX: &[u8] = b".clone-";

/// The target of HEAD until refs are published: a branch name that no user has. `git fsck` reports
/// Git's own placeholder, `refs/heads/.invalid`, as an error.
pub(super) const UNPUBLISHED: &str = "refs/heads/unfinished-clone";

/// The leftovers of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    /// No leftovers.
    Nothing,
    /// Directories in which a skeleton was assembled.
    Assemblies(Vec<PathBuf>),
    /// A repository without refs, and abandoned assembly directories.
    Unpublished(Vec<PathBuf>),
    /// A clone that lacks files of its worktree.
    Published,
}

/// The reason why a clone cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("process {process} is cloning into '{}'", .path.display())]
    Running { path: PathBuf, process: BString },
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// Returns the name of the directory in which this process assembles a skeleton.
pub(super) fn assembly_name() -> String {
    format!(".clone-{}", std::process::id())
}

/// The open, locked marker. A lock is more reliable than a process id: an id stays with a dead
/// process that its parent has not waited for, and later goes to another process.
#[derive(Debug)]
pub(super) struct Claim {
    _marker: File,
}

/// The part of the source that a clone asks for. The packs of a clone help only another clone of
/// the same extent: other objects would lack those that they name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The history is cut off.
    pub(super) is_shallow: bool,
    /// Objects are left out.
    pub(super) is_filtered: bool,
}

impl Extent {
    /// Returns the words after the process id in the marker.
    fn words(self) -> &'static str {
        match (self.is_shallow, self.is_filtered) {
            (false, false) => "",
            (true, false) => " shallow",
            (false, true) => " filtered",
            (true, true) => " shallow filtered",
        }
    }
}

/// Creates the marker of a clone of `url` in `git_dir`.
pub(super) fn mark(git_dir: &Path, url: &BStr, extent: Extent) -> io::Result<Claim> {
    write_marker(&git_dir.join(MARKER), url, extent.words().into())
}

fn write_marker(path: &Path, url: &BStr, words: &BStr) -> io::Result<Claim> {
    let mut file = by_path::create_new(path, 0o666)?;
    // No other process knows the file yet. A file system without locks leaves it unlocked.
    let _ = sys::try_lock(&file);
    let content = [std::process::id().to_string().as_bytes(), words, b"\n", url, b"\n"].concat();
    io::Write::write_all(&mut file, &content)?;
    Ok(Claim { _marker: file })
}

/// Writes this process into the marker.
pub(super) fn take_over(git_dir: &Path, _claim: Claim) -> Result<Claim, Error> {
    let (path, new) = (git_dir.join(MARKER), git_dir.join(format!("{MARKER}.new")));
    let Some(marker) = read_marker(git_dir)? else {
        return Err(io_error("read", &path)(io::ErrorKind::NotFound.into()));
    };
    match by_path::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error("remove", &new)(error)),
        _ => {}
    }
    let claim = write_marker(&new, marker.url.as_bstr(), marker.words.as_bstr());
    let claim = claim.map_err(io_error("create", &new))?;
    by_path::rename(&new, &path).map_err(io_error("create", &path))?;
    Ok(claim)
}

/// Returns true if this process makes the clone in `git_dir`.
pub fn is_ours(git_dir: &Path) -> bool {
    process(git_dir) == Some(std::process::id())
}

/// Returns the process that has made the clone so far.
pub(super) fn process(git_dir: &Path) -> Option<u32> {
    read_marker(git_dir).ok()??.process
}

/// The number of times that a lock is tried, and the pause between two tries. A process that is
/// killed just after a fork leaves its lock to the child, until the child runs another program.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the marker in `directory`. Returns an error if another process holds the lock.
fn claim(directory: &Path) -> Result<Claim, Error> {
    let path = directory.join(MARKER);
    let file = by_path::append(&path, false, 0o666).map_err(io_error("open", &path))?;
    let mut tries = 0;
    while let Ok(false) = sys::try_lock(&file) {
        tries += 1;
        if tries < TRIES {
            std::thread::sleep(PAUSE);
            continue;
        }
        let content = by_path::read(&path).ok().flatten().unwrap_or_default();
        let process = content.fields().next().unwrap_or_default().into();
        return Err(Error::Running { path: directory.to_owned(), process });
    }
    Ok(Claim { _marker: file })
}

/// Returns true if `name` is the marker's.
pub(super) fn is_marker(name: &OsStr) -> bool {
    name == MARKER
}

/// Removes the marker: the clone is finished.
pub(super) fn unmark(git_dir: &Path) -> io::Result<()> {
    by_path::remove_file(&git_dir.join(MARKER))
}

/// The ref that a clone writes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastRef {
    /// HEAD: in a bare clone, whose branches are those of the source.
    Head,
    /// The branch of HEAD.
    Branch,
}

/// Examines a destination that is not empty. Returns `None` if it is not a killed clone of `url`.
pub(super) fn examine(
    place: &Path,
    git_dir: &Path,
    url: &BStr,
    last: LastRef,
) -> Result<Option<Leftover>, Error> {
    let bare = place == git_dir;
    let mut assemblies = Vec::new();
    let mut others = 0;
    for (name, file_type) in by_path::list(place).map_err(io_error("opendir", place))? {
        let path = place.join(&name);
        if file_type == FileType::Directory && is_abandoned_assembly(&path, name.as_encoded_bytes(), url)? {
            assemblies.push(path);
        } else if bare || name != ".git" {
            others += 1;
        } else if file_type != FileType::Directory {
            return Ok(None);
        }
    }
    match read_marker(git_dir)? {
        Some(marker) if marker.url == url => {
            claim(git_dir)?;
            Ok(match is_published(git_dir, last) {
                true => Some(Leftover::Published),
                // A user may have created these branches. Without HEAD, the repository was being
                // removed.
                false if has_head(git_dir) && has_branch(&git_dir.join("refs/heads"))? => None,
                false => (bare || others == 0).then_some(Leftover::Unpublished(assemblies)),
            })
        }
        Some(_) => Ok(None),
        None => {
            // An empty directory is the last state of a repository that was being removed.
            let repository = !bare && !is_empty(git_dir)?;
            Ok((others == 0 && !repository).then_some(Leftover::Assemblies(assemblies)))
        }
    }
}

/// The work of an earlier run that is left, and its lock.
#[derive(Debug)]
pub(super) enum Resumed {
    Nothing,
    /// Packs in [`TRANSFER`], and nothing else but the marker.
    Transfer(Claim),
    /// A published clone.
    Worktree(Claim),
}

/// Removes the leftovers that a new run of this extent does not need.
pub(super) fn clear(
    leftover: &Leftover,
    git_dir: &Path,
    keeping: Keeping,
    extent: Extent,
) -> Result<Resumed, Error> {
    let remove_claimed = |path: &Path| {
        let marked = matches!(by_path::stat(&path.join(MARKER)), Ok(Some(_)));
        let _claim = marked.then(|| claim(path)).transpose()?;
        remove(path).map_err(io_error("remove", path))
    };
    match leftover {
        Leftover::Nothing => Ok(Resumed::Nothing),
        Leftover::Assemblies(assemblies) => {
            assemblies.iter().try_for_each(|path| remove_claimed(path))?;
            Ok(Resumed::Nothing)
        }
        Leftover::Unpublished(assemblies) => {
            assemblies.iter().try_for_each(|path| remove_claimed(path))?;
            let is_of_use = read_marker(git_dir)?.is_some_and(|marker| marker.words == extent.words());
            if !is_of_use || !salvage::is_worth_keeping(git_dir, keeping) {
                remove_claimed(git_dir)?;
                return Ok(Resumed::Nothing);
            }
            let claim = claim(git_dir)?;
            strip(git_dir).map_err(io_error("remove", git_dir))?;
            Ok(Resumed::Transfer(claim))
        }
        Leftover::Published => {
            let claim = claim(git_dir)?;
            // The killed process left these locks. HEAD.lock protects the reflog after the branch
            // is written.
            for name in ["index.lock", "HEAD.lock"] {
                let lock = git_dir.join(name);
                match by_path::remove_file(&lock) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(io_error("remove", &lock)(error));
                    }
                    _ => {}
                }
            }
            let staging = git_dir.join(STAGING);
            match by_path::remove_dir_all(&staging) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(io_error("remove", &staging)(error))
                }
                _ => Ok(Resumed::Worktree(claim)),
            }
        }
    }
}

/// Removes a directory. If that is interrupted, the marker still identifies the rest.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    empty(directory)?;
    by_path::remove_dir(directory)
}

/// Removes the content of a directory: first HEAD, without which no clone counts as published, last
/// the marker.
pub(super) fn empty(directory: &Path) -> io::Result<()> {
    empty_except(directory, &|_| false)
}

/// Sets the packs of a Git directory aside, and removes everything else but the marker. Without
/// HEAD, the directory counts as one that is being removed.
fn strip(git_dir: &Path) -> io::Result<()> {
    match by_path::remove_file(&git_dir.join("HEAD")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    salvage::set_aside(git_dir)?;
    empty_except(git_dir, &|name| is_marker(name) || name == TRANSFER)
}

fn empty_except(directory: &Path, stays: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    let mut entries = by_path::list(directory)?;
    entries.sort_by_key(|(name, _)| (is_marker(name), name != "HEAD"));
    for (name, file_type) in entries.into_iter().filter(|(name, _)| !stays(name)) {
        let path = directory.join(name);
        match file_type {
            FileType::Directory => by_path::remove_dir_all(&path)?,
            _ => by_path::remove_file(&path)?,
        }
    }
    Ok(())
}

/// Returns the time when the marker was written, in seconds since the epoch.
pub(super) fn begun(git_dir: &Path) -> Option<i64> {
    Some(by_path::stat(&git_dir.join(MARKER)).ok()??.mtime.0)
}

/// The content of a marker.
struct Marker {
    process: Option<u32>,
    url: BString,
    /// See [`Extent::words`].
    words: BString,
}

/// Reads the marker. Returns `None` if there is none, or if it is not whole.
fn read_marker(git_dir: &Path) -> Result<Option<Marker>, Error> {
    let path = git_dir.join(MARKER);
    let content = by_path::read(&path).map_err(io_error("read", &path))?;
    Ok(content.and_then(|content| {
        let (first, url) = content.strip_suffix(b"\n")?.split_once_str("\n")?;
        let words = first.trim_start_with(|byte| byte.is_ascii_digit());
        let is_marker = words.is_empty() || words.starts_with(b" ");
        let process = first[..first.len() - words.len()].to_str().ok()?.parse().ok();
        is_marker.then(|| Marker { process, url: url.into(), words: words.into() })
    }))
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
    let digits = name.strip_prefix(ASSEMBLY_PREFIX).unwrap_or_default();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Ok(false);
    }
    let entries = by_path::list(path).map_err(io_error("opendir", path))?;
    let marker = path.join(MARKER);
    let is_ours = match (read_marker(path)?, entries.as_slice()) {
        (Some(marker), _) => marker.url == url,
        (None, []) => return Ok(true),
        (None, [(name, _)]) if is_marker(name) => {
            let stat = by_path::stat(&marker).map_err(io_error("stat", &marker))?;
            stat.is_some_and(|stat| stat.file_type == FileType::File && stat.size == 0)
        }
        (None, _) => false,
    };
    if is_ours {
        claim(path)?;
    }
    Ok(is_ours)
}

/// Returns true if all refs were written.
fn is_published(git_dir: &Path, last: LastRef) -> bool {
    let Ok(Some(head)) = by_path::read(&git_dir.join("HEAD")) else { return false };
    match head.strip_prefix(b"ref: ") {
        None => true,
        Some(target) => {
            let target = target.trim_ascii_end();
            let exists = |path: PathBuf| matches!(by_path::stat(&path), Ok(Some(_)));
            let is_last = || last == LastRef::Head || exists(git_dir.join(sys::os_str(target)));
            target != UNPUBLISHED.as_bytes() && is_last()
        }
    }
}

/// Returns true if HEAD exists. HEAD is removed first, and no user works in a repository without
/// it.
fn has_head(git_dir: &Path) -> bool {
    !matches!(by_path::stat(&git_dir.join("HEAD")), Ok(None))
}

/// Returns true if a branch has a file of its own. A clone writes none before it publishes its
/// refs; only lock files and their directories may be left.
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
