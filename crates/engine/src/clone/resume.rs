//! Going on with a clone that was killed.
//!
//! Promise: the same command run again finishes, and nothing that was not made by the clone is removed.
//! As long as a clone is unfinished its Git directory holds a file, the marker, that says what it is a
//! clone of. It is the first thing made and the last removed, and is locked as long as somebody works.
//! What is found with it decides:
//!
//! - refs are not there yet, and nobody made a branch: the Git directory goes, and all begins anew;
//! - refs are there: only the worktree is left to be filled. A file in the way goes only if it is what the
//!   clone may have left, by its content (`Premise::Remnant`); what the index holds as finished or staged
//!   stays as it is.
//!
//! If something else is in the way the marker stays: moved away, the same command finishes.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use sys::{File, FileType, by_path};

const MARKER: &str = "sapwood-clone";
const SCRAPS: &[u8] = b".clone-";

/// Where HEAD points until it is published: a branch that is nobody's. Git's own placeholder, `refs/heads/.invalid`, is an
/// error to `git fsck`.
pub(super) const UNPUBLISHED: &str = "refs/heads/unfinished-clone";

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
    Running { path: PathBuf, process: BString },
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

/// The marker, locked. A process id would do no better than guess: it stays with a process that is
/// dead but not waited for, and goes to a stranger later.
#[derive(Debug)]
pub(super) struct Claim {
    _marker: File,
}

/// Says in `git_dir` that a clone of `url` is at work.
pub(super) fn mark(git_dir: &Path, url: &BStr) -> io::Result<Claim> {
    let mut file = by_path::create_new(&git_dir.join(MARKER), 0o666)?;
    // Nobody knows of it yet; a file system without locks leaves it unprotected.
    let _ = sys::try_lock(&file);
    let content = [format!("{}\n", std::process::id()).as_bytes(), url, b"\n"].concat();
    io::Write::write_all(&mut file, &content)?;
    Ok(Claim { _marker: file })
}

/// Takes over what is marked in `directory`, unless somebody works on it.
fn claim(directory: &Path) -> Result<Claim, Error> {
    let path = directory.join(MARKER);
    let file = by_path::append(&path, false, 0o666).map_err(io_error("open", &path))?;
    if let Ok(false) = sys::try_lock(&file) {
        let content = by_path::read(&path).ok().flatten().unwrap_or_default();
        let process = content.lines().next().unwrap_or_default().into();
        return Err(Error::Running { path: directory.to_owned(), process });
    }
    Ok(Claim { _marker: file })
}

/// Whether `name` is the marker's.
pub(super) fn is_marker(name: &OsStr) -> bool {
    name == MARKER
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
        } else if file_type != FileType::Directory {
            return Ok(None);
        }
    }
    match owner(git_dir)? {
        Some(marked) if marked == url => {
            claim(git_dir)?;
            Ok(match is_published(git_dir, bare) {
                true => Some(Left::Published),
                // The branches in it are somebody's work, unless it was being removed.
                false if has_head(git_dir) && has_branch(&git_dir.join("refs/heads"))? => None,
                false => (bare || others == 0).then_some(Left::Unpublished(scraps)),
            })
        }
        Some(_) => Ok(None),
        None => {
            // An empty one is the last that is seen of a repository being removed.
            let repository = !bare && !is_empty(git_dir)?;
            Ok((others == 0 && !repository).then_some(Left::Scraps(scraps)))
        }
    }
}

/// Takes away what a new run does not need. What it goes on with is claimed.
pub(super) fn clear(left: &Left, git_dir: &Path) -> Result<Option<Claim>, Error> {
    let remove_claimed = |path: &Path| {
        let marked = matches!(by_path::stat(&path.join(MARKER)), Ok(Some(_)));
        let _claim = marked.then(|| claim(path)).transpose()?;
        remove(path).map_err(io_error("remove", path))
    };
    match left {
        Left::Nothing => Ok(None),
        Left::Scraps(scraps) => {
            scraps.iter().try_for_each(|path| remove_claimed(path))?;
            Ok(None)
        }
        Left::Unpublished(scraps) => {
            scraps.iter().try_for_each(|path| remove_claimed(path))?;
            remove_claimed(git_dir)?;
            Ok(None)
        }
        Left::Published => {
            let claim = claim(git_dir)?;
            // Held by the process that is no more: HEAD's for the reflog, after its branch is there.
            for name in ["index.lock", "HEAD.lock"] {
                let lock = git_dir.join(name);
                match by_path::remove_file(&lock) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(io_error("remove", &lock)(error));
                    }
                    _ => {}
                }
            }
            Ok(Some(claim))
        }
    }
}

