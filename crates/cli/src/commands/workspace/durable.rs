//! Bases that are not on the disk yet: a process in the background writes them there, and a command
//! that meets one after a crash builds it again.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use bstr::BString;
use engine::{
    sparse::Patterns,
    workspace::{
        base::{Base, Bases, HARDEN, Kind, Monitor, Owner, Persist, Wanted},
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
    context,
    persist::persist,
};
use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        progress,
    },
};

/// Returns when a new base in this directory becomes durable. Another machine that sees the
/// directory could not know whether this one was started again.
pub(super) fn persist_in(bases: &Bases) -> Persist {
    let there = bases.dir().ancestors().find(|path| matches!(by_path::stat_followed(path), Ok(Some(_))));
    match there.map(by_path::is_remote) {
        Some(Ok(false)) => Persist::Later,
        _ => Persist::Now,
    }
}

/// Starts a process that makes the base of a workspace durable, unless it is, and the record in the
/// directory `state`, which was not synced either. A failure is ignored: the next command that
/// mounts a workspace on the base tries again.
pub(super) fn harden_in_background(base: &Base, state: &Path) {
    let (Some(dir), true) = (base.dir.parent(), base.pending.is_some()) else { return };
    let Ok(program) = context::this_program() else { return };
    let words = ["workspace", HARDEN].map(OsStr::new);
    let args = [words[0], words[1], dir.as_os_str(), base.name.as_ref(), state.as_os_str()];
    let _ = sys::spawn_detached(&program, "sapwood".as_ref(), &args);
}

/// Runs that process: `workspace harden-base <base directory> <name> <state>`.
pub(super) fn harden(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [dir, name, state] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    // At a system shutdown, SIGTERM ends it.
    sys::end_by_signals();
    Bases::at(Path::new(sys::os_str(dir))).get(&name.to_string())?.harden()?;
    let state = Path::new(sys::os_str(state));
    let synced = by_path::open(&state.join("record")).and_then(sys::sync_file);
    let synced = synced.and_then(|()| by_path::sync_dir(state));
    let synced = synced.and_then(|()| state.parent().map_or(Ok(()), by_path::sync_dir));
    // The workspace may have been removed or moved meanwhile.
    if let Err(error) = synced
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let reason = sys::reason(&error);
        return Err(Failure::fatal(format!("cannot sync '{}': {reason}", state.display())));
    }
    let (Some(common), Some(name)) = (state.ancestors().nth(3), state.file_name()) else { return Ok(0) };
    if let Ok(workspace) = record::find(common, name) {
        persist(common, &common.join("worktrees").join(name), &workspace, Fsync::default())?;
    }
    Ok(0)
}

/// Builds the base of an unmounted workspace again if it was not durable when the machine stopped,
/// and its index, if that did not survive either. Reads nothing else if the base is there.
pub(super) fn restore(run: &Invocation, common: &Path, workspace: &Workspace) -> Result<(), Failure> {
    let Some(base) = &workspace.record.base else { return Ok(()) };
    let bases = Bases::at(&base.dir);
    if !bases.has_lost(&base.name)? {
        return Ok(());
    }
    let admin = common.join("worktrees").join(&workspace.name);
    let options = OpenOptions {
        cwd: common.to_owned(),
        git_dir: Some(admin.clone()),
        work_tree: Some(workspace.record.dir.clone()),
        ..run.outside()
    };
    let repo = Repository::open(&options)?;
    let settings = Settings::read(run, &repo)?;
    let patterns = engine::sparse::load(&repo)?.map(|loaded| loaded.patterns);
    let head = repo.head()?.oid();
    let mut trees: Vec<_> = head.map(|oid| repo.tree_of(oid)).transpose()?.into_iter().collect();
    trees.extend(bases.get(&base.name).ok().map(|base| base.tree));
    let commit = head.unwrap_or_else(|| ObjectId::null(repo.hash()));
    let name = workspace.name.as_encoded_bytes();
    let lost = Lost { run, repo: &repo, settings: &settings, base, commit, name };
    let kind = build::kind_of(workspace.record.backend);
    let built = lost.build_again(kind, &trees, patterns.as_ref())?;
    restore_index(&repo, &built, &admin, workspace, &settings)
}

/// Like [`restore`], for a submodule that is mounted inside a workspace.
pub(super) fn restore_submodule(
    run: &Invocation,
    common: &Path,
    workspace: &Workspace,
    inner: &Inner,
) -> Result<(), Failure> {
    if !Bases::at(&inner.base.dir).has_lost(&inner.base.name)? {
        return Ok(());
    }
    let options = OpenOptions { cwd: common.to_owned(), git_dir: Some(common.to_owned()), ..run.outside() };
    let repo = Repository::open(&options)?.open_git_dir(&inner.source)?;
    let settings = Settings::read(run, &repo)?;
    let (base, commit, name) = (&inner.base, inner.commit, inner.path.as_slice());
    let lost = Lost { run, repo: &repo, settings: &settings, base, commit, name };
    let kind = build::kind_of(workspace.record.backend);
    lost.build_again(kind, &[repo.tree_of(commit)?], None).map(drop)
}

/// A base that was lost in a crash, and who needs it.
struct Lost<'a> {
    run: &'a Invocation,
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
    ) -> Result<Base, Failure> {
        for &tree in trees {
            let wanted = Wanted::new(self.repo, tree, kind, Owner::of_process(), patterns)?;
            if wanted.name() != self.base.name {
                continue;
            }
            console::eprint_line(text!(
                "The base of '",
                self.name,
                "' was not on the disk when the machine stopped; it is built again"
            ));
            let bases = Bases::trusted(&self.base.dir, self.repo.trust())?;
            let (persist, visible) = (persist_in(&bases), progress::has_terminal());
            return build_base(
                self.run,
                self.settings,
                self.commit,
                visible,
                persist,
                |options, messages| bases.add(&wanted, options, messages),
            );
        }
        Err(lost(self.name, &self.base.dir.join(&self.base.name)))
    }
}

fn lost(name: &[u8], base: &Path) -> Failure {
    Failure::Fatal(text!(
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
) -> Result<(), Failure> {
    let index = admin.join("index");
    let read = store::index::ReadOptions { verify: true, ..store::index::ReadOptions::default() };
    let is_there = matches!(by_path::stat(&index), Ok(Some(_)));
    if is_there && store::index::load(&index, repo.hash(), &read).is_ok() {
        return Ok(());
    }
    let io = |path: PathBuf| move |error: std::io::Error| Failure::cannot_open(&path)(error);
    for name in by_path::list(admin).map_err(io(admin.to_owned()))?.into_iter().map(|(name, _)| name) {
        if name == "index" || name.as_encoded_bytes().starts_with(b"sharedindex.") {
            let path = admin.join(name);
            by_path::remove_file(&path).map_err(io(path))?;
        }
    }
    let monitor = if workspace.record.backend.has_upper() { Monitor::UpperLayer } else { Monitor::None };
    Ok(base.install_index(repo, admin, &workspace.record.dir, monitor, &settings.fsync)?)
}
