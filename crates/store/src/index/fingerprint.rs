//! The identity of one version of an index file.

use std::{io, path::Path};

use format::{HashKind, ObjectId};
use sys::{Stat, by_path};

/// Identifies one version of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    checksum: ObjectId,
    /// Required because the checksum may be zeros (`index.skipHash`).
    modified: (i64, u32),
    inode: u64,
    size: u64,
}

impl Fingerprint {
    pub(super) fn new(checksum: ObjectId, stat: &Stat) -> Fingerprint {
        Fingerprint { checksum, modified: stat.mtime, inode: stat.ino, size: stat.size }
    }
}

/// Returns the fingerprint of the index at `path`, or `None` if it is missing or unreadable. A
/// caller that holds the lock compares it with that of [`super::load_with_fingerprint`], to detect
/// that the index changed in between.
pub fn fingerprint(path: &Path, hash: HashKind) -> Option<Fingerprint> {
    use io::{Read as _, Seek as _};
    let mut file = by_path::open(path).ok()?;
    let stat = sys::stat_of(&file).ok()?;
    let mut trailer = vec![0; hash.len()];
    file.seek(io::SeekFrom::End(-i64::try_from(hash.len()).ok()?)).ok()?;
    file.read_exact(&mut trailer).ok()?;
    let checksum = ObjectId::from_bytes(hash, &trailer)?;
    Some(Fingerprint::new(checksum, &stat))
}
