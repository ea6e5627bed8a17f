//! Bases that are not on the disk yet: a process in the background writes them there, and a command
//! that meets one after a crash builds it again.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use engine::{
    sparse::Patterns,
    workspace::{
        base::{self, Base, Bases, HARDEN, Kind, Monitor, Named, Owner, Persist, Wanted},
        inner::Inner,
        record::{self, BaseRef, Workspace},
    },
};
use format::ObjectId;
use repo::{OpenOptions, Repository};
use store::Fsync;
use sys::by_path;

use super::{
    build::{self, build_base},
    persist::persist,
};
use crate::{Error, Events, Notice, settings::Settings, text, worktree::records::Worktrees};

/// Returns when a new base in this directory becomes durable. Without a program for the background
/// it is durable at once. Another machine that sees the directory could not know whether this one
/// was started again.
pub fn persist_in(bases: &Bases, events: &dyn Events) -> Persist {
    if events.program().is_none() {
        return Persist::Now;
    }
    let there = bases.dir().ancestors().find(|path| matches!(by_path::stat_followed(path), Ok(Some(_))));
    match there.map(by_path::is_remote) {
        Some(Ok(false)) => Persist::Later,
        _ => Persist::Now,
    }
}

/// Makes the base of a workspace durable, unless it is, and the record in the directory `state`,
/// which was not synced either: in a process that outlives this one, or at once without a program.
/// A failure is ignored: the next command that mounts a workspace on the base tries again.
pub fn harden_in_background(base: &Base, state: &Path, events: &dyn Events) {
    let (Some(dir), true) = (base.dir.parent(), base.pending.is_some()) else { return };
    match events.program() {
        Some(program) => {
            let words = ["workspace", HARDEN].map(OsStr::new);
            let args = [words[0], words[1], dir.as_os_str(), base.name.as_ref(), state.as_os_str()];
            let _ = sys::spawn_detached(&program, "sapwood".as_ref(), &args);
        }
        None => {
            let _ = harden(dir, &base.name, state);
        }
    }
}

/// Makes the base called `name` durable, and the record of the workspace in the directory `state`.
pub fn harden(dir: &Path, name: &str, state: &Path) -> Result<(), Error> {
    Bases::at(dir).get(name)?.harden()?;
    let synced = by_path::open(&state.join("record")).and_then(sys::sync_file);
    let synced = synced.and_then(|()| by_path::sync_dir(state));
    let synced = synced.and_then(|()| state.parent().map_or(Ok(()), by_path::sync_dir));
    // The workspace may have been removed or moved meanwhile.
    if let Err(error) = synced
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let reason = sys::reason(&error);
        return Err(Error::failed(format!("cannot sync '{}': {reason}", state.display())));
    }
    let (Some(common), Some(name)) = (state.ancestors().nth(3), state.file_name()) else { return Ok(()) };
    // A sealed workspace was durable before its creation was reported.
    if let Ok(workspace) = record::find(common, name)
        && workspace.record.sealed.is_none()
    {
        persist(common, &workspace.git_dir(), &workspace, Fsync::default())?;
    }
    Ok(())
}

