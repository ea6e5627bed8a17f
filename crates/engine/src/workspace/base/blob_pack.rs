//! Contents of a base directory become blobs of a repository: one pack.
//!
//! Git knows objects alone. A repository without a promisor remote gets the blobs with the pull,
//! and a partial clone when Git asks for them. Each content is compared with its object id while it
//! is read. The pack is published when it is complete.

use std::{
    io::{self, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use format::{HashKind, ObjectId};
use repo::objects::{ContentError, Contents as _, Kind};
use store::{
    Fsync, SharedRepository,
    objects::{ObjectTransaction, Options, PackOnAdd, StreamError},
};

use super::{BlobSource, Error};
use crate::crew::{Workers, parallel};

/// The level of zlib. The contents are in the base as well, so time counts more than room.
const LEVEL: i32 = 1;
/// A larger content is copied in pieces.
const LARGE: u64 = 16 << 20;
/// Blobs for which another worker pays off.
const SHARE: usize = 64;
const BATCH: usize = 256;

/// The destination of blobs, and how they are written.
pub struct BlobPack<'a> {
    /// The contents.
    pub source: &'a BlobSource,
    /// The object directory.
    pub objects: &'a Path,
    /// Its hash algorithm.
    pub hash: HashKind,
    /// The blobs are those of a promisor remote.
    pub promised: bool,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// The sync policy.
    pub fsync: &'a Fsync,
    /// The number of workers.
    pub workers: Workers,
    /// Set to stop.
    pub interrupt: &'a AtomicBool,
    /// Called with the number of blobs that are done, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// A blob that was not written.
#[derive(Debug)]
pub struct Absent {
    /// Its name.
    pub oid: ObjectId,
    /// The damaged file that should hold it; `None` if no file does.
    pub damaged: Option<(PathBuf, io::Error)>,
}

impl BlobPack<'_> {
    /// Writes the wanted blobs that the contents hold. Returns the others, in order.
    pub fn write(&self, wanted: &[ObjectId]) -> Result<Vec<Absent>, Error> {
        let transaction = ObjectTransaction::new(Options {
            shared: self.shared,
            pack_level: Some(LEVEL),
            pack_on_add: PackOnAdd::From(1),
            promised: self.promised,
            ..Options::new(self.objects, self.fsync)
        });
        let most = match self.workers {
            Workers::Auto => sys::cores(),
            Workers::Fixed(count) => count,
        };
        let batches: Vec<&[ObjectId]> = wanted.chunks(BATCH).collect();
        let mut workers = vec![Vec::new(); parallel::threads(wanted.len(), SHARE, most)];
        let done = AtomicU64::new(0);
        let absent = parallel::map(&batches, &mut workers, |content, batch| {
            let mut absent = Vec::new();
            for oid in *batch {
                if self.interrupt.load(Ordering::Relaxed) {
                    return Err(Error::Interrupted);
                }
                absent.extend(self.add(&transaction, *oid, content)?);
                (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Ok(absent)
        })?;
        transaction.publish()?;
        Ok(absent.into_iter().flatten().collect())
    }

    /// Stages a blob. `content` is memory that a worker uses again. Returns the blob if it is
    /// absent.
    fn add(
        &self,
        transaction: &ObjectTransaction<'_>,
        oid: ObjectId,
        content: &mut Vec<u8>,
    ) -> Result<Option<Absent>, Error> {
        let Some(size) = self.source.size(&oid) else { return Ok(Some(Absent { oid, damaged: None })) };
        if size > LARGE {
            return self.stream(transaction, oid, size);
        }
        content.clear();
        let read = self.source.read(&oid, &mut |piece| {
            content.extend_from_slice(piece);
            Ok(())
        });
        let damaged = match read {
            None => None,
            Some(Ok(())) => {
                transaction.write(&oid, Kind::Blob, content)?;
                return Ok(None);
            }
            Some(Err(ContentError::Damaged(path, source))) => Some((path, source)),
            Some(Err(ContentError::Sink(source))) => {
                return Err(Error::Io { action: "read", path: self.objects.to_owned(), source });
            }
        };
        Ok(Some(Absent { oid, damaged }))
    }

    fn stream(
        &self,
        transaction: &ObjectTransaction<'_>,
        oid: ObjectId,
        size: u64,
    ) -> Result<Option<Absent>, Error> {
        let Some((path, offset)) = self.source.place(&oid) else {
            return Ok(Some(Absent { oid, damaged: None }));
        };
        let damaged = |source| Ok(Some(Absent { oid, damaged: Some((path.clone(), source)) }));
        let opened = sys::by_path::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            Ok(io::Read::take(file, size))
        });
        let mut content = match opened {
            Ok(content) => content,
            Err(source) => return damaged(source),
        };
        // A content with another name is damaged, and is not staged.
        let named = transaction.write_stream_unless(self.hash, size, &mut content, &|name| *name != oid);
        let other = || io::Error::new(io::ErrorKind::InvalidData, format!("{oid} has other bytes"));
        match named {
            Ok(name) if name == oid => Ok(None),
            Ok(_) | Err(StreamError::Collision) => damaged(other()),
            Err(StreamError::Read(source)) => damaged(source),
            Err(StreamError::Length) => damaged(io::ErrorKind::UnexpectedEof.into()),
            Err(StreamError::Store(source)) => Err(source.into()),
        }
    }
}
