//! Submodules: the content of `.gitmodules`, and opening a submodule's repository.
//!
//! Source: gitmodules(5). The caller chooses the file to read. Nothing is written.

use std::{
    collections::HashMap,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::keys::{self, Key};
use sys::by_path::uninterrupted;

use crate::{Attempt, ConfigError, Env, Error, OpenOptions, Repository, config, open};

/// The changes of a submodule that are ignored (`ignore`); each value includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignore {
    /// None.
    None,
    /// Untracked files in it.
    Untracked,
    /// All changes in its worktree; a different commit is reported.
    Dirty,
    /// All changes.
    All,
}

impl Ignore {
    /// Parses the value of the setting.
    pub fn parse(value: &BStr) -> Option<Ignore> {
        match value.as_bytes() {
            b"none" => Some(Ignore::None),
            b"untracked" => Some(Ignore::Untracked),
            b"dirty" => Some(Ignore::Dirty),
            b"all" => Some(Ignore::All),
            _ => None,
        }
    }
}

/// A section of `.gitmodules`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// The subsection.
    pub name: BString,
    /// `ignore`
    pub ignore: Option<Ignore>,
    /// `url`, unchanged. It may be relative to the superproject's remote.
    pub url: Option<BString>,
    /// `update`, unchecked.
    pub update: Option<BString>,
    /// `branch`
    pub branch: Option<BString>,
    /// `shallow`, unchecked.
    pub shallow: Option<BString>,
    /// `fetchRecurseSubmodules`, unchecked.
    pub fetch_recurse: Option<BString>,
}

/// The content of a `.gitmodules` file.
#[derive(Debug, Default)]
pub struct Modules {
    modules: Vec<Module>,
    by_path: HashMap<BString, usize>,
    warnings: Vec<BString>,
    /// `submodule.fetchJobs` and `fetch.recurseSubmodules`.
    general: HashMap<BString, BString>,
}

impl Modules {
    /// Parses the content of a file. `file` is its path in errors.
    pub fn parse(content: &[u8], file: &str) -> Result<Modules, Error> {
        let pairs = format::config::parse(content).map_err(|bad| config::bad_line(bad, Path::new(file)))?;
        let mut modules = Modules::default();
        for pair in pairs {
            modules.take(pair.key.as_bstr(), pair.value)?;
        }
        Ok(modules)
    }

    /// Returns an empty list with a warning, for a file that exists and cannot be read.
    pub fn unreadable(file: &Path, reason: &str) -> Modules {
        let warning = format!("unable to access '{}': {reason}", file.display());
        Modules { warnings: vec![warning.into()], ..Modules::default() }
    }

    fn take(&mut self, key: &BStr, value: Option<BString>) -> Result<(), Error> {
        if keys::submodule::FETCH_JOBS.is(key) || keys::fetch::RECURSE_SUBMODULES.is(key) {
            self.general.insert(key.to_owned(), value.unwrap_or_else(|| "true".into()));
            return Ok(());
        }
        let Some(rest) = key.strip_prefix(b"submodule.") else { return Ok(()) };
        let Some((name, item)) = rest.rsplit_once_str(".") else { return Ok(()) };
        if !is_name(name) {
            self.warnings.push([b"ignoring suspicious submodule name: ", name].concat().into());
            return Ok(());
        }
        let at = self.modules.iter().position(|module| module.name == name).unwrap_or_else(|| {
            self.modules.push(Module { name: name.into(), ..Module::default() });
            self.modules.len() - 1
        });
        if item == b"shallow" && value.is_none() {
            self.modules[at].shallow = Some("true".into());
            return Ok(());
        }
        if !matches!(
            item,
            b"path" | b"ignore" | b"url" | b"update" | b"branch" | b"shallow" | b"fetchrecursesubmodules"
        ) {
            return Ok(());
        }
        let value = value.ok_or_else(|| ConfigError::MissingValue(key.to_owned()))?;
        if matches!(item, b"path" | b"url") && value.starts_with(b"-") {
            let parts: [&[u8]; 4] =
                [b"ignoring '", key, b"' which may be interpreted as a command-line option: ", &value];
            self.warnings.push(parts.concat().into());
            return Ok(());
        }
        let module = &mut self.modules[at];
        match item {
            b"path" => {
                self.by_path.retain(|_, module| *module != at);
                self.by_path.insert(value, at);
            }
            b"ignore" => match Ignore::parse(value.as_bstr()) {
                Some(ignore) => module.ignore = Some(ignore),
                None => {
                    let option = [b"' for config option 'submodule.", name, b".ignore'"].concat();
                    self.warnings.push([b"Invalid parameter '", &value[..], &option].concat().into());
                }
            },
            b"url" => module.url = Some(value),
            b"update" => module.update = Some(value),
            b"branch" => module.branch = Some(value),
            b"shallow" => module.shallow = Some(value),
            _ => module.fetch_recurse = Some(value),
        }
        Ok(())
    }

