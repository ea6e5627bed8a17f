//! Copying the objects of a repository on this machine, file by file.
//!
//! Promise: every file below the source's `objects` gets a copy below the target's: a hard link, or
//! a reflink or copy if links are unwanted or impossible. Symbolic links are refused: if they were
//! followed, the owner of the source could pull any readable file into the clone. `info/alternates`
//! is not copied but returned, because its relative lines have another meaning elsewhere.
//!
//! Order: all workers share a queue of directories. A directory is created before its files. On
//! failure the first error is returned, and the caller removes the files created so far.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BString, ByteVec};
use store::SharedRepository;
use sys::{
    Dir, DirMut, FileType,
    profile::{self, Phase},
};

use super::junk::gone;
use crate::{crew::Meter, files::own};

/// The method of copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// Hard links. After the first failure, copies.
    Preferred,
    /// Hard links only (`--local` given).
    Required,
    /// Reflinks or copies (`--no-hardlinks`).
    Never,
}

/// The reason why the objects could not be copied. Messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("'{}' is a symlink, refusing to clone with --local", .path.display())]
    RootIsSymlink { path: PathBuf },
    #[error("symlink '{path}' exists, refusing to clone with --local")]
    Symlink { path: BString },
    #[error("hardlink different from source at '{}'", .path.display())]
    Swapped { path: PathBuf },
    #[error("failed to iterate over '{}'", .path.display())]
    Iterate { path: PathBuf, source: io::Error },
    #[error("failed to create directory '{}'", .path.display())]
    CreateDirectory { path: PathBuf, source: io::Error },
    #[error("failed to create link '{}'", .path.display())]
    Link { path: PathBuf, source: io::Error },
    #[error("failed to copy file to '{}'", .path.display())]
    Copy { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
}

/// The result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    /// Number of files linked or copied.
    pub files: usize,
    /// The content of the source's `info/alternates`; empty if there is none.
    pub alternates: BString,
}

/// Options of a copy.
#[derive(Clone, Copy)]
pub(super) struct CopyOptions<'a> {
    pub linking: Linking,
    /// The permissions of copies.
    pub shared: SharedRepository,
    /// Counts the files.
    pub meter: Option<&'a Meter>,
}

/// Copies the object directory `source` to `target`, which is created if it is missing.
pub(super) fn copy_objects(
    source: &Path,
    target: &Path,
    options: CopyOptions<'_>,
    workers: usize,
    interrupt: &AtomicBool,
) -> Result<Copied, Error> {
    let iterate = |error| Error::Iterate { path: source.to_owned(), source: error };
    match sys::by_path::stat(source).map_err(iterate)? {
        Some(stat) if stat.file_type == FileType::Symlink => {
            return Err(Error::RootIsSymlink { path: source.to_owned() });
        }
        _ => {}
    }
    sys::by_path::create_dir_all(target)
        .map_err(|error| Error::CreateDirectory { path: target.to_owned(), source: error })?;
    let job = CopyJob {
        from: Dir::open(source).map_err(iterate)?,
        to: own::open(target)
            .map_err(|error| Error::CreateDirectory { path: target.to_owned(), source: error })?,
        source,
        target,
        required: options.linking == Linking::Required,
        link: AtomicBool::new(options.linking != Linking::Never),
        shared: options.shared,
        meter: options.meter,
        interrupt,
        queue: Mutex::new(Queue { directories: vec![BString::default()], ..Queue::default() }),
        changed: Condvar::new(),
    };
    let phase = profile::current();
    let waiting = std::thread::scope(|scope| {
        for _ in 1..workers.max(1) {
            scope.spawn(|| {
                let _profiled = profile::thread(phase);
                job.work();
            });
        }
        job.work();
        profile::span(Phase::Wait)
    });
    drop(waiting);
    let queue = job.queue.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    match queue.error {
        Some(error) => Err(error),
        None => Ok(queue.copied),
    }
}

struct CopyJob<'a> {
    from: Dir,
    to: DirMut,
    source: &'a Path,
    target: &'a Path,
    required: bool,
    link: AtomicBool,
    shared: SharedRepository,
    meter: Option<&'a Meter>,
    interrupt: &'a AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Paths relative to both roots; empty for the roots themselves.
    directories: Vec<BString>,
    busy: usize,
    copied: Copied,
    error: Option<Error>,
}

