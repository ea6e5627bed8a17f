//! Read errors in memory-mapped files.
//!
//! If the kernel cannot read a page of a mapped file, it sends SIGBUS to the thread that touches
//! the page. Without a handler the process dies: locks stay behind, and the user does not learn
//! which file failed. The handler here maps a page of zeros in its place and records the file. The
//! thread continues until a caller checks for the error with [`unreadable_map`]. Readers of objects
//! and of the index check it, and so does every step before data are published. After the first
//! error, data read from any mapping must not be trusted.
//!
//! The handler also covers mappings by libraries: it finds the file's name in `/proc/self/maps`. If
//! that cannot be read, the report has no file name.

use std::{
    cell::UnsafeCell,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
};

/// Buffer size for the longest path and the text before it in a line of `/proc/self/maps`.
const LINE: usize = 4096 + 128;

/// Set by the first handler that runs. Only that handler may write the values below.
static CLAIMED: AtomicBool = AtomicBool::new(false);
static NAME: Name = Name(UnsafeCell::new([0; LINE]));
/// The length of the path in `NAME`; written last.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// The error that a `read` at this offset of the file returns. The handler reads at once, because
/// the error may be gone later.
static REASON: AtomicI32 = AtomicI32::new(libc::EIO);
/// The number of unreadable pages so far.
static PAGES: AtomicUsize = AtomicUsize::new(0);
/// The number of these pages that a reader has reported as an error.
static REPORTED: AtomicUsize = AtomicUsize::new(0);

struct Name(UnsafeCell<[u8; LINE]>);

// SAFETY: only the one handler that set `CLAIMED` writes it, before `LENGTH` is set. Others read it
// only after that.
unsafe impl Sync for Name {}

