//! Creating workspaces: for `workspace create`, and for `worktree add` with `sapwood.worktree =
//! workspace`.
//!
//! Order: the backend; the base; then, called by `worktree add`: the workspace's state, its
//! configuration, its index, and the mount. [`NewWorkspace::undo`] reverts everything except the
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
        backend::{self, Backend, Place, Visibility},
        base::{Base, Bases, Kind, Monitor, Owner, Wanted},
        newer::{self, Source},
        record::{self, BaseRef, Durability, Record, Workspace},
    },
    worktree::admin::{self, Admin},
};
use format::{ObjectId, config::Edit, index::Stat};
use repo::{Repository, objects};
use store::Fsync;
use sys::{File, by_path};

use super::{
    build::shows,
    contents, context, durable,
    monitor::{Remote, monitor_settings},
    mounts, persist,
    supply::Supply,
};
use crate::{
    session::{invocation::Invocation, settings::Settings, worktree_config},
    term::{console::text, failure::Failure},
};

/// The options for a new workspace.
#[derive(Default)]
pub(crate) struct WorkspaceOptions {
    /// The name. `None` derives it from the directory and appends a number if it exists.
    pub(crate) name: Option<BString>,
    /// The backend. `None` selects one automatically.
    pub(crate) backend: Option<Backend>,
    /// The base directory.
    pub(crate) base_dir: Option<BString>,
    /// The directory for the upper layers.
    pub(crate) upper_dir: Option<PathBuf>,
    /// The directories of a sparse workspace.
    pub(crate) sparse: Vec<BString>,
    /// The frozen layers, topmost first.
    pub(crate) layers: Vec<PathBuf>,
    /// The paths that the layers contain.
    pub(crate) frozen: Vec<BString>,
    /// The worktree from which these files come.
    pub(crate) source: Option<Rc<Source>>,
    /// The durability of the upper layer, if it does not follow the setting.
    pub(crate) durability: Option<Durability>,
    /// Print no progress.
    pub(crate) quiet: bool,
    /// `--[no-]progress`
    pub(crate) progress: Option<bool>,
}

/// Creates one workspace.
pub(crate) struct Maker<'a> {
    run: &'a Invocation,
    visibility: Visibility,
    options: WorkspaceOptions,
}