    /// Returns the submodule at a path.
    pub fn at(&self, path: &BStr) -> Option<&Module> {
        self.by_path.get(path).map(|&at| &self.modules[at])
    }

    /// Returns the path of a submodule.
    pub fn path_of(&self, name: &BStr) -> Option<&BStr> {
        let found = self.by_path.iter().find(|(_, at)| self.modules[**at].name == name);
        found.map(|(path, _)| path.as_bstr())
    }

    /// Returns all submodules, in the order of the file.
    pub fn all(&self) -> &[Module] {
        &self.modules
    }

    /// Returns the value of `submodule.fetchjobs` or `fetch.recursesubmodules` in the file.
    pub fn general<T>(&self, key: &Key<T>) -> Option<&BStr> {
        self.general.get(BStr::new(&key.lower())).map(|value| value.as_bstr())
    }

    /// Returns the warnings that Git prints when it reads the file.
    pub fn warnings(&self) -> &[BString] {
        &self.warnings
    }
}

/// Returns true if a name is safe: names become paths below `.git/modules` and must not lead out of
/// it.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.split(|&byte| byte == b'/' || byte == b'\\').any(|part| part == b"..")
}

/// Variables that describe one repository, so they are not passed to a submodule. Configuration of
/// the command line applies to all repositories.
const OF_ONE_REPOSITORY: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

fn without_repository(env: &Env) -> Env {
    let foreign = |name: &OsStr| OF_ONE_REPOSITORY.iter().any(|variable| name == *variable);
    let kept = env.iter().filter(|(name, _)| !foreign(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the environment of a command in a submodule's directory.
pub fn submodule_env(env: &Env) -> Env {
    let mut within = without_repository(env);
    within.insert("GIT_DIR".into(), ".git".into());
    within
}

impl Repository {
    /// Opens the repository of a submodule by its Git directory. Its worktree is ignored and need
    /// not exist.
    pub fn open_git_dir(&self, git_dir: &Path) -> Result<Repository, Error> {
        Repository::open(&OpenOptions {
            cwd: git_dir.to_owned(),
            git_dir: Some(".".into()),
            work_tree: Some(".".into()),
            bare: false,
            is_being_created: false,
            config: self.options.config.clone(),
            env: without_repository(&self.options.env),
            message_sink: self.options.message_sink,
            is_created_by_command: false,
            lazy_fetch: self.options.lazy_fetch.clone(),
        })
    }

    /// Opens the repository in the directory `path` of the worktree; `None` if it has no `.git`.
    /// The caller has checked that no component of the path is a symbolic link.
    pub fn submodule(&self, path: &BStr) -> Result<Option<Repository>, Error> {
        let Some(top) = self.work_tree() else { return Ok(None) };
        let dir = top.join(sys::os_str(path));
        match uninterrupted(|| dir.join(".git").metadata()) {
            Err(error) if sys::is_missing(&error) => return Ok(None),
            Err(error) => return Err(Attempt::Stat.on(&dir)(error)),
            Ok(_) => {}
        }
        Repository::open(&self.options_of(dir)).map(Some)
    }

    /// Returns true if a repository is at `path`, by the check that Git makes before it looks for
    /// changes in a submodule. A `.git` that is not a repository is an error with Git's message.
    pub fn has_submodule(&self, path: &BStr) -> Result<bool, Error> {
        let Some(top) = self.work_tree() else { return Ok(false) };
        let dir = Path::new(sys::os_str(path));
        let options = self.options_of(top.join(dir));
        open::names_repository(&options, &options.env, &options.cwd.join(".git"), &dir.join(".git"))
    }

    fn options_of(&self, submodule: PathBuf) -> OpenOptions {
        OpenOptions {
            cwd: submodule,
            git_dir: Some(".git".into()),
            work_tree: None,
            bare: false,
            is_being_created: false,
            config: self.options.config.clone(),
            env: without_repository(&self.options.env),
            message_sink: self.options.message_sink,
            is_created_by_command: false,
            lazy_fetch: self.options.lazy_fetch.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_last_path_and_refuses_unsafe_names() {
        let content =
            b"[submodule \"a\"]\npath = x\npath = sub/a\nignore = dirty\n[submodule \"../b\"]\npath = b\n\
            [submodule \"c\"]\npath = -c\nignore = some\n";
        let modules = Modules::parse(content, ".gitmodules").expect("in the grammar");
        let a = Module { name: "a".into(), ignore: Some(Ignore::Dirty), ..Module::default() };
        assert_eq!(modules.at("sub/a".into()), Some(&a));
        assert_eq!(
            (modules.at("x".into()), modules.at("b".into()), modules.at("-c".into())),
            (None, None, None)
        );
        assert_eq!(modules.warnings().len(), 3);
        assert!(Modules::parse(b"[submodule \"a\"]\npath\n", ".gitmodules").is_err());
        assert!(Modules::parse(b"[submodule", ".gitmodules").is_err());
    }
}
