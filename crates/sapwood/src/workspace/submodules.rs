//! Submodules of a new workspace, and their mounts.
//!
//! The repository of each is made below the administrative directory of the workspace, where
//! `git submodule update` makes it in a worktree. It has no objects of its own: the repository of
//! the main worktree's submodule is its alternate, as with `git submodule update --reference`. The
//! files are an overlay on a base of their own, mounted inside the workspace, and the overlay is
//! adopted, so that a status of the submodule looks only at changes. Whatever cannot be filled in
//! this way (a submodule that the main worktree never had, another update strategy, another
//! backend) is left to an update of the submodules, which the caller runs in the workspace.

use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::workspace::{
    backend::{self, Backend, Busy},
    base::{Base, Bases, Monitor, Owner, Wanted},
    inner::Inner,
    record::{BaseRef, Workspace},
    union::Union,
};
use format::{ObjectId, index::Stage, quote};
use repo::{
    Repository, keys,
    submodule::{Module, Modules},
};
use sys::{FileType, by_path};

use super::{
    build, durable,
    inner::mount_on,
    monitor::{Remote, monitor_settings},
};
use crate::{
    Context, Error,
    settings::Settings,
    submodules::connect,
    text,
    worktree::records::{Worktrees, open_worktree},
};

/// A workspace whose submodules are filled.
pub struct Fill<'a> {
    /// The repository. Its events name the program of the monitors.
    pub worktrees: &'a Worktrees<'a>,
    /// Its settings.
    pub settings: &'a Settings,
    /// The workspace, which is mounted.
    pub workspace: &'a Workspace,
    /// The directory of bases.
    pub bases: &'a Bases,
    /// Passed to [`crate::Events::adding_base`].
    pub progress: Option<bool>,
}

/// A repository whose submodules are filled.
struct Level<'a> {
    /// The repository with its worktree in the workspace.
    repo: &'a Repository,
    /// The directory of the repositories of the main worktree's submodules.
    sources: PathBuf,
    /// The path of the worktree in the workspace, with a slash at the end unless it is the top.
    prefix: BString,
}

impl Level<'_> {
    /// Returns true if a checkout fills the submodule: it is active, and has no other way of
    /// updates. A submodule that was never initialized counts as inactive here.
    fn is_checked_out(&self, module: &Module) -> Result<bool, Error> {
        let name = module.name.to_str_lossy();
        let update =
            self.repo.config_str(&keys::submodule::ONE_UPDATE.of(&name)).or_else(|| module.update.clone());
        if update.is_some_and(|update| update != "checkout") {
            return Ok(false);
        }
        let is_selected = || self.repo.config_all(&keys::submodule::ACTIVE).is_empty();
        let is_initialized = || self.repo.config_str(&keys::submodule::ONE_URL.of(&name)).is_some();
        let active = self.repo.config(&keys::submodule::ONE_ACTIVE.of(&name))?;
        Ok(active.unwrap_or_else(|| is_selected() && is_initialized()))
    }
}

