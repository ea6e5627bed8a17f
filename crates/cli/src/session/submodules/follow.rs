//! The submodules of one worktree: their checks for a plan, and moving them.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashSet,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{self, Follow, Force, Outcome, Plan, Premise, Report, Start},
    look::LookError,
    pathspec::{Defaults, Pathspecs, Seen},
    switch::{self, Target},
};
use format::{Mode, ObjectId, index::Index};
use repo::{
    GitfileError, Repository,
    submodule::{Module, Modules},
};
use sys::{FileType, by_path};

use super::{
    connect,
    read_tree::{self, SubmoduleTask},
};
use crate::{
    session::{
        apply,
        invocation::{Invocation, Program},
        profile::Profile,
        settings::Settings,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

const GITMODULES: &str = ".gitmodules";

/// The submodules of a superproject that is being changed.
pub(crate) struct Submodules<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    top: PathBuf,
    /// The path of this worktree in its superproject, for messages.
    lead: BString,
    /// The current content of `.gitmodules`.
    modules: RefCell<Modules>,
    /// True after errors in `.gitmodules` were reported, which happens when it is first needed.
    warned: Cell<bool>,
    /// The content of `.gitmodules` after the change, if it differs.
    after: RefCell<Option<Modules>>,
}

/// The state of a submodule's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Populated {
    No,
    /// Populated, with a `.git` file.
    File,
    /// Populated, with its own `.git` directory, which Git would absorb into the superproject's.
    Directory,
}

/// How to treat nested submodules that were cloned before and are not checked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nested {
    Keep,
    /// They are checked out, as Git does when it resets the submodule that contains them.
    CheckOut,
}

