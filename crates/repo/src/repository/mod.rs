//! An open repository: its directories, and what was read when it was opened.
//!
//! The modules above add the operations.

mod children;
mod database;
mod settings;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId, keys};
use objects::{CommitGraph, Objects};

pub use self::settings::Settings;
use crate::{
    config, date,
    error::Error,
    filter_process::Processes,
    message_sink::MessageSink,
    open::{self, Extensions, Trust},
    options::OpenOptions,
    promisor, refs,
};

/// An open repository. It is `Sync`, so worker threads share it.
pub struct Repository {
    pub(crate) options: OpenOptions,
    pub(crate) layout: open::Layout,
    pub(crate) config: config::Config,
    pub(crate) refs: refs::Store,
    pub(crate) objects: Arc<Objects>,
    /// The refs below `refs/replace/`, unless they are ignored.
    pub(crate) replaced: Option<Arc<refs::Replaced>>,
    /// See [`Repository::discovery_warnings`].
    pub(crate) warnings: Vec<BString>,
    pub(crate) shallow: OnceLock<Result<HashSet<ObjectId>, Error>>,
    /// See [`Repository::commit_graph`].
    pub(crate) graph: OnceLock<Option<CommitGraph>>,
    /// The index for names like `:path`.
    pub(crate) index: OnceLock<format::index::Index>,
    /// The running filter processes.
    pub(crate) processes: Arc<Processes>,
    /// The time of all objects and reflog entries that this command writes.
    pub(crate) now: OnceLock<date::Time>,
}

impl Repository {
    /// Finds and opens a repository. Refuses unsafe ownership (`safe.directory`), unknown
    /// extensions, newer format versions and reftable, with Git's messages.
    pub fn open(options: &OpenOptions) -> Result<Repository, Error> {
        let env = &options.env;
        let open::Opened { layout, config, warnings } = open::open(options, env)?;
        let refs =
            refs::Store::new(&layout.git_dir, &layout.refs_dir, layout.hash, layout.display_refs_dir());
        let promisors = promisor::Remotes::of(&config, env, &layout, options)?;
        let replaced = database::replaced(env, &layout, &config, &refs)?;
        // The command reports a bad value.
        let depth = config.get(&keys::core::MAX_TREE_DEPTH).ok().flatten();
        let objects = Arc::new(database::open(env, &layout, replaced.as_ref(), promisors, depth));
        Ok(Repository {
            options: options.clone(),
            layout,
            config,
            refs,
            objects,
            replaced,
            warnings,
            shallow: OnceLock::new(),
            graph: OnceLock::new(),
            index: OnceLock::new(),
            processes: Arc::default(),
            now: OnceLock::new(),
        })
    }

    /// Opens the repository at `git_dir`, to which a file `.git` in the directory `top` leads that
    /// Git does not read. Refuses what [`Repository::open`] refuses of a worktree.
    pub fn open_for(options: &OpenOptions, top: &Path, git_dir: &Path) -> Result<Repository, Error> {
        open::check_worktree_owner(options, top, Some(&top.join(".git")), git_dir)?;
        Repository::open(&OpenOptions { git_dir: Some(git_dir.to_owned()), ..options.clone() })
    }

    /// Returns the users whose files a command may use that works in this repository.
    pub fn trust(&self) -> Trust {
        Trust::of(self.options.clone(), &self.real_common_dir())
    }

    /// Reopens the repository, to read a `shallow` file that has changed.
    pub fn open_again(&self) -> Result<Repository, Error> {
        Repository::open(&self.options)
    }

    /// Returns the sink for messages.
    pub fn message_sink(&self) -> MessageSink {
        self.options.message_sink
    }

    /// Returns `.git`, or a linked worktree's own Git directory; absolute.
    pub fn git_dir(&self) -> &Path {
        &self.layout.git_dir
    }

    /// Returns the common directory as Git prints it in messages: relative to the directory in
    /// which Git runs, so `.git` at the top of the main worktree.
    pub fn display_common_dir(&self) -> &Path {
        &self.layout.display_name
    }

    /// Returns a file in the common directory as Git prints it in messages, except in messages
    /// about refs.
    pub fn display_common_file(&self, name: &str) -> PathBuf {
        let path = self.display_common_dir().join(name);
        path.strip_prefix(".").map(PathBuf::from).unwrap_or(path)
    }

    /// Returns the directory that all worktrees share; absolute.
    pub fn common_dir(&self) -> &Path {
        &self.layout.common_dir
    }

