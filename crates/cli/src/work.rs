//! One change of worktree and index, from lock to commit: what the commands share.
//!
//! Order: `index.lock`, the index, the plan; steps; the index as it then truly is, committed. A
//! refusal, an error while planning, or a signal before the first step leaves everything as it was,
//! and the lock gone. A signal later, or an error that Git dies of, stops the steps; what was done is
//! recorded, then the process ends by the signal or with that error.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use bstr::{BString, ByteSlice as _, ByteVec as _};
use engine::checkout::{
    self, Action, Attributes, ExecuteOptions, Files, Follow, Force, IndexOptions, Links, LocalChange, Merge,
    Outcome, Plan, PlanError, PlanOptions, RefusalKind, Sparse, StepError, Unclean,
};
use engine::sparse::{self, Patterns};
use format::{
    ObjectId,
    index::{Entry, Index, Stage},
};
use repo::{Repository, convert::Metadata};

use crate::{
    console::{self, text},
    failure::Failure,
    global::Invocation,
    hook::{self, Changed},
    progress::Progress,
    recursion::{self, Submodules},
    settings::Settings,
    sparse_index::{self, Read, Tell},
};

/// A locked index and the worktree it describes.
pub(crate) struct Work<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    dry_run: bool,
    worktree: sys::Dir,
    lock: Option<store::Lock>,
    /// What is refused is to be merged, which is not done here.
    pub(crate) merges: bool,
    /// Set by a clone: see [`Links`].
    links: Links,
    /// Show `Updating files`.
    pub(crate) progress: bool,
    /// What long-running filters are told about where the files come from.
    pub(crate) metadata: Metadata,
    /// Whose attributes files are written by.
    pub(crate) attributes: Attributes,
    /// Say nothing of refusals.
    pub(crate) quiet: bool,
    /// Where the index goes instead of its place.
    pub(crate) output: Option<PathBuf>,
    /// Submodules go along.
    pub(crate) recurses: bool,
    /// Where this worktree is in that of its superproject, with a slash at the end, if it is moved with it.
    pub(crate) lead_of_submodule: BString,
    submodules: Option<Submodules<'a>>,
    /// What of their local changes may be lost.
    force_on_submodules: Force,
    /// What stands before paths in messages, and before names on disk.
    prefix: BString,
    lead: BString,
    /// The index, as loaded or as last planned.
    pub(crate) index: Index,
    /// The sparse index that it was, if Git's would be that still.
    pub(crate) before: Option<Index>,
    /// Whether it is written sparse.
    pub(crate) collapse: Collapse,
    unclean: Vec<Unclean>,
    /// Entries written.
    pub(crate) written: usize,
    /// Paths whose names are the same on this file system.
    collided: Vec<BString>,
    /// The steps ended before their time: by a signal, or for the reason given.
    pub(crate) stopped: bool,
    /// What the hook is told.
    pub(crate) changed: Changed,
    fatal: Option<String>,
    /// Something that is not ours was found where an entry belongs, and stays.
    in_the_way: bool,
    pub(crate) rest: Rest,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing: it was a dry run, and the plan has been printed.
    Planned,
    /// All.
    Complete,
    /// Some steps failed; their errors have been printed.
    Incomplete,
    /// The same, and what was not done is for the same command to do, run again: see [`Rest::Again`].
    Unfinished,
}

/// What is made of steps that failed and may not fail the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The index says what should be there, as Git's: what is not is a local change.
    #[default]
    Shown,
    /// The index says what was done, so that the same command does the rest.
    Again,
}

/// What became of a clone's worktree.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) done: Done,
    /// Entries written.
    pub(crate) written: usize,
    /// Paths whose names are the same on this file system.
    pub(crate) collided: Vec<BString>,
}

/// Whether a change of the index is written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It is.
    Yes,
    /// `restore --source` changes the worktree alone.
    No,
}

impl<'a> Work<'a> {
    /// Locks and loads. A dry run takes no lock.
    pub(crate) fn start(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let root =
            repo.work_tree().ok_or_else(|| Failure::fatal("this operation must be run in a work tree"))?;
        Work::start_at(root, run, repo, settings, dry_run, Loaded::Index(Tell::Hint))
    }