impl Fill<'_> {
    /// Fills the submodules that the main worktree has.
    pub fn run(&self) -> Result<(), Error> {
        let repo = self.worktrees.repo;
        let is_here = matches!(self.workspace.record.backend, Backend::Image | Backend::Overlay);
        if is_here && let Some(worktree) = self.workspace.linked_worktree(repo) {
            let repo = open_worktree(repo, &worktree)?;
            let level = Level {
                repo: &repo,
                sources: repo.real_common_dir().join("modules"),
                prefix: BString::default(),
            };
            self.level(&level)?;
        }
        Ok(())
    }

    fn level(&self, level: &Level<'_>) -> Result<(), Error> {
        let Some(top) = level.repo.work_tree() else { return Ok(()) };
        let file = top.join(".gitmodules");
        // Git follows no link here.
        let stat = by_path::stat(&file).map_err(cannot_open(&file))?;
        if stat.is_none_or(|stat| stat.file_type != FileType::File) {
            return Ok(());
        }
        let content = by_path::read(&file).map_err(cannot_open(&file))?.unwrap_or_default();
        let modules = Modules::parse(&content, ".gitmodules")?;
        let read = store::index::ReadOptions::default();
        let index = store::index::load(&level.repo.index_path(), level.repo.hash(), &read)
            .map_err(|error| Error::failed(error.to_string()))?;
        for at in (0..index.len()).filter(|&at| index.mode_at(at).is_gitlink()) {
            let (path, entry) = (index.path_at(at), index.entry(at));
            let Some(module) = modules.at(path).filter(|_| entry.stage == Stage::Normal) else { continue };
            if level.is_checked_out(module)? {
                self.submodule(level, path, module.name.as_bstr(), entry.oid)?;
            }
        }
        Ok(())
    }

    /// Fills one submodule, and those inside it, if the main worktree's submodule has its commit.
    fn submodule(&self, level: &Level<'_>, path: &BStr, name: &BStr, oid: ObjectId) -> Result<(), Error> {
        let source = level.sources.join(sys::os_str(name));
        if !level.repo.is_git_directory(&source) {
            return Ok(());
        }
        let objects = level.repo.open_git_dir(&source)?;
        let target = connect::place(level.repo, self.worktrees.events, name)?;
        let is_used = matches!(by_path::stat(&target), Ok(Some(_)));
        if is_used || !objects.objects().contains(&oid) {
            return Ok(());
        }
        let Ok(tree) = objects.tree_of(oid) else { return Ok(()) };
        let base = self.base(&objects, tree, oid)?;
        let _held = base.hold()?;
        let dir = base.dir.parent().unwrap_or(Path::new("/")).to_owned();
        let inner = Inner {
            path: [level.prefix.as_slice(), path].concat().into(),
            base: BaseRef { dir, name: base.name.clone() },
            commit: oid,
            source: source.clone(),
            dir: PathBuf::new(),
        };
        if !inner.has_place(self.workspace) {
            return Ok(());
        }
        let inner = inner.add(self.workspace, &self.settings.fsync)?;
        let made = make_repository(&target, &source, &objects, oid)
            .and_then(|()| self.attach(&inner, base, &target));
        if let Err(failure) = made {
            let _ =
                backend::unmount(self.workspace.record.backend, &inner.site(self.workspace), Busy::Detach);
            inner.forget();
            let _ = by_path::remove_dir_all(&target);
            return Err(failure);
        }
        if let Some(repo) = level.repo.submodule(path)? {
            let prefix = [inner.path.as_slice(), b"/"].concat().into();
            self.level(&Level { repo: &repo, sources: source.join("modules"), prefix })?;
        }
        Ok(())
    }

    fn base(&self, objects: &Repository, tree: ObjectId, commit: ObjectId) -> Result<Base, Error> {
        let kind = build::kind_of(self.workspace.record.backend);
        let wanted = Wanted::new(objects, tree, kind, Owner::of_process(), None)?;
        let Worktrees { events, interrupt, .. } = *self.worktrees;
        let persist = durable::persist_in(self.bases, events);
        build::build_base(
            (events, interrupt),
            self.settings,
            commit,
            self.progress,
            persist,
            |options, messages| self.bases.add(&wanted, options, messages),
        )
    }

    /// Mounts a submodule, connects it with its repository, and installs its index.
    fn attach(&self, inner: &Inner, base: Base, target: &Path) -> Result<(), Error> {
        let settings = self.settings;
        let top = inner.top(self.workspace);
        mount_on(self.worktrees, self.workspace, inner, base.clone())?;
        connect::connect(&top, target, settings)?;
        let repo = self.worktrees.repo.open_git_dir(target)?;
        self.note_checkout(&repo, inner.commit)?;
        base.install_index(&repo, target, &top, Monitor::UpperLayer, &settings.fsync)?;
        let adopted = Union::mounted_at(&top).and_then(|union| union.adopt(target, &settings.fsync));
        adopted.map_err(|error| Error::failed(error.to_string()))?;
        let Some(program) = self.worktrees.events.program() else { return Ok(()) };
        let edits = monitor_settings(&program, Remote::No);
        Ok(store::config::edit(&target.join("config"), &edits, &settings.config_locks, &settings.fsync)?)
    }

    /// Writes the line in the reflog of HEAD by which Git names the commit that is checked out.
    fn note_checkout(&self, repo: &Repository, commit: ObjectId) -> Result<(), Error> {
        let branches = repo.refs("refs/heads/")?;
        let from = branches.first().and_then(|(name, _)| name.strip_prefix(b"refs/heads/"));
        let from = from.map_or_else(|| commit.to_string().into(), BString::from);
        let Worktrees { events, interrupt, .. } = *self.worktrees;
        let context = Context { repo, settings: self.settings, events, interrupt, hands_over: false };
        let refs = crate::refs::options(context)?;
        let (store::refs::LogPolicy::Standard | store::refs::LogPolicy::Always, Ok(committer)) =
            (refs.log, &refs.committer)
        else {
            return Ok(());
        };
        let (new, null) = (commit.to_string(), ObjectId::null(commit.kind()).to_string());
        let move_to = text!("checkout: moving from ", from, " to ", new.as_str());
        let line = text!(null, " ", new, " ", committer.as_slice(), "\t", move_to, "\n");
        let logs = repo.git_dir().join("logs");
        let written = by_path::create_dir_all(&logs)
            .and_then(|()| by_path::create_new(&logs.join("HEAD"), 0o666))
            .and_then(|mut file| io::Write::write_all(&mut file, &line));
        written.map_err(|error| {
            Error::failed(format!("cannot write '{}/HEAD': {}", logs.display(), sys::reason(&error)))
        })
    }
}