    /// Returns the directories that hold the repository: the Git directory, the common directory,
    /// and `GIT_OBJECT_DIRECTORY` if it is set. They are absolute, without symbolic links.
    pub fn own_directories(&self) -> Vec<PathBuf> {
        let mut own = vec![self.real_git_dir()];
        if self.layout.common_dir != self.layout.git_dir {
            own.push(self.real_common_dir());
        }
        if self.env().is_set("GIT_OBJECT_DIRECTORY") {
            own.push(sys::by_path::realpath_forgiving(&self.layout.objects_dir));
        }
        own
    }

    fn real_git_dir(&self) -> PathBuf {
        self.layout.real_git_dir()
    }

    /// Returns the common directory without symbolic links, `.` and `..`. This path stays valid
    /// when a command moves or removes the current directory.
    pub fn real_common_dir(&self) -> PathBuf {
        self.layout.real_common_dir()
    }

    /// Returns the directory of the refs that all worktrees share; absolute. `GIT_COMMON_DIR` does
    /// not change it.
    pub fn refs_dir(&self) -> &Path {
        &self.layout.refs_dir
    }

    /// Returns the directory of refs as Git prints it in messages.
    pub fn display_refs_dir(&self) -> &Path {
        self.layout.display_refs_dir()
    }

    /// Returns the top of the worktree, absolute and without symbolic links. `None` for a bare
    /// repository and inside `.git`.
    pub fn work_tree(&self) -> Option<&Path> {
        self.layout.work_tree.as_deref()
    }

    /// Returns true if Git calls the repository bare: it has no worktree, and `core.bare` is not
    /// false.
    pub fn is_bare(&self) -> bool {
        self.layout.bare
    }

    /// Returns true if discovery ended at a directory that is itself a Git directory.
    pub fn is_bare_directory(&self) -> bool {
        self.layout.is_bare_directory
    }

    /// Like `is_bare`, but reads only `core.bare` of the repository's own file.
    pub fn is_bare_by_own_config(&self) -> bool {
        self.layout.found_bare
    }

    /// Returns the path from the top of the worktree to the current directory, with a trailing
    /// slash, or an empty path.
    pub fn prefix(&self) -> &BStr {
        self.layout.prefix.as_bstr()
    }

    /// Returns the directory in which the repository was opened.
    pub fn cwd(&self) -> &Path {
        &self.options.cwd
    }

    /// Returns the base of relative paths in variables and settings: the top of the worktree, or
    /// the current directory if there is no worktree.
    pub fn base_dir(&self) -> &Path {
        self.work_tree().unwrap_or(&self.options.cwd)
    }

    /// Returns the path of the index; `GIT_INDEX_FILE` has precedence.
    pub fn index_path(&self) -> PathBuf {
        self.layout.index.clone()
    }

    /// Returns true if `dir` (absolute) is the worktree of a repository: its `.git` is a
    /// repository, or a file that names one.
    pub fn is_worktree(&self, dir: &Path) -> bool {
        open::is_worktree(&self.options, self.env(), dir)
    }

    /// Returns true if `.git` in `dir` is this repository's Git directory.
    pub fn is_own_worktree(&self, dir: &Path) -> bool {
        let real = |path: &Path| sys::by_path::canonical(path).ok();
        real(&dir.join(".git")).is_some_and(|place| real(self.git_dir()).is_some_and(|own| own == place))
    }

    /// Returns the format of the repository, as recorded in its own file.
    pub fn extensions(&self) -> &Extensions {
        &self.layout.extensions
    }

    /// Returns the warnings that Git prints during discovery. They are about values of
    /// `safe.directory`.
    pub fn discovery_warnings(&self) -> &[BString] {
        &self.warnings
    }

    /// Returns the hash of the object names.
    pub fn hash(&self) -> HashKind {
        self.layout.hash
    }

    /// Returns the warnings that Git prints at its first object lookup. They follow
    /// [`Objects::errors`].
    pub fn warnings(&self) -> &[BString] {
        self.replaced.as_ref().map_or(&[], |replaced| replaced.warnings())
    }

    /// Returns the replaced objects (`refs/replace/`) and their replacements, sorted.
    pub fn replacements(&self) -> Result<Vec<(ObjectId, ObjectId)>, Error> {
        let Some(replaced) = &self.replaced else { return Ok(Vec::new()) };
        let mut pairs: Vec<_> = replaced.objects()?.iter().map(|(one, other)| (*one, *other)).collect();
        pairs.sort();
        Ok(pairs)
    }

    /// Returns the object database.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the object database, for an owner that outlives the repository.
    pub fn shared_objects(&self) -> Arc<Objects> {
        Arc::clone(&self.objects)
    }
}
