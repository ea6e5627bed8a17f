//! Finding a repository and deciding whether it may be used.
//!
//! Order: `GIT_DIR` or discovery upwards from the current directory; ownership; format and extensions;
//! the worktree; the configuration. Every refusal is Git's, word for word; nothing is written.
//! Source: git(1) "ENVIRONMENT VARIABLES", gitrepository-layout(5), git-config(1) `safe.*`.

use std::{
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use format::HashKind;

use crate::{
    Env, Error, OpenOptions,
    config::{self, Config, Sources},
    disk, quote,
};

/// Where everything is.
pub(crate) struct Layout {
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) objects_dir: PathBuf,
    pub(crate) work_tree: Option<PathBuf>,
    pub(crate) prefix: BString,
    pub(crate) hash: HashKind,
    pub(crate) bare: bool,
}

/// What the repository's own configuration says about its format.
#[derive(Default)]
struct Format {
    bare: Option<bool>,
    work_tree: Option<BString>,
    hash: Option<HashKind>,
    worktree_config: bool,
}

/// How discovery ended.
enum Found {
    /// `.git` (directory or file) in `top`.
    Worktree { top: PathBuf, git_dir: PathBuf },
    /// A repository without `.git` around it.
    Bare { git_dir: PathBuf },
}

struct Finder<'a> {
    options: &'a OpenOptions,
    env: &'a Env,
    /// Without symbolic links.
    cwd: PathBuf,
}

/// Finds the repository and reads its configuration.
pub(crate) fn open(options: &OpenOptions, env: &Env) -> Result<(Layout, Config), Error> {
    let cwd = options.cwd.canonicalize().map_err(|err| {
        Error::new(format!("cannot change to '{}': {}", options.cwd.display(), sys::reason(&err)))
    })?;
    let finder = Finder { options, env, cwd };
    let explicit = options.git_dir.clone().or_else(|| env.get("GIT_DIR").map(PathBuf::from));
    let (layout, format) = match explicit {
        Some(git_dir) => finder.explicit(&git_dir, None, true)?,
        None => match finder.discover()? {
            Found::Worktree { top, git_dir } => finder.discovered(top, git_dir)?,
            Found::Bare { git_dir } => finder.bare(git_dir)?,
        },
    };
    let config = config::load(
        env,
        Sources {
            git_dir: Some(&layout.git_dir),
            local: Some(&layout.common_dir.join("config")),
            worktree: format.worktree_config.then(|| layout.git_dir.join("config.worktree")).as_deref(),
            command: &options.config,
        },
    )?;
    Ok((layout, config))
}

/// Whether a repository named outright may be trusted.
pub(crate) fn check_owner(options: &OpenOptions, env: &Env, git_dir: &Path) -> Result<(), Error> {
    let finder = Finder { options, env, cwd: options.cwd.clone() };
    finder.check_owner(git_dir, None, None, git_dir)
}