/// Removes a directory so that whoever finds the rest of it knows what it was.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    empty(directory)?;
    by_path::remove_dir(directory)
}

/// Removes all that is in a directory: HEAD first, since without it nothing counts as published, and
/// the marker last.
pub(super) fn empty(directory: &Path) -> io::Result<()> {
    let mut entries = by_path::list(directory)?;
    entries.sort_by_key(|(name, _)| (is_marker(name), name != "HEAD"));
    for (name, file_type) in entries {
        let path = directory.join(name);
        match file_type {
            FileType::Directory => by_path::remove_dir_all(&path)?,
            _ => by_path::remove_file(&path)?,
        }
    }
    Ok(())
}

/// The source named by the marker.
fn owner(git_dir: &Path) -> Result<Option<BString>, Error> {
    let path = git_dir.join(MARKER);
    let content = by_path::read(&path).map_err(io_error("read", &path))?;
    Ok(content.and_then(|content| {
        let (process, url) = content.strip_suffix(b"\n")?.split_once_str("\n")?;
        process.iter().all(u8::is_ascii_digit).then(|| url.into())
    }))
}

/// Whether nothing is in a directory, or there is none.
fn is_empty(path: &Path) -> Result<bool, Error> {
    match by_path::list(path) {
        Ok(entries) => Ok(entries.is_empty()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(io_error("opendir", path)(error)),
    }
}

/// Whether a directory was one to put a skeleton together in: by its name, and marked, or just about to
/// be.
fn is_scrap(path: &Path, name: &[u8], url: &BStr) -> Result<bool, Error> {
    let digits = name.strip_prefix(SCRAPS).unwrap_or_default();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Ok(false);
    }
    let entries = by_path::list(path).map_err(io_error("opendir", path))?;
    let marker = path.join(MARKER);
    let ours = match (owner(path)?, entries.as_slice()) {
        (Some(marked), _) => marked == url,
        (None, []) => return Ok(true),
        (None, [(name, _)]) if is_marker(name) => {
            let stat = by_path::stat(&marker).map_err(io_error("stat", &marker))?;
            stat.is_some_and(|stat| stat.file_type == FileType::File && stat.size == 0)
        }
        (None, _) => false,
    };
    if ours {
        claim(path)?;
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
            target != UNPUBLISHED.as_bytes() && (bare || there(git_dir.join(sys::os_str(target))))
        }
    }
}

/// HEAD is the first to go; without it nobody works in what is left.
fn has_head(git_dir: &Path) -> bool {
    !matches!(by_path::stat(&git_dir.join("HEAD")), Ok(None))
}

