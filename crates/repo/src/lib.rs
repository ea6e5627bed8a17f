//! Reads repositories. This is the only crate that uses gix, and it reads objects with its own
//! code, which is faster.
//!
//! [`Repository::open`] finds a repository, checks that it may be used, and reads its
//! configuration. All other data is read on demand. This crate does not write, does not print and
//! does not read the environment of the process. Its public interface contains no type of gix.

pub mod attributes;
mod branch;
mod commit;
mod config;
pub mod convert;
mod database;
mod date;
mod disk;
mod env;
mod error;
pub mod fsck;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod gitoxide;
mod history;
mod identity;
pub mod indexing;
mod links;
pub mod message;
pub mod objects;
mod open;
mod promisor;
mod quote;
mod reach;
mod reflog;
mod refs;
mod revision;
mod standalone;
pub mod submodule;
mod tag;
pub mod wire;
mod worktrees;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId};
use sys::UserPath;

pub use branch::{Guess, Tracking};
pub use commit::{CommitHeader, CommitText, is_same_encoding};
pub use config::{
    ConfigValues, Configured, OneSource, Origin, Scope, parse_bool, parse_number, parse_size, parse_unsigned,
    path as config_path,
};
pub use env::Env;
pub use error::{
    Attempt, ConfigError, ConvertError, DiscoveryError, Error, Foreign, FormatError, ObjectError, PathOrigin,
    RefError, RevisionError, UpstreamError,
};
pub use history::LeftBehind;
pub use identity::{Given as GivenIdentity, IdentityError, Person, Who, check_committer_date, parse_moment};
pub use links::{Commits, Links, tag_target};
pub use open::{Extensions, TemplateFormat, Trust, template_format};
pub use promisor::{CONTENTS_REMOTE, LazyFetch, Place, Promised};
pub use reflog::{DetachedFrom, LogLine};
pub use refs::{ListScope, ListedRef, Shortener, Soundness, branch_name};
pub use standalone::{StandaloneConfig, config_file};
pub use tag::TagTarget;
pub use worktrees::{
    GitfileError, Setting, Worktree, WorktreeHead, WorktreeHeadKind, setting_of, settings_in,
};

/// Prints a line that Git would print at this point. It begins with `error: `, `warning: ` or
/// `hint: `; the command continues. The default prints nothing.
#[derive(Clone, Copy, Debug)]
pub struct MessageSink(pub fn(&str));

impl Default for MessageSink {
    fn default() -> MessageSink {
        MessageSink(|_| {})
    }
}

impl MessageSink {
    /// Prints each line.
    pub fn print(self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.0(&line));
    }
}

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
    pub env: HashMap<OsString, OsString>,
    /// Prints messages.
    pub message_sink: MessageSink,
    /// This command created the repository and was started outside of it. Child processes get its
    /// real path and no prefix.
    pub is_created_by_command: bool,
    /// Fetches missing objects of a partial clone. Without it, none are fetched.
    pub lazy_fetch: Option<Arc<dyn LazyFetch>>,
}

/// An open repository. It is `Sync`, so worker threads share it.
pub struct Repository {
    options: OpenOptions,
    env: Env,
    layout: open::Layout,
    config: config::Config,
    refs: refs::Store,
    objects: Arc<objects::Objects>,
    /// The refs below `refs/replace/`, unless they are ignored.
    replaced: Option<Arc<refs::Replaced>>,
    /// See [`Repository::discovery_warnings`].
    warnings: Vec<BString>,
    shallow: OnceLock<Result<HashSet<ObjectId>, Error>>,
    /// See [`Repository::commit_graph`].
    graph: OnceLock<Option<gix_commitgraph::Graph>>,
    /// The index for names like `:path`.
    index: OnceLock<format::index::Index>,
    /// The running filter processes.
    processes: Arc<convert::Processes>,
    /// The time of all objects and reflog entries that this command writes.
    now: OnceLock<date::Time>,
}

/// See [`Repository::into_settings`].
#[derive(Debug)]
pub struct Settings(config::Config);

/// The target of HEAD. Names are full (`refs/heads/main`). If HEAD names a symbolic ref, the name
/// is that of the last ref in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Head {
    Branch {
        name: BString,
        oid: ObjectId,
    },
    Unborn {
        name: BString,
    },
    Detached {
        oid: ObjectId,
    },
    /// The chain of refs cannot be resolved: symbolic refs or links form a loop, or lead to an
    /// invalid name.
    Unresolvable,
}

impl Head {
    /// Returns the commit; `None` for an unborn branch.
    pub fn oid(&self) -> Option<ObjectId> {
        match self {
            Head::Branch { oid, .. } | Head::Detached { oid } => Some(*oid),
            Head::Unborn { .. } | Head::Unresolvable => None,
        }
    }

    /// Returns the full name of the branch, even if it is unborn.
    pub fn branch(&self) -> Option<&BStr> {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name.as_bstr()),
            Head::Detached { .. } | Head::Unresolvable => None,
        }
    }
}

