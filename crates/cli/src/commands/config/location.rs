//! The file or files in which settings are read and changed.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use repo::{ConfigValues, Configured, Env, OneSource, Origin, Scope};
use sapwood::UserPath;
use sys::by_path;

use super::options::Request;
use crate::{
    session::{
        input::Input,
        invocation::{Invocation, Place},
    },
    term::failure::Failure,
};

/// The location that the command line names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    Everywhere,
    System,
    Global,
    Local,
    Worktree,
    File(BString),
    Blob(BString),
}

impl Location {
    /// Reads the location from the options. At most one may be given.
    pub(super) fn of(request: &mut Request) -> Result<Location, Failure> {
        let mut found = Vec::new();
        found.extend(request.system.then_some(Location::System));
        found.extend(request.global.then_some(Location::Global));
        found.extend(request.local.then_some(Location::Local));
        found.extend(request.worktree.then_some(Location::Worktree));
        found.extend(request.file.take().map(Location::File));
        found.extend(request.blob.take().map(Location::Blob));
        let location = found.pop();
        match found[..] {
            [] => Ok(location.unwrap_or(Location::Everywhere)),
            _ => Err(Failure::Error("only one config file at a time".into(), 129)),
        }
    }
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
    Stdin,
    Blob(BString),
}

/// Where the command works: the repository, or the configuration without a repository, and the
/// chosen location.
pub(super) struct Context<'a> {
    pub(super) run: &'a Invocation,
    pub(super) place: &'a Place,
    pub(super) env: Env,
    includes: Option<bool>,
    chosen: Chosen,
}

