//! Serves contents of a base directory as blobs of a partial clone.
//!
//! A missing blob is looked up here before it is fetched. The records of the blob files are read at
//! the first lookup. Bytes are verified against the object id, because the files may be damaged,
//! and other users may have write access to an alternate.

use std::{
    collections::HashSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use format::{HashKind, ObjectId, hash::Hasher};
use repo::objects::{ContentError, Contents};
use sys::{File, by_path};

use super::{
    Bases,
    blobs::{BLOCK, Blobs, Content},
};

/// The size of a read, in bytes.
const PIECE: u64 = 1 << 20;

/// The contents of a base directory and its alternates.
#[derive(Debug)]
pub struct BlobSource {
    bases: Bases,
    hash: HashKind,
    read: RwLock<Option<Arc<Read>>>,
}

/// The records as of one point in time.
#[derive(Debug)]
struct Read {
    stamp: Vec<(PathBuf, u64)>,
    blobs: Blobs,
    /// The blob files, each opened at its first use. `None` if it cannot be opened.
    files: Vec<OnceLock<Option<File>>>,
    bad: Mutex<HashSet<ObjectId>>,
}

impl BlobSource {
    /// Returns the contents of a directory, which need not exist. Nothing is read yet.
    pub fn of(bases: Bases, hash: HashKind) -> BlobSource {
        BlobSource { bases, hash, read: RwLock::default() }
    }

    /// Returns the file that contains a content, and the offset in bytes. The bytes are not
    /// verified.
    pub(crate) fn place(&self, oid: &ObjectId) -> Option<(PathBuf, u64)> {
        let read = self.get()?;
        let content = read.find(oid)?;
        let file = &read.blobs.files[content.file as usize];
        Some((read.blobs.dir.join(&file.path), u64::from(content.block) * BLOCK))
    }

    fn get(&self) -> Option<Arc<Read>> {
        // Consistent even after a panic, because the records are replaced as a whole.
        let known = self.read.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.or_else(|| self.load())
    }

    fn load(&self) -> Option<Arc<Read>> {
        let mut known = self.read.write().unwrap_or_else(PoisonError::into_inner);
        let alternates = self.bases.alternates().unwrap_or_default();
        let dirs: Vec<PathBuf> = [self.bases.dir().to_owned()].into_iter().chain(alternates).collect();
        let stamp = Blobs::stamp(&dirs);
        if let Some(read) = &*known
            && read.stamp == stamp
        {
            return Some(Arc::clone(read));
        }
        // If the records cannot be read, the contents count as missing and the objects are fetched.
        let blobs = Blobs::open(&dirs[0], &dirs[1..], self.hash).ok()?;
        let files = blobs.files.iter().map(|_| OnceLock::new()).collect();
        let read = Arc::new(Read { stamp, blobs, files, bad: Mutex::default() });
        Some(Arc::clone(known.insert(read)))
    }
}

impl Contents for BlobSource {
    fn refresh(&self) {
        let is_read = self.read.read().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_read {
            self.load();
        }
    }

    fn size(&self, oid: &ObjectId) -> Option<u64> {
        // Blob files do not contain the empty blob.
        if *oid == ObjectId::empty_blob(self.hash) {
            return Some(0);
        }
        self.get()?.find(oid).map(|content| content.size)
    }

    fn read(
        &self,
        oid: &ObjectId,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Option<Result<(), ContentError>> {
        if *oid == ObjectId::empty_blob(self.hash) {
            return Some(Ok(()));
        }
        let read = self.get()?;
        let content = read.find(oid)?;
        let passed = read.pass_on(oid, content, sink);
        if matches!(passed, Err(ContentError::Damaged(..))) {
            read.bad.lock().unwrap_or_else(PoisonError::into_inner).insert(*oid);
        }
        Some(passed)
    }
}

impl Read {
    fn find(&self, oid: &ObjectId) -> Option<Content> {
        let content = self.blobs.find(oid)?;
        let is_bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner).contains(oid);
        (!is_bad).then_some(content)
    }

    fn pass_on(
        &self,
        oid: &ObjectId,
        content: Content,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ContentError> {
        let at = content.file as usize;
        let path = self.blobs.dir.join(&self.blobs.files[at].path);
        let damaged = |source| ContentError::Damaged(path.clone(), source);
        let file = self.files[at].get_or_init(|| by_path::open(&path).ok()).as_ref();
        let file = file.ok_or_else(|| damaged(io::ErrorKind::NotFound.into()))?;
        let mut hasher = Hasher::object(oid.kind(), "blob", content.size);
        let mut buffer = Vec::new();
        let (mut done, start) = (0, u64::from(content.block) * BLOCK);
        while done < content.size {
            let length = PIECE.min(content.size - done);
            buffer.resize(length as usize, 0);
            file.read_exact_at(&mut buffer, start + done).map_err(damaged)?;
            hasher.update(&buffer);
            done += length;
            sink(&buffer).map_err(ContentError::Sink)?;
        }
        match hasher.finish() {
            Ok(name) if name == *oid => Ok(()),
            _ => Err(damaged(io::Error::new(io::ErrorKind::InvalidData, format!("{oid} has other bytes")))),
        }
    }
}
