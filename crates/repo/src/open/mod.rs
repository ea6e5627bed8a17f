//! Finds a repository and checks that it may be used.
//!
//! Order: `GIT_DIR`, or discovery upwards from the current directory; ownership; format and
//! extensions; the worktree; the configuration. Error messages are Git's. Nothing is written.
//! Source: git(1) "ENVIRONMENT VARIABLES", gitrepository-layout(5), git-config(1) `safe.*`.

mod discover;
mod extensions;
mod safety;
mod trust;

use std::{
    cell::RefCell,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use bstr::BString;
use format::{HashKind, keys};
use sys::{
    UserPath,
    by_path::{self, canonical, uninterrupted},
};

use crate::{
    Attempt, DiscoveryError, Env, Error, OpenOptions, PathOrigin,
    config::{self, Config, Sources},
};
use discover::{Found, GitDir};
pub use extensions::Extensions;
use extensions::Format;
pub use extensions::{TemplateFormat, template_format};
pub use trust::Trust;

/// Returns the common directory of a Git directory, whatever `GIT_COMMON_DIR` says.
pub(crate) fn common_dir_of(git_dir: &Path) -> Result<PathBuf, Error> {
    Ok(discover::read_common_dir(git_dir)?.dir)
}

/// Git refuses a longer `GIT_DIR`: `PATH_MAX` less the space for the names below it.
const GIT_DIR_LIMIT: usize = 4096 - 40;

/// The paths of a repository.
pub(crate) struct Layout {
    pub(crate) git_dir: PathBuf,
    /// True if the path of the Git directory has no symbolic link, `.` or `..`.
    pub(crate) git_dir_is_real: bool,
    pub(crate) common_dir: PathBuf,
    /// The common directory as Git prints it in messages: relative to the directory in which Git
    /// runs.
    pub(crate) display_name: PathBuf,
    /// The `GIT_DIR` for child processes, relative to the directory in which Git runs. `None` if
    /// they find the repository by discovery.
    pub(crate) exported: Option<PathBuf>,
    /// True if discovery ended at a directory that is itself a Git directory.
    pub(crate) is_bare_directory: bool,
    pub(crate) objects_dir: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) work_tree: Option<PathBuf>,
    pub(crate) prefix: BString,
    pub(crate) hash: HashKind,
    /// True if the repository is bare by its own file, before the other settings are read.
    pub(crate) found_bare: bool,
    pub(crate) bare: bool,
    /// The directory of the refs that all worktrees share. `GIT_COMMON_DIR` does not change it.
    pub(crate) refs_dir: PathBuf,
    pub(crate) extensions: Extensions,
}

impl Layout {
    /// Returns the Git directory without symbolic links, `.` and `..`.
    pub(crate) fn real_git_dir(&self) -> PathBuf {
        if self.git_dir_is_real {
            self.git_dir.clone()
        } else {
            sys::by_path::realpath_forgiving(&self.git_dir)
        }
    }

    /// See [`crate::Repository::real_common_dir`].
    pub(crate) fn real_common_dir(&self) -> PathBuf {
        if self.common_dir == self.git_dir {
            self.real_git_dir()
        } else {
            sys::by_path::realpath_forgiving(&self.common_dir)
        }
    }

    /// Returns the directory of refs as Git prints it in messages.
    pub(crate) fn display_refs_dir(&self) -> &Path {
        if self.refs_dir == self.common_dir { &self.display_name } else { &self.refs_dir }
    }
}

/// An opened repository, with the data that is read immediately.
pub(crate) struct Opened {
    pub(crate) layout: Layout,
    pub(crate) config: Config,
    /// Warnings that Git prints during discovery.
    pub(crate) warnings: Vec<BString>,
}

/// `Yes` if child processes get `GIT_DIR`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exported {
    Yes,
    No,
}

