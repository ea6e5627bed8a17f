//! Facts about a repository that determine how fast its commands are. Each is cheap to find.
//!
//! Order: settings and locks; the index; the disk, by a sample of its files; the object database;
//! worktrees. Nothing is written. A fact that cannot be determined is `None`; damage is a fact.

mod index;
mod objects;
mod sample;

use std::{path::PathBuf, time::Duration};

use bstr::ByteSlice as _;
use engine::{
    sparse,
    untracked::cache::{self, CacheSetting},
    worktree::prune::{self, Expire, Verdict},
};
use repo::{Repository, keys};
use sys::{FileSystem, by_path};

pub(super) use self::{
    index::{CacheFacts, IndexFacts, IndexState},
    objects::ObjectFacts,
    sample::Sample,
};
use crate::session::monitor::{self, Monitor};

/// All facts.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) settings: Settings,
    pub(super) locks: Vec<LockFile>,
    pub(super) index: IndexState,
    /// The file system of the worktree, or of the Git directory if there is no worktree.
    pub(super) disk: Option<FileSystem>,
    pub(super) sample: Option<Sample>,
    pub(super) monitor: MonitorState,
    pub(super) objects: ObjectFacts,
    pub(super) worktrees: Worktrees,
}

/// Settings that affect speed.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) untracked_cache: UntrackedCache,
    /// `core.preloadIndex=false`
    pub(super) reads_alone: bool,
    /// `checkout.workers=1`
    pub(super) writes_alone: bool,
    /// `index.threads=1`
    pub(super) loads_alone: bool,
    /// `index.skipHash`
    pub(super) skips_hash: bool,
    /// The value of `core.fsync`, if it makes common commands wait for the disk.
    pub(super) synced: Vec<String>,
    /// Filters with `smudge` or `clean` and without `process`.
    pub(super) slow_filters: Vec<String>,
    /// `core.sparseCheckout`
    pub(super) sparse: Option<SparseCheckout>,
    /// `core.commitGraph=false`
    pub(super) ignores_commit_graph: bool,
}

/// `core.untrackedCache`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UntrackedCache {
    #[default]
    Keep,
    On,
    Off,
}

/// The patterns of a sparse worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SparseCheckout {
    Cone,
    Patterns,
}

/// A lock file that exists.
#[derive(Debug)]
pub(super) struct LockFile {
    pub(super) path: PathBuf,
    /// `None` if its modification time lies in the future.
    pub(super) age: Option<Duration>,
}

/// The file system monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum MonitorState {
    #[default]
    None,
    /// Configured, but unable to watch this worktree; the reason is in Git's words.
    Unfit(String),
    Program,
    /// The workspace itself records its changes.
    Workspace,
    Daemon {
        is_running: bool,
    },
}

/// Linked worktrees.
#[derive(Debug, Default)]
pub(super) struct Worktrees {
    pub(super) linked: usize,
    /// Worktrees whose directory no longer exists.
    pub(super) stale: usize,
}

impl Facts {
    /// Collects the facts about `repo`.
    pub(super) fn find(repo: &Repository, cwd: &std::path::Path) -> Facts {
        let (index, loaded) = index::load(repo);
        let place = repo.work_tree().unwrap_or_else(|| repo.git_dir());
        Facts {
            settings: Settings::read(repo),
            locks: locks(repo),
            sample: loaded.as_ref().and_then(|loaded| Sample::take(repo, loaded)),
            objects: ObjectFacts::find(repo, loaded.as_ref()),
            index,
            disk: FileSystem::of(place).ok(),
            monitor: MonitorState::find(repo, cwd),
            worktrees: Worktrees::count(repo),
        }
    }
}

