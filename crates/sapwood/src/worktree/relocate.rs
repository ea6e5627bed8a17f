//! Moving a worktree to another directory.
//!
//! Order: all checks; the record of a missing worktree at the new place, with force; the rename;
//! the two links. If the links cannot be written, [`super::repair`] fixes them, as in Git. A
//! workspace is moved by [`crate::workspace::relocate`].
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::relocate};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let (worktree, to) = ("../topic".into(), "../elsewhere".into());
//! let request = relocate::Request { worktree, to, ..relocate::Request::default() };
//! relocate::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice as _};
use engine::{files::whole, guard::Removable};
use repo::Worktree;
use sys::by_path;

use super::records::{Given, Worktrees, is_directory, lock_reason, refuse_submodules};
use crate::{Error, Events, Notice, PlanError, RunError, events::Notices, locks, text};

/// The options of a move.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The directory of the worktree, relative to that from which the repository was opened, or the
    /// end of its path.
    pub worktree: PathBuf,
    /// The new directory. If it exists, the worktree is moved into it, with its name.
    pub to: PathBuf,
    /// 1 to replace the record of a worktree that is missing at the new place, 2 to move a locked
    /// worktree.
    pub force: usize,
    /// The links between the worktree and its record are relative; `None` for
    /// `worktree.useRelativePaths`.
    pub relative: Option<bool>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The new directory, without symbolic links.
    pub path: PathBuf,
}

/// A worktree that may be moved.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    relocation: Relocation,
    relative: Option<bool>,
    notices: Vec<Notice>,
}

/// Checks the worktree and the new place. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let Request { worktree, to, force, relative } = request;
    let given = Given::of(repository, &worktree)?;
    let all = worktrees.repo.worktrees().map_err(Error::from)?;
    let worktree = worktrees.find(&all, given.shown.as_bstr(), Some(&given.path))?;
    let relocation = Relocation::of(worktree, given.shown.as_bstr(), force)?;
    let relocation = relocation.to(Given::of(repository, &to)?);
    worktrees.find_record(&relocation.to, force, &all, "move")?;
    relocation.check(&worktrees)?;
    if worktrees.workspace(&relocation.worktree)?.is_some() {
        return Err(Error::Workspace(relocation.worktree.path).into());
    }
    relocation.validate(&worktrees)?;
    Ok(Plan { repository, relocation, relative, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Checks again, and moves the worktree.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, relocation, relative, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        relocation.claim(&worktrees, &worktrees.repo.worktrees().map_err(Error::from)?)?;
        relocation.check(&worktrees)?;
        let path = relocation.run(&worktrees, relative);
        crate::trash::empty(&worktrees.common, events.program().as_deref());
        Ok(Report { path: path? })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Relocation { worktree, to, .. } = &self.relocation;
        write!(formatter, "move worktree '{}' to '{}'", worktree.path.display(), to.shown)
    }
}

/// A worktree to move that is not the main one, and its new place.
pub struct Relocation {
    worktree: Worktree,
    force: usize,
    to: Given,
}

impl Relocation {
    /// Returns an error for the main worktree. The place is that of the worktree.
    pub fn of(worktree: Worktree, shown: &BStr, force: usize) -> Result<Relocation, Error> {
        if worktree.id.is_none() {
            return Err(Error::Failed(text!("'", shown, "' is a main working tree")));
        }
        let to = Given::new(worktree.path.clone());
        Ok(Relocation { worktree, force, to })
    }

    /// Sets the new place. In a directory that exists, it is the name of the worktree.
    pub fn to(self, mut to: Given) -> Relocation {
        if is_directory(&to.path) {
            let name = self.worktree.path.file_name().map(OsStr::as_bytes).unwrap_or_default();
            let shown = text!(to.shown.trim_end_with(|letter| letter == '/'), "/", name);
            to = Given { path: to.path.join(sys::os_str(name)), shown };
        }
        Relocation { to, ..self }
    }

    /// Returns the new directory, without symbolic links.
    pub fn place(&self) -> PathBuf {
        by_path::realpath_forgiving(&self.to.path)
    }

    /// Checks the new place among `worktrees`. With force, removes the record of a worktree that is
    /// missing there.
    pub fn claim(&self, worktrees: &Worktrees<'_>, all: &[Worktree]) -> Result<(), Error> {
        worktrees.check_candidate(&self.to, self.force, all, "move")
    }

    /// Returns an error if the worktree contains submodules, or is locked and not forced.
    pub fn check(&self, worktrees: &Worktrees<'_>) -> Result<(), Error> {
        refuse_submodules(worktrees.repo, &self.worktree)?;
        let reason = if self.force < 2 { lock_reason(&self.worktree)? } else { None };
        match reason {
            Some(reason) if reason.is_empty() => Err(Error::failed(
                "cannot move a locked working tree;\nuse 'move -f -f' to override or unlock first",
            )),
            Some(reason) => Err(Error::Failed(text!(
                "cannot move a locked working tree, lock reason: ",
                reason,
                "\nuse 'move -f -f' to override or unlock first"
            ))),
            None => Ok(()),
        }
    }

    fn validate(&self, worktrees: &Worktrees<'_>) -> Result<(), Error> {
        worktrees
            .validate(&self.worktree, false)
            .map_err(|wrong| Error::Failed(text!("validation failed, cannot move working tree: ", wrong)))
    }

    /// Moves the worktree, if it still fits its record. Returns its new directory.
    pub fn run(&self, worktrees: &Worktrees<'_>, relative: Option<bool>) -> Result<PathBuf, Error> {
        self.validate(worktrees)?;
        let from: &Path = &self.worktree.path;
        let linker = worktrees.linker(relative)?;
        let tree = Removable::of(worktrees.repo, from)?;
        // Resolve the path before the rename: it may lead through the directory that moves.
        let place = self.place();
        whole::rename(tree, &place).map_err(|error| {
            let (from, reason) = (from.as_os_str().as_bytes(), sys::reason(&error).to_string());
            Error::Failed(text!("failed to move '", from, "' to '", self.to.shown, "': ", reason))
        })?;
        if place != from {
            let id = self.worktree.id.as_ref().expect("the main worktree was refused");
            linker.link(&place, &worktrees.common.join("worktrees").join(id))?;
        }
        Ok(place)
    }
}
