//! A new, empty repository.
//!
//! The Git directory appears whole or not at all. A directory that may hold a repository, and
//! formats but `sha1` and `files`, are Unsupported.
//!
//! ```no_run
//! use sapwood::{Silent, init::{self, Request}};
//!
//! let request = Request { directory: "new".into(), ..Request::default() };
//! let plan = init::plan(".".as_ref(), std::env::vars_os().collect(), request)?;
//! println!("{}", plan.run(&Silent)?.git_dir.display());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use engine::{clone::init, look::shared};
use format::refname::{self, Levels};
use repo::{OpenOptions, StandaloneConfig, keys};
use store::{Fsync, SharedRepository};
use sys::{FileType, UserPath, by_path};

use crate::{
    Error, Events, Notice, PlanError, RunError,
    clone::default_template,
    events::Notices,
    repository::{Environment, outside},
    settings::{
        self,
        refused::{self, Reader},
    },
    text,
};

/// The repository to create.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The worktree, or the Git directory of a bare repository.
    pub directory: PathBuf,
    /// No worktree.
    pub bare: bool,
    /// The first branch; `None` for `init.defaultBranch`, else `master`.
    pub branch: Option<BString>,
    /// The directory of templates; an empty one for none; `None` for the configured one, else
    /// Git's.
    pub template: Option<BString>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The Git directory, without symbolic links.
    pub git_dir: PathBuf,
}

/// A repository that can be created.
pub struct Plan {
    open: OpenOptions,
    directory: PathBuf,
    bare: bool,
    /// The full name of the first branch.
    branch: BString,
    /// True if neither the caller nor a setting names the branch.
    pub is_default_branch: bool,
    /// True if other users may use the repository (`core.sharedRepository`).
    pub is_shared: bool,
    /// The template directory, and its path as the user gave it.
    template: Option<(PathBuf, PathBuf)>,
    fsync: Fsync,
    notices: Vec<Notice>,
}

/// A property of a new repository that sapwood does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// A setting or a variable determines its format or its place.
    Elsewhere,
    /// Its directory may hold a repository.
    Taken,
    /// There is no directory of templates.
    NoTemplates,
    /// The templates have settings or refs.
    Templates,
    /// Git refuses the name of the first branch.
    Branch,
}

impl Unsupported {
    /// Returns its name, for [`crate::PlanError::Unsupported`].
    pub fn name(self) -> &'static str {
        match self {
            Unsupported::Elsewhere => "settings and variables of the format or place of a repository",
            Unsupported::Taken => "directories that may hold a repository",
            Unsupported::NoTemplates => "templates that are not there",
            Unsupported::Templates => "templates with settings or refs",
            Unsupported::Branch => "first branches with invalid names",
        }
    }
}

/// Examines the directory and the templates. Changes nothing. `dir` is the directory that relative
/// paths begin at, `environment` the variables that Git would read.
pub fn plan(dir: &Path, environment: Environment, request: Request) -> Result<Plan, PlanError> {
    let absolute = std::path::absolute(dir);
    let dir = absolute.map_err(|source| Error::CannotOpen { path: dir.to_owned(), source })?;
    let directory = dir.join(&request.directory);
    let open = outside(dir, environment);
    let config = StandaloneConfig::load(&open).map_err(Error::from)?;
    let checked = refused::check_outside(&config, &[Reader::Every]);
    checked.map_err(Error::from)?;
    let notices = Notices::default();
    let request = Request { directory, ..request };
    let plan = Plan::prepare(open, &config, None, request, &notices)?;
    let elsewhere = is_elsewhere(&config).then_some(Unsupported::Elsewhere);
    match elsewhere.or_else(|| plan.unsupported()) {
        Some(unsupported) => Err(PlanError::Unsupported(unsupported.name())),
        None => Ok(Plan { notices: notices.into_vec(), ..plan }),
    }
}

impl Plan {
    /// Reads what the request leaves to the configuration. Its directory is absolute. Git's own
    /// templates are beside its program `git`, or are searched for.
    pub fn prepare(
        open: OpenOptions,
        config: &StandaloneConfig,
        git: Option<&Path>,
        request: Request,
        events: &dyn Events,
    ) -> Result<Plan, Error> {
        let Request { directory, bare, branch, template } = request;
        let env = config.env();
        let git_dir = if bare { directory.clone() } else { directory.join(".git") };
        let git_dir = by_path::realpath_forgiving(&git_dir);
        // As in Git, `includeIf` applies to everything but the template.
        let inside = StandaloneConfig::with_file(&open, &git_dir, Path::new("/dev/null"))?;
        let configured = || {
            let tested = env.bytes("GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME").filter(|name| !name.is_empty());
            tested.map(|name| name.to_owned()).or_else(|| inside.config_str(&keys::init::DEFAULT_BRANCH))
        };
        let named = branch.or_else(configured);
        let is_default_branch = named.is_none();
        let branch = text!("refs/heads/", named.unwrap_or_else(|| "master".into()));
        let shared = shared::of(inside.config_value(&keys::core::SHARED_REPOSITORY));
        let is_shared = shared.map_err(settings::Error::from)? != SharedRepository::Umask;
        if !bare {
            // For a bare repository, Git does not read `core.logAllRefUpdates`.
            refused::check_outside(&inside, &[Reader::Refs])?;
        }
        let template = find_template(config, git, template)?;
        let fsync = settings::fsync(env.bytes("GIT_TEST_FSYNC"), config, events)?;
        let notices = Vec::new();
        Ok(Plan { open, directory, bare, branch, is_default_branch, is_shared, template, fsync, notices })
    }