impl Settings {
    fn read(repo: &Repository) -> Settings {
        let is = |key: &str, value: bool| repo.config_as(key).is_ok_and(|found| found == Some(value));
        const WAITING: &[&str] = &["all", "committed", "added", "index", "reference", "loose-object"];
        let synced = repo.config_str(&keys::core::FSYNC);
        let waits = |value: &&bstr::BString| {
            value
                .split(|byte| b", ".contains(byte))
                .any(|part| WAITING.iter().any(|it| part == it.as_bytes()))
        };
        let cone = || {
            if is(keys::core::SPARSE_CHECKOUT_CONE.name(), false) {
                SparseCheckout::Patterns
            } else {
                SparseCheckout::Cone
            }
        };
        Settings {
            untracked_cache: match cache::setting(repo) {
                Ok(CacheSetting::Write) => UntrackedCache::On,
                Ok(CacheSetting::Remove) => UntrackedCache::Off,
                Ok(CacheSetting::Keep) | Err(_) => UntrackedCache::Keep,
            },
            reads_alone: is(keys::core::PRELOAD_INDEX.name(), false),
            writes_alone: repo.config(&keys::checkout::WORKERS).is_ok_and(|workers| workers == Some(1)),
            loads_alone: repo.config_str(&keys::index::THREADS).is_some_and(|value| value == "1")
                || is(keys::index::THREADS.name(), false),
            skips_hash: is(keys::index::SKIP_HASH.name(), true)
                || is(keys::feature::MANY_FILES.name(), true) && !is(keys::index::SKIP_HASH.name(), false),
            synced: synced.iter().filter(waits).map(|value| value.to_str_lossy().into_owned()).collect(),
            slow_filters: slow_filters(repo),
            sparse: sparse::is_on(repo).is_ok_and(|is_on| is_on).then(cone),
            ignores_commit_graph: is(keys::core::COMMIT_GRAPH.name(), false),
        }
    }
}

fn slow_filters(repo: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for name in repo.config_names() {
        let Some(rest) = name.strip_prefix(b"filter.") else { continue };
        let Some(filter) = rest.strip_suffix(b".smudge").or_else(|| rest.strip_suffix(b".clean")) else {
            continue;
        };
        let filter = String::from_utf8_lossy(filter).into_owned();
        let has_process = repo.config_str(&keys::filter::PROCESS.of(&filter)).is_some();
        if !has_process && !found.contains(&filter) {
            found.push(filter);
        }
    }
    found
}

fn locks(repo: &Repository) -> Vec<LockFile> {
    let mut index = repo.index_path().into_os_string();
    index.push(".lock");
    let own = [PathBuf::from(index), repo.git_dir().join("HEAD.lock")];
    let shared = ["config.lock", "packed-refs.lock", "shallow.lock"].map(|name| repo.common_dir().join(name));
    let mut found = Vec::new();
    for path in own.into_iter().chain(shared) {
        if let Ok(Some(stat)) = by_path::stat(&path) {
            let made = Duration::from_secs(u64::try_from(stat.mtime.0).unwrap_or_default());
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            found.push(LockFile { path, age: now.checked_sub(made) });
        }
    }
    found
}

impl MonitorState {
    fn find(repo: &Repository, cwd: &std::path::Path) -> MonitorState {
        match monitor::configured(repo) {
            Ok(Monitor::None) | Err(_) => MonitorState::None,
            Ok(Monitor::Unfit(why)) => MonitorState::Unfit(why.message(repo, cwd).to_string()),
            Ok(Monitor::Program(_)) => MonitorState::Program,
            Ok(Monitor::Workspace(_) | Monitor::Union(_)) => MonitorState::Workspace,
            Ok(Monitor::Daemon(socket)) => MonitorState::Daemon { is_running: monitor::is_running(&socket) },
        }
    }
}

impl Worktrees {
    fn count(repo: &Repository) -> Worktrees {
        let ids = by_path::list(&repo.common_dir().join("worktrees")).unwrap_or_default();
        let is_stale = |id: &std::ffi::OsStr| {
            matches!(prune::verdict(repo.common_dir(), id, Expire::Now), Verdict::Prune(_))
        };
        Worktrees { linked: ids.len(), stale: ids.iter().filter(|(id, _)| is_stale(id)).count() }
    }
}
