//! Going on with a clone that was killed.
//!
//! Promise: the same command run again finishes, and nothing that was not made by the clone is removed.
//! As long as a clone is unfinished its Git directory holds a file that says whose work it is. What is
//! found with it decides:
//!
//! - refs are not there yet: nobody can have worked in it; the Git directory goes, and all begins anew;
//! - refs are there: only the worktree is left to be filled. Without an index that has never been
//!   finished, so files in the way are the clone's own; with one, local changes are safe from it.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use sys::{FileType, by_path};

const MARKER: &str = "sapwood-clone";
const SCRAPS: &[u8] = b".clone-";

/// What an earlier run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// Directories in which a skeleton was put together.
    Scraps(Vec<PathBuf>),
    /// A repository without refs, and scraps.
    Unpublished(Vec<PathBuf>),
    /// A clone without (all of) its worktree.
    Published,
}

/// Why it cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("process {process} is cloning into '{}'", .path.display())]
    Running { path: PathBuf, process: u64 },
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// The name of a directory to put a skeleton together in.
pub(super) fn scrap_name() -> String {
    format!(".clone-{}", std::process::id())
}

/// Says in `git_dir` that a clone of `url` is at work.
pub(super) fn mark(git_dir: &Path, url: &BStr) -> io::Result<()> {
    let mut file = by_path::create_new(&git_dir.join(MARKER), 0o666)?;
    let content = [format!("{}\n", std::process::id()).as_bytes(), url, b"\n"].concat();
    io::Write::write_all(&mut file, &content)
}

/// The clone is finished.
pub(super) fn unmark(git_dir: &Path) -> io::Result<()> {
    by_path::remove_file(&git_dir.join(MARKER))
}

/// Looks at a destination that is not empty; `None` if it is not a clone of `url` that was killed.
pub(super) fn look(place: &Path, git_dir: &Path, url: &BStr) -> Result<Option<Left>, Error> {
    let bare = place == git_dir;
    let mut scraps = Vec::new();
    let mut others = 0;
    for (name, file_type) in by_path::list(place).map_err(io_error("opendir", place))? {
        let path = place.join(&name);
        if file_type == FileType::Directory && is_scrap(&path, name.as_encoded_bytes(), url)? {
            scraps.push(path);
        } else if bare || name != ".git" {
            others += 1;
        }
    }
    match owner(git_dir)? {
        Some((process, marked)) if marked == url => {
            refuse_running(git_dir, process)?;
            Ok(match is_published(git_dir, bare) {
                true => Some(Left::Published),
                false => (bare || others == 0).then_some(Left::Unpublished(scraps)),
            })
        }
        Some(_) => Ok(None),
        None => {
            let repository = matches!(by_path::stat(git_dir), Ok(Some(_))) && !bare;
            Ok((others == 0 && !repository).then_some(Left::Scraps(scraps)))
        }
    }
}

/// Takes away what a new run does not need.
pub(super) fn clear(left: &Left, git_dir: &Path) -> Result<(), Error> {
    let remove = |path: &Path| by_path::remove_dir_all(path).map_err(io_error("remove", path));
    match left {
        Left::Nothing => Ok(()),
        Left::Scraps(scraps) => scraps.iter().try_for_each(|path| remove(path)),
        Left::Unpublished(scraps) => {
            scraps.iter().try_for_each(|path| remove(path))?;
            remove(git_dir)
        }
        Left::Published => {
            // Its holder was the process that is no more.
            let lock = git_dir.join("index.lock");
            match by_path::remove_file(&lock) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(io_error("remove", &lock)(error))
                }
                _ => Ok(()),
            }
        }
    }
}

/// Process and source named by the marker.
fn owner(git_dir: &Path) -> Result<Option<(u64, BString)>, Error> {
    let path = git_dir.join(MARKER);
    let content = by_path::read(&path).map_err(io_error("read", &path))?;
    Ok(content.and_then(|content| {
        let (process, url) = content.strip_suffix(b"\n")?.split_once_str("\n")?;
        Some((process.to_str().ok()?.parse().ok()?, url.into()))
    }))
}