impl<'a> Maker<'a> {
    /// Returns the maker for `workspace create`.
    pub(super) fn new(run: &'a Invocation, options: WorkspaceOptions) -> Maker<'a> {
        Maker { run, visibility: Visibility::Joined, options }
    }

    /// Returns the maker for a clone, whose user works in the new directory next.
    pub(super) fn for_clone(run: &'a Invocation, options: WorkspaceOptions) -> Maker<'a> {
        Maker { run, visibility: Visibility::EverybodyWithoutCopy, options }
    }

    /// Returns the maker for `worktree add`, if `sapwood.worktree` selects workspaces.
    pub(crate) fn configured(run: &'a Invocation, repo: &Repository) -> Result<Option<Maker<'a>>, Failure> {
        let wanted = match repo.config_str("sapwood.worktree") {
            None => false,
            Some(value) if value == "workspace" => true,
            Some(value) if value == "checkout" => false,
            Some(value) => {
                return Err(Failure::fatal(format!(
                    "bad value '{value}' for sapwood.worktree: it is 'workspace' or 'checkout'"
                )));
            }
        };
        let options = WorkspaceOptions::default();
        Ok(wanted.then_some(Maker { run, visibility: Visibility::Everybody, options }))
    }

    /// Returns the name that the user gave the workspace.
    pub(crate) fn name(&self) -> Option<&BStr> {
        self.options.name.as_ref().map(|name| name.as_bstr())
    }

    /// Selects a backend and adds the base of `commit` if it is missing. Returns `None` for
    /// `worktree add` if only an ordinary worktree is possible.
    pub(crate) fn prepare(
        &self,
        repo: &'a Repository,
        settings: &'a Settings,
        commit: ObjectId,
        top: &Path,
    ) -> Result<Option<NewWorkspace<'a>>, Failure> {
        let options = &self.options;
        options.frozen.iter().try_for_each(|path| refuse_hiding(repo, commit, path))?;
        let common = repo.real_common_dir();
        let bases = context::bases(self.run, repo, options.base_dir.as_ref())?;
        let upper_dir = match &options.upper_dir {
            Some(dir) => Some(dir.clone()),
            None => context::configured_dir(self.run, repo, "sapwood.upperDir")?,
        };
        upper_dir.iter().try_for_each(|dir| repo.trust().check_dir_above(dir))?;
        let upper = upper_dir.clone().unwrap_or_else(|| record::directory(&common));
        let programs = context::programs(self.run);
        let place = Place { upper: &upper, bases: bases.dir(), top, programs: &programs };
        let backend = backend::choose(options.backend, self.visibility, &place)?;
        let backend = if options.backend.is_none() && backend == Backend::Image {
            self.of_existing_base(repo, &bases, commit)?
        } else {
            backend
        };
        if backend == Backend::Copy && self.visibility == Visibility::Everybody {
            return Ok(None);
        }
        let patterns = self.patterns(repo)?;
        let (backend, base) = match backend {
            Backend::Copy => (backend, None),
            _ => {
                let dirs = vec![bases.clone()];
                let is_visible = shows(options.progress, options.quiet);
                let patterns = patterns.as_deref();
                let supply = Supply { run: self.run, repo, settings, commit, patterns, is_visible, dirs };
                let (backend, base) = supply.provide(backend, || self.alternatives(&place))?;
                refuse_elsewhere(&base, backend)?;
                (backend, Some(base))
            }
        };
        // Hold the base, so that nothing removes it before the record names it.
        let held = base.as_ref().map(Base::hold).transpose()?;
        Ok(Some(NewWorkspace {
            run: self.run,
            repo,
            settings,
            common,
            top: top.to_owned(),
            name: options.name.clone(),
            upper_dir,
            backend,
            layers: options.layers.clone(),
            source: options.source.clone(),
            newer: OnceCell::new(),
            durability: options.durability,
            base,
            patterns: patterns.filter(|_| !options.sparse.is_empty()),
            workspace: OnceCell::new(),
            _held: held,
        }))
    }

    /// Returns the patterns of the new worktree: the requested directories, else those of this
    /// worktree, which `worktree add` copies.
    fn patterns(&self, repo: &Repository) -> Result<Option<Arc<Patterns>>, Failure> {
        if self.options.sparse.is_empty() {
            return Ok(sparse::load(repo)?.map(|loaded| Arc::new(loaded.patterns)));
        }
        patterns_of(repo, &self.options.sparse).map(|patterns| Some(Arc::new(patterns)))
    }

    /// Returns the backend for a checkout that was added with `base add --from`, and `image` if
    /// there is none.
    fn of_existing_base(
        &self,
        repo: &Repository,
        bases: &Bases,
        commit: ObjectId,
    ) -> Result<Backend, Failure> {
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

/// Returns an error for a base that lies elsewhere and a backend that copies its directory.
fn refuse_elsewhere(base: &Base, backend: Backend) -> Result<(), Failure> {
    if !base.is_elsewhere() || backend.has_upper() {
        return Ok(());
    }
    let name = backend.name();
    Err(Failure::fatal(format!(
        "the base is a checkout that lies elsewhere, and '{name}' would copy more than its files: choose the \
         backend overlay, overlay-user or fuse"
    )))
}

/// Returns an error for a frozen path that would hide files of the commit: a layer lies above the
/// base.
fn refuse_hiding(repo: &Repository, commit: ObjectId, path: &BString) -> Result<(), Failure> {
    match hidden_by(repo, commit, path.as_bstr()) {
        Some(part) => {
            Err(Failure::Fatal(text!("the commit has '", part, "'; --with '", path, "' would hide it")))
        }
        None => Ok(()),
    }
}

/// Returns the path of the commit that a frozen `path` would hide.
pub(super) fn hidden_by(repo: &Repository, commit: ObjectId, path: &BStr) -> Option<BString> {
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
pub(super) fn patterns_of(repo: &Repository, dirs: &[BString]) -> Result<Patterns, Failure> {
    let mut cone = sparse::Cone::new(repo.config_bool("core.ignoreCase")?.unwrap_or(false));
    for dir in dirs {
        let dir = dir.trim_with(|letter| letter == '/');
        cone.add([b"/", dir].concat().as_bstr());
    }
    Ok(Patterns::of_cone(cone))
}

/// A workspace under construction.
pub(crate) struct NewWorkspace<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    common: PathBuf,
    top: PathBuf,
    name: Option<BString>,
    upper_dir: Option<PathBuf>,
    backend: Backend,
    layers: Vec<PathBuf>,
    source: Option<Rc<Source>>,
    /// The stat data of the files of the newer layer.
    newer: OnceCell<Vec<(BString, Stat)>>,
    durability: Option<Durability>,
    base: Option<Base>,
    /// The patterns to write. `None` if the worktree is not sparse or copies the patterns of this
    /// one.
    patterns: Option<Arc<Patterns>>,
    workspace: OnceCell<Workspace>,
    _held: Option<File>,
}

impl NewWorkspace<'_> {
    /// Returns the requested name of the administrative directory.
    pub(crate) fn name<'s>(&'s self, top: &'s Path) -> &'s BStr {
        let of_directory = || top.file_name().unwrap_or_default().as_bytes().as_bstr();
        self.name.as_ref().map_or_else(of_directory, |name| name.as_bstr())
    }

    /// Returns an error if the administrative directory has another name than requested.
    pub(crate) fn check_name(&self, admin: &Admin) -> Result<(), Failure> {
        match &self.name {
            Some(name) if admin.id.as_bytes() != name.as_bytes() => {
                Err(record::Error::Exists(sys::os_str(name).to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the files come from an ordinary checkout.
    pub(crate) fn is_checkout(&self) -> bool {
        self.backend == Backend::Copy
    }

    /// Creates the state of the workspace. Returns the path of the file `.git` to write.
    pub(crate) fn create_state(&self, admin: &Admin) -> Result<PathBuf, Failure> {
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
            activity: record::Activity::Active,
        };
        // A sync here would wait for the contents of the base: a journal writes data in order.
        let is_pending = self.base.as_ref().is_some_and(|base| base.pending.is_some());
        let fsync = Fsync { disabled: self.settings.fsync.disabled || is_pending, ..self.settings.fsync };
        let shared = self.settings.locks.shared;
        let mut workspace = record::create(&self.common, &admin.id, record, shared, &fsync)?;
        let written = self.write_newer(&mut workspace);
        let workspace = self.workspace.get_or_init(|| workspace);
        written?;
        if !self.backend.has_upper() {
            if let (Backend::Btrfs, Some(base)) = (self.backend, &self.base) {
                backend::snapshot(base, &self.top)?;
            }
            return Ok(self.top.join(".git"));
        }
        mounts::mark_unmounted(workspace)?;
        Ok(workspace.upper().join(".git"))
    }

    /// Writes the newer layer, so that builds among the frozen files are neither trusted too much
    /// nor too little.
    fn write_newer(&self, workspace: &mut Workspace) -> Result<(), Failure> {
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
        let stats = plan.write(base, &workspace.newer())?;
        let _ = self.newer.set(stats);
        workspace.record.layers.insert(0, workspace.newer());
        Ok(workspace.store(&self.settings.fsync)?)
    }

    /// Writes the configuration and the sparse patterns of the worktree.
    pub(crate) fn configure(&self, admin: &Admin) -> Result<(), Failure> {
        contents::register(self.repo, self.settings);
        let mut edits = Vec::new();
        if self.backend.has_upper() {
            let remote = if self.backend == Backend::Fuse { Remote::Fuse } else { Remote::No };
            edits = monitor_settings(remote)?;
        }
        let mut set = |key: &str, value: BString| edits.push(Edit::Set { key: key.into(), value });
        if let Some(patterns) = &self.patterns {
            let file = admin.dir.join("info").join("sparse-checkout");
            self.settings.locks.shared.create_dir_all(&admin.dir.join("info")).map_err(|error| {
                Failure::fatal(format!("cannot create '{}': {error}", admin.dir.join("info").display()))
            })?;
            admin::write(&file, &patterns.to_file())?;
            set("core.sparseCheckout", "true".into());
            set("core.sparseCheckoutCone", "true".into());
        }
        if edits.is_empty() {
            return Ok(());
        }
        worktree_config::begin(self.repo, self.settings)?;
        let file = admin.dir.join("config.worktree");
        Ok(store::config::edit(&file, &edits, &self.settings.config_locks, &self.settings.fsync)?)
    }

    /// Installs the index of the base and mounts the files.
    pub(crate) fn mount(&self, admin: &Admin) -> Result<u8, Failure> {
        let (Some(base), Some(workspace)) = (&self.base, self.workspace.get()) else { return Ok(0) };
        let monitor = if self.backend.has_upper() { Monitor::UpperLayer } else { Monitor::None };
        let fsync = &self.settings.fsync;
        base.install_index(self.repo, &admin.dir, &workspace.record.dir, monitor, fsync)?;
        if let (Backend::Btrfs, Some(source)) = (self.backend, &self.source) {
            let _ = self.newer.set(source.plan_for(base)?.apply(&self.top)?);
        }
        if let Some(stats) = self.newer.get().filter(|stats| !stats.is_empty()) {
            newer::record(&admin.dir, self.repo.hash(), stats, fsync)?;
        }
        if self.backend.has_upper() {
            mounts::mount(self.run, self.repo, workspace)?;
        }
        if self.backend == Backend::Reflink {
            backend::copy(base, &admin.dir, &self.top, sys::cores(), &self.settings.fsync)?;
        }
        if !self.backend.has_upper() {
            durable::harden_in_background(base, &workspace.state);
        }
        Ok(0)
    }

    /// Makes the complete workspace durable, unless its base is not durable either.
    pub(crate) fn persist(&self, admin: &Admin) -> Result<(), Failure> {
        match (self.workspace.get(), &self.base) {
            (Some(workspace), Some(base)) if self.backend.has_upper() && base.pending.is_none() => {
                persist::persist(&self.common, &admin.dir, workspace, self.settings.fsync)
            }
            _ => Ok(()),
        }
    }

    /// Removes the mount and the state. The base stays.
    pub(crate) fn undo(&self, _admin: &Admin) {
        let Some(workspace) = self.workspace.get() else { return };
        let _ = mounts::unmount(self.run, workspace);
        workspace.unseal_work();
        if let Some(place) = &workspace.record.place {
            let _ = by_path::remove_dir_all(place);
        }
        let _ = by_path::remove_dir_all(&workspace.state);
    }
}
