//! The directories of bases, and those in which programs are searched.

use std::path::{Path, PathBuf};

use engine::workspace::{backend, base::Bases};
use repo::{
    Repository,
    keys::{self, Key, PathText},
};
use sys::by_path;

use crate::Error;

/// Returns the base directory: the given one, relative to the current directory, else
/// `sapwood.baseDir`, else one in the repository.
pub fn bases(repo: &Repository, given: Option<&Path>) -> Result<Bases, Error> {
    let dir = match given {
        Some(given) => repo.cwd().join(given),
        None => match configured_dir(repo, keys::sapwood::BASE_DIR)? {
            Some(dir) => dir,
            None => return default_bases(repo),
        },
    };
    Ok(Bases::trusted(&dir, repo.trust())?.served_by(mount_service(repo)?))
}

/// Returns the base directory in the repository.
pub fn default_bases(repo: &Repository) -> Result<Bases, Error> {
    let dir = repo.real_common_dir().join("sapwood").join("bases");
    Ok(Bases::trusted(&dir, repo.trust())?.served_by(mount_service(repo)?))
}

/// Returns the directory that a setting names.
pub fn configured_dir(repo: &Repository, key: Key<Option<PathText>>) -> Result<Option<PathBuf>, Error> {
    let Some(path) = repo.config_path(&key)? else { return Ok(None) };
    Ok(Some(path.resolve(repo.cwd()).map_err(|refused| Error::refused(&path, refused))?))
}

/// Returns true if the directory is the top of the worktree, by whatever path.
pub fn is_top(repo: &Repository, dir: &Path) -> bool {
    let real = by_path::canonical(dir).ok();
    real.is_some() && real == repo.work_tree().and_then(|top| by_path::canonical(top).ok())
}

/// Returns the socket of the mount service.
pub fn mount_service(repo: &Repository) -> Result<PathBuf, Error> {
    let configured = configured_dir(repo, keys::sapwood::MOUNT_SERVICE)?;
    Ok(configured.unwrap_or_else(|| backend::SERVICE.into()))
}

/// Returns the directories of `PATH`.
pub fn programs(repo: &Repository) -> Vec<PathBuf> {
    let path = repo.env().bytes("PATH").map_or(b"/usr/bin:/bin".as_slice(), |path| path.as_ref());
    std::env::split_paths(sys::os_str(path)).map(|dir| repo.cwd().join(dir)).collect()
}