impl CopyJob<'_> {
    fn work(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            if queue.error.is_some() {
                break;
            }
            let Some(directory) = queue.directories.pop() else {
                if queue.busy == 0 {
                    break;
                }
                queue = self.changed.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            };
            queue.busy += 1;
            drop(queue);
            let outcome = self.directory(&directory);
            queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            queue.busy -= 1;
            match outcome {
                Ok(found) => {
                    queue.directories.extend(found.directories);
                    queue.copied.files += found.files;
                    queue.copied.alternates.push_str(&found.alternates);
                }
                Err(error) => queue.error = queue.error.take().or(Some(error)),
            }
            self.changed.notify_all();
        }
        self.changed.notify_all();
    }

    fn directory(&self, directory: &BString) -> Result<Found, Error> {
        let iterate = |error| Error::Iterate { path: below(self.source, directory), source: error };
        let create = |error| Error::CreateDirectory { path: below(self.target, directory), source: error };
        let (from, to) = if directory.is_empty() {
            (self.from.try_clone().map_err(iterate)?, self.to.try_clone().map_err(create)?)
        } else {
            match self.to.create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(create(error)),
                _ => {}
            }
            (self.from.open_dir(directory).map_err(iterate)?, self.to.open_dir(directory).map_err(create)?)
        };
        let mut found = Found::default();
        for (name, file_type) in from.list().map_err(iterate)? {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let mut path = directory.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.push_str(&name);
            match file_type {
                FileType::Symlink => return Err(Error::Symlink { path }),
                FileType::Directory => found.directories.push(path),
                _ if path == "info/alternates" => {
                    let mut file = from.open_file(&name).map_err(iterate)?;
                    let mut content = Vec::new();
                    io::Read::read_to_end(&mut file, &mut content).map_err(iterate)?;
                    found.alternates = content.into();
                }
                _ => {
                    self.file(&from, &to, &name, path)?;
                    found.files += 1;
                    if let Some(meter) = self.meter {
                        meter.add(1);
                    }
                }
            }
        }
        Ok(found)
    }

    fn file(&self, from: &Dir, to: &DirMut, name: &[u8], path: BString) -> Result<(), Error> {
        let target = || below(self.target, &path);
        if self.link.load(Ordering::Relaxed) {
            let iterate = |error| Error::Iterate { path: below(self.source, &path), source: error };
            let seen = from.stat(name).map_err(iterate)?;
            match to.link_from(from, name, name).or_else(|error| {
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error);
                }
                to.remove_file(name)?;
                to.link_from(from, name, name)
            }) {
                Ok(()) => {
                    // Another process may have replaced the source between the two calls by a file
                    // that must not be linked. The comparison omits ctime, which a new link
                    // changes.
                    let linked = to.stat(name).map_err(|source| Error::Link { path: target(), source })?;
                    let same = matches!((seen, linked), (Some(seen), Some(linked))
                        if identity(&seen) == identity(&linked));
                    return if same { Ok(()) } else { Err(Error::Swapped { path: target() }) };
                }
                Err(source) if self.required => return Err(Error::Link { path: target(), source }),
                Err(_) => self.link.store(false, Ordering::Relaxed),
            }
        }
        copy(from, to, name, self.shared).map_err(|source| Error::Copy { path: target(), source })
    }
}

#[derive(Default)]
struct Found {
    directories: Vec<BString>,
    files: usize,
    alternates: BString,
}

fn identity(stat: &sys::Stat) -> (u32, u64, u64, u64, u32, u32) {
    (stat.mode, stat.ino, stat.dev, stat.size, stat.uid, stat.gid)
}

fn below(root: &Path, path: &BString) -> PathBuf {
    if path.is_empty() { root.to_owned() } else { root.join(sys::os_str(path)) }
}

