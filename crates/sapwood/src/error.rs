//! The errors that operations share.

mod base;
mod config;
mod stash;

use std::{io, path::PathBuf};

use bstr::{BString, ByteSlice as _};
use engine::checkout::ConflictSide;

use crate::{
    refused::{Losses, Refused},
    settings, text, upstream,
};

pub use base::BaseError;
pub use config::ConfigError;
pub use stash::StashError;

/// Why planning ended without a plan. Nothing was changed and nothing was shown.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Git can do this, and sapwood cannot: the text names it. The caller may start the real Git.
    #[error("{0} are not supported yet")]
    Unsupported(&'static str),
    /// The operation is refused, or something could not be read.
    #[error(transparent)]
    Failed(Error),
}

/// Why an operation failed while it ran. There is no way back to another program from here.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct RunError(pub Error);

/// A condition that only Git supports, and that shows this late, is a failure like any other.
impl From<Error> for RunError {
    fn from(error: Error) -> RunError {
        match error {
            Error::Look(error @ engine::look::LookError::Unsupported(_)) => {
                RunError(Error::failed(error.to_string()))
            }
            error => RunError(error),
        }
    }
}

/// A change of HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadChange {
    /// Its branch, or a detached HEAD, gets another commit.
    Reset,
    /// It is put on a branch.
    Attach,
    /// It is detached.
    Detach,
    /// Its branch, or a detached HEAD, gets a commit that descends from it.
    Advance,
}