    /// For a plan that changes the index alone: there need not be a worktree.
    pub(crate) fn start_index_only(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let root = repo.work_tree().unwrap_or(repo.git_dir());
        Work::start_at(root, run, repo, settings, dry_run, Loaded::Index(Tell::Hint))
    }

    /// For who only reads the index: it is neither locked nor written.
    pub(crate) fn start_reading(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
    ) -> Result<Self, Failure> {
        let mut work = Work::start(run, repo, settings, true)?;
        work.dry_run = false;
        Ok(work)
    }

    /// For an index made from nothing: the one that is there is not looked at.
    pub(crate) fn start_afresh(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
    ) -> Result<Self, Failure> {
        let root = repo.work_tree().unwrap_or(repo.git_dir());
        Work::start_at(root, run, repo, settings, false, Loaded::Nothing)
    }

    fn start_at(
        root: &Path,
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        dry_run: bool,
        loaded: Loaded,
    ) -> Result<Self, Failure> {
        let worktree = sys::Dir::open(root)
            .map_err(|error| Failure::fatal(format!("cannot open '{}': {error}", root.display())))?;
        let path = repo.index_path();
        let lock = match dry_run {
            true => None,
            false => Some(store::index::lock(&path, &settings.locks)?),
        };
        let Read { index, before } = match loaded {
            Loaded::Index(tell) => read_index(repo, settings, &worktree, tell)?,
            Loaded::Nothing => Read { index: Index::empty(repo.hash()), before: None },
        };
        Ok(Work {
            run,
            repo,
            settings,
            dry_run,
            worktree,
            lock,
            merges: false,
            links: Links::TakePlace,
            progress: false,
            metadata: Metadata::default(),
            attributes: Attributes::default(),
            quiet: false,
            output: None,
            recurses: false,
            lead_of_submodule: BString::default(),
            submodules: None,
            force_on_submodules: Force::OverwriteUntracked,
            prefix: BString::default(),
            lead: BString::default(),
            index,
            before,
            collapse: Collapse::Configured,
            unclean: Vec::new(),
            written: 0,
            collided: Vec::new(),
            stopped: false,
            changed: Changed::default(),
            fatal: None,
            in_the_way: false,
            rest: Rest::default(),
        })
    }

    /// The worktree's root.
    pub(crate) fn worktree(&self) -> &sys::Dir {
        &self.worktree
    }

    /// Files are written to `place`, if there is one, under names that begin with `lead`; what is said of them
    /// begins with `prefix`.
    pub(crate) fn go_elsewhere(&mut self, place: Option<sys::Dir>, prefix: &[u8], lead: &[u8]) {
        if let Some(place) = place {
            self.worktree = place;
        }
        self.attributes = Attributes::Elsewhere;
        (self.prefix, self.lead) = (prefix.into(), lead.into());
    }

    /// What belongs in the worktree, if it is sparse; Git's warnings about that are told.
    pub(crate) fn patterns(&self) -> Result<Option<Arc<Patterns>>, Failure> {
        let Some(loaded) = sparse::load(self.repo)? else { return Ok(None) };
        loaded.warnings.iter().for_each(console::warning);
        Ok(Some(Arc::new(loaded.patterns)))
    }

    /// `<path>: needs merge` for each unmerged path, on standard output.
    pub(crate) fn list_unmerged(&self) {
        let mut last = BString::default();
        for entry in self.index.entries().iter().filter(|entry| entry.stage != Stage::Normal) {
            let path = self.index.path(entry);
            if path != last {
                console::out(text!(path, ": needs merge"));
                last = path.to_owned();
            }
        }
    }

    /// Compares every entry with its file; those that match are marked so, and their stat data is
    /// brought up to date.
    pub(crate) fn refresh(&mut self) -> Result<&[Unclean], Failure> {
        self.unclean = checkout::refresh(self.repo, &self.worktree, &mut self.index)?;
        Ok(&self.unclean)
    }

