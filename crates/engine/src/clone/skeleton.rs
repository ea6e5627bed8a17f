//! The skeleton of a new Git directory: template, configuration, an unborn HEAD.
//!
//! Promise: the directory appears whole or not at all. It is assembled under another name beside
//! its path and renamed, so that no process ever finds half a repository. `objects` stays empty;
//! [`super::objects`] later replaces it in one step.
//!
//! Order: template (which may bring a configuration), directories, HEAD, configuration, rename.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use format::config::Edit;
use store::SharedRepository;
use sys::{FileType, by_path};

use repo::keys;

use super::{
    junk::Existed,
    marker::{self, MARKER},
    resume,
    settings::{self, set},
};
use crate::look::shared;

/// The description of the skeleton.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    pub git_dir: &'a Path,
    /// The state of the Git directory: existing and empty, or missing.
    pub existed: Existed,
    /// `None` for a bare repository.
    pub work_tree: Option<&'a Path>,
    /// True if the Git directory lies outside of the worktree, so that `core.worktree` is needed.
    pub name_work_tree: bool,
    pub template: Option<Template<'a>>,
    /// `--config`, in order.
    pub config: &'a [BString],
    /// The current directory, the environment and the settings.
    pub open: &'a repo::OpenOptions,
    pub purpose: Purpose<'a>,
    pub fsync: &'a store::Fsync,
    /// The permissions while the template is copied.
    pub shared: SharedRepository,
}

/// The use of the new Git directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose<'a> {
    /// A clone of this source, which the marker of the unfinished clone names. HEAD names no branch
    /// until refs are written.
    Clone { url: &'a BStr, extent: marker::Extent },
    /// An empty repository, whose HEAD names this branch (full name).
    Init { branch: &'a BStr },
}

/// The template directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template<'a> {
    pub dir: &'a Path,
    /// The path as the user gave it.
    pub given: &'a Path,
    /// Prints messages.
    pub voice: repo::MessageSink,
}

impl Template<'_> {
    /// Returns a path in the template as messages name it.
    fn given(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.dir).map_or_else(|_| path.to_owned(), |rest| self.given.join(rest))
    }
}

/// The result of [`create`].
pub(super) struct Made {
    pub(super) notices: Vec<Notice>,
    /// The marker, for a clone.
    pub(super) claim: Option<marker::Claim>,
    /// The permissions of files created from now on, until `--config` takes effect.
    pub(super) shared: SharedRepository,
}

/// The reason why the skeleton was not created. Messages are Git's, where Git has them.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot copy '{}' to '{}'", .from.display(), .to.display())]
    Template { from: PathBuf, to: PathBuf, source: io::Error },
    #[error("could not open '{}' for writing: Is a directory", .0.display())]
    HeadIsDirectory(PathBuf),
    #[error(transparent)]
    Config(#[from] store::config::Error),
    #[error(transparent)]
    Parameter(#[from] settings::BadParameter),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Shared(#[from] store::BadSharedRepository),
}

impl Error {
    /// Replaces the path of the assembly in this error by the path of the Git directory.
    pub(super) fn placed(self, assembly: &Path, git_dir: &Path) -> Error {
        let place = |path: PathBuf| match path.strip_prefix(assembly) {
            Ok(rest) => git_dir.join(rest),
            Err(_) => path,
        };
        match self {
            Error::Io { what, path, source } => Error::Io { what, path: place(path), source },
            Error::Template { from, to, source } => Error::Template { from, to: place(to), source },
            Error::HeadIsDirectory(path) => Error::HeadIsDirectory(place(path)),
            Error::Config(store::config::Error::Store(store::Error::Locked { path, holder })) => {
                store::config::Error::from(store::Error::Locked { path: place(path), holder }).into()
            }
            other => other,
        }
    }
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// A message of Git about the template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Warning(String),
    Error(String),
}

impl Wanted<'_> {
    /// Returns the path of the assembly directory, on the same file system, with an unused name. An
    /// existing Git directory may be a mount point, so its content is assembled inside it.
    pub(super) fn assembly(&self) -> PathBuf {
        let name = resume::assembly_name();
        match (self.existed, self.git_dir.parent()) {
            (Existed::No, Some(parent)) => parent.join(name),
            _ => self.git_dir.join(name),
        }
    }
}

/// Creates the directory of [`Wanted::assembly`]. It fails if the directory exists, which is then
/// another clone's.
pub(super) fn begin(assembly: &Path) -> Result<(), Error> {
    by_path::create_dir(assembly).map_err(io_error("mkdir", assembly))
}

