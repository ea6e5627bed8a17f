//! Removing a worktree: it disappears at once and is deleted through the trash.
//!
//! Order: all checks; the worktree, through the trash if that is possible and cannot fail later, or
//! else directly with its errors; its administrative directory, in any case, as in Git. After a
//! kill in between, the worktree shows as prunable.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::remove};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = remove::Request { worktree: "other".into(), ..remove::Request::default() };
//! remove::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    guard::Removable,
    sparse::{self, Purpose},
    trash::Trash,
    worktree::{
        admin::Found,
        changes::{self, Untracked},
        removal::{self, Way},
    },
};
use repo::{Repository, Worktree, keys, submodule::Ignore};
use sys::{Dir, by_path};

use super::records::{Given, Worktrees, lock_reason, open_worktree, refuse_submodules};
use crate::{
    Error, Events, Notice, PlanError, RunError,
    events::{Notices, Phase},
    index, locks,
    settings::Settings,
    sparse_index::{self, ExpansionHint},
    text, trash,
};

/// The worktree to remove.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its directory, relative to that from which the repository was opened, or the end of its
    /// path.
    pub worktree: PathBuf,
    /// 1 to lose local changes, 2 to remove a locked worktree.
    pub force: usize,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory of the worktree.
    pub path: PathBuf,
    /// False if files or the record could not be removed. Notices say why.
    pub is_complete: bool,
}

/// A worktree that may be removed.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    removal: Removal,
    notices: Vec<Notice>,
}

/// Checks that nothing would be lost. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let given = Given::of(repository, &request.worktree)?;
    let all = worktrees.repo.worktrees().map_err(Error::from)?;
    let worktree = worktrees.find(&all, given.shown.as_bstr(), Some(&given.path))?;
    if worktrees.workspace(&worktree)?.is_some() {
        return Err(Error::Workspace(worktree.path).into());
    }
    let removal = Removal::of(worktree, given.shown.as_bstr(), request.force)?;
    removal.check(&worktrees)?;
    Ok(Plan { repository, removal, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Checks again that nothing would be lost, and removes the worktree. Then the trash is
    /// emptied.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees =
            Worktrees::of(self.repository.context(events), vec![self.repository.inner.cwd().to_owned()]);
        locks::recover(&worktrees.common, events);
        let files = self.removal.check(&worktrees)?;
        let removed = self.removal.run(&worktrees, files);
        trash::empty(&worktrees.common, events.program().as_deref());
        let is_complete = removed?;
        Ok(Report { path: self.removal.worktree.path, is_complete })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "remove worktree '{}'", self.removal.worktree.path.display())
    }
}

/// A worktree to remove that is neither the main one nor locked.
pub struct Removal {
    worktree: Worktree,
    /// Its administrative directory, which another process may replace.
    meant: Found,
    shown: BString,
    force: usize,
}

impl Removal {
    /// Returns an error for the main worktree, and for a locked one.
    pub fn of(worktree: Worktree, shown: &BStr, force: usize) -> Result<Removal, Error> {
        if worktree.id.is_none() {
            return Err(Error::Failed(text!("'", shown, "' is a main working tree")));
        }
        let meant = Found::at(&worktree.git_dir);
        let removal = Removal { worktree, meant, shown: shown.to_owned(), force };
        removal.refuse_locked()?;
        Ok(removal)
    }

