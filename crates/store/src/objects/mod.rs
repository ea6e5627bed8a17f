//! Loose objects. Each is written to a temporary file in its final directory, or in the object
//! directory if its name is not known yet. The file is synced by the policy and renamed into place.

use std::{
    io::{self, Read, Write as _},
    path::Path,
    time::SystemTime,
};

use format::{HashKind, ObjectId, hash::Hasher, loose::Kind};
use sys::by_path;
use zlib_rs::DeflateFlush;

use crate::{Components, Error, Fsync, SharedRepository, temp_file::TempFile};

mod deflate;
mod transaction;

pub(crate) use deflate::entry_of;
use deflate::{Deflater, deflate};
pub use transaction::Transaction;

/// The default of Git's `core.looseCompression`.
pub const DEFAULT_LEVEL: i32 = 1;

/// Data are read and deflated in pieces of this many bytes.
const PIECE: usize = 64 << 10;

/// Where and how to write objects.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The object directory of a repository.
    pub objects: &'a Path,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// `core.looseCompression`
    pub level: i32,
    /// The sync policy.
    pub fsync: &'a Fsync,
}

/// Why the content of a file was not stored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StreamError {
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// The content is shorter than announced.
    #[error("it was changed while it was read")]
    Length,
    #[error("its content is a collision of SHA-1")]
    Collision,
    #[error(transparent)]
    Store(#[from] Error),
}

/// Writes the object with this name, type and content.
pub fn write(oid: &ObjectId, kind: Kind, content: &[u8], options: &Options<'_>) -> Result<(), Error> {
    let name = oid.to_string();
    let dir = options.objects.join(&name[..2]);
    make_directory(&dir, options.shared)?;
    let mut object = format!("{kind} {}\0", content.len()).into_bytes();
    object.extend_from_slice(content);
    let file = create(&dir, options)?;
    let deflated = deflate(&object, options.level);
    file.file().write_all(&deflated).map_err(|source| file.error("write", source))?;
    file.rename_into_place(&dir.join(&name[2..]), options.fsync, Components::LOOSE_OBJECT)
}

/// Writes a blob of `size` bytes from `content` in pieces, so it may be larger than memory. Returns
/// its name.
pub fn write_stream(
    hash: HashKind,
    size: u64,
    content: &mut dyn Read,
    options: &Options<'_>,
) -> Result<ObjectId, StreamError> {
    let file = create(options.objects, options)?;
    let mut hasher = Hasher::object(hash, "blob", size);
    let mut deflater = Deflater::new(options.level);
    let mut push = |input: &[u8], flush: DeflateFlush| {
        let mut write =
            |made: &[u8]| file.file().write_all(made).map_err(|source| file.error("write", source));
        deflater.push(input, flush, &mut write, |reason| file.error("deflate into", io::Error::other(reason)))
    };
    push(format!("blob {size}\0").as_bytes(), DeflateFlush::NoFlush)?;
    in_pieces(size, content, |piece| {
        hasher.update(piece);
        Ok(push(piece, DeflateFlush::NoFlush)?)
    })?;
    push(&[], DeflateFlush::Finish)?;
    let oid = hasher.finish().map_err(|_| StreamError::Collision)?;
    let name = oid.to_string();
    let dir = options.objects.join(&name[..2]);
    make_directory(&dir, options.shared)?;
    file.rename_into_place(&dir.join(&name[2..]), options.fsync, Components::LOOSE_OBJECT)?;
    Ok(oid)
}

/// Computes the name of the blob like [`write_stream`], and writes nothing.
pub fn hash_stream(hash: HashKind, size: u64, content: &mut dyn Read) -> Result<ObjectId, StreamError> {
    let mut hasher = Hasher::object(hash, "blob", size);
    in_pieces(size, content, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    hasher.finish().map_err(|_| StreamError::Collision)
}

/// Reads `size` bytes and passes them to `take` in pieces. Reads may be short or interrupted.
fn in_pieces(
    size: u64,
    content: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut piece = vec![0; PIECE];
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        match content.read(&mut piece[..most]) {
            Ok(0) => return Err(StreamError::Length),
            Ok(read) => {
                take(&piece[..read])?;
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StreamError::Read(error)),
        }
    }
    Ok(())
}

