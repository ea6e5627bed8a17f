//! Clone: a repository is copied into a new directory, and its branch is checked out.
//!
//! Order: source and destination, which the plan examines; the new repository, its objects, its
//! refs; the worktree; the hook `post-checkout`; the end, which publishes the clone. A failure
//! before the worktree leaves nothing behind. A later one leaves the clone, and the same request
//! finishes it. So does the same request after a kill.
//!
//! Credentials come from the helpers and programs that the configuration and the environment name,
//! as in Git. The notices about what the server and the steps said come when the transfer has
//! ended. Submodules are cloned by [`crate::submodule::clone`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Silent, clone};
//!
//! let source = "https://example.com/a.git".into();
//! let request = clone::Request { source, ..clone::Request::default() };
//! let plan = clone::plan(".".as_ref(), std::env::vars_os().collect(), request)?;
//! print!("{plan}");
//! let report = plan.run(&Silent)?;
//! println!("{} files in {}", report.written, report.git_dir.display());
//! # Ok(())
//! # }
//! ```

mod based;
mod helper;
mod mirror;
mod worktree;

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use bstr::{BString, ByteSlice as _};
use engine::clone::{self, Caller, Cloned, Event, Kind, Options, Seed, Worktree};
pub use engine::clone::{Filter, Reference};
use format::ObjectId;
pub use repo::pack_indexing::Meter;
use repo::{OpenOptions, StandaloneConfig, wire};
pub use wire::AddressFamily;

pub use based::{BaseRemote, BaseSource, Need, Search};
pub use helper::{git_in, run_helper};
pub use mirror::ForMirror;
pub use worktree::{Checkout, check_out, open};

use crate::{
    Context, Error, Events, Notice, PlanError, RunError, hooks,
    lazy::lazy,
    repository::{Environment, outside},
    said::Said,
    settings::{
        Settings,
        refused::{self, Reader},
    },
    status::messages,
    transaction::{Done, Unfilled},
};

/// The options of a clone.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A path, a URL or a bundle.
    pub source: BString,
    /// The new directory, relative to that of the plan; `None` to guess it from the source.
    pub directory: Option<BString>,
    /// The branch or tag to check out instead of the source's HEAD.
    pub branch: Option<BString>,
    /// The only revision to take. There are no branches then.
    pub revision: Option<BString>,
    /// No worktree.
    pub bare: bool,
    /// No worktree, and all refs as they are in the source.
    pub mirror: bool,
    /// The worktree stays empty.
    pub no_checkout: bool,
    /// Take one branch only; `None` for yes if the history is limited, or begins with a base.
    pub single_branch: Option<bool>,
    /// Take no tags.
    pub no_tags: bool,
    /// The name of the remote; `None` for `clone.defaultRemoteName`, else `origin`.
    pub origin: Option<BString>,
    /// Copy or link the files of a source on this machine; `None` for yes if it is a path.
    pub local: Option<bool>,
    /// Copy files instead of linking them.
    pub no_hardlinks: bool,
    /// Borrow the objects of the source.
    pub shared: bool,
    /// Repositories whose objects are borrowed.
    pub references: Vec<Reference>,
    /// Copy the borrowed objects afterwards.
    pub dissociate: bool,
    /// Refuse a source that is shallow; `None` for `clone.rejectShallow`.
    pub reject_shallow: Option<bool>,
    /// The number of commits to take from each branch.
    pub depth: Option<u32>,
    /// Take no commits before this moment, in seconds since the epoch.
    pub shallow_since: Option<i64>,
    /// Take no commits that these refs contain.
    pub shallow_exclude: Vec<BString>,
    /// The objects to leave out.
    pub filter: Option<Filter>,
    /// The submodules that are active in the new repository: pathspecs, `.` for all.
    /// [`crate::submodule::clone`] clones them.
    pub submodules: Vec<BString>,
    /// Settings of the new repository, `<key>=<value>`.
    pub config: Vec<BString>,
    /// The directory of templates; an empty one for none; `None` for the configured one, else
    /// Git's.
    pub template: Option<BString>,
    /// The Git directory, apart from the worktree.
    pub separate_git_dir: Option<BString>,
    /// The program `git-upload-pack` of the other side.
    pub upload_pack: Option<BString>,
    /// Options for the server.
    pub server_options: Vec<BString>,
    /// The addresses to connect to.
    pub family: AddressFamily,
    /// The remotes of bases, one of which may have the base of a commit with which the clone
    /// begins. The new repository is a partial clone then: the contents of its worktree come from
    /// the base, and from the server if they are newer.
    pub bases: Vec<BaseRemote>,
    /// Objects that came are kept if the transfer breaks off, for the same request.
    pub resumable: bool,
    /// Ask the server for progress, and report that of the files.
    pub progress: bool,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The Git directory.
    pub git_dir: PathBuf,
    /// The worktree; `None` for a bare clone.
    pub work_tree: Option<PathBuf>,
    /// The commit that is checked out; `None` if the worktree is empty.
    pub commit: Option<ObjectId>,
    /// The number of files that were written.
    pub written: usize,
    /// The paths whose names are equal on this file system. One of each name was written.
    pub collided: Vec<BString>,
    /// The exit code of the hook `post-checkout`; 0 without a hook.
    pub hook: u8,
}

