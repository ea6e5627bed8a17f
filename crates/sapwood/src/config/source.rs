//! The file or files in which settings are read and changed.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Config, ConfigError, Configured, Env, OneSource, Origin, Scope, StandaloneConfig};
use sys::{UserPath, by_path};

use super::unsupported;
use crate::{Error, PlanError, text};

/// A repository, or the configuration without one.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// A repository.
    Repository(&'a repo::Repository),
    /// The settings of the system, the user and the environment.
    Outside(&'a StandaloneConfig),
}

impl<'a> From<&'a crate::Repository> for Place<'a> {
    fn from(repository: &'a crate::Repository) -> Place<'a> {
        Place::Repository(&repository.inner)
    }
}

/// The file or files with settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Location {
    /// All files and the environment. A change is one of the repository's file.
    #[default]
    Everywhere,
    /// The system's file, if `GIT_CONFIG_SYSTEM` names it.
    System,
    /// The user's file.
    Global,
    /// The repository's file.
    Local,
    /// The worktree's file; the repository's if there is one worktree without a file of its own.
    Worktree,
    /// A file.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// Its name in messages and records.
        name: BString,
    },
    /// A content, which Git calls standard input. It cannot be changed.
    Input(Vec<u8>),
    /// A blob, by a revision and a path. It cannot be changed.
    Blob(BString),
}

/// A configuration file.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// The name in Git's form.
    pub(super) name: BString,
    scope: Scope,
}

enum Chosen {
    Everywhere,
    File(File),
    Input(Vec<u8>),
    Blob(BString),
}

/// A location in a place, which was not read.
pub struct Source<'a> {
    pub(super) place: Place<'a>,
    chosen: Chosen,
}

/// The settings of a source.
pub struct Found<'a> {
    place: Place<'a>,
    content: Content<'a>,
}

enum Content<'a> {
    Everywhere(&'a Config),
    One(Config),
    /// The file of this name does not exist.
    Missing(BString),
}

impl<'a> Source<'a> {
    /// Finds the file of a location.
    pub fn of(place: impl Into<Place<'a>>, location: Location) -> Result<Source<'a>, PlanError> {
        let place = place.into();
        let chosen = match location {
            Location::Everywhere => Chosen::Everywhere,
            Location::System => {
                let path = place.env().path("GIT_CONFIG_SYSTEM");
                let path = path.ok_or_else(|| unsupported("the system's configuration"))?;
                Chosen::File(place.users_file(&path, Scope::System)?)
            }
            Location::Global => Chosen::File(place.global()?),
            Location::Local => Chosen::File(common_file(place.repository()?)),
            Location::Worktree => Chosen::File(worktree_file(place.repository()?)?),
            Location::File { path, name } => Chosen::File(File { path, name, scope: Scope::Command }),
            Location::Input(content) => Chosen::Input(content),
            Location::Blob(name) => {
                place.repository()?;
                Chosen::Blob(name)
            }
        };
        Ok(Source { place, chosen })
    }

    /// Returns the file to change.
    pub(super) fn into_file(self) -> Result<File, Error> {
        match (self.chosen, self.place) {
            (Chosen::File(file), _) => Ok(file),
            (Chosen::Input(_), _) => Err(Error::failed("writing to stdin is not supported")),
            (Chosen::Blob(_), _) => Err(Error::failed("writing config blobs is not supported")),
            (Chosen::Everywhere, Place::Repository(repo)) => Ok(common_file(repo)),
            (Chosen::Everywhere, Place::Outside(_)) => Err(Error::failed("not in a git directory")),
        }
    }

    /// Reads the settings. By default, Git follows the includes of all sources but a single file.
    pub fn read(self, includes: Option<bool>) -> Result<Found<'a>, PlanError> {
        let place = self.place;
        let one = |bytes: &[u8], path: &Path, name: &BStr, origin: Origin, scope: Scope| {
            let follows_includes = includes.unwrap_or(origin != Origin::File);
            place.parse(OneSource { bytes, path, name, origin, scope, follows_includes })
        };
        let (nowhere, nameless) = (Path::new(""), BStr::new(""));
        let unreadable = || unsupported("files that cannot be read");
        let content = match &self.chosen {
            Chosen::Everywhere if includes == Some(false) => {
                return Err(unsupported("all files without includes"));
            }
            Chosen::Everywhere => Content::Everywhere(place.values()),
            Chosen::File(File { path, name, scope }) => match by_path::read(path) {
                Ok(None) => Content::Missing(name.clone()),
                Ok(Some(content)) => {
                    let values = one(&content, path, name.as_bstr(), Origin::File, *scope);
                    Content::One(values.map_err(|_| unsupported("files with mistakes"))?)
                }
                Err(_) => return Err(unreadable()),
            },
            Chosen::Input(content) => {
                let values = one(content, nowhere, nameless, Origin::Stdin, Scope::Command);
                Content::One(values.map_err(|error| match error {
                    repo::Error::Config(ConfigError::Line { line, .. }) => {
                        Error::failed(format!("bad config line {line} in standard input"))
                    }
                    error => error.into(),
                })?)
            }
            Chosen::Blob(name) => {
                let content = blob(place.repository()?, name.as_bstr()).ok_or_else(unreadable)?;
                let values = one(&content, nowhere, name.as_bstr(), Origin::Blob, Scope::Command);
                Content::One(values.map_err(|_| unsupported("blobs with mistakes"))?)
            }
        };
        Ok(Found { place, content })
    }
}