    /// Plans and carries out. A refusal gives the exit code `refusal`. With `changes`, local changes
    /// relative to that tree are listed at the end; the work must have been refreshed then.
    pub(crate) fn perform(
        mut self,
        options: &PlanOptions,
        refusal: u8,
        changes: Option<ObjectId>,
    ) -> Result<Done, Failure> {
        let done = self.plan_and_carry_out(options, refusal)?;
        if done == Done::Planned {
            return Ok(done);
        }
        self.finish(Recorded::Yes)?;
        if let Some(tree) = changes {
            if done != Done::Complete {
                self.refresh()?;
            }
            self.list_changes(tree)?;
        }
        Ok(done)
    }

    /// Plans, carries out and records for a clone. `goes_on` is set if it can be gone on with: when
    /// something was in the way, or stopped the steps.
    pub(crate) fn fill(mut self, options: &PlanOptions, goes_on: &mut bool) -> Result<Filled, Failure> {
        self.links = Links::GiveWay;
        self.rest = Rest::Again;
        let plan = self.plan(options, 128)?;
        *goes_on = true;
        let done = self.carry_out(plan)?;
        self.finish(Recorded::Yes)?;
        *goes_on = self.in_the_way || self.stopped || done == Done::Unfinished;
        Ok(Filled { done, written: self.written, collided: self.collided })
    }

    /// What a partial clone left out and the plan needs comes at once, before anything is changed.
    fn fetch_missing(&self, plan: &Plan) -> Result<(), Failure> {
        let entries = plan.writes.iter().map(|write| &plan.index.entries()[write.entry]);
        let blobs = entries.filter(|entry| !entry.mode.is_gitlink());
        Ok(self.repo.objects().fetch_missing(&mut blobs.map(|entry| entry.oid))?)
    }