struct Finder<'a> {
    options: &'a OpenOptions,
    env: &'a Env,
    /// The current directory, without symbolic links.
    cwd: PathBuf,
    /// The last Git directory whose `commondir` was read, with the result. On a network disk each
    /// read is a round trip.
    common: RefCell<Option<(PathBuf, Common)>>,
    /// See [`Opened::warnings`].
    warnings: RefCell<Vec<BString>>,
}

/// The directory that all worktrees share.
#[derive(Clone)]
struct Common {
    dir: PathBuf,
    /// True if a variable or the file `commondir` specifies it.
    is_explicit: bool,
}

impl<'a> Finder<'a> {
    fn new(options: &'a OpenOptions, env: &'a Env, cwd: PathBuf) -> Finder<'a> {
        Finder { options, env, cwd, common: RefCell::default(), warnings: RefCell::default() }
    }
}

/// Like [`canonical`]. The kernel names the current directory without links, so one call replaces
/// one for each component of its path.
fn canonical_directory(dir: &Path) -> io::Result<PathBuf> {
    match std::env::current_dir() {
        Ok(current) if current == dir && dir.is_absolute() => Ok(current),
        _ => canonical(dir),
    }
}

/// Finds the repository and reads its configuration.
pub(crate) fn open(options: &OpenOptions, env: &Env) -> Result<Opened, Error> {
    let cwd = canonical_directory(&options.cwd).map_err(Attempt::ChangeDirectory.on(&options.cwd))?;
    let finder = Finder::new(options, env, cwd);
    let found = finder.find();
    let warnings = finder.warnings.take();
    let (mut layout, format) = match found {
        Ok(found) => found,
        Err(error) => return Err(error.after_warnings(warnings)),
    };
    let is_inside = |top: &&PathBuf| finder.cwd.starts_with(top);
    let place = layout.work_tree.as_ref().filter(is_inside).unwrap_or(&finder.cwd).clone();
    let reached = || {
        if layout.git_dir == layout.common_dir {
            logical(env, &place).join(&layout.display_name)
        } else {
            layout.git_dir.clone()
        }
    };
    let config = config::load(
        env,
        Sources {
            git_dir: Some(&layout.git_dir),
            reached: Some(&reached),
            local: Some(&layout.common_dir.join("config")),
            common_name: Some(&layout.display_name),
            known: format.local.as_deref(),
            worktree: layout
                .extensions
                .worktree_config
                .then(|| layout.git_dir.join("config.worktree"))
                .as_deref(),
            place: Some(&place),
            is_being_created: options.is_being_created,
            command: &options.config,
            message_sink: options.message_sink,
        },
    )?;
    // Git finds the worktree by `core.bare` of the repository's own file. Afterwards the last value
    // among all sources is used.
    let bare = config.get(&keys::core::BARE)?.or(format.bare);
    layout.bare = layout.work_tree.is_none() && bare != Some(false);
    Ok(Opened { layout, config, warnings })
}

/// Returns a directory with the symbolic links of the user's path: `PWD`, if it is the same
/// directory.
fn logical(env: &Env, dir: &Path) -> PathBuf {
    let identity = |path: &Path| uninterrupted(|| path.metadata()).ok().map(|stat| (stat.dev(), stat.ino()));
    let seen = env.path("PWD").filter(UserPath::is_absolute).and_then(|seen| seen.resolve(dir).ok());
    let is_it = |seen: &PathBuf| seen != dir && identity(seen).is_some_and(|it| Some(it) == identity(dir));
    seen.filter(is_it).unwrap_or_else(|| dir.to_owned())
}

