//! Loose objects: one file each, in a directory named after the first byte.

use std::collections::{HashMap, hash_map::Entry};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use format::{ObjectId, hash::Prefix};
use sys::{Dir, File};

/// An object directory and its loose objects.
#[derive(Debug)]
pub(super) struct LooseDir {
    path: PathBuf,
    // An open handle avoids resolving the long path for each object. `None` if it cannot be opened.
    dir: OnceLock<Option<Dir>>,
    // The objects in the listed directories, by the first byte of their names.
    listed: Mutex<HashMap<u8, Vec<ObjectId>>>,
}

impl LooseDir {
    pub(super) fn new(path: PathBuf) -> LooseDir {
        LooseDir { path, dir: OnceLock::new(), listed: Mutex::default() }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Returns the path of an object's file.
    pub(super) fn file(&self, oid: &ObjectId) -> PathBuf {
        let (name, len) = relative(oid);
        let name = std::str::from_utf8(&name[..len]).expect("hexadecimal digits and a slash");
        self.path.join(Path::new(name))
    }

    pub(super) fn contains(&self, oid: &ObjectId) -> bool {
        // By path this is one system call, by the handle of the directory three.
        let found = sys::by_path::stat(&self.file(oid));
        matches!(found, Ok(Some(stat)) if stat.file_type != sys::FileType::Directory)
    }

    /// Returns the objects whose names begin with `prefix`, which has at least two digits. Each
    /// directory is listed once and cached; with `anew` it is listed again.
    pub(super) fn with_prefix(
        &self,
        prefix: Prefix,
        anew: bool,
    ) -> Result<Vec<ObjectId>, (PathBuf, io::Error)> {
        let first = prefix.first();
        let byte = first.as_bytes()[0];
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if anew {
            listed.remove(&byte);
        }
        let all = match listed.entry(byte) {
            Entry::Occupied(listed) => listed.into_mut(),
            Entry::Vacant(place) => place.insert(self.list(first)?),
        };
        Ok(all.iter().filter(|oid| prefix.matches(oid)).copied().collect())
    }

    /// Returns true if the object exists, or existed when its directory was first listed.
    pub(super) fn lists(&self, oid: &ObjectId) -> bool {
        let whole = Prefix::of(oid, oid.kind().hex_len());
        self.with_prefix(whole, false).is_ok_and(|found| !found.is_empty())
    }

    /// Lists the objects in the directory of this object.
    fn list(&self, first: ObjectId) -> Result<Vec<ObjectId>, (PathBuf, io::Error)> {
        let (name, _) = relative(&first);
        let (above, path) = (&name[..2], self.path.join(sys::os_str(&name[..2])));
        let entries = match sys::by_path::list(&path) {
            Ok(entries) => entries,
            Err(error) if sys::is_missing(&error) => Vec::new(),
            Err(error) => return Err((path, error)),
        };
        let named =
            |(name, _): &(OsString, _)| ObjectId::from_hex(first.kind(), &[above, name.as_bytes()].concat());
        Ok(entries.iter().filter_map(named).collect())
    }

    /// Opens an object; returns `None` if the file does not exist.
    pub(super) fn open(&self, oid: &ObjectId) -> io::Result<Option<File>> {
        let (name, len) = relative(oid);
        let opened = match self.dir() {
            Some(dir) => dir.open_file(&name[..len]),
            None => sys::by_path::open(&self.file(oid)),
        };
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // The handle does not follow symbolic links. Git does, and some object directories
            // contain links.
            Err(_) => match sys::by_path::open(&self.file(oid)) {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    fn dir(&self) -> Option<&Dir> {
        self.dir.get_or_init(|| Dir::open(&self.path).ok()).as_ref()
    }
}

/// Returns the relative path `ab/cdef…` and its length.
fn relative(oid: &ObjectId) -> ([u8; 65], usize) {
    let mut room = [0; 64];
    let (dir, file) = oid.hex_into(&mut room).split_at(2);
    let mut name = [b'/'; 65];
    name[..2].copy_from_slice(dir);
    name[3..][..file.len()].copy_from_slice(file);
    (name, 3 + file.len())
}

/// Reads a file of `size` bytes into a reused buffer, up to `limit`.
pub(super) fn read_whole(file: &File, size: u64, limit: u64, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    if into.capacity() > super::reader::RETAINED {
        *into = Vec::new();
    }
    sys::read_up_to(file, size, limit, into)
}

/// Reads the first bytes of a file, up to `limit`.
pub(super) fn read_prefix(file: &File, limit: u64, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    file.take(limit).read_to_end(into).map(drop)
}
