//! `commit-graph write`.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    commit_graph::{self, Chain, FilterOptions, PackError, Plan, Split, Tips},
    worktree::prune::Expire,
};
use format::{Kind, commit_graph::bloom};
use repo::{keys, objects::Objects};
use sapwood::ObjectId;
use store::{
    Lock,
    commit_graph::{self as files, chain_path, single_path},
};
use sys::by_path;

use super::{Context, Place, options::Request, progress::Bars, report_notices};
use crate::{
    session::{input::Input, trace},
    term::{console, failure::Failure, progress::Progress},
};

/// The value of `commitGraph.maxNewFilters` and `--max-new-filters` for no limit.
const NO_LIMIT: i32 = -1;
/// A commit with more changed paths than this gets a filter that matches every path.
const MAX_PATHS: u64 = 512;

/// Traces Git's statistics about filters.
fn trace_filters(options: Option<&FilterOptions>, plan: &Plan) {
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

impl Context<'_> {
    pub(super) fn write(&self, request: &Request) -> Result<u8, Failure> {
        let sources = [request.reachable, request.stdin_packs, request.stdin_commits];
        if sources.into_iter().filter(|is_given| *is_given).count() > 1 {
            let wrong = "use at most one of --reachable, --stdin-commits, or --stdin-packs";
            return Err(Failure::fatal(wrong));
        }
        let configured = self.repo.config(&keys::commit_graph::CHANGED_PATHS)?;
        let max_new = self.repo.config(&keys::commit_graph::MAX_NEW_FILTERS)?;
        let place = self.place(request)?;
        let objects = self.repo.stored_objects();
        let Some(tips) = self.tips(request, &objects)? else { return Err(Failure::Reported(1)) };
        let Some(version) = self.version_to_write()? else { return Ok(0) };
        // The old graph is read under the lock, if its directory exists.
        let path = match request.split {
            Some(_) => chain_path(&place.dir.path),
            None => single_path(&place.dir.path),
        };
        let parent = path.parent().expect("it is in a directory of the object directory");
        let lock =
            matches!(by_path::stat(parent), Ok(Some(_))).then(|| files::lock(&path, &self.settings.locks));
        let found = place.sources.find();
        report_notices(&found.notices);
        let old = found.chain.as_ref();
        let limit = request.max_new_filters.map_or(max_new, |limit| limit.or(Some(NO_LIMIT)));
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let options =
            self.filter_options(request.changed_paths.or(configured.filter(|on| *on)), old, version, limit)?;
        let Some(plan) = self.plan(request, &place, &objects, old, tips, options)? else { return Ok(0) };
        trace_filters(options.as_ref(), &plan);
        self.run.interrupt.check()?;
        let lock = lock.unwrap_or_else(|| files::lock(&path, &self.settings.locks))?;
        self.publish(request, &place, old, &plan, lock)?;
        let bars = Bars::new(self.shows, self.settings.progress_delay);
        bars.written(plan.chunk_count, plan.commit_count);
        Ok(0)
    }

    /// Returns `commitGraph.changedPathsVersion`, or `None` if no graph may be written here.
    fn version_to_write(&self) -> Result<Option<i32>, Failure> {
        if !self.repo.config(&keys::core::COMMIT_GRAPH)? {
            console::warning("attempting to write a commit-graph, but 'core.commitGraph' is disabled");
            return Ok(None);
        }
        if self.repo.is_shallow_clone() {
            return Ok(None);
        }
        let version = self.filter_version()?;
        if !(-1..=2).contains(&version) {
            console::warning(format!(
                "attempting to write a commit-graph, but 'commitGraph.changedPathsVersion' ({version}) is not \
                 supported"
            ));
            return Ok(None);
        }
        Ok(Some(version))
    }

    /// Plans the new graph. Returns `None` if there are no commits.
    fn plan(
        &self,
        request: &Request,
        place: &Place,
        objects: &Objects,
        old: Option<&Chain>,
        tips: Tips,
        filters: Option<FilterOptions>,
    ) -> Result<Option<Plan>, Failure> {
        let bars = Bars::new(self.shows, self.settings.progress_delay);
        let asked = commit_graph::Request {
            objects,
            sources: &place.sources,
            shown: &place.shown,
            target: place.target,
            old,
            tips,
            append: request.append,
            split: request.split,
            size_multiple: match request.size_multiple {
                None | Some(0) => 2,
                Some(number) => u64::try_from(number).unwrap_or(u64::MAX),
            },
            max_commits: request.max_commits.unwrap_or(0) as u32,
            generations: self.generation_version()? == 2,
            filters,
            interrupt: self.run.interrupt.flag(),
        };
        let mut warnings = Vec::new();
        let show = |stage, done, total| bars.show(stage, done, total);
        let planned = commit_graph::plan(&asked, &mut |warning| warnings.push(warning), &show);
        warnings.iter().for_each(console::warning);
        planned.map_err(|error| self.failed(request, error))
    }

    /// Returns the failure for a graph that could not be planned.
    fn failed(&self, request: &Request, error: commit_graph::Error) -> Failure {
        let reads_input = request.stdin_packs || request.stdin_commits;
        match error {
            commit_graph::Error::Interrupted => self.run.interrupt.failure(),
            commit_graph::Error::Pack(PackError::Type(id)) => {
                Failure::fatal(format!("unable to get type of object {id}"))
            }
            commit_graph::Error::Pack(error) => {
                if let PackError::Index { why: Some(why), .. } = &error {
                    console::error(why);
                }
                Failure::error(error.to_string())
            }
            commit_graph::Error::Commit(_) | commit_graph::Error::NoLevels if !reads_input => {
                Failure::Unserved("commits that cannot be read")
            }
            commit_graph::Error::Commit(id) => {
                console::error(format!("Could not read {id}"));
                Failure::fatal(commit_graph::Error::Commit(id).to_string())
            }
            commit_graph::Error::TooMany => Failure::error(error.to_string()),
            error => Failure::fatal(error.to_string()),
        }
    }

    /// Returns the commits to start from; `None` after their error was printed.
    fn tips(&self, request: &Request, objects: &Objects) -> Result<Option<Tips>, Failure> {
        if request.reachable {
            return self.referenced(objects).map(|commits| Some(Tips::Commits(commits)));
        }
        if !request.stdin_packs && !request.stdin_commits {
            return Ok(Some(Tips::AllPacks));
        }
        let (mut input, mut line) = (Input::new(self.run)?, Vec::new());
        let (mut packs, mut commits) = (Vec::new(), Vec::new());
        let progress =
            Progress::new("Collecting commits from input", self.shows, self.settings.progress_delay);
        while input.line(b'\n', &mut line)? {
            let line = BString::from(line.strip_suffix(b"\r").unwrap_or(&line));
            if request.stdin_packs {
                packs.push(line);
                continue;
            }
            let hex = line.get(..objects.hash().hex_len());
            let Some(id) = hex.and_then(|hex| ObjectId::from_hex(objects.hash(), hex)) else {
                console::error(format!("unexpected non-hex object ID: {line}"));
                return Ok(None);
            };
            match self.peel(objects, id) {
                Some((id, Kind::Commit)) => commits.push(id),
                Some(_) => {}
                None => {
                    console::error(format!("invalid object: {line}"));
                    return Ok(None);
                }
            }
            progress.update(commits.len(), 0);
        }
        if request.stdin_packs {
            return Ok(Some(Tips::Packs(packs)));
        }
        progress.finish(commits.len(), 0);
        Ok(Some(Tips::Commits(commits)))
    }

    /// Follows tags. Returns the object and its type, or `None` if it is missing.
    fn peel(&self, objects: &Objects, id: ObjectId) -> Option<(ObjectId, Kind)> {
        let mut reader = objects.reader();
        match reader.header(&id).ok()? {
            (Kind::Tag, _) => {
                let target = self.repo.peel_tag_with(&mut reader, id).ok()??;
                let (kind, _) = reader.header(&target.id).ok()?;
                Some((target.id, kind))
            }
            (kind, _) => Some((id, kind)),
        }
    }

    /// Returns the commits that refs name.
    fn referenced(&self, objects: &Objects) -> Result<Vec<ObjectId>, Failure> {
        let progress =
            Progress::new("Collecting referenced commits", self.shows, self.settings.progress_delay);
        let mut commits = Vec::new();
        for (_, id) in self.repo.refs("refs/")? {
            if let Some((id, Kind::Commit)) = self.peel(objects, id) {
                commits.push(id);
            }
            progress.update(commits.len(), 0);
        }
        progress.finish(commits.len(), 0);
        Ok(commits)
    }

    /// Returns the settings for new filters, or `None` if none are made.
    fn filter_options(
        &self,
        asked: Option<bool>,
        old: Option<&Chain>,
        version: i32,
        max_new: Option<usize>,
    ) -> Result<Option<FilterOptions>, Failure> {
        let variable = |name| {
            let text = self.run.variable(name).and_then(|value| std::str::from_utf8(value).ok());
            text.and_then(|text| text.parse::<u64>().ok())
        };
        let of_test = self.run.variable("GIT_TEST_COMMIT_GRAPH_CHANGED_PATHS");
        let of_test = of_test.and_then(|value| repo::parse_bool(Some(value.as_bstr()))) == Some(true);
        let of_old = old.and_then(|old| old.tip().graph.filter_settings());
        let keeps = asked != Some(false) && of_old.is_some();
        if asked != Some(true) && !of_test && !keeps {
            return Ok(None);
        }
        if version == 0 {
            return Err(Failure::Unserved("filters that are not to be read"));
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

    fn publish(
        &self,
        request: &Request,
        place: &Place,
        old: Option<&Chain>,
        plan: &Plan,
        lock: Lock,
    ) -> Result<(), Failure> {
        let (objects, hash) = (place.dir.path.as_path(), place.sources.hash);
        let (single, fsync) = (single_path(objects), &self.settings.fsync);
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
        };
        let expire_time = || match request.expire {
            Some(Expire::Now) => i64::MAX,
            Some(Expire::At(time)) if time != 0 => time,
            _ => now(),
        };
        let Some(split) = request.split else {
            files::write_single(lock, hash, &plan.content, fsync)?;
            files::remove(&chain_path(objects));
            files::expire(objects, &[], expire_time());
            return Ok(());
        };
        let layers = old.map_or(&[][..], |old| &old.layers);
        let kept = if split == Split::Replace { 0 } else { plan.kept };
        let below: Vec<ObjectId> = layers[..kept].iter().map(|layer| layer.graph.checksum()).collect();
        let is_single = |path: &PathBuf| *path == single;
        let rename = layers[..kept].first().map(|layer| layer.path.clone()).filter(is_single);
        let chain = files::Chain { objects, shared: self.settings.locks.shared, below: &below, rename };
        let new = chain.write(lock, hash, &plan.content, fsync)?;
        files::remove(&single);
        let mut keep: Vec<PathBuf> =
            below.iter().map(|layer| files::layer_path(objects, &layer.to_string())).collect();
        keep.push(files::layer_path(objects, &new.to_string()));
        layers[kept..].iter().for_each(|layer| files::mark_unused(&layer.path));
        files::expire(objects, &keep, expire_time());
        Ok(())
    }
}
