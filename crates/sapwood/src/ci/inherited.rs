//! The part of an earlier job's repository that the next job may use.
//!
//! A job can write everything below its directory. So only objects, refs, the index and named
//! settings stay in the Git directories of the worktree and of its submodules. Everything that
//! starts a program, or that leads to files elsewhere, is removed before the first command of Git
//! runs there: hooks, other settings, attributes, alternates, links.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use format::config::Edit;
use repo::keys;
use store::{Fsync, LockOptions};
use sys::{FileType, by_path};

use super::{cleanup, directory::cannot, refs};
use crate::Error;

const FILE: FileType = FileType::File;
const DIRECTORY: FileType = FileType::Directory;

/// The entries of a Git directory that stay, if they have this type.
const ENTRIES: &[(&str, FileType)] = &[
    ("HEAD", FILE),
    ("config", FILE),
    ("config.worktree", FILE),
    ("index", FILE),
    ("info", DIRECTORY),
    ("lfs", DIRECTORY),
    ("logs", DIRECTORY),
    ("modules", DIRECTORY),
    ("objects", DIRECTORY),
    ("packed-refs", FILE),
    ("refs", DIRECTORY),
    ("reftable", DIRECTORY),
    ("sapwood", DIRECTORY),
    ("shallow", FILE),
    ("worktrees", DIRECTORY),
];

/// The settings that stay: the format of the repository. Those of `origin` and the addresses of
/// submodules stay too.
const SETTINGS: &[&str] = &[
    keys::core::BARE.name(),
    keys::core::FILE_MODE.name(),
    keys::core::IGNORE_CASE.name(),
    keys::core::LOG_ALL_REF_UPDATES.name(),
    keys::core::PRECOMPOSE_UNICODE.name(),
    keys::core::REPOSITORY_FORMAT_VERSION.name(),
    keys::core::SPARSE_CHECKOUT.name(),
    keys::core::SPARSE_CHECKOUT_CONE.name(),
    keys::core::SYMLINKS.name(),
    keys::core::WORKTREE.name(),
    keys::extensions::OBJECT_FORMAT.name(),
    keys::extensions::PARTIAL_CLONE.name(),
    keys::extensions::REF_STORAGE.name(),
    keys::extensions::WORKTREE_CONFIG.name(),
];

/// The settings that stay in the file of a worktree.
const OF_WORKTREE: &[&str] = &[keys::core::SPARSE_CHECKOUT.name(), keys::core::SPARSE_CHECKOUT_CONE.name()];

/// Removes the rest from the repository in `dir` and from its submodules.
pub(super) fn discard(dir: &Path) -> Result<(), Error> {
    let top = dir.join(".git");
    keep_entries(&top)?;
    keep_repositories(&top.join("modules"))
}

/// Removes from a Git directory all entries but [`ENTRIES`], and all settings but [`SETTINGS`].
fn keep_entries(git_dir: &Path) -> Result<(), Error> {
    keep(git_dir, |name, kind| {
        let is_shared_index = kind == FILE && name.starts_with("sharedindex.");
        is_shared_index || ENTRIES.contains(&(name, kind))
    })?;
    keep(&git_dir.join("info"), |name, kind| (name, kind) == ("sparse-checkout", FILE))?;
    // Objects that another directory holds are fetched, or the repository is made anew.
    keep(&git_dir.join("objects"), |_, kind| kind == DIRECTORY)?;
    keep(&git_dir.join("objects/info"), |name, _| !matches!(name, "alternates" | "http-alternates"))?;
    keep_settings(&git_dir.join("config"), |key, value| is_one_of(SETTINGS, key) || is_address(key, value))?;
    keep_settings(&git_dir.join("config.worktree"), |key, _| is_one_of(OF_WORKTREE, key))
}

/// Applies [`keep_entries`] to the Git directories of submodules below `dir`. The name of a
/// submodule may have slashes, so a directory without `HEAD` has others below it.
fn keep_repositories(dir: &Path) -> Result<(), Error> {
    keep(dir, |_, kind| kind == DIRECTORY)?;
    for (name, _) in entries(dir)? {
        let inner = dir.join(name);
        if by_path::stat(&inner.join("HEAD")).map_err(cannot("examine", &inner))?.is_some() {
            keep_entries(&inner)?;
            keep_repositories(&inner.join("modules"))?;
        } else {
            keep_repositories(&inner)?;
        }
    }
    Ok(())
}