    /// Carries out a plan; [`Work::finish`] is to follow.
    pub(crate) fn carry_out(&mut self, plan: Plan) -> Result<Done, Failure> {
        plan.warnings.iter().for_each(|text| console::raw(text));
        if self.dry_run {
            console::out(plan.to_string().trim_end());
            return Ok(Done::Planned);
        }
        let submodules = match self.submodules.take() {
            Some(submodules) => Some(submodules),
            None => self.submodules_of(&plan.index)?,
        };
        if let Some(submodules) = &submodules {
            submodules.prepare(&plan)?;
        }
        self.fetch_missing(&plan)?;
        self.run.interrupt.check()?;
        if let Some(submodules) = &submodules {
            submodules.leave(&plan, self.force_on_submodules)?;
        }
        let total = plan.writes.len() + plan.removals.len();
        let progress = Progress::new("Updating files", self.progress, self.settings.progress_delay);
        let filtered: OnceLock<Progress> = OnceLock::new();
        let filtering = |done: usize, delayed: usize, bytes: u64| {
            // Everything has been begun by now, as Git counts.
            progress.finish(total, total);
            let new = || Progress::new("Filtering content", self.progress, self.settings.progress_delay);
            filtered.get_or_init(new).update(done, delayed);
            if done == delayed {
                filtered.get_or_init(new).finish_bytes(done, delayed, bytes);
            }
        };
        let options = ExecuteOptions {
            filtering: &filtering,
            workers: self.settings.workers,
            threshold: self.settings.threshold,
            interrupt: self.run.interrupt.flag(),
            progress: &|done, total| progress.update(done, total),
            big_file_threshold: self.settings.big_file_threshold,
            symlinks: self.settings.symlinks,
            links: self.links,
            metadata: self.metadata.clone(),
            attributes: self.attributes,
            lead: &self.lead,
        };
        let mut report = checkout::execute(self.repo, &self.worktree, &plan, &options)?;
        if !report.interrupted {
            progress.finish(total, total);
        }
        for message in &report.messages {
            console::raw(format!("{message}\n").as_bytes());
        }
        for (step, outcome) in plan.removals.iter().zip(&report.removals) {
            tell(step.path.as_ref(), outcome);
        }
        for (step, outcome) in plan.writes.iter().zip(&report.writes) {
            let path = plan.index.path(&plan.index.entries()[step.entry]);
            match self.prefix.is_empty() {
                true => tell(path, outcome),
                false => tell(text!(self.prefix, path).as_ref(), outcome),
            }
        }
        self.fatal = report.fatal().map(ToString::to_string);
        let entry = |step: usize| &plan.index.entries()[plan.writes[step].entry];
        let dead = report.without_directory().map(|(step, error)| {
            let dir = missing_directory(&self.worktree, &text!(self.lead, plan.index.path(entry(step))));
            format!("cannot create directory at '{dir}': {}", sys::reason(error))
        });
        let died = dead.is_some();
        self.fatal = self.fatal.take().or(dead);
        let mut moved = true;
        if let Some(submodules) = submodules.filter(|_| !report.interrupted && !died) {
            match submodules.enter(&plan, &mut report, self.force_on_submodules) {
                Ok(all) => moved = all,
                // It is said when what was done is recorded.
                Err(Failure::Signal(_)) => {}
                Err(Failure::Fatal(message)) => self.fatal = Some(message.to_string()),
                Err(failure) => {
                    failure.say();
                    moved = false;
                }
            }
        }
        self.stopped = report.interrupted;
        let written =
            |outcome: &&Outcome| matches!(outcome, Outcome::Written(_) | Outcome::Collided(Some(_)));
        self.written = report.writes.iter().filter(written).count();
        self.collided.extend(report.collided().map(|step| plan.index.path(entry(step)).to_owned()));
        self.in_the_way = report.writes.iter().any(|outcome| matches!(outcome, Outcome::Stale));
        let done = if report.is_complete() && moved { Done::Complete } else { Done::Incomplete };
        let again = died || (self.rest == Rest::Again && report.can_be_finished());
        let done = if again && !report.interrupted { Done::Unfinished } else { done };
        self.index = if report.interrupted || again {
            let before = load_index(self.repo, self.settings, Tell::Nothing)?;
            checkout::record_interrupted(before, plan, &report)
        } else {
            checkout::record(plan, &report)
        };
        Ok(done)
    }

    /// Commits the index, or lets it be; then ends by what stopped the steps, if anything did.
    pub(crate) fn finish(&mut self, recorded: Recorded) -> Result<(), Failure> {
        if let (Some(mut lock), Recorded::Yes) = (self.lock.take(), recorded) {
            let output = self.output.take();
            let in_place = output.is_none();
            if let Some(output) = output {
                lock.deliver_to(output);
            }
            let full = self.make_sparse()?;
            let racy = checkout::RacyCheck::new(self.repo, &self.worktree, &self.index)?;
            let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
            let (options, fsync) = (&self.settings.index_write, &self.settings.fsync);
            let committed = store::index::commit(lock, &mut self.index, options, fsync, &is_modified);
            committed.map_err(|error| match in_place {
                true => error.into(),
                false => Failure::fatal("unable to write new index file"),
            })?;
            if let Some(full) = full {
                let timestamp = self.index.timestamp;
                self.index = full;
                self.index.timestamp = timestamp;
            }
            hook::post_index_change(self.run, self.repo, self.settings, self.changed)?;
        }
        self.run.interrupt.check()?;
        self.fatal.take().map_or(Ok(()), |message| Err(Failure::fatal(message)))
    }

    /// Makes the index sparse where Git's would be. What is given back is full.
    fn make_sparse(&mut self) -> Result<Option<Index>, Failure> {
        let settings = self.settings;
        if self.index.base.is_some() || settings.index_write.split == Some(true) {
            return Ok(None);
        }
        let patterns = match &self.collapse {
            Collapse::Configured => sparse_index::wanted(self.repo)?.map(Arc::new),
            Collapse::By(patterns) => patterns.clone(),
        };
        let Some(patterns) = patterns else { return Ok(None) };
        Ok(sparse_index::collapse(self.repo, settings, &mut self.index, self.before.as_ref(), &patterns))
    }

