//! The files of a new workspace.
//!
//! Order: the backend; the base; then, called by [`crate::worktree::add`]: the workspace's state,
//! its configuration, its index, and the mount. [`NewFiles::undo`] reverts everything except the
//! base.

use std::{
    cell::OnceCell,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    sparse::{self, Patterns},
    workspace::{
        backend::{self, Backend, Door, Place, Visibility},
        base::{Base, Bases, Kind, Monitor, Owner, Wanted},
        newer::{self, Source},
        record::{self, Activity, BaseRef, Durability, Record, Sealed, Workspace},
        sealed::Hooks,
    },
    worktree::admin::{self, Admin},
};
use format::{ObjectId, config::Edit, index::Stat};
use repo::{
    Repository,
    keys::{self, Key},
    objects,
};
use store::Fsync;
use sys::{File, by_path};

use super::{
    contents, durable,
    monitor::{Remote, monitor_settings},
    mounts, persist, places, quota,
    supply::Supply,
};
use crate::{
    Error,
    settings::Settings,
    text,
    worktree::{
        add::{FileSource, NewFiles},
        records::Worktrees,
    },
    worktree_config,
};

/// The options for a new workspace.
#[derive(Clone, Default)]
pub struct WorkspaceOptions {
    /// The name. `None` derives it from the directory and appends a number if it exists.
    pub name: Option<BString>,
    /// The backend. `None` selects one automatically.
    pub backend: Option<Backend>,
    /// The base directory.
    pub base_dir: Option<PathBuf>,
    /// The directory for the upper layers.
    pub upper_dir: Option<PathBuf>,
    /// The directories of a sparse workspace.
    pub sparse: Vec<BString>,
    /// The frozen layers, topmost first.
    pub layers: Vec<PathBuf>,
    /// The paths that the layers contain.
    pub frozen: Vec<BString>,
    /// The worktree from which these files come.
    pub source: Option<Rc<Source>>,
    /// The durability of the upper layer, if it does not follow the setting.
    pub durability: Option<Durability>,
    /// See [`crate::Events::adding_base`].
    pub progress: Option<bool>,
    /// The facts of a sealed workspace; `None` for a linked worktree.
    pub sealed: Option<Sealed>,
    /// Gets the lock of the workspace of a check, in which a landing is checked; `None` for any
    /// other workspace.
    pub check: Option<Rc<OnceCell<File>>>,
    /// The hooks.
    pub hooks: Hooks,
    /// Settings that only this workspace has.
    pub settings: Vec<(BString, BString)>,
    /// The most bytes of the upper layer; 0 for no quota, `None` for the configured one.
    pub quota: Option<u64>,
}

/// Creates one workspace.
pub struct Maker<'a> {
    worktrees: &'a Worktrees<'a>,
    settings: &'a Settings,
    visibility: Visibility,
    fallback: Fallback,
    options: &'a WorkspaceOptions,
}

/// The result if only a full copy can serve all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A workspace that is a copy.
    Copy,
    /// An ordinary worktree.
    Worktree,
}

