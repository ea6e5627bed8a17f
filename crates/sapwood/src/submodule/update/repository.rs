//! The repository of a submodule: cloned into `modules` of the superproject, or found there, and
//! connected with the worktree.
//!
//! An existing repository is used unchanged. A failed clone leaves no files.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice as _};
use engine::files::whole;
use format::config::Edit;
use sys::by_path;

use super::{Request, alternates};
use crate::{Error, submodule::Superproject, submodules::connect, text};

/// A submodule without a worktree.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: BString,
    /// Its path.
    pub path: BString,
    /// The address of its repository.
    pub url: BString,
    /// The number of commits to take: that of the request, or the one that `.gitmodules`
    /// recommends.
    pub depth: Option<u32>,
}

/// The work before the worktree can be connected.
#[derive(Clone, Debug)]
pub enum Step {
    /// The repository comes from elsewhere.
    Clone(NewRepository),
    /// The repository exists.
    Connect,
}

/// A clone without a checkout.
#[derive(Clone, Debug)]
pub struct NewRepository {
    /// The repository.
    pub git_dir: PathBuf,
    /// The worktree.
    pub dir: PathBuf,
    /// The repositories whose objects are borrowed.
    pub references: Vec<BString>,
}

/// Checks the place of a submodule, and makes the directories above it. Adds its name to `names`,
/// those of submodules whose clones may run at the same time.
pub fn prepare(
    superproject: &Superproject<'_>,
    request: &Request,
    wanted: &Wanted,
    names: &mut Vec<BString>,
) -> Result<Step, Error> {
    let path = wanted.path.as_bstr();
    superproject.submodules.validate(path)?;
    let dir = superproject.dir(path);
    let context = superproject.context();
    connect::refuse_nested(superproject.repo, context.events, wanted.name.as_bstr(), names)?;
    let git_dir = connect::place(superproject.repo, context.events, wanted.name.as_bstr())?;
    if !names.contains(&wanted.name) {
        names.push(wanted.name.clone());
    }
    if request.require_init && !is_empty(&dir) {
        return Err(not_empty(&dir));
    }
    let shared = superproject.settings.locks.shared;
    let make_parents = |path: &Path| {
        let made = path.parent().map_or(Ok(()), |parent| shared.create_dir_all(parent));
        made.map_err(cannot_create(path))
    };
    if exists(&git_dir) {
        make_parents(&dir)?;
        // The old index described a worktree that no longer exists.
        let _ = by_path::remove_file(&git_dir.join("index"));
        return Ok(Step::Connect);
    }
    make_parents(&git_dir)?;
    let mut references = request.references.clone();
    references.extend(alternates::of_superproject(superproject, wanted.name.as_bstr())?);
    Ok(Step::Clone(NewRepository { git_dir, dir, references }))
}

/// Connects the repository, which exists now, with the worktree.
pub fn finish(superproject: &Superproject<'_>, request: &Request, wanted: &Wanted) -> Result<(), Error> {
    let dir = superproject.dir(wanted.path.as_bstr());
    if request.require_init && !has_only_dot_git(&dir) {
        // A parallel clone has connected the two; undo that, so that nothing uses the repository.
        let _ = whole::remove_gitfile(&dir);
        return Err(not_empty(&dir));
    }
    let (settings, events) = (superproject.settings, superproject.context().events);
    let git_dir = connect::place(superproject.repo, events, wanted.name.as_bstr())
        .inspect_err(|_| disable(superproject, wanted))?;
    if !exists(&dir) {
        settings.locks.shared.create_dir_all(&dir).map_err(cannot_create(&dir))?;
    }
    connect::connect(&dir, &git_dir, settings)?;
    let edits: Vec<Edit> = alternates::inherited(superproject.repo)
        .map(|(key, value)| Edit::Set { key: key.into(), value })
        .collect();
    if !edits.is_empty() {
        store::config::edit(&git_dir.join("config"), &edits, &settings.config_locks, &settings.fsync)?;
    }
    Ok(())
}

impl Wanted {
    /// Returns the error of a clone that failed.
    pub fn failed(&self, superproject: &Superproject<'_>) -> Error {
        let dir = superproject.dir(self.path.as_bstr());
        let dir = dir.as_os_str().as_encoded_bytes();
        Error::Failed(text!("clone of '", self.url, "' into submodule path '", dir, "' failed"))
    }
}

/// Disables a repository that now lies within another one.
fn disable(superproject: &Superproject<'_>, wanted: &Wanted) {
    let head = text!("modules/", wanted.name, "/HEAD");
    let _ = by_path::remove_file(&superproject.repo.git_dir().join(sys::os_str(&head)));
}

fn exists(path: &Path) -> bool {
    matches!(by_path::stat_followed(path), Ok(Some(_)))
}

/// Returns true for a directory that is empty or missing.
fn is_empty(dir: &Path) -> bool {
    !exists(dir) || by_path::list(dir).is_ok_and(|names| names.is_empty())
}

fn has_only_dot_git(dir: &Path) -> bool {
    is_empty(dir) || by_path::list(dir).is_ok_and(|names| names.iter().all(|(name, _)| name == ".git"))
}

fn not_empty(dir: &Path) -> Error {
    Error::Failed(text!("directory not empty: '", dir.as_os_str().as_encoded_bytes(), "'"))
}

fn cannot_create(dir: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| {
        let reason = sys::reason(&error);
        Error::failed(format!("could not create directory '{}': {reason}", dir.display()))
    }
}