    /// Git makes the index full here, if it is not yet.
    pub(crate) fn needs_full(&mut self) -> Result<(), Failure> {
        match self.before.take() {
            Some(_) => sparse_index::expanded(self.repo, self.settings, &self.index, Tell::Hint),
            None => Ok(()),
        }
    }

    /// Git makes the index full to find `path`, if it is in a directory that stands as one entry.
    pub(crate) fn looks_for(&mut self, path: &bstr::BStr) -> Result<(), Failure> {
        match sparse_index::is_collapsed(self.before.as_ref(), path) {
            true => self.needs_full(),
            false => Ok(()),
        }
    }

    /// Git makes the index full to change what is in a directory that stands as one entry: `after` is the index as it will be.
    pub(crate) fn changes_collapsed(&mut self, after: &Index) -> Result<(), Failure> {
        match self.before.as_ref().is_some_and(|before| sparse_index::changes(before, after)) {
            true => self.needs_full(),
            false => Ok(()),
        }
    }

    fn list_changes(&self, tree: ObjectId) -> Result<(), Failure> {
        let found = checkout::local_changes(self.repo, &self.worktree, &self.index, tree, &self.unclean)?;
        for warning in &found.warnings {
            console::warning(warning);
        }
        for LocalChange { kind, path } in found.changes {
            let path = format::quote(path.as_ref(), self.settings.quote_path);
            console::out(text!([kind.letter()], "\t", path));
        }
        Ok(())
    }

    /// As [`Work::perform`], and then the index becomes all of `tree`: what the worktree kept of
    /// local changes shows as not staged.
    pub(crate) fn perform_then_index(
        mut self,
        options: &PlanOptions,
        refusal: u8,
        tree: ObjectId,
    ) -> Result<Done, Failure> {
        let done = self.plan_and_carry_out(options, refusal)?;
        if done != Done::Planned {
            if !self.stopped {
                let options = IndexOptions { tree, pathspecs: None, intent_to_add: false, sparse: None };
                let index = std::mem::replace(&mut self.index, Index::empty(self.repo.hash()));
                self.index = checkout::plan_index(self.repo, index, &options)?.index;
            }
            self.finish(Recorded::Yes)?;
        }
        Ok(done)
    }

    /// Plans, and lets it be.
    pub(crate) fn judge(mut self, options: &PlanOptions, refusal: u8) -> Result<(), Failure> {
        self.plan(options, refusal).map(drop)
    }

    fn plan(&mut self, options: &PlanOptions, refusal: u8) -> Result<Plan, Failure> {
        let mut options = options.clone();
        if let (Sparse::Configured, Files::Update) = (&options.sparse, options.files) {
            options.sparse = self.patterns()?.map_or(Sparse::Ignored, Sparse::By);
        }
        if let (Some(before), Merge::TwoWay { head: Some(head), target }) = (&self.before, &options.merge) {
            sparse_index::yield_to_files(self.repo, before, &mut self.index, *head, *target)?;
        }
        let index = std::mem::replace(&mut self.index, Index::empty(self.repo.hash()));
        self.changed = Changed::Worktree;
        // What is not looked at, and what is forced, is not asked.
        self.submodules = self.submodules_of(&index)?.filter(|_| options.files != Files::Ignore);
        self.force_on_submodules = options.force;
        let follow = self.submodules.as_ref().map(|submodules| submodules as &dyn Follow);
        let mut plan = checkout::plan_following(self.repo, &self.worktree, index, &options, follow)
            .map_err(|error| self.explain(error, options.operation, refusal))?;
        if let (Some(before), Merge::OneWay { .. } | Merge::TwoWay { .. }) = (&self.before, &options.merge) {
            sparse_index::leave_replaced(before, &mut plan);
        }
        Ok(plan)
    }

