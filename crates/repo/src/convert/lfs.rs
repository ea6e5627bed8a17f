//! Objects of Git LFS that are in its local store.
//!
//! The filter of Git LFS answers a pointer with the object, if the store has it. Reading the object
//! here saves a round through the process for each file, and a process for each file where only
//! `filter.lfs.smudge` is set. Whatever could make the filter answer otherwise leaves the file to
//! it: an object that is missing, settings or variables that keep pointers, extensions, a pointer
//! in another form, another command.
//!
//! Sources: the specification of pointers, `docs/spec.md` of Git LFS; `git-lfs-config(5)`.

use std::path::PathBuf;

use bstr::{BStr, ByteSlice as _};
use format::{index::Index, keys};
use sys::by_path;

use super::filter::Driver;
use crate::{Error, Repository};

/// The local store.
pub(super) struct Store {
    objects: PathBuf,
    /// The size in bytes of the largest object that is read into memory (`core.bigFileThreshold`).
    /// A larger one is left to the filter.
    largest: u64,
}

impl Store {
    /// Returns the store, if the drivers include that of Git LFS, and nothing selects the paths
    /// that it leaves as pointers.
    pub(super) fn of(repo: &Repository, drivers: &[Driver], index: &Index) -> Result<Option<Store>, Error> {
        const FILE: &[u8] = b".lfsconfig";
        if !drivers.iter().any(Driver::is_lfs) {
            return Ok(None);
        }
        let of_worktree = || match repo.work_tree() {
            Some(top) => !matches!(by_path::stat(&top.join(sys::os_str(FILE))), Ok(None)),
            None => false,
        };
        let selects = [keys::lfs::FETCH_INCLUDE, keys::lfs::FETCH_EXCLUDE]
            .iter()
            .any(|key| repo.config_str(key).is_some())
            || repo.env().is_set("GIT_LFS_SKIP_SMUDGE")
            || index.files_named(FILE).next().is_some()
            || of_worktree();
        if selects {
            return Ok(None);
        }
        let common = repo.real_common_dir();
        let storage = match repo.config_str(&keys::lfs::STORAGE) {
            Some(dir) => common.join(sys::os_str(&dir)),
            None => common.join("lfs"),
        };
        let largest = repo.config(&keys::core::BIG_FILE_THRESHOLD)?;
        Ok(Some(Store { objects: storage.join("objects"), largest }))
    }

    /// Returns the object of a pointer; `None` if it is not here, or the bytes are no pointer.
    pub(super) fn read(&self, pointer: &[u8]) -> Option<Vec<u8>> {
        let (oid, size) = parse(pointer).filter(|(_, size)| *size <= self.largest)?;
        let oid = oid.to_str().ok()?;
        let path = self.objects.join(&oid[..2]).join(&oid[2..4]).join(oid);
        let is_whole = by_path::stat_followed(&path).ok()?.is_some_and(|stat| stat.size == size);
        let bytes = if is_whole { by_path::read(&path).ok()?? } else { return None };
        (bytes.len() as u64 == size).then_some(bytes)
    }
}

/// Returns the object's name and size, if the pointer has the form that Git LFS writes.
fn parse(pointer: &[u8]) -> Option<(&BStr, u64)> {
    const DIGITS: usize = 64;
    let rest = pointer.strip_prefix(b"version https://git-lfs.github.com/spec/v1\noid sha256:")?;
    let (oid, rest) = rest.split_at_checked(DIGITS)?;
    let size = rest.strip_prefix(b"\nsize ")?.strip_suffix(b"\n")?;
    let is_hex = oid.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let size = is_hex.then(|| size.to_str().ok()?.parse().ok())??;
    Some((oid.as_bstr(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pointers_in_the_form_of_git_lfs_are_read() {
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n");
        assert_eq!(parse(text.as_bytes()), Some((BStr::new(oid), 12345)));
        let others = [
            text.replace("\noid", "\next-0-foo sha256:00\noid"),
            text.replace("4d7a", "4D7A"),
            text.replace("\nsize 12345", "\nsize x"),
            text.replace("git-lfs.github.com", "hawser.github.com"),
            text.trim_end().to_owned(),
            format!("{text}more\n"),
            text.replace("2393\n", "239\n"),
        ];
        assert!(others.iter().all(|text| parse(text.as_bytes()).is_none()));
    }
}
