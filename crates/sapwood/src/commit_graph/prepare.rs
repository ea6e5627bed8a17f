//! A new graph in memory, and its files.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use engine::{
    commit_graph::{self, Chain, Error as GraphError, FilterOptions, Progress, Split, Tips},
    worktree::prune::Expire,
};
use format::{ObjectId, commit_graph::bloom};
use repo::{Repository, keys, objects::Objects};
use store::{
    Lock,
    commit_graph::{self as files, chain_path, single_path},
};
use sys::by_path;

use super::{
    Report, Request, Start,
    place::{Place, filter_version, generation_version},
    unsupported,
};
use crate::{Context, Error, Notice, PlanError, trace};

/// The value of `commitGraph.maxNewFilters` and [`Request::max_new_filters`] for no limit.
const NO_LIMIT: i32 = -1;
/// A commit with more changed paths than this gets a filter that matches every path.
const MAX_PATHS: u64 = 512;

/// The settings of filters.
#[derive(Clone, Copy, Debug)]
pub struct Filters {
    configured: Option<bool>,
    max_new: Option<i32>,
}

impl Filters {
    /// Reads the settings.
    pub fn of(repo: &Repository) -> Result<Filters, repo::Error> {
        let configured = repo.config(&keys::commit_graph::CHANGED_PATHS)?;
        Ok(Filters { configured, max_new: repo.config(&keys::commit_graph::MAX_NEW_FILTERS)? })
    }

    /// Returns the options of new filters, or `None` if none are made.
    fn options(
        self,
        repo: &Repository,
        request: &Request,
        old: Option<&Chain>,
        version: i32,
    ) -> Result<Option<FilterOptions>, PlanError> {
        let asked = request.changed_paths.or(self.configured.filter(|on| *on));
        let limit = request.max_new_filters.map_or(self.max_new, |limit| limit.or(Some(NO_LIMIT)));
        let max_new = limit.and_then(|limit| usize::try_from(limit).ok());
        let variable = |name| {
            let text = repo.env().bytes(name).and_then(|value| std::str::from_utf8(value).ok());
            text.and_then(|text| text.parse::<u64>().ok())
        };
        let of_test = repo.env().bytes("GIT_TEST_COMMIT_GRAPH_CHANGED_PATHS");
        let of_test = of_test.and_then(|value| repo::parse_bool(Some(value))) == Some(true);
        let of_old = old.and_then(|old| old.tip().graph.filter_settings());
        let keeps = asked != Some(false) && of_old.is_some();
        if asked != Some(true) && !of_test && !keeps {
            return Ok(None);
        }
        if version == 0 {
            return Err(unsupported("filters that are not to be read"));
        }
        let mut settings = bloom::Settings { version: version as u32, ..bloom::Settings::default() };
        settings.bits =
            variable("GIT_TEST_BLOOM_SETTINGS_BITS_PER_ENTRY").map_or(settings.bits, |it| it as u32);
        settings.hashes =
            variable("GIT_TEST_BLOOM_SETTINGS_NUM_HASHES").map_or(settings.hashes, |it| it as u32);
        let mut max_paths = variable("GIT_TEST_BLOOM_SETTINGS_MAX_CHANGED_PATHS").unwrap_or(MAX_PATHS);
        if let (true, Some(of_old)) = (asked != Some(false), of_old) {
            // Git keeps the settings of the old graph. The file does not contain the limit of
            // changed paths.
            let version = if version == -1 { of_old.version } else { settings.version };
            settings = bloom::Settings { version, ..of_old };
            max_paths = MAX_PATHS;
        }
        settings.version = if settings.version == 2 { 2 } else { 1 };
        Ok(Some(FilterOptions { settings, max_paths: max_paths as usize, max_new }))
    }
}

/// A new graph that is not written yet.
pub struct Prepared<'a> {
    context: Context<'a>,
    place: Place,
    old: Option<Chain>,
    plan: commit_graph::Plan,
    path: PathBuf,
    /// `None` if the directory of the file does not exist yet.
    lock: Option<Result<Lock, store::Error>>,
    split: Option<Split>,
    expire: Option<Expire>,
}

/// Computes a new graph of the stored `objects`. Returns `None` if no graph may be written here, or
/// if there are no commits.
pub fn prepare<'a>(
    context: Context<'a>,
    objects: &Objects,
    place: Place,
    filters: Filters,
    request: &Request,
    tips: Tips,
    progress: Progress<'_>,
) -> Result<Option<Prepared<'a>>, PlanError> {
    let Context { repo, settings, events, interrupt, .. } = context;
    let Some(version) = version_to_write(context)? else { return Ok(None) };
    // The old graph is read under the lock, if its directory exists.
    let path = match request.split {
        Some(_) => chain_path(&place.dir.path),
        None => single_path(&place.dir.path),
    };
    let parent = path.parent().expect("it is in a directory of the object directory");
    let lock = matches!(by_path::stat(parent), Ok(Some(_))).then(|| files::lock(&path, &settings.locks));
    let found = place.sources.find();
    found.notices.into_iter().for_each(|notice| events.notice(Notice::ObjectFile(notice)));
    let old = found.chain;
    let options = filters.options(repo, request, old.as_ref(), version)?;
    let asked = commit_graph::Request {
        objects,
        sources: &place.sources,
        shown: &place.shown,
        target: place.target,
        old: old.as_ref(),
        tips,
        append: request.append,
        split: request.split,
        size_multiple: match request.size_multiple {
            None | Some(0) => 2,
            Some(number) => u64::try_from(number).unwrap_or(u64::MAX),
        },
        max_commits: request.max_commits.unwrap_or(0) as u32,
        generations: generation_version(repo).map_err(Error::from)? == 2,
        filters: options,
        interrupt,
    };
    let mut warnings = Vec::new();
    let planned = commit_graph::plan(&asked, &mut |warning| warnings.push(warning), progress);
    warnings.into_iter().for_each(|warning| events.notice(Notice::CommitGraph(warning)));
    let Some(plan) = planned.map_err(|error| failed(&request.start, error))? else { return Ok(None) };
    trace_filters(options.as_ref(), &plan);
    context.check_interrupt()?;
    let (split, expire) = (request.split, request.expire);
    Ok(Some(Prepared { context, place, old, plan, path, lock, split, expire }))
}