/// Builds the base of an unmounted workspace again if it was not durable when the machine stopped,
/// or if it is missing and no other command can make it, and its index, if that did not survive
/// either. Reads nothing else if the base is there.
pub fn restore(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    let Some(base) = &workspace.record.base else { return Ok(()) };
    let bases = Bases::at(&base.dir);
    let is_lost = bases.has_lost(&base.name)?;
    if !is_lost && !is_missing(base) {
        return Ok(());
    }
    if workspace.record.sealed.is_some() {
        return restore_sealed(worktrees, workspace, base);
    }
    let common = &worktrees.common;
    let admin = workspace.git_dir();
    let repo = open_unmounted(worktrees.repo, common, workspace)?;
    let settings = Settings::read(&repo, worktrees.events)?;
    let patterns = engine::sparse::load(&repo)?.map(|loaded| loaded.patterns);
    let head = repo.head()?.oid();
    let mut trees: Vec<_> = head.map(|oid| repo.tree_of(oid)).transpose()?.into_iter().collect();
    trees.extend(bases.get(&base.name).ok().map(|base| base.tree));
    if !is_lost {
        let kind = build::kind_of(workspace.record.backend);
        match commit_of(&repo, kind, base, patterns.as_ref())? {
            // The user makes an ordinary base, which may also be on a disk that is away.
            None | Some((_, Named::Ordinary)) => return Ok(()),
            Some((commit, Named::Special | Named::Difference)) => trees = vec![repo.tree_of(commit)?],
        }
    }
    let commit = head.unwrap_or_else(|| ObjectId::null(repo.hash()));
    let name = workspace.name.as_encoded_bytes();
    let lost = Lost { worktrees, repo: &repo, settings: &settings, base, commit, name };
    let kind = build::kind_of(workspace.record.backend);
    let built = lost.build_again(kind, &trees, patterns.as_ref())?;
    restore_index(&repo, &built, &admin, workspace, &settings)
}

/// Like [`restore`], for a workspace whose Git directory and index are foreign: only its base is
/// built again, from the commit in its record.
fn restore_sealed(worktrees: &Worktrees<'_>, workspace: &Workspace, base: &BaseRef) -> Result<(), Error> {
    let Some(sealed) = &workspace.record.sealed else { return Ok(()) };
    let repo = worktrees.repo;
    let settings = Settings::read(repo, worktrees.events)?;
    let trees = [repo.tree_of(sealed.commit)?];
    let patterns = engine::sparse::load(repo)?.map(|loaded| loaded.patterns);
    let name = workspace.name.as_encoded_bytes();
    let lost = Lost { worktrees, repo, settings: &settings, base, commit: sealed.commit, name };
    let kind = build::kind_of(workspace.record.backend);
    lost.build_again(kind, &trees, patterns.as_ref()).map(drop)
}

/// The number of commits, from HEAD along first parents, that are compared with a missing base.
const COMPARED: usize = 1000;

/// Returns true if a base is missing from a base directory that holds others.
fn is_missing(base: &BaseRef) -> bool {
    matches!(Bases::at(&base.dir).get(&base.name), Err(base::Error::Missing { .. })) && !is_away(&base.dir)
}