impl<'a> Maker<'a> {
    /// Returns the maker for a workspace whose files the processes of `visibility` must see.
    pub fn new(
        worktrees: &'a Worktrees<'a>,
        settings: &'a Settings,
        visibility: Visibility,
        fallback: Fallback,
        options: &'a WorkspaceOptions,
    ) -> Maker<'a> {
        Maker { worktrees, settings, visibility, fallback, options }
    }

    /// Selects a backend and adds the base of `commit` if it is missing. Returns `None` if only an
    /// ordinary worktree is possible.
    pub(super) fn files(&self, commit: ObjectId, top: &Path) -> Result<Option<NewWorkspace<'_>>, Error> {
        let (repo, settings) = (self.worktrees.repo, self.settings);
        let options = self.options;
        options.frozen.iter().try_for_each(|path| refuse_hiding(repo, commit, path))?;
        let common = repo.real_common_dir();
        let bases = places::bases(repo, options.base_dir.as_deref())?;
        let upper_dir = self.upper_dir()?;
        let quota = self.check_quota()?;
        upper_dir.iter().try_for_each(|dir| repo.trust().check_dir_above(dir))?;
        let upper = upper_dir.clone().unwrap_or_else(|| record::directory(&common));
        let programs = places::programs(repo);
        let service = places::mount_service(repo)?;
        let place = Place { upper: &upper, bases: bases.dir(), top, programs: &programs, service: &service };
        let backend = backend::choose(options.backend, self.visibility(), &place)?;
        let mounts_itself = backend::door_for(backend, &place) == Door::Own;
        let backend = if options.backend.is_none() && backend == Backend::Image && mounts_itself {
            self.of_existing_base(repo, &bases, commit)?
        } else {
            backend
        };
        let backend = match (&options.sealed, backend) {
            (Some(_), Backend::OverlayUser) => {
                return Err(Error::failed(
                    "a sealed workspace needs a backend whose files every process sees",
                ));
            }
            // A snapshot would bring the file `.git` of the base.
            (Some(_), Backend::Btrfs) => Backend::Reflink,
            (_, backend) => backend,
        };
        if backend == Backend::Copy && self.fallback == Fallback::Worktree {
            return Ok(None);
        }
        if quota.is_some() && !backend.has_upper() {
            let name = backend.name();
            let reason = "a quota is for the upper layer of a workspace, and the backend";
            return Err(Error::failed(format!("{reason} '{name}' has none")));
        }
        let patterns = self.patterns(repo)?;
        let (backend, base) = match backend {
            Backend::Copy => (backend, None),
            _ => {
                let dirs = vec![bases.clone()];
                let (worktrees, progress) = (self.worktrees, options.progress);
                let (patterns, time) = (patterns.as_deref(), None);
                let supply = Supply { worktrees, repo, settings, commit, patterns, time, progress, dirs };
                let (backend, base) = supply.provide(backend, || self.alternatives(&place))?;
                refuse_elsewhere(&base, backend)?;
                (backend, Some(base))
            }
        };
        // Hold the base, so that nothing removes it before the record names it.
        let held = base.as_ref().map(Base::hold).transpose()?;
        Ok(Some(NewWorkspace {
            worktrees: self.worktrees,
            repo,
            settings,
            common,
            top: top.to_owned(),
            name: options.name.clone(),
            upper_dir,
            door: backend::door_for(backend, &place),
            backend,
            layers: options.layers.clone(),
            source: options.source.clone(),
            newer: OnceCell::new(),
            durability: options.durability,
            quota,
            base,
            patterns: patterns.filter(|_| !options.sparse.is_empty() || options.sealed.is_some()),
            options,
            workspace: OnceCell::new(),
            _held: held,
        }))
    }

    fn upper_dir(&self) -> Result<Option<PathBuf>, Error> {
        match &self.options.upper_dir {
            Some(dir) => Ok(Some(dir.clone())),
            None => places::configured_dir(self.worktrees.repo, keys::sapwood::UPPER_DIR),
        }
    }

    /// Returns the limit of the new workspace; `None` for no quota. Refuses a quota that cannot be
    /// in force.
    pub fn check_quota(&self) -> Result<Option<u64>, Error> {
        let repo = self.worktrees.repo;
        let limit = match self.options.quota {
            Some(limit) => Some(limit),
            None => quota::configured(repo)?,
        };
        let limit = limit.filter(|limit| *limit > 0);
        if limit.is_some() {
            self.refuse_divided()?;
            let dir = self.upper_dir()?.unwrap_or_else(|| record::directory(&repo.real_common_dir()));
            engine::workspace::quota::check(&dir).map_err(record::Error::from)?;
        }
        Ok(limit)
    }

    /// Returns an error for a quota that would not count the Git directory of a sealed workspace.
    fn refuse_divided(&self) -> Result<(), Error> {
        // With this backend, the Git directory is in the upper layer.
        let is_one = self.options.backend == Some(Backend::Fuse);
        if self.options.sealed.is_none() || is_one || self.upper_dir()?.is_none() {
            return Ok(());
        }
        Err(Error::Advised {
            message: "a quota of a sealed workspace would not count its Git directory, because \
                      'sapwood.upperDir' or '--upper-dir' puts only the changes elsewhere"
                .into(),
            advice:
                "leave the changes in the repository by unsetting 'sapwood.upperDir', or use '--quota none'"
                    .to_owned(),
        })
    }

    /// Returns the processes that must see the files. A sandbox is not one that sapwood starts.
    fn visibility(&self) -> Visibility {
        if self.options.sealed.is_some() && self.visibility == Visibility::Joined {
            Visibility::Everybody
        } else {
            self.visibility
        }
    }

    /// Returns the patterns of the new worktree: the requested directories, else those of this
    /// worktree, which `worktree add` copies.
    fn patterns(&self, repo: &Repository) -> Result<Option<Arc<Patterns>>, Error> {
        if self.options.sparse.is_empty() {
            return Ok(sparse::load(repo)?.map(|loaded| Arc::new(loaded.patterns)));
        }
        patterns_of(repo, &self.options.sparse).map(|patterns| Some(Arc::new(patterns)))
    }

    /// Returns the backend for a checkout that was added with `base add --from`, and `image` if
    /// there is none.
    fn of_existing_base(&self, repo: &Repository, bases: &Bases, commit: ObjectId) -> Result<Backend, Error> {
        let tree = repo.tree_of(commit)?;
        let directory = Wanted::new(repo, tree, Kind::Directory, Owner::of_process(), None)?;
        let is_elsewhere = bases.find(&directory)?.is_some_and(|base| base.is_elsewhere());
        Ok(if is_elsewhere && self.options.sparse.is_empty() { Backend::Overlay } else { Backend::Image })
    }

    /// Returns the backends that share a base and work here, if the user named none.
    fn alternatives(&self, place: &Place<'_>) -> Vec<Backend> {
        if self.options.backend.is_some() {
            return Vec::new();
        }
        let probed = backend::probe(self.visibility, place).into_iter();
        probed.filter(|(_, works)| works.is_ok()).map(|(backend, _)| backend).collect()
    }
}

