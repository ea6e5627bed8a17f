//! Data files of a remote, read and compared with their digests. Tables and lists stay in the base
//! directory (`tables/`), named by their digests.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use format::{
    ObjectId,
    base_files::{DataFile, Digest, list, manifest, table::Table},
};
use sys::by_path;

use super::{
    Context, Error,
    records::{self, address},
    scratch::{Scratch, ScratchFile},
};
use crate::crew::parallel;

/// The bytes of a request.
pub(super) const RANGE: u64 = 8 << 20;
/// The most bytes of a table or a list. A table of a full segment has some 100 KB.
const MAX_LEN: u64 = 256 << 20;
/// The age of a kept file that nobody has read for so long that it is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The data files that the base of a commit names.
pub(super) struct Stock<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) scratch: &'a Scratch,
    pub(super) commit: ObjectId,
    pub(super) requests: Counter,
}

/// Counts requests and bytes.
#[derive(Default)]
pub(super) struct Counter {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    /// Returns the number of requests and of bytes.
    pub(super) fn get(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Stock<'_> {
    /// Reads a range of a data file.
    pub(super) fn read(&self, digest: &Digest, range: std::ops::Range<u64>) -> Result<Vec<u8>, Error> {
        self.context.check_interrupt()?;
        self.requests.requests.fetch_add(1, Ordering::Relaxed);
        self.requests.bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
        let read = self.context.remote.read(digest, range);
        read.map_err(|error| self.explain(error, digest))
    }

    /// Explains why a file of a manifest could not be read.
    fn explain(&self, error: base_store::Error, digest: &Digest) -> Error {
        if !matches!(error, base_store::Error::Missing { .. }) {
            return error.into();
        }
        let remote = address(self.context.remote);
        match records::manifest(self.context.remote, &self.commit) {
            Ok(None) => Error::Pruned { remote, commit: self.commit },
            _ => Error::Lacks { remote, path: digest.path(), commit: self.commit },
        }
    }

    pub(super) fn damaged(&self, digest: &Digest, reason: impl ToString) -> Error {
        let (remote, path) = (address(self.context.remote), digest.path());
        Error::Damaged { remote, path, reason: reason.to_string() }
    }

    /// Reads a whole file that is kept here. A file that came is kept.
    fn kept(&self, file: DataFile) -> Result<Vec<u8>, Error> {
        if file.size > MAX_LEN {
            return Err(self.damaged(&file.digest, format!("the manifest gives it {} bytes", file.size)));
        }
        let path = dir(self.context).join(file.digest.to_string());
        let kept = by_path::read(&path).ok().flatten();
        if let Some(bytes) = kept.filter(|bytes| Digest::of(bytes) == file.digest) {
            if let Ok(file) = by_path::open(&path) {
                let _ = file.set_modified(SystemTime::now());
            }
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < file.size {
            let end = file.size.min(at + RANGE);
            bytes.extend_from_slice(&self.read(&file.digest, at..end)?);
            at = end;
        }
        if Digest::of(&bytes) != file.digest {
            return Err(self.damaged(&file.digest, "its bytes do not match its name"));
        }
        keep(self.context, self.scratch, &bytes)?;
        Ok(bytes)
    }

    /// Returns a table of a manifest.
    pub(super) fn table(&self, named: &manifest::Table) -> Result<Table, Error> {
        let bytes = self.kept(named.file)?;
        let table = Table::parse(&bytes).map_err(|error| self.damaged(&named.file.digest, error))?;
        if table.segment_len() != named.segment.size || table.hash() != self.commit.kind() {
            return Err(self.damaged(&named.file.digest, "it belongs to another segment"));
        }
        Ok(table)
    }

    /// Returns the names of the objects of a pack.
    pub(super) fn list(&self, pack: &manifest::Pack) -> Result<Vec<ObjectId>, Error> {
        let bytes = self.kept(pack.list)?;
        let names = list::parse(&bytes).map_err(|error| self.damaged(&pack.list.digest, error))?;
        if names.first().is_none_or(|name| name.kind() == self.commit.kind()) {
            Ok(names)
        } else {
            Err(self.damaged(&pack.list.digest, "it names objects of another hash"))
        }
    }

    /// Brings a file here. `done` gets the number of bytes that came.
    pub(super) fn download(&self, file: DataFile, done: &dyn Fn(u64)) -> Result<ScratchFile, Error> {
        let mut scratch = self.scratch.file()?;
        while scratch.size() < file.size {
            let at = scratch.size();
            let end = file.size.min(at + RANGE);
            scratch.write(&self.read(&file.digest, at..end)?)?;
            done(end - at);
        }
        if scratch.named() == file {
            Ok(scratch)
        } else {
            Err(self.damaged(&file.digest, "its bytes do not match its name"))
        }
    }
}

/// Looks for files at the remote, several at a time. Returns one that is not there.
pub(super) fn are_there(context: &Context<'_>, files: Vec<DataFile>) -> Result<Option<DataFile>, Error> {
    let threads = parallel::threads(files.len(), 4, context.connections);
    let there = parallel::map(&files, &mut vec![(); threads], |(), file| {
        context.check_interrupt()?;
        Ok::<bool, Error>(context.remote.has(&file.digest)?)
    })?;
    Ok(files.into_iter().zip(there).find(|(_, is_there)| !is_there).map(|(file, _)| file))
}

fn dir(context: &Context<'_>) -> PathBuf {
    context.bases.dir().join("tables")
}

/// Keeps the bytes of a table or a list.
pub(super) fn keep(context: &Context<'_>, scratch: &Scratch, bytes: &[u8]) -> Result<DataFile, Error> {
    let dir = dir(context);
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    };
    match context.locks.shared.create_dir(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed("create", &dir)(error));
        }
        _ => {}
    }
    let mut aside = scratch.file()?;
    aside.write(bytes)?;
    let named = aside.named();
    let path = dir.join(named.digest.to_string());
    // A crash may leave other bytes. The next reader compares them.
    by_path::set_mode(&aside.path, 0o644).map_err(failed("fix permission bits on", &aside.path))?;
    by_path::rename(&aside.path, &path).map_err(failed("write", &path))?;
    Ok(named)
}

/// Removes kept files that nobody has read for a long time.
pub(super) fn forget_unused(context: &Context<'_>) {
    remove_unused(&dir(context), &|_| false);
}

/// Removes the files of a directory that were not used for a long time, except for those that are
/// needed.
pub(super) fn remove_unused(dir: &Path, is_needed: &dyn Fn(&OsStr) -> bool) {
    let now = SystemTime::now();
    for (name, _) in by_path::list(dir).unwrap_or_default() {
        if is_needed(&name) {
            continue;
        }
        let path = dir.join(name);
        let Ok(Some(stat)) = by_path::stat(&path) else { continue };
        let age = super::seconds(now).saturating_sub(u64::try_from(stat.mtime.0).unwrap_or(0));
        if age > UNUSED.as_secs() {
            let _ = by_path::remove_file(&path);
        }
    }
}
