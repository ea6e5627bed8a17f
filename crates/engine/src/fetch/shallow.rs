//! The shallow boundary: the commits in the file `shallow`, whose parents are missing.
//!
//! Format: gitrepository-layout(5): one commit name per line. The file is replaced under its lock,
//! before any ref changes. Without commits the file is removed.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use bstr::ByteSlice;
use format::ObjectId;
use repo::Repository;
use sys::by_path;

/// The file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("bad shallow line: {0}")]
    BadLine(bstr::BString),
    #[error("shallow file has changed since we read it")]
    Changed,
    #[error("could not {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] store::Error),
}

/// The content of the file as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shallow {
    /// The commits.
    pub commits: BTreeSet<ObjectId>,
    content: Option<Vec<u8>>,
}

impl Shallow {
    /// Reads the file.
    pub fn read(repo: &Repository) -> Result<Shallow, Error> {
        let path = repo.common_dir().join("shallow");
        let content = read(&path)?;
        let mut commits = BTreeSet::new();
        for line in content.as_deref().unwrap_or_default().lines() {
            let oid = ObjectId::from_hex(repo.hash(), line).ok_or_else(|| Error::BadLine(line.into()))?;
            commits.insert(oid);
        }
        Ok(Shallow { commits, content })
    }

    /// Replaces the commits, if the file still has the content that was read.
    pub fn replace(
        self,
        repo: &Repository,
        commits: &BTreeSet<ObjectId>,
        fsync: &store::Fsync,
        locks: &store::LockOptions,
    ) -> Result<(), Error> {
        if *commits == self.commits {
            return Ok(());
        }
        let path = repo.common_dir().join("shallow");
        let lock = store::Lock::take(&path, locks)?;
        if read(&path)? != self.content {
            return Err(Error::Changed);
        }
        if commits.is_empty() {
            by_path::remove_file(&path).map_err(|source| Error::Io { what: "remove", path, source })?;
            return Ok(());
        }
        let lines: String = commits.iter().map(|oid| format!("{oid}\n")).collect();
        lock.file().write_all(lines.as_bytes()).map_err(|source| Error::Io {
            what: "write",
            path,
            source,
        })?;
        Ok(lock.commit_synced(fsync, store::Components::REFERENCE)?)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    by_path::read(path).map_err(|source| Error::Io { what: "read", path: path.to_owned(), source })
}

/// For each tip from which a walk reaches one of `roots`, returns the reached roots. `parents`
/// returns the parents of a commit, and an empty list for an object that is not a commit.
pub fn met<E>(
    tips: &[ObjectId],
    roots: &HashSet<ObjectId>,
    parents: &mut dyn FnMut(&ObjectId) -> Result<Vec<ObjectId>, E>,
) -> Result<HashMap<ObjectId, HashSet<ObjectId>>, E> {
    let mut found = HashMap::new();
    for tip in tips {
        let (mut seen, mut pending) = (HashSet::from([*tip]), vec![*tip]);
        let mut reached = HashSet::new();
        while let Some(commit) = pending.pop() {
            if roots.contains(&commit) {
                reached.insert(commit);
                continue;
            }
            pending.extend(parents(&commit)?.into_iter().filter(|parent| seen.insert(*parent)));
        }
        if !reached.is_empty() {
            found.insert(*tip, reached);
        }
    }
    Ok(found)
}