/// A clone that can run.
pub struct Plan {
    prepared: clone::Prepared,
    open: OpenOptions,
    bases: Vec<BaseRemote>,
    interrupt: Arc<AtomicBool>,
    meter: Arc<Meter>,
    progress: bool,
    notices: Vec<Notice>,
}

/// Examines source and destination. Changes nothing, and contacts nobody. `dir` is the directory
/// that relative paths begin at, `environment` the variables that Git would read.
pub fn plan(dir: &Path, environment: Environment, request: Request) -> Result<Plan, PlanError> {
    let absolute = std::path::absolute(dir);
    let dir = absolute.map_err(|source| Error::CannotOpen { path: dir.to_owned(), source })?;
    plan_with(outside(dir, environment), request, Arc::default())
}

/// As [`plan`], with these options and this flag that stops the clone.
pub(crate) fn plan_with(
    open: OpenOptions,
    request: Request,
    interrupt: Arc<AtomicBool>,
) -> Result<Plan, PlanError> {
    let open = lazy(open, &interrupt);
    let config = StandaloneConfig::load(&open).map_err(Error::from)?;
    let readers = [Reader::Every, Reader::Repository, Reader::Hooks, Reader::Clone];
    refused::check_outside(&config, &readers).map_err(Error::from)?;
    let progress = request.progress;
    let (names_program, bases) = (request.upload_pack.is_some(), request.bases.clone());
    let meter = Arc::<Meter>::default();
    let options = Options { receiving: Arc::clone(&meter), ..request.options(&open, &interrupt) };
    let prepared = clone::prepare(options).map_err(Error::from)?;
    if names_program && prepared.copies_files() {
        return Err(PlanError::Unsupported("programs of a repository whose files are copied"));
    }
    if let Kind::Bundle { path } = &prepared.source().kind
        && !clone::is_complete_bundle(path)
    {
        return Err(PlanError::Unsupported("bundles that need commits"));
    }
    let warning = check_password(&config, &prepared)?;
    let notices = warning.map(Notice::Fetch).into_iter().collect();
    Ok(Plan { prepared, open, bases, interrupt, meter, progress, notices })
}

impl Request {
    /// Returns true if one branch is taken.
    pub(crate) fn takes_single_branch(&self) -> bool {
        self.single_branch.unwrap_or(
            self.depth.is_some()
                || self.shallow_since.is_some()
                || !self.shallow_exclude.is_empty()
                || !self.bases.is_empty(),
        )
    }

    fn options(self, open: &OpenOptions, interrupt: &Arc<AtomicBool>) -> Options {
        let path = open.env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        Options {
            single_branch: self.takes_single_branch(),
            source: self.source,
            directory: self.directory,
            branch: self.branch,
            revision: self.revision,
            bare: self.bare,
            mirror: self.mirror,
            no_checkout: self.no_checkout,
            no_tags: self.no_tags,
            origin: self.origin,
            // With a base the repository lacks objects, so its source cannot be copied.
            local: self.local.or((!self.bases.is_empty()).then_some(false)),
            no_hardlinks: self.no_hardlinks,
            shared: self.shared,
            references: self.references,
            dissociate: self.dissociate,
            reject_shallow: self.reject_shallow,
            depth: self.depth.map(|depth| depth.to_string().into()),
            shallow_since: self.shallow_since,
            shallow_exclude: self.shallow_exclude,
            filter: self.filter,
            submodules: self.submodules,
            config: self.config,
            template: self.template,
            default_template: default_template(None, &path),
            separate_git_dir: self.separate_git_dir,
            upload_pack: self.upload_pack,
            server_options: self.server_options,
            family: self.family,
            resumable: self.resumable,
            interrupt: Some(Arc::clone(interrupt)),
            remote_progress: self.progress,
            workers: workers(),
            open: open.clone(),
            ..Options::default()
        }
    }
}

/// Returns the warning about a password in the source's URL, or refuses it
/// (`transfer.credentialsInUrl`).
pub fn check_password(
    config: &StandaloneConfig,
    prepared: &clone::Prepared,
) -> Result<Option<BString>, Error> {
    let client = wire::Client::of(config);
    let url = client.url(prepared.source().url.as_bstr());
    client.check_password(&url).map_err(|error| Error::failed(error.to_string()))
}