/// Whether a branch is in a file of its own. A clone writes none before it is published; what it locks, and the directories
/// for that, may be left.
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
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("made");
        fs::write(path, content).expect("written");
    }

    fn repository(git_dir: &Path, head: &str, url: &str) {
        fs::create_dir_all(git_dir.join("refs/heads")).expect("made");
        write(&git_dir.join("HEAD"), head);
        write(&git_dir.join(MARKER), &format!("{}\n{url}\n", std::process::id()));
    }

    fn found(place: &Path) -> Option<Left> {
        let since = std::time::Instant::now();
        loop {
            match look(place, &place.join(".git"), "/source".into()) {
                // A lock that was given up is held for as long as a child that another test forks meanwhile is not yet another program.
                Err(Error::Running { .. }) if since.elapsed().as_secs() < 60 => std::thread::yield_now(),
                answer => return answer.expect("nothing runs"),
            }
        }
    }

    #[test]
    fn only_unfinished_clones_of_the_same_source_are_ours() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        let git_dir = place.join(".git");
        repository(&git_dir, &format!("ref: {UNPUBLISHED}\n"), "/source");
        assert_eq!(found(place), Some(Left::Unpublished(Vec::new())));
        fs::write(place.join("file"), "the user's").expect("written");
        assert_eq!(found(place), None, "a stranger's file");

        fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").expect("written");
        assert_eq!(found(place), None, "the branch is not there yet");
        fs::write(git_dir.join("refs/heads/main"), "x").expect("written");
        assert_eq!(found(place), Some(Left::Published));

        repository(&git_dir, "ref: refs/heads/main\n", "/other");
        assert_eq!(found(place), None, "of another source");
        unmark(&git_dir).expect("removed");
        assert_eq!(found(place), None, "a finished repository");

        let elsewhere = place.join("elsewhere");
        fs::rename(&git_dir, &elsewhere).expect("moved");
        repository(&elsewhere, "ref: refs/heads/main\n", "/source");
        std::os::unix::fs::symlink("elsewhere", &git_dir).expect("linked");
        assert_eq!(found(place), None, "a link to one");
    }

    #[test]
    fn a_lock_says_whether_somebody_works_whatever_the_process_id() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        let git_dir = place.join(".git");
        fs::create_dir(&git_dir).expect("made");
        let claim = mark(&git_dir, "/source".into()).expect("marked");
        write(&git_dir.join("HEAD"), "0123\n");
        let running = || look(place, &git_dir, "/source".into());
        let id = std::process::id().to_string();
        assert!(matches!(running(), Err(Error::Running { process, .. }) if process == id));
        drop(claim);
        assert_eq!(found(place), Some(Left::Published), "this process lives, but does not clone");
        let claim = clear(&Left::Published, &git_dir).expect("cleared");
        assert!(matches!(running(), Err(Error::Running { .. })), "two cannot go on with it");
        drop(claim);

        let scrap = place.join(".clone-1");
        fs::rename(&git_dir, &scrap).expect("moved");
        assert_eq!(found(place), Some(Left::Scraps(vec![scrap])), "process 1 lives");
    }

    #[test]
    fn scraps() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        let scrap = place.join(".clone-1");
        let left = Left::Scraps(vec![scrap.clone()]);
        fs::create_dir(&scrap).expect("made");
        assert_eq!(found(place), Some(left.clone()), "not marked yet");
        write(&scrap.join(MARKER), "");
        assert_eq!(found(place), Some(left.clone()), "the marker is not written yet");
        write(&scrap.join("notes"), "the user's");
        assert_eq!(found(place), None, "somebody else's");
        fs::remove_file(scrap.join(MARKER)).expect("removed");
        assert_eq!(found(place), None, "somebody else's, without a marker");
        fs::remove_file(scrap.join("notes")).expect("removed");
        clear(&left, &place.join(".git")).expect("removed");
        assert_eq!(fs::read_dir(place).expect("listed").count(), 0);
    }

    #[test]
    fn what_is_half_removed_is_still_ours() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        let git_dir = place.join(".git");
        repository(&git_dir, "ref: refs/heads/main\n", "/source");
        write(&git_dir.join("refs/heads/main"), "x");
        fs::remove_file(git_dir.join("HEAD")).expect("removed");
        assert_eq!(found(place), Some(Left::Unpublished(Vec::new())), "HEAD is gone");
        fs::remove_dir_all(git_dir.join("refs")).expect("removed");
        assert_eq!(found(place), Some(Left::Unpublished(Vec::new())), "only the marker is left");
        unmark(&git_dir).expect("removed");
        assert_eq!(found(place), Some(Left::Scraps(Vec::new())), "empty");
        write(&git_dir.join("config"), "");
        assert_eq!(found(place), None, "somebody's repository");
    }

    /// A bare clone into a directory that is there is moved in entry by entry.
    #[test]
    fn what_is_half_moved_in_is_ours() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let place = root.path();
        let bare = || look(place, place, "/source".into()).expect("nothing runs");
        let scrap = place.join(".clone-1");
        repository(&scrap, &format!("ref: {UNPUBLISHED}\n"), "/source");
        assert_eq!(bare(), Some(Left::Scraps(vec![scrap.clone()])));
        fs::rename(scrap.join(MARKER), place.join(MARKER)).expect("moved");
        assert_eq!(bare(), Some(Left::Unpublished(Vec::new())));
        fs::rename(scrap.join("refs"), place.join("refs")).expect("moved");
        assert_eq!(bare(), Some(Left::Unpublished(Vec::new())));
    }
}