/// Returns true if a base directory may be on a disk that is not mounted.
pub fn is_away(dir: &Path) -> bool {
    match by_path::list(dir) {
        // A command may have locked the mount point of a disk that is not mounted.
        Ok(names) => names.iter().all(|(name, _)| name == "lock" || name == "transfers"),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Returns the newest commit, from HEAD along first parents, whose base has the name of `base`, and
/// the form of that base.
pub fn commit_of(
    repo: &Repository,
    kind: Kind,
    base: &BaseRef,
    patterns: Option<&Patterns>,
) -> Result<Option<(ObjectId, Named)>, Error> {
    let mut next = repo.head()?.oid();
    for _ in 0..COMPARED {
        let Some(commit) = next else { break };
        let wanted = Wanted::new(repo, repo.tree_of(commit)?, kind, Owner::of_process(), patterns)?;
        if let Some(form) = wanted.with_time_of(&base.name).form_of(&base.name) {
            return Ok(Some((commit, form)));
        }
        next = repo.parents_if_commit(&commit)?.first().copied();
    }
    Ok(None)
}

/// Opens the worktree of a workspace whose files are not visible.
pub fn open_unmounted(repo: &Repository, common: &Path, workspace: &Workspace) -> Result<Repository, Error> {
    let options = OpenOptions {
        git_dir: Some(common.join("worktrees").join(&workspace.name)),
        work_tree: Some(workspace.record.dir.clone()),
        ..repo.options_at(common)
    };
    Ok(Repository::open(&options)?)
}

/// Like [`restore`], for a submodule that is mounted inside a workspace.
pub fn restore_submodule(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    inner: &Inner,
) -> Result<(), Error> {
    if !Bases::at(&inner.base.dir).has_lost(&inner.base.name)? {
        return Ok(());
    }
    let common = &worktrees.common;
    let options = OpenOptions { git_dir: Some(common.clone()), ..worktrees.repo.options_at(common) };
    let repo = Repository::open(&options)?.open_git_dir(&inner.source)?;
    let settings = Settings::read(&repo, worktrees.events)?;
    let (base, commit, name) = (&inner.base, inner.commit, inner.path.as_slice());
    let lost = Lost { worktrees, repo: &repo, settings: &settings, base, commit, name };
    let kind = build::kind_of(workspace.record.backend);
    lost.build_again(kind, &[repo.tree_of(commit)?], None).map(drop)
}

/// A base that was lost in a crash, and who needs it.
struct Lost<'a> {
    worktrees: &'a Worktrees<'a>,
    repo: &'a Repository,
    settings: &'a Settings,
    base: &'a BaseRef,
    commit: ObjectId,
    name: &'a [u8],
}

impl Lost<'_> {
    /// Builds the base from the tree that it had, which is one of `trees`.
    fn build_again(
        &self,
        kind: Kind,
        trees: &[ObjectId],
        patterns: Option<&Patterns>,
    ) -> Result<Base, Error> {
        for &tree in trees {
            let wanted = Wanted::new(self.repo, tree, kind, Owner::of_process(), patterns)?;
            let wanted = wanted.with_time_of(&self.base.name);
            let Some(form) = wanted.form_of(&self.base.name) else { continue };
            let bases = Bases::trusted(&self.base.dir, self.repo.trust())?;
            let cause = match bases.get(&self.base.name) {
                Err(base::Error::Missing { .. }) => "' is missing",
                Ok(base) if base.lacks_files() => "' has lost its files",
                _ => "' was not on the disk when the machine stopped",
            };
            let notice = Notice::BaseAgain(text!("The base of '", self.name, cause, "; it is built again"));
            self.worktrees.events.notice(notice);
            let (reports, persist) = (self.worktrees.reports(), persist_in(&bases, self.worktrees.events));
            let built = build_base(
                reports,
                self.settings,
                self.commit,
                None,
                persist,
                |options, messages| match form {
                    Named::Difference => bases.add_difference(&wanted, options, messages),
                    Named::Ordinary | Named::Special => bases.add(&wanted, options, messages).map(Some),
                },
            )?;
            // The base below a difference may be gone too.
            return built.ok_or_else(|| lost(self.name, &self.base.dir.join(&self.base.name)));
        }
        Err(lost(self.name, &self.base.dir.join(&self.base.name)))
    }
}

fn lost(name: &[u8], base: &Path) -> Error {
    Error::Failed(text!(
        "the base of '",
        name,
        "' was not on the disk when the machine stopped, and its tree is not that of HEAD, or the settings \
         that decide its files have changed; 'sapwood workspace base add' with that tree's commit and the \
         old settings makes '",
        base.as_os_str().as_encoded_bytes(),
        "' again"
    ))
}

/// Installs the index of a base in a workspace whose own index cannot be read.
fn restore_index(
    repo: &Repository,
    base: &Base,
    admin: &Path,
    workspace: &Workspace,
    settings: &Settings,
) -> Result<(), Error> {
    let index = admin.join("index");
    let read = store::index::ReadOptions { verify: true, ..store::index::ReadOptions::default() };
    let is_there = matches!(by_path::stat(&index), Ok(Some(_)));
    if is_there && store::index::load(&index, repo.hash(), &read).is_ok() {
        return Ok(());
    }
    let io = |path: PathBuf| move |source| Error::CannotOpen { path: path.clone(), source };
    for name in by_path::list(admin).map_err(io(admin.to_owned()))?.into_iter().map(|(name, _)| name) {
        if name == "index" || name.as_encoded_bytes().starts_with(b"sharedindex.") {
            let path = admin.join(name);
            by_path::remove_file(&path).map_err(io(path))?;
        }
    }
    let monitor = if workspace.record.backend.has_upper() { Monitor::UpperLayer } else { Monitor::None };
    Ok(base.install_index(repo, admin, &workspace.record.dir, monitor, &settings.fsync)?)
}
