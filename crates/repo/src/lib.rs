//! The repository: the only crate that knows gix; and reading objects on our own hot path.
//!
//! [`Repository::open`] finds a repository, decides whether it may be used, and reads its configuration;
//! all else is read when it is asked for. Nothing here writes, prints or asks the process for its
//! environment, and nothing of gix shows in the public interface.

pub mod attributes;
mod branch;
mod config;
pub mod convert;
mod database;
mod date;
mod disk;
mod env;
mod error;
pub mod fetch;
mod gitoxide;
mod history;
mod identity;
pub mod message;
pub mod objects;
mod open;
mod outside;
pub mod pack;
mod promisor;
mod quote;
mod reflog;
mod refs;
mod revision;
pub mod submodule;
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
pub use config::{Configured, parse_bool, parse_number, parse_unsigned};
pub use env::Env;
pub use error::{
    Attempt, ConfigError, ConvertError, DiscoveryError, Error, FormatError, ObjectError, PathOrigin,
    RefError, RevisionError, UpstreamError,
};
pub use history::LeftBehind;
pub use identity::check_committer_date;
pub use open::{Extensions, TemplateFormat, template_format};
pub use outside::{Outside, config_file};
pub use reflog::DetachedFrom;
pub use refs::branch_name;
pub use worktrees::{GitfileError, Setting, Worktree, WorktreeHead, WorktreeHeadKind, setting_of};

/// Prints a line that Git would print at that moment, which begins with `error: `, `warning: ` or `hint: ` and stops nothing.
/// The default prints nothing.
#[derive(Clone, Copy, Debug)]
pub struct Voice(pub fn(&str));

impl Default for Voice {
    fn default() -> Voice {
        Voice(|_| {})
    }
}

impl Voice {
    /// Prints each line.
    pub fn say(self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.0(&line));
    }
}

/// How to find the repository: `-C`, `--git-dir`, `--work-tree`, `-c`, and the `GIT_*` variables,
/// all passed in as values.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The current directory, after `-C`.
    pub cwd: PathBuf,
    /// `--git-dir`; stronger than `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// `--work-tree`; stronger than `GIT_WORK_TREE`.
    pub work_tree: Option<PathBuf>,
    /// `--bare`: there is no worktree, unless the environment or the repository's own file says otherwise.
    pub bare: bool,
    /// The repository is being made: it is on no branch yet, whatever its HEAD says meanwhile.
    pub in_the_making: bool,
    /// `-c key=value`, in order.
    pub config: Vec<BString>,
    /// The environment, as a whole; `GIT_*`, `HOME`, `XDG_CONFIG_HOME` are looked up here.
    pub env: HashMap<OsString, OsString>,
    /// Prints messages.
    pub voice: Voice,
    /// It was made by this command, which was not started in it: programs are told its real path, and no prefix.
    pub made_here: bool,
}

/// An open repository. `Sync`: shared by worker threads.
pub struct Repository {
    options: OpenOptions,
    env: Env,
    layout: open::Layout,
    config: config::Config,
    refs: refs::Store,
    objects: Arc<objects::Objects>,
    /// `refs/replace/`, unless it is ignored.
    replaced: Option<Arc<refs::Replaced>>,
    /// See [`Repository::warnings_while_found`].
    warnings: Vec<BString>,
    shallow: OnceLock<Result<HashSet<ObjectId>, Error>>,
    /// What names like `:path` are looked up in.
    index: OnceLock<format::index::Index>,
    /// Filters that keep running.
    processes: Arc<convert::Processes>,
}

/// See [`Repository::into_settings`].
#[derive(Debug)]
pub struct Settings(config::Config);

/// Where HEAD leads. Names are full (`refs/heads/main`), and those of the last ref on the way: branches can be symbolic.
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
    /// The way does not end: symbolic refs or links lead to themselves, or to what cannot be a ref.
    Nowhere,
}

impl Head {
    /// The commit, unless the branch is yet to be born.
    pub fn oid(&self) -> Option<ObjectId> {
        match self {
            Head::Branch { oid, .. } | Head::Detached { oid } => Some(*oid),
            Head::Unborn { .. } | Head::Nowhere => None,
        }
    }

    /// The full name of the branch, born or not.
    pub fn branch(&self) -> Option<&BStr> {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name.as_bstr()),
            Head::Detached { .. } | Head::Nowhere => None,
        }
    }
}

