//! Fetch: objects and refs from one remote, or from [`several`].
//!
//! Order: the plan reads the remote and the options, and contacts nobody. The run fetches the
//! bundles of `fetch.bundleURI`; lists the remote's refs and maps them; receives the missing
//! objects, and checks them; then changes the refs in one transaction, and `FETCH_HEAD`. A ref
//! changes only after all its objects are durable.
//!
//! Credentials come from the helpers and programs that the configuration and the environment name,
//! as in Git. The notices about what the server and the steps said come when the transfer has
//! ended. Submodules are not fetched; [`submodules`] selects them for a caller that does.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, fetch};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = fetch::Request { remote: Some("origin".into()), ..fetch::Request::default() };
//! let report = fetch::plan(&repository, request)?.run(&Silent)?;
//! for update in &report.fetched.updates {
//!     println!("{} -> {}", update.theirs, update.ours);
//! }
//! # Ok(())
//! # }
//! ```

mod partial;
mod prepare;
mod restrict;
pub mod several;
pub mod submodules;
mod unsupported;
mod upstream;

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    bundles::{self, Bundles},
    fetch,
};
pub use engine::{
    clone::Filter,
    fetch::{FetchHeadPolicy, Report as Fetched, map::Tags, remote::Remote},
};
pub use repo::{
    pack_indexing::Meter,
    wire::{AddressFamily, ConnectOptions, Limits},
};

use repo::keys;

pub use partial::become_partial;
pub use prepare::{Offered, Prepared, load, negotiation, prepare, remote};
pub use unsupported::{Unsupported, unsupported};
pub use upstream::set_upstream;

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    hooks,
    maintenance::{self, MaintenanceOutput},
    said::Said,
    settings::refused::{self, Reader},
    text,
};

/// The options of a fetch.
#[derive(Clone, Default)]
pub struct Request {
    /// The name of the remote, or a URL; `None` for that of the branch, else `origin`.
    pub remote: Option<BString>,
    /// The refspecs; those of the configuration if empty.
    pub refspecs: Vec<BString>,
    /// The refspecs that map [`Request::refspecs`] to refs, instead of the configured ones.
    pub refmap: Option<Vec<BString>>,
    /// The tags; `None` for `remote.<name>.tagOpt`.
    pub tags: Option<Tags>,
    /// Delete refs that the remote lacks; `None` for the configuration.
    pub prune: Option<bool>,
    /// Delete tags that the remote lacks; `None` for the configuration.
    pub prune_tags: Option<bool>,
    /// Write below `refs/prefetch/` only.
    pub prefetch: bool,
    /// Refs may lose commits.
    pub force: bool,
    /// Change all refs, or none.
    pub atomic: bool,
    /// Receive the objects, and change no ref.
    pub dry_run: bool,
    /// Keep the pack, with a file `.keep`.
    pub keep: bool,
    /// The branch of HEAD may change, and the worktree stays.
    pub update_head_ok: bool,
    /// Refs that need other shallow roots may change.
    pub update_shallow: bool,
    /// Fetch all objects, also those that are here.
    pub refetch: bool,
    /// Look for refs that lost commits; `None` for `fetch.showForcedUpdates`.
    pub forced_updates: Option<bool>,
    /// The treatment of `FETCH_HEAD`.
    pub fetch_head: FetchHeadPolicy,
    /// The part of the history. Its filter is [`Request::filter`].
    pub limits: Limits,
    /// The objects to leave out. The repository becomes a partial clone.
    pub filter: Option<Filter>,
    /// Ignore the filter of an earlier fetch.
    pub no_filter: bool,
    /// The refs whose history the negotiation offers; those of the configuration if empty.
    pub negotiation_tips: Vec<BString>,
    /// The objects that are always offered; those of the configuration if empty.
    pub negotiation_include: Vec<BString>,
    /// Make the fetched branch the upstream of HEAD's branch.
    pub set_upstream: bool,
    /// The text of reflogs (`GIT_REFLOG_ACTION`); empty for `fetch`.
    pub action: BString,
    /// Say nothing about the remote's HEAD.
    pub quiet: bool,
    /// The options of the connection.
    pub connect: ConnectOptions,
    /// Start Git's automatic maintenance afterwards; `None` for yes, unless it is a dry run.
    pub maintenance: Option<bool>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The refs.
    pub fetched: Fetched,
    /// The refs that were deleted.
    pub pruned: Vec<fetch::update::Update>,
    /// The symbolic refs whose target was deleted, and the target.
    pub dangling: Vec<(BString, BString)>,
    /// The branch of the remote's HEAD, if another one is recorded and
    /// `remote.<name>.followRemoteHEAD` asks for a warning.
    pub other_head: Option<BString>,
}

