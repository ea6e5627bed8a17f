//! Removal of a worktree's files: at once through the trash, or directly.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use sys::{FileType, by_path};

use crate::{
    files::whole::{self, Doomed},
    guard::Removable,
    trash::{self, Trash, Unremovable},
};

/// The way in which a worktree is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the trash, if that is possible and cannot fail later.
    Trash,
    /// Directly.
    Now,
}

/// Removes the files of a worktree and its directory.
///
/// If the worktree is a symbolic link, the directory behind it is emptied. Like Git, the removal of
/// the link by `rmdir` then fails.
pub fn delete(tree: Removable<'_>, way: Way, trash: &mut Trash<'_>) -> Result<(), trash::Error> {
    let path = tree.path();
    let is_link = matches!(by_path::stat(path), Ok(Some(stat)) if stat.file_type == FileType::Symlink);
    if is_link {
        return empty_linked(tree, trash);
    }
    let doomed = Doomed::worktree(tree).map_err(|source| stuck(path, source))?;
    match way {
        Way::Trash => trash.discard(&doomed).map(drop),
        Way::Now => trash.delete(&doomed),
    }
}

fn empty_linked(tree: Removable<'_>, trash: &Trash<'_>) -> Result<(), trash::Error> {
    let stuck = |source| stuck(tree.path(), source);
    let root = whole::open_linked(tree).map_err(stuck)?;
    for (name, _) in root.list().map_err(stuck)? {
        trash.delete(&Doomed::in_directory(Arc::clone(&root), &name))?;
    }
    whole::remove_empty(tree.path()).map_err(stuck)
}

/// Removes the parts of a worktree that the command has made and could not complete.
pub fn remove_incomplete(paths: &[&Path], workers: usize) {
    for path in paths {
        if let Ok(doomed) = Doomed::own(path) {
            // Ignore signals here: the failure was already reported.
            let go_on = AtomicBool::new(false);
            let _ = trash::remove(&doomed, workers, &go_on);
        }
    }
}

fn stuck(path: &Path, source: io::Error) -> trash::Error {
    trash::Error::Unremovable(vec![Unremovable { path: path.as_os_str().as_encoded_bytes().into(), source }])
}