impl Repository {
    /// Discovers and opens. Refuses unsafe ownership (`safe.directory`), unknown extensions, newer
    /// format versions and reftable by name, in Git's words.
    pub fn open(options: &OpenOptions) -> Result<Repository, Error> {
        let env = Env::from(options.env.clone());
        let open::Opened { layout, config, warnings } = open::open(options, &env)?;
        let refs = refs::Store::new(&layout.git_dir, &layout.refs_dir, layout.hash, layout.refs_are_called());
        let child = || (child_dir(options, &layout).to_owned(), child_env(options, &env, &layout));
        let promisors = promisor::Remotes::of(&config, &env, &layout.extensions, child)?;
        let replaced = database::replaced(&env, &layout, &config, &refs)?;
        let objects = Arc::new(database::open(&env, &layout, replaced.as_ref(), promisors));
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
            index: OnceLock::new(),
            processes: Arc::default(),
        })
    }

    /// Prints messages.
    pub fn voice(&self) -> Voice {
        self.options.voice
    }

    /// `.git`, or a linked worktree's own directory; absolute.
    pub fn git_dir(&self) -> &Path {
        &self.layout.git_dir
    }

    /// The common directory as Git names it in messages: from where it works, so `.git` at the top of the main worktree.
    pub fn called(&self) -> &Path {
        &self.layout.called
    }

    /// A file in the common directory as Git names it in messages, but for those about refs.
    pub fn called_file(&self, name: &str) -> PathBuf {
        let path = self.called().join(name);
        path.strip_prefix(".").map(PathBuf::from).unwrap_or(path)
    }

    /// What all worktrees share; absolute.
    pub fn common_dir(&self) -> &Path {
        &self.layout.common_dir
    }

    /// The directories that hold the repository: its Git directory, the common directory, and
    /// `GIT_OBJECT_DIRECTORY` if it is set. Absolute, without symbolic links.
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
        match self.layout.git_dir_is_real {
            true => self.layout.git_dir.clone(),
            false => sys::by_path::realpath_forgiving(&self.layout.git_dir),
        }
    }

    /// The common directory, without symbolic links, `.` and `..`. This path stays valid when a
    /// command moves or removes the current directory.
    pub fn real_common_dir(&self) -> PathBuf {
        match self.layout.common_dir == self.layout.git_dir {
            true => self.real_git_dir(),
            false => sys::by_path::realpath_forgiving(&self.layout.common_dir),
        }
    }

    /// The directory of the refs that all worktrees share; absolute. `GIT_COMMON_DIR` does not move it.
    pub fn refs_dir(&self) -> &Path {
        &self.layout.refs_dir
    }

    /// The directory of refs as Git names it in messages.
    pub fn refs_are_called(&self) -> &Path {
        self.layout.refs_are_called()
    }

    /// `None` for a bare repository and inside of `.git`. Absolute, without symbolic links.
    pub fn work_tree(&self) -> Option<&Path> {
        self.layout.work_tree.as_deref()
    }

    /// Git's "is bare": no worktree, and `core.bare` does not deny it.
    pub fn is_bare(&self) -> bool {
        self.layout.bare
    }

    /// Like `is_bare`, by `core.bare` of the repository's own file alone.
    pub fn is_found_bare(&self) -> bool {
        self.layout.found_bare
    }

    /// Path of the cwd below the worktree with a trailing slash, or empty.
    pub fn prefix(&self) -> &BStr {
        self.layout.prefix.as_bstr()
    }

    /// The directory from which relative paths in variables and settings lead: Git works at the top of the worktree, or, where
    /// there is none, in the current directory.
    pub fn place(&self) -> &Path {
        self.work_tree().unwrap_or(&self.options.cwd)
    }

    /// The index, `GIT_INDEX_FILE` honoured.
    pub fn index_path(&self) -> PathBuf {
        self.layout.index.clone()
    }

    /// Whether `dir` (absolute) is the worktree of a repository: `.git` in it is one, or a file that names one.
    pub fn is_worktree(&self, dir: &Path) -> bool {
        open::is_worktree(&self.options, &self.env, dir)
    }

    /// Whether `.git` in `dir` is this repository's own.
    pub fn is_own_worktree(&self, dir: &Path) -> bool {
        let real = |path: &Path| sys::by_path::canonical(path).ok();
        real(&dir.join(".git")).is_some_and(|place| real(self.git_dir()).is_some_and(|own| own == place))
    }

    /// Sets `PATH` in the environment of hooks, filters and monitors.
    pub fn set_path_of_children(&mut self, path: OsString) {
        self.env.set("PATH", path.clone());
        self.options.env.insert("PATH".into(), path);
    }

    /// The format of the repository, from its own file.
    pub fn extensions(&self) -> &Extensions {
        &self.layout.extensions
    }

    /// Warnings that Git gives while it looks for the repository: of values of `safe.directory`.
    pub fn warnings_while_found(&self) -> &[BString] {
        &self.warnings
    }

    /// How object names are made.
    pub fn hash(&self) -> HashKind {
        self.layout.hash
    }

    /// The environment it was opened with.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The environment for a child (filter, hook) that is started in [`Repository::child_dir`], from where its paths are meant: what
    /// was given, what the command line said in its place, and what Git says of the repository.
    pub fn child_env(&self) -> Vec<(OsString, OsString)> {
        child_env(&self.options, &self.env, &self.layout)
    }

    /// Where Git works, and starts programs: at the top of the worktree; without one, where it was started.
    pub fn child_dir(&self) -> &Path {
        child_dir(&self.options, &self.layout)
    }

    /// Last value of a key, `section.subsection.name`. A name without `=` counts as empty.
    pub fn config_str(&self, key: &str) -> Option<BString> {
        self.config.string(key).map(ToOwned::to_owned)
    }

    /// As [`Repository::config_str`]; a name without `=` is an error.
    pub fn config_str_required(&self, key: &str) -> Result<Option<BString>, Error> {
        Ok(self.config.string_required(key, self.speaker())?.map(ToOwned::to_owned))
    }

    fn speaker(&self) -> config::Speaker<'_> {
        config::Speaker { voice: self.voice(), top: self.work_tree() }
    }

    /// Last value of a key; `Some(None)` for a name without `=`.
    pub fn config_value(&self, key: &str) -> Option<Option<BString>> {
        self.config.value(key)
    }

    /// Last value of a key as a boolean.
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.config.boolean(key)
    }

    /// Last value of a key as an integer, units of k, m and g (powers of 1,024) applied.
    pub fn config_int(&self, key: &str) -> Result<Option<i32>, Error> {
        self.config.number(key, config::parse_int)
    }

    /// Last value of a key as a size in bytes, with the same units. A negative one counts as none.
    pub fn config_size(&self, key: &str) -> Result<Option<u64>, Error> {
        let size = self.config.number(key, config::parse_size)?;
        Ok(size.and_then(|size| u64::try_from(size).ok()))
    }

    /// Last value of a key as a path, `~` expanded. A relative one leads from [`Repository::place`].
    pub fn config_path(&self, key: &str) -> Result<Option<UserPath>, Error> {
        self.config.path(key, &self.env, self.speaker())
    }

    /// The last value of a key (in lower case) in the file all worktrees share, whatever it includes. A name without `=`
    /// counts as `true`.
    pub fn shared_config(&self, key: &str) -> Result<Option<BString>, Error> {
        let file = self.common_dir().join("config");
        let content = disk::read_optional(&file).map_err(Attempt::Read.on(&file))?;
        let pairs = config::parse::parse(&content.unwrap_or_default()).map_err(|bad| bad.in_file(&file))?;
        let found = pairs.into_iter().rev().find(|pair| pair.key == key);
        Ok(found.map(|pair| pair.value.unwrap_or_else(|| "true".into())))
    }

    /// All settings, as they were read when it was opened.
    pub fn into_settings(self) -> Settings {
        Settings(self.config)
    }

    /// Takes the settings that Git's commands read when they begin from those `before`: what decides about includes may have
    /// changed since.
    pub fn begin_with(&mut self, before: Settings) {
        self.config.begin_with(before.0);
    }

    /// All values of a key, in order.
    pub fn config_all(&self, key: &str) -> Vec<BString> {
        self.config.all(key).map(ToOwned::to_owned).collect()
    }

    /// All that is configured, in the order in which Git reads it.
    pub fn configured(&self) -> Vec<Configured<'_>> {
        self.config.configured()
    }

    /// The names of everything that is configured, in order of appearance; section and variable in
    /// lower case, subsections as written.
    pub fn config_names(&self) -> impl Iterator<Item = &BStr> {
        self.config.names()
    }

    /// The names of remotes that are configured, in order of appearance.
    pub fn remotes(&self) -> Vec<BString> {
        self.config.subsections("remote").into_iter().map(ToOwned::to_owned).collect()
    }

    /// What Git warns of, after the [`objects::Objects::errors`], when it first looks for an object.
    pub fn warnings(&self) -> &[BString] {
        self.replaced.as_ref().map_or(&[], |replaced| replaced.warnings())
    }

    /// The object database.
    pub fn objects(&self) -> &objects::Objects {
        &self.objects
    }

    /// The objects, for a holder that outlives the repository.
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
    let names_worktree = env.is_set("GIT_WORK_TREE") || (options.work_tree.is_some() && !options.made_here);
    if names_worktree && layout.work_tree.is_some() {
        set("GIT_WORK_TREE", ".".into());
    }
    if !options.made_here {
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

/// `GIT_CONFIG_PARAMETERS` with the settings of the command line (`-c key=value`); `None` without any.
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
