//! Handles of files: names that stay valid when a file is renamed. overlayfs stores the handle of
//! the file from which it copied.

use std::{ffi::CString, io, os::fd::AsRawFd as _};

use rustix::io::Errno;

use crate::{
    Dir,
    profile::{Phase, call},
};

/// The longest handle (`MAX_HANDLE_SZ`).
const LONGEST: usize = 128;

/// A handle of a file, valid on its file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle {
    /// The kind of the handle, which the file system defines.
    pub kind: i32,
    /// The bytes of the handle.
    pub bytes: Vec<u8>,
}

/// `struct file_handle` with room for the longest handle.
#[repr(C)]
struct Buffer {
    length: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; LONGEST],
}

impl Dir {
    /// Returns the handle of a file beneath this directory (`name_to_handle_at`). Follows no link.
    /// Returns `None` if the path does not exist, or if the file system has no handles.
    pub fn handle(&self, path: &[u8]) -> io::Result<Option<FileHandle>> {
        let found = self.with_parent(path, |parent, last| {
            let name = CString::new(last).map_err(|_| Errno::INVAL)?;
            let mut buffer = Buffer { length: LONGEST as libc::c_uint, kind: 0, bytes: [0; LONGEST] };
            let mut mount = 0;
            let asked = call(Phase::Stat, || {
                // SAFETY: the name ends with a NUL. `Buffer` has the layout of `file_handle`, and
                // `length` is the number of bytes behind its head. Each pointer is valid during the
                // call.
                unsafe {
                    libc::name_to_handle_at(
                        parent.as_raw_fd(),
                        name.as_ptr(),
                        (&raw mut buffer).cast(),
                        &raw mut mount,
                        0,
                    )
                }
            });
            if asked == 0 {
                let bytes = buffer.bytes[..LONGEST.min(buffer.length as usize)].to_vec();
                return Ok(Some(FileHandle { kind: buffer.kind, bytes }));
            }
            match Errno::from_io_error(&io::Error::last_os_error()) {
                Some(Errno::OPNOTSUPP | Errno::OVERFLOW | Errno::NOSYS) => Ok(None),
                errno => Err(errno.unwrap_or(Errno::IO)),
            }
        })?;
        Ok(found.flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_follows_its_file() {
        let place = tempfile::tempdir().expect("a directory for tests");
        std::fs::create_dir(place.path().join("d")).expect("made");
        for name in ["a", "d/b"] {
            std::fs::write(place.path().join(name), name).expect("written");
        }
        let dir = Dir::open(place.path()).expect("it opens");
        let Some(first) = dir.handle(b"a").expect("asked") else {
            eprintln!("no handles on {}", place.path().display());
            return;
        };
        let second = dir.handle(b"d/b").expect("asked").expect("the same file system");
        assert_ne!(first, second);
        std::fs::rename(place.path().join("a"), place.path().join("d/c")).expect("renamed");
        assert_eq!(dir.handle(b"d/c").expect("asked"), Some(first));
        assert_eq!(dir.handle(b"a").expect("asked"), None);
    }
}
