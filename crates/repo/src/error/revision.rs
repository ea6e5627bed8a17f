//! Errors of revisions, and of the upstream and push destination of branches.

use bstr::BString;

/// A revision names no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The revision names nothing.
    #[error("bad revision '{0}'")]
    NotFound(BString),
    /// The revision names an index entry, and the caller has no index.
    #[error("'{0}' names an index entry, which is not supported here")]
    IndexEntry(BString),
    /// The search pattern is malformed.
    #[error("invalid search pattern '{0}'")]
    Pattern(BString),
    /// An abbreviation stands for several objects.
    #[error("short object ID {0} is ambiguous")]
    Ambiguous(BString),
    /// An abbreviation has too many digits, or characters that are not digits.
    #[error("bad abbreviated name '{0}'")]
    Abbreviation(BString),
    /// A path relative to the current directory needs a worktree.
    #[error("relative path syntax can't be used outside working tree")]
    RelativePath,
    /// A relative path leads out of the worktree.
    #[error("'{0}' is outside repository")]
    Outside(BString),
    /// The reflog has no entries.
    #[error("log for '{0}' is empty")]
    EmptyLog(BString),
    /// The reflog has too few entries.
    #[error("log for '{name}' only has {count} entries")]
    ShortLog {
        /// The ref, as messages name it.
        name: BString,
        /// The number of entries.
        count: usize,
    },
}

/// A branch has no upstream, or no ref that it is pushed to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// HEAD is detached.
    #[error("HEAD does not point to a branch")]
    NoCurrentBranch,
    /// The branch does not exist.
    #[error("no such branch: '{0}'")]
    NoBranch(BString),
    /// The branch has no upstream.
    #[error("no upstream configured for branch '{0}'")]
    NotConfigured(BString),
    /// No remote-tracking branch holds this upstream.
    #[error("upstream branch '{0}' not stored as a remote-tracking branch")]
    NotTracked(BString),
    /// No remote-tracking branch holds the destination of a push.
    #[error("push destination '{destination}' on remote '{remote}' has no local tracking branch")]
    PushNotTracked {
        /// The ref of the remote repository.
        destination: BString,
        /// The name of the remote.
        remote: BString,
    },
    /// No push refspec of the remote matches the branch.
    #[error("push refspecs for '{remote}' do not include '{branch}'")]
    NotPushed {
        /// The name of the remote.
        remote: BString,
        /// The short name of the branch.
        branch: BString,
    },
    /// `push.default` is `nothing`.
    #[error("push has no destination (push.default is 'nothing')")]
    PushNothing,
    /// `push.default` is `simple`, and upstream and push destination differ.
    #[error("cannot resolve 'simple' push to a single destination")]
    NotSimple,
}