fn cannot_open(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |source| Error::CannotOpen { path: path.to_owned(), source }
}

/// Makes the repository of a submodule, as a clone would: HEAD at the commit; the settings, the
/// remote-tracking branches and the tags of `source`; the branch of the remote's HEAD; its objects
/// as an alternate.
fn make_repository(
    target: &Path,
    source: &Path,
    objects: &Repository,
    commit: ObjectId,
) -> Result<(), Error> {
    let write = |name: &str, content: &[u8]| {
        let path = target.join(name);
        let written =
            by_path::create_new(&path, 0o666).and_then(|mut file| io::Write::write_all(&mut file, content));
        written.map_err(|error| {
            Error::failed(format!("cannot write '{}': {}", path.display(), sys::reason(&error)))
        })
    };
    for dir in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "refs/remotes", "info"] {
        let dir = target.join(dir);
        by_path::create_dir_all(&dir).map_err(|error| {
            Error::failed(format!("cannot create '{}': {}", dir.display(), sys::reason(&error)))
        })?;
    }
    let read = |name: &str| {
        let path = source.join(name);
        by_path::read(&path).map_err(cannot_open(&path))
    };
    let above = by_path::canonical(&source.join("objects")).map_err(cannot_open(source))?;
    let above = quote(above.as_os_str().as_bytes().as_bstr(), false);
    write("objects/info/alternates", &[above.as_slice(), b"\n"].concat())?;
    write("config", &read("config")?.unwrap_or_default())?;
    if let Some(shallow) = read("shallow")? {
        write("shallow", &shallow)?;
    }
    let mut refs = objects.refs("refs/remotes/")?;
    refs.extend(objects.refs("refs/tags/")?);
    refs.retain(|(name, _)| !name.ends_with(b"/HEAD"));
    const TRACKED: &[u8] = b"refs/remotes/origin/";
    let head = read("refs/remotes/origin/HEAD")?;
    let default = head.as_ref().and_then(|head| format::blank::trim(head.strip_prefix(b"ref: ")?).into());
    let default = default.and_then(|full: &[u8]| {
        let (_, oid) = refs.iter().find(|(name, _)| *name == full)?;
        Some((BString::from([b"refs/heads/", full.strip_prefix(TRACKED)?].concat()), *oid))
    });
    refs.extend(default);
    refs.sort();
    let mut packed = b"# pack-refs with: sorted \n".to_vec();
    for (name, oid) in &refs {
        packed.extend_from_slice(&text!(oid.to_string(), " ", name, "\n"));
    }
    write("packed-refs", &packed)?;
    if let Some(head) = head {
        by_path::create_dir_all(&target.join("refs/remotes/origin")).map_err(cannot_open(target))?;
        write("refs/remotes/origin/HEAD", &head)?;
    }
    write("HEAD", text!(commit.to_string(), "\n").as_slice())
}
