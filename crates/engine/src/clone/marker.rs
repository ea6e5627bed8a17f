//! The marker of an unfinished clone: the first file of its Git directory that is made, and the
//! last that is removed. It names the process, the extent and the source. A running clone holds a
//! lock on it.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use sys::{File, by_path};

pub(super) const MARKER: &str = "sapwood-clone";

/// The reason why a clone cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("process {process} is cloning into '{}'", .path.display())]
    Running { path: PathBuf, process: BString },
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

pub(super) fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
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
    pub(super) fn words(self) -> &'static str {
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
    let Some(marker) = read(git_dir)? else {
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
    read(git_dir).ok()??.process
}

/// The number of times that a lock is tried, and the pause between two tries. A process that is
/// killed just after a fork leaves its lock to the child, until the child runs another program.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the marker in `directory`. Returns an error if another process holds the lock.
pub(super) fn claim(directory: &Path) -> Result<Claim, Error> {
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

/// Removes the marker: the clone is finished.
pub(super) fn unmark(git_dir: &Path) -> io::Result<()> {
    by_path::remove_file(&git_dir.join(MARKER))
}

/// Returns the time when the marker was written, in seconds since the epoch.
pub(super) fn begun(git_dir: &Path) -> Option<i64> {
    Some(by_path::stat(&git_dir.join(MARKER)).ok()??.mtime.0)
}

/// The content of a marker.
pub(super) struct Marker {
    pub(super) process: Option<u32>,
    pub(super) url: BString,
    /// See [`Extent::words`].
    pub(super) words: BString,
}

/// Reads the marker. Returns `None` if there is none, or if it is not whole.
pub(super) fn read(git_dir: &Path) -> Result<Option<Marker>, Error> {
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
