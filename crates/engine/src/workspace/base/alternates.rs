//! Alternates: other base directories whose bases and contents are used in place.
//!
//! `<bases>/alternates` lists them, one path per line, in the format of Git's
//! `objects/info/alternates`. The alternates of an alternate are used too. A missing directory is
//! ignored, so its contents are missing, and a base that needs them cannot be mounted. Alternates
//! are never changed, with one exception: a base directory registers its path in the alternate's
//! `users/`, if that is writable. Any user with write access to an alternate can change the bytes
//! of bases here, so an alternate is trusted under the conditions of a base directory.

use std::{
    io::IoSlice,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use store::{Fsync, SharedRepository};
use sys::{FileType, by_path};

use super::{Base, Bases, Error};

/// The maximum nesting of alternates.
const MAX_DEPTH: usize = 5;

impl Bases {
    fn alternates_file(&self) -> PathBuf {
        self.dir.join("alternates")
    }

    /// Returns the existing alternates, as paths without symbolic links.
    pub fn alternates(&self) -> Result<Vec<PathBuf>, Error> {
        if self.is_alone {
            return Ok(Vec::new());
        }
        let mut found = named_in(self)?;
        let own = by_path::canonical(&self.dir).ok();
        let mut level = 0..found.len();
        for _ in 1..MAX_DEPTH {
            let next = found[level.clone()].iter().map(|dir| named_in(&Bases::at(dir)));
            // If an alternate's list cannot be read, its contents cannot be read either.
            let next: Vec<PathBuf> = next.flat_map(Result::unwrap_or_default).collect();
            level = found.len()..found.len() + next.len();
            found.extend(next);
        }
        let mut seen = Vec::new();
        found.retain(|dir| {
            let is_new = Some(dir) != own.as_ref() && !seen.contains(dir);
            seen.push(dir.clone());
            is_new
        });
        found.iter().try_for_each(|dir| self.check(dir))?;
        Ok(found)
    }

    /// Adds an alternate to the list, unless it is already listed.
    pub fn add_alternate(&self, dir: &Path, shared: SharedRepository, fsync: &Fsync) -> Result<(), Error> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        let _lock = self.lock(shared).map_err(io("lock", &self.dir))?;
        let dir = by_path::canonical(dir).map_err(io("examine", dir))?;
        self.check(&dir)?;
        if self.alternates()?.contains(&dir) {
            return Ok(());
        }
        let path = self.alternates_file();
        let mut list = by_path::read(&path).map_err(io("read", &path))?.unwrap_or_default();
        if !list.is_empty() && !list.ends_with(b"\n") {
            list.push(b'\n');
        }
        list.extend_from_slice(&format::quote(dir.as_os_str().as_bytes().as_bstr(), false));
        list.push(b'\n');
        self.write_alternates(&list, shared, fsync)
    }

    /// Removes an alternate from the list, if no base here has contents there and no workspace uses
    /// a base there: none of the repository `common`, nor of others that are registered here.
    /// Returns who needs it.
    pub fn remove_alternate(
        &self,
        dir: &Path,
        common: &Path,
        shared: SharedRepository,
        fsync: &Fsync,
    ) -> Result<Option<Dependent>, Error> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        let _lock = self.lock(shared).map_err(io("lock", &self.dir))?;
        let dir = by_path::canonical(dir).map_err(io("examine", dir))?;
        let path = self.alternates_file();
        let Some(list) = by_path::read(&path).map_err(io("read", &path))? else { return Ok(None) };
        let is_other = |line: &&[u8]| {
            let named = repo::objects::alternates_in(line).into_iter();
            let mut real = named.filter_map(|path| by_path::canonical(&path.resolve(&self.dir).ok()?).ok());
            !real.any(|named| named == dir)
        };
        let kept: Vec<u8> =
            list.split_inclusive(|byte| *byte == b'\n').filter(is_other).flatten().copied().collect();
        if kept == list {
            return Ok(None);
        }
        let borrows = |base: &Base| {
            let shown = base.view.iter().map(|view| &view.of);
            base.devices.iter().chain(shown).chain(&base.parent).any(|path| is_below(path, &dir))
        };
        if let Some(base) = self.own()?.into_iter().find(borrows) {
            return Ok(Some(Dependent::Base(base.name)));
        }
        if let Some(workspace) = self.workspaces_on(&dir, common)?.into_iter().next() {
            return Ok(Some(Dependent::Workspace(workspace)));
        }
        self.write_alternates(&kept, shared, fsync)?;
        Ok(None)
    }

    fn write_alternates(&self, list: &[u8], shared: SharedRepository, fsync: &Fsync) -> Result<(), Error> {
        let path = self.alternates_file();
        let staged = self.dir.join(".new-alternates");
        let failed = |source| Error::Io { action: "write", path: path.clone(), source };
        let _ = by_path::remove_file(&staged);
        let file = shared.create_new(&staged, 0o666).map_err(failed)?;
        file.write_pieces_at(&mut [IoSlice::new(list)], 0).map_err(failed)?;
        if !fsync.disabled {
            sys::sync_file(&file).map_err(failed)?;
        }
        by_path::rename(&staged, &path).map_err(failed)
    }
}

/// The reason why an alternate stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependent {
    /// A base of this directory has contents there.
    Base(String),
    /// The workspace at this path uses a base there.
    Workspace(PathBuf),
}

/// Returns true if a path, without symbolic links, lies below the directory.
pub(super) fn is_below(path: &Path, dir: &Path) -> bool {
    by_path::realpath_forgiving(path).starts_with(dir)
}

/// Returns the existing directories in the list of `bases`.
fn named_in(bases: &Bases) -> Result<Vec<PathBuf>, Error> {
    let path = bases.alternates_file();
    let list = by_path::read(&path).map_err(|source| Error::Io { action: "read", path, source })?;
    let named = repo::objects::alternates_in(&list.unwrap_or_default()).into_iter();
    let real = named.filter_map(|path| by_path::canonical(&path.resolve(&bases.dir).ok()?).ok());
    let is_dir =
        |dir: &PathBuf| matches!(by_path::stat(dir), Ok(Some(stat)) if stat.file_type == FileType::Directory);
    Ok(real.filter(is_dir).collect())
}