    /// Returns the property that sapwood does not support, if any. Settings and variables are not
    /// examined.
    pub fn unsupported(&self) -> Option<Unsupported> {
        let is_missing = |path: &Path| matches!(by_path::stat(path), Ok(None));
        let kind = |path: &Path| by_path::stat_followed(path).ok().flatten().map(|stat| stat.file_type);
        let is_free = match by_path::list(&self.directory) {
            Ok(entries) if self.bare => entries.is_empty(),
            Ok(_) => is_missing(&self.directory.join(".git")),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        let decides = |dir: &Path| ["config", "HEAD", "refs"].iter().any(|name| !is_missing(&dir.join(name)));
        let short = repo::branch_name(self.branch.as_bstr());
        let is_name = refname::check(self.branch.as_bstr(), Levels::Two).is_ok() && !short.starts_with(b"-");
        match &self.template {
            _ if !is_free => Some(Unsupported::Taken),
            Some((dir, _)) if kind(dir) != Some(FileType::Directory) => Some(Unsupported::NoTemplates),
            Some((dir, _)) if decides(dir) => Some(Unsupported::Templates),
            _ => (!is_name).then_some(Unsupported::Branch),
        }
    }

    /// Creates the repository.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let created = init::create(&init::Options {
            directory: &self.directory,
            bare: self.bare,
            branch: self.branch.as_bstr(),
            template: self.template.as_ref().map(|(dir, given)| (dir.as_path(), given.as_path())),
            open: &self.open,
            fsync: &self.fsync,
        });
        Ok(Report { git_dir: created.map_err(|error| Error::failed(error.to_string()))? })
    }
}

/// Returns the template directory: the given one, `GIT_TEMPLATE_DIR`, `init.templateDir`, or Git's
/// own. An empty path means none.
fn find_template(
    config: &StandaloneConfig,
    git: Option<&Path>,
    given: Option<BString>,
) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let env = config.env();
    let given = match given.map(UserPath::new).or_else(|| env.path("GIT_TEMPLATE_DIR")) {
        Some(given) => Some(given),
        None => config.config_path(&keys::init::TEMPLATE_DIR)?,
    };
    let own = || {
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        default_template(git, &path).map(UserPath::from)
    };
    let Some(given) = given.or_else(own).filter(|given| !given.as_bytes().is_empty()) else {
        return Ok(None);
    };
    let dir = given.resolve(config.cwd()).map_err(|refused| Error::refused(&given, refused))?;
    Ok(Some((dir, PathBuf::from(given.as_os_str()))))
}

/// Returns true if a setting or a variable determines the format or the place of a new repository.
fn is_elsewhere(config: &StandaloneConfig) -> bool {
    const PLACES: [&str; 4] = ["GIT_COMMON_DIR", "GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"];
    const FORMATS: [(&str, &str); 5] = [
        ("GIT_DEFAULT_HASH", "sha1"),
        ("GIT_TEST_DEFAULT_HASH", "sha1"),
        ("GIT_DEFAULT_REF_FORMAT", "files"),
        ("GIT_REFERENCE_BACKEND", "files"),
        ("GIT_TEST_DEFAULT_REF_FORMAT", "files"),
    ];
    let variable = |name: &str| config.env().bytes(name).filter(|value| !value.is_empty());
    let is_on = |name: &str| {
        let is_on = |value: Option<BString>| repo::parse_bool(value.as_ref().map(|text| text.as_bstr()));
        config.config_value(name).is_some_and(|value| is_on(value) != Some(false))
    };
    let is_other = |name: &str, known: &str| config.config_str(name).is_some_and(|value| value != known);
    PLACES.iter().any(|name| variable(name).is_some())
        || FORMATS.iter().any(|(name, known)| variable(name).is_some_and(|value| value != *known))
        || config.config_value(&keys::core::BARE).is_some()
        || config.config_value(&keys::core::WORKTREE).is_some()
        || is_on(keys::feature::EXPERIMENTAL.name())
        || is_on(keys::init::DEFAULT_SUBMODULE_PATH_CONFIG.name())
        || is_other(keys::init::DEFAULT_OBJECT_FORMAT.name(), "sha1")
        || is_other(keys::init::DEFAULT_REF_FORMAT.name(), "files")
}
