//! Removal of tracked files from the worktree, for `rm`.
//!
//! Promise: no file is removed before the guard has accepted all paths. Without force, a file is
//! removed only if it is the one that was checked, which is examined once more. On failure the
//! files that were removed before are gone; the report names them.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sys::{Dir, FileType, Stat};

use crate::{
    files::{Directory, Failed, Premise, Removed, Worktree},
    guard,
    look::unlinked::Unlinked,
};

/// The files to remove.
#[derive(Debug)]
pub struct Plan<'p> {
    /// The paths, sorted.
    pub paths: &'p [BString],
    /// The state of each file that was checked. `None` removes files in any state.
    pub checked: Option<&'p HashMap<BString, Stat>>,
    /// The command's current directory. It stays, and so do its parents.
    pub cwd: Option<&'p BStr>,
}

/// The result for one path.
#[derive(Debug)]
pub enum Outcome {
    /// The file was removed, or did not exist.
    Gone,
    /// The file changed after the check, and stays.
    Changed,
    /// The file could not be removed.
    Failed(io::Error),
}

/// The outcomes of the first paths; of all paths, unless the removal ended early.
#[derive(Debug, Default)]
pub struct Report {
    /// One for each path.
    pub outcomes: Vec<Outcome>,
    /// The removal ended because of a signal.
    pub interrupted: bool,
}

/// Removes the files, and the directories that become empty. A file that cannot be removed ends the
/// removal if no file was removed before, as in Git.
pub fn execute(
    repo: &Repository,
    top: &Path,
    root: &Dir,
    plan: &Plan<'_>,
    interrupt: &AtomicBool,
) -> Result<Report, guard::Error> {
    let worktree = Worktree::of(repo, top, root)?;
    let allowed =
        worktree.check_plan(|guard| plan.paths.iter().try_for_each(|path| guard.check(path.as_bstr())))?;
    let run = Run {
        root,
        files: allowed.within(root),
        plan,
        unlinked: Unlinked::of(plan.checked.into_iter().flat_map(HashMap::values)),
    };
    let mut report = Report::default();
    let mut is_any_gone = false;
    for (number, path) in plan.paths.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            report.interrupted = true;
            break;
        }
        let outcome = run.remove(path.as_bstr());
        let ends = matches!(outcome, Outcome::Failed(_)) && !is_any_gone;
        if matches!(outcome, Outcome::Gone) {
            is_any_gone = true;
            run.remove_directories(path.as_bstr(), plan.paths.get(number + 1).map(|next| next.as_bstr()));
        }
        report.outcomes.push(outcome);
        if ends {
            break;
        }
    }
    Ok(report)
}

struct Run<'a> {
    root: &'a Dir,
    files: Directory<'a>,
    plan: &'a Plan<'a>,
    unlinked: Unlinked,
}

impl Run<'_> {
    fn remove(&self, path: &BStr) -> Outcome {
        let premise = match self.plan.checked {
            None => Premise::Anything,
            Some(checked) => match checked.get(path) {
                Some(stat) => Premise::Unchanged(Box::new(*stat)),
                None => return self.keep_unchecked(path),
            },
        };
        match self.files.remove(path, &premise, &self.unlinked) {
            Ok(Removed::Gone | Removed::Missing) => Outcome::Gone,
            Ok(Removed::Changed) => Outcome::Changed,
            Err(Failed::Change(error)) if is_outside(&error) => Outcome::Gone,
            Err(failed) => Outcome::Failed(failed.into_source()),
        }
    }

    /// Returns the outcome of a path at which the check found no file.
    fn keep_unchecked(&self, path: &BStr) -> Outcome {
        const EISDIR: i32 = 21;
        match self.root.stat(path) {
            Ok(None) => Outcome::Gone,
            Ok(Some(found)) if found.file_type == FileType::Directory => {
                Outcome::Failed(io::Error::from_raw_os_error(EISDIR))
            }
            Ok(Some(_)) => Outcome::Changed,
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Removes the parent directories of `path` that are empty now. A directory that also contains
    /// the path `next` is not empty yet.
    fn remove_directories(&self, path: &BStr, next: Option<&BStr>) {
        for slash in path.rfind_iter("/") {
            let dir = path[..slash].as_bstr();
            let is_below = |next: &BStr| next.len() > slash && next[slash] == b'/' && next.starts_with(dir);
            if self.plan.cwd == Some(dir)
                || next.is_some_and(is_below)
                || self.files.remove_empty(dir).is_err()
            {
                return;
            }
        }
    }
}

/// Returns true if a leading directory is a file or a link. A path through a link leads out of the
/// worktree, and counts as missing.
fn is_outside(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotADirectory || sys::is_symlink_refused(error)
}