/// Copies one file, by reflink if the file system supports it. The modification time is kept,
/// because Git prunes unreachable objects by age.
fn copy(from: &Dir, to: &DirMut, name: &[u8], shared: SharedRepository) -> io::Result<()> {
    let source = from.open_file(name)?;
    let stat = sys::stat_of(&source)?;
    if stat.file_type != FileType::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    gone(to.remove_file(name))?;
    let target = to.create_new(name, stat.mode & 0o111 != 0)?;
    shared.adjust_file(&target)?;
    if sys::reflink(&source, &target).is_err() {
        sys::copy_stoppable(&source, &target)?;
    }
    if let Ok(since_epoch) = u64::try_from(stat.mtime.0) {
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(since_epoch, stat.mtime.1);
        target.set_modified(time)?;
    }
    sys::close(target)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

    use super::*;

    fn run_copy(root: &Path, linking: Linking, workers: usize) -> Result<Copied, Error> {
        let never = AtomicBool::new(false);
        let options = CopyOptions { linking, shared: SharedRepository::Umask, meter: None };
        copy_objects(&root.join("from"), &root.join("to"), options, workers, &never)
    }

    fn source() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory for tests");
        for fan in 0..40 {
            let directory = root.path().join(format!("from/{fan:02x}"));
            fs::create_dir_all(&directory).expect("made");
            for file in 0..fan {
                fs::write(directory.join(format!("{file}")), format!("{fan}/{file}")).expect("written");
            }
        }
        fs::create_dir_all(root.path().join("from/info")).expect("made");
        fs::create_dir_all(root.path().join("from/pack")).expect("made");
        fs::write(root.path().join("from/pack/pack-1.pack"), "pack").expect("written");
        root
    }

    fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64)> {
        let mut found = BTreeMap::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("listed") {
                let path = entry.expect("an entry").path();
                let metadata = fs::symlink_metadata(&path).expect("there");
                if metadata.is_dir() {
                    directories.push(path);
                } else {
                    let name = path.strip_prefix(root).expect("below").to_owned();
                    found.insert(name, (fs::read(&path).expect("read"), metadata.ino()));
                }
            }
        }
        found
    }

    #[test]
    fn links_are_the_same_files_with_any_number_of_workers() {
        for workers in [1, 8] {
            let root = source();
            let copied = run_copy(root.path(), Linking::Required, workers).expect("linked");
            assert_eq!(copied.files, (0..40).sum::<usize>() + 1);
            assert_eq!(files(&root.path().join("from")), files(&root.path().join("to")));
            assert!(root.path().join("to/00").is_dir(), "empty directories too");
        }
    }

    #[test]
    fn copies_have_the_same_content_and_time() {
        let root = source();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let pack = fs::File::options().write(true).open(root.path().join("from/pack/pack-1.pack"));
        pack.expect("opened").set_modified(old).expect("set");
        run_copy(root.path(), Linking::Never, 4).expect("copied");
        let [from, to] = ["from", "to"].map(|side| files(&root.path().join(side)));
        assert_eq!(from.len(), to.len());
        for ((name, (content, ino)), (target, (copy, copy_ino))) in from.iter().zip(&to) {
            assert_eq!((name, content), (target, copy));
            assert_ne!(ino, copy_ino, "{name:?}");
        }
        let metadata = fs::metadata(root.path().join("to/pack/pack-1.pack")).expect("there");
        assert_eq!(metadata.modified().expect("known"), old);
    }

    #[test]
    fn refuses_symbolic_links() {
        for place in ["from/01/link", "from/evil", "from/info/alternates"] {
            let root = source();
            std::os::unix::fs::symlink("/etc", root.path().join(place)).expect("made");
            let refused = run_copy(root.path(), Linking::Preferred, 2);
            let name = place.strip_prefix("from/").expect("below");
            assert!(matches!(refused, Err(Error::Symlink { path }) if path == name));
        }
        let root = source();
        fs::rename(root.path().join("from"), root.path().join("real")).expect("renamed");
        std::os::unix::fs::symlink("real", root.path().join("from")).expect("made");
        assert!(matches!(run_copy(root.path(), Linking::Never, 1), Err(Error::RootIsSymlink { .. })));
    }

    #[test]
    fn returns_alternates_instead_of_copying_them() {
        let root = source();
        fs::write(root.path().join("from/info/alternates"), "../../x/objects\n").expect("written");
        let copied = run_copy(root.path(), Linking::Preferred, 2).expect("linked");
        assert_eq!(copied.alternates, "../../x/objects\n");
        assert!(!root.path().join("to/info/alternates").exists());
    }

    #[test]
    fn stops_when_interrupted() {
        let root = source();
        let now = AtomicBool::new(true);
        let options = CopyOptions { linking: Linking::Never, shared: SharedRepository::Umask, meter: None };
        let stopped = copy_objects(&root.path().join("from"), &root.path().join("to"), options, 2, &now);
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }
}
