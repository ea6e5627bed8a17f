//! Writes commit-graphs: a single file, or a layer on top of others and the list that chains them.
//!
//! The caller must take the lock before it reads the graphs that it replaces or extends: on
//! `commit-graph` for a single file, on `commit-graph-chain` for a layer. A layer is on disk before
//! the list refers to it. Unused files are removed last.

use std::{
    io,
    path::{Path, PathBuf},
};

use format::{HashKind, ObjectId};
use sys::by_path;

use crate::{
    Components, Error, Fsync, HashWriter, Hashing, Lock, LockOptions, SharedRepository, aside,
    temp_file::TempFile,
};

/// The bytes of a file without its checksum, in order.
pub type Content = [Vec<u8>];

/// Files of fewer bytes are hashed on the thread that writes them.
const FEW: usize = 1 << 20;

/// Returns the path of the single file in an object directory.
pub fn single_path(objects: &Path) -> PathBuf {
    objects.join("info/commit-graph")
}

/// Returns the path of the list of layers in an object directory.
pub fn chain_path(objects: &Path) -> PathBuf {
    objects.join("info/commit-graphs/commit-graph-chain")
}

/// Returns the path of the layer with this checksum in an object directory.
pub fn layer_path(objects: &Path, checksum: &str) -> PathBuf {
    objects.join(format!("info/commit-graphs/graph-{checksum}.graph"))
}

/// Locks the file at `path`, and creates its directory if needed. Like Git's, commit-graphs are
/// read-only.
pub fn lock(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
    let parent = path.parent().expect("each of the paths above has one");
    let failed = |source| Error::Io { what: "create", path: parent.to_owned(), source };
    aside(|| options.shared.create_dir_all(parent)).map_err(failed)?;
    let lock = Lock::take(path, options)?;
    lock.forbid_writing()?;
    Ok(lock)
}

/// Replaces the single file.
pub fn write_single(lock: Lock, hash: HashKind, content: &Content, fsync: &Fsync) -> Result<(), Error> {
    let failed = |source| Error::Io { what: "write", path: lock.lock_path().to_owned(), source };
    write(lock.file(), hash, content).map_err(failed)?;
    crate::check_mapped_files()?;
    lock.commit_synced(fsync, Components::COMMIT_GRAPH)
}

/// A new layer, and the layers below it.
#[derive(Debug)]
pub struct Chain<'a> {
    /// The object directory.
    pub objects: &'a Path,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// The checksums of the layers below, the lowest first.
    pub below: &'a [ObjectId],
    /// The single file, if it becomes the lowest layer.
    pub rename: Option<PathBuf>,
}

impl Chain<'_> {
    /// Writes the layer and then the list. Returns the layer's checksum.
    pub fn write(
        &self,
        mut lock: Lock,
        hash: HashKind,
        content: &Content,
        fsync: &Fsync,
    ) -> Result<ObjectId, Error> {
        let dir = self.objects.join("info/commit-graphs");
        let file = TempFile::create(&dir, "tmp_graph_", 0o444, self.shared)?;
        let checksum = write(file.file(), hash, content).map_err(|source| file.error("write", source))?;
        crate::check_mapped_files()?;
        if let Some(single) = &self.rename {
            let lowest = self.below.first().expect("the single file is below the new layer");
            let place = layer_path(self.objects, &lowest.to_string());
            match by_path::hard_link(single, &place) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    by_path::rename(single, &place).map_err(|source| Error::Io {
                        what: "rename base commit-graph file",
                        path: single.clone(),
                        source,
                    })?;
                }
                _ => {}
            }
        }
        let place = layer_path(self.objects, &checksum.to_string());
        file.rename_into_place(&place, fsync, Components::COMMIT_GRAPH)?;
        let list: String = self.below.iter().chain([&checksum]).map(|layer| format!("{layer}\n")).collect();
        lock.write(list.as_bytes())?;
        lock.commit_synced(fsync, Components::COMMIT_GRAPH)?;
        Ok(checksum)
    }
}

fn write(out: impl io::Write, hash: HashKind, content: &Content) -> io::Result<ObjectId> {
    let len: usize = content.iter().map(Vec::len).sum();
    let hashing = if len < FEW { Hashing::Inline } else { Hashing::Threaded };
    let mut writer = HashWriter::new(out, hash, hashing);
    content.iter().try_for_each(|part| writer.write(part))?;
    writer.finish().map(|(_, checksum)| checksum)
}

/// Removes the layers in an object directory that are not among `keep` and were not modified after
/// `time` (seconds since 1970). As in Git, layers that cannot be removed are skipped.
pub fn expire(objects: &Path, keep: &[PathBuf], time: i64) {
    let dir = objects.join("info/commit-graphs");
    let names = by_path::list(&dir).unwrap_or_default().into_iter().map(|(name, _)| dir.join(name));
    for path in names.filter(|path| path.extension().is_some_and(|extension| extension == "graph")) {
        let found = by_path::stat_followed(&path).ok().flatten();
        if found.is_some_and(|found| found.mtime.0 <= time) && !keep.contains(&path) {
            let _ = by_path::remove_file(&path);
        }
    }
}

/// Sets the modification time of a layer to now: it is unused from now on.
pub fn mark_unused(path: &Path) {
    let _ = by_path::touch(path);
}

/// Removes a file that the new one replaces, if it exists.
pub fn remove(path: &Path) {
    let _ = by_path::remove_file(path);
}