/// Assembles the skeleton in `assembly`, then moves it to its path.
pub(super) fn create(wanted: &Wanted<'_>, assembly: &Path) -> Result<Made, Error> {
    let (claim, head, dirs): (_, _, &[&str]) = match wanted.purpose {
        Purpose::Clone { url, extent } => {
            let claim = marker::mark(assembly, url, extent).map_err(io_error("mark", assembly))?;
            (Some(claim), BStr::new(resume::UNFINISHED), &["objects"])
        }
        Purpose::Init { branch } => (None, branch, &["objects", "objects/pack", "objects/info"]),
    };
    let Copied { version, notices } = match wanted.template {
        Some(template) => copy_template_directory(template, assembly, wanted.shared)?,
        None => Copied::default(),
    };
    let config = assembly.join("config");
    let outside = repo::StandaloneConfig::with_file(wanted.open, wanted.git_dir, &config)?;
    let shared = shared::of(outside.config_value(&keys::core::SHARED_REPOSITORY))?;
    shared.adjust_dir(assembly).map_err(io_error("set the mode of", assembly))?;
    for name in ["refs", "refs/heads", "refs/tags"].iter().chain(dirs) {
        make_dir(&assembly.join(name), shared)?;
    }
    write_head(&assembly.join("HEAD"), head, shared)?;
    configure(wanted, &config, version, shared)?;
    let made = Made { notices, claim, shared };
    if wanted.existed == Existed::No {
        by_path::rename(assembly, wanted.git_dir).map_err(io_error("create", wanted.git_dir))?;
        return Ok(made);
    }
    shared.adjust_dir(wanted.git_dir).map_err(io_error("set the mode of", wanted.git_dir))?;
    let mut entries = by_path::list(assembly).map_err(io_error("opendir", assembly))?;
    // The marker is moved first: it identifies the other entries if the process is killed.
    entries.sort_by_key(|(name, _)| name != MARKER);
    for (name, _) in entries {
        let place = wanted.git_dir.join(&name);
        by_path::rename(&assembly.join(&name), &place).map_err(io_error("create", &place))?;
    }
    by_path::remove_dir(assembly).map_err(io_error("remove", assembly))?;
    Ok(made)
}

/// Writes the configuration on top of the template's. The template's object format and ref storage
/// do not apply.
fn configure(wanted: &Wanted<'_>, path: &Path, version: i32, shared: SharedRepository) -> Result<(), Error> {
    let assembly = path.parent().unwrap_or(Path::new("/"));
    let locks = store::LockOptions { shared, ..store::LockOptions::default() };
    let version = set(keys::core::REPOSITORY_FORMAT_VERSION.lower(), version.to_string());
    if by_path::read(path).map_err(io_error("read", path))?.is_none() {
        store::config::edit(path, std::slice::from_ref(&version), &locks, wanted.fsync)?;
    }
    let mut edits = vec![
        Edit::Unset { key: keys::extensions::OBJECT_FORMAT.lower().into() },
        Edit::Unset { key: keys::extensions::REF_STORAGE.lower().into() },
        version,
        set(keys::core::FILE_MODE.lower(), if trusts_mode(path)? { "true" } else { "false" }),
        set(keys::core::BARE.name(), if wanted.work_tree.is_none() { "true" } else { "false" }),
    ];
    if let Some(work_tree) = wanted.work_tree {
        let outside = repo::StandaloneConfig::with_file(wanted.open, wanted.git_dir, path)?;
        if outside.config_str(&keys::core::LOG_ALL_REF_UPDATES).is_none() {
            edits.push(set(keys::core::LOG_ALL_REF_UPDATES.lower(), "true"));
        }
        if wanted.name_work_tree {
            let path = by_path::canonical(work_tree).map_err(io_error("resolve", work_tree))?;
            let path = path.as_os_str().as_encoded_bytes();
            edits.push(set(keys::core::WORKTREE.name(), path.as_bstr()));
        }
    }
    if !has_symlinks(assembly)? {
        edits.push(set(keys::core::SYMLINKS.name(), "false"));
    }
    if matches!(by_path::stat(&assembly.join("CoNfIg")), Ok(Some(_))) {
        edits.push(set(keys::core::IGNORE_CASE.lower(), "true"));
    }
    if let Some(value) = shared.value() {
        edits.push(set(keys::core::SHARED_REPOSITORY.lower(), value));
        edits.push(set(keys::receive::DENY_NON_FASTFORWARDS.name(), "true"));
    }
    for parameter in wanted.config {
        edits.push(settings::parameter(parameter.as_bstr())?);
    }
    Ok(store::config::edit(path, &edits, &locks, wanted.fsync)?)
}

/// Returns true if the file system keeps the executable bit.
fn trusts_mode(file: &Path) -> Result<bool, Error> {
    let handle = by_path::open(file).map_err(io_error("open", file))?;
    let before = sys::stat_of(&handle).map_err(io_error("stat", file))?.mode & 0o7777;
    let toggled = sys::set_mode(&handle, before ^ 0o100).is_ok()
        && matches!(sys::stat_of(&handle), Ok(stat) if stat.mode & 0o7777 == before ^ 0o100)
        && sys::set_mode(&handle, before).is_ok();
    Ok(toggled && before & 0o100 == 0)
}

