//! Extended attributes, without following links, and the markers of overlay file systems.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd as _},
    path::Path,
};

use rustix::{
    fs::{AtFlags, XattrFlags, fgetxattr, fsetxattr, lgetxattr, llistxattr, lremovexattr, lsetxattr},
    io::Errno,
};

use crate::{
    Dir,
    profile::{Phase, retried},
};

/// Returns the value of an extended attribute. Returns `None` if there is none, or if the file
/// system has no extended attributes.
pub fn get(path: &Path, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    let read = |buffer: &mut Vec<u8>| lgetxattr(path, name, rustix::buffer::spare_capacity(buffer));
    none_if_missing(grown(read))
}

/// Like [`get`] for an open file. It cannot be one that was opened with `O_PATH`.
pub fn get_of(file: impl AsFd, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    let read = |buffer: &mut Vec<u8>| fgetxattr(&file, name, rustix::buffer::spare_capacity(buffer));
    none_if_missing(grown(read))
}

/// Returns the names of all extended attributes that are visible to this process.
pub fn list(path: &Path) -> io::Result<Vec<CString>> {
    let read = |buffer: &mut Vec<u8>| llistxattr(path, rustix::buffer::spare_capacity(buffer));
    let names = none_if_missing(grown(read))?.unwrap_or_default();
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| CString::new(name).expect("it was split at each NUL")).collect())
}

/// Sets an extended attribute.
pub fn set(path: &Path, name: &CStr, value: &[u8]) -> io::Result<()> {
    crate::changes::before_change();
    Ok(retried(Phase::Write, || lsetxattr(path, name, value, XattrFlags::empty()))?)
}

/// Like [`set`] for an open file.
pub fn set_of(file: impl AsFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    crate::changes::before_change();
    Ok(retried(Phase::Write, || fsetxattr(&file, name, value, XattrFlags::empty()))?)
}

/// Removes an extended attribute. A missing attribute is not an error.
pub fn remove(path: &Path, name: &CStr) -> io::Result<()> {
    crate::changes::before_change();
    none_if_missing(retried(Phase::Write, || lremovexattr(path, name))).map(drop)
}

/// Like [`get`] for a path beneath `dir`. Follows no link at all.
pub fn get_in(dir: &Dir, path: &[u8], name: &CStr) -> io::Result<Option<Vec<u8>>> {
    let found = dir.with_parent(path, |parent, last| {
        // Before Linux 6.13, no system call takes a directory and a name here. The magic link leads
        // to the directory even if its path has changed.
        let place = [format!("/proc/self/fd/{}/", parent.as_raw_fd()).as_bytes(), last].concat();
        let read = |buffer: &mut Vec<u8>| lgetxattr(&*place, name, rustix::buffer::spare_capacity(buffer));
        match grown(read) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            answer => answer.map(Some),
        }
    })?;
    Ok(found.flatten())
}

/// Returns true if `path` is a whiteout of an overlay: a character device with the number 0, which
/// users without privileges can also create.
pub fn is_whiteout(dir: &Dir, path: &[u8]) -> io::Result<bool> {
    let found = dir.with_parent(path, |parent, last| {
        retried(Phase::Stat, || rustix::fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW))
    })?;
    Ok(found.is_some_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::CharacterDevice
            && stat.st_rdev == 0
    }))
}

/// Returns true if `trusted.*` attributes are visible to this process: it has `CAP_SYS_ADMIN` in
/// the initial user namespace. For other processes the kernel hides them.
pub fn sees_trusted() -> bool {
    // The inode number of the initial user namespace is part of the kernel's interface.
    const INITIAL: u64 = 0xeffffffd;
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    may && crate::by_path::stat_followed(Path::new("/proc/self/ns/user"))
        .is_ok_and(|found| found.is_some_and(|stat| stat.ino == INITIAL))
}

/// Calls `read` with a buffer that grows until the result fits.
fn grown(mut read: impl FnMut(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::with_capacity(256);
    loop {
        match retried(Phase::Stat, || read(&mut buffer)) {
            Ok(_) => return Ok(buffer),
            Err(Errno::RANGE) if buffer.capacity() < 1 << 20 => {
                let more = buffer.capacity() * 4;
                buffer = Vec::with_capacity(more);
            }
            Err(errno) => return Err(errno),
        }
    }
}

fn none_if_missing<T>(answer: Result<T, Errno>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_attributes_of_files_and_not_of_link_targets() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let file = place.path().join("f");
        std::fs::write(&file, "x").expect("written");
        std::os::unix::fs::symlink("f", place.path().join("l")).expect("made");
        let long = vec![b'v'; 3000];
        for (name, value) in [(c"user.a", &b"1"[..]), (c"user.long", &long)] {
            if set(&file, name, value).is_err() {
                eprintln!("no user attributes on {}", file.display());
                return;
            }
        }
        let dir = Dir::open(place.path()).expect("it opens");
        assert_eq!(get(&file, c"user.a").expect("read"), Some(b"1".to_vec()));
        assert_eq!(get(&file, c"user.long").expect("read"), Some(long.clone()));
        assert_eq!(get_in(&dir, b"f", c"user.long").expect("read"), Some(long));
        assert_eq!(get_in(&dir, b"l", c"user.a").expect("read"), None);
        assert_eq!(get_in(&dir, b"none", c"user.a").expect("read"), None);
        assert_eq!(get(&place.path().join("l"), c"user.a").expect("read"), None);
        let names = list(&file).expect("listed");
        assert!(
            names.contains(&c"user.a".to_owned()) && names.contains(&c"user.long".to_owned()),
            "{names:?}"
        );
        remove(&file, c"user.a").expect("removed");
        remove(&file, c"user.a").expect("nothing to remove");
        assert_eq!(get_of(crate::by_path::open(&file).expect("opens"), c"user.a").expect("read"), None);
        assert!(!is_whiteout(&dir, b"f").expect("a stat"));
        assert!(!is_whiteout(&dir, b"none").expect("a stat"));
    }

    #[test]
    fn a_device_with_the_number_0_is_a_whiteout() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let node = |name: &str, device: &[&str]| {
            let path = place.path().join(name);
            let made = std::process::Command::new("mknod").arg(path).args(device).status();
            made.expect("can be run").success()
        };
        if !node("w", &["c", "0", "0"]) {
            eprintln!("no whiteouts in {}", place.path().display());
            return;
        }
        let dir = Dir::open(place.path()).expect("it opens");
        assert!(is_whiteout(&dir, b"w").expect("a stat"));
        assert!(node("p", &["p"]));
        assert!(!is_whiteout(&dir, b"p").expect("a stat"));
    }
}