impl<'a> Submodules<'a> {
    /// The submodules of `repo` with the index `index`. `lead` is its path in its own superproject.
    pub(crate) fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        index: &Index,
        lead: &BStr,
    ) -> Result<Self, Failure> {
        let top = repo.work_tree().ok_or_else(Failure::no_worktree)?;
        if repo.extensions().submodule_paths {
            return Err(Failure::unsupported("taking submodules along with extensions.submodulePathConfig"));
        }
        let modules = checkout::read_modules(repo, index)?;
        Ok(Submodules {
            run,
            repo,
            settings,
            top: top.to_owned(),
            lead: lead.to_owned(),
            modules: RefCell::new(modules),
            warned: Cell::new(false),
            after: RefCell::default(),
        })
    }

    pub(crate) fn name(&self, path: &BStr) -> Option<BString> {
        self.module(path).map(|module| module.name)
    }

    /// Returns the section of `.gitmodules` for a path.
    pub(crate) fn module(&self, path: &BStr) -> Option<Module> {
        let modules = self.modules.borrow();
        if !self.warned.replace(true) {
            warn(&modules);
        }
        modules.at(path).cloned()
    }

    /// Returns all sections of `.gitmodules`.
    pub(crate) fn modules(&self) -> Vec<Module> {
        self.modules.borrow().all().to_vec()
    }

    /// Returns the path of the submodule `name` in `.gitmodules`.
    pub(crate) fn path_of(&self, name: &BStr) -> Option<BString> {
        self.modules.borrow().path_of(name).map(BStr::to_owned)
    }

    /// Returns true if the warnings about `.gitmodules` were printed.
    pub(crate) fn has_warned(&self) -> bool {
        self.warned.get()
    }

    /// Copies the state from another value for the same file.
    pub(crate) fn set_warned(&self, warned: bool) {
        self.warned.set(warned);
    }

    /// Returns the value of `submodule.fetchjobs` or `fetch.recursesubmodules` in `.gitmodules`.
    pub(crate) fn general(&self, key: &str) -> Option<BString> {
        self.modules.borrow().general(key).map(BStr::to_owned)
    }

    fn dir(&self, path: &BStr) -> PathBuf {
        self.top.join(sys::os_str(path))
    }

    /// Git's `is_submodule_active`.
    pub(crate) fn is_active(&self, path: &BStr) -> Result<bool, Failure> {
        match self.name(path) {
            Some(name) => self.is_active_as(name.as_bstr(), path),
            None => Ok(false),
        }
    }

    /// Like [`Submodules::is_active`], for a submodule that has this name in another commit.
    pub(crate) fn is_active_as(&self, name: &BStr, path: &BStr) -> Result<bool, Failure> {
        let name = name.to_str_lossy();
        if let Some(active) = self.repo.config_bool(&format!("submodule.{name}.active"))? {
            return Ok(active);
        }
        let specs = self.repo.config_all("submodule.active");
        if !specs.is_empty() {
            let root = self.top.as_os_str().as_bytes().as_bstr();
            let specs = Pathspecs::parse(&specs, "".into(), root, Defaults::default())
                .map_err(|error| Failure::Fatal(error.message))?;
            return Ok(specs.matches_entry(path, Mode::GITLINK, &mut Seen::default()));
        }
        Ok(self.repo.config_str(&format!("submodule.{name}.url")).is_some())
    }

    fn populated(&self, path: &BStr) -> Populated {
        let gitfile = self.dir(path).join(".git");
        match self.repo.read_gitfile(&gitfile) {
            Ok(_) => Populated::File,
            Err(GitfileError::IsADirectory) if self.repo.is_git_directory(&gitfile) => Populated::Directory,
            Err(_) => Populated::No,
        }
    }

    /// Returns true if `path` is missing or an empty directory. Git fails at an empty directory,
    /// because it contains no repository, and so does not recover from a kill between creating the
    /// directory and connecting it.
    fn is_missing_or_empty(&self, path: &BStr) -> bool {
        let dir = self.dir(path);
        match by_path::stat(&dir) {
            Ok(Some(stat)) if stat.file_type == FileType::Directory => {
                by_path::list(&dir).is_ok_and(|names| names.is_empty())
            }
            Ok(Some(_)) => false,
            _ => true,
        }
    }

    /// Returns an error if a symlink is in the place of the submodule, or in a parent directory of
    /// it.
    pub(crate) fn validate(&self, path: &BStr) -> Result<(), Failure> {
        let is_link = |path: &BStr| {
            by_path::stat(&self.dir(path))
                .ok()
                .flatten()
                .is_some_and(|stat| stat.file_type == FileType::Symlink)
        };
        for slash in path.find_iter("/") {
            let above = path[..slash].as_bstr();
            if is_link(above) {
                console::error(text!(
                    "expected '",
                    above,
                    "' in submodule path '",
                    path,
                    "' not to be a symbolic link"
                ));
                return Err(Failure::Reported(128));
            }
        }
        if is_link(path) {
            console::error(text!("expected submodule path '", path, "' not to be a symbolic link"));
            return Err(Failure::Reported(128));
        }
        Ok(())
    }

    /// Returns an invocation in the submodule at `path`.
    fn within(&self, path: &BStr) -> Invocation {
        Invocation {
            program: self.run.program,
            command: "read-tree".into(),
            args: Vec::new(),
            started_in: self.dir(path),
            cwd: self.dir(path),
            env: repo::submodule::submodule_env(&self.run.env),
            config: self.run.config.clone(),
            bare: false,
            paginate: false,
            verbose: self.run.verbose,
            profile: Profile::Off,
            interrupt: self.run.interrupt,
            git: self.run.git.clone(),
            opened: Cell::new(None),
            outside_config: Cell::new(None),
            objects: OnceCell::new(),
            lazy_fetch: self.run.lazy_fetch.clone(),
        }
    }

    fn open(&self, path: &BStr) -> Result<Repository, Failure> {
        let opened = self.repo.submodule(path)?;
        opened.ok_or_else(|| Failure::fatal("not a git repository: '.git'"))
    }

    /// Runs `read-tree` in the submodule, with its messages. Returns false if it failed.
    fn read_tree(
        &self,
        path: &BStr,
        task: SubmoduleTask,
        force: Force,
        from: Start,
        to: Option<ObjectId>,
    ) -> Result<bool, Failure> {
        let run = self.within(path);
        let name = |oid: Option<ObjectId>| {
            BString::from(oid.unwrap_or_else(|| ObjectId::empty_tree(self.repo.hash())).to_string())
        };
        let mut trees = match (force, from) {
            (Force::No, Start::Nothing) => vec![name(None)],
            (Force::No, Start::Head) => vec!["HEAD".into()],
            (Force::No, Start::Commit(oid)) => vec![name(Some(oid))],
            _ => Vec::new(),
        };
        trees.push(name(to));
        let lead = text!(self.lead, path, "/");
        match read_tree::in_submodule(&run, task, force, lead, &trees) {
            Ok(code) => Ok(code == 0),
            Err(Failure::Signal(signal)) => Err(Failure::Signal(signal)),
            // Nothing was changed yet.
            Err(Failure::Unserved(what)) if task == SubmoduleTask::Check => Err(Failure::Unserved(what)),
            Err(failure) => {
                match self.run.program {
                    Program::Git => failure.plain().print(),
                    Program::Sapwood => failure.print(),
                }
                Ok(false)
            }
        }
    }

    /// Git's `submodule_has_dirty_index`.
    fn has_dirty_index(&self, path: &BStr) -> Result<bool, Failure> {
        let submodule = self.open(path)?;
        let settings = Settings::read(&self.within(path), &submodule)?;
        let index = apply::load_index(&submodule, &settings)?;
        Ok(checkout::is_anything_staged(&submodule, &index)?)
    }

    /// Git's `submodule_move_head`, as a dry run.
    fn check(&self, path: &BStr, from: Start, to: Option<ObjectId>, force: Force) -> Result<bool, Failure> {
        if from == Start::Nothing && self.is_missing_or_empty(path) {
            return Ok(true);
        }
        if !self.is_active(path)? || from != Start::Nothing && self.populated(path) == Populated::No {
            return Ok(true);
        }
        self.validate(path)?;
        if from != Start::Nothing && force == Force::No && self.has_dirty_index(path)? {
            console::error(text!("submodule '", path, "' has dirty index"));
            return Ok(false);
        }
        let done = self.read_tree(path, SubmoduleTask::Check, force, from, to)?;
        if !done {
            console::error(text!("Submodule '", path, "' could not be updated."));
        }
        Ok(done)
    }

    /// Detects errors that would be fatal to Git halfway, before anything is changed. `plan` is the
    /// superproject's.
    pub(crate) fn prepare(&self, plan: &Plan) -> Result<(), Failure> {
        for removal in plan.removals.iter().filter(|removal| removal.gitlink) {
            self.check_movable(removal.path.as_bstr())?;
        }
        let after = self.recorded(plan)?;
        let before = after.map(|after| self.modules.replace(after));
        let goes: HashSet<&BStr> = removed_paths(plan).collect();
        let above = |path: &BStr| path.find_iter("/").any(|slash| goes.contains(path[..slash].as_bstr()));
        for (_, path, _) in links(plan) {
            // The content at the path or at a parent will be replaced, and `move_worktrees` checks
            // again.
            if !goes.contains(path) && !above(path) {
                self.check_movable(path)?;
            }
            if let Some(name) = self.name(path).filter(|_| self.is_active(path).is_ok_and(|active| active)) {
                let place = connect::place(self.repo, name.as_bstr())?;
                if !self.repo.is_git_directory(&place) {
                    let way = engine::worktree::admin::relative(&place, &self.dir(path));
                    console::report("fatal", format!("not a git repository: {}", way.display()));
                    return Err(Failure::fatal("could not reset submodule index"));
                }
            }
        }
        if let Some(before) = before {
            *self.after.borrow_mut() = Some(self.modules.replace(before));
        }
        Ok(())
    }

    fn check_movable(&self, path: &BStr) -> Result<(), Failure> {
        if !self.is_active(path)? {
            return Ok(());
        }
        self.validate(path)?;
        if self.populated(path) == Populated::Directory {
            return Err(Failure::unsupported("taking along a submodule with a .git directory of its own"));
        }
        Ok(())
    }

    /// Empties the worktrees of the submodules that the plan removes. With force, their changes are
    /// lost.
    pub(crate) fn remove_worktrees(&self, plan: &Plan, force: Force) -> Result<(), Failure> {
        for removal in plan.removals.iter().filter(|removal| removal.gitlink) {
            self.run.interrupt.check()?;
            self.remove_worktree(removal.path.as_bstr(), force)?;
        }
        if let Some(after) = self.after.take() {
            *self.modules.borrow_mut() = after;
        }
        Ok(())
    }

    fn remove_worktree(&self, path: &BStr, force: Force) -> Result<(), Failure> {
        if !self.is_active(path)? || self.populated(path) == Populated::No {
            return Ok(());
        }
        let name = self.name(path).expect("an active submodule has one");
        self.validate(path)?;
        let place = connect::place(self.repo, name.as_bstr())?;
        self.connect(path, &place, Nested::Keep)?;
        if !self.read_tree(path, SubmoduleTask::Move, force, Start::Head, None)? {
            console::error(text!("Submodule '", path, "' could not be updated."));
            return Ok(());
        }
        let dir = self.dir(path);
        if let Err(error) = by_path::remove_file(&dir.join(".git")) {
            console::warning(text!("unable to unlink '", path, "/.git': ", sys::reason(&error)));
        }
        if by_path::list(&dir).is_ok_and(|names| names.is_empty())
            && let Err(error) = by_path::remove_dir(&dir)
        {
            console::warning(text!("unable to rmdir '", path, "': ", sys::reason(&error)));
        }
        connect::disconnect(&place, path, self.settings);
        Ok(())
    }

    /// Moves the submodules that the plan writes, after the superproject's own files. Records in
    /// `report` the ones that were not reached. Returns true if all were moved.
    pub(crate) fn move_worktrees(
        &self,
        plan: &Plan,
        report: &mut Report,
        force: Force,
    ) -> Result<bool, Failure> {
        let mut all = true;
        let mut ended = Ok(());
        for (at, path, commit) in links(plan) {
            let made = match report.writes[at] {
                Outcome::Written(_) => true,
                Outcome::Kept => false,
                _ => continue,
            };
            if ended.is_ok() {
                ended = self.run.interrupt.check();
            }
            if ended.is_ok() {
                match self.move_worktree(path, commit, made, force) {
                    Ok(moved) => all &= moved,
                    Err(failure) => ended = Err(failure),
                }
            }
            if ended.is_err() {
                report.writes[at] = Outcome::Skipped;
                report.interrupted = true;
            }
        }
        ended.map(|()| all)
    }

    fn move_worktree(
        &self,
        path: &BStr,
        commit: ObjectId,
        made: bool,
        force: Force,
    ) -> Result<bool, Failure> {
        if !self.is_active(path)? {
            return Ok(true);
        }
        let name = self.name(path).expect("an active submodule has one");
        self.validate(path)?;
        let place = connect::place(self.repo, name.as_bstr())?;
        let from = match self.populated(path) {
            Populated::No => {
                connect::connect(&self.dir(path), &place, self.settings)?;
                // The index of a killed run, or of `submodule deinit`, does not describe the
                // current files.
                let forced = Force::OverwriteUntracked;
                if !self.read_tree(path, SubmoduleTask::EmptyIndex, forced, Start::Nothing, None)? {
                    return Err(Failure::fatal("could not reset submodule index"));
                }
                Start::Nothing
            }
            _ => {
                if !self.connect(path, &place, Nested::CheckOut)? {
                    return Ok(false);
                }
                Start::Head
            }
        };
        let force = if made { Force::OverwriteUntracked } else { force };
        if !self.read_tree(path, SubmoduleTask::Move, force, from, Some(commit))? {
            console::error(text!("Submodule '", path, "' could not be updated."));
            return Ok(false);
        }
        let run = self.within(path);
        let submodule = self.open(path)?;
        let refs = Settings::read(&run, &submodule)?.refs(&submodule)?;
        if let Err(error) = switch::move_head(&refs, Target::Commit(commit), "".into()) {
            console::report("fatal", error.to_string());
            return Ok(false);
        }
        Ok(true)
    }

    /// Connects the submodule and all active ones within it with their repositories. Returns true
    /// if the new ones could be checked out.
    fn connect(&self, path: &BStr, place: &Path, without: Nested) -> Result<bool, Failure> {
        connect::connect(&self.dir(path), place, self.settings)?;
        let run = self.within(path);
        let submodule = self.open(path)?;
        let settings = Settings::read(&run, &submodule)?;
        let index = apply::load_index(&submodule, &settings)?;
        let entries = index.entries().iter().filter(|entry| entry.mode.is_gitlink());
        let mut links: Vec<(&BStr, ObjectId)> = entries.map(|it| (index.path(it), it.oid)).collect();
        links.dedup_by_key(|link| link.0);
        if links.is_empty() {
            return Ok(true);
        }
        let nested = Submodules::new(&run, &submodule, &settings, &index, "".into())?;
        let mut all = true;
        for (link, commit) in links {
            let Some(name) = nested.name(link).filter(|_| nested.is_active(link).is_ok_and(|active| active))
            else {
                continue;
            };
            let place = connect::place(&submodule, name.as_bstr())?;
            if !submodule.is_git_directory(&place) {
                continue;
            }
            match nested.populated(link) {
                Populated::Directory => {}
                Populated::File => {
                    nested.validate(link)?;
                    all &= nested.connect(link, &place, without)?;
                }
                Populated::No if without == Nested::CheckOut && nested.is_missing_or_empty(link) => {
                    nested.validate(link)?;
                    let made = self.settings.locks.shared.create_dir_all(&nested.dir(link));
                    made.map_err(|error| {
                        let place = text!(path, "/", link, "/.git");
                        let reason = sys::reason(&error);
                        Failure::Fatal(text!("could not create directories for ", place, ": ", reason))
                    })?;
                    all &= nested.move_worktree(link, commit, true, Force::No)?;
                }
                Populated::No => {}
            }
        }
        Ok(all)
    }

    /// Returns the new `.gitmodules`, if the plan writes it.
    fn recorded(&self, plan: &Plan) -> Result<Option<Modules>, Failure> {
        let written = plan.writes.iter().map(|write| &plan.index.entries()[write.entry]);
        let mut found =
            written.filter(|entry| plan.index.path(entry) == GITMODULES && !entry.mode.is_gitlink());
        let Some(entry) = found.next() else { return Ok(None) };
        self.warned.set(true);
        let mut reader = self.repo.objects().reader();
        let (_, content) = reader.read(&entry.oid)?;
        let file = self.top.join(GITMODULES).display().to_string();
        let modules = Modules::parse(content, &file)?;
        warn(&modules);
        Ok(Some(modules))
    }
}

