//! Blobs that a partial clone fetched for its worktree, until that broke off.
//!
//! The refs of the clone are written then, and its blobs are promised, so those that came whole
//! become a pack in the repository. The fetch leaves its temporary file only in a clone that its
//! own process makes. The name of that file holds the process id, which the marker holds too.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use repo::{Repository, keys, pack_indexing};
use store::pack::Target;
use sys::by_path;

use crate::{
    clone::{Error, error::io_error, junk::gone, marker, refs},
    look::shared,
    pack_indexing::incoming::{Purpose, Settings},
};

/// Keeps the blobs that came whole. A file without a use is removed.
pub(in crate::clone) fn keep_promised(
    repo: &Repository,
    git_dir: &Path,
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let Some(process) = marker::process(git_dir) else { return Ok(()) };
    let path = store::pack::temporary_path(repo.objects_dir(), process);
    if !matches!(by_path::stat(&path), Ok(Some(_))) {
        return Ok(());
    }
    let pack_settings = Settings::load(repo, Purpose::Clone)?;
    let options = pack_indexing::Options {
        hash: repo.hash(),
        threads: pack_settings.threads,
        big_file_threshold: pack_settings.big_file_threshold,
        base_cache: pack_settings.base_cache,
        limit: None,
        existing: None,
        interrupt,
        meter: &pack_indexing::Meter::default(),
        observer: None,
    };
    let target = Target {
        objects: repo.objects_dir(),
        hash: repo.hash(),
        shared: shared::of(repo.config_value(&keys::core::SHARED_REPOSITORY))?,
        fsync: &refs::sync_policy(repo, &|_| {})?,
    };
    let promisor = Some(Vec::new());
    match crate::pack_indexing::salvage(&path, target, &pack_settings.finish(), promisor, &options) {
        Ok(_) => Ok(()),
        Err(_) if interrupt.load(Ordering::Relaxed) => Err(Error::Interrupted),
        // The server is asked for the blobs again.
        Err(_) => gone(by_path::remove_file(&path)).map_err(io_error("remove", &path)),
    }
}
