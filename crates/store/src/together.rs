//! Makes many files durable by one `syncfs` where that costs less than a flush for each of them.

use std::{io, path::Path};

use sys::{File, by_path};

use crate::fsync::write_back;

/// Fewer files are synced one by one.
pub const FROM: usize = 32;

/// The bytes that a disk writes in about the time of one flush, at 128 MB/s and one millisecond.
const BYTES_OF_A_FLUSH: u64 = 128 << 10;

/// Returns the error with which the kernel wrote this file's pages before or in [`Set::sync`].
/// `syncfs` reports an error only once, and a call of another process may have had it.
pub fn check(file: &File) -> io::Result<()> {
    if write_back(file)? { Ok(()) } else { sys::sync_file(file) }
}

/// Files on one file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Set {
    /// The number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Set {
    /// Makes the set durable, with everything else on the file system of `place`; the caller calls
    /// [`check`] for each file. Returns false if the caller must sync each file: that is cheaper,
    /// the file system does not promise it, or the call failed. A failure may concern files of
    /// others, and only a sync of each file tells.
    pub fn sync(self, place: &Path) -> bool {
        if self.files < FROM {
            return false;
        }
        let Ok(place) = by_path::open(place) else { return false };
        sys::can_sync_file_system(&place)
            && sys::unwritten_bytes().is_some_and(|bytes| self.is_cheaper(bytes))
            && sys::sync_file_system(&place).is_ok()
            // The driver of ext2 does not flush the cache of the disk in `syncfs`.
            && sys::sync_file(&place).is_ok()
    }

    /// `syncfs` also writes the bytes of others that wait for a disk. They must take less time than
    /// the flushes that the call saves.
    fn is_cheaper(self, unwritten: u64) -> bool {
        unwritten.saturating_sub(self.bytes) <= self.files as u64 * BYTES_OF_A_FLUSH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_others_count() {
        let set = Set { files: 100, bytes: 1000 };
        let most = 100 * BYTES_OF_A_FLUSH;
        assert!(set.is_cheaper(0) && set.is_cheaper(most + 1000));
        assert!(!set.is_cheaper(most + 1001));
    }

    #[test]
    fn few_files_are_not_synced_together() {
        assert!(!Set { files: FROM - 1, bytes: 0 }.sync(Path::new("/")));
    }
}