fn refuse_running(path: &Path, process: u64) -> Result<(), Error> {
    match sys::is_running(process) {
        Some(true) => Err(Error::Running { path: path.to_owned(), process }),
        _ => Ok(()),
    }
}

/// Whether a directory was one to put a skeleton together in: by its name, and empty or marked.
fn is_scrap(path: &Path, name: &[u8], url: &BStr) -> Result<bool, Error> {
    let digits = name.strip_prefix(SCRAPS).and_then(|digits| digits.to_str().ok()?.parse().ok());
    let Some(process) = digits else { return Ok(false) };
    let ours = match owner(path)? {
        Some((_, marked)) => marked == url,
        None => by_path::list(path).map_err(io_error("opendir", path))?.is_empty(),
    };
    if ours {
        refuse_running(path, process)?;
    }
    Ok(ours)
}

/// Whether all refs were written: HEAD comes last in a bare clone, its branch in another.
fn is_published(git_dir: &Path, bare: bool) -> bool {
    let Ok(Some(head)) = by_path::read(&git_dir.join("HEAD")) else { return false };
    match head.strip_prefix(b"ref: ") {
        None => true,
        Some(target) => {
            let target = target.trim_ascii_end();
            let there = |path: PathBuf| matches!(by_path::stat(&path), Ok(Some(_)));
            target != b"refs/heads/.invalid" && (bare || there(git_dir.join(target.to_path_lossy())))
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    /// A process id that is not in use.
    const DEAD: u64 = i32::MAX as u64;

    fn repository(place: &Path, head: &str, url: &str) {
        fs::create_dir_all(place.join(".git/refs/heads")).expect("made");
        fs::write(place.join(".git/HEAD"), head).expect("written");
        fs::write(place.join(".git").join(MARKER), format!("{DEAD}\n{url}\n")).expect("written");
    }

    fn found(place: &Path) -> Option<Left> {
        look(place, &place.join(".git"), "/source".into()).expect("nothing runs")
    }

    #[test]
    fn only_unfinished_clones_of_the_same_source_are_ours() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        repository(place, "ref: refs/heads/.invalid\n", "/source");
        assert_eq!(found(place), Some(Left::Unpublished(Vec::new())));
        fs::write(place.join("file"), "the user's").expect("written");
        assert_eq!(found(place), None, "a stranger's file");

        fs::write(place.join(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
        assert_eq!(found(place), None, "the branch is not there yet");
        fs::write(place.join(".git/refs/heads/main"), "x").expect("written");
        assert_eq!(found(place), Some(Left::Published));

        fs::write(place.join(".git").join(MARKER), format!("{DEAD}\n/other\n")).expect("written");
        assert_eq!(found(place), None, "of another source");
        fs::write(place.join(".git").join(MARKER), format!("{}\n/source\n", std::process::id()))
            .expect("written");
        let running = look(place, &place.join(".git"), "/source".into());
        assert!(matches!(running, Err(Error::Running { .. })));
        unmark(&place.join(".git")).expect("removed");
        assert_eq!(found(place), None, "a finished repository");
    }

    #[test]
    fn scraps() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        let scrap = place.join(format!(".clone-{DEAD}"));
        fs::create_dir(&scrap).expect("made");
        let left = found(place).expect("ours");
        assert_eq!(left, Left::Scraps(vec![scrap.clone()]));
        fs::write(scrap.join("notes"), "the user's").expect("written");
        assert_eq!(found(place), None);
        fs::remove_file(scrap.join("notes")).expect("removed");
        clear(&left, &place.join(".git")).expect("removed");
        assert_eq!(fs::read_dir(place).expect("listed").count(), 0);
    }
}
