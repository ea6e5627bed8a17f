//! Loose objects. Each is written under another name beside where it belongs, synced by the policy, and renamed into place.

use std::{
    io::{self, Read, Write as _},
    path::Path,
    time::SystemTime,
};

use format::{HashKind, ObjectId, hash::Hasher, loose::Kind};
use sys::by_path;
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound};

use crate::{Components, Error, Fsync, SharedRepository, unnamed::Unnamed};

/// Git's `core.looseCompression`, where it is not set.
pub const DEFAULT_LEVEL: i32 = 1;

const WINDOW_BITS: u8 = 15;

/// Where objects go, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The object directory of a repository.
    pub objects: &'a Path,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// `core.looseCompression`
    pub level: i32,
    /// What is synced.
    pub fsync: &'a Fsync,
}

/// Why the content of a file was not stored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StreamError {
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// It is not as long as was said.
    #[error("it was changed while it was read")]
    Length,
    #[error("its content is a collision of SHA-1")]
    Collision,
    #[error(transparent)]
    Store(#[from] Error),
}

/// Writes the object of this name, type and content.
pub fn write(oid: &ObjectId, (kind, content): (Kind, &[u8]), options: &Options<'_>) -> Result<(), Error> {
    let name = oid.to_string();
    let dir = options.objects.join(&name[..2]);
    make_directory(&dir, options.shared)?;
    let mut object = format!("{kind} {}\0", content.len()).into_bytes();
    object.extend_from_slice(content);
    let file = create(&dir, options)?;
    let deflated = deflate(&object, options.level);
    file.file().write_all(&deflated).map_err(|source| file.error("write", source))?;
    file.name(&dir.join(&name[2..]), options.fsync, Components::LOOSE_OBJECT)
}

/// Writes the blob of the `size` bytes that `content` has, piece by piece: it may be larger than memory. Returns its name.
pub fn write_stream(
    hash: HashKind,
    size: u64,
    content: &mut dyn Read,
    options: &Options<'_>,
) -> Result<ObjectId, StreamError> {
    const PIECE: usize = 64 << 10;
    let file = create(options.objects, options)?;
    let mut hasher = Hasher::object(hash, "blob", size);
    let mut stream = Deflate::new(options.level, true, WINDOW_BITS);
    let (mut piece, mut deflated) = (vec![0; PIECE], vec![0; PIECE]);
    let mut push = |input: &[u8], flush: DeflateFlush| {
        let mut input = input;
        loop {
            let (before_in, before_out) = (stream.total_in(), stream.total_out());
            let status = stream.compress(input, &mut deflated, flush);
            let (took, made) = (stream.total_in() - before_in, stream.total_out() - before_out);
            input = &input[usize::try_from(took).expect("no more than there is")..];
            let made = &deflated[..usize::try_from(made).expect("no more than there is room for")];
            file.file().write_all(made).map_err(|source| file.error("write", source))?;
            let rests = flush == DeflateFlush::NoFlush && input.is_empty() && made.len() < PIECE;
            if rests || status == Ok(Status::StreamEnd) {
                return Ok::<(), Error>(());
            }
        }
    };
    push(format!("blob {size}\0").as_bytes(), DeflateFlush::NoFlush)?;
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        match content.read(&mut piece[..most]) {
            Ok(0) => return Err(StreamError::Length),
            Ok(read) => {
                hasher.update(&piece[..read]);
                push(&piece[..read], DeflateFlush::NoFlush)?;
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StreamError::Read(error)),
        }
    }
    push(&[], DeflateFlush::Finish)?;
    let oid = hasher.finish().map_err(|_| StreamError::Collision)?;
    let name = oid.to_string();
    let dir = options.objects.join(&name[..2]);
    make_directory(&dir, options.shared)?;
    file.name(&dir.join(&name[2..]), options.fsync, Components::LOOSE_OBJECT)?;
    Ok(oid)
}

/// Shows that the object which `file` holds is in use, so that it is not pruned. Whether that could be shown.
pub fn freshen(file: &Path) -> bool {
    by_path::open(file).and_then(|file| file.set_modified(SystemTime::now())).is_ok()
}

/// So Git calls them, and `gc` removes those that were left behind.
fn create(dir: &Path, options: &Options<'_>) -> Result<Unnamed, Error> {
    Unnamed::create(dir, "tmp_obj_", 0o444, options.shared)
}

fn make_directory(dir: &Path, shared: SharedRepository) -> Result<(), Error> {
    let io = |what, source| Error::Io { what, path: dir.to_owned(), source };
    match by_path::create_dir(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(source) => return Err(io("create", source)),
    }
    let stat = by_path::stat(dir).map_err(|source| io("stat", source))?;
    let mode = stat.map_or(0o777, |stat| stat.mode & 0o7777);
    match shared.dir_mode(mode) {
        wanted if wanted == mode => Ok(()),
        wanted => by_path::set_mode(dir, wanted).map_err(|source| io("fix permission bits on", source)),
    }
}

fn deflate(object: &[u8], level: i32) -> Vec<u8> {
    let mut deflated = vec![0; compress_bound(object.len())];
    let mut stream = Deflate::new(level, true, WINDOW_BITS);
    let status = stream.compress(object, &mut deflated, DeflateFlush::Finish);
    assert_eq!(status, Ok(Status::StreamEnd), "there is room for whatever it may become");
    deflated.truncate(usize::try_from(stream.total_out()).expect("no longer than its room"));
    deflated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_reads_what_was_written() {
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
                write(&oid, (Kind::Blob, content), &options).expect("writable");
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
}
