//! Fetching submodules: those in the index, then those that only fetched commits contain.
//!
//! Each is a process in the submodule's repository; several run in parallel. If a submodule lacks a
//! commit after its fetch, a second fetch requests that commit by name.

mod fetches;

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{Report, submodules};

use self::fetches::Fetches;
use repo::keys;
use sapwood::ObjectId;

use super::{context::FetchContext, options::Recurse};
use crate::{
    session::{Session, index::load_index, submodules::Submodules, tasks},
    term::{console::text, failure::Failure},
};

/// The state before the fetch.
pub(super) struct Before {
    how: Recurse,
    /// The values of all refs; `None` without submodules.
    tips: Option<Vec<ObjectId>>,
}

impl FetchContext<'_> {
    /// Reads how submodules are fetched, and the refs that the fetch may change.
    pub(super) fn before(&self) -> Result<Before, Failure> {
        let how = self.recursion()?;
        let repo = self.repo;
        let is_asked = how != Recurse::Off && repo.work_tree().is_some();
        let has_some = || {
            let modules = sys::by_path::list(&repo.common_dir().join("modules"));
            let file = repo.work_tree().map(|top| top.join(".gitmodules"));
            modules.is_ok_and(|found| !found.is_empty())
                || file.is_some_and(|file| matches!(sys::by_path::stat(&file), Ok(Some(_))))
        };
        let tips = if is_asked && has_some() {
            Some(repo.refs("refs/")?.into_iter().map(|(_, oid)| oid).collect())
        } else {
            None
        };
        Ok(Before { how, tips })
    }

    fn recursion(&self) -> Result<Recurse, Failure> {
        let repo = self.repo;
        if self.request.porcelain {
            return Ok(Recurse::Off);
        }
        if self.request.recurse != Recurse::Default {
            return Ok(self.request.recurse);
        }
        if let Some(value) = repo.config_str(&keys::fetch::RECURSE_SUBMODULES) {
            return parse(&keys::fetch::RECURSE_SUBMODULES.lower(), value.as_bstr());
        }
        Ok(match repo.config(&keys::submodule::RECURSE)? {
            Some(true) => Recurse::On,
            Some(false) => Recurse::Off,
            None => Recurse::Default,
        })
    }

    /// Fetches submodules. Returns the exit code.
    pub(super) fn submodules(&self, before: Before, done: &Report) -> Result<u8, Failure> {
        let has_some = before.tips.is_some() || before.how == Recurse::On;
        if before.how == Recurse::Off || self.repo.work_tree().is_none() || !has_some {
            return Ok(0);
        }
        let repo = &self.repo.open_again()?;
        let index = load_index(repo, self.settings)?;
        let links = |at: usize| {
            let entry = index.entry(at);
            entry.mode.is_gitlink().then(|| index.path(&entry).to_owned())
        };
        let mut links: Vec<BString> = (0..index.len()).filter_map(links).collect();
        links.dedup();
        if links.is_empty() && before.tips.is_none() {
            return Ok(0);
        }
        let session = Session { invocation: self.run, repository: repo, settings: self.settings };
        let superproject = Submodules::new(session.context(self.run), &index, "".into())?;
        let how = match (before.how, superproject.general(&keys::fetch::RECURSE_SUBMODULES)) {
            (Recurse::Default, Some(value)) => {
                parse(&keys::fetch::RECURSE_SUBMODULES.lower(), value.as_bstr())?
            }
            (how, _) => how,
        };
        if how == Recurse::Off {
            return Ok(0);
        }
        let tips: Vec<ObjectId> =
            done.mapped.iter().filter(|mapping| is_new(mapping)).map(|it| it.oid).collect();
        let changed = match &before.tips {
            Some(before) => submodules::changed(repo, &tips, before)?,
            None => Vec::new(),
        };
        let options = self.options_of_submodules(how);
        let mut fetches = Fetches::new(self, repo, (&superproject, how), options, links);
        changed.into_iter().try_for_each(|changed| fetches.add(changed))?;
        tasks::run(self.run, self.jobs(&superproject)?, &mut fetches)?;
        Ok(fetches.finish())
    }

    fn jobs(&self, superproject: &Submodules<'_>) -> Result<usize, Failure> {
        let recorded = || {
            superproject
                .general(&keys::submodule::FETCH_JOBS)
                .and_then(|jobs| jobs.to_str().ok()?.parse().ok())
        };
        let jobs = match (self.request.jobs, self.repo.config(&keys::submodule::FETCH_JOBS)?) {
            (Some(jobs), _) if jobs >= 0 => jobs,
            (_, Some(jobs)) => jobs,
            (_, None) => match recorded() {
                Some(jobs) => jobs,
                None => self.repo.config(&keys::fetch::PARALLEL)?,
            },
        };
        Ok(match usize::try_from(jobs) {
            Ok(0) => sys::cores(),
            Ok(jobs) => jobs,
            Err(_) => 1,
        })
    }

    /// Returns the options that Git passes on to each process.
    fn options_of_submodules(&self, how: Recurse) -> Vec<&'static str> {
        let request = self.request;
        let choice = |choice: Option<bool>, on: &'static str, off: &'static str| {
            choice.map(|is_on| if is_on { on } else { off })
        };
        let flag = |is_on: bool, option: &'static str| is_on.then_some(option);
        let options = [
            flag(request.dry_run, "--dry-run"),
            choice(request.prune, "--prune", "--no-prune"),
            choice(request.prune_tags, "--prune-tags", "--no-prune-tags"),
            flag(request.update_head_ok, "--update-head-ok"),
            flag(request.force, "--force"),
            flag(request.keep, "--keep"),
            match how {
                Recurse::On => Some("--recurse-submodules"),
                Recurse::OnDemand => Some("--recurse-submodules=on-demand"),
                Recurse::Off | Recurse::Default => None,
            },
            choice(request.tags, "--tags", "--no-tags"),
            flag(request.verbosity >= 2, "-v"),
            flag(request.verbosity >= 1, "-v"),
            flag(request.verbosity < 0, "-q"),
            if request.ipv6 { Some("--ipv6") } else { flag(request.ipv4, "--ipv4") },
            flag(request.leaves_fetch_head || request.dry_run, "--no-write-fetch-head"),
        ];
        options.into_iter().flatten().collect()
    }
}

/// Returns true if a ref brings commits that its local ref did not have.
fn is_new(mapping: &engine::fetch::map::Mapping) -> bool {
    let old = mapping.local.as_ref().map(|local| local.old);
    !mapping.rejected_shallow && old.is_none_or(|old| old != Some(mapping.oid))
}

/// Parses the value of a setting.
fn parse(key: &str, value: &BStr) -> Result<Recurse, Failure> {
    match repo::parse_bool(Some(value)) {
        Some(true) => Ok(Recurse::On),
        Some(false) => Ok(Recurse::Off),
        None if value == "on-demand" => Ok(Recurse::OnDemand),
        None => Err(Failure::Fatal(text!("bad ", key, " argument: ", value))),
    }
}
