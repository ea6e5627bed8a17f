//! The untracked cache of an index: adds and removes it, and checks whether it is valid for a
//! worktree. Source: git-config(1) `core.untrackedCache`.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Index, UntrackedCache},
};
use repo::{Repository, keys};

use super::{Directories, recorded::ignore_file_id};
use crate::look::ignore;

/// The effect of `core.untrackedCache` on every index that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSetting {
    /// The index keeps its cache, or stays without one. Also applies if the setting is not a
    /// boolean.
    Keep,
    /// The index gets a cache.
    Write,
    /// The index loses its cache.
    Remove,
}

/// Reads the setting, or `feature.manyFiles`.
pub fn setting(repo: &Repository) -> Result<CacheSetting, repo::Error> {
    if repo.config_str(&keys::core::UNTRACKED_CACHE).is_some() {
        return Ok(match repo.config(&keys::core::UNTRACKED_CACHE) {
            Ok(Some(true)) => CacheSetting::Write,
            Ok(Some(false)) => CacheSetting::Remove,
            _ => CacheSetting::Keep,
        });
    }
    let many_files = repo.config(&keys::feature::MANY_FILES)?;
    Ok(if many_files { CacheSetting::Write } else { CacheSetting::Keep })
}

/// Returns the identity of the worktree for which a cache is valid, in Git's format. Without a
/// worktree it contains the text that the C library prints for a null pointer.
pub fn ident(repo: &Repository) -> BString {
    let top = repo.work_tree().map_or(&b"(null)"[..], |top| top.as_os_str().as_bytes());
    ident_of(top)
}

/// Returns the identity of the worktree at `top` for which a cache is valid, in Git's format.
pub fn ident_of(top: &[u8]) -> BString {
    bstr::concat([b"Location ", top, b", system ", &sys::user::system_name()]).into()
}

/// Returns the object names of `info/exclude` and `core.excludesFile` as stored in a cache; null
/// for a missing file.
pub fn names_of_excludes(repo: &Repository) -> Result<[ObjectId; 2], repo::Error> {
    let files = ignore::outside_files(repo)?;
    Ok(files.map(|file| {
        file.map_or(ObjectId::null(repo.hash()), |content| ignore_file_id(repo.hash(), &content))
    }))
}

/// Adds an empty cache to `index`, unless it has one that is valid for this worktree. Returns true
/// if the index was changed.
pub fn add(repo: &Repository, index: &mut Index) -> bool {
    let ident = ident(repo);
    if index.untracked.as_ref().is_some_and(|cache| cache.ident() == ident) {
        return false;
    }
    index.untracked = Some(UntrackedCache::new(ident.as_bstr(), configured(repo), index.hash));
    true
}

/// Applies `core.untrackedCache`, as Git does whenever it reads an index. Returns true if the index
/// was changed.
pub fn settle(repo: &Repository, index: &mut Index) -> Result<bool, repo::Error> {
    Ok(match setting(repo)? {
        CacheSetting::Keep => false,
        CacheSetting::Write => add(repo, index),
        CacheSetting::Remove => index.untracked.take().is_some(),
    })
}

/// Prepares the cache of `index` for a walk with this option. As in Git, a cache that was filled
/// with an option other than this one and the configured one is replaced by an empty one. Returns
/// false if the cache is not valid for this worktree.
pub fn fit(repo: &Repository, index: &mut Index, directories: Directories) -> bool {
    let Some(cache) = &index.untracked else { return true };
    let ident = ident(repo);
    if cache.ident() != ident {
        return false;
    }
    let wanted = if directories == Directories::Files { 0 } else { UntrackedCache::NORMAL };
    if ![wanted, configured(repo)].contains(&cache.dir_flags()) {
        index.untracked = Some(UntrackedCache::new(ident.as_bstr(), wanted, index.hash));
    }
    true
}

/// Returns the cache flags of the option that the configuration selects for `status`.
fn configured(repo: &Repository) -> u32 {
    let all = repo.config_str(&keys::status::SHOW_UNTRACKED_FILES).is_some_and(|value| value == "all");
    if all { 0 } else { UntrackedCache::NORMAL }
}