impl Finder<'_> {
    fn discover(&self) -> Result<Found, Error> {
        let ceiling = self.ceiling();
        let across = self.env.boolean("GIT_DISCOVERY_ACROSS_FILESYSTEM")?.unwrap_or(false);
        let device = |dir: &Path| {
            dir.metadata().map(|stat| stat.dev()).map_err(|err| {
                Error::new(format!("failed to stat '{}': {}", dir.display(), sys::reason(&err)))
            })
        };
        let first_device = device(&self.cwd)?;
        let mut dir = self.cwd.as_path();
        loop {
            let dot_git = dir.join(".git");
            if let Some((git_dir, gitfile)) = self.dot_git(&dot_git)? {
                self.check_owner(dir, gitfile.then_some(&dot_git), Some(dir), &git_dir)?;
                return Ok(Found::Worktree { top: dir.to_owned(), git_dir });
            }
            if self.is_git_directory(dir)? {
                self.check_bare_allowed(dir)?;
                self.check_owner(dir, None, None, dir)?;
                return Ok(Found::Bare { git_dir: dir.to_owned() });
            }
            let nothing =
                || Error::new("not a git repository (or any of the parent directories): .git".to_owned());
            if ceiling.as_deref().is_some_and(|ceiling| dir.parent() == Some(ceiling)) {
                return Err(nothing());
            }
            dir = dir.parent().ok_or_else(nothing)?;
            if !across && device(dir)? != first_device {
                return Err(Error::new(format!(
                    "not a git repository (or any parent up to mount point {})\n\
                     Stopping at filesystem boundary (GIT_DISCOVERY_ACROSS_FILESYSTEM not set).",
                    dir.display()
                )));
            }
        }
    }

    /// The longest of `GIT_CEILING_DIRECTORIES` that is a proper ancestor of the current directory.
    /// An empty entry says that those after it hold no symbolic links.
    fn ceiling(&self) -> Option<PathBuf> {
        let mut literal = false;
        let mut found: Option<PathBuf> = None;
        for entry in self.env.bytes("GIT_CEILING_DIRECTORIES")?.split_str(":") {
            if entry.is_empty() {
                literal = true;
                continue;
            }
            let path = Path::new(std::ffi::OsStr::from_bytes(entry));
            if !path.is_absolute() {
                continue;
            }
            let path = match literal {
                true => path.to_owned(),
                false => match path.canonicalize() {
                    Ok(path) => path,
                    Err(_) => continue,
                },
            };
            let is_longer =
                found.as_ref().is_none_or(|found| path.as_os_str().len() > found.as_os_str().len());
            if self.cwd != path && self.cwd.starts_with(&path) && is_longer {
                found = Some(path);
            }
        }
        found
    }

    /// What `.git` is: a repository's directory, or a file that names one (`true`).
    fn dot_git(&self, dot_git: &Path) -> Result<Option<(PathBuf, bool)>, Error> {
        match dot_git.metadata() {
            Err(err) if disk::is_missing(&err) => Ok(None),
            Err(_) => Err(Error::new(format!("error reading '{}'", dot_git.display()))),
            Ok(stat) if stat.is_dir() => {
                Ok(self.is_git_directory(dot_git)?.then(|| (dot_git.to_owned(), false)))
            }
            Ok(stat) if !stat.is_file() => {
                Err(Error::new(format!("not a regular file: '{}'", dot_git.display())))
            }
            Ok(stat) => self.read_gitfile(dot_git, stat.size()).map(|git_dir| Some((git_dir, true))),
        }
    }

    fn read_gitfile(&self, file: &Path, size: u64) -> Result<PathBuf, Error> {
        let path = file.display();
        if size > 1 << 20 {
            return Err(Error::new(format!("too large to be a .git file: '{path}'")));
        }
        let bytes = match disk::read_optional(file) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(err) => {
                return Err(Error::new(format!("error opening '{path}': {}", sys::reason(&err))));
            }
        };
        let Some(target) = bytes.strip_prefix(b"gitdir: ") else {
            return Err(Error::new(format!("invalid gitfile format: {path}")));
        };
        let target = target.trim_end_with(|c| c == '\n' || c == '\r');
        if target.is_empty() {
            return Err(Error::new(format!("no path in gitfile: {path}")));
        }
        let target = Path::new(std::ffi::OsStr::from_bytes(target));
        let git_dir = file.parent().unwrap_or(Path::new("")).join(target);
        if !self.is_git_directory(&git_dir)? {
            // Discovery passes no directory on to the message; an explicit GIT_DIR does.
            return Err(Error::new(format!("not a git repository: {}", git_dir.display())));
        }
        git_dir
            .canonicalize()
            .map_err(|err| Error::new(format!("Invalid path '{}': {}", git_dir.display(), sys::reason(&err))))
    }

    /// `HEAD` that could be one, `objects/` and `refs/`.
    fn is_git_directory(&self, dir: &Path) -> Result<bool, Error> {
        if !has_valid_head(&dir.join("HEAD")) {
            return Ok(false);
        }
        let (common, _) = self.common_dir(dir)?;
        let objects = self.objects_dir(&common);
        // A file passes too, as it does with Git: reftable repositories have one for refs/heads.
        Ok(objects.metadata().is_ok() && common.join("refs").metadata().is_ok())
    }

    fn objects_dir(&self, common: &Path) -> PathBuf {
        match self.env.get("GIT_OBJECT_DIRECTORY") {
            Some(objects) => self.cwd.join(objects),
            None => common.join("objects"),
        }
    }

    /// The directory shared by all worktrees, and whether it is said to be another one.
    fn common_dir(&self, git_dir: &Path) -> Result<(PathBuf, bool), Error> {
        if let Some(common) = self.env.get("GIT_COMMON_DIR") {
            return Ok((self.cwd.join(common), true));
        }
        let file = git_dir.join("commondir");
        let failed = || Error::new(format!("failed to read {}", file.display()));
        match disk::read_optional(&file) {
            Ok(None) => Ok((git_dir.to_owned(), false)),
            Ok(Some(bytes)) if !bytes.is_empty() => {
                let target = bytes.trim_end_with(|c| c == '\n' || c == '\r');
                let common = git_dir.join(std::ffi::OsStr::from_bytes(target));
                Ok((common.canonicalize().unwrap_or(common), true))
            }
            _ => Err(failed()),
        }
    }

    fn discovered(&self, top: PathBuf, git_dir: PathBuf) -> Result<(Layout, Format), Error> {
        let format = self.check_format(&git_dir)?;
        if self.work_tree_override().is_some() || format.work_tree.is_some() {
            return self.explicit(&git_dir, Some(format), true);
        }
        if format.bare == Some(true) {
            return self.layout(git_dir, None, format);
        }
        self.layout(git_dir, Some(top), format)
    }

    fn bare(&self, git_dir: PathBuf) -> Result<(Layout, Format), Error> {
        let format = self.check_format(&git_dir)?;
        if self.work_tree_override().is_some() || format.work_tree.is_some() {
            return self.explicit(&git_dir, Some(format), false);
        }
        self.layout(git_dir, None, format)
    }

    /// The directory is given. `implicit`: without any word about a worktree, the current directory is it.
    fn explicit(
        &self,
        git_dir: &Path,
        format: Option<Format>,
        implicit: bool,
    ) -> Result<(Layout, Format), Error> {
        let given = git_dir;
        let mut git_dir = self.cwd.join(given);
        if let Ok(stat) = git_dir.metadata()
            && stat.is_file()
        {
            git_dir = self.read_gitfile(&git_dir, stat.size())?;
        }
        if !self.is_git_directory(&git_dir)? {
            return Err(Error::new(format!("not a git repository: '{}'", given.display())));
        }
        let format = match format {
            Some(format) => format,
            None => self.check_format(&git_dir)?,
        };
        let implicit = implicit && self.env.boolean("GIT_IMPLICIT_WORK_TREE")?.unwrap_or(true);
        let work_tree =
            if let Some(work_tree) = self.work_tree_override() {
                Some(self.cwd.join(work_tree))
            } else if format.bare == Some(true) {
                None
            } else if let Some(work_tree) = &format.work_tree {
                let path = git_dir.join(std::ffi::OsStr::from_bytes(work_tree));
                Some(path.canonicalize().map_err(|err| {
                    Error::new(format!("cannot chdir to '{work_tree}': {}", sys::reason(&err)))
                })?)
            } else {
                implicit.then(|| self.cwd.clone())
            };
        self.layout(git_dir, work_tree, format)
    }

    fn work_tree_override(&self) -> Option<PathBuf> {
        self.options.work_tree.clone().or_else(|| self.env.get("GIT_WORK_TREE").map(PathBuf::from))
    }

    fn layout(
        &self,
        git_dir: PathBuf,
        work_tree: Option<PathBuf>,
        format: Format,
    ) -> Result<(Layout, Format), Error> {
        let (common_dir, _) = self.common_dir(&git_dir)?;
        let work_tree = work_tree.map(|path| path.canonicalize().unwrap_or(path));
        let mut prefix = BString::default();
        if let Some(inside) = work_tree.as_ref().and_then(|top| self.cwd.strip_prefix(top).ok())
            && !inside.as_os_str().is_empty()
        {
            prefix = inside.as_os_str().as_bytes().into();
            prefix.push(b'/');
        }
        let layout = Layout {
            git_dir,
            objects_dir: self.objects_dir(&common_dir),
            common_dir,
            prefix,
            hash: format.hash.unwrap_or(HashKind::Sha1),
            bare: work_tree.is_none() && format.bare != Some(false),
            work_tree,
        };
        Ok((layout, format))
    }

    /// Reads `core.repositoryFormatVersion` and `extensions.*`, from the repository's own file alone.
    fn check_format(&self, git_dir: &Path) -> Result<Format, Error> {
        let (common, has_common) = self.common_dir(git_dir)?;
        let mut format = Format::default();
        let Some(version) = format.read(&common.join("config"))? else { return Ok(Format::default()) };
        version.verify()?;
        if format.worktree_config {
            format.read(&git_dir.join("config.worktree"))?;
        } else if has_common {
            // What the main worktree says of itself does not concern a linked one.
            format.bare = None;
            format.work_tree = None;
        }
        Ok(format)
    }

    fn protected_config(&self) -> Result<Config, Error> {
        config::load(self.env, Sources { command: &self.options.config, ..Sources::default() })
    }

    fn check_bare_allowed(&self, dir: &Path) -> Result<(), Error> {
        let config = self.protected_config()?;
        let explicit_only =
            config.all_protected("safe.bareRepository").last().is_some_and(|v| v == "explicit");
        let text = dir.as_os_str().as_bytes();
        let implied = dir.ends_with(".git")
            || text.contains_str("/.git/worktrees/")
            || text.contains_str("/.git/modules/");
        if explicit_only && !implied {
            return Err(Error::new(format!(
                "cannot use bare repository '{}' (safe.bareRepository is 'explicit')",
                dir.display()
            )));
        }
        Ok(())
    }

    /// Refuses what belongs to somebody else, unless `safe.directory` names it.
    fn check_owner(
        &self,
        dir: &Path,
        gitfile: Option<&Path>,
        work_tree: Option<&Path>,
        git_dir: &Path,
    ) -> Result<(), Error> {
        let assume_other = self.env.boolean("GIT_TEST_ASSUME_DIFFERENT_OWNER")?.unwrap_or(false);
        let mut parts = [gitfile, work_tree, Some(git_dir)].into_iter().flatten();
        if !assume_other && parts.all(|part| self.is_owned(part)) {
            return Ok(());
        }
        let named = work_tree.unwrap_or(git_dir);
        if let Ok(path) = named.canonicalize()
            && self.is_declared_safe(&path)?
        {
            return Ok(());
        }
        Err(Error::new(format!(
            "detected dubious ownership in repository at '{}'\n\
             To add an exception for this directory, call:\n\n\
             \tgit config --global --add safe.directory {}",
            dir.display(),
            quote::shell_pretty(dir.as_os_str().as_bytes().as_bstr())
        )))
    }

    fn is_owned(&self, path: &Path) -> bool {
        let Ok(stat) = path.symlink_metadata() else { return false };
        let user = sys::user::effective_uid();
        if user != 0 || stat.uid() == 0 {
            return stat.uid() == user;
        }
        // Root by way of sudo may use what belongs to the user who called it.
        let sudo =
            self.env.bytes("SUDO_UID").and_then(|uid| uid.to_str().ok()).and_then(|uid| uid.parse().ok());
        stat.uid() == sudo.unwrap_or(user)
    }

    fn is_declared_safe(&self, path: &Path) -> Result<bool, Error> {
        let config = self.protected_config()?;
        let mut safe = false;
        for value in config.all_protected("safe.directory") {
            if value.is_empty() {
                safe = false;
            } else if value == "*" {
                safe = true;
            } else {
                let allowed = config::interpolate(value, self.env)
                    .ok_or_else(|| Error::new(format!("failed to expand user dir in: '{value}'")))?;
                if !allowed.is_absolute() && allowed != Path::new(".") {
                    continue;
                }
                let bytes = allowed.as_os_str().as_bytes();
                if let Some(parent) = bytes.strip_suffix(b"/*") {
                    let parent = Path::new(std::ffi::OsStr::from_bytes(parent));
                    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
                    safe |= path != parent && path.starts_with(&parent);
                } else {
                    let allowed = self.cwd.join(allowed).canonicalize();
                    safe |= allowed.is_ok_and(|allowed| allowed == path);
                }
            }
        }
        Ok(safe)
    }
}