/// An error of the steps that operations have in common. Its text is Git's, without `fatal: `.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The repository has no worktree.
    #[error("this operation must be run in a work tree")]
    NoWorktree,
    /// A directory cannot be opened.
    #[error("cannot open '{}': {}", .path.display(), sys::reason(.source))]
    CannotOpen {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The caller raised the flag of the repository; nothing is half done.
    #[error("interrupted")]
    Interrupted,
    /// HEAD names no commit that can be read.
    #[error("bad object HEAD")]
    BadHead,
    /// HEAD has no commit.
    #[error("You do not have a valid HEAD.")]
    NoHead,
    /// A revision names an object that is not a commit.
    #[error("Could not parse object '{revision}'.")]
    NotACommit {
        /// The revision.
        revision: BString,
        /// Its object.
        object: format::ObjectId,
        /// The kind of the object.
        kind: String,
    },
    /// HEAD, or its branch, cannot be moved. Nothing was changed if planning found it.
    #[error("update_ref failed for ref 'HEAD': {source}")]
    CannotMoveHead {
        /// The change of HEAD.
        change: HeadChange,
        /// The reason.
        source: engine::switch::Error,
    },
    /// Paths are unmerged, and would be lost.
    #[error("you need to resolve your current index first")]
    Unmerged(Vec<BString>),
    /// Pathspecs match nothing.
    #[error("pathspec '{}' did not match any file(s) known to git", first(.0))]
    Unmatched(Vec<BString>),
    /// Paths are unmerged, or lack the side that was asked for.
    #[error("{}", .paths.first().map(|path| unmerged(path, *.side)).unwrap_or_default())]
    UnmergedPaths {
        /// The paths.
        paths: Vec<BString>,
        /// The side.
        side: Option<ConflictSide>,
    },
    /// The name of a new branch is not valid.
    #[error("'{name}' is not a valid branch name")]
    InvalidBranchName {
        /// The name.
        name: BString,
        /// The setting `advice.refSyntax`.
        advice: Option<bool>,
    },
    /// The new branch, by its full name, exists.
    #[error("a branch named '{}' already exists", short(.0))]
    BranchExists(BString),
    /// The target is no branch, and HEAD is not to be detached.
    #[error("a branch is expected, got {found}")]
    BranchExpected {
        /// The kind of the target, and its name.
        found: BString,
        /// True if the text says how to go on: `advice.suggestDetachingHead`.
        advises: bool,
    },
    /// A branch cannot get its upstream.
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
    /// The hook `reference-transaction` exists, and this operation does not run it.
    #[error("the hook 'reference-transaction' in this command")]
    ReferenceTransaction,
    /// A setting has a value that is not valid.
    #[error(transparent)]
    Setting(#[from] settings::Error),
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] repo::Error),
    /// An object cannot be read.
    #[error(transparent)]
    Object(#[from] repo::objects::Error),
    /// A file of the Git directory cannot be read or written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] store::index::LoadError),
    /// The index cannot be written.
    #[error(transparent)]
    WriteIndex(store::index::CommitError),
    /// The worktree cannot be examined.
    #[error(transparent)]
    Look(#[from] engine::look::LookError),
    /// HEAD or a file of an operation in progress cannot be read.
    #[error(transparent)]
    Switch(#[from] engine::switch::Error),
    /// The sparse patterns cannot be read.
    #[error(transparent)]
    Sparse(#[from] engine::sparse::LoadError),
    /// The untracked files cannot be removed; nothing was.
    #[error(transparent)]
    Clean(#[from] engine::clean::Error),
    /// A pathspec is not valid.
    #[error("{0}")]
    Pathspec(BString),
    /// The change is refused: it would lose something, or is not allowed.
    #[error("{0}")]
    Refused(Refused),
    /// A removal would lose content.
    #[error("{0}")]
    WouldLose(Losses),
    /// Unmerged paths forbid a commit.
    #[error("Exiting because of an unresolved conflict.")]
    Conflicts(Vec<BString>),
    /// A merge is not concluded.
    #[error("Exiting because of unfinished merge.")]
    UnfinishedMerge,
    /// HEAD and another commit have diverged: only a merge or a rebase brings them together.
    #[error("{}", diverged(*.must_choose))]
    Diverged {
        /// The commit of HEAD.
        ours: format::ObjectId,
        /// The other commit.
        theirs: format::ObjectId,
        /// True if neither the request nor a setting of a pull selects one of both.
        must_choose: bool,
    },
    /// A pull that may rebase finds local changes.
    #[error("{}", local_changes(*.unstaged, *.staged).join("\n"))]
    LocalChanges {
        /// Files differ from the index.
        unstaged: bool,
        /// The index differs from HEAD.
        staged: bool,
    },
    /// Trees cannot be made of the index.
    #[error(transparent)]
    Trees(TreeError),
    /// The index has no changes, and an empty commit was not asked for.
    #[error("nothing to commit")]
    NothingToCommit,
    /// The message is empty.
    #[error("Aborting commit due to empty commit message.")]
    EmptyMessage,
    /// The message has a NUL byte.
    #[error("a NUL byte in commit log message not allowed.")]
    NulInMessage,
    /// A hook refused. It said why on standard error.
    #[error("the hook '{0}' refused")]
    HookRefused(&'static str),
    /// The signing program failed; the reason was reported.
    #[error("failed to write commit object")]
    NotSigned,
    /// The name or address of the user is unknown or not valid.
    #[error(transparent)]
    Identity(#[from] repo::IdentityError),
    /// HEAD has moved, and the index could not be replaced.
    #[error("{STALE}")]
    StaleIndex(#[source] store::Error),
    /// The record of a workspace cannot be read.
    #[error(transparent)]
    Record(#[from] engine::workspace::record::Error),
    /// A form of the operation that Git has and sapwood lacks.
    #[error("{0} is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    NotSupported(&'static str),
    /// The result cannot be written to the file of the caller.
    #[error("unable to write new index file")]
    NewIndex,
    /// A symbolic link is above a submodule.
    #[error("expected '{link}' in submodule path '{path}' not to be a symbolic link")]
    LinkInSubmodulePath {
        /// The link.
        link: BString,
        /// The submodule.
        path: BString,
    },
    /// A submodule was not cloned or updated.
    #[error("{message}: {cause}")]
    Submodule {
        /// Git's message, which names the submodule.
        message: BString,
        /// The cause.
        #[source]
        cause: Box<Error>,
    },
    /// A symbolic link is in the place of a submodule.
    #[error("expected submodule path '{0}' not to be a symbolic link")]
    LinkForSubmodule(BString),
    /// Something else is in the way; the text is Git's.
    #[error("{0}")]
    Failed(BString),
    /// A file of the configuration cannot be changed.
    #[error(transparent)]
    Config(#[from] store::config::Error),
    /// Settings are not found or not changed.
    #[error(transparent)]
    Entries(Box<ConfigError>),
    /// The branch of a new worktree cannot be created; nothing else was.
    #[error(transparent)]
    NewBranch(Box<Error>),
    /// The worktree is a workspace, which another operation removes.
    #[error("'{}' is a workspace", .0.display())]
    Workspace(PathBuf),
    /// The changes of a workspace cannot be examined, so a removal might lose some.
    #[error("cannot find out whether '{name}' contains unsaved work, use --force to delete it in any case")]
    UnknownChanges {
        /// The workspace.
        name: BString,
        /// The cause; `None` if it was reported.
        #[source]
        cause: Option<Box<Error>>,
    },
    /// Something is in the way, and sapwood has advice.
    #[error("{message}")]
    Advised {
        /// The text.
        message: BString,
        /// The advice.
        advice: String,
    },
    /// A workspace cannot be mounted or unmounted.
    #[error(transparent)]
    Backend(Box<engine::workspace::backend::Error>),
    /// A base cannot be read or built.
    #[error(transparent)]
    Base(Box<engine::workspace::base::Error>),
    /// The files that are newer than a build cannot be written.
    #[error(transparent)]
    Newer(Box<engine::workspace::newer::Error>),
    /// A fetch failed. Refs are unchanged unless the error says otherwise.
    #[error(transparent)]
    Fetch(Box<engine::fetch::Error>),
    /// No commit-graph could be computed. Nothing was written.
    #[error(transparent)]
    CommitGraph(Box<engine::commit_graph::Error>),
    /// A multi-pack-index cannot be read, or none could be made. Nothing was written.
    #[error(transparent)]
    MultiPackIndex(Box<engine::midx::Error>),
    /// A pack is damaged, or an object in it is refused. Nothing was written.
    #[error(transparent)]
    IndexPack(Box<engine::pack_indexing::Error>),
    /// There is no clone, and no file of it is left.
    #[error(transparent)]
    Clone(Box<engine::clone::Error>),
    /// A clone was made, and its worktree could not be filled.
    #[error("unable to checkout working tree")]
    NotCheckedOut,
    /// A workspace cannot be moved to another base.
    #[error(transparent)]
    Rebase(Box<engine::workspace::rebase::Error>),
    /// The uncommitted work of a workspace cannot be determined.
    #[error(transparent)]
    Uncommitted(Box<engine::workspace::uncommitted::Error>),
    /// The files of a workspace cannot be removed.
    #[error(transparent)]
    RemoveWorkspace(Box<engine::workspace::remove::Error>),
    /// The Git directory of a sealed workspace cannot be made.
    #[error(transparent)]
    Seal(Box<engine::workspace::sealed::Error>),
    /// The commits of a sealed workspace cannot be taken.
    #[error(transparent)]
    Landing(Box<engine::landing::Error>),
    /// The commits of a workspace conflict with the branch. Nothing was changed.
    #[error("'{name}' conflicts with '{onto}'{}:{}", at_commit(.commit.as_ref()), indented(.paths))]
    LandConflicts {
        /// The workspace.
        name: BString,
        /// The branch.
        onto: BString,
        /// The commit that could not be replayed; `None` for a merge.
        commit: Option<format::ObjectId>,
        /// The paths.
        paths: Vec<BString>,
    },
    /// The check of the merged result failed. Nothing was changed.
    #[error("the check of '{name}' ended with {code}: it is not landed")]
    LandCheck {
        /// The workspace.
        name: BString,
        /// The exit code of the command.
        code: u8,
    },
    /// The record of a worktree cannot be written.
    #[error(transparent)]
    Worktree(#[from] engine::worktree::Error),
    /// A base was not sent, brought, examined or removed.
    #[error(transparent)]
    Bases(Box<BaseError>),
    /// Refs cannot be changed.
    #[error(transparent)]
    Refs(Box<store::refs::Error>),
    /// A stash entry was not created, found, applied or dropped.
    #[error(transparent)]
    Stash(Box<StashError>),
    /// A step would change the repository itself.
    #[error(transparent)]
    Guard(#[from] engine::guard::Error),
    /// A state cannot be stored or restored.
    #[error(transparent)]
    Checkpoint(engine::checkpoint::Error),
    /// There is no checkpoint of this number.
    #[error("there is no checkpoint {0} of this worktree")]
    NoCheckpoint(u64),
    /// The ref of a checkpoint exists, and the state cannot be read. The others can be used.
    #[error("the checkpoint '{name}' cannot be read: {reason}")]
    UnreadableCheckpoint {
        /// The full name of the ref.
        name: BString,
        /// The object or the ref that is damaged.
        reason: String,
    },
    /// There are not as many entries to go back.
    #[error("nothing to undo: {wanted} back is asked for, and {left} are there")]
    NothingToUndo {
        /// The number of entries to go back.
        wanted: u64,
        /// The number of entries that can be gone back.
        left: u64,
    },
    /// The newest state was not reached by an undo, or was changed since.
    #[error("nothing to redo")]
    NothingToRedo,
    /// Another process makes checkpoints after each change here.
    #[error("another 'sapwood checkpoint --watch' watches this worktree")]
    Watched,
    /// The worktree cannot be watched.
    #[error(transparent)]
    Watch(#[from] engine::tree_watch::Error),
    /// Another process made a checkpoint of this worktree. Nothing was changed.
    #[error("another checkpoint was made meanwhile; try again")]
    OtherCheckpoint,
}

impl From<engine::checkpoint::Error> for Error {
    fn from(error: engine::checkpoint::Error) -> Error {
        match error {
            engine::checkpoint::Error::Interrupted => Error::Interrupted,
            error => Error::Checkpoint(error),
        }
    }
}

impl From<crate::settings::refused::Refused> for Error {
    fn from(error: crate::settings::refused::Refused) -> Error {
        Error::Setting(error.into())
    }
}

impl From<store::index::CommitError> for Error {
    fn from(error: store::index::CommitError) -> Error {
        match error {
            store::index::CommitError::Objects(error) => Error::Store(error),
            error => Error::WriteIndex(error),
        }
    }
}

/// Why trees cannot be made of an index.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The index does not form trees.
    #[error(transparent)]
    Write(engine::add::WriteTreeError),
    /// The objects cannot be published.
    #[error(transparent)]
    Publish(store::Error),
}

/// Git's text.
const STALE: &str = "\
repository has been updated, but unable to write
new index file. Check that disk is not full and quota is
not exceeded, and then \"git restore --staged :/\" to recover.";

/// Conversions of large errors, which would make every result large.
macro_rules! boxed {
    ($($variant:ident($error:ty),)*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::$variant(Box::new(error))
            }
        })*
    };
}

boxed! {
    Backend(engine::workspace::backend::Error),
    Base(engine::workspace::base::Error),
    Newer(engine::workspace::newer::Error),
    Fetch(engine::fetch::Error),
    Clone(engine::clone::Error),
    CommitGraph(engine::commit_graph::Error),
    MultiPackIndex(engine::midx::Error),
    IndexPack(engine::pack_indexing::Error),
    Entries(ConfigError),
    Rebase(engine::workspace::rebase::Error),
    RemoveWorkspace(engine::workspace::remove::Error),
    Refs(store::refs::Error),
    Stash(StashError),
    Uncommitted(engine::workspace::uncommitted::Error),
    Seal(engine::workspace::sealed::Error),
    Landing(engine::landing::Error),
}

fn at_commit(commit: Option<&format::ObjectId>) -> String {
    commit.map(|commit| format!(" at commit {commit}")).unwrap_or_default()
}

fn indented(paths: &[BString]) -> String {
    paths.iter().map(|path| format!("\n  {path}")).collect()
}

impl From<Error> for PlanError {
    fn from(error: Error) -> PlanError {
        match error {
            Error::Look(engine::look::LookError::Unsupported(what)) => PlanError::Unsupported(what),
            error => PlanError::Failed(error),
        }
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Error {
        match error {
            PlanError::Unsupported(what) => Error::Look(engine::look::LookError::Unsupported(what)),
            PlanError::Failed(error) => error,
        }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        error.0
    }
}

impl Error {
    /// Returns the error with a text of Git's.
    pub fn failed(text: impl Into<BString>) -> Error {
        Error::Failed(text.into())
    }

    /// Returns the error of a path that the system cannot resolve.
    pub fn refused(path: &sys::UserPath, refused: sys::Refused) -> Error {
        Error::failed(match refused {
            sys::Refused::Empty => refused.to_string(),
            sys::Refused::TooLong => format!("Invalid path '{path}': {refused}"),
        })
    }

    /// Returns the error of an unknown name: `otherwise`, Git's message, unless the lookup failed
    /// because something could not be read.
    pub fn of_name(error: repo::Error, otherwise: Error) -> Error {
        if error.is_unreadable() || error.is_final() { error.into() } else { otherwise }
    }

    /// Returns the error of a change of HEAD that is refused.
    pub(crate) fn cannot_move_head(change: HeadChange) -> impl Fn(engine::switch::Error) -> Error {
        move |source| Error::CannotMoveHead { change, source }
    }

    /// Returns the error of a root that cannot be opened. As in Git, a missing root is no worktree.
    pub fn cannot_open(dir: &std::path::Path) -> impl Fn(io::Error) -> Error + '_ {
        move |source| match source.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::NotFound => Error::NoWorktree,
            _ => Error::CannotOpen { path: dir.to_owned(), source },
        }
    }
}

/// Returns Git's text about a path of [`Error::UnmergedPaths`].
pub fn unmerged(path: &BString, side: Option<ConflictSide>) -> BString {
    match side {
        None => text!("path '", path, "' is unmerged"),
        Some(ConflictSide::Ours) => text!("path '", path, "' does not have our version"),
        Some(ConflictSide::Theirs) => text!("path '", path, "' does not have their version"),
    }
}

/// Returns Git's lines about [`Error::LocalChanges`].
pub fn local_changes(unstaged: bool, staged: bool) -> Vec<&'static str> {
    let first = if unstaged {
        "cannot pull with rebase: You have unstaged changes."
    } else {
        "cannot pull with rebase: Your index contains uncommitted changes."
    };
    let second = (unstaged && staged).then_some("additionally, your index contains uncommitted changes.");
    [Some(first), second, Some("Please commit or stash them.")].into_iter().flatten().collect()
}

fn diverged(must_choose: bool) -> &'static str {
    if must_choose {
        "Need to specify how to reconcile divergent branches."
    } else {
        "Not possible to fast-forward, aborting."
    }
}

/// Returns the first text of a list that is not empty.
fn first(list: &[BString]) -> &bstr::BStr {
    list.first().map(|text| text.as_bstr()).unwrap_or_default()
}

/// Returns the name of a branch without `refs/heads/`.
fn short(full: &BString) -> &bstr::BStr {
    full.strip_prefix(engine::switch::names::BRANCHES).unwrap_or(full).as_bstr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_never_unsupported() {
        let found = || Error::Look(engine::look::LookError::Unsupported("things"));
        assert!(matches!(PlanError::from(found()), PlanError::Unsupported("things")));
        let RunError(error) = found().into();
        assert!(matches!(error, Error::Failed(_)));
        assert_eq!(error.to_string(), "things are not supported yet");
    }
}