/// Returns true if the file system supports symbolic links. A full or failing disk is an error
/// instead.
fn has_symlinks(directory: &Path) -> Result<bool, Error> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let probe = directory.join("symlink-probe");
    match by_path::symlink(Path::new("testing"), &probe) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), PermissionDenied | Unsupported | InvalidInput) => {
            return Ok(false);
        }
        Err(error) => return Err(io_error("symlink", &probe)(error)),
    }
    let found = by_path::stat(&probe).map_err(io_error("stat", &probe))?;
    by_path::remove_file(&probe).map_err(io_error("unlink", &probe))?;
    Ok(found.is_some_and(|stat| stat.file_type == FileType::Symlink))
}

/// The result of copying a template.
#[derive(Default)]
struct Copied {
    /// Its repository format version.
    version: i32,
    notices: Vec<Notice>,
}

/// Copies the template, if there is one and its format is supported.
fn copy_template_directory(
    template: Template<'_>,
    to: &Path,
    shared: SharedRepository,
) -> Result<Copied, Error> {
    let refused = |why| Ok(Copied { version: 0, notices: vec![Notice::Warning(why)] });
    match by_path::stat_followed(template.dir) {
        Ok(Some(stat)) if stat.file_type == FileType::Directory => {}
        _ => return refused(format!("templates not found in {}", template.given.display())),
    }
    let config = template.dir.join("config");
    let format = repo::template_format(&config, &template.given(&config), template.voice)?;
    if let Some(why) = format.refusal {
        return refused(format!("not copying templates from '{}': {why}", template.given.display()));
    }
    let ignored = copy_template(template.dir, to, shared).map_err(|error| match error {
        Error::Template { from, to, source } => Error::Template { from: template.given(&from), to, source },
        other => other,
    })?;
    let notice = |path| Notice::Error(format!("ignoring template {}", template.given(path).display()));
    let notices = ignored.iter().map(|path| notice(path)).collect();
    Ok(Copied { version: format.version, notices })
}

/// Writes HEAD, which names `branch`. It replaces the template's HEAD, which a clone cannot use.
fn write_head(path: &Path, branch: &BStr, shared: SharedRepository) -> Result<(), Error> {
    match by_path::stat(path).map_err(io_error("stat", path))? {
        None => {}
        Some(stat) if stat.file_type == FileType::Directory => {
            return Err(Error::HeadIsDirectory(path.to_owned()));
        }
        Some(_) => by_path::remove_file(path).map_err(io_error("unlink", path))?,
    }
    write(path, &[b"ref: ", branch.as_bytes(), b"\n"].concat(), shared)
}

/// Copies entries of `from` that `to` lacks. Skips names that begin with a dot, and copies links as
/// links. Returns the special files, which are not copied.
fn copy_template(from: &Path, to: &Path, shared: SharedRepository) -> Result<Vec<PathBuf>, Error> {
    let mut ignored = Vec::new();
    make_dir(to, shared)?;
    for (name, file_type) in by_path::list(from).map_err(io_error("opendir", from))? {
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let (source, target) = (from.join(&name), to.join(&name));
        let exists = by_path::stat(&target).map_err(io_error("stat", &target))?.is_some();
        let failed = |error| Error::Template { from: source.clone(), to: target.clone(), source: error };
        match file_type {
            FileType::Directory => ignored.extend(copy_template(&source, &target, shared)?),
            _ if exists => {}
            FileType::Symlink => {
                if let Some(link) = by_path::read_link(&source).map_err(failed)? {
                    by_path::symlink(&link, &target).map_err(failed)?;
                }
            }
            FileType::File => copy_file(&source, &target, shared).map_err(failed)?,
            FileType::Other => ignored.push(source),
        }
    }
    Ok(ignored)
}

fn copy_file(from: &Path, to: &Path, shared: SharedRepository) -> io::Result<()> {
    let source = by_path::open(from)?;
    let executable = sys::stat_of(&source)?.mode & 0o111 != 0;
    let target = shared.create_new(to, if executable { 0o777 } else { 0o666 })?;
    sys::copy(&source, &target)?;
    sys::close(target)
}

/// Creates a directory, unless it exists.
fn make_dir(path: &Path, shared: SharedRepository) -> Result<(), Error> {
    match shared.create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error("mkdir", path)(error)),
        _ => Ok(()),
    }
}

fn write(path: &Path, content: &[u8], shared: SharedRepository) -> Result<(), Error> {
    let mut file = shared.create_new(path, 0o666).map_err(io_error("create", path))?;
    io::Write::write_all(&mut file, content).and_then(|()| sys::close(file)).map_err(io_error("write", path))
}
