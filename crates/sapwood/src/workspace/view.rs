//! The unsaved work of a sealed workspace, found without obeying it.
//!
//! A status needs a Git directory. That of the workspace is foreign, so a view of the workspace is
//! made for one status: HEAD is its commit, which the repository has, the index has the stat data
//! of the base, and configuration and objects are the repository's. The filters that it configures
//! do not run, because the attributes in the files are foreign too: a file that needs one counts as
//! changed. A submodule in them is foreign too, and is never opened: only an empty directory is
//! unchanged.

use std::{collections::HashSet, io::ErrorKind, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    diff,
    landing::{self, Tip},
    pathspec::Pathspecs,
    sparse,
    workspace::{
        backend::Mounted,
        base::{Bases, Monitor},
        record::{Activity, Landed, Workspace},
    },
    worktree::{
        admin,
        changes::{self, Untracked},
    },
};
use format::{
    ObjectId,
    index::{Flags, Index},
};
use repo::{OpenOptions, Repository, submodule::Ignore};
use store::{
    Fsync,
    index::{self, ReadOptions},
};
use sys::{Dir, Stat, by_path};

use super::{
    class::OPERATIONS,
    land, mounts, remove,
    seal::{self, Remains},
};
use crate::{
    Error,
    read_tree::{self, ReadTree},
    settings::Settings,
    sparse_index, text,
    worktree::{records::Worktrees, remove::hides_untracked},
};

/// Returns an error if a removal of a sealed workspace would lose objects that no ref of the
/// repository reaches, or changes. Returns what it has read first, so that a later change is found.
pub(super) fn refuse_unsaved(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
) -> Result<Option<State>, Error> {
    if matches!(workspace.record.activity, Activity::Begun(_)) {
        return match seal::remains(worktrees, workspace) {
            Remains::Nothing => Ok(None),
            Remains::Work => Err(interrupted(workspace)),
        };
    }
    let name = workspace.name.as_encoded_bytes();
    let unknown = |error: Error| remove::unknown_changes(name, Some(error));
    let state = State::read(worktrees, workspace).map_err(|error| unknown(error.into()))?;
    if let Some(cause) = &state.unfinished {
        return Err(refused(workspace, cause));
    }
    refuse_lost(worktrees, workspace, &state)?;
    mounts::mount(worktrees, workspace)?;
    if mounts::state(workspace)? != Mounted::Here {
        return Err(remove::unknown_changes(name, None));
    }
    let cause = match state.tip.commit {
        Some(commit) => View::make(worktrees, workspace, commit)?.changes().map_err(unknown)?,
        None => (!remove::is_empty(workspace)).then(|| CHANGED.into()),
    };
    if let Some(cause) = cause {
        return Err(refused(workspace, &cause));
    }
    if has_staged_changes(worktrees, workspace, state.tip.commit).map_err(unknown)? {
        return Err(refused(workspace, &"has staged changes".into()));
    }
    Ok(Some(state))
}

/// The work that the Git directory of a sealed workspace holds.
#[derive(PartialEq, Eq)]
pub(super) struct State {
    tip: Tip,
    refs: Vec<(BString, ObjectId)>,
    /// The cause of a refusal because of something that was begun.
    unfinished: Option<BString>,
    index: Option<Stat>,
}

