//! The untracked cache of an index: whether there is to be one, and where it may be used. Source: git-config(1) `core.untrackedCache`.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BString, ByteSlice as _};
use format::index::{Index, UntrackedCache};
use repo::Repository;

use super::Directories;

/// What `core.untrackedCache` wants of every index that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It stays with it or without, also where the setting is no boolean.
    Keep,
    /// It has one.
    Write,
    /// It has none.
    Remove,
}

/// The setting's, or that of `feature.manyFiles`.
pub fn wish(repo: &Repository) -> Result<Wish, repo::Error> {
    if repo.config_str("core.untrackedCache").is_some() {
        return Ok(match repo.config_bool("core.untrackedCache") {
            Ok(Some(true)) => Wish::Write,
            Ok(Some(false)) => Wish::Remove,
            _ => Wish::Keep,
        });
    }
    let many_files = repo.config_bool("feature.manyFiles")?.unwrap_or(false);
    Ok(if many_files { Wish::Write } else { Wish::Keep })
}

/// Where a cache of this worktree may be used, in Git's words; without a worktree too, by the C library's help.
pub fn ident(repo: &Repository) -> BString {
    let top = repo.work_tree().map_or(&b"(null)"[..], |top| top.as_os_str().as_bytes());
    bstr::concat([b"Location ", top, b", system ", &sys::user::system_name()]).into()
}

/// Gives `index` an empty cache, unless it has one that may be used here. Whether it was changed.
pub fn add(repo: &Repository, index: &mut Index) -> bool {
    let ident = ident(repo);
    if index.untracked.as_ref().is_some_and(|cache| cache.ident() == ident) {
        return false;
    }
    index.untracked = Some(UntrackedCache::new(ident.as_bstr(), configured(repo), index.hash));
    true
}

/// Does what `core.untrackedCache` wants, as Git does whenever it reads an index. Whether `index` was changed.
pub fn settle(repo: &Repository, index: &mut Index) -> Result<bool, repo::Error> {
    Ok(match wish(repo)? {
        Wish::Keep => false,
        Wish::Write => add(repo, index),
        Wish::Remove => index.untracked.take().is_some(),
    })
}

/// Makes the cache of `index` fit for a walk of this manner: one that was filled in another, and not in the one that
/// the configuration asks for, gives way to an empty one, as in Git. `false` if it may not be used here.
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

/// The manner `status` has by the configuration.
fn configured(repo: &Repository) -> u32 {
    let all = repo.config_str("status.showUntrackedFiles").is_some_and(|value| value == "all");
    if all { 0 } else { UntrackedCache::NORMAL }
}