impl FileSource for Maker<'_> {
    fn name(&self) -> Option<&BStr> {
        self.options.name.as_ref().map(|name| name.as_bstr())
    }

    fn prepare<'s>(&'s self, commit: ObjectId, top: &Path) -> Result<Option<Box<dyn NewFiles + 's>>, Error> {
        Ok(self.files(commit, top)?.map(|files| Box::new(files) as Box<dyn NewFiles>))
    }
}

/// Returns an error for a base that lies elsewhere and a backend that copies its directory.
fn refuse_elsewhere(base: &Base, backend: Backend) -> Result<(), Error> {
    if !base.is_elsewhere() || backend.has_upper() {
        return Ok(());
    }
    let name = backend.name();
    Err(Error::failed(format!(
        "the base is a checkout that lies elsewhere, and '{name}' would copy more than its files: choose the \
         backend overlay, overlay-user or fuse"
    )))
}

/// Returns an error for a frozen path that would hide files of the commit: a layer lies above the
/// base.
fn refuse_hiding(repo: &Repository, commit: ObjectId, path: &BString) -> Result<(), Error> {
    match hidden_by(repo, commit, path.as_bstr()) {
        Some(part) => {
            Err(Error::Failed(text!("the commit has '", part, "'; --with '", path, "' would hide it")))
        }
        None => Ok(()),
    }
}

/// Returns the path of the commit that a frozen `path` would hide.
pub fn hidden_by(repo: &Repository, commit: ObjectId, path: &BStr) -> Option<BString> {
    let ends = path.find_iter("/").chain([path.len()]);
    for part in ends.map(|end| path[..end].as_bstr()) {
        let found = repo.rev_parse(text!(commit.to_string(), ":", part).as_bstr()).ok()?;
        let is_tree = matches!(repo.objects().reader().read(&found), Ok((objects::Kind::Tree, _)));
        if !is_tree || part == path {
            return Some(part.to_owned());
        }
    }
    None
}

/// Returns the patterns that include these directories.
pub fn patterns_of(repo: &Repository, dirs: &[BString]) -> Result<Patterns, Error> {
    let mut cone = sparse::Cone::new(repo.config(&keys::core::IGNORE_CASE)?);
    for dir in dirs {
        let dir = dir.trim_with(|letter| letter == '/');
        cone.add([b"/", dir].concat().as_bstr());
    }
    Ok(Patterns::of_cone(cone))
}