/// Removes the entries of a directory for which `stays` is false. A missing directory has none.
fn keep(dir: &Path, stays: impl Fn(&str, FileType) -> bool) -> Result<(), Error> {
    for (name, kind) in entries(dir)? {
        // No name of a list has other characters.
        if !stays(name.to_str().unwrap_or_default(), kind) {
            remove(&dir.join(name), kind)?;
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<(std::ffi::OsString, FileType)>, Error> {
    match by_path::list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(cannot("read", dir)),
    }
}

fn remove(path: &Path, kind: FileType) -> Result<(), Error> {
    let removed = match kind {
        DIRECTORY => by_path::remove_dir_all(path),
        _ => by_path::remove_file(path),
    };
    removed.map_err(cannot("remove", path))
}

/// Removes from a file the settings for which `stays` is false. It is not changed if all stay.
fn keep_settings(config: &Path, stays: impl Fn(&BStr, &BStr) -> bool) -> Result<(), Error> {
    let pairs = repo::config_file(config)?;
    let value = |value: &Option<BString>| value.clone().unwrap_or_else(|| "true".into());
    let kept = pairs.iter().filter(|(key, given)| stays(key.as_bstr(), value(given).as_bstr()));
    let edits: Vec<Edit> =
        kept.map(|(key, given)| Edit::Add { key: key.clone(), value: value(given) }).collect();
    if edits.len() == pairs.len() {
        return Ok(());
    }
    let rewrite = |_| format::config::edit(b"", &edits).map_err(store::config::Error::Key);
    Ok(store::config::rewrite(config, &LockOptions::default(), &Fsync::default(), rewrite)?)
}

fn is_one_of(names: &[&str], key: &BStr) -> bool {
    names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(key))
}

/// Returns true for a setting that says where `origin` or a submodule is.
fn is_address(key: &BStr, value: &BStr) -> bool {
    let of_origin = |name: String| name.as_bytes().eq_ignore_ascii_case(key);
    // Another refspec could write any ref.
    if of_origin(keys::remote::FETCH.of("origin").into()) {
        return refs::follows_origin(value);
    }
    let origin = [
        keys::remote::URL.of("origin").into(),
        keys::remote::PARTIAL_CLONE_FILTER.of("origin").into(),
        keys::remote::PROMISOR.of("origin").into(),
    ];
    // `git submodule sync` replaces the address by that of `.gitmodules`.
    origin.into_iter().any(of_origin)
        || keys::submodule::ONE_URL.is(key)
        || keys::submodule::ONE_ACTIVE.is(key) && value == "true"
}

/// Returns true if the worktree of a submodule belongs to one of the repositories `git_dirs`, and
/// no link leads elsewhere. `path` is its path below the real path `top`.
pub(super) fn is_own_submodule(top: &Path, path: &Path, git_dirs: &[PathBuf]) -> bool {
    let dir = top.join(path);
    if by_path::realpath_forgiving(&dir) != dir {
        return false;
    }
    let link = dir.join(".git");
    let is_file = matches!(by_path::stat(&link), Ok(Some(stat)) if stat.file_type == FILE);
    let Ok(Some(content)) = by_path::read(&link) else { return false };
    let Some(target) = content.strip_prefix(b"gitdir: ").filter(|_| is_file) else { return false };
    let git_dir = by_path::realpath_forgiving(&dir.join(sys::os_str(target.trim_end().as_bstr())));
    let is_known = git_dirs.iter().any(|known| by_path::realpath_forgiving(known) == git_dir);
    is_known && worktree_of(&git_dir).is_some_and(|worktree| worktree == dir)
}

/// Returns the worktree that the configuration of a submodule names.
fn worktree_of(git_dir: &Path) -> Option<PathBuf> {
    let pairs = repo::config_file(&git_dir.join("config")).ok()?;
    let (_, value) =
        pairs.into_iter().rev().find(|(key, _)| is_one_of(&[keys::core::WORKTREE.name()], key.as_bstr()))?;
    Some(by_path::realpath_forgiving(&git_dir.join(sys::os_str(value?.as_bstr()))))
}

/// Empties the directory of a submodule, unless a link leads elsewhere: `git clean` removes links.
pub(super) fn empty_submodule(top: &Path, path: &Path) -> Result<(), Error> {
    let dir = top.join(path);
    if by_path::realpath_forgiving(&dir) != dir {
        return Ok(());
    }
    match by_path::stat(&dir).map_err(cannot("examine", &dir))? {
        Some(stat) if stat.file_type == DIRECTORY => keep(&dir, |_, _| false),
        _ => Ok(()),
    }
}

/// Returns the Git directories of the submodules of the worktree `dir`.
pub(super) fn submodules(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(cleanup::git_dirs(dir)?.into_iter().skip(1).collect())
}