/// A fetch that can run.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    prepared: Prepared,
    notices: Vec<Notice>,
    /// The bundles of `fetch.bundleURI` are here.
    has_bundles: bool,
}

/// Reads the remote and the options. Changes nothing, and contacts nobody.
pub fn plan(repository: &Repository, mut request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    let readers = [Reader::Every, Reader::Repository, Reader::Refs];
    refused::check(repo, &readers).map_err(Error::from)?;
    repo.check_grafts().map_err(Error::from)?;
    unsupported::check_repository(repo)?;
    request.connect.interrupt.get_or_insert_with(|| repository.interrupt());
    if !request.refspecs.is_empty() {
        // Git prunes tags only if it fetches all that is configured.
        request.prune_tags = Some(false);
    }
    if request.action.is_empty() {
        request.action = "fetch".into();
    }
    let name = request.name(repo)?;
    if let Some(what) = unsupported(repo, name.as_bstr()) {
        return Err(PlanError::Unsupported(what.name()));
    }
    let prepared = prepare(context, remote(context, name.as_bstr())?, &request)?;
    Ok(Plan { repository, request, prepared, notices: notices.into_vec(), has_bundles: false })
}

impl Request {
    /// Returns the name or URL of the remote.
    fn name(&self, repo: &repo::Repository) -> Result<BString, Error> {
        match &self.remote {
            Some(name) => Ok(name.clone()),
            None => Ok(Remote::default_name(repo)?),
        }
    }
}

impl Plan<'_> {
    /// Reports the notices, and fetches. Ends with an error if no ref could be changed for a reason
    /// that concerns them all. [`Fetched::has_failures`] tells of single ones.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, request, prepared, notices, has_bundles } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let context = repository.context(events);
        let mut has_changed = !has_bundles && fetch_bundles(context, &request.connect)?;
        let remote = &prepared.remote.name;
        has_changed |=
            become_partial(context, remote, request.filter.as_ref().filter(|_| !request.no_filter))?;
        if !has_changed {
            return Ok(prepared.run_reporting(context, &request)?);
        }
        // The objects and refs of the bundles, and the settings of a partial clone.
        let repository = repository.again()?;
        let silent = repository.context(&crate::Silent);
        let prepared = prepare(silent, self::remote(silent, remote.as_bstr())?, &request)?;
        Ok(prepared.run_reporting(repository.context(events), &request)?)
    }
}

/// The URL, and the refspecs of the request, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "fetch {}", self.prepared.remote.url())?;
        self.request.refspecs.iter().try_for_each(|refspec| writeln!(formatter, "{refspec}"))
    }
}

impl Prepared {
    fn run_reporting(&self, context: Context<'_>, request: &Request) -> Result<Report, Error> {
        let meter = context.events.receiving().unwrap_or_default();
        let heard = Heard::default();
        let done = with_engine(context, &meter, &|event| heard.hear(event), |engine| self.run(engine));
        let mut report = heard.report(context.events);
        report.fetched = done?.map_err(Box::new).map_err(Error::Fetch)?;
        let fetched = &report.fetched;
        if request.set_upstream && !fetched.failed_early && fetched.failed_transaction.is_none() {
            set_upstream(context, &self.remote, fetched)?;
        }
        if request.maintenance.unwrap_or(true) && !request.dry_run {
            maintain(context, request.refetch, MaintenanceOutput::Quiet)?;
        }
        Ok(report)
    }
}