/// A workspace under construction.
pub(super) struct NewWorkspace<'a> {
    worktrees: &'a Worktrees<'a>,
    repo: &'a Repository,
    settings: &'a Settings,
    common: PathBuf,
    top: PathBuf,
    name: Option<BString>,
    upper_dir: Option<PathBuf>,
    backend: Backend,
    door: Door,
    layers: Vec<PathBuf>,
    source: Option<Rc<Source>>,
    /// The stat data of the files of the newer layer.
    newer: OnceCell<Vec<(BString, Stat)>>,
    durability: Option<Durability>,
    quota: Option<u64>,
    base: Option<Base>,
    /// The patterns to write. `None` if the worktree is not sparse or copies the patterns of this
    /// one.
    patterns: Option<Arc<Patterns>>,
    options: &'a WorkspaceOptions,
    workspace: OnceCell<Workspace>,
    _held: Option<File>,
}

impl NewFiles for NewWorkspace<'_> {
    fn name<'s>(&'s self, top: &'s Path) -> &'s BStr {
        let of_directory = || top.file_name().unwrap_or_default().as_bytes().as_bstr();
        self.name.as_ref().map_or_else(of_directory, |name| name.as_bstr())
    }

    fn check_name(&self, admin: &Admin) -> Result<(), Error> {
        match &self.name {
            Some(name) if admin.id.as_bytes() != name.as_bytes() => {
                Err(record::Error::Exists(sys::os_str(name).to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    fn is_checkout(&self) -> bool {
        self.backend == Backend::Copy
    }

    fn create_state(&self, admin: &Admin) -> Result<PathBuf, Error> {
        let base_ref = |base: &Base| BaseRef {
            dir: base.dir.parent().unwrap_or(Path::new("/")).to_owned(),
            name: base.name.clone(),
        };
        let record = Record {
            dir: by_path::realpath_forgiving(&self.top),
            backend: self.backend,
            base: self.base.as_ref().map(base_ref),
            layers: self.layers.clone(),
            place: self.upper_dir.as_ref().map(|dir| dir.join(&admin.id)),
            durability: self.durability,
            activity: match self.options.sealed {
                Some(_) => Activity::Begun(std::process::id().into()),
                None if self.options.check.is_some() => Activity::Check(std::process::id().into()),
                None => Activity::Active,
            },
            sealed: self.options.sealed.clone(),
            door: self.door.clone(),
            project: None,
        };
        // A sync here would wait for the contents of the base: a journal writes data in order.
        let is_pending = self.base.as_ref().is_some_and(|base| base.pending.is_some());
        let fsync = Fsync { disabled: self.settings.fsync.disabled || is_pending, ..self.settings.fsync };
        let shared = self.settings.locks.shared;
        let (mut workspace, check) =
            record::create(&self.common, &admin.id, record, self.quota, shared, &fsync)?;
        if let (Some(check), Some(place)) = (check, &self.options.check) {
            let _ = place.set(check);
        }
        let written = self.write_newer(&mut workspace);
        let workspace = self.workspace.get_or_init(|| workspace);
        written?;
        if self.options.sealed.is_some() {
            return Ok(workspace.git_dir());
        }
        if !self.backend.has_upper() {
            if let (Backend::Btrfs, Some(base)) = (self.backend, &self.base) {
                backend::snapshot(base, &self.top)?;
            }
            return Ok(self.top.join(".git"));
        }
        mounts::mark_unmounted(workspace)?;
        Ok(workspace.upper().join(".git"))
    }

    fn configure(&self, admin: &Admin) -> Result<(), Error> {
        contents::register(self.repo, self.settings, self.worktrees.events);
        let mut edits = Vec::new();
        if self.has_monitor()
            && let Some(program) = self.worktrees.events.program()
        {
            let remote = if self.backend == Backend::Fuse { Remote::Fuse } else { Remote::No };
            edits = monitor_settings(&program, remote);
        }
        let mut set =
            |key: Key<bool>, value: BString| edits.push(Edit::Set { key: key.name().into(), value });
        if let Some(patterns) = &self.patterns {
            let file = admin.dir.join("info").join("sparse-checkout");
            self.settings.locks.shared.create_dir_all(&admin.dir.join("info")).map_err(|error| {
                Error::failed(format!("cannot create '{}': {error}", admin.dir.join("info").display()))
            })?;
            admin::write(&file, &patterns.to_file())?;
            set(keys::core::SPARSE_CHECKOUT, "true".into());
            set(keys::core::SPARSE_CHECKOUT_CONE, "true".into());
        }
        match &self.options.hooks {
            Hooks::None => edits.push(hooks_path(b"/dev/null")),
            Hooks::Directory(dir) if self.options.sealed.is_none() => {
                edits.push(hooks_path(dir.as_os_str().as_bytes()));
            }
            Hooks::Default | Hooks::Repository | Hooks::Directory(_) => {}
        }
        let chosen = self.options.settings.iter().cloned();
        edits.extend(chosen.map(|(key, value)| Edit::Add { key, value }));
        if edits.is_empty() {
            return Ok(());
        }
        let file = match self.options.sealed {
            Some(_) => admin.dir.join("config"),
            None => {
                worktree_config::begin(self.repo, self.settings)?;
                admin.dir.join("config.worktree")
            }
        };
        Ok(store::config::edit(&file, &edits, &self.settings.config_locks, &self.settings.fsync)?)
    }

    fn mount(&self, admin: &Admin) -> Result<(), Error> {
        let (Some(base), Some(workspace)) = (&self.base, self.workspace.get()) else { return Ok(()) };
        let is_monitored = self.has_monitor() && self.worktrees.events.program().is_some();
        let monitor = if is_monitored { Monitor::UpperLayer } else { Monitor::None };
        let fsync = &self.settings.fsync;
        let top = &workspace.record.dir;
        match self.options.sealed {
            Some(_) => base.install_own_index(self.repo, &admin.dir, top, monitor, fsync)?,
            None => base.install_index(self.repo, &admin.dir, top, monitor, fsync)?,
        }
        if let (Backend::Btrfs, Some(source)) = (self.backend, &self.source) {
            let _ = self.newer.set(source.plan_for(base)?.apply(&self.top)?);
        }
        if let Some(stats) = self.newer.get().filter(|stats| !stats.is_empty()) {
            newer::record(&admin.dir, self.repo.hash(), stats, fsync)?;
        }
        if self.backend.has_upper() {
            mounts::mount(self.worktrees, workspace)?;
        }
        if self.backend == Backend::Reflink {
            backend::copy(base, &admin.dir, &self.top, sys::cores(), &self.settings.fsync)?;
        }
        if !self.backend.has_upper() {
            durable::harden_in_background(base, &workspace.state, self.worktrees.events);
        }
        Ok(())
    }

    /// Does nothing if the base is not durable either.
    fn persist(&self, admin: &Admin) -> Result<(), Error> {
        match (self.workspace.get(), &self.base) {
            (Some(workspace), Some(base)) if self.backend.has_upper() && base.pending.is_none() => {
                persist::persist(&self.common, &admin.dir, workspace, self.settings.fsync)
            }
            _ => Ok(()),
        }
    }

    /// Removes the mount and the state. The base stays.
    fn undo(&self) {
        let Some(workspace) = self.workspace.get() else { return };
        let _ = mounts::unmount(self.worktrees, workspace);
        workspace.unseal_work();
        if let Some(place) = &workspace.record.place {
            let _ = by_path::remove_dir_all(place);
        }
        let _ = by_path::remove_dir_all(&workspace.state);
    }
}

fn hooks_path(value: &[u8]) -> Edit {
    Edit::Set { key: keys::core::HOOKS_PATH.name().into(), value: value.into() }
}

impl NewWorkspace<'_> {
    /// Returns the workspace, whose state was created.
    pub(super) fn workspace(&self) -> &Workspace {
        self.workspace.get().expect("its state was created")
    }

    /// Returns true if the upper layer answers `core.fsmonitor`. In a sandbox it is not visible.
    fn has_monitor(&self) -> bool {
        self.backend.has_upper() && self.options.sealed.is_none()
    }

    /// Writes the newer layer, so that builds among the frozen files are neither trusted too much
    /// nor too little.
    fn write_newer(&self, workspace: &mut Workspace) -> Result<(), Error> {
        let (Some(source), Some(base)) = (&self.source, &self.base) else { return Ok(()) };
        let plan = match self.backend {
            // A snapshot has no layers: its own files get the times.
            Backend::Btrfs => return Ok(()),
            // Every file of a copy is new.
            Backend::Reflink | Backend::Copy => return Ok(()),
            Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse => {
                source.plan_for(base)?
            }
        };
        if plan.is_empty() {
            return Ok(());
        }
        let stats = plan.write(base, &workspace.record.door, &workspace.newer())?;
        let _ = self.newer.set(stats);
        workspace.record.layers.insert(0, workspace.newer());
        Ok(workspace.store(&self.settings.fsync)?)
    }
}