/// Returns `commitGraph.changedPathsVersion`, or `None` if no graph may be written here.
fn version_to_write(context: Context<'_>) -> Result<Option<i32>, Error> {
    let repo = context.repo;
    let warn = |why: String| {
        context.events.notice(Notice::CommitGraph(format!("attempting to write a commit-graph, but {why}")));
    };
    if !repo.config(&keys::core::COMMIT_GRAPH)? {
        warn("'core.commitGraph' is disabled".to_owned());
        return Ok(None);
    }
    if repo.is_shallow_clone() {
        return Ok(None);
    }
    let version = filter_version(repo)?;
    if !(-1..=2).contains(&version) {
        warn(format!("'commitGraph.changedPathsVersion' ({version}) is not supported"));
        return Ok(None);
    }
    Ok(Some(version))
}

fn failed(start: &Start, error: GraphError) -> PlanError {
    let is_given = matches!(start, Start::Packs(_) | Start::Commits(_));
    match error {
        GraphError::Interrupted => Error::Interrupted.into(),
        GraphError::Commit(_) | GraphError::NoLevels if !is_given => {
            unsupported("commits that cannot be read")
        }
        error => Error::from(error).into(),
    }
}

/// Traces Git's statistics about filters.
fn trace_filters(options: Option<&FilterOptions>, plan: &commit_graph::Plan) {
    let (Some(options), Some(counts)) = (options, plan.filters) else { return };
    for (label, number) in [
        ("filter-computed", counts.computed),
        ("filter-not-computed", counts.not_computed),
        ("filter-trunc-empty", counts.empty),
        ("filter-trunc-large", counts.large),
        ("filter-upgraded", counts.upgraded),
    ] {
        trace::data(1, "commit-graph", label, &number.to_string());
    }
    let bloom::Settings { version, hashes, bits } = options.settings;
    let (max, start) = (options.max_paths, "{\"hash_version\":");
    let settings = format!(
        "{start}{version},\"num_hashes\":{hashes},\"bits_per_entry\":{bits},\"max_changed_paths\":{max}}}"
    );
    trace::data_json(1, "bloom", "settings", &settings);
}

impl Prepared<'_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub(super) fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { place, old, plan, path, lock, split, expire, .. } = self;
        Prepared { context, place, old, plan, path, lock, split, expire }
    }

    /// Writes the file, and removes what it replaces.
    pub fn write(self) -> Result<Report, Error> {
        let Prepared { context, place, old, plan, path, lock, split, expire } = self;
        let locks = &context.settings.locks;
        let lock = lock.unwrap_or_else(|| files::lock(&path, locks))?;
        let (objects, hash) = (place.dir.path.as_path(), place.sources.hash);
        let (single, fsync) = (single_path(objects), &context.settings.fsync);
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
        };
        let expire_time = || match expire {
            Some(Expire::Now) => i64::MAX,
            Some(Expire::At(time)) if time != 0 => time,
            _ => now(),
        };
        let report = Report { commit_count: plan.commit_count, chunk_count: plan.chunk_count };
        let Some(split) = split else {
            files::write_single(lock, hash, &plan.content, fsync)?;
            files::remove(&chain_path(objects));
            files::expire(objects, &[], expire_time());
            return Ok(report);
        };
        let layers = old.as_ref().map_or(&[][..], |old| &old.layers);
        let kept = if split == Split::Replace { 0 } else { plan.kept };
        let below: Vec<ObjectId> = layers[..kept].iter().map(|layer| layer.graph.checksum()).collect();
        let is_single = |path: &PathBuf| *path == single;
        let rename = layers[..kept].first().map(|layer| layer.path.clone()).filter(is_single);
        let chain = files::Chain { objects, shared: locks.shared, below: &below, rename };
        let new = chain.write(lock, hash, &plan.content, fsync)?;
        files::remove(&single);
        let mut keep: Vec<PathBuf> =
            below.iter().map(|layer| files::layer_path(objects, &layer.to_string())).collect();
        keep.push(files::layer_path(objects, &new.to_string()));
        layers[kept..].iter().for_each(|layer| files::mark_unused(&layer.path));
        files::expire(objects, &keep, expire_time());
        Ok(report)
    }
}
