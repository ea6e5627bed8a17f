//! Loose objects. Each is written under another name beside where it belongs, synced by the policy, and renamed into place.

use std::{
    io::{self, Write as _},
    path::Path,
};

use format::{ObjectId, loose::Kind};
use sys::by_path;
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound};

use crate::{Components, Error, Fsync, SharedRepository, unnamed::Unnamed};

/// Git's `core.looseCompression`, where it is not set.
const LEVEL: i32 = 1;

/// Writes the object of this name, type and content below `objects`, the object directory of a repository.
pub fn write(
    objects: &Path,
    oid: &ObjectId,
    (kind, content): (Kind, &[u8]),
    shared: SharedRepository,
    fsync: &Fsync,
) -> Result<(), Error> {
    let name = oid.to_string();
    let dir = objects.join(&name[..2]);
    make_directory(&dir, shared)?;
    let mut object = format!("{kind} {}\0", content.len()).into_bytes();
    object.extend_from_slice(content);
    // So Git calls them, and `gc` removes those that were left behind.
    let file = Unnamed::create(&dir, "tmp_obj_", 0o444, shared)?;
    file.file().write_all(&deflate(&object)).map_err(|source| file.error("write", source))?;
    file.name(&dir.join(&name[2..]), fsync, Components::LOOSE_OBJECT)
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

fn deflate(object: &[u8]) -> Vec<u8> {
    const WINDOW_BITS: u8 = 15;
    let mut deflated = vec![0; compress_bound(object.len())];
    let mut stream = Deflate::new(LEVEL, true, WINDOW_BITS);
    let status = stream.compress(object, &mut deflated, DeflateFlush::Finish);
    assert_eq!(status, Ok(Status::StreamEnd), "there is room for whatever it may become");
    deflated.truncate(usize::try_from(stream.total_out()).expect("no longer than its room"));
    deflated
}

#[cfg(test)]
mod tests {
    use format::{HashKind, hash::Hasher};

    use super::*;

    #[test]
    fn git_reads_what_was_written() {
        let sandbox = testkit::Sandbox::new();
        let repo = sandbox.init("repo");
        for content in [&b""[..], &b"100644 x"[..4], &[7; 100_000]] {
            let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
            hasher.update(content);
            let oid = hasher.finish().expect("no collision");
            let object = (Kind::Blob, content);
            write(&repo.join(".git/objects"), &oid, object, SharedRepository::Umask, &Fsync::default())
                .expect("writable");
            assert_eq!(repo.git(&["cat-file", "blob", &oid.to_string()]).stdout, content);
        }
        repo.git(&["fsck", "--strict"]);
    }
}
