//! The workspaces that use bases, and the base directories that use contents of other base
//! directories.
//!
//! A base directory may serve many repositories. Each repository that adds a base registers its
//! common directory in `<bases>/users/<id>`. So a base is removed only if no workspace of any of
//! them uses it, regardless of the repository in which the command runs. A base directory that has
//! this one as an alternate registers its path in `<bases>/users/<id>.bases`.
//!
//! If the base directory is on a network file system, the host's name follows the path, after a
//! NUL, because the same path may be another directory on another host.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, IoSlice},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use format::{HashKind, hash::Hasher};
use sys::by_path;

use super::{Bases, Error, alternates::is_below};
use crate::workspace::{inner::Inner, rebase::Journal, record};

/// The names of the bases in use, each with one workspace that uses it.
pub(super) type Users = BTreeMap<String, PathBuf>;

/// The suffix of entries that contain the path of a base directory.
const SUFFIX: &str = ".bases";

/// A directory that uses bases or contents.
#[derive(Clone, Copy, Debug)]
pub(super) enum User<'a> {
    /// A repository, by its common directory.
    Repository(&'a Path),
    /// A base directory that has this one as an alternate.
    Bases(&'a Path),
}

impl Bases {
    fn users_dir(&self) -> PathBuf {
        self.dir.join("users")
    }

    /// Registers a user of this base directory by its path.
    pub(super) fn register(&self, user: User<'_>, shared: store::SharedRepository) -> Result<(), Error> {
        let (path, suffix) = match user {
            User::Repository(common) => (common, ""),
            User::Bases(dir) => (dir, SUFFIX),
        };
        let (dir, mut bytes) = (self.users_dir(), path.as_os_str().as_bytes().to_vec());
        if self.is_remote() {
            bytes.push(0);
            bytes.extend(sys::user::host_name());
        }
        let mut hasher = Hasher::checksum(HashKind::Sha256);
        hasher.update(&bytes);
        let name = hasher.finish().expect("a checksum looks for no collision").to_string();
        let name = format!("{}{suffix}", &name[..16]);
        let path = dir.join(&name);
        let failed = |source| Error::Io { action: "write", path: path.clone(), source };
        if by_path::read(&path).map_err(failed)?.as_deref() == Some(&bytes) {
            return Ok(());
        }
        match shared.create_dir(&dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let staged = dir.join(format!(".{name}"));
        let _ = by_path::remove_file(&staged);
        let file = shared.create_new(&staged, 0o644).map_err(failed)?;
        file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0).map_err(failed)?;
        by_path::rename(&staged, &path).map_err(failed)
    }

    fn is_remote(&self) -> bool {
        by_path::is_remote(&self.dir).unwrap_or(false)
    }

    /// Returns the existing registered paths of one kind, and removes the entries of directories
    /// that no longer exist. The caller holds the lock. Returns [`Error::UserAway`] if that cannot
    /// be decided.
    fn registered(&self, suffix: &str) -> Result<Vec<PathBuf>, Error> {
        let dir = self.users_dir();
        let names = match by_path::list(&dir) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
        };
        let is_kind =
            |name: &[u8]| !name.starts_with(b".") && name.ends_with(SUFFIX.as_bytes()) != suffix.is_empty();
        let mut found = Vec::new();
        for (name, _) in names.iter().filter(|(name, _)| is_kind(name.as_bytes())) {
            let entry = dir.join(name);
            let io = |source| Error::Io { action: "read", path: entry.clone(), source };
            let Some(text) = by_path::read(&entry).map_err(io)? else { continue };
            let mut parts = text.split(|&byte| byte == 0);
            let path = PathBuf::from(sys::os_str(parts.next().unwrap_or_default()));
            let is_foreign = parts.next().is_some_and(|host| *host != *sys::user::host_name());
            let is_there = by_path::stat_followed(&path).map_err(io)?.is_some();
            match is_foreign {
                // A path on a network file system is the same on all hosts.
                true if !is_there || !by_path::is_remote(&path).map_err(io)? => {
                    return Err(Error::UserAway { common: path, entry });
                }
                false if !is_there => self.forget(&entry, &path)?,
                _ => found.push(path),
            }
        }
        Ok(found)
    }

    /// Returns the base directories that have this one as an alternate. The caller holds the lock.
    pub(super) fn borrowers(&self) -> Result<Vec<Bases>, Error> {
        Ok(self.registered(SUFFIX)?.iter().map(|dir| Bases::at(dir)).collect())
    }

    /// Returns the bases that workspaces of registered repositories use. Removes the entries of
    /// repositories that no longer exist. The caller holds the lock.
    pub(super) fn users(&self) -> Result<Users, Error> {
        let mut users = Users::new();
        for common in self.registered("")? {
            for workspace in record::all(&common)? {
                let workspace = workspace?;
                // A killed rebase will continue with this base.
                let next = Journal::read(&workspace).ok().flatten().map(|journal| journal.base);
                if let Some(base) = next {
                    users.insert(base.name, workspace.record.dir.clone());
                }
                for inner in Inner::all(&workspace)? {
                    users.insert(inner.base.name.clone(), inner.top(&workspace));
                }
                if let Some(base) = workspace.record.base {
                    users.insert(base.name, workspace.record.dir);
                }
            }
        }
        Ok(users)
    }

    /// Returns the workspaces of `common` and of registered repositories whose base lies in the
    /// base directory `dir`. The caller holds the lock.
    pub(super) fn workspaces_on(&self, dir: &Path, common: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        for common in self.registered("")?.into_iter().chain([common.to_owned()]) {
            for workspace in record::all(&common)? {
                let workspace = workspace?;
                let inner = Inner::all(&workspace)?;
                let inner = inner.iter().filter(|inner| is_below(&inner.base.dir, dir));
                found.extend(inner.map(|inner| inner.top(&workspace)));
                let record = workspace.record;
                if record.base.is_some_and(|base| is_below(&base.dir, dir)) {
                    found.push(record.dir);
                }
            }
        }
        Ok(found)
    }

    /// Removes the entry of a user whose directory does not exist. Returns an error if its parent
    /// is missing too, because the disk may only be unmounted.
    fn forget(&self, entry: &Path, user: &Path) -> Result<(), Error> {
        // The base directory of a repository is removed together with the repository.
        let common = if user.ends_with("sapwood/bases") { user.ancestors().nth(2) } else { Some(user) };
        let worktree = common.and_then(Path::parent).and_then(Path::parent);
        let is_above = worktree.is_some_and(|above| matches!(by_path::stat_followed(above), Ok(Some(_))));
        if !is_above {
            return Err(Error::UserAway { common: user.to_owned(), entry: entry.to_owned() });
        }
        by_path::remove_file(entry).map_err(|source| Error::Io {
            action: "remove",
            path: entry.to_owned(),
            source,
        })
    }
}