/// Returns the number of threads that copy and check the objects of a clone: one for each core.
pub fn workers() -> usize {
    sys::cores()
}

/// Returns Git's own templates: beside the program `git`, or the one that is found in the
/// directories `path`, or where Git is usually installed.
pub fn default_template(git: Option<&Path>, path: &OsString) -> Option<PathBuf> {
    let found = || std::env::split_paths(path).map(|dir| dir.join("git")).find(|git| git.is_file());
    let git = git.map(Path::to_owned).or_else(found);
    let prefix = git.and_then(|git| Some(git.canonicalize().ok()?.parent()?.parent()?.to_owned()));
    prefix
        .into_iter()
        .chain(["/usr".into(), "/usr/local".into()])
        .map(|prefix| prefix.join("share/git-core/templates"))
        .find(|templates| templates.is_dir())
}

impl Plan {
    /// Returns the flag that stops a running clone at its next step, for a handler of signals.
    pub fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupt)
    }

    /// Returns the counters of the objects that arrive, for a caller that shows progress.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Reports the notices, clones, and fills the worktree.
    pub fn run(mut self, events: &impl Events) -> Result<Report, RunError> {
        std::mem::take(&mut self.notices).into_iter().for_each(|notice| events.notice(notice));
        let mut cloned = self.run_engine(events)?;
        let mut report = Report {
            git_dir: cloned.git_dir.clone(),
            work_tree: cloned.work_tree.clone(),
            ..Report::default()
        };
        if let Worktree::Branch(oid) | Worktree::Detached(oid) = cloned.worktree
            && let Err(Unfilled { error, is_resumable }) = self.fill(events, &mut cloned, oid, &mut report)
        {
            // A later run finishes a clone that is not published.
            if !is_resumable {
                cloned.publish().map_err(Error::from)?;
            }
            return Err(Error::from(*error).into());
        }
        cloned.publish().map_err(Error::from)?;
        Ok(report)
    }

    /// Makes the clone without its worktree.
    fn run_engine(&self, events: &dyn Events) -> Result<Cloned, Error> {
        let said = Said::default();
        let hear = |event: Event<'_>| match event {
            Event::Remote(bytes) => said.remote(bytes),
            Event::Warning(text) => said.warning(text),
            Event::Error(text) => said.error(text),
            Event::Info(text) => said.info(text),
            Event::Begin { .. } | Event::DefaultBranch(_) | Event::Received | Event::Done => {}
        };
        let base = (!self.bases.is_empty()).then(|| self.base_source(events));
        let cloned = self.prepared.run(&Caller {
            events: &hear,
            run_helper: &|command| run_helper(events, &self.prepared, command),
            seed: base.as_ref().map(|base| base as &dyn Seed),
            interrupt: &self.interrupt,
        });
        said.report(events);
        let why = || base.as_ref().and_then(BaseSource::take_failure);
        cloned.map_err(|error| why().unwrap_or_else(|| error.into()))
    }

    fn base_source<'a>(&'a self, events: &'a dyn Events) -> BaseSource<'a> {
        BaseSource {
            remotes: &self.bases,
            open: OpenOptions { config: self.prepared.config().to_vec(), ..self.open.clone() },
            interrupt: Arc::clone(&self.interrupt),
            events,
            workspace: None,
            progress: Some(self.progress),
            search: Search::default(),
        }
    }

    fn fill(
        &self,
        events: &dyn Events,
        cloned: &mut Cloned,
        oid: ObjectId,
        report: &mut Report,
    ) -> Result<(), Unfilled> {
        let repo = open(&self.open, cloned).map_err(worktree::resumable)?;
        messages::about_objects(&repo, events);
        let settings = Settings::read(&repo, events).map_err(worktree::resumable)?;
        let (repo, settings, interrupt) = (&repo, &settings, &*self.interrupt);
        let context = Context { repo, settings, events, interrupt, hands_over: false };
        let checkout = Checkout { commit: oid, progress: self.progress, keep: None };
        let filled = check_out(context, cloned, checkout)?;
        if filled.done != Done::Complete {
            let error = Box::new(Error::NotCheckedOut.into());
            return Err(Unfilled { error, is_resumable: filled.is_resumable });
        }
        report.commit = Some(oid);
        (report.written, report.collided) = (filled.written, filled.collided);
        report.hook = hooks::post_checkout(context, None, Some(oid), true).map_err(worktree::resumable)?;
        Ok(())
    }
}

/// The source and the new directory.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "clone {} into {}", self.prepared.source().url, self.prepared.directory())
    }
}