/// Refuses an explicitly named repository of another user, and returns Git's warnings. A `.` in
/// `safe.directory` is the current directory of `options`.
pub(crate) fn check_owner(options: &OpenOptions, env: &Env, git_dir: &Path) -> Result<Vec<BString>, Error> {
    let finder = Finder::new(options, env, options.cwd.clone());
    let checked = finder.check_owner(git_dir, None, None, git_dir);
    let warnings = finder.warnings.take();
    match checked {
        Ok(()) => Ok(warnings),
        Err(error) => Err(error.after_warnings(warnings)),
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
    let env = options.env.clone();
    let finder = Finder::new(options, &env, options.cwd.clone());
    finder.check_owner(top, gitfile, Some(top), git_dir)
}

/// Returns true if a directory is a Git directory.
pub(crate) fn is_git_directory(options: &OpenOptions, env: &Env, dir: &Path) -> bool {
    let finder = Finder::new(options, env, options.cwd.clone());
    finder.is_git_directory(dir).unwrap_or(false)
}

/// Returns true if `dir` is the worktree of a repository: its `.git` is a repository, or a file
/// that names one or cannot be read.
pub(crate) fn is_worktree(options: &OpenOptions, env: &Env, dir: &Path) -> bool {
    let finder = Finder::new(options, env, options.cwd.clone());
    let dot_git = dir.join(".git");
    match uninterrupted(|| dot_git.metadata()) {
        Ok(stat) if stat.is_dir() => finder.is_git_directory(&dot_git).unwrap_or(false),
        Ok(stat) if stat.is_file() => match stat.size() <= discover::GITFILE_LIMIT {
            true => {
                sys::by_path::read(&dot_git).is_err() || finder.read_gitfile(&dot_git, stat.size()).is_ok()
            }
            false => false,
        },
        _ => false,
    }
}

/// Returns true if `dot_git` is the directory of a repository or refers to one, and false if it
/// does not exist. Anything else is an error. `name` is its path in messages.
pub(crate) fn names_repository(
    options: &OpenOptions,
    env: &Env,
    dot_git: &Path,
    name: &Path,
) -> Result<bool, Error> {
    let finder = Finder::new(options, env, options.cwd.clone());
    match uninterrupted(|| dot_git.metadata()) {
        Ok(stat) if stat.is_file() => finder.read_gitfile_as(dot_git, name, stat.size()).map(|_| true),
        Ok(stat) if stat.is_dir() => {
            if finder.is_git_directory(dot_git)? {
                Ok(true)
            } else {
                discover::has_head(dot_git)?;
                Err(DiscoveryError::NotRecognized(name.to_owned()).into())
            }
        }
        Ok(_) => Ok(false),
        Err(error) if sys::is_missing(&error) => Ok(false),
        // Opening the repository reports the reason.
        Err(_) => Ok(true),
    }
}

/// Resolves the symbolic links of a worktree's path. The worktree need not exist, but its parent
/// must.
fn real_path(path: PathBuf) -> Result<PathBuf, Error> {
    by_path::realpath(&path).map_err(|err| {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        let missing = above.into_iter().find(|path| !matches!(by_path::stat_followed(path), Ok(Some(_))));
        Attempt::Resolve.on(missing.unwrap_or(&path))(err)
    })
}

impl Finder<'_> {
    fn find(&self) -> Result<(Layout, Format), Error> {
        if let Some(path) = &self.options.git_dir {
            let given = GitDir { path: path.clone(), is_real: false };
            return self.explicit(&given, path, None, true);
        }
        if let Some(git_dir) = self.env.path("GIT_DIR") {
            return self.named(&git_dir);
        }
        match self.discover()? {
            Found::Worktree { top, git_dir } => self.discovered(top, git_dir),
            Found::Bare { git_dir } => self.bare(git_dir),
        }
    }

    fn discovered(&self, top: PathBuf, git_dir: GitDir) -> Result<(Layout, Format), Error> {
        let format = self.check_format(&git_dir.path)?;
        let dot_git = Path::new(".git");
        let is_inside = git_dir.path == top.join(dot_git);
        if self.has_explicit_work_tree() || format.work_tree.is_some() {
            let display_name = if is_inside && top == self.cwd { dot_git } else { &git_dir.path };
            return self.explicit(&git_dir, display_name, Some(format), true);
        }
        if format.bare == Some(true) {
            let display_name =
                if is_inside && top == self.cwd { dot_git.to_owned() } else { git_dir.path.clone() };
            return self.layout(git_dir, &display_name, Exported::Yes, None, format);
        }
        if is_inside {
            self.layout(git_dir, dot_git, Exported::No, Some(top), format)
        } else {
            let display_name = git_dir.path.clone();
            self.layout(git_dir, &display_name, Exported::Yes, Some(top), format)
        }
    }

    fn bare(&self, git_dir: PathBuf) -> Result<(Layout, Format), Error> {
        let format = self.check_format(&git_dir)?;
        let display_name = if git_dir == self.cwd { PathBuf::from(".") } else { git_dir.clone() };
        let git_dir = GitDir { path: git_dir, is_real: true };
        let (mut layout, format) = if self.has_explicit_work_tree() || format.work_tree.is_some() {
            self.explicit(&git_dir, &display_name, Some(format), false)?
        } else {
            self.layout(git_dir, &display_name, Exported::Yes, None, format)?
        };
        layout.is_bare_directory = true;
        Ok((layout, format))
    }

    /// Opens the repository that `GIT_DIR` names.
    fn named(&self, git_dir: &UserPath) -> Result<(Layout, Format), Error> {
        if git_dir.as_bytes().len() > GIT_DIR_LIMIT {
            return Err(DiscoveryError::GitDirTooLong.into());
        }
        let path = git_dir
            .resolve(&self.cwd)
            .map_err(|_| DiscoveryError::NotARepository(git_dir.as_os_str().into()))?;
        self.explicit(&GitDir { path, is_real: false }, Path::new(git_dir.as_os_str()), None, true)
    }

    /// Opens a given directory; `display_name` is its path in messages. With `implicit`, the
    /// current directory is the worktree if no option or setting specifies one.
    fn explicit(
        &self,
        given: &GitDir,
        display_name: &Path,
        format: Option<Format>,
        implicit: bool,
    ) -> Result<(Layout, Format), Error> {
        let mut display_name = display_name.to_owned();
        let mut is_real = given.is_real;
        let mut git_dir = self.cwd.join(&given.path);
        if let Ok(stat) = uninterrupted(|| git_dir.metadata())
            && stat.is_file()
        {
            git_dir = self.read_gitfile_as(&git_dir, &display_name, stat.size())?;
            is_real = true;
            display_name = git_dir.clone();
        }
        let is_one = self.is_git_directory(&git_dir)?
            || (discover::has_head(&git_dir)? && self.is_git_directory(&git_dir)?);
        if !is_one {
            return Err(DiscoveryError::NotARepository(display_name).into());
        }
        let format = match format {
            Some(format) => format,
            None => self.check_format(&git_dir)?,
        };
        let is_bare = format.bare.unwrap_or(self.options.bare);
        let implicit = implicit && self.env.boolean("GIT_IMPLICIT_WORK_TREE")?.unwrap_or(true);
        let work_tree = if let Some(work_tree) = &self.options.work_tree {
            Some(real_path(self.cwd.join(work_tree))?)
        } else if let Some(work_tree) = self.env.path("GIT_WORK_TREE") {
            Some(self.explicit_work_tree(&work_tree)?)
        } else if is_bare {
            if format.work_tree.is_some() {
                self.warnings.borrow_mut().push("core.bare and core.worktree do not make sense".into());
            }
            None
        } else if let Some(work_tree) = &format.work_tree {
            Some(self.configured_work_tree(&UserPath::new(work_tree), &git_dir)?)
        } else {
            implicit.then(|| self.cwd.clone())
        };
        // Git changes to the top and makes the path of the directory relative to it. A path through
        // the current directory would become invalid when a command removes that directory.
        if let Some(top) = work_tree.as_ref().filter(|top| **top != self.cwd) {
            match self.cwd.starts_with(top) {
                true if is_real => display_name = git_dir.clone(),
                true => {
                    if let Ok(real) = canonical(&git_dir) {
                        (git_dir, is_real) = (real, true);
                    }
                    display_name = git_dir.clone();
                }
                false if display_name.is_absolute() => display_name = git_dir.clone(),
                false => display_name = git_dir.strip_prefix(top).unwrap_or(&git_dir).to_owned(),
            }
        }
        if self.options.is_created_by_command {
            display_name = canonical(&git_dir).unwrap_or_else(|_| git_dir.clone());
        }
        self.layout(GitDir { path: git_dir, is_real }, &display_name, Exported::Yes, work_tree, format)
    }

    fn has_explicit_work_tree(&self) -> bool {
        self.options.work_tree.is_some() || self.env.path("GIT_WORK_TREE").is_some()
    }

    fn explicit_work_tree(&self, work_tree: &UserPath) -> Result<PathBuf, Error> {
        let path = work_tree
            .resolve(&self.cwd)
            .map_err(|source| Error::Path { origin: PathOrigin::WorkTree(work_tree.clone()), source })?;
        real_path(path)
    }

    /// Resolves `core.worktree`. Git changes to the Git directory, and from there to a relative
    /// worktree.
    fn configured_work_tree(&self, work_tree: &UserPath, git_dir: &Path) -> Result<PathBuf, Error> {
        if work_tree.is_absolute() {
            return self.explicit_work_tree(work_tree);
        }
        let entered = work_tree.resolve(git_dir).map_err(Into::into);
        // Resolving `.` fails for a file, and for a directory without search permission.
        entered
            .and_then(|path| canonical(&path.join(".")))
            .map_err(Attempt::EnterWorktree.on(Path::new(work_tree.as_os_str())))
    }

    /// Resolves `GIT_INDEX_FILE` from the top of the worktree, where Git reads it.
    fn index(&self, git_dir: &Path, work_tree: Option<&Path>) -> Result<PathBuf, Error> {
        match self.env.path("GIT_INDEX_FILE") {
            // Git treats the empty string as an index without entries, and then `clean` removes all
            // tracked files.
            Some(file) => file
                .resolve(work_tree.unwrap_or(&self.cwd))
                .map_err(|source| Error::Path { origin: PathOrigin::IndexFile(file.clone()), source }),
            None => Ok(git_dir.join("index")),
        }
    }

    fn layout(
        &self,
        git_dir: GitDir,
        display_name: &Path,
        exported: Exported,
        work_tree: Option<PathBuf>,
        format: Format,
    ) -> Result<(Layout, Format), Error> {
        let GitDir { path: git_dir, is_real } = git_dir;
        let mut prefix = BString::default();
        // Git changes to the top from anywhere in the worktree, and stays in a directory outside of
        // it.
        let mut place = &self.cwd;
        if let Some(top) = &work_tree
            && let Ok(inside) = self.cwd.strip_prefix(top)
        {
            place = top;
            if !inside.as_os_str().is_empty() {
                prefix = inside.as_os_str().as_bytes().into();
                prefix.push(b'/');
            }
        }
        let (common_dir, refs_dir) = match self.common_dir_variable(place) {
            Some(common) => (common?, discover::read_common_dir(&git_dir)?.dir),
            None => {
                let common = self.common_dir(&git_dir)?.dir;
                (common.clone(), common)
            }
        };
        let layout = Layout {
            display_name: if common_dir == git_dir { display_name.to_owned() } else { common_dir.clone() },
            exported: (exported == Exported::Yes).then(|| display_name.to_owned()),
            is_bare_directory: false,
            index: self.index(&git_dir, work_tree.as_deref())?,
            git_dir,
            git_dir_is_real: is_real,
            objects_dir: self.objects_dir(place, &common_dir)?,
            common_dir,
            refs_dir,
            prefix,
            hash: format.hash.unwrap_or(HashKind::Sha1),
            found_bare: work_tree.is_none() && format.bare != Some(false),
            bare: work_tree.is_none(),
            work_tree,
            extensions: format.extensions.clone(),
        };
        Ok((layout, format))
    }
}
