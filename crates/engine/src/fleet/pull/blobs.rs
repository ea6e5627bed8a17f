//! Blobs for a repository without a promisor remote.
//!
//! Git's `gc`, `diff` and `fsck` fail in such a repository if a ref leads to a blob that is
//! missing. So the contents of the base become blobs: one pack, published before the base is added.
//! A partial clone needs none: readers find the contents, and Git asks the promisor remote.

use std::io::{self, Seek as _, SeekFrom};

use bstr::BString;
use format::{
    ObjectId,
    index::{Flags, Index},
};
use repo::objects::{ContentError, Contents as _, Kind};
use store::objects::{Options, PackOnAdd, StreamError, Transaction};

use super::super::{Context, Error, records::address};
use crate::{
    crew::{Workers, parallel},
    workspace::base::BlobSource,
};

/// The level of zlib. The contents are in the base as well, so time counts more than room.
const LEVEL: i32 = 1;
/// A larger content is copied in pieces.
const LARGE: u64 = 16 << 20;
/// Blobs for which another worker pays off.
const SHARE: usize = 64;
const BATCH: usize = 256;

/// A blob to write, and one of its paths.
type Blob = (ObjectId, BString);

/// Writes the blobs of `index` that the repository lacks. Returns their number.
pub(super) fn complete(context: &Context<'_>, commit: ObjectId, index: &Index) -> Result<u64, Error> {
    let missing = missing(context, index);
    if missing.is_empty() {
        return Ok(0);
    }
    let blob_source = BlobSource::of(context.bases.clone(), index.hash);
    let transaction = Transaction::new(Options {
        shared: context.locks.shared,
        pack_level: Some(LEVEL),
        pack_on_add: PackOnAdd::From(1),
        ..Options::new(context.repo.objects_dir(), context.fsync)
    });
    let most = match context.workers {
        Workers::Auto => sys::cores(),
        Workers::Fixed(count) => count,
    };
    let batches: Vec<&[Blob]> = missing.chunks(BATCH).collect();
    let mut workers = vec![Vec::new(); parallel::threads(missing.len(), SHARE, most)];
    let source = Source { context, commit, blob_source: &blob_source, transaction: &transaction };
    parallel::map(&batches, &mut workers, |content, batch| {
        batch.iter().try_for_each(|blob| {
            context.check_interrupt()?;
            source.write(blob, content)
        })
    })?;
    transaction.publish()?;
    Ok(missing.len() as u64)
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

struct Source<'s> {
    context: &'s Context<'s>,
    commit: ObjectId,
    blob_source: &'s BlobSource,
    transaction: &'s Transaction<'s>,
}

impl Source<'_> {
    /// Writes a blob. `content` is memory that a worker uses again.
    fn write(&self, (oid, path): &Blob, content: &mut Vec<u8>) -> Result<(), Error> {
        let absent = || Error::NoContent {
            remote: address(self.context.remote),
            commit: self.commit,
            path: path.clone(),
            oid: *oid,
        };
        let size = self.blob_source.size(oid).ok_or_else(absent)?;
        if size > LARGE {
            return self.stream(oid, size).unwrap_or_else(|| Err(absent()));
        }
        content.clear();
        let read = self.blob_source.read(oid, &mut |piece| {
            content.extend_from_slice(piece);
            Ok(())
        });
        match read.ok_or_else(absent)? {
            Ok(()) => Ok(self.transaction.write(oid, Kind::Blob, content)?),
            Err(ContentError::Damaged(path, source)) => Err(Error::Io { action: "read", path, source }),
            Err(ContentError::Sink(source)) => {
                Err(Error::Io { action: "read", path: self.context.bases.dir().to_owned(), source })
            }
        }
    }

    /// Returns `None` if the content is not here.
    fn stream(&self, oid: &ObjectId, size: u64) -> Option<Result<(), Error>> {
        let (path, offset) = self.blob_source.place(oid)?;
        let failed = |source| Error::Io { action: "read", path: path.clone(), source };
        let opened = sys::by_path::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            Ok(io::Read::take(file, size))
        });
        let mut content = match opened {
            Ok(content) => content,
            Err(source) => return Some(Err(failed(source))),
        };
        // A content with another name is damaged, and is not staged.
        let named = self.transaction.write_stream_unless(oid.kind(), size, &mut content, &|name| name != oid);
        let other = || io::Error::new(io::ErrorKind::InvalidData, format!("{oid} has other bytes"));
        Some(match named {
            Ok(name) if name == *oid => Ok(()),
            Ok(_) | Err(StreamError::Collision) => Err(failed(other())),
            Err(StreamError::Read(source)) => Err(failed(source)),
            Err(StreamError::Length) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Err(StreamError::Store(source)) => Err(source.into()),
        })
    }
}
