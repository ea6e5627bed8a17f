//! A fetch from several remotes, one after the other. A remote that fails does not affect the
//! others.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, fetch::several};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let report = several::plan(&repository, several::Request::default())?.run(&Silent)?;
//! for (remote, fetched) in &report.remotes {
//!     println!("{remote}: {}", if fetched.is_ok() { "fetched" } else { "failed" });
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::fetch_head::FetchHead;
use repo::keys;

use super::{FetchHeadPolicy, Filter, fetch_bundles, maintain, prepare::load};
use crate::{Error, Events, PlanError, Repository, RunError, maintenance::MaintenanceOutput, text};

/// The remotes of a fetch.
#[derive(Clone, Default)]
pub struct Request {
    /// The remotes and groups of remotes; all remotes that `remote.<name>.skipFetchAll` does not
    /// exclude if empty.
    pub remotes: Vec<BString>,
    /// The options for each of them. Its remote and its refspecs are not used.
    pub each: super::Request,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The remotes, and what was fetched.
    pub remotes: Vec<(BString, Result<super::Report, RunError>)>,
}

/// A fetch that can run.
pub struct Plan<'r> {
    repository: &'r Repository,
    remotes: Vec<BString>,
    each: super::Request,
}

/// Finds the remotes. Changes nothing, and contacts nobody.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let Request { remotes, mut each } = request;
    each.connect.interrupt.get_or_insert_with(|| repository.interrupt());
    check(each.filter.as_ref(), each.atomic)?;
    let repo = &repository.inner;
    let remotes = if remotes.is_empty() { all_remotes(repo)? } else { members(repo, &remotes)? };
    for remote in &remotes {
        // A refusal concerns that remote alone, and running reports it.
        if let Err(unsupported @ PlanError::Unsupported(_)) = super::plan(repository, of(&each, remote)) {
            return Err(unsupported);
        }
    }
    Ok(Plan { repository, remotes, each })
}

/// Refuses options that concern one remote.
pub fn check(filter: Option<&Filter>, atomic: bool) -> Result<(), Error> {
    if filter.is_some() {
        let text = "--filter can only be used with the remote configured in extensions.partialclone";
        return Err(Error::failed(text));
    }
    if atomic {
        return Err(Error::failed("--atomic can only be used when fetching from one remote"));
    }
    Ok(())
}

/// Returns the number of remotes to fetch from at once: `asked`, or else `fetch.parallel`. The
/// number 0 means one for each core. A negative number is an error.
pub fn jobs(repo: &repo::Repository, asked: Option<i32>) -> Result<usize, Error> {
    let jobs = match asked {
        Some(jobs) => jobs,
        None => repo.config(&keys::fetch::PARALLEL)?,
    };
    match usize::try_from(jobs) {
        Ok(0) => Ok(sys::cores()),
        Ok(jobs) => Ok(jobs),
        Err(_) => Err(Error::failed("fetch.parallel cannot be negative")),
    }
}

impl Plan<'_> {
    /// Fetches from each remote. Ends early only if it is interrupted.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, remotes, each } = self;
        let context = repository.context(events);
        if each.fetch_head == FetchHeadPolicy::Replace && !each.dry_run {
            let emptied = FetchHead::of(context.repo, context.settings.locks.shared).truncate();
            emptied.map_err(|error| Error::from(engine::fetch::Error::from(error)))?;
        }
        fetch_bundles(context, &each.connect)?;
        let mut report = Report::default();
        for remote in remotes {
            // The fetch before this one has changed refs, and perhaps the shallow roots.
            let again = repository.again()?;
            let fetched = match super::plan(&again, of(&each, &remote)) {
                Ok(plan) => super::Plan { has_bundles: true, ..plan }.run(events),
                Err(error) => Err(Error::from(error).into()),
            };
            // An interrupted transfer fails with the error of its connection.
            context.check_interrupt()?;
            report.remotes.push((remote, fetched));
        }
        if each.maintenance.unwrap_or(true) && !each.dry_run {
            maintain(context, each.refetch, MaintenanceOutput::Quiet)?;
        }
        Ok(report)
    }
}

/// The remotes, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.remotes.iter().try_for_each(|remote| writeln!(formatter, "fetch {remote}"))
    }
}

/// Returns the request for one remote. Its refs are appended to `FETCH_HEAD`.
fn of(each: &super::Request, remote: &BString) -> super::Request {
    let fetch_head = match each.fetch_head {
        FetchHeadPolicy::Leave => FetchHeadPolicy::Leave,
        FetchHeadPolicy::Replace | FetchHeadPolicy::Append => FetchHeadPolicy::Append,
    };
    super::Request {
        remote: Some(remote.clone()),
        refspecs: Vec::new(),
        fetch_head,
        maintenance: Some(false),
        ..each.clone()
    }
}

/// Returns all remotes except those with `skipFetchAll` or `skipDefaultUpdate`.
pub fn all_remotes(repo: &repo::Repository) -> Result<Vec<BString>, Error> {
    let mut remotes = Vec::new();
    for name in repo.remotes() {
        let mut is_skipped = false;
        for key in [keys::remote::SKIP_FETCH_ALL, keys::remote::SKIP_DEFAULT_UPDATE] {
            is_skipped |= repo.config(&key.of(&name))?;
        }
        let urls = repo.config_all(&keys::remote::URL.of(&name));
        if !is_skipped && !urls.is_empty() {
            remotes.push(name);
        }
    }
    Ok(remotes)
}

/// Returns the members of a group, or the one remote of this name. Empty if neither exists.
pub fn remotes_of(repo: &repo::Repository, name: &BStr) -> Result<Vec<BString>, Error> {
    let group = repo.config_all(&keys::remotes::GROUP.of(name));
    if !group.is_empty() {
        let members = group.iter().flat_map(|value| value.fields()).map(BString::from);
        return Ok(without_repeats(members.collect()));
    }
    let is_configured = load(repo, name)?.is_configured;
    Ok(if is_configured { vec![name.to_owned()] } else { Vec::new() })
}

/// Returns the names, each once.
fn without_repeats(names: Vec<BString>) -> Vec<BString> {
    names.into_iter().fold(Vec::new(), |mut kept, name| {
        if !kept.contains(&name) {
            kept.push(name);
        }
        kept
    })
}

/// Returns the remotes and the members of the groups, each once.
pub fn members(repo: &repo::Repository, names: &[BString]) -> Result<Vec<BString>, Error> {
    let mut all = Vec::new();
    for name in names {
        let found = remotes_of(repo, name.as_bstr())?;
        if found.is_empty() {
            return Err(Error::Failed(text!("no such remote or remote group: ", name)));
        }
        all.extend(found);
    }
    Ok(without_repeats(all))
}
