//! The workspaces that use bases.
//!
//! A base directory may serve many repositories. Each that adds a base leaves its common directory
//! in `<bases>/users/`. So a base is removed only if no workspace of any of them uses it, whichever
//! repository the command runs in.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, IoSlice},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use format::{HashKind, hash::Hasher};
use sys::by_path;

use super::{Bases, Error};
use crate::workspace::{rebase::Journal, record};

/// The bases in use: a workspace of each.
pub(super) type Users = BTreeMap<String, PathBuf>;

impl Bases {
    fn users_dir(&self) -> PathBuf {
        self.dir.join("users")
    }

    /// Registers a repository by its common directory.
    pub(super) fn register(&self, common: &Path, shared: store::SharedRepository) -> Result<(), Error> {
        let (dir, bytes) = (self.users_dir(), common.as_os_str().as_bytes());
        let mut hasher = Hasher::checksum(HashKind::Sha256);
        hasher.update(bytes);
        let name = hasher.finish().expect("a checksum looks for no collision").to_string();
        let path = dir.join(&name[..16]);
        let failed = |source| Error::Io { action: "write", path: path.clone(), source };
        if by_path::read(&path).map_err(failed)?.as_deref() == Some(bytes) {
            return Ok(());
        }
        match shared.create_dir(&dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let staged = dir.join(format!(".{}", &name[..16]));
        let _ = by_path::remove_file(&staged);
        let file = shared.create_new(&staged, 0o644).map_err(failed)?;
        file.write_pieces_at(&mut [IoSlice::new(bytes)], 0).map_err(failed)?;
        by_path::rename(&staged, &path).map_err(failed)
    }

    /// Returns the bases that workspaces of registered repositories use, and forgets repositories
    /// that are gone. The caller holds the lock.
    pub(super) fn users(&self) -> Result<Users, Error> {
        let dir = self.users_dir();
        let names = match by_path::list(&dir) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Users::new()),
            Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
        };
        let mut users = Users::new();
        for (name, _) in names.iter().filter(|(name, _)| !name.as_bytes().starts_with(b".")) {
            let entry = dir.join(name);
            let io = |source| Error::Io { action: "read", path: entry.clone(), source };
            let Some(common) = by_path::read(&entry).map_err(io)? else { continue };
            let common = PathBuf::from(sys::os_str(&common));
            if by_path::stat_followed(&common).map_err(io)?.is_none() {
                self.forget(&entry, &common)?;
                continue;
            }
            for workspace in record::all(&common)? {
                let workspace = workspace?;
                // A rebase that was killed goes on with this base.
                let next = Journal::read(&workspace).ok().flatten().map(|journal| journal.base);
                if let Some(base) = next {
                    users.insert(base.name, workspace.record.dir.clone());
                }
                if let Some(base) = workspace.record.base {
                    users.insert(base.name, workspace.record.dir);
                }
            }
        }
        Ok(users)
    }

    /// Forgets a repository whose directory is missing. If the directory above is missing too, its
    /// disk may only be unmounted.
    fn forget(&self, entry: &Path, common: &Path) -> Result<(), Error> {
        let worktree = common.parent().and_then(Path::parent);
        let is_above = worktree.is_some_and(|above| matches!(by_path::stat_followed(above), Ok(Some(_))));
        if !is_above {
            return Err(Error::UserAway { common: common.to_owned(), entry: entry.to_owned() });
        }
        by_path::remove_file(entry).map_err(|source| Error::Io {
            action: "remove",
            path: entry.to_owned(),
            source,
        })
    }
}
