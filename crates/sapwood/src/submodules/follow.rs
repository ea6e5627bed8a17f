//! The submodules of one worktree: their checks for a plan, and moving them.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{self, Follow, Force, Outcome, Plan, Premise, Report, Start},
    files::whole,
    look::LookError,
    pathspec::{Defaults, Pathspecs, Seen},
    switch::{self, Target},
};
use format::{Mode, ObjectId, index::Index};
use repo::{
    GitfileError, Repository,
    keys::{self, Key},
    submodule::{Module, Modules},
};
use sys::{FileType, by_path};

use super::{InSubmodule, Mover, SubmoduleTask, connect};
use crate::{
    Error, PlanError, context::Context, index::load_index, notice::Notice, refs, settings::Settings, text,
};

const GITMODULES: &str = ".gitmodules";

/// The submodules of a superproject that is being changed.
pub struct Submodules<'a> {
    context: Context<'a>,
    mover: Option<Mover>,
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
    /// The submodules of a repository with the index `index`. `lead` is its path in its own
    /// superproject.
    pub fn new(context: Context<'a>, index: &Index, lead: &BStr) -> Result<Self, Error> {
        let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
        if context.repo.extensions().submodule_paths {
            return Err(Error::NotSupported("taking submodules along with extensions.submodulePathConfig"));
        }
        let modules = checkout::read_modules(context.repo, index)?;
        Ok(Submodules {
            context,
            mover: None,
            top: top.to_owned(),
            lead: lead.to_owned(),
            modules: RefCell::new(modules),
            warned: Cell::new(false),
            after: RefCell::default(),
        })
    }

    /// Sets the function that moves them. Without it, submodules are only looked up.
    pub fn moved_by(self, mover: Mover) -> Self {
        Submodules { mover: Some(mover), ..self }
    }

    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context(self, context: Context<'_>) -> Submodules<'_> {
        let Submodules { mover, top, lead, modules, warned, after, .. } = self;
        Submodules { context, mover, top, lead, modules, warned, after }
    }

    /// Returns the name of the submodule at `path`.
    pub fn name(&self, path: &BStr) -> Option<BString> {
        self.module(path).map(|module| module.name)
    }

    /// Returns the section of `.gitmodules` for a path.
    pub fn module(&self, path: &BStr) -> Option<Module> {
        let modules = self.modules.borrow();
        if !self.warned.replace(true) {
            self.warn(&modules);
        }
        modules.at(path).cloned()
    }

    /// Returns all sections of `.gitmodules`.
    pub fn modules(&self) -> Vec<Module> {
        self.modules.borrow().all().to_vec()
    }

    /// Returns the path of the submodule `name` in `.gitmodules`.
    pub fn path_of(&self, name: &BStr) -> Option<BString> {
        self.modules.borrow().path_of(name).map(BStr::to_owned)
    }

    /// Returns true if the warnings about `.gitmodules` were reported.
    pub fn has_warned(&self) -> bool {
        self.warned.get()
    }

    /// Copies the state from another value for the same file.
    pub fn set_warned(&self, warned: bool) {
        self.warned.set(warned);
    }

    /// Returns the value of `submodule.fetchjobs` or `fetch.recursesubmodules` in `.gitmodules`.
    pub fn general<T>(&self, key: &Key<T>) -> Option<BString> {
        self.modules.borrow().general(key).map(BStr::to_owned)
    }

    fn dir(&self, path: &BStr) -> PathBuf {
        self.top.join(sys::os_str(path))
    }

    /// Git's `is_submodule_active`.
    pub fn is_active(&self, path: &BStr) -> Result<bool, Error> {
        match self.name(path) {
            Some(name) => self.is_active_as(name.as_bstr(), path),
            None => Ok(false),
        }
    }

    /// Like [`Submodules::is_active`], for a submodule that has this name in another commit.
    pub fn is_active_as(&self, name: &BStr, path: &BStr) -> Result<bool, Error> {
        let name = name.to_str_lossy();
        if let Some(active) = self.context.repo.config(&keys::submodule::ONE_ACTIVE.of(&name))? {
            return Ok(active);
        }
        let specs = self.context.repo.config_all(&keys::submodule::ACTIVE);
        if !specs.is_empty() {
            let root = self.top.as_os_str().as_bytes().as_bstr();
            let specs = Pathspecs::parse(&specs, "".into(), root, Defaults::default())
                .map_err(|error| Error::Failed(error.message))?;
            return Ok(specs.matches_entry(path, Mode::GITLINK, &mut Seen::default()));
        }
        Ok(self.context.repo.config_str(&keys::submodule::ONE_URL.of(&name)).is_some())
    }

    fn populated(&self, path: &BStr) -> Populated {
        let gitfile = self.dir(path).join(".git");
        match self.context.repo.read_gitfile(&gitfile) {
            Ok(_) => Populated::File,
            Err(GitfileError::IsADirectory) if self.context.repo.is_git_directory(&gitfile) => {
                Populated::Directory
            }
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
    pub fn validate(&self, path: &BStr) -> Result<(), Error> {
        let is_link = |path: &BStr| {
            by_path::stat(&self.dir(path))
                .ok()
                .flatten()
                .is_some_and(|stat| stat.file_type == FileType::Symlink)
        };
        for slash in path.find_iter("/") {
            let above = path[..slash].as_bstr();
            if is_link(above) {
                return Err(Error::LinkInSubmodulePath { link: above.to_owned(), path: path.to_owned() });
            }
        }
        if is_link(path) { Err(Error::LinkForSubmodule(path.to_owned())) } else { Ok(()) }
    }

    fn open(&self, path: &BStr) -> Result<Repository, Error> {
        let opened = self.context.repo.submodule(path)?;
        opened.ok_or_else(|| Error::Failed("not a git repository: '.git'".into()))
    }

    /// Runs `read-tree` in the submodule. Reports its errors, and returns false if it failed.
    fn read_tree(&self, path: &BStr, change: InSubmodule) -> Result<bool, PlanError> {
        let task = change.task;
        let lead = text!(self.lead, path, "/");
        let done = self
            .open(path)
            .and_then(|submodule| Ok((Settings::read(&submodule, self.context.events)?, submodule)))
            .map_err(PlanError::from)
            .and_then(|(settings, submodule)| {
                let context = Context { repo: &submodule, settings: &settings, ..self.context };
                self.mover.expect("set by the transaction")(context, change, lead)
            });
        match done {
            Ok(done) => Ok(done),
            Err(PlanError::Failed(Error::Interrupted)) => Err(Error::Interrupted.into()),
            // Nothing was changed yet.
            Err(PlanError::Unsupported(what)) if task == SubmoduleTask::Check => {
                Err(PlanError::Unsupported(what))
            }
            Err(error) => {
                self.report(Notice::SubmoduleFailed(Box::new(Error::from(error))));
                Ok(false)
            }
        }
    }

    fn report(&self, notice: Notice) {
        self.context.events.notice(notice);
    }

    fn report_warning(&self, text: BString) {
        self.report(Notice::Submodule(text));
    }

    fn report_error(&self, text: BString) {
        self.report(Notice::SubmoduleError(text));
    }

    /// Git's `submodule_has_dirty_index`.
    fn has_dirty_index(&self, path: &BStr) -> Result<bool, Error> {
        let submodule = self.open(path)?;
        let settings = Settings::read(&submodule, self.context.events)?;
        let index = load_index(Context { repo: &submodule, settings: &settings, ..self.context })?;
        Ok(checkout::is_anything_staged(&submodule, &index)?)
    }

    /// Git's `submodule_move_head`, as a dry run.
    fn check(&self, path: &BStr, from: Start, to: Option<ObjectId>, force: Force) -> Result<bool, PlanError> {
        if from == Start::Nothing && self.is_missing_or_empty(path) {
            return Ok(true);
        }
        if !self.is_active(path)? || from != Start::Nothing && self.populated(path) == Populated::No {
            return Ok(true);
        }
        self.validate(path)?;
        if from != Start::Nothing && force == Force::No && self.has_dirty_index(path)? {
            self.report_error(text!("submodule '", path, "' has dirty index"));
            return Ok(false);
        }
        let done = self.read_tree(path, InSubmodule { task: SubmoduleTask::Check, force, from, to })?;
        if !done {
            self.report_error(text!("Submodule '", path, "' could not be updated."));
        }
        Ok(done)
    }

    /// Detects errors that would be fatal to Git halfway, before anything is changed. `plan` is the
    /// superproject's.
    pub fn prepare(&self, plan: &Plan) -> Result<(), Error> {
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
                let place = connect::place(self.context.repo, self.context.events, name.as_bstr())?;
                if !self.context.repo.is_git_directory(&place) {
                    let way = engine::worktree::admin::relative(&place, &self.dir(path));
                    let none = format!("not a git repository: {}", way.display());
                    self.report(Notice::SubmoduleFatal(none.into()));
                    return Err(Error::Failed("could not reset submodule index".into()));
                }
            }
        }
        if let Some(before) = before {
            *self.after.borrow_mut() = Some(self.modules.replace(before));
        }
        Ok(())
    }

    fn check_movable(&self, path: &BStr) -> Result<(), Error> {
        if !self.is_active(path)? {
            return Ok(());
        }
        self.validate(path)?;
        if self.populated(path) == Populated::Directory {
            return Err(Error::NotSupported("taking along a submodule with a .git directory of its own"));
        }
        Ok(())
    }

    /// Empties the worktrees of the submodules that the plan removes. With force, their changes are
    /// lost.
    pub fn remove_worktrees(&self, plan: &Plan, force: Force) -> Result<(), Error> {
        for removal in plan.removals.iter().filter(|removal| removal.gitlink) {
            self.context.check_interrupt()?;
            self.remove_worktree(removal.path.as_bstr(), force)?;
        }
        if let Some(after) = self.after.take() {
            *self.modules.borrow_mut() = after;
        }
        Ok(())
    }

    fn remove_worktree(&self, path: &BStr, force: Force) -> Result<(), Error> {
        if !self.is_active(path)? || self.populated(path) == Populated::No {
            return Ok(());
        }
        let name = self.name(path).expect("an active submodule has one");
        self.validate(path)?;
        let place = connect::place(self.context.repo, self.context.events, name.as_bstr())?;
        self.connect(path, &place, Nested::Keep)?;
        if !self
            .read_tree(path, InSubmodule { task: SubmoduleTask::Move, force, from: Start::Head, to: None })?
        {
            self.report_error(text!("Submodule '", path, "' could not be updated."));
            return Ok(());
        }
        let dir = self.dir(path);
        if let Err(error) = whole::remove_gitfile(&dir) {
            self.report_warning(text!("unable to unlink '", path, "/.git': ", sys::reason(&error)));
        }
        if by_path::list(&dir).is_ok_and(|names| names.is_empty())
            && let Err(error) = whole::remove_empty(&dir)
        {
            self.report_warning(text!("unable to rmdir '", path, "': ", sys::reason(&error)));
        }
        connect::disconnect(self.context, &place, path);
        Ok(())
    }

    /// Moves the submodules that the plan writes, after the superproject's own files. Records in
    /// `report` the ones that were not reached. Returns true if all were moved.
    pub fn move_worktrees(&self, plan: &Plan, report: &mut Report, force: Force) -> Result<bool, Error> {
        let mut all = true;
        let mut ended = Ok(());
        for (at, path, commit) in links(plan) {
            let made = match report.writes[at] {
                Outcome::Written(_) => true,
                Outcome::Kept => false,
                _ => continue,
            };
            if ended.is_ok() {
                ended = self.context.check_interrupt();
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

    fn move_worktree(&self, path: &BStr, commit: ObjectId, made: bool, force: Force) -> Result<bool, Error> {
        if !self.is_active(path)? {
            return Ok(true);
        }
        let name = self.name(path).expect("an active submodule has one");
        self.validate(path)?;
        let place = connect::place(self.context.repo, self.context.events, name.as_bstr())?;
        let from = match self.populated(path) {
            Populated::No => {
                connect::connect(&self.dir(path), &place, self.context.settings)?;
                // The index of a killed run, or of `submodule deinit`, does not describe the
                // current files.
                let forced = Force::OverwriteUntracked;
                let task = SubmoduleTask::EmptyIndex;
                let from = Start::Nothing;
                if !self.read_tree(path, InSubmodule { task, force: forced, from, to: None })? {
                    return Err(Error::Failed("could not reset submodule index".into()));
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
        if !self.read_tree(path, InSubmodule { task: SubmoduleTask::Move, force, from, to: Some(commit) })? {
            self.report_error(text!("Submodule '", path, "' could not be updated."));
            return Ok(false);
        }
        let submodule = self.open(path)?;
        let settings = Settings::read(&submodule, self.context.events)?;
        let refs = refs::options(Context { repo: &submodule, settings: &settings, ..self.context })?;
        if let Err(error) = switch::move_head(&refs, Target::Commit(commit), "".into()) {
            self.report(Notice::SubmoduleFatal(error.to_string().into()));
            return Ok(false);
        }
        Ok(true)
    }

    /// Connects the submodule and all active ones within it with their repositories. Returns true
    /// if the new ones could be checked out.
    fn connect(&self, path: &BStr, place: &Path, without: Nested) -> Result<bool, Error> {
        connect::connect(&self.dir(path), place, self.context.settings)?;
        let submodule = self.open(path)?;
        let settings = Settings::read(&submodule, self.context.events)?;
        let context = Context { repo: &submodule, settings: &settings, ..self.context };
        let index = load_index(context)?;
        let link = |at| (index.path_at(at), index.entry(at).oid);
        let mut links: Vec<(&BStr, ObjectId)> = index.gitlinks().map(link).collect();
        links.dedup_by_key(|link| link.0);
        if links.is_empty() {
            return Ok(true);
        }
        let nested = Submodules::new(context, &index, "".into())?;
        let nested = Submodules { mover: self.mover, ..nested };
        let mut all = true;
        for (link, commit) in links {
            let Some(name) = nested.name(link).filter(|_| nested.is_active(link).is_ok_and(|active| active))
            else {
                continue;
            };
            let place = connect::place(&submodule, context.events, name.as_bstr())?;
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
                    let made = self.context.settings.locks.shared.create_dir_all(&nested.dir(link));
                    made.map_err(|error| {
                        let place = text!(path, "/", link, "/.git");
                        let reason = sys::reason(&error);
                        Error::Failed(text!("could not create directories for ", place, ": ", reason))
                    })?;
                    all &= nested.move_worktree(link, commit, true, Force::No)?;
                }
                Populated::No => {}
            }
        }
        Ok(all)
    }

    fn warn(&self, modules: &Modules) {
        modules.warnings().iter().for_each(|warning| self.report_warning(warning.clone()));
    }

    /// Returns the new `.gitmodules`, if the plan writes it.
    fn recorded(&self, plan: &Plan) -> Result<Option<Modules>, Error> {
        let written = plan.writes.iter().filter(|write| plan.index.path_at(write.entry) == GITMODULES);
        let mut found =
            written.map(|write| plan.index.entry(write.entry)).filter(|entry| !entry.mode.is_gitlink());
        let Some(entry) = found.next() else { return Ok(None) };
        self.warned.set(true);
        let mut reader = self.context.repo.objects().reader();
        let (_, content) = reader.read(&entry.oid)?;
        let file = self.top.join(GITMODULES).display().to_string();
        let modules = Modules::parse(content, &file)?;
        self.warn(&modules);
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
            Err(PlanError::Failed(Error::Interrupted)) => Ok(true),
            Err(PlanError::Unsupported(what)) => Err(LookError::Unsupported(what)),
            Err(PlanError::Failed(error)) => match as_fatal(error) {
                Ok(message) => Err(LookError::SubmoduleRefused(message)),
                Err(error) => {
                    self.report(Notice::SubmoduleFailed(Box::new(error)));
                    Ok(false)
                }
            },
        }
    }
}

/// Returns the message of an error that ends the whole operation in Git, or the error if it ends
/// only the move of one submodule.
pub fn as_fatal(error: Error) -> Result<BString, Error> {
    match error {
        Error::LinkInSubmodulePath { .. }
        | Error::LinkForSubmodule(_)
        | Error::Refused(_)
        | Error::Store(_)
        | Error::WriteIndex(_)
        | Error::Config(_) => Err(error),
        Error::Failed(message) => Ok(message),
        other => Ok(other.to_string().into()),
    }
}

/// Returns the submodules that a plan writes: index of the step, path, commit.
fn links(plan: &Plan) -> impl Iterator<Item = (usize, &BStr, ObjectId)> {
    let entries = plan.writes.iter().map(|write| write.entry).enumerate();
    let links = entries.filter(|(_, at)| plan.index.mode_at(*at).is_gitlink());
    links.map(|(step, at)| (step, plan.index.path_at(at), plan.index.entry(at).oid))
}

/// Returns the files and symlinks that the plan removes or replaces.
fn removed_paths(plan: &Plan) -> impl Iterator<Item = &BStr> {
    let removed =
        plan.removals.iter().filter(|removal| !removal.gitlink).map(|removal| removal.path.as_bstr());
    let replaced =
        plan.writes.iter().filter(|write| matches!(write.premise, Premise::Unchanged(_) | Premise::Anything));
    removed.chain(replaced.map(|write| plan.index.path_at(write.entry)))
}
