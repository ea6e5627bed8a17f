//! Proves that automatic maintenance has no work to do, so that no process is started to learn
//! that.
//!
//! Each Git has conditions of its own: 2.55 asks six tasks (`geometric`), older ones count packs
//! and loose objects (`gc`). The checks here are stricter than all of them. Where they prove
//! nothing, the real Git decides.

use std::{
    io,
    ops::ControlFlow,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::ByteSlice as _;
use repo::{ListScope, ListedRef, LogLine, Repository};
use sys::{FileType, by_path};

/// With a second file in `objects/17`, Git's estimate of the loose objects is above its smallest
/// limit.
const LOOSE_IN_ONE_DIRECTORY: usize = 1;
/// Git combines packs only if there are two.
const PACKS: usize = 1;
/// Git packs refs from this number of loose ones on.
const LOOSE_REFS: usize = 16;
/// More refs are not read here.
const REFS: usize = 100;
/// Git writes a commit-graph for this number of commits that the last one lacks, and expires this
/// number of old entries of a reflog.
const ENTRIES: usize = 100;
/// Git's shortest time until an entry of a reflog expires.
const EXPIRY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns true unless it is certain that no task of any Git has work to do.
pub(super) fn is_possible(repo: &Repository) -> bool {
    is_traced(repo) || is_configured(repo) || !is_idle(repo)
}

/// Returns true if a trace shows the start of the maintenance: scripts search for it.
fn is_traced(repo: &Repository) -> bool {
    let is_trace = |name: &[u8]| name.starts_with(b"GIT_TRACE");
    repo.env().keys().any(|name| is_trace(name.as_encoded_bytes()))
}

/// Returns true if a setting changes the tasks or their limits, or sends traces to a file.
fn is_configured(repo: &Repository) -> bool {
    repo.config_names().any(|name| {
        let name = name.to_ascii_lowercase();
        let task = name.strip_prefix(b"maintenance.");
        task.is_some_and(|key| key != b"auto" && key != b"autodetach")
            || name.starts_with(b"trace2.")
            || name.starts_with(b"gc.") && name.contains_str("reflogexpire")
    })
}

fn is_idle(repo: &Repository) -> bool {
    let (common, objects) = (repo.common_dir(), repo.objects_dir());
    let Ok(reflog) = repo.reflog("HEAD".into()) else { return false };
    let reflog = reflog.unwrap_or_default();
    !is_there(&common.join("worktrees"))
        && !is_there(&common.join("rr-cache"))
        && has_at_most(&objects.join("17"), LOOSE_IN_ONE_DIRECTORY, |_| true)
        && has_at_most(&objects.join("pack"), PACKS, |name| name.ends_with(b".pack"))
        && has_few_expired(&reflog)
        && is_small(repo, reflog.len())
        && count_files(&common.join("refs"), LOOSE_REFS).is_some()
        && has_few_new_commits(repo)
}

fn is_there(path: &Path) -> bool {
    !matches!(by_path::stat(path), Ok(None))
}

/// Returns true if the directory is missing or has at most `limit` such names.
fn has_at_most(dir: &Path, limit: usize, counts: impl Fn(&[u8]) -> bool) -> bool {
    match by_path::list(dir) {
        Ok(names) => names.iter().filter(|(name, _)| counts(name.as_encoded_bytes())).count() <= limit,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the number of files in the tree below `dir`, if it is less than `limit`.
fn count_files(dir: &Path, limit: usize) -> Option<usize> {
    let mut count = 0;
    for (name, file_type) in by_path::list(dir).ok()? {
        count += match file_type {
            FileType::Directory => count_files(&dir.join(name), limit)?,
            _ => 1,
        };
        if count >= limit {
            return None;
        }
    }
    Some(count)
}

/// Returns true if fewer than [`ENTRIES`] entries of a reflog may have expired.
fn has_few_expired(reflog: &[LogLine]) -> bool {
    let since = SystemTime::now().checked_sub(EXPIRY).and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .is_some_and(|since| reflog.iter().filter(|line| line.date < since).count() < ENTRIES)
}

/// Returns false if the repository has no commit-graph and probably [`ENTRIES`] commits. To read
/// them in vain would take half of the time that it takes to start Git.
fn is_small(repo: &Repository, reflog_length: usize) -> bool {
    const OBJECTS_PER_COMMIT: usize = 10;
    let few = (OBJECTS_PER_COMMIT * ENTRIES) as u64;
    repo.has_commit_graph()
        || reflog_length < ENTRIES && repo.objects().packed_count().is_ok_and(|count| count < few)
}

/// Returns true if fewer than [`ENTRIES`] commits are reachable and not in the commit-graph.
fn has_few_new_commits(repo: &Repository) -> bool {
    let mut tips = Vec::new();
    let visit = |listed: &ListedRef<'_>| {
        tips.push(listed.peeled.unwrap_or(listed.id));
        Ok::<_, repo::Error>(if tips.len() > REFS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    };
    match repo.each_ref(ListScope::Below("refs/".into()), None, visit) {
        Ok(ControlFlow::Continue(())) => repo.has_few_commits_outside_graph(&tips, ENTRIES),
        _ => false,
    }
}
