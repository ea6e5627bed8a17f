//! The links between a submodule's worktree and its repository: the file `.git` in the worktree,
//! and `core.worktree` in the repository's configuration. Each is replaced as a whole, and only if
//! it is wrong.

use std::{
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::config::Edit;
use repo::{
    Repository,
    keys::{self, Key},
};
use sys::by_path;

use crate::{Error, Events, context::Context, notice::Notice, settings::Settings, text};

const WORKTREE: Key<Option<BString>> = keys::core::WORKTREE;

/// The temporary file that becomes `.git`. It is in the submodule's repository, so that a kill
/// leaves nothing in the new worktree. Only the process with the superproject's index lock writes
/// it.
const SCRAP: &str = "sapwood-gitfile";

/// Returns the directory for the repository of the submodule `name`. Refuses a directory within
/// another repository, such as `a/b` within `a`.
pub fn place(repo: &Repository, events: &dyn Events, name: &BStr) -> Result<PathBuf, Error> {
    for slash in name.find_iter("/").filter(|&slash| slash > 0) {
        let outer = &name[..slash];
        if repo.is_git_directory(&below(repo, outer)) {
            return Err(refused(repo, events, name, outer));
        }
    }
    Ok(below(repo, name))
}

/// Refuses the submodule `name` if its repository is within that of another one of `names`, or
/// around it. Their repositories may not exist yet, so [`place`] does not find them.
pub fn refuse_nested(
    repo: &Repository,
    events: &dyn Events,
    name: &BStr,
    names: &[BString],
) -> Result<(), Error> {
    let is_within =
        |inner: &[u8], outer: &[u8]| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(b"/"));
    for other in names {
        if is_within(name, other) {
            return Err(refused(repo, events, name, other));
        }
        if is_within(other, name) {
            return Err(refused(repo, events, other, name));
        }
    }
    Ok(())
}

/// Returns the directory for the repository of the submodule `name`. A name is always relative,
/// even if it begins with a slash.
fn below(repo: &Repository, name: &[u8]) -> PathBuf {
    let mut path = repo.git_dir().join("modules/").into_os_string();
    path.push(sys::os_str(name));
    PathBuf::from(path)
}

/// Reports that the submodule `name` is within the submodule `outer`, and returns the error.
fn refused(repo: &Repository, events: &dyn Events, name: &[u8], outer: &[u8]) -> Error {
    let (place, outer) = (below(repo, name), below(repo, outer));
    let (place, outer) = (place.display(), outer.display());
    let inner = format!("submodule git dir '{place}' is inside git dir '{outer}'");
    events.notice(Notice::SubmoduleError(inner.into()));
    events.notice(Notice::SubmodulePathConfig);
    Error::Failed(format!("refusing to create/use '{place}' in another submodule's  git dir.").into())
}

/// Makes `work_tree`, which exists, and `git_dir` refer to each other.
pub fn connect(work_tree: &Path, git_dir: &Path, settings: &Settings) -> Result<(), Error> {
    let real = |path: &Path| {
        by_path::canonical(path).map_err(|error| {
            Error::Failed(format!("Invalid path '{}': {}", path.display(), sys::reason(&error)).into())
        })
    };
    let (work_tree, git_dir) = (real(work_tree)?, real(git_dir)?);
    let bytes = |path: PathBuf| BString::from(path.into_os_string().as_bytes());
    let line = text!("gitdir: ", bytes(engine::worktree::admin::relative(&git_dir, &work_tree)), "\n");
    let gitfile = work_tree.join(".git");
    let failed = |error: io::Error| {
        Error::Failed(format!("could not write to '{}': {}", gitfile.display(), sys::reason(&error)).into())
    };
    if by_path::read(&gitfile).map_err(failed)?.is_none_or(|found| found != *line) {
        match publish(line.as_bstr(), &git_dir.join(SCRAP), &gitfile) {
            // The repository is on another file system.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let mut lock = store::Lock::take(&gitfile, &settings.locks)?;
                lock.write(&line)?;
                lock.commit()?;
            }
            done => done.map_err(failed)?,
        }
    }
    let config = git_dir.join("config");
    let value = bytes(engine::worktree::admin::relative(&work_tree, &git_dir));
    if repo::setting_of(&config, &WORKTREE).is_none_or(|found| !found.is(value.as_bstr())) {
        let edit = Edit::Set { key: WORKTREE.name().into(), value };
        store::config::edit(&config, &[edit], &settings.config_locks, &settings.fsync)?;
    }
    Ok(())
}

/// Points `git_dir` to the worktree, if it names a different one.
pub fn renew_worktree(work_tree: &Path, git_dir: &Path, settings: &Settings) -> Result<(), Error> {
    let config = git_dir.join("config");
    let Some(found) = repo::setting_of(&config, &WORKTREE) else { return Ok(()) };
    let relative = engine::worktree::admin::relative(work_tree, git_dir);
    let value = BString::from(relative.into_os_string().as_bytes());
    if !found.is(value.as_bstr()) {
        let edit = Edit::Set { key: WORKTREE.name().into(), value };
        store::config::edit(&config, &[edit], &settings.config_locks, &settings.fsync)?;
    }
    Ok(())
}

/// Replaces the content of `gitfile` by `line` through the temporary file `scrap`.
fn publish(line: &BStr, scrap: &Path, gitfile: &Path) -> io::Result<()> {
    match by_path::remove_file(scrap) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = by_path::create_new(scrap, 0o666)?;
    let written = file.write_all(line);
    let closed = sys::close(file);
    let done = written.and(closed).and_then(|()| by_path::rename(scrap, gitfile));
    if done.is_err() {
        // The first error is the one to report.
        let _ = by_path::remove_file(scrap);
    }
    done
}

/// Removes `core.worktree` from `git_dir`.
pub(super) fn disconnect(context: Context<'_>, git_dir: &Path, path: &BStr) {
    let settings = context.settings;
    let edit = Edit::Unset { key: WORKTREE.name().into() };
    let done = store::config::edit(&git_dir.join("config"), &[edit], &settings.config_locks, &settings.fsync);
    if done.is_err() {
        let warning = text!("Could not unset core.worktree setting in submodule '", path, "'");
        context.events.notice(Notice::Submodule(warning));
    }
}