    fn refuse_locked(&self) -> Result<(), Error> {
        let reason = if self.force < 2 { lock_reason(&self.worktree)? } else { None };
        match reason {
            Some(reason) if reason.is_empty() => Err(Error::failed(
                "cannot remove a locked working tree;\nuse 'remove -f -f' to override or unlock first",
            )),
            Some(reason) => Err(Error::Failed(text!(
                "cannot remove a locked working tree, lock reason: ",
                reason,
                "\nuse 'remove -f -f' to override or unlock first"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the files to remove; `None` if they are gone. Returns an error if the worktree is
    /// locked, or does not fit its record, or, without force, if something would be lost.
    pub fn check(&self, worktrees: &Worktrees<'_>) -> Result<Option<Removable<'_>>, Error> {
        let Removal { worktree, meant, shown, force } = self;
        self.refuse_locked()?;
        worktrees.validate(worktree, true).map_err(|wrong| {
            Error::Failed(text!("validation failed, cannot remove working tree: ", wrong))
        })?;
        if matches!(by_path::stat(&worktree.path), Ok(None)) {
            return Ok(None);
        }
        if !meant.is_at(&worktree.git_dir) {
            return Err(Error::Failed(text!("'", shown, "' was replaced by another worktree meanwhile")));
        }
        let files = Removable::of(worktrees.repo, &worktree.path)?;
        if *force == 0 {
            refuse_submodules(worktrees.repo, worktree)?;
            refuse_changes(worktrees, worktree, shown.as_bstr())?;
        }
        Ok(Some(files))
    }

    /// Removes the files that [`Removal::check`] returned, and the record. Returns false if
    /// something stays; the reason was reported.
    pub fn run(&self, worktrees: &Worktrees<'_>, files: Option<Removable<'_>>) -> Result<bool, Error> {
        let files = files.map_or(Ok(true), |files| delete_tree(worktrees, files))?;
        let id = self.worktree.id.as_ref().expect("the main worktree was refused");
        let record = worktrees.delete_admin(id, &self.meant)?;
        worktrees.drop_empty_list();
        Ok(files && record)
    }
}

/// Returns an error if a worktree has changes or untracked files.
pub fn refuse_changes(worktrees: &Worktrees<'_>, worktree: &Worktree, shown: &BStr) -> Result<(), Error> {
    let repo = open_worktree(worktrees.repo, worktree)?;
    let settings = Settings::read(&repo, worktrees.events)?;
    let root = Dir::open(&worktree.path)
        .map_err(|source| Error::CannotOpen { path: worktree.path.clone(), source })?;
    let mut index = index::load_compact(worktrees.context(&repo, &settings), &root, ExpansionHint::Print)?;
    let head = repo.head()?.oid();
    let purpose = match head {
        Some(head) => Purpose::Compare(repo.tree_of(head)?),
        None => Purpose::Files,
    };
    sparse_index::expand_for(&repo, &mut index, &|_| purpose)?;
    if sparse::is_on(&repo)? && !settings.expects_files {
        sparse::clear_present(&root, &mut index)?;
    }
    let untracked = if hides_untracked(&repo) { Untracked::Hidden } else { Untracked::Counts };
    if changes::any(&repo, &root, &index, head, untracked, Ignore::None)? {
        Err(Error::Failed(text!(
            "'",
            shown,
            "' contains modified or untracked files, use --force to delete it"
        )))
    } else {
        Ok(())
    }
}

/// Returns true if `status.showUntrackedFiles` hides untracked files.
pub fn hides_untracked(repo: &Repository) -> bool {
    match repo.config_str(&keys::status::SHOW_UNTRACKED_FILES) {
        Some(value) if value == "no" => true,
        Some(_) => matches!(repo.config_as(&keys::status::SHOW_UNTRACKED_FILES), Ok(Some(false))),
        None => false,
    }
}

/// Removes a worktree's files. Returns false if some could not be removed; the errors were
/// reported.
fn delete_tree(worktrees: &Worktrees<'_>, tree: Removable<'_>) -> Result<bool, Error> {
    let meter = worktrees.events.begin(Phase::RemoveFiles, 0);
    let shared = worktrees.shared_or_default();
    let trash = Trash::new(&worktrees.common, shared, sys::cores(), worktrees.interrupt);
    let way = if is_occupied(worktrees, tree.path()) { Way::Now } else { Way::Trash };
    let removed = removal::delete(tree, way, &mut trash.counting(meter.as_deref()));
    worktrees.events.end(Phase::RemoveFiles);
    worktrees.deleted(removed, tree.path().as_os_str().as_bytes().as_bstr())
}

fn is_occupied(worktrees: &Worktrees<'_>, path: &Path) -> bool {
    let place = by_path::realpath_forgiving(path);
    let is_inside = |dir: &PathBuf| by_path::canonical(dir).is_ok_and(|dir| dir.starts_with(&place));
    worktrees.occupied.iter().any(is_inside)
}