impl State {
    pub(super) fn read(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<State, landing::Error> {
        // Branches that are checked out elsewhere, and submodules that are not checked out.
        const OTHERS: [(&str, &str); 2] =
            [("worktrees", "has a worktree of its own"), ("modules", "has the repository of a submodule")];
        let git = land::open_foreign(workspace)?;
        let hash = worktrees.repo.hash();
        let operations =
            OPERATIONS.iter().map(|(name, what)| (name, text!("has ", what, " that is not concluded")));
        let others = OTHERS.iter().map(|(name, what)| (name, BString::from(*what)));
        let mut unfinished = None;
        let stat_of = |name: &str| {
            let unreadable = |source| landing::Error::Unreadable { path: name.into(), source };
            git.stat(name.as_bytes()).map_err(unreadable)
        };
        for (name, cause) in operations.chain(others) {
            unfinished = unfinished.or(stat_of(name)?.map(|_| cause));
        }
        let (tip, refs) = (landing::tip(&git, hash)?, landing::all(&git, hash)?);
        Ok(State { tip, refs, unfinished, index: stat_of("index")? })
    }
}

/// Returns an error if no ref of the repository reaches HEAD or a ref of the workspace.
fn refuse_lost(worktrees: &Worktrees<'_>, workspace: &Workspace, state: &State) -> Result<(), Error> {
    let objects = worktrees.repo.stored_objects();
    let landed = landed(worktrees, workspace)?;
    let head = state.tip.commit.map(|oid| (BString::from("HEAD"), oid));
    let is_tip = |oid: &ObjectId| landed.is_some_and(|landed| landed.tip == *oid);
    let all = || head.iter().chain(&state.refs).filter(|(_, oid)| !is_tip(oid));
    if let Some((shown, _)) = all().find(|(_, oid)| !objects.contains(oid)) {
        return Err(not_landed(workspace, shown));
    }
    let mut lost = remove::unreachable(worktrees.repo, &all().map(|(_, oid)| *oid).collect())?;
    if let Some(landed) = landed.filter(|landed| objects.contains(&landed.tip)) {
        lost = &lost - &worktrees.repo.reachable_tips(&[landed.tip], &lost)?;
    }
    match all().find(|(_, oid)| lost.contains(oid)) {
        Some((shown, _)) => Err(not_landed(workspace, shown)),
        None => Ok(()),
    }
}

/// Returns the last landing by a rebase, if a ref of the repository still reaches its result.
fn landed(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<Option<Landed>, Error> {
    let landed = workspace.record.sealed.as_ref().and_then(|sealed| sealed.landed);
    let Some(landed) = landed.filter(|landed| worktrees.repo.stored_objects().contains(&landed.new)) else {
        return Ok(None);
    };
    let is_reached = remove::unreachable(worktrees.repo, &HashSet::from([landed.new]))?.is_empty();
    Ok(is_reached.then_some(landed))
}

/// Returns true if the index of the workspace differs from the commit. An unborn branch begins with
/// the base.
fn has_staged_changes(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    commit: Option<ObjectId>,
) -> Result<bool, Error> {
    let (repo, top) = (worktrees.repo, &workspace.record.dir);
    let tree = match (commit, &workspace.record.base) {
        (Some(commit), _) => Some(repo.tree_of(commit)?),
        (None, Some(base)) => Some(Bases::at(&base.dir).get(&base.name)?.tree),
        (None, None) => None,
    };
    let copy = Private::make(workspace.state.join("staged"))?;
    if !landing::copy_index(&land::open_foreign(workspace)?, repo.hash(), &copy.0)? {
        return Ok(false);
    }
    let read = ReadOptions { verify: true, ..ReadOptions::default() };
    let index = index::load(&copy.0.join("index"), repo.hash(), &read)?;
    // Its file may be ignored.
    if index.has_any(Flags::INTENT_TO_ADD) {
        return Ok(true);
    }
    let root = Dir::open(top).map_err(|source| Error::CannotOpen { path: top.clone(), source })?;
    let all = Pathspecs::default();
    // A collapsed directory is compared as a whole: it must not be expanded by foreign entries.
    Ok(!diff::staged(repo, &root, &index, tree, &all, Some(Ignore::Dirty), None)?.is_empty())
}

/// A directory that only this process uses. It is removed when it is dropped.
struct Private(PathBuf);

impl Private {
    fn make(dir: PathBuf) -> Result<Private, Error> {
        match by_path::remove_dir_all(&dir) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::CannotOpen { path: dir, source });
            }
            _ => {}
        }
        match by_path::create_private_dir(&dir) {
            Ok(()) => Ok(Private(dir)),
            Err(source) => Err(Error::CannotOpen { path: dir, source }),
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = by_path::remove_dir_all(&self.0);
    }
}

/// The cause of a refusal because of files.
const CHANGED: &str = "contains modified or untracked files";

fn refused(workspace: &Workspace, cause: &BString) -> Error {
    let name = workspace.name.as_encoded_bytes();
    Error::failed(text!("'", name, "' ", cause, ", use --force to delete it"))
}

fn interrupted(workspace: &Workspace) -> Error {
    let name = workspace.name.as_encoded_bytes();
    let advice = "complete it: sapwood workspace gc".to_owned();
    let message =
        text!("the creation of '", name, "' was interrupted, and it holds files, use --force to delete it");
    Error::Advised { message, advice }
}

fn not_landed(workspace: &Workspace, shown: &BString) -> Error {
    let name = workspace.name.as_encoded_bytes();
    // A landing brings only branches.
    if shown != "HEAD" && !shown.starts_with(b"refs/heads/") {
        let cause = text!("has an object at ", shown, " that no ref of the repository contains");
        return refused(workspace, &cause);
    }
    let advice = text!("land it: sapwood workspace land ", name).to_str_lossy().into_owned();
    let message = text!(
        "'",
        name,
        "' has commits at ",
        shown,
        " that no branch of the repository contains, use --force to lose them"
    );
    Error::Advised { message, advice }
}

