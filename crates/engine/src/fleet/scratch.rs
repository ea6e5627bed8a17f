//! Files on their way to or from a remote. They are removed when they are dropped; what a killed
//! process left is removed by the next one.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use format::fleet::{DataFile, Digester};
use sys::{File, by_path};

use super::{Context, Error};

/// A directory for temporary files of this process, inside of the base directory.
pub(super) struct Scratch {
    dir: PathBuf,
    // Held (flock) as long as the process lives.
    lock: File,
    next: AtomicU64,
}

/// Directories of this kind.
const PREFIX: &str = ".transfer-";

impl Scratch {
    pub(super) fn create(context: &Context<'_>) -> Result<Scratch, Error> {
        let bases = context.bases.dir();
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        context.locks.shared.create_dir_all(bases).map_err(failed("create", bases))?;
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
                    return Ok(Scratch { dir, lock, next: AtomicU64::new(0) });
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
        // The lock goes last: without it, nobody knows that a killed process is gone.
        for (name, _) in by_path::list(&self.dir).unwrap_or_default() {
            let path = self.dir.join(&name);
            if name != "lock" {
                let _ = by_path::remove_file(&path);
            }
        }
        let _ = &self.lock;
        let _ = by_path::remove_dir_all(&self.dir);
    }
}

/// Removes directories whose processes are gone: nobody holds their locks.
fn remove_abandoned(bases: &Path) {
    for (name, _) in by_path::list(bases).unwrap_or_default() {
        if !name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let dir = bases.join(name);
        let is_abandoned = match by_path::open(&dir.join("lock")) {
            Ok(lock) => sys::try_lock_shared(&lock).unwrap_or(false),
            // Its process has not made the lock yet, or was killed just before or at its end.
            Err(_) => is_old(&dir),
        };
        if is_abandoned {
            let _ = by_path::remove_dir_all(&dir);
        }
    }
}

fn is_old(dir: &Path) -> bool {
    const MOST: u64 = 60 * 60;
    let Ok(Some(stat)) = by_path::stat(dir) else { return false };
    let now = super::seconds(std::time::SystemTime::now());
    now.saturating_sub(u64::try_from(stat.mtime.0).unwrap_or(u64::MAX)) > MOST
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