/// Installs the SIGBUS handler that the module describes. Call it once, at the start of the
/// process.
pub fn survive_unreadable_maps() {
    // SAFETY: all zeros is a valid `sigaction`, and its fields are set below. The handler does only
    // what a signal handler may do: system calls and atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        // If this fails, the signal kills the process, as without a handler.
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

/// Returns the first mapped file that could not be read, and the error. Call it after reading from
/// a mapping and before using the data. It is cheap if no page failed.
pub fn unreadable_map() -> Option<(PathBuf, io::Error)> {
    (unreadable_page_count() > 0).then(first_unreadable)
}

/// Like [`unreadable_map`], but ignores pages that a reader has already reported as errors
/// ([`mark_unreadable_maps_reported`]). Call it before an action that depends on data read earlier
/// or elsewhere.
pub fn unreported_unreadable_map() -> Option<(PathBuf, io::Error)> {
    (unreadable_page_count() > REPORTED.load(Ordering::Acquire)).then(first_unreadable)
}

/// Returns the number of unreadable pages so far. A reader compares it before and after a read, to
/// detect that its own mapping failed.
pub fn unreadable_page_count() -> usize {
    PAGES.load(Ordering::Acquire)
}

/// Marks all unreadable pages so far as reported: the readers returned errors, and no result
/// depends on the content of these pages.
pub fn mark_unreadable_maps_reported() {
    REPORTED.store(unreadable_page_count(), Ordering::Release);
}

fn first_unreadable() -> (PathBuf, io::Error) {
    let length = LENGTH.load(Ordering::Acquire);
    // SAFETY: see `Sync`. A length above 0 means that the path is written, and it does not change
    // again.
    let name = unsafe { &*NAME.0.get() };
    let path = match &name[..length] {
        [] => PathBuf::from("a mapped file"),
        name => PathBuf::from(OsStr::from_bytes(name)),
    };
    (path, io::Error::from_raw_os_error(REASON.load(Ordering::Relaxed)))
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes the `siginfo_t` of a SIGBUS, which has an address. errno belongs to
    // this thread.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, libc::__errno_location()) };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let handled = code == libc::BUS_ADRERR && replace(address);
    if !handled {
        // SAFETY: restores the default action: the same access then kills the process as soon as
        // the handler returns.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Maps a page of zeros over the unreadable page. Returns false if that fails.
fn replace(address: usize) -> bool {
    const PAGE: usize = 4096;
    // SAFETY: the call takes no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE);
    let start = address & !(page - 1);
    if !CLAIMED.swap(true, Ordering::AcqRel) {
        // SAFETY: only this call has changed `CLAIMED`, so no other thread uses the buffer.
        let buffer = unsafe { &mut *NAME.0.get() };
        if let Some((length, offset)) = look_up(address, buffer) {
            if let Some(errno) = read_error(&mut buffer[..=length], offset) {
                REASON.store(errno, Ordering::Relaxed);
            }
            LENGTH.store(length, Ordering::Release);
        }
    }
    PAGES.fetch_add(1, Ordering::AcqRel);
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // SAFETY: the page belongs to a mapping that has just failed at this address, so no data are
    // lost. A reference to it reads zeros from now on.
    unsafe { libc::mmap(start as *mut libc::c_void, page, access, flags, -1, 0) != libc::MAP_FAILED }
}

/// Reads one byte at an offset of a file. Returns the error number, or `None` if the byte can be
/// read now or the file is not found. The last byte of `path` is reserved for a NUL. Allocates no
/// memory.
fn read_error(path: &mut [u8], offset: u64) -> Option<i32> {
    *path.last_mut()? = 0;
    // SAFETY: errno belongs to this thread.
    let errno = || unsafe { *libc::__errno_location() };
    // SAFETY: the string ends with a NUL.
    let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Some(errno()).filter(|&errno| errno != libc::ENOENT);
    }
    let mut byte = [0u8];
    // SAFETY: the buffer has room for one byte.
    let read = unsafe { libc::pread(file, byte.as_mut_ptr().cast(), 1, offset as libc::off_t) };
    let answer = (read < 0).then(errno);
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    answer
}

/// Finds the line of `/proc/self/maps` that covers `address`, and moves its path to the beginning
/// of `line`. Returns the path's length, and the address's offset in the file. Allocates no memory.
fn look_up(address: usize, line: &mut [u8; LINE]) -> Option<(usize, u64)> {
    // SAFETY: the string ends with a NUL.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if maps < 0 {
        return None;
    }
    let mut filled = 0;
    let found = loop {
        let room = &mut line[filled..];
        // SAFETY: the length is that of the buffer.
        let read = unsafe { libc::read(maps, room.as_mut_ptr().cast(), room.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break None };
        filled += read;
        while let Some(end) = line[..filled].iter().position(|&byte| byte == b'\n') {
            if let Some((path, offset)) = parse(&line[..end], address) {
                line.copy_within(path..end, 0);
                // SAFETY: opened above.
                unsafe { libc::close(maps) };
                return Some((end - path, offset));
            }
            line.copy_within(end + 1..filled, 0);
            filled -= end + 1;
        }
    };
    // SAFETY: opened above.
    unsafe { libc::close(maps) };
    found
}

/// Parses `start-end perms offset device inode path`. Returns the start of the path in the line,
/// and the offset of `address` in the file, or `None` if the range does not contain `address`.
fn parse(line: &[u8], address: usize) -> Option<(usize, u64)> {
    let hex = |text: &[u8]| u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let range = words.next()?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, end) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    let offset = hex(words.nth(1)?)?;
    let address = address as u64;
    if !(start..end).contains(&address) {
        return None;
    }
    let path = line.iter().position(|&byte| byte == b'/')?;
    Some((path, offset + (address - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lines_of_proc_maps() {
        let line = b"7f00-7f10 r--p 00002000 08:01 1234       /a path/with spaces";
        assert_eq!(parse(line, 0x7f08), Some((41, 0x2008)));
        assert_eq!(&line[41..], b"/a path/with spaces");
        assert_eq!(parse(line, 0x7f10), None);
        assert_eq!(parse(b"7f00-7f10 rw-p 00000000 00:00 0 ", 0x7f08), None);
        assert_eq!(parse(b"", 0), None);
    }

    #[test]
    fn finds_the_file_behind_an_address() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("a file");
        std::fs::write(&path, vec![1; 20_000]).expect("written");
        let map = crate::Map::of(&crate::by_path::open(&path).expect("there")).expect("mapped");
        let mut line = [0; LINE];
        let (length, offset) = look_up(map[9_000..].as_ptr() as usize, &mut line).expect("mapped");
        assert_eq!((&line[..length], offset), (path.as_os_str().as_bytes(), 9_000));
        assert_eq!(read_error(&mut line[..=length], offset), None, "it can be read");
    }
}