impl Follow for Submodules<'_> {
    fn is_registered(&self, path: &BStr) -> Result<bool, LookError> {
        Ok(self.name(path).is_some())
    }

    fn can_move(
        &self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, LookError> {
        match self.check(path, from, to, force) {
            Ok(may) => Ok(may),
            // The caller checks for the signal before it changes anything.
            Err(Failure::Signal(_)) => Ok(true),
            Err(Failure::Unserved(what)) => Err(LookError::Unsupported(what)),
            Err(Failure::Fatal(message)) => Err(LookError::SubmoduleRefused(message)),
            Err(failure) => {
                failure.print();
                Ok(false)
            }
        }
    }
}

/// Returns the submodules that a plan writes: index of the step, path, commit.
fn links(plan: &Plan) -> impl Iterator<Item = (usize, &BStr, ObjectId)> {
    let entries = plan.writes.iter().map(|write| &plan.index.entries()[write.entry]).enumerate();
    let links = entries.filter(|(_, entry)| entry.mode.is_gitlink());
    links.map(|(at, entry)| (at, plan.index.path(entry), entry.oid))
}

/// Returns the files and symlinks that the plan removes or replaces.
fn removed_paths(plan: &Plan) -> impl Iterator<Item = &BStr> {
    let removed =
        plan.removals.iter().filter(|removal| !removal.gitlink).map(|removal| removal.path.as_bstr());
    let replaced =
        plan.writes.iter().filter(|write| matches!(write.premise, Premise::Unchanged(_) | Premise::Anything));
    removed.chain(replaced.map(|write| plan.index.path(&plan.index.entries()[write.entry])))
}

fn warn(modules: &Modules) {
    modules.warnings().iter().for_each(console::warning);
}
