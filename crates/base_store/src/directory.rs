//! A directory, perhaps one that many hosts share.
//!
//! Each file is written below `tmp/`, synced, and renamed; then its directory is synced. A killed
//! writer leaves a file in `tmp/` and nothing else. Hosts need no locks: names of `tmp/` are taken
//! with `O_EXCL`, and whoever renames last wins, with the same bytes or a newer record.

use std::{
    io::{self, Read as _, Write as _},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use format::base_files::{DataFile, Digest, Digester, RecordKind, RecordName};
use sys::{File, FileType, by_path};

use crate::{Error, LONGEST_RECORD, StoredData, StoredRecord, backend::Backend};

/// The directory of files that are being written.
const TEMPORARY: &str = "tmp";

/// The bytes that are copied at once.
const PIECE: usize = 256 << 10;

/// See the module.
pub(crate) struct Directory {
    root: PathBuf,
    interrupt: Arc<AtomicBool>,
    next: AtomicU32,
}

impl Directory {
    pub(crate) fn open(root: &Path, interrupt: Arc<AtomicBool>) -> Result<Directory, Error> {
        let stat = by_path::stat_followed(root).map_err(failed("stat", root))?;
        match stat.map(|stat| stat.file_type) {
            Some(FileType::Directory) => {
                Ok(Directory { root: root.to_owned(), interrupt, next: AtomicU32::new(std::process::id()) })
            }
            Some(_) => Err(failed("open", root)(io::ErrorKind::NotADirectory.into())),
            None => Err(Error::Missing { address: root.display().to_string() }),
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join(digest.path())
    }

    /// Writes a data file, whether it is there or not.
    fn copy(&self, digest: &Digest, from: &Path) -> Result<(), Error> {
        let path = self.path(digest);
        let mut source = open(from)?;
        let mut temporary = self.create()?;
        let mut digester = Digester::default();
        let mut piece = vec![0; PIECE];
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let read = match source.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(failed("read", from))?,
            };
            if read == 0 {
                break;
            }
            digester.update(&piece[..read]);
            temporary.write(&piece[..read])?;
        }
        let found = digester.finish();
        if found != *digest {
            return Err(Error::WrongDigest { path: from.to_owned(), expected: *digest, found });
        }
        self.publish(temporary, &path)
    }

    /// Creates a file in `tmp/`.
    fn create(&self) -> Result<Temporary, Error> {
        let directory = self.root.join(TEMPORARY);
        loop {
            let path = directory.join(format!("{:08x}", self.next.fetch_add(1, Ordering::Relaxed)));
            match by_path::create_new(&path, 0o444) {
                Ok(file) => return Ok(Temporary { file, path, published: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    by_path::create_dir_all(&directory).map_err(failed("create", &directory))?;
                }
                Err(source) => return Err(failed("create", &path)(source)),
            }
        }
    }

    /// Syncs the file, renames it to `path`, which is below the root, and syncs the directory.
    fn publish(&self, mut temporary: Temporary, path: &Path) -> Result<(), Error> {
        sys::sync_file(&temporary.file).map_err(failed("sync", &temporary.path))?;
        let parent = path.parent().expect("the path is below the root");
        if let Err(source) = by_path::rename(&temporary.path, path) {
            if source.kind() != io::ErrorKind::NotFound {
                return Err(failed("rename a file to", path)(source));
            }
            by_path::create_dir_all(parent).map_err(failed("create", parent))?;
            by_path::rename(&temporary.path, path).map_err(failed("rename a file to", path))?;
            for above in parent.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
                by_path::sync_dir(above).map_err(failed("sync", above))?;
            }
        }
        temporary.published = true;
        by_path::sync_dir(parent).map_err(failed("sync", parent))
    }
}

impl Backend for Directory {
    fn has(&self, digest: &Digest) -> Result<bool, Error> {
        let path = self.path(digest);
        Ok(by_path::stat_followed(&path).map_err(failed("stat", &path))?.is_some())
    }

    fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let path = self.path(digest);
        let file = open(&path)?;
        let size = sys::stat_of(&file).map_err(failed("stat", &path))?.size;
        if range.end > size {
            let reason = format!("it has {size} bytes, expected at least {}", range.end);
            return Err(Error::Wrong { address: path.display().to_string(), reason });
        }
        let length = usize::try_from(range.end.saturating_sub(range.start));
        let mut bytes =
            vec![0; length.map_err(|_| failed("read", &path)(io::ErrorKind::OutOfMemory.into()))?];
        file.read_exact_at(&mut bytes, range.start).map_err(failed("read", &path))?;
        Ok(bytes)
    }

    fn write(&self, digest: &Digest, from: &Path) -> Result<(), Error> {
        if self.has(digest)? {
            return Ok(());
        }
        self.copy(digest, from)
    }

    fn record(&self, name: &RecordName) -> Result<Option<Vec<u8>>, Error> {
        let path = self.root.join(name.path());
        let size = match by_path::stat_followed(&path).map_err(failed("stat", &path))? {
            None => return Ok(None),
            Some(stat) => stat.size,
        };
        if size > LONGEST_RECORD as u64 {
            let reason = format!("a record of {size} bytes");
            return Err(Error::Wrong { address: path.display().to_string(), reason });
        }
        by_path::read(&path).map_err(failed("read", &path))
    }

    fn set_record(&self, name: &RecordName, bytes: &[u8], _: &[DataFile]) -> Result<(), Error> {
        let mut temporary = self.create()?;
        temporary.write(bytes)?;
        self.publish(temporary, &self.root.join(name.path()))
    }

    fn remove_record(&self, name: &RecordName) -> Result<(), Error> {
        remove(&self.root.join(name.path()))
    }

    fn records(&self, kind: RecordKind) -> Result<Vec<StoredRecord>, Error> {
        let directory = self.root.join(kind.directory());
        let mut records = Vec::new();
        for name in list(&directory)? {
            let Ok(name) = RecordName::new(kind, name) else { continue };
            // Another host may remove it meanwhile.
            if let Some((_, modified)) = size_and_time(&self.root.join(name.path()))? {
                records.push(StoredRecord { name, modified: Some(modified) });
            }
        }
        records.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(records)
    }

    fn data(&self) -> Result<Vec<StoredData>, Error> {
        let data = self.root.join("data");
        let mut found = Vec::new();
        for digits in list(&data)? {
            for name in list(&data.join(&digits))? {
                let Ok(digest) = name.parse::<Digest>() else { continue };
                let path = data.join(&digits).join(&name);
                if path != self.path(&digest) {
                    continue;
                }
                if let Some((size, modified)) = size_and_time(&path)? {
                    found.push(StoredData { file: DataFile { digest, size }, modified });
                }
            }
        }
        found.sort_by_key(|data| data.file.digest);
        Ok(found)
    }

    fn remove(&self, digest: &Digest) -> Result<(), Error> {
        remove(&self.path(digest))
    }

    fn touch(&self, digest: &Digest) -> Result<(), Error> {
        let path = self.path(digest);
        match open(&path)?.set_modified(SystemTime::now()) {
            // The file is another user's: a copy replaces it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.copy(digest, &path),
            set => set.map_err(failed("set the time of", &path)),
        }
    }

    fn remove_leftovers(&self, before: SystemTime) -> Result<(), Error> {
        let directory = self.root.join(TEMPORARY);
        for name in list(&directory)? {
            let path = directory.join(name);
            if size_and_time(&path)?.is_some_and(|(_, modified)| modified < before) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

/// See [`crate::Remote::create`].
pub(crate) fn create(root: &Path) -> Result<(), Error> {
    if by_path::stat_followed(root).map_err(failed("stat", root))?.is_some() {
        return Ok(());
    }
    let above = root.parent().unwrap_or(root);
    if list(above)?.is_empty() {
        return Err(Error::NoPlace { path: root.to_owned(), above: above.to_owned() });
    }
    match by_path::create_dir(root) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed("create", root)(error)),
        _ => by_path::sync_dir(above).map_err(failed("sync", above)),
    }
}

/// A file in `tmp/`. It is removed unless it is published.
struct Temporary {
    file: File,
    path: PathBuf,
    published: bool,
}

impl Temporary {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(failed("write", &self.path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.published {
            let _ = by_path::remove_file(&self.path);
        }
    }
}

fn failed<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> Error + use<'p> {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

fn open(path: &Path) -> Result<File, Error> {
    by_path::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing { address: path.display().to_string() },
        _ => failed("open", path)(source),
    })
}

fn remove(path: &Path) -> Result<(), Error> {
    match by_path::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed("remove", path)),
    }
}

/// Returns the names in a directory that are UTF-8; none if it does not exist.
fn list(path: &Path) -> Result<Vec<String>, Error> {
    match by_path::list(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(source) => Err(failed("list", path)(source)),
        Ok(names) => Ok(names.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect()),
    }
}

fn size_and_time(path: &Path) -> Result<Option<(u64, SystemTime)>, Error> {
    let stat = by_path::stat_followed(path).map_err(failed("stat", path))?;
    Ok(stat.map(|stat| {
        let (seconds, nanoseconds) = stat.mtime;
        let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        (stat.size, SystemTime::UNIX_EPOCH + since)
    }))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