/// The settings that were read.
pub(super) enum Found<'a> {
    Everywhere(&'a Place),
    One(ConfigValues),
    /// The file does not exist.
    Missing(&'a File),
}

impl Found<'_> {
    /// Returns all entries, in the order in which Git reads them.
    pub(super) fn entries(&self) -> Vec<Configured<'_>> {
        match self {
            Found::Everywhere(Place::Repository(repo)) => repo.configured(),
            Found::Everywhere(Place::Outside(outside)) => outside.configured(),
            Found::One(values) => values.configured(),
            Found::Missing(_) => Vec::new(),
        }
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(run: &'a Invocation, place: &'a Place, includes: Option<bool>) -> Context<'a> {
        Context { run, place, env: run.env.clone(), includes, chosen: Chosen::Everywhere }
    }

    /// Selects the location that the command line names.
    pub(super) fn choose(&mut self, location: &Location) -> Result<(), Failure> {
        let variable = self.env.bytes("GIT_CONFIG").map(BStr::to_owned);
        self.chosen = match (location, variable) {
            (Location::File(_), _) | (_, None) => self.chosen_by(location)?,
            (Location::Everywhere, Some(file)) => self.chosen_by(&Location::File(file))?,
            (_, Some(_)) => return Err(Failure::Unserved("two configuration files")),
        };
        Ok(())
    }

    fn chosen_by(&self, location: &Location) -> Result<Chosen, Failure> {
        let outside = || Failure::Unserved("files of a repository outside of any");
        let repo = match self.place {
            Place::Repository(repo) => Some(repo),
            Place::Outside(_) => None,
        };
        Ok(match location {
            Location::Everywhere => Chosen::Everywhere,
            Location::File(name) if name == "-" => Chosen::Stdin,
            Location::File(name) => {
                let path = self.run.path(name).map_err(|_| Failure::Unserved("paths of this form"))?;
                let prefix = repo.map_or(BStr::new(""), |repo| repo.prefix());
                let name = if name.starts_with(b"/") {
                    name.clone()
                } else {
                    [prefix.as_bytes(), name].concat().into()
                };
                Chosen::File(File { path, name, scope: Scope::Command })
            }
            Location::Blob(name) => {
                repo.ok_or_else(outside)?;
                Chosen::Blob(name.clone())
            }
            Location::Local => {
                let name = repo.ok_or_else(outside)?.display_common_file("config");
                let path = repo.ok_or_else(outside)?.common_dir().join("config");
                Chosen::File(File { path, name: bytes(name), scope: Scope::Local })
            }
            Location::Worktree => Chosen::File(worktree_file(repo.ok_or_else(outside)?)?),
            Location::Global => Chosen::File(self.global()?),
            Location::System => {
                let variable = self.env.path("GIT_CONFIG_SYSTEM");
                let path = variable.ok_or(Failure::Unserved("the system's configuration"))?;
                Chosen::File(self.users_file(&path, Scope::System)?)
            }
        })
    }

    fn users_file(&self, name: &UserPath, scope: Scope) -> Result<File, Failure> {
        let base = match self.place {
            Place::Repository(repo) => repo.work_tree().filter(|top| self.run.cwd.starts_with(top)),
            Place::Outside(_) => None,
        };
        let path = name.resolve(base.unwrap_or(&self.run.cwd));
        let path = path.map_err(|_| Failure::Unserved("paths of this form"))?;
        Ok(File { path, name: name.as_bytes().into(), scope })
    }

    /// Returns the user's file: `~/.gitconfig`, unless only the one in `$XDG_CONFIG_HOME` exists.
    fn global(&self) -> Result<File, Failure> {
        if let Some(path) = self.env.path("GIT_CONFIG_GLOBAL") {
            return self.users_file(&path, Scope::Global);
        }
        let home = self.env.path("HOME").ok_or(Failure::Unserved("the user's file without a home"))?;
        let own = self.users_file(&home.with(".gitconfig"), Scope::Global)?;
        let Some(xdg) = self.env.xdg_config("config") else { return Ok(own) };
        let xdg = self.users_file(&xdg, Scope::Global)?;
        Ok(if !is_readable(&own.path)? && is_readable(&xdg.path)? { xdg } else { own })
    }

    /// Returns the file to change.
    pub(super) fn file_to_write(&self) -> Result<File, Failure> {
        match &self.chosen {
            Chosen::File(file) => {
                Ok(File { path: file.path.clone(), name: file.name.clone(), scope: file.scope })
            }
            Chosen::Stdin => Err(Failure::fatal("writing to stdin is not supported")),
            Chosen::Blob(_) => Err(Failure::fatal("writing config blobs is not supported")),
            Chosen::Everywhere => match self.place {
                Place::Repository(repo) => {
                    let name = bytes(repo.display_common_file("config"));
                    Ok(File { path: repo.common_dir().join("config"), name, scope: Scope::Local })
                }
                Place::Outside(_) => Err(Failure::fatal("not in a git directory")),
            },
        }
    }

    /// Reads the settings.
    pub(super) fn read(&self) -> Result<Found<'_>, Failure> {
        let unreadable = || Failure::Unserved("files that cannot be read");
        match &self.chosen {
            Chosen::Everywhere if self.includes == Some(false) => {
                Err(Failure::Unserved("all files without includes"))
            }
            Chosen::Everywhere => Ok(Found::Everywhere(self.place)),
            Chosen::File(file) => match by_path::read(&file.path) {
                Ok(None) => Ok(Found::Missing(file)),
                Ok(Some(content)) => {
                    let one = self.one(&content, &file.path, file.name.as_bstr(), Origin::File, file.scope);
                    self.parse(one).map(Found::One).map_err(|_| Failure::Unserved("files with mistakes"))
                }
                Err(_) => Err(unreadable()),
            },
            Chosen::Stdin => {
                let content = Input::new(self.run)?.all()?;
                let content = content.map_err(|error| Failure::fatal(error.to_string()))?;
                let one = self.one(&content, Path::new(""), BStr::new(""), Origin::Stdin, Scope::Command);
                // Standard input is consumed, so the real Git could not read it again.
                let values = self.parse(one).map_err(|error| match error {
                    repo::Error::Config(repo::ConfigError::Line { line, .. }) => {
                        Failure::fatal(format!("bad config line {line} in standard input"))
                    }
                    error => error.into(),
                });
                values.map(Found::One)
            }
            Chosen::Blob(name) => {
                let content = self.blob(name.as_bstr()).ok_or_else(unreadable)?;
                let one = self.one(&content, Path::new(""), name.as_bstr(), Origin::Blob, Scope::Command);
                self.parse(one).map(Found::One).map_err(|_| Failure::Unserved("blobs with mistakes"))
            }
        }
    }

    /// Returns true if standard input was read.
    pub(super) fn reads_stdin(&self) -> bool {
        matches!(self.chosen, Chosen::Stdin)
    }

    fn one<'s>(
        &self,
        bytes: &'s [u8],
        path: &'s Path,
        name: &'s BStr,
        origin: Origin,
        scope: Scope,
    ) -> OneSource<'s> {
        let follows_includes = self.includes.unwrap_or(origin != Origin::File);
        OneSource { bytes, path, name, origin, scope, follows_includes }
    }

    fn parse(&self, one: OneSource<'_>) -> Result<ConfigValues, repo::Error> {
        match self.place {
            Place::Repository(repo) => repo.config_of(one),
            Place::Outside(outside) => outside.config_of(one),
        }
    }

    /// Returns the content of a blob named by a revision and a path. Names in the index are left to
    /// the real Git.
    fn blob(&self, name: &BStr) -> Option<Vec<u8>> {
        let Place::Repository(repo) = self.place else { return None };
        if name.starts_with(b":") {
            return None;
        }
        let oid = repo.resolve(name).ok().flatten()?;
        let mut reader = repo.objects().reader();
        match reader.read(&oid) {
            Ok((format::Kind::Blob, content)) => Some(content.to_vec()),
            _ => None,
        }
    }
}

fn bytes(path: PathBuf) -> BString {
    use std::os::unix::ffi::OsStringExt as _;
    path.into_os_string().into_vec().into()
}

/// Returns `config.worktree`, or the common file if the repository has no other worktree.
fn worktree_file(repo: &repo::Repository) -> Result<File, Failure> {
    let is_main = repo.git_dir() == repo.common_dir();
    if repo.extensions().worktree_config {
        let path = repo.git_dir().join("config.worktree");
        let name = if is_main { repo.display_common_file("config.worktree") } else { path.clone() };
        return Ok(File { path, name: bytes(name), scope: Scope::Local });
    }
    let linked = by_path::list(&repo.common_dir().join("worktrees"));
    if linked.is_ok_and(|linked| !linked.is_empty()) {
        return Err(Failure::Unserved("--worktree in a repository with several worktrees"));
    }
    let name = bytes(repo.display_common_file("config"));
    Ok(File { path: repo.common_dir().join("config"), name, scope: Scope::Local })
}

/// Returns true if the file can be read, and false if it is missing. Git warns of a file that
/// exists and cannot be opened.
fn is_readable(path: &Path) -> Result<bool, Failure> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match by_path::open(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(false),
        Err(_) => Err(Failure::Unserved("files that cannot be read")),
    }
}
