//! What became of the steps.

use std::io;

use bstr::BStr;
use format::ObjectId;

/// What became of one step.
#[derive(Debug)]
pub enum Outcome {
    /// The entry is on disk, with this stat: of what was just written, or of what a killed run had.
    Written(sys::Stat),
    /// The path is gone; of a write: another entry of this run needed a directory there.
    Removed,
    /// Already as it should be.
    Kept,
    /// Another entry of this run has the same name on this file system, and Git would say so. They were redone
    /// serially in index order; `None` if a later one took this one's place.
    Collided(Option<sys::Stat>),
    /// The premise no longer held: left alone.
    Stale,
    /// Not done, and nothing of it left behind.
    Failed(StepError),
    /// The system did not let it go (a directory that is not empty, or in a file's place): it stays in the
    /// worktree, as something untracked. Only removals.
    Left(StepError),
    /// Not reached, after an interrupt.
    Skipped,
}

/// What a step was doing when the system refused.
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

/// What was attempted, and why it failed; the path is in the step.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StepError {
    #[error("{action:?} failed")]
    Io { action: Action, source: io::Error },
    #[error("unable to read object {oid}")]
    Object { oid: ObjectId, source: Box<repo::objects::Error> },
    #[error("object {oid} is no blob but a {kind:?}")]
    NotABlob { oid: ObjectId, kind: repo::objects::Kind },
    /// A filter promised the file and never delivered it.
    #[error("not filtered properly")]
    NotFiltered,
    /// A required filter failed, or attributes make no sense: Git dies of it, and the run ends here.
    #[error(transparent)]
    Convert(#[from] repo::Error),
}

impl Action {
    /// For `map_err`.
    pub(super) fn failed(self) -> impl FnOnce(io::Error) -> StepError {
        move |source| StepError::Io { action: self, source }
    }
}

impl StepError {
    /// For `map_err`.
    pub(super) fn object(oid: ObjectId) -> impl FnOnce(repo::objects::Error) -> StepError {
        move |source| StepError::Object { oid, source: Box::new(source) }
    }

    /// Git's words for it, without `error: `.
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
    /// What filters and conversions had to say, in Git's words; each begins with `error: ` or `warning: `.
    pub messages: Vec<String>,
    /// A long-running filter did not keep to what was agreed, whatever became of the files.
    pub filter_failed: bool,
    /// The run stopped before the end: the interrupt flag was set, or see [`Report::fatal`].
    pub interrupted: bool,
}

impl Report {
    /// Whether nothing failed, was stale or was skipped.
    pub fn is_complete(&self) -> bool {
        !self.interrupted
            && !self.filter_failed
            && self
                .writes
                .iter()
                .chain(&self.removals)
                .all(|outcome| !matches!(outcome, Outcome::Failed(_) | Outcome::Stale | Outcome::Skipped))
    }

    /// Whether something was not done that can be done another day: a disk was full, or failed. A name that the file
    /// system cannot hold, or an object that is not there, is no such thing.
    pub fn can_be_finished(&self) -> bool {
        let outcomes = || self.writes.iter().chain(&self.removals);
        let stays = outcomes().any(|outcome| matches!(outcome, Outcome::Left(_)));
        outcomes().any(|outcome| match outcome {
            Outcome::Failed(StepError::Io { source, .. }) => !sys::is_name_refused(source),
            Outcome::Failed(StepError::Object { source, .. }) => source.io().is_some(),
            // What should have gone is where it belongs.
            Outcome::Stale => stays,
            _ => false,
        })
    }

    /// The first write whose directory could not be made, and why: Git dies of it.
    pub fn without_directory(&self) -> Option<(usize, &io::Error)> {
        self.writes.iter().enumerate().find_map(|(step, outcome)| match outcome {
            Outcome::Failed(StepError::Io { action: Action::CreateDirectory, source }) => {
                Some((step, source))
            }
            _ => None,
        })
    }

    /// The error that stopped the run, if one did; the first in index order where workers met several.
    pub fn fatal(&self) -> Option<&repo::Error> {
        self.writes.iter().find_map(|outcome| match outcome {
            Outcome::Failed(StepError::Convert(error)) => Some(error),
            _ => None,
        })
    }

    /// The writes that collided, for the warning that clone prints.
    pub fn collided(&self) -> impl Iterator<Item = usize> {
        let collided = |(step, outcome)| matches!(outcome, &Outcome::Collided(_)).then_some(step);
        self.writes.iter().enumerate().filter_map(collided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_gits() {
        let full = io::Error::from_raw_os_error(28);
        let error = Action::CreateFile.failed()(full);
        assert_eq!(error.message("a/b".into()), "unable to create file a/b: No space left on device");
    }
}
