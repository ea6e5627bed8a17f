//! Maps of files that turn out not to be readable.
//!
//! The kernel says that by SIGBUS, in the middle of whatever looks at the bytes, and a process that does not expect it dies
//! there: locks stay, and nobody learns which file it was. Here the page becomes one of zeros, the file is
//! remembered, and everything goes on to where it is asked ([`unreadable_map`]): reading objects and the index, and
//! before anything is published. What was read since is not to be trusted, whatever map it came from.
//!
//! Maps of libraries are covered, too: the file is found in `/proc/self/maps`. Where that cannot be read it has no name.

use std::{
    cell::UnsafeCell,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
};

/// More than the longest path, and what stands before it in a line of `/proc/self/maps`.
const LINE: usize = 4096 + 128;

/// Somebody has met a page that cannot be read, and may write what follows.
static MET: AtomicBool = AtomicBool::new(false);
static NAME: Name = Name(UnsafeCell::new([0; LINE]));
/// How much of `NAME` is a path; written last.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// What the system says of that place in the file, asked at once: it may be gone when somebody wants to know.
static REASON: AtomicI32 = AtomicI32::new(libc::EIO);
/// How many pages could not be read.
static PAGES: AtomicUsize = AtomicUsize::new(0);
/// How many of these were told of, by whoever read them.
static TOLD: AtomicUsize = AtomicUsize::new(0);

struct Name(UnsafeCell<[u8; LINE]>);

// SAFETY: written only by the one handler that set `MET`, before `LENGTH` is set; read only after.
unsafe impl Sync for Name {}

/// From now on this process outlives what is in the module's description. To be called once, at the start.
pub fn survive_unreadable_maps() {
    // SAFETY: all zeros is a valid `sigaction`; its fields are set below, and the handler does only what is allowed in
    // one: system calls and atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        // Where this is refused the signal kills, as before.
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

/// Which mapped file could not be read, and why. To be asked by whoever read one, before it is told what was read: from the
/// first time on nothing read from a map is to be trusted. Cheap where all could be read.
pub fn unreadable_map() -> Option<(PathBuf, io::Error)> {
    (unreadable_page_count() > 0).then(first_met)
}

/// The same, unless whoever met it was told and went on without it ([`mark_unreadable_maps_reported`]): what may be done that rests on what
/// was read before, or beside.
pub fn unreported_unreadable_map() -> Option<(PathBuf, io::Error)> {
    (unreadable_page_count() > TOLD.load(Ordering::Acquire)).then(first_met)
}

/// How many pages of maps could not be read. Who maps a file of his own can tell by it whether it was his.
pub fn unreadable_page_count() -> usize {
    PAGES.load(Ordering::Acquire)
}

/// All that could not be read until now has been made an error of each thing that was read for: nothing rests on it.
pub fn mark_unreadable_maps_reported() {
    TOLD.store(unreadable_page_count(), Ordering::Release);
}

fn first_met() -> (PathBuf, io::Error) {
    let length = LENGTH.load(Ordering::Acquire);
    // SAFETY: see `Sync`; a length says that the path is written, and it does not change again.
    let name = unsafe { &*NAME.0.get() };
    let path = match &name[..length] {
        [] => PathBuf::from("a mapped file"),
        name => PathBuf::from(OsStr::from_bytes(name)),
    };
    (path, io::Error::from_raw_os_error(REASON.load(Ordering::Relaxed)))
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a `siginfo_t` that belongs to a SIGBUS, which has an address; errno is this thread's own.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, libc::__errno_location()) };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let handled = code == libc::BUS_ADRERR && replace(address);
    if !handled {
        // SAFETY: the default is to die, which the same access does as soon as this returns.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Puts zeros where a page of a file cannot be read; false if it is no file's.
fn replace(address: usize) -> bool {
    const PAGE: usize = 4096;
    // SAFETY: no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE);
    let start = address & !(page - 1);
    if !MET.swap(true, Ordering::AcqRel) {
        // SAFETY: this call alone has changed `MET`, so nobody else has the buffer.
        let buffer = unsafe { &mut *NAME.0.get() };
        if let Some((length, offset)) = look_up(address, buffer) {
            if let Some(errno) = ask(&mut buffer[..=length], offset) {
                REASON.store(errno, Ordering::Relaxed);
            }
            LENGTH.store(length, Ordering::Release);
        }
    }
    PAGES.fetch_add(1, Ordering::AcqRel);
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // SAFETY: the page belongs to a map that has just failed to be read at this address: nothing can be lost, and whoever
    // holds a reference to it sees bytes there from now on, where there were none.
    unsafe { libc::mmap(start as *mut libc::c_void, page, access, flags, -1, 0) != libc::MAP_FAILED }
}

/// What the system says when a place in a file is read; `None` if it can be read now, or is not found by its name, which has room
/// for a NUL at its end. Allocates nothing.
fn ask(path: &mut [u8], offset: u64) -> Option<i32> {
    *path.last_mut()? = 0;
    // SAFETY: errno is this thread's own.
    let errno = || unsafe { *libc::__errno_location() };
    // SAFETY: a string that ends with a NUL.
    let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Some(errno()).filter(|&errno| errno != libc::ENOENT);
    }
    let mut byte = [0u8];
    // SAFETY: there is room for one byte.
    let read = unsafe { libc::pread(file, byte.as_mut_ptr().cast(), 1, offset as libc::off_t) };
    let answer = (read < 0).then(errno);
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    answer
}

/// Finds the line of `/proc/self/maps` that holds `address` and leaves its path at the beginning of `line`: the path's length,
/// and where in the file the address lies. Allocates nothing.
fn look_up(address: usize, line: &mut [u8; LINE]) -> Option<(usize, u64)> {
    // SAFETY: a string that ends with a NUL.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if maps < 0 {
        return None;
    }
    let mut filled = 0;
    let found = loop {
        let room = &mut line[filled..];
        // SAFETY: as many bytes as there is room for.
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

/// `start-end perms offset device inode path`: where the path begins and which place in the file the address is, if it is in
/// this range.
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
    fn lines_of_maps() {
        let line = b"7f00-7f10 r--p 00002000 08:01 1234       /a path/with spaces";
        assert_eq!(parse(line, 0x7f08), Some((41, 0x2008)));
        assert_eq!(&line[41..], b"/a path/with spaces");
        assert_eq!(parse(line, 0x7f10), None);
        assert_eq!(parse(b"7f00-7f10 rw-p 00000000 00:00 0 ", 0x7f08), None);
        assert_eq!(parse(b"", 0), None);
    }

    #[test]
    fn what_is_mapped_is_found() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("a file");
        std::fs::write(&path, vec![1; 20_000]).expect("written");
        let map = crate::Map::of(&crate::by_path::open(&path).expect("there")).expect("mapped");
        let mut line = [0; LINE];
        let (length, offset) = look_up(map[9_000..].as_ptr() as usize, &mut line).expect("mapped");
        assert_eq!((&line[..length], offset), (path.as_os_str().as_bytes(), 9_000));
        assert_eq!(ask(&mut line[..=length], offset), None, "it can be read");
    }
}