/// Version and extensions, to be judged together once the file is read.
#[derive(Default)]
struct Version {
    version: i64,
    unknown: Vec<BString>,
    only_version_1: Vec<BString>,
    ref_storage: Option<BString>,
}

impl Format {
    /// `None` if the file does not exist or names no version: such a repository is taken as it is.
    fn read(&mut self, file: &Path) -> Result<Option<Version>, Error> {
        let bytes = match disk::read_optional(file) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::new(format!(
                    "unable to access '{}': {}",
                    file.display(),
                    sys::reason(&err)
                )));
            }
            Err(err) => {
                return Err(Error::new(format!(
                    "unable to read '{}': {}",
                    file.display(),
                    sys::reason(&err)
                )));
            }
        };
        let pairs = config::parse::parse(&bytes).map_err(|config::parse::BadLine(line)| {
            Error::new(format!("bad config line {line} in file {}", file.display()))
        })?;
        let mut version = Version { version: -1, ..Version::default() };
        for config::parse::Pair { key, value } in pairs {
            let boolean = || {
                config::parse_bool(value.as_ref().map(|value| value.as_bstr())).ok_or_else(|| {
                    config::bad_boolean(
                        value.as_ref().map_or(BStr::new(""), |value| value.as_bstr()),
                        key.as_bstr(),
                    )
                })
            };
            let text = || value.clone().ok_or_else(|| Error::new(format!("missing value for '{key}'")));
            let invalid = |text: BString| Error::new(format!("invalid value for '{key}': '{text}'"));
            match key.as_slice() {
                b"core.bare" => self.bare = Some(boolean()?),
                b"core.worktree" => self.work_tree = Some(text()?),
                b"core.repositoryformatversion" => {
                    let text = text()?;
                    version.version = config::parse_int(text.as_bstr()).map_err(|kind| {
                        Error::new(format!(
                            "bad numeric config value '{text}' for '{key}' in file {}: {kind}",
                            file.display()
                        ))
                    })?;
                }
                _ => {
                    let Some(extension) = key.strip_prefix(b"extensions.") else { continue };
                    match extension {
                        b"noop" | b"partialclone" => {}
                        b"preciousobjects" => {
                            boolean()?;
                        }
                        b"worktreeconfig" => self.worktree_config = boolean()?,
                        b"noop-v1" => version.only_version_1.push(extension.into()),
                        b"relativeworktrees" | b"submodulepathconfig" => {
                            boolean()?;
                            version.only_version_1.push(extension.into());
                        }
                        b"objectformat" => {
                            let text = text()?;
                            self.hash = Some(hash_by_name(text.as_bstr()).ok_or_else(|| invalid(text))?);
                            version.only_version_1.push(extension.into());
                        }
                        b"compatobjectformat" => {
                            let text = text()?;
                            hash_by_name(text.as_bstr()).ok_or_else(|| invalid(text))?;
                            version.only_version_1.push(extension.into());
                        }
                        b"refstorage" => {
                            let text = text()?;
                            let name = text.split_once_str("://").map_or(text.as_slice(), |(name, _)| name);
                            if !matches!(name, b"files" | b"reftable") {
                                return Err(invalid(text));
                            }
                            version.ref_storage = Some(name.into());
                            version.only_version_1.push(extension.into());
                        }
                        _ => version.unknown.push(extension.into()),
                    }
                }
            }
        }
        Ok((version.version >= 0).then_some(version))
    }
}

