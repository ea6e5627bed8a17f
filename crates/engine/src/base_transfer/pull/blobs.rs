//! Blobs for a repository without a promisor remote.
//!
//! Git's `gc`, `diff` and `fsck` fail in such a repository if a ref leads to a blob that is
//! missing. So the contents of the base become blobs: one pack, published before the base is added.
//! A partial clone needs none: readers find the contents, and Git asks the promisor remotes.

use bstr::BString;
use format::{
    ObjectId,
    index::{Flags, Index},
};

use super::super::{Context, Error, records::address};
use crate::workspace::base::{Absent, BlobPack, BlobSource};

/// A blob to write, and one of its paths.
type Blob = (ObjectId, BString);

/// Writes the blobs of `index` that the repository lacks. Returns their number.
pub(super) fn complete(context: &Context<'_>, commit: ObjectId, index: &Index) -> Result<u64, Error> {
    let missing = missing(context, index);
    if missing.is_empty() {
        return Ok(0);
    }
    let pack = BlobPack {
        source: &BlobSource::of(context.bases.clone(), index.hash),
        objects: context.repo.objects_dir(),
        hash: index.hash,
        promised: false,
        shared: context.locks.shared,
        fsync: context.fsync,
        workers: context.workers,
        interrupt: context.interrupt,
        progress: &|_| {},
    };
    let names: Vec<ObjectId> = missing.iter().map(|(oid, _)| *oid).collect();
    let Some(Absent { oid, damaged }) = pack.write(&names)?.into_iter().next() else {
        return Ok(missing.len() as u64);
    };
    if let Some((path, source)) = damaged {
        return Err(Error::Io { action: "read", path, source });
    }
    let path = missing.into_iter().find(|(name, _)| *name == oid).map(|(_, path)| path);
    let path = path.expect("only wanted blobs are absent");
    Err(Error::NoContent { remote: address(context.remote), commit, path, oid })
}

fn missing(context: &Context<'_>, index: &Index) -> Vec<Blob> {
    let objects = context.repo.stored_objects();
    let is_blob = |at: &usize| {
        let entry = index.entry(*at);
        !entry.mode.is_gitlink() && !entry.flags.contains(Flags::SKIP_WORKTREE)
    };
    let blobs = (0..index.len()).filter(is_blob).filter(|at| !objects.contains(&index.entry(*at).oid));
    let mut blobs: Vec<Blob> = blobs.map(|at| (index.entry(at).oid, index.path_at(at).to_owned())).collect();
    blobs.sort_unstable();
    blobs.dedup_by(|one, other| one.0 == other.0);
    blobs
}
