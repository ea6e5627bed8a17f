//! Conclusions from the facts: damage, and conditions that slow commands down, each with its size
//! and the command that fixes it.
//!
//! A pure function of the facts. Problems come first, then the findings in the order of their usual
//! cost. Thresholds suppress advice whose effect a small repository would not show.

use std::{path::Path, time::Duration};

use super::{
    facts::{
        CacheFacts, Facts, IndexFacts, IndexState, LockFile, MonitorState, ObjectFacts, Sample,
        SparseCheckout, UntrackedCache,
    },
    figures::{count, several, time},
    location::Location,
    programs::Programs,
};
use crate::term::text::bytes::readable;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// A stable name, for scripts.
    pub(super) id: &'static str,
    pub(super) kind: Kind,
    pub(super) message: String,
    /// A command that fixes it, if one exists.
    pub(super) mend: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Commands fail, or will.
    Problem,
    /// Commands are slower than necessary.
    Slow,
}

/// From this many directories on, listing them is a noticeable part of status. On a remote disk
/// each listing is a request.
const MANY_DIRECTORIES: usize = 500;
const MANY_DISTANT_DIRECTORIES: usize = 50;

/// A scan of all files at least this long justifies the process of a file system monitor.
const LONG_PASS: Duration = Duration::from_millis(200);

/// From this many packs on, the lookup in each pack index is noticeable.
const MANY_PACKS: usize = 10;

/// Git's default of `gc.auto`.
const MANY_LOOSE: usize = 6_700;

/// From this many objects on, walking the history without a commit-graph is noticeable.
const MANY_OBJECTS: u64 = 20_000;

/// From this size in bytes on, hashing and writing the index takes some milliseconds.
const LARGE_INDEX: u64 = 4 << 20;

/// From this many entries outside the sparse worktree on, a sparse index is noticeably faster.
const MANY_SKIPPED: usize = 5_000;

const MANY_ENTRIES: usize = 1_000;
const MANY_STALE_WORKTREES: usize = 5;

fn problem(id: &'static str, message: String, mend: Option<String>) -> Finding {
    Finding { id, kind: Kind::Problem, message, mend }
}

fn slow(id: &'static str, message: String, mend: &str) -> Finding {
    Finding { id, kind: Kind::Slow, message, mend: Some(mend.to_owned()) }
}

/// Returns the finding for a repository that cannot be opened.
pub(super) fn of_location(location: &Location) -> Option<Finding> {
    let Location::Broken(message) = location else { return None };
    // Git's message about a repository of another user contains the command.
    let mend = message.lines().map(str::trim).find(|line| line.starts_with("git config "));
    let first = message.lines().next().unwrap_or_default();
    let first = first.split(" (see ").next().unwrap_or_default();
    Some(problem(
        "repository-broken",
        format!("the repository cannot be opened: {first}"),
        mend.map(ToOwned::to_owned),
    ))
}

/// Findings about a repository.
pub(super) fn find(facts: &Facts, programs: &Programs) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts.locks.iter().map(lock).collect();
    let empty = IndexFacts::default();
    let index = match &facts.index {
        IndexState::Read(index) => index,
        IndexState::Missing => &empty,
        IndexState::Broken { path, why } => {
            let (old, new) = (quoted(path), quoted(&path.with_extension("broken")));
            found.push(problem(
                "index-broken",
                format!("the index cannot be read: {why}. A new one loses what was staged"),
                Some(format!("mv {old} {new} && git reset")),
            ));
            &empty
        }
    };
    found.extend(damages(&facts.objects));
    found.extend(facts.sample.and_then(|sample| touched(&sample, index)));
    found.extend(untracked_cache(facts, index));
    found.extend(monitor(facts, index, programs));
    found.extend(packs(&facts.objects));
    found.extend(commit_graph(facts));
    found.extend(sparse(facts, index));
    found.extend(large_index(facts, index));
    found.extend(settings(facts, index));
    if facts.worktrees.stale >= MANY_STALE_WORKTREES {
        let stale = several(facts.worktrees.stale, "worktree");
        found.push(slow(
            "stale-worktrees",
            format!("{stale} are gone, and each is looked for again"),
            "git worktree prune",
        ));
    }
    found
}