impl Version {
    fn verify(self) -> Result<(), Error> {
        let list = |one: &str, many: &str, names: &[BString]| {
            let mut message = if names.len() == 1 { one } else { many }.to_owned();
            for name in names {
                message.push_str(&format!("\n\t{name}"));
            }
            Err(Error::new(message))
        };
        if self.version > 1 {
            return Err(Error::new(format!("Expected git repo version <= 1, found {}", self.version)));
        }
        if self.version == 1 && !self.unknown.is_empty() {
            return list(
                "unknown repository extension found:",
                "unknown repository extensions found:",
                &self.unknown,
            );
        }
        if self.version == 0 && !self.only_version_1.is_empty() {
            return list(
                "repo version is 0, but v1-only extension found:",
                "repo version is 0, but v1-only extensions found:",
                &self.only_version_1,
            );
        }
        if let Some(storage) = self.ref_storage.filter(|storage| storage != "files") {
            return Err(Error::new(format!("ref storage format '{storage}' is not supported")));
        }
        Ok(())
    }
}

fn hash_by_name(name: &BStr) -> Option<HashKind> {
    [HashKind::Sha1, HashKind::Sha256].into_iter().find(|kind| name == kind.name())
}

/// A symbolic ref into `refs/`, as link or file, or an object name.
fn has_valid_head(head: &Path) -> bool {
    let Ok(stat) = head.symlink_metadata() else { return false };
    if stat.is_symlink() {
        return head.read_link().is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"refs/"));
    }
    let Ok(Some(bytes)) = disk::read_optional(head) else { return false };
    if let Some(target) = bytes.strip_prefix(b"ref:") {
        return target.trim_start().starts_with(b"refs/");
    }
    let digits = bytes.iter().take_while(|c| c.is_ascii_hexdigit()).count();
    digits >= HashKind::Sha1.hex_len()
}
