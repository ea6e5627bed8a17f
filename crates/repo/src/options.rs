//! The parameters for opening a repository, and the callbacks in them.

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BStr, BString};
use format::{
    HashKind, ObjectId,
    keys::{Key, PathText},
};
use objects::Contents;

use crate::{Env, message_sink::MessageSink};

/// The parameters for finding a repository: `-C`, `--git-dir`, `--work-tree`, `-c`, and the `GIT_*`
/// variables, all as values.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The current directory, after `-C`.
    pub cwd: PathBuf,
    /// `--git-dir`, which has precedence over `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// `--work-tree`, which has precedence over `GIT_WORK_TREE`.
    pub work_tree: Option<PathBuf>,
    /// `--bare`: there is no worktree, unless the environment or the repository's own file
    /// specifies one.
    pub bare: bool,
    /// The repository is being created: no branch is checked out yet, even if HEAD names one.
    pub is_being_created: bool,
    /// `-c key=value`, in order.
    pub config: Vec<BString>,
    /// The whole environment. `GIT_*`, `HOME` and `XDG_CONFIG_HOME` are looked up here.
    pub env: Env,
    /// Prints messages.
    pub message_sink: MessageSink,
    /// This command created the repository and was started outside of it. Child processes get its
    /// real path and no prefix.
    pub is_created_by_command: bool,
    /// Fetches missing objects of a partial clone. Without it, none are fetched.
    pub lazy_fetch: Option<Arc<dyn LazyFetch>>,
}

/// Fetches promised objects when they are read.
pub trait LazyFetch: Debug + Send + Sync {
    /// Fetches objects as one pack. Returns true if the remote sent them; otherwise the
    /// implementation has printed the reason.
    fn fetch(&self, wanted: &Promised<'_>) -> bool;

    /// Returns the contents that are tried before a fetch.
    fn contents(&self, _place: &Place<'_>) -> Option<Box<dyn Contents>> {
        None
    }
}

/// A repository whose objects may also be stored elsewhere.
pub struct Place<'a> {
    /// The common directory.
    pub common: &'a Path,
    /// Its hash algorithm.
    pub hash: HashKind,
    /// Returns a setting, if it is a valid path.
    pub setting: &'a dyn Fn(&Key<Option<PathText>>) -> Option<PathBuf>,
}

/// Objects to fetch.
#[derive(Clone, Copy, Debug)]
pub struct Promised<'a> {
    /// The options with which the repository was opened, without lazy fetch.
    pub open: &'a OpenOptions,
    /// The name of the remote.
    pub remote: &'a BStr,
    /// The names, without duplicates.
    pub objects: &'a [ObjectId],
    /// `promisor.quiet`: print only errors.
    pub quiet: bool,
}