/// A Git directory that describes the files of a sealed workspace.
struct View<'a> {
    worktrees: &'a Worktrees<'a>,
    dir: Private,
    workspace: &'a Workspace,
    commit: ObjectId,
    /// The sparse patterns, if there are any.
    patterns: Option<Vec<u8>>,
}

impl<'a> View<'a> {
    fn make(
        worktrees: &'a Worktrees<'a>,
        workspace: &'a Workspace,
        commit: ObjectId,
    ) -> Result<View<'a>, Error> {
        let dir = Private::make(workspace.state.join("view"))?;
        let patterns = landing::sparse_patterns(&land::open_foreign(workspace)?)?;
        let view = View { worktrees, dir, workspace, commit, patterns };
        if let Some(patterns) = &view.patterns {
            let info = view.dir.0.join("info");
            by_path::create_dir(&info).map_err(|source| Error::CannotOpen { path: info.clone(), source })?;
            admin::write(&info.join("sparse-checkout"), patterns)?;
        }
        admin::write(&view.dir.0.join("HEAD"), commit.to_string().as_bytes())?;
        admin::write(&view.dir.0.join("commondir"), worktrees.common.as_os_str().as_encoded_bytes())?;
        Ok(view)
    }

    /// Returns what the files hold that the commit does not; `None` if that is nothing.
    fn changes(&self) -> Result<Option<BString>, Error> {
        let repo = self.open()?;
        let settings = Settings::read(&repo, self.worktrees.events)?;
        let top = &self.workspace.record.dir;
        if let Some(base) = &self.workspace.record.base {
            let fsync = Fsync { disabled: true, ..settings.fsync };
            let base = Bases::at(&base.dir).get(&base.name)?;
            base.install_index(&repo, &self.dir.0, top, Monitor::None, &fsync)?;
        }
        let request = read_tree::Request {
            merge: self.workspace.record.base.is_some(),
            index_only: true,
            recurse: Some(false),
            ..read_tree::Request::default()
        };
        let read = ReadTree::start(self.worktrees.context(&repo, &settings), request)?;
        read.run(vec![repo.tree_of(self.commit)?])?;
        let root = Dir::open(top).map_err(|source| Error::CannotOpen { path: top.clone(), source })?;
        let mut index = index::load(&repo.index_path(), repo.hash(), &ReadOptions::default())?;
        sparse_index::expand(&repo, &mut index)?;
        sparse::clear_present(&root, &mut index)?;
        let untracked = if hides_untracked(&repo) { Untracked::Hidden } else { Untracked::Counts };
        // Unlike a status, it opens no untracked repository.
        if changes::any(&repo, &root, &index, Some(self.commit), untracked, Ignore::All)? {
            return Ok(Some(CHANGED.into()));
        }
        let used = used_submodule(&root, &index);
        Ok(used.map(|path| text!("contains files in the submodule '", path, "'")))
    }

    fn open(&self) -> Result<Repository, Error> {
        let repo = self.worktrees.repo;
        let mut options = OpenOptions {
            git_dir: Some(self.dir.0.clone()),
            work_tree: Some(self.workspace.record.dir.clone()),
            ..repo.options_at(&self.worktrees.common)
        };
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
            options.env.remove(std::ffi::OsStr::new(name));
        }
        let is_sparse = self.patterns.is_some();
        options.config.extend([
            "core.fsmonitor=false".into(),
            "core.untrackedCache=false".into(),
            "core.hooksPath=".into(),
            "core.bare=false".into(),
            format!("core.sparseCheckout={is_sparse}").into(),
            format!("core.sparseCheckoutCone={is_sparse}").into(),
        ]);
        let ends = [&b".clean"[..], b".smudge", b".process"];
        let names: Vec<BString> = repo.config_names().map(|name| name.to_owned()).collect();
        for name in names.into_iter().filter(|name| name.starts_with(b"filter.")) {
            if ends.iter().any(|end| name.ends_with(end)) {
                options.config.push(text!(name, "="));
            } else if name.ends_with(b".required") {
                options.config.push(text!(name, "=false"));
            }
        }
        Ok(Repository::open(&options)?)
    }
}

/// Returns a submodule whose directory is not empty, or is something else. A removal of its
/// directory loses nothing.
fn used_submodule(top: &Dir, index: &Index) -> Option<BString> {
    let is_unused = |path: &BStr| match top.open_dir(path) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(dir) => dir.is_empty().unwrap_or(false),
    };
    index.gitlinks().map(|at| index.path_at(at)).find(|path| !is_unused(path)).map(BStr::to_owned)
}
