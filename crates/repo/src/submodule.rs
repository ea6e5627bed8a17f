//! Submodules: what `.gitmodules` says of them, and opening the repository in one's worktree.
//!
//! Source: gitmodules(5). Which file is read is the caller's business; nothing is written.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use sys::by_path::uninterrupted;

use crate::{Attempt, ConfigError, Error, OpenOptions, Repository, config, disk, open};

/// What of a submodule counts as no change of it (`ignore`), weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignore {
    /// Nothing is ignored.
    None,
    /// Untracked files within.
    Untracked,
    /// All changes within; another commit counts.
    Dirty,
    /// Everything.
    All,
}

impl Ignore {
    /// The setting's value.
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
    /// Its subsection.
    pub name: BString,
    /// `ignore`
    pub ignore: Option<Ignore>,
}

/// The content of a `.gitmodules` file.
#[derive(Debug, Default)]
pub struct Modules {
    modules: Vec<Module>,
    by_path: HashMap<BString, usize>,
    warnings: Vec<BString>,
}

impl Modules {
    /// Parses a file's content; `file` names it in errors.
    pub fn parse(content: &[u8], file: &str) -> Result<Modules, Error> {
        let pairs = config::parse::parse(content).map_err(|bad| bad.in_file(Path::new(file)))?;
        let mut modules = Modules::default();
        for pair in pairs {
            modules.take(pair.key.as_bstr(), pair.value)?;
        }
        Ok(modules)
    }

    /// Of a file that is there and cannot be read: nothing, and what is to be said of it.
    pub fn unreadable(file: &Path, reason: &str) -> Modules {
        let warning = format!("unable to access '{}': {reason}", file.display());
        Modules { warnings: vec![warning.into()], ..Modules::default() }
    }

    fn take(&mut self, key: &BStr, value: Option<BString>) -> Result<(), Error> {
        let Some(rest) = key.strip_prefix(b"submodule.") else { return Ok(()) };
        let Some((name, item)) = rest.rsplit_once_str(".") else { return Ok(()) };
        if !is_name(name) {
            self.warnings.push([b"ignoring suspicious submodule name: ", name].concat().into());
            return Ok(());
        }
        let at = self.modules.iter().position(|module| module.name == name).unwrap_or_else(|| {
            self.modules.push(Module { name: name.into(), ignore: None });
            self.modules.len() - 1
        });
        if !matches!(item, b"path" | b"ignore") {
            return Ok(());
        }
        let value = value.ok_or_else(|| ConfigError::MissingValue(key.to_owned()))?;
        match item {
            b"path" if value.starts_with(b"-") => self.warnings.push(
                [
                    b"ignoring '",
                    key.as_bytes(),
                    b"' which may be interpreted as a command-line option: ",
                    &value,
                ]
                .concat()
                .into(),
            ),
            b"path" => {
                self.by_path.retain(|_, module| *module != at);
                self.by_path.insert(value, at);
            }
            _ => match Ignore::parse(value.as_bstr()) {
                Some(ignore) => self.modules[at].ignore = Some(ignore),
                None => self.warnings.push(
                    [
                        b"Invalid parameter '",
                        &value[..],
                        b"' for config option 'submodule.",
                        name,
                        b".ignore'",
                    ]
                    .concat()
                    .into(),
                ),
            },
        }
        Ok(())
    }

    /// The submodule at a path.
    pub fn at(&self, path: &BStr) -> Option<&Module> {
        self.by_path.get(path).map(|&at| &self.modules[at])
    }

    /// What Git warns of when it reads the file.
    pub fn warnings(&self) -> &[BString] {
        &self.warnings
    }
}

/// Names become paths below `.git/modules`: none may lead out of there.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.split(|&byte| byte == b'/' || byte == b'\\').any(|part| part == b"..")
}

/// Variables that are about one repository and not about another, so that a submodule does not get them. What the
/// command line configures counts everywhere.
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

type Variables = HashMap<OsString, OsString>;

fn without_repository(env: &Variables) -> Variables {
    let foreign = |name: &OsStr| OF_ONE_REPOSITORY.iter().any(|variable| name == *variable);
    let kept = env.iter().filter(|(name, _)| !foreign(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The environment of a command in a submodule's directory.
pub fn env_within(env: &Variables) -> Variables {
    let mut within = without_repository(env);
    within.insert("GIT_DIR".into(), ".git".into());
    within
}

impl Repository {
    /// Opens the repository of a submodule that may not be checked out, by itself: what its worktree is does not count.
    pub fn opened_at(&self, git_dir: &Path) -> Result<Repository, Error> {
        Repository::open(&OpenOptions {
            cwd: git_dir.to_owned(),
            git_dir: Some(".".into()),
            work_tree: Some(".".into()),
            bare: false,
            in_the_making: false,
            config: self.options.config.clone(),
            env: without_repository(&self.options.env),
            voice: self.options.voice,
            made_here: false,
        })
    }

    /// Opens the repository in the directory `path` of the worktree; `None` if there is no `.git` in it. No symbolic link may
    /// lead there: the caller has looked.
    pub fn submodule(&self, path: &BStr) -> Result<Option<Repository>, Error> {
        let Some(top) = self.work_tree() else { return Ok(None) };
        let dir = top.join(sys::os_str(path));
        match uninterrupted(|| dir.join(".git").metadata()) {
            Err(error) if disk::is_missing(&error) => return Ok(None),
            Err(error) => return Err(Attempt::Stat.on(&dir)(error)),
            Ok(_) => {}
        }
        Repository::open(&self.options_of(dir)).map(Some)
    }

    /// Whether a repository is at `path`, as Git finds out before it looks for what was changed in a submodule: something else that is called
    /// `.git` is an error, in its words.
    pub fn has_submodule(&self, path: &BStr) -> Result<bool, Error> {
        let Some(top) = self.work_tree() else { return Ok(false) };
        let dir = Path::new(sys::os_str(path));
        let options = self.options_of(top.join(dir));
        let env = options.env.clone().into();
        open::leads_to_one(&options, &env, &options.cwd.join(".git"), &dir.join(".git"))
    }

    fn options_of(&self, submodule: PathBuf) -> OpenOptions {
        OpenOptions {
            cwd: submodule,
            git_dir: Some(".git".into()),
            work_tree: None,
            bare: false,
            in_the_making: false,
            config: self.options.config.clone(),
            env: without_repository(&self.options.env),
            voice: self.options.voice,
            made_here: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_path_counts_and_names_stay_inside() {
        let content =
            b"[submodule \"a\"]\npath = x\npath = sub/a\nignore = dirty\n[submodule \"../b\"]\npath = b\n\
            [submodule \"c\"]\npath = -c\nignore = some\n";
        let modules = Modules::parse(content, ".gitmodules").expect("in the grammar");
        let a = Module { name: "a".into(), ignore: Some(Ignore::Dirty) };
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