impl Found<'_> {
    /// Returns all settings, in the order in which Git reads them.
    pub fn entries(&self) -> Vec<Configured<'_>> {
        self.values().map(Config::configured).unwrap_or_default()
    }

    /// Returns the settings of one name, whose section and variable are in lower case.
    pub(super) fn named(&self, key: &BStr) -> Vec<Configured<'_>> {
        self.values().map(|values| values.configured_as(key)).unwrap_or_default()
    }

    fn values(&self) -> Option<&Config> {
        match &self.content {
            Content::Everywhere(values) => Some(values),
            Content::One(values) => Some(values),
            Content::Missing(_) => None,
        }
    }

    pub(super) fn env(&self) -> &Env {
        self.place.env()
    }

    /// Returns an error if the file does not exist.
    pub(super) fn must_exist(&self) -> Result<(), Error> {
        match &self.content {
            Content::Missing(name) => Err(Error::Failed(text!(
                "unable to read config file '",
                name,
                "': No such file or directory"
            ))),
            _ => Ok(()),
        }
    }
}

impl<'a> Place<'a> {
    fn env(self) -> &'a Env {
        match self {
            Place::Repository(repo) => repo.env(),
            Place::Outside(outside) => outside.env(),
        }
    }

    fn repository(self) -> Result<&'a repo::Repository, PlanError> {
        match self {
            Place::Repository(repo) => Ok(repo),
            Place::Outside(_) => Err(unsupported("files of a repository outside of any")),
        }
    }

    fn values(self) -> &'a Config {
        match self {
            Place::Repository(repo) => repo.config_values(),
            Place::Outside(outside) => outside.config_values(),
        }
    }

    fn parse(self, one: OneSource<'_>) -> Result<Config, repo::Error> {
        match self {
            Place::Repository(repo) => repo.config_of(one),
            Place::Outside(outside) => outside.config_of(one),
        }
    }

    /// Returns a file that the environment names. In a worktree, Git works at its top.
    fn users_file(self, name: &UserPath, scope: Scope) -> Result<File, PlanError> {
        let base = match self {
            Place::Repository(repo) if repo.prefix().is_empty() => repo.cwd(),
            Place::Repository(repo) => repo.base_dir(),
            Place::Outside(outside) => outside.cwd(),
        };
        let path = name.resolve(base).map_err(|_| unsupported("paths of this form"))?;
        Ok(File { path, name: name.as_bytes().into(), scope })
    }

    /// Returns the user's file: `~/.gitconfig`, unless only the one in `$XDG_CONFIG_HOME` exists.
    fn global(self) -> Result<File, PlanError> {
        if let Some(path) = self.env().path("GIT_CONFIG_GLOBAL") {
            return self.users_file(&path, Scope::Global);
        }
        let home = self.env().path("HOME").ok_or_else(|| unsupported("the user's file without a home"))?;
        let own = self.users_file(&home.with(".gitconfig"), Scope::Global)?;
        let Some(xdg) = self.env().xdg_config("config") else { return Ok(own) };
        let xdg = self.users_file(&xdg, Scope::Global)?;
        Ok(if !is_readable(&own.path)? && is_readable(&xdg.path)? { xdg } else { own })
    }
}

fn bytes(path: PathBuf) -> BString {
    path.into_os_string().into_encoded_bytes().into()
}

fn common_file(repo: &repo::Repository) -> File {
    let name = bytes(repo.display_common_file("config"));
    File { path: repo.common_dir().join("config"), name, scope: Scope::Local }
}

/// Returns `config.worktree`, or the common file if the repository has no other worktree.
fn worktree_file(repo: &repo::Repository) -> Result<File, PlanError> {
    if repo.extensions().worktree_config {
        let path = repo.git_dir().join("config.worktree");
        let is_main = repo.git_dir() == repo.common_dir();
        let name = if is_main { repo.display_common_file("config.worktree") } else { path.clone() };
        return Ok(File { path, name: bytes(name), scope: Scope::Local });
    }
    let linked = by_path::list(&repo.common_dir().join("worktrees"));
    if linked.is_ok_and(|linked| !linked.is_empty()) {
        return Err(unsupported("--worktree in a repository with several worktrees"));
    }
    Ok(common_file(repo))
}

/// Returns true if the file can be read, and false if it is missing. Git warns of a file that
/// exists and cannot be opened.
fn is_readable(path: &Path) -> Result<bool, PlanError> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match by_path::open(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(false),
        Err(_) => Err(unsupported("files that cannot be read")),
    }
}

/// Returns the content of a blob that a revision and a path name. Names in the index are left to
/// Git.
fn blob(repo: &repo::Repository, name: &BStr) -> Option<Vec<u8>> {
    if name.starts_with(b":") {
        return None;
    }
    let oid = repo.resolve(name).ok().flatten()?;
    match repo.objects().reader().read(&oid) {
        Ok((format::Kind::Blob, content)) => Some(content.to_vec()),
        _ => None,
    }
}
