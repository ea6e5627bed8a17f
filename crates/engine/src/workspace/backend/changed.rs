//! The file `base-changed` in the state of a workspace: the directory of the base that somebody has
//! changed, as the last mount found.
//!
//! While the file is there, the upper layer does not hold all differences from the index, so every
//! file is examined.

use std::{
    io::{ErrorKind, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use sys::by_path;

use super::{Error, Layers};

/// Returns the path of the file.
pub(crate) fn place(state: &Path) -> PathBuf {
    state.join("base-changed")
}

/// Returns the changed directory that the last mount found.
pub fn changed_base(state: &Path) -> Option<PathBuf> {
    let bytes = by_path::read(&place(state)).ok().flatten()?;
    Some(PathBuf::from(sys::os_str(&bytes)))
}

/// Compares the directories of the base with its proof, and notes the result.
pub(super) fn note(layers: &Layers) -> Result<(), Error> {
    let path = place(&layers.site.state);
    match layers.base.changed_directory()? {
        None => match by_path::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path)(error)),
            _ => Ok(()),
        },
        Some(dir) => {
            let staged = layers.site.state.join(format!(".base-changed-{}", std::process::id()));
            let written = || {
                let _ = by_path::remove_file(&staged);
                by_path::create_new(&staged, 0o666)?.write_all(dir.as_os_str().as_bytes())?;
                by_path::rename(&staged, &path)
            };
            written().map_err(Error::io("write", &path))
        }
    }
}
