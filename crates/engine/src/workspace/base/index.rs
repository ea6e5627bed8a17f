//! The index of a base: written once with the base, installed in each workspace.
//!
//! It is a split index. Workspaces link the shared half, which contains all entries, and the file
//! with the places of the entries in it. Each gets a copy of the small half, which contains the
//! cache-tree and the untracked cache. The copy also contains the workspace's path.

use std::{
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use format::{
    HashKind,
    index::{Flags, Fsmonitor, Index, MonitorAnswer, Stat, parts},
};
use repo::Repository;
use store::{
    Fsync, LockOptions,
    index::{CommitError, Expire, WriteOptions, path_of_places},
};
use sys::by_path;

use super::{Base, Error, untracked_cache};
use crate::{look::untracked, workspace::upper};

/// Writes both halves of the index of the base `name` to the directory `dir`. Returns the name of
/// the shared half. Every entry has the flag of the file system monitor, for an empty upper layer.
pub(super) fn write(
    dir: &Path,
    name: &str,
    mut index: Index,
    fsync: &Fsync,
) -> Result<format::ObjectId, Error> {
    for entry in index.entries_mut() {
        entry.flags.remove(Flags::UPTODATE);
        entry.flags.set(Flags::FSMONITOR_VALID, !entry.mode.is_gitlink());
    }
    if index.untracked.is_none() {
        untracked_cache::prefill(&mut index, &|_| Stat::default());
    }
    let (token, hash) = (upper::token_of_empty(name), index.hash);
    index.fsmonitor = Some(Fsmonitor { token, answer: MonitorAnswer::Changes });
    let options =
        WriteOptions { split: Some(true), shared_index_expire: Expire::Never, ..WriteOptions::default() };
    let rest = dir.join("rest");
    let io = |source| Error::Io { action: "write", path: rest.clone(), source };
    let lock =
        store::index::lock(&rest, &LockOptions::default()).map_err(|error| io(io::Error::other(error)))?;
    let written = store::index::commit(lock, &mut index, &options, fsync, &|_, _| false);
    written.map_err(|error: CommitError| io(io::Error::other(error)))?;
    let shared = index.base.expect("a split index has a shared half");
    let from = dir.join(shared_name(&shared));
    let to = dir.join("index");
    by_path::rename(&from, &to).map_err(|source| Error::Io { action: "rename", path: from, source })?;
    write_places(&to, hash, fsync)?;
    Ok(shared)
}

/// Writes the places of the entries of the shared half `index` beside it.
fn write_places(index: &Path, hash: HashKind, fsync: &Fsync) -> Result<(), Error> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    };
    let map = by_path::open(index).and_then(|file| sys::Map::of(&file)).map_err(failed("read", index))?;
    let Some(places) = format::index::places::list(&map, hash) else { return Ok(()) };
    let path = path_of_places(index);
    let written = by_path::create_new(&path, 0o666).and_then(|mut file| {
        file.write_all(&places)?;
        fsync.file(store::Components::INDEX, &file)
    });
    written.map_err(failed("write", &path))
}

fn shared_name(oid: &format::ObjectId) -> String {
    format!("sharedindex.{oid}")
}

/// The file system monitor of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// The upper layer provides the changes.
    UpperLayer,
    /// No monitor: every file is examined by its stat data.
    None,
}

impl Base {
    /// Writes the index of a workspace at `top` into its administrative directory `admin`, which
    /// has no index yet. Its shared half is a link to that of the base.
    pub fn install_index(
        &self,
        repo: &Repository,
        admin: &Path,
        top: &Path,
        monitor: Monitor,
        fsync: &Fsync,
    ) -> Result<(), Error> {
        let (from, to) = (self.shared_index(), admin.join(shared_name(&self.shared_index)));
        if by_path::hard_link(&from, &to).is_err() {
            copy(&from, &to)?;
        }
        // Older bases have no list of places. An index without one is read entry by entry.
        let (from, to) = (path_of_places(&from), path_of_places(&to));
        if by_path::hard_link(&from, &to).is_err() {
            let _ = copy(&from, &to);
        }
        self.install_small_half(repo, admin, top, monitor, fsync)
    }

    /// Like [`Base::install_index`], for a directory that others may write: the shared half is a
    /// copy. Git compares no checksum of it, so a change would reach all workspaces of the base.
    pub fn install_own_index(
        &self,
        repo: &Repository,
        admin: &Path,
        top: &Path,
        monitor: Monitor,
        fsync: &Fsync,
    ) -> Result<(), Error> {
        let (from, to) = (self.shared_index(), admin.join(shared_name(&self.shared_index)));
        copy(&from, &to)?;
        let _ = copy(&path_of_places(&from), &path_of_places(&to));
        self.install_small_half(repo, admin, top, monitor, fsync)
    }

    fn install_small_half(
        &self,
        repo: &Repository,
        admin: &Path,
        top: &Path,
        monitor: Monitor,
        fsync: &Fsync,
    ) -> Result<(), Error> {
        let rest = self.rest_of_index();
        let read = |source| Error::Io { action: "read", path: rest.clone(), source };
        let bytes =
            by_path::read(&rest).map_err(read)?.ok_or_else(|| read(io::ErrorKind::NotFound.into()))?;
        let damaged = || Error::Damaged { path: rest.clone(), what: "it is no index".to_owned() };
        let mut small = parts::Small::parse(&bytes, self.tree.kind()).ok_or_else(damaged)?;
        small.set_ident(untracked::cache::ident_of(top.as_os_str().as_bytes()).as_ref());
        small.set_excludes(untracked::cache::names_of_excludes(repo)?.each_ref());
        if monitor == Monitor::None {
            small.remove_monitor();
        }
        let path = admin.join("index");
        let io = |source| Error::Io { action: "write", path: path.clone(), source };
        let mut file = by_path::create_new(&path, 0o666).map_err(io)?;
        file.write_all(&small.to_bytes()).map_err(io)?;
        fsync.file(store::Components::INDEX, &file).map_err(io)
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let source =
        by_path::open(from).map_err(|source| Error::Io { action: "read", path: from.to_owned(), source })?;
    let copied = by_path::create_new(to, 0o666).and_then(|target| sys::copy(&source, &target));
    copied.map(drop).map_err(|source| Error::Io { action: "write", path: to.to_owned(), source })
}