fn lock(lock: &LockFile) -> Finding {
    let name = lock.path.file_name().unwrap_or_default().to_string_lossy();
    let age = lock.age.map(|age| format!(" since {}", time(age))).unwrap_or_default();
    problem(
        "locked",
        format!("'{name}' is there{age}: what it locks cannot be written. If no git runs here, remove it"),
        Some(format!("rm {}", quoted(&lock.path))),
    )
}

/// Quotes a path as a word for the shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%,".contains(&byte);
    if path.bytes().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

fn damages(objects: &ObjectFacts) -> Vec<Finding> {
    let lost = objects.lost_alternates.iter().map(|error| problem("alternate-missing", error.clone(), None));
    let mend = || Some("git fsck --connectivity-only".to_owned());
    lost.chain(objects.damages.iter().map(|damage| problem("objects-broken", damage.clone(), mend())))
        .collect()
}

fn touched(sample: &Sample, index: &IndexFacts) -> Option<Finding> {
    let is_many = sample.touched * 4 >= sample.files && index.entries >= MANY_ENTRIES;
    is_many.then(|| {
        let (touched, files) = (sample.touched, sample.files);
        slow(
            "stat-data",
            format!("{touched} of {files} files have other times than the index: each status reads them"),
            "sapwood adopt",
        )
    })
}

fn untracked_cache(facts: &Facts, index: &IndexFacts) -> Option<Finding> {
    let is_local = facts.disk.as_ref().is_none_or(|disk| disk.is_local);
    let many = if is_local { MANY_DIRECTORIES } else { MANY_DISTANT_DIRECTORIES };
    if facts.sample.is_none() || index.directories < many {
        return None;
    }
    let directories = count(index.directories as u64);
    let cost = format!("each status lists {directories} directories");
    match (index.untracked, facts.settings.untracked_cache) {
        (CacheFacts::Here { .. }, _) => None,
        (CacheFacts::Foreign, _) => Some(slow(
            "untracked-cache-foreign",
            format!("the untracked cache was made in another place and is not used: {cost}"),
            "git update-index --force-untracked-cache",
        )),
        (CacheFacts::None, UntrackedCache::On) => Some(slow(
            "untracked-cache-empty",
            format!("the untracked cache is configured and not filled yet: {cost}"),
            "git status",
        )),
        (CacheFacts::None, _) => Some(slow(
            "untracked-cache-off",
            format!("the untracked cache is off: {cost}"),
            "git config core.untrackedCache true",
        )),
    }
}

/// Returns the time to examine all files one after the other.
pub(super) fn pass(sample: &Sample, index: &IndexFacts) -> Duration {
    sample.stat * u32::try_from(index.entries.saturating_sub(index.skipped)).unwrap_or(u32::MAX)
}

fn monitor(facts: &Facts, index: &IndexFacts, programs: &Programs) -> Option<Finding> {
    if let MonitorState::Unfit(why) = &facts.monitor {
        return Some(slow(
            "monitor-unfit",
            format!("core.fsmonitor has no effect but a warning: {why}"),
            "git config core.fsmonitor false",
        ));
    }
    let pass = facts.sample.map(|sample| pass(&sample, index)).filter(|pass| *pass >= LONG_PASS)?;
    let is_local = facts.disk.as_ref().is_none_or(|disk| disk.is_local);
    let has_daemon = programs.real.as_ref().is_some_and(|git| git.has_daemon);
    (facts.monitor == MonitorState::None && is_local && has_daemon).then(|| {
        let files = count((index.entries - index.skipped) as u64);
        slow(
            "monitor-off",
            format!("no file system monitor: each status examines {files} files, about {}", time(pass)),
            "git config core.fsmonitor true",
        )
    })
}

