//! Renames of tracked files, for `mv`: the file or directory, and then its entries.
//!
//! A rename replaces an existing file only if the move says so. A rename changes the ctime, so an
//! entry whose file is unchanged gets its new stat data.

use std::{io, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Flags, Index, NewEntry};
use repo::Repository;
use sys::Dir;

use crate::{
    add::{self, Allow, FileHasher, Staging},
    files::{self, Failed, Premise, Removed, Worktree},
    guard,
    look::stat::{Match, StatRules, index_stat},
};

/// A move of a file or directory, or of an entry whose directory is moved.
#[derive(Clone, Debug)]
pub struct Move {
    /// The old path.
    pub from: BString,
    /// The new path. A directory's may have a slash at its end.
    pub to: BString,
    /// The kind of the move.
    pub kind: Kind,
    /// The destination is a file that will be replaced.
    pub replaces: bool,
}

/// The kind of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, and its entry.
    File,
    /// A directory. Its entries follow.
    Directory,
    /// The entry of a file in a directory that is moved.
    Within,
}

/// The reason why a move failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path belongs to the repository. Nothing was moved.
    #[error(transparent)]
    Guard(#[from] guard::Error),
    /// The file or directory was not renamed.
    #[error("{}", sys::reason(.0))]
    Rename(#[source] io::Error),
    /// The index allows no entry with the new path. The file has been renamed.
    #[error("invalid path '{}'", .0)]
    Path(BString),
}

/// Moves files and entries, one after the other.
pub struct Mover<'a> {
    worktree: Worktree<'a>,
    root: &'a Dir,
    hasher: FileHasher<'a>,
    rules: StatRules,
    staging: Staging,
}

/// The reason why no move can begin.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StartError {
    #[error(transparent)]
    Guard(#[from] guard::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
}

impl<'a> Mover<'a> {
    /// Prepares moves in the worktree at `top`, which is open as `root`.
    pub fn new(
        repo: &'a Repository,
        top: &Path,
        root: &'a Dir,
        index: Index,
        big_file_threshold: u64,
    ) -> Result<Mover<'a>, StartError> {
        Ok(Mover {
            worktree: Worktree::of(repo, top, root)?,
            root,
            hasher: FileHasher::new(repo, root, big_file_threshold),
            rules: StatRules::of(repo)?,
            staging: Staging::new(index, add::protect(repo)?),
        })
    }

    /// Performs one move.
    pub fn carry_out(&mut self, one: &Move) -> Result<(), Error> {
        if one.kind != Kind::Within {
            self.rename(one)?;
        }
        if one.kind == Kind::Directory { Ok(()) } else { self.entry(one) }
    }

    /// Returns true if an entry was moved.
    pub fn is_changed(&self) -> bool {
        self.staging.is_changed()
    }

    /// Returns the index with the moved entries.
    pub fn into_index(self) -> Index {
        self.staging.into_index()
    }

    fn rename(&self, one: &Move) -> Result<(), Error> {
        let to = one.to.trim_end_with(|letter| letter == '/').as_bstr();
        let premise = if one.replaces { Premise::Anything } else { Premise::Absent };
        match self.worktree.rename(one.from.as_bstr(), to, &premise) {
            Ok(Removed::Gone | Removed::Missing) => Ok(()),
            Ok(Removed::Changed) => Err(Error::Rename(io::ErrorKind::AlreadyExists.into())),
            Err(files::Error::Guard(error)) => Err(error.into()),
            Err(files::Error::Failed(Failed::Examine(error) | Failed::Change(error))) => {
                Err(Error::Rename(error))
            }
        }
    }

    /// Sets the entry's new path, and the file's new stat data.
    fn entry(&mut self, one: &Move) -> Result<(), Error> {
        let (from, to) = (one.from.as_bstr(), one.to.as_bstr());
        let Some(mut entry) = self.staging.merged(from) else { return Ok(()) };
        self.renew(&mut entry, from, to);
        self.staging.remove(from);
        let allow = Allow { new: true, replacing: true };
        match self.staging.add(to, entry, allow) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Path(to.to_owned())),
        }
    }

    fn renew(&mut self, entry: &mut NewEntry, from: &BStr, to: &BStr) {
        if entry.flags.intersects(Flags::ASSUME_VALID | Flags::INTENT_TO_ADD) {
            return;
        }
        let Ok(Some(stat)) = self.root.stat(to) else { return };
        let written = self.staging.base().timestamp;
        let (rules, hasher, base) = (self.rules, &mut self.hasher, self.staging.base());
        let is_same = self.staging.with_merged(from, |old| match rules.compare(old, &stat, written) {
            Match::Same => true,
            Match::Racy | Match::Touched => hasher.matches_entry(old, to, &stat, base),
            Match::Different => false,
        });
        if is_same == Some(true) {
            entry.stat = index_stat(&stat);
        }
    }
}