    /// The submodules, if they go along and there may be some.
    fn submodules_of(&self, index: &Index) -> Result<Option<Submodules<'a>>, Failure> {
        let is_there = || index.entries().iter().any(|entry| entry.mode.is_gitlink());
        if !self.recurses || !recursion::may_be_active(self.repo) && !is_there() {
            return Ok(None);
        }
        let (run, repo, settings) = (self.run, self.repo, self.settings);
        let lead = self.lead_of_submodule.as_bstr();
        Submodules::new(run, repo, settings, &self.worktree, index, lead).map(Some)
    }

    fn plan_and_carry_out(&mut self, options: &PlanOptions, refusal: u8) -> Result<Done, Failure> {
        let plan = self.plan(options, refusal)?;
        self.carry_out(plan)
    }

    /// What stopped planning, said in Git's way.
    pub(crate) fn explain(&self, error: PlanError, operation: &str, refusal: u8) -> Failure {
        match error {
            PlanError::Refused(_) if self.merges => Failure::unsupported("a merge of local changes"),
            PlanError::Refused(mut refusals) => {
                for refusal in &mut refusals {
                    refusal.path.insert_str(0, &self.lead_of_submodule);
                }
                if self.quiet {
                    refusals.retain(|refusal| refusal.kind == RefusalKind::InvalidPath);
                }
                let advice = self.settings.advises(self.repo, "commitBeforeMerge").unwrap_or(true);
                console::raw(&checkout::refusal_text(&refusals, operation, advice));
                Failure::Said(refusal)
            }
            PlanError::InvalidPath(path) => {
                console::error(text!("invalid path '", path, "'"));
                Failure::Said(refusal)
            }
            PlanError::NotTrivial => {
                if !self.quiet {
                    console::error(PlanError::NotTrivial.to_string());
                }
                Failure::Said(refusal)
            }
            PlanError::Unsupported(what) => Failure::Unserved(what),
            other => Failure::fatal(other.to_string()),
        }
    }
}

/// What a work begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loaded {
    Index(Tell),
    Nothing,
}

/// What an index is made sparse by when it is written.
#[derive(Clone, Debug)]
pub(crate) enum Collapse {
    /// The configuration.
    Configured,
    /// These patterns, or it is not.
    By(Option<Arc<Patterns>>),
}

/// The index as commands work with it: full, and entries whose files are there are not skipped.
pub(crate) fn read_index(
    repo: &Repository,
    settings: &Settings,
    worktree: &sys::Dir,
    tell: Tell,
) -> Result<Read, Failure> {
    let clears = sparse::is_on(repo)? && repo.work_tree().is_some() && !settings.expects_files;
    let index = load_raw(repo, settings)?;
    sparse_index::read(repo, settings, index, clears.then_some(worktree), tell)
}

/// The index as it is on disk, made full, without a lock.
pub(crate) fn load_index(repo: &Repository, settings: &Settings, tell: Tell) -> Result<Index, Failure> {
    let index = load_raw(repo, settings)?;
    Ok(sparse_index::read(repo, settings, index, None, tell)?.index)
}

/// The index as it is on disk: it may be sparse.
pub(crate) fn load_raw(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    store::index::load(&repo.index_path(), repo.hash(), &settings.index_read)
        .map_err(|error| Failure::fatal(error.to_string()))
}

/// The first directory on the way to `path` that is not there.
fn missing_directory(worktree: &sys::Dir, path: &[u8]) -> BString {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    let mut dirs = slashes.clone();
    let missing = dirs.find(|dir| !matches!(worktree.stat(dir), Ok(Some(_))));
    missing.or_else(|| slashes.clone().next_back()).unwrap_or_default().into()
}

/// Says what went wrong with one step.
fn tell(path: &bstr::BStr, outcome: &Outcome) {
    match outcome {
        // It stopped everything, and is said at the very end.
        Outcome::Failed(StepError::Convert(_)) => {}
        Outcome::Failed(StepError::Io { action: Action::CreateDirectory, .. }) => {}
        Outcome::Failed(error) => console::error(error.message(path)),
        Outcome::Left(error) => console::warning(error.message(path)),
        Outcome::Stale => console::error(text!("'", path, "' was changed meanwhile: left as it is")),
        _ => {}
    }
}
