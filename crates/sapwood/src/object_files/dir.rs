//! The object directory that an operation works on.

use std::{
    io,
    path::{Path, PathBuf},
};

use repo::Repository;
use sys::by_path;

/// An object directory.
#[derive(Clone, Debug)]
pub struct ObjectDir {
    /// The absolute path.
    pub path: PathBuf,
    /// Its path in messages.
    pub shown: PathBuf,
    /// True for the repository's own directory, or one of its alternates.
    pub is_of_repository: bool,
}

impl ObjectDir {
    /// Returns the repository's own directory.
    pub fn own(repo: &Repository) -> ObjectDir {
        ObjectDir {
            path: repo.objects_dir().to_owned(),
            shown: repo.display_objects_dir(),
            is_of_repository: true,
        }
    }

    /// Returns the directory `named`.
    pub fn named(repo: &Repository, named: &Path) -> io::Result<ObjectDir> {
        let own = ObjectDir::own(repo);
        let real = |path: &Path| by_path::realpath(path).ok();
        let path = by_path::realpath(named)?;
        if real(&own.path).is_some_and(|own| own == path) {
            return Ok(own);
        }
        let found = repo.objects().directories().skip(1).find(|dir| real(dir).is_some_and(|dir| dir == path));
        Ok(match found {
            Some(dir) => ObjectDir { path: dir.clone(), shown: dir.clone(), is_of_repository: true },
            None => ObjectDir { shown: path.clone(), path, is_of_repository: false },
        })
    }
}
