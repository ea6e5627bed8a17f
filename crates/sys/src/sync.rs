//! Bringing what was written to the disk.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, IntoRawFd},
};

use crate::{
    File,
    profile::{Phase, call, retried},
};

/// `fsync`: content and attributes are on stable storage, the disk's own cache flushed.
pub fn sync_file(file: impl AsFd) -> io::Result<()> {
    Ok(retried(Phase::Sync, || rustix::fs::fsync(&file))?)
}

/// `close`, whose errors are the last that is heard of what was written: a network mount, or one with quotas, may say only
/// here that it did not fit. The file is closed in any case.
pub fn close(file: File) -> io::Result<()> {
    let descriptor = file.into_std().into_raw_fd();
    let closed = call(Phase::Close, || {
        // SAFETY: `into_raw_fd` has given up the descriptor: it is open, nobody else uses it, and nobody closes it again.
        match unsafe { libc::close(descriptor) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
    match closed {
        // It is closed, and must not be closed again.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        closed => closed,
    }
}

/// `fdatasync`: as [`sync_file`], less attributes that reading does not need.
pub fn sync_data(file: &File) -> io::Result<()> {
    Ok(retried(Phase::Sync, || rustix::fs::fdatasync(file))?)
}

/// `sync_file_range`, waiting: the content's pages have been handed to the disk, but the disk's cache
/// is not flushed and nothing is said about the file's name or size. `core.fsyncMethod=writeout-only`.
pub fn request_writeback(file: &File) -> io::Result<()> {
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    loop {
        let descriptor = file.as_fd().as_raw_fd();
        // SAFETY: takes no pointers; the descriptor is open while `file` is borrowed.
        if call(Phase::Sync, || unsafe { libc::sync_file_range(descriptor, 0, 0, flags) }) == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_way_succeeds_on_a_plain_file() {
        let mut file = File::from(tempfile::tempfile().expect("a file for tests"));
        file.write_all(b"content").expect("written");
        request_writeback(&file).expect("written back");
        sync_data(&file).expect("synced");
        sync_file(&file).expect("synced");
        close(file).expect("closed");
    }
}
