//! Files on their way to or from a remote. They are removed when they are dropped; what a killed
//! process left is removed by the next one.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use format::base_files::{DataFile, Digester};
use store::SharedRepository;
use sys::{File, by_path};

use super::{Context, Error};

/// A directory for temporary files of this process, inside of the base directory.
pub(super) struct Scratch {
    dir: PathBuf,
    // Held (flock) as long as the process lives.
    _lock: File,
    next: AtomicU64,
}

/// Directories of this kind.
const PREFIX: &str = ".transfer-";

/// The file that a process locks while it makes such a directory or removes abandoned ones. Else
/// another process could take a directory for abandoned before its lock is held.
const GUARD: &str = ".scratch-lock";

impl Scratch {
    pub(super) fn create(context: &Context<'_>) -> Result<Scratch, Error> {
        Scratch::below(context.bases.dir(), context.locks.shared)
    }

    fn below(bases: &Path, shared: SharedRepository) -> Result<Scratch, Error> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        shared.create_dir_all(bases).map_err(failed("create", bases))?;
        let _guard = guard(bases).map_err(failed("lock", &bases.join(GUARD)))?;
        remove_abandoned(bases);
        let mut number = std::process::id();
        loop {
            let dir = bases.join(format!("{PREFIX}{number}"));
            match by_path::create_private_dir(&dir) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1);
                }
                made => {
                    made.map_err(failed("create", &dir))?;
                    let path = dir.join("lock");
                    let lock = by_path::create_new(&path, 0o600).map_err(failed("create", &path))?;
                    sys::lock(&lock).map_err(failed("lock", &path))?;
                    return Ok(Scratch { dir, _lock: lock, next: AtomicU64::new(0) });
                }
            }
        }
    }

    /// Creates an empty file.
    pub(super) fn file(&self) -> Result<ScratchFile, Error> {
        let path = self.dir.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        match by_path::create_new_readable(&path, 0o600) {
            Ok(file) => Ok(ScratchFile { file, path, digester: Digester::default(), size: 0 }),
            Err(source) => Err(Error::Io { action: "create", path, source }),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The lock goes last: without it, the directory counts as abandoned.
        for (name, _) in by_path::list(&self.dir).unwrap_or_default() {
            let path = self.dir.join(&name);
            if name != "lock" {
                let _ = by_path::remove_file(&path);
            }
        }
        // Else another process could make a directory of this name between two removals.
        let _guard = self.dir.parent().map(guard);
        let _ = by_path::remove_dir_all(&self.dir);
    }
}

/// Waits until no other process makes or removes such a directory.
fn guard(bases: &Path) -> std::io::Result<File> {
    let file = by_path::lock_file(&bases.join(GUARD), 0o666)?;
    sys::lock(&file)?;
    Ok(file)
}

/// Removes directories whose processes are gone: nobody holds their locks. The caller holds the
/// guard, so one without a lock was left by a process that was killed.
fn remove_abandoned(bases: &Path) {
    for (name, _) in by_path::list(bases).unwrap_or_default() {
        if !name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let dir = bases.join(name);
        let is_abandoned = match by_path::open(&dir.join("lock")) {
            Ok(lock) => sys::try_lock_shared(&lock).unwrap_or(false),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_abandoned {
            let _ = by_path::remove_dir_all(&dir);
        }
    }
}

/// A file that is being written, with the digest of its bytes.
pub(super) struct ScratchFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    digester: Digester,
    size: u64,
}

impl ScratchFile {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.digester.update(bytes);
        self.size += bytes.len() as u64;
        let written = (&self.file).write_all(bytes);
        written.map_err(|source| Error::Io { action: "write", path: self.path.clone(), source })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the name of the bytes so far.
    pub(super) fn named(&self) -> DataFile {
        DataFile { digest: self.digester.clone().finish(), size: self.size }
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = by_path::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_lock_is_abandoned() {
        let bases = tempfile::tempdir().expect("a directory for tests");
        let left = bases.path().join(format!("{PREFIX}1"));
        by_path::create_private_dir(&left).expect("created");
        let scratch = Scratch::below(bases.path(), SharedRepository::Umask).expect("created");
        assert!(matches!(by_path::stat(&left), Ok(None)));
        assert!(matches!(by_path::stat(&scratch.dir), Ok(Some(_))));
    }

    #[test]
    fn nobody_removes_the_directory_of_a_living_transfer() {
        let bases = tempfile::tempdir().expect("a directory for tests");
        let transfers = || {
            for _ in 0..300 {
                let scratch = Scratch::below(bases.path(), SharedRepository::Umask).expect("created");
                scratch.file().expect("the directory is there").write(b"x").expect("written");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(transfers);
            }
        });
        let left = by_path::list(bases.path()).expect("listed").into_iter().map(|(name, _)| name);
        assert_eq!(left.collect::<Vec<_>>(), [GUARD]);
    }
}