/// Starts Git's automatic maintenance. After [`Request::refetch`], which leaves many duplicate
/// objects, it repacks, unless the configuration forbids that.
pub fn maintain(context: Context<'_>, refetch: bool, output: MaintenanceOutput) -> Result<(), Error> {
    let mut hints = Vec::new();
    for (key, value) in [(keys::gc::AUTO_PACK_LIMIT, "1"), (keys::maintenance::INCREMENTAL_REPACK_AUTO, "-1")]
    {
        if refetch && context.repo.config(&key)? != Some(0) {
            hints.push(text!(key.name(), "=", value));
        }
    }
    maintenance::start_with(context, output, &hints)
}

/// The reports of the engine's fetch, which any thread may send.
#[derive(Default)]
struct Heard {
    said: Said,
    report: Mutex<Report>,
}

impl Heard {
    fn hear(&self, event: fetch::Event<'_>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            fetch::Event::Remote(bytes) => self.said.remote(bytes),
            fetch::Event::Warning(text) => self.said.warning(text),
            fetch::Event::Error(text) => self.said.error(text),
            fetch::Event::Pruned(updates) => report.pruned.extend_from_slice(updates),
            fetch::Event::Dangling(refs) => report.dangling.extend_from_slice(refs),
            fetch::Event::OtherHead { theirs, .. } => report.other_head = Some(theirs.to_owned()),
            fetch::Event::Mapped(_) | fetch::Event::Received => {}
        }
    }

    /// Reports the lines, and returns the rest.
    fn report(self, events: &dyn Events) -> Report {
        self.said.report(events);
        self.report.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a step of the engine's fetch with the settings of a context, its hook and these receivers.
/// `events` is called by any thread.
pub fn with_engine<T>(
    context: Context<'_>,
    meter: &Meter,
    events: &(dyn Fn(fetch::Event<'_>) + Sync),
    step: impl FnOnce(fetch::Context<'_>) -> T,
) -> Result<T, Error> {
    let Context { repo, settings, interrupt, .. } = context;
    let refs = settings.refs_with_hook(repo)?;
    let hook = |stage: store::refs::Stage, lines: &[u8]| {
        let code = hooks::reference_transaction(context, &stage.to_string(), lines);
        code.is_ok_and(|code| code == 0)
    };
    let has_hook = hooks::has_reference_transaction(context)?;
    Ok(step(fetch::Context {
        repo,
        refs: &refs,
        fsync: &settings.fsync,
        locks: &settings.locks,
        interrupt,
        meter,
        hook: has_hook.then_some(&hook as _),
        workers: settings.workers,
        events,
    }))
}

/// Fetches the bundles of `fetch.bundleURI`. Returns true if there may be new objects and refs.
fn fetch_bundles(context: Context<'_>, connect: &ConnectOptions) -> Result<bool, Error> {
    let repo = context.repo;
    let uri = repo.config_str(&keys::fetch::BUNDLE_URI).filter(|uri| !uri.is_empty());
    let Some(uri) = uri else { return Ok(false) };
    let heard = Heard::default();
    let meter = Meter::default();
    let done = with_engine(context, &meter, &|event| heard.hear(event), |engine| {
        Bundles { context: engine, connect, dir: repo.child_dir() }.fetch(uri.as_bstr())
    });
    heard.report(context.events);
    let done = done?.map_err(|error| match error {
        bundles::Error::Interrupted => Error::Interrupted,
        bundles::Error::Repo(error) => error.into(),
    })?;
    if done.failed {
        context.events.notice(Notice::Fetch(text!("failed to fetch bundles from '", uri, "'")));
    }
    Ok(true)
}
