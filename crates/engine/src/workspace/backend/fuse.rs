//! `fuse-overlayfs` and `unionfs-fuse`: union file systems that need no privileges and that every
//! process sees.

use std::path::PathBuf;

use sys::by_path;

/// A program that mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
}

/// Finds the program in the directories of `PATH`.
pub(super) fn find(programs: &[PathBuf]) -> Result<Program, String> {
    if !matches!(by_path::stat("/dev/fuse".as_ref()), Ok(Some(_))) {
        return Err("'/dev/fuse' does not exist".to_owned());
    }
    let paths = programs.iter().map(|dir| dir.join("fuse-overlayfs"));
    let found = paths.into_iter().find(|path| by_path::is_executable(path));
    found
        .map(|path| Program { path })
        .ok_or_else(|| "the program 'fuse-overlayfs' is not installed".to_owned())
}