/// Refuses a worktree unless it, its `.git` file if it has one, and its Git directory belong to the
/// user, or `safe.directory` names it.
pub fn check_worktree_owner(
    options: &OpenOptions,
    top: &Path,
    gitfile: Option<&Path>,
    git_dir: &Path,
) -> Result<(), Error> {
    open::check_worktree_owner(options, &Env::from(options.env.clone()), top, gitfile, git_dir)
}

impl Repository {
    /// Finds and opens a repository. Refuses unsafe ownership (`safe.directory`), unknown
    /// extensions, newer format versions and reftable, with Git's messages.
    pub fn open(options: &OpenOptions) -> Result<Repository, Error> {
        let env = Env::from(options.env.clone());
        let open::Opened { layout, config, warnings } = open::open(options, &env)?;
        let refs =
            refs::Store::new(&layout.git_dir, &layout.refs_dir, layout.hash, layout.display_refs_dir());
        let promisors = promisor::Remotes::of(&config, &env, &layout, options)?;
        let replaced = database::replaced(&env, &layout, &config, &refs)?;
        // The command reports a bad value.
        let depth = config.number("core.maxTreeDepth", config::parse_int).ok().flatten();
        let objects = Arc::new(database::open(&env, &layout, replaced.as_ref(), promisors, depth));
        Ok(Repository {
            options: options.clone(),
            env,
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
        check_worktree_owner(options, top, Some(&top.join(".git")), git_dir)?;
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
        if self.env.is_set("GIT_OBJECT_DIRECTORY") {
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
        open::is_worktree(&self.options, &self.env, dir)
    }

    /// Returns true if `.git` in `dir` is this repository's Git directory.
    pub fn is_own_worktree(&self, dir: &Path) -> bool {
        let real = |path: &Path| sys::by_path::canonical(path).ok();
        real(&dir.join(".git")).is_some_and(|place| real(self.git_dir()).is_some_and(|own| own == place))
    }

    /// Sets `PATH` in the environment of hooks, filters and monitors.
    pub fn set_path_of_children(&mut self, path: OsString) {
        self.env.set("PATH", path.clone());
        self.options.env.insert("PATH".into(), path);
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

    /// Returns the environment that the repository was opened with.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the environment for a child process (filter, hook) that runs in
    /// [`Repository::child_dir`]. Command-line options and Git's own variables about the repository
    /// override given variables. Paths are relative to that directory.
    pub fn child_env(&self) -> Vec<(OsString, OsString)> {
        child_env(&self.options, &self.env, &self.layout)
    }

    /// Returns the Git directory in the form that Git uses: absolute, or relative to
    /// [`Repository::child_dir`]. `None` for a `.git` that discovery found in that directory.
    pub fn exported_git_dir(&self) -> Option<&Path> {
        self.layout.exported.as_deref()
    }

    /// Returns the directory in which Git runs and starts programs: the top of the worktree, or the
    /// current directory if there is no worktree.
    pub fn child_dir(&self) -> &Path {
        child_dir(&self.options, &self.layout)
    }

    /// Returns the last value of a key, `section.subsection.name`. A name without `=` counts as
    /// empty.
    pub fn config_str(&self, key: &str) -> Option<BString> {
        self.config.string(key).map(ToOwned::to_owned)
    }

    /// Like [`Repository::config_str`], but a name without `=` is an error.
    pub fn config_str_required(&self, key: &str) -> Result<Option<BString>, Error> {
        Ok(self.config.string_required(key, self.message_context())?.map(ToOwned::to_owned))
    }

    fn message_context(&self) -> config::MessageContext<'_> {
        config::MessageContext { message_sink: self.message_sink(), top: self.work_tree() }
    }

    /// Returns the last value of a key; `Some(None)` for a name without `=`.
    pub fn config_value(&self, key: &str) -> Option<Option<BString>> {
        self.config.value(key)
    }

    /// Returns the last value of a key as a boolean.
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.config.boolean(key)
    }

    /// Returns the last value of a key as an integer. The units k, m and g are powers of 1,024.
    pub fn config_int(&self, key: &str) -> Result<Option<i32>, Error> {
        self.config.number(key, config::parse_int)
    }

    /// Returns the last value of a key as a size in bytes, with the same units; `None` if it is
    /// negative.
    pub fn config_size(&self, key: &str) -> Result<Option<u64>, Error> {
        let size = self.config.number(key, config::parse_size)?;
        Ok(size.and_then(|size| u64::try_from(size).ok()))
    }

    /// Returns the last value of a key as a path, with `~` expanded. A relative path starts at
    /// [`Repository::base_dir`].
    pub fn config_path(&self, key: &str) -> Result<Option<UserPath>, Error> {
        self.config.path(key, &self.env, self.message_context())
    }

    /// Expands a leading `~` of a path; `None` if there is no such home directory.
    pub fn expanded(&self, path: &BStr) -> Option<UserPath> {
        config::value::interpolate(path, &self.env)
    }

    /// Returns the last value of a key (in lower case) in the file that all worktrees share.
    /// Includes are not followed. A name without `=` counts as `true`.
    pub fn shared_config(&self, key: &str) -> Result<Option<BString>, Error> {
        let file = self.common_dir().join("config");
        let content = disk::read_optional(&file).map_err(Attempt::Read.on(&file))?;
        let pairs = config::parse::parse(&content.unwrap_or_default()).map_err(|bad| bad.in_file(&file))?;
        let found = pairs.into_iter().rev().find(|pair| pair.key == key);
        Ok(found.map(|pair| pair.value.unwrap_or_else(|| "true".into())))
    }

    /// Returns all settings with their values at the time when the repository was opened.
    pub fn into_settings(self) -> Settings {
        Settings(self.config)
    }

    /// Restores from `before` the settings that Git's commands read at startup. The conditions of
    /// includes may have changed since then.
    pub fn restore_startup_settings(&mut self, before: Settings) {
        self.config.restore_startup_settings(before.0);
    }

    /// Returns all values of a key, in order.
    pub fn config_all(&self, key: &str) -> Vec<BString> {
        self.config.all(key).map(ToOwned::to_owned).collect()
    }

    /// Returns all values of all settings, in the order in which Git reads them.
    pub fn configured(&self) -> Vec<Configured<'_>> {
        self.config.configured()
    }

    /// Reads the settings of one source.
    pub fn config_of(&self, one: OneSource<'_>) -> Result<ConfigValues, Error> {
        let sources = config::Sources {
            git_dir: Some(&self.layout.git_dir),
            message_sink: self.options.message_sink,
            ..config::Sources::default()
        };
        ConfigValues::load(&self.env, sources, one)
    }

    /// Returns the names of all settings, in order of appearance. Section and variable are in lower
    /// case, subsections are as written.
    pub fn config_names(&self) -> impl Iterator<Item = &BStr> {
        self.config.names()
    }

    /// Returns the names of the configured remotes, in order of appearance.
    pub fn remotes(&self) -> Vec<BString> {
        self.config.subsections("remote").into_iter().map(ToOwned::to_owned).collect()
    }

    /// Returns the warnings that Git prints at its first object lookup. They follow
    /// [`objects::Objects::errors`].
    pub fn warnings(&self) -> &[BString] {
        self.replaced.as_ref().map_or(&[], |replaced| replaced.warnings())
    }

    /// Returns the replaced objects (`refs/replace/`) and their replacements, sorted.
    pub fn replacements(&self) -> Result<Vec<(ObjectId, ObjectId)>, Error> {
        let Some(replaced) = &self.replaced else { return Ok(Vec::new()) };
        let all = objects::Replacements::all(&**replaced)?;
        let mut pairs: Vec<_> = all.iter().map(|(one, other)| (*one, *other)).collect();
        pairs.sort();
        Ok(pairs)
    }

    /// Returns the object database.
    pub fn objects(&self) -> &objects::Objects {
        &self.objects
    }

    /// Returns the object database, for an owner that outlives the repository.
    pub fn shared_objects(&self) -> Arc<objects::Objects> {
        Arc::clone(&self.objects)
    }
}

/// See [`Repository::child_env`].
fn child_env(options: &OpenOptions, env: &Env, layout: &open::Layout) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<_> = env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut set = |name: &str, value: OsString| {
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value));
    };
    if let Some(git_dir) = &layout.exported {
        set("GIT_DIR", git_dir.into());
    }
    if layout.is_bare_directory {
        set("GIT_IMPLICIT_WORK_TREE", "0".into());
    }
    let names_worktree =
        env.is_set("GIT_WORK_TREE") || (options.work_tree.is_some() && !options.is_created_by_command);
    if names_worktree && layout.work_tree.is_some() {
        set("GIT_WORK_TREE", ".".into());
    }
    if !options.is_created_by_command {
        set("GIT_PREFIX", sys::os_str(&layout.prefix).to_owned());
    }
    if let Some(parameters) = config_parameters(env.bytes("GIT_CONFIG_PARAMETERS"), &options.config) {
        set("GIT_CONFIG_PARAMETERS", parameters);
    }
    variables
}

/// See [`Repository::child_dir`].
fn child_dir<'a>(options: &'a OpenOptions, layout: &'a open::Layout) -> &'a Path {
    layout.work_tree.as_deref().unwrap_or(&options.cwd)
}

/// Appends the settings of the command line (`-c key=value`) to `GIT_CONFIG_PARAMETERS`. Returns
/// `None` if there are none.
pub fn config_parameters(before: Option<&BStr>, config: &[BString]) -> Option<OsString> {
    if config.is_empty() {
        return None;
    }
    let mut parameters = before.unwrap_or_default().to_owned();
    for text in config {
        let (key, value) = match text.split_once_str("=") {
            Some((key, value)) => (key, Some(value)),
            None => (text.as_slice(), None),
        };
        if !parameters.is_empty() {
            parameters.push(b' ');
        }
        parameters.extend_from_slice(&quote::shell(key.as_bstr()));
        parameters.push(b'=');
        parameters.extend(value.map(|value| quote::shell(value.as_bstr())).unwrap_or_default().iter());
    }
    Some(sys::os_str(&parameters).to_owned())
}