/// Updates the modification time of an object's file, so that `gc` does not prune it. Returns true
/// on success.
pub fn freshen(file: &Path) -> bool {
    by_path::open(file).and_then(|file| file.set_modified(SystemTime::now())).is_ok()
}

/// Creates a temporary file with Git's prefix: `gc` removes such files when they are left behind.
fn create(dir: &Path, options: &Options<'_>) -> Result<TempFile, Error> {
    TempFile::create(dir, "tmp_obj_", 0o444, options.shared)
}

/// Returns true if the directory is new.
pub(crate) fn make_directory(dir: &Path, shared: SharedRepository) -> Result<bool, Error> {
    let io = |what, source| Error::Io { what, path: dir.to_owned(), source };
    match by_path::create_dir(dir) {
        Ok(()) => {
            shared.adjust_dir(dir).map_err(|source| io("fix permission bits on", source))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(io("create", source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_reads_written_objects() {
        let sandbox = testkit::Sandbox::new();
        let repo = sandbox.init("repo");
        let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
        let noise: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for level in [0, DEFAULT_LEVEL, 9] {
            let options =
                Options { objects: &objects, shared: SharedRepository::Umask, level, fsync: &fsync };
            for content in [&b""[..], &b"100644 x"[..4], &[7; 100_000], &noise] {
                let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
                hasher.update(content);
                let oid = hasher.finish().expect("no collision");
                let blob = || repo.git(&["cat-file", "blob", &oid.to_string()]).stdout;
                write(&oid, Kind::Blob, content, &options).expect("writable");
                assert_eq!(blob(), content);
                let file = objects.join(&oid.to_string()[..2]).join(&oid.to_string()[2..]);
                by_path::remove_file(&file).expect("just written");
                let streamed = write_stream(HashKind::Sha1, content.len() as u64, &mut &*content, &options);
                assert_eq!(streamed.expect("writable"), oid);
                assert_eq!(blob(), content);
            }
            let short = write_stream(HashKind::Sha1, 4, &mut &b"abc"[..], &options);
            assert!(matches!(short, Err(StreamError::Length)));
        }
        repo.git(&["fsck", "--strict"]);
        let left = by_path::list(&objects).expect("readable").into_iter();
        assert!(left.into_iter().all(|(name, _)| !name.to_string_lossy().starts_with("tmp_")));
    }

    /// Reads one byte at a time, and is interrupted before each.
    struct Halting<'a> {
        content: &'a [u8],
        interrupted: bool,
    }

    impl Read for Halting<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.interrupted = !self.interrupted;
            if self.interrupted {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.content.read(&mut buffer[..1])
        }
    }

    #[test]
    fn continues_after_an_interrupted_read() {
        let mut hasher = Hasher::object(HashKind::Sha1, "blob", 3);
        hasher.update(b"abc");
        let named = hasher.finish().expect("no collision");
        let halting = || Halting { content: b"abc", interrupted: false };
        assert_eq!(hash_stream(HashKind::Sha1, 3, &mut halting()).expect("all is there"), named);
        let short = hash_stream(HashKind::Sha1, 4, &mut halting());
        assert!(matches!(short, Err(StreamError::Length)));
        let sandbox = testkit::Sandbox::new();
        let (objects, fsync) = (sandbox.init("repo").join(".git/objects"), Fsync::default());
        let options = Options {
            objects: &objects,
            shared: SharedRepository::Umask,
            level: DEFAULT_LEVEL,
            fsync: &fsync,
        };
        let written = write_stream(HashKind::Sha1, 3, &mut halting(), &options);
        assert_eq!(written.expect("writable"), named);
    }
}
