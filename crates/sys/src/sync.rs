//! Flushes written data to the disk.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, AsRawFd, IntoRawFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    File,
    memory::field,
    profile::{Phase, call, retried},
    user::kernel_version,
};

/// The time to start a thread and to wait for its end, with a margin for a busy machine. A sync
/// that takes less is not worth a thread: in memory, or on a disk whose cache survives a power cut.
const START_OF_A_THREAD: Duration = Duration::from_micros(100);

/// See [`are_syncs_slow`].
static ARE_SLOW: AtomicBool = AtomicBool::new(false);

/// Runs `fsync`: content and attributes reach stable storage, and the disk flushes its own cache.
pub fn sync_file(file: impl AsFd) -> io::Result<()> {
    let start = Instant::now();
    let synced = retried(Phase::Sync, || rustix::fs::fsync(&file));
    if start.elapsed() > START_OF_A_THREAD {
        ARE_SLOW.store(true, Ordering::Relaxed);
    }
    Ok(synced?)
}

/// Returns true if a sync of this process took longer than the start of a thread does, so that
/// parallel syncs pay off. File systems in memory and some on a network do nothing in a sync.
pub fn are_syncs_slow() -> bool {
    ARE_SLOW.load(Ordering::Relaxed)
}

/// Runs `close` and returns its error, which is the last one that the system reports for written
/// data: a network mount, or a mount with quotas, may report only here that the data did not fit.
/// The file is closed in any case.
pub fn close(file: File) -> io::Result<()> {
    let descriptor = file.into_std().into_raw_fd();
    let closed = call(Phase::Close, || {
        // SAFETY: `into_raw_fd` gave up the descriptor. It is open, nothing else uses it, and
        // nothing closes it again.
        match unsafe { libc::close(descriptor) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
    match closed {
        // The descriptor is closed already and must not be closed again.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        closed => closed,
    }
}

/// Runs `fdatasync`: like [`sync_file`], without the attributes that a reader does not need.
pub fn sync_data(file: &File) -> io::Result<()> {
    Ok(retried(Phase::Sync, || rustix::fs::fdatasync(file))?)
}

/// Runs `syncfs`: everything that was written to the file system of `file` reaches stable storage.
pub fn sync_file_system(file: impl AsFd) -> io::Result<()> {
    Ok(retried(Phase::Sync, || rustix::fs::syncfs(&file))?)
}

/// Returns true if `syncfs` on the file system of `file` makes all its files durable and reports
/// their errors. Linux reports them since 5.8. A server behind a network file system or FUSE need
/// not see the call, and overlayfs may ignore it.
pub fn can_sync_file_system(file: impl AsFd) -> bool {
    /// ext2 to ext4, xfs, btrfs and f2fs in `statfs(2)`.
    const LOCAL: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
    let found = call(Phase::Stat, || rustix::fs::fstatfs(&file));
    found.is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|magic| LOCAL.contains(&magic)))
        && kernel_version() >= (5, 8)
}

/// Returns the bytes in memory that wait for a disk, of all processes and file systems; `None` if
/// the system does not tell.
pub fn unwritten_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some((field(&text, "Dirty:")? + field(&text, "Writeback:")?) << 10)
}

/// Runs `sync_file_range` and waits: the kernel writes the content's pages to the disk. The disk
/// does not flush its cache, and the file's name and size are not synced. This is
/// `core.fsyncMethod=writeout-only`.
///
/// The kernel reports an error of writing once for each open file: a later sync of this file does
/// not repeat it. [`is_writeback_refused`] tells such an error from a missing system call.
pub fn request_writeback(file: &File) -> io::Result<()> {
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    loop {
        let descriptor = file.as_fd().as_raw_fd();
        // SAFETY: the call takes no pointers, and the descriptor stays open while `file` is
        // borrowed.
        if call(Phase::Sync, || unsafe { libc::sync_file_range(descriptor, 0, 0, flags) }) == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns true if an error of [`request_writeback`] means that the system did not try to write.
pub fn is_writeback_refused(error: &io::Error) -> bool {
    let refused = [libc::ENOSYS, libc::EINVAL, libc::EOPNOTSUPP, libc::ESPIPE, libc::EPERM];
    error.raw_os_error().is_some_and(|number| refused.contains(&number))
}

/// Runs `sync_file_range` without waiting for the disk: the kernel begins to write the pages of the
/// range. The call waits while the queue of the disk is full. It makes nothing durable.
pub fn start_writeback(file: &File, range: Range<u64>) -> io::Result<()> {
    let number = |number: u64| libc::off64_t::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
    let (start, length) = (number(range.start)?, number(range.end.saturating_sub(range.start))?);
    let descriptor = file.as_fd().as_raw_fd();
    let write = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the call takes no pointers, and the descriptor stays open while `file` is borrowed.
    match call(Phase::Sync, || unsafe { libc::sync_file_range(descriptor, start, length, write) }) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn each_method_succeeds_on_a_regular_file() {
        let mut file = File::from(tempfile::tempfile().expect("a file for tests"));
        file.write_all(b"content").expect("written");
        start_writeback(&file, 0..7).expect("begun");
        request_writeback(&file).expect("written back");
        sync_data(&file).expect("synced");
        sync_file(&file).expect("synced");
        assert!(unwritten_bytes().is_some());
        close(file).expect("closed");
    }
}
