//! The outcomes of steps.

use std::io;

use bstr::BStr;
use format::ObjectId;

/// The outcome of one step.
#[derive(Debug)]
pub enum Outcome {
    /// The entry is on disk with this stat: it was written, or a killed run had written it.
    Written(sys::Stat),
    /// The path is removed. For a write: another entry of this run needed a directory at its path.
    Removed,
    /// The path already has the planned state.
    Kept,
    /// Another entry of this run has the same name on this file system, and Git would report a
    /// collision. The steps were redone serially in index order. `None` if a later step replaced
    /// this one.
    Collided(Option<sys::Stat>),
    /// The premise no longer held, and the path was not changed.
    Stale,
    /// The step failed and left nothing behind.
    Failed(StepError),
    /// The system refused the removal (a directory that is not empty, or one at a file's path). The
    /// path stays in the worktree, untracked. Only removals.
    Undeleted(StepError),
    /// The step was not reached because of an interrupt.
    Skipped,
}

/// The attempted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    CreateFile,
    WriteFile,
    StatWritten,
    CreateSymlink,
    CreateDirectory,
    CreateSubmodule,
    Examine,
    UnlinkOld,
    Unlink,
    RemoveDirectory,
}

/// A failed operation and its error. The step holds the path.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StepError {
    #[error("{action:?} failed")]
    Io { action: Action, source: io::Error },
    #[error("unable to read object {oid}")]
    Object { oid: ObjectId, source: Box<repo::objects::Error> },
    #[error("object {oid} is a {kind:?}, not a blob")]
    NotABlob { oid: ObjectId, kind: repo::objects::Kind },
    /// A filter promised the file and did not deliver it.
    #[error("not filtered properly")]
    NotFiltered,
    /// A required filter failed, or attributes are invalid. Git stops at once, and so does the run.
    #[error(transparent)]
    Convert(#[from] repo::Error),
}

impl Action {
    /// Returns a closure for `map_err`.
    pub(super) fn failed(self) -> impl FnOnce(io::Error) -> StepError {
        move |source| StepError::Io { action: self, source }
    }
}

impl StepError {
    /// Returns a closure for `map_err`.
    pub(super) fn object(oid: ObjectId) -> impl FnOnce(repo::objects::Error) -> StepError {
        move |source| StepError::Object { oid, source: Box::new(source) }
    }

    /// Returns Git's message, without `error: `.
    pub fn message(&self, path: &BStr) -> String {
        match self {
            StepError::Io { action, source } => {
                let what = match action {
                    Action::CreateFile => format!("unable to create file {path}"),
                    Action::WriteFile => format!("unable to write file {path}"),
                    Action::StatWritten => format!("unable to stat just-written file {path}"),
                    Action::CreateSymlink => format!("unable to create symlink {path}"),
                    Action::CreateDirectory => format!("cannot create directory for '{path}'"),
                    Action::CreateSubmodule => format!("cannot create submodule directory {path}"),
                    Action::Examine => format!("cannot lstat '{path}'"),
                    Action::UnlinkOld => format!("unable to unlink old '{path}'"),
                    Action::Unlink => format!("unable to unlink '{path}'"),
                    Action::RemoveDirectory => format!("unable to rmdir '{path}'"),
                };
                format!("{what}: {}", sys::reason(source))
            }
            StepError::Object { oid, source } => match source.io() {
                Some(_) => format!("unable to read sha1 file of {path} ({oid}): {source}"),
                None => format!("unable to read sha1 file of {path} ({oid})"),
            },
            StepError::NotABlob { oid, .. } => format!("unable to read sha1 file of {path} ({oid})"),
            StepError::NotFiltered => format!("'{path}' was not filtered properly"),
            StepError::Convert(error) => error.to_string(),
        }
    }
}

/// The outcomes, one for each step of the plan, in the plan's order.
#[derive(Debug)]
pub struct Report {
    /// One for each of [`Plan::writes`](super::Plan::writes).
    pub writes: Vec<Outcome>,
    /// One for each of [`Plan::removals`](super::Plan::removals).
    pub removals: Vec<Outcome>,
    /// The messages of filters and conversions, in Git's words. Each begins with `error: ` or
    /// `warning: `.
    pub messages: Vec<String>,
    /// True if a long-running filter violated its protocol, regardless of the outcomes.
    pub filter_failed: bool,
    /// The error of a filter that owed files, which stopped the run and belongs to no step.
    pub filter_error: Option<repo::Error>,
    /// True if the run stopped early: the interrupt flag was set, or [`Report::fatal`] returns an
    /// error.
    pub interrupted: bool,
    /// True if written entries are marked as assumed unchanged (`core.ignoreStat`).
    pub assumes_unchanged: bool,
}

impl Report {
    /// Returns true if no step failed, was stale or was skipped.
    pub fn is_complete(&self) -> bool {
        !self.interrupted
            && !self.filter_failed
            && self
                .writes
                .iter()
                .chain(&self.removals)
                .all(|outcome| !matches!(outcome, Outcome::Failed(_) | Outcome::Stale | Outcome::Skipped))
    }

    /// Returns true if a later run can finish a failed step, because a disk was full or failed. A
    /// name that the file system refuses or a missing object does not count.
    pub fn can_resume(&self) -> bool {
        let outcomes = || self.writes.iter().chain(&self.removals);
        let was_not_removed = outcomes().any(|outcome| matches!(outcome, Outcome::Undeleted(_)));
        outcomes().any(|outcome| match outcome {
            Outcome::Failed(StepError::Io { source, .. }) => !sys::is_name_refused(source),
            Outcome::Failed(StepError::Object { source, .. }) => source.io().is_some(),
            // A file that could not be removed is still at its path.
            Outcome::Stale => was_not_removed,
            _ => false,
        })
    }

    /// Returns the first write whose directory could not be created, with the error. Git stops at
    /// this error.
    pub fn first_directory_failure(&self) -> Option<(usize, &io::Error)> {
        self.writes.iter().enumerate().find_map(|(step, outcome)| match outcome {
            Outcome::Failed(StepError::Io { action: Action::CreateDirectory, source }) => {
                Some((step, source))
            }
            _ => None,
        })
    }

    /// Returns the error that stopped the run; the first in index order if there are several.
    pub fn fatal(&self) -> Option<&repo::Error> {
        let of_step = self.writes.iter().find_map(|outcome| match outcome {
            Outcome::Failed(StepError::Convert(error)) => Some(error),
            _ => None,
        });
        of_step.or(self.filter_error.as_ref())
    }

    /// Returns the writes that collided, for the warning of a clone.
    pub fn collided(&self) -> impl Iterator<Item = usize> {
        let collided = |(step, outcome)| matches!(outcome, &Outcome::Collided(_)).then_some(step);
        self.writes.iter().enumerate().filter_map(collided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_gits_messages() {
        let full = io::Error::from_raw_os_error(28);
        let error = Action::CreateFile.failed()(full);
        assert_eq!(error.message("a/b".into()), "unable to create file a/b: No space left on device");
    }
}