fn packs(objects: &ObjectFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let outside = objects.packs.saturating_sub(objects.indexed_packs.unwrap_or_default());
    if outside >= MANY_PACKS {
        let packs = several(outside, "pack");
        found.push(slow(
            "multi-pack-index",
            format!("{packs} without a multi-pack-index: a lookup may search each of them"),
            "git multi-pack-index write",
        ));
    }
    if objects.loose > MANY_LOOSE {
        let loose = count(objects.loose as u64);
        found.push(slow(
            "loose-objects",
            format!("about {loose} loose objects: each is a file to look for and to open"),
            "git maintenance run --task=loose-objects",
        ));
    }
    found
}

fn commit_graph(facts: &Facts) -> Option<Finding> {
    let packed = facts.objects.packed;
    if packed < MANY_OBJECTS {
        return None;
    }
    if facts.settings.ignores_commit_graph {
        let message = "core.commitGraph=false: each walk of the history reads all commits".to_owned();
        return Some(slow("commit-graph-off", message, "git config core.commitGraph true"));
    }
    (!facts.objects.has_commit_graph).then(|| {
        let message =
            format!("no commit-graph for {} objects: walks of the history read all commits", count(packed));
        slow("commit-graph", message, "git maintenance run --task=commit-graph")
    })
}

fn sparse(facts: &Facts, index: &IndexFacts) -> Option<Finding> {
    if index.skipped < MANY_SKIPPED {
        return None;
    }
    let skipped = format!("{} entries outside of the sparse worktree", count(index.skipped as u64));
    match facts.settings.sparse {
        Some(SparseCheckout::Cone) if !index.is_sparse => Some(slow(
            "sparse-index",
            format!("the index holds {skipped}: each command reads them"),
            "git sparse-checkout reapply --sparse-index",
        )),
        Some(SparseCheckout::Patterns) => Some(Finding {
            id: "sparse-patterns",
            kind: Kind::Slow,
            message: format!("{skipped} are matched with patterns; directories (a cone) take less time"),
            mend: Some("git sparse-checkout set --cone <directory>...".to_owned()),
        }),
        _ => None,
    }
}

fn large_index(facts: &Facts, index: &IndexFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if index.size < LARGE_INDEX {
        return found;
    }
    if !facts.settings.skips_hash {
        let size = readable(index.size);
        found.push(slow(
            "skip-hash",
            format!("index.skipHash is off: {size} are hashed whenever the index is written"),
            "git config index.skipHash true",
        ));
    }
    if index.saved_by_version_4 * 5 >= index.size {
        let (version, saved) = (index.version, readable(index.saved_by_version_4));
        found.push(slow(
            "index-version",
            format!("the index has version {version}: in version 4 it is {saved} smaller"),
            "git update-index --index-version 4",
        ));
    }
    found
}

fn settings(facts: &Facts, index: &IndexFacts) -> Vec<Finding> {
    let settings = &facts.settings;
    let mut found = Vec::new();
    if settings.reads_alone {
        let message = "core.preloadIndex=false: files are examined one after the other".to_owned();
        found.push(slow("preload-index", message, "git config core.preloadIndex true"));
    }
    if settings.writes_alone {
        let message = "checkout.workers=1: files are written one after the other".to_owned();
        found.push(slow("checkout-workers", message, "git config checkout.workers 0"));
    }
    if settings.loads_alone {
        let entries = count(index.entries as u64);
        let message = format!("index.threads=1: one thread reads {entries} entries");
        found.push(slow("index-threads", message, "git config index.threads true"));
    }
    if let Some(value) = settings.synced.last() {
        let message = format!("core.fsync={value}: commands wait for the disk");
        found.push(slow("fsync", message, "git config core.fsync ''"));
    }
    for filter in &settings.slow_filters {
        let message = format!("filter.{filter} has no 'process': a program is started for each file");
        let mend = (filter == "lfs").then(|| "git lfs install".to_owned());
        found.push(Finding { id: "filter-process", kind: Kind::Slow, message, mend });
    }
    found
}

#[cfg(test)]
mod tests;
