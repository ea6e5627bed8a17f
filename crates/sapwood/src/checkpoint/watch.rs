//! Makes an entry whenever the worktree or the index has changed and is quiet again.
//!
//! Order: the lock that keeps a second watcher out; the watches; an entry, if the state differs
//! from the newest one; the wait for a change, and for the pause after it; an entry again.
//!
//! The repository is opened anew for each entry. If that fails, because the worktree is unmounted
//! or its configuration is damaged, no entry is made until it succeeds again. A worktree that is
//! unmounted during the comparison gets no entry either: its root is open before it begins, and is
//! compared with the path after it. The run ends when the interrupt is raised, or when the Git
//! directory of the worktree is gone.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, checkpoint::watch};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let plan = watch::plan(&repository, watch::Request::default())?;
//! plan.run(&Silent, &mut |made| println!("checkpoint {}", made.number))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    time::{Duration, Instant},
};

use bstr::BString;
use engine::tree_watch::TreeWatch;
use repo::Repository as Opened;
use store::index::ReadOptions;
use sys::{Dir, File, by_path};

use super::{Report as Made, Unsaved, limits::Limits, open_root, series::is_index_locked};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, events::Notices, settings::Settings,
    text,
};

/// The default of [`Request::settle`]. The writes of one call of a tool, or of one save of an
/// editor, are closer together. The next call of an agent comes later.
pub const SETTLE: Duration = Duration::from_millis(500);

/// The shortest pause: with none, the wait for a lock would occupy a processor.
const SHORTEST: Duration = Duration::from_millis(10);

/// Under changes without a pause an entry is made after this time, or after the pause if that is
/// longer.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest wait. A signal just before a wait, an interrupt and the end of the worktree are seen
/// after it.
const WAIT: Duration = Duration::from_secs(1);

/// The file in the Git directory of a worktree that its watcher locks.
const LOCK: &str = "sapwood-watch";

/// The options of a watcher.
#[derive(Clone, Debug)]
pub struct Request {
    /// The pause after a change, before an entry is made.
    pub settle: Duration,
    /// The label of the entries.
    pub label: BString,
    /// The command that asked for it.
    pub command: BString,
}

impl Default for Request {
    fn default() -> Request {
        Request { settle: SETTLE, label: BString::default(), command: BString::default() }
    }
}

/// The result of a watcher whose worktree was removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The number of entries that were made.
    pub made: u64,
}

/// A watcher that can run. No other watcher of the worktree can be planned until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    watcher: Watcher,
    notices: Vec<Notice>,
}

/// Checks that the worktree can be watched. Makes no entry.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let watcher = begin(repository.recording_context(&notices), request)?;
    Ok(Plan { repository, watcher, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Makes entries, and calls `each` after each one.
    pub fn run(self, events: &impl Events, each: &mut dyn FnMut(&Made)) -> Result<Report, RunError> {
        let Plan { repository, watcher, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(watcher.follow(repository.recording_context(events), each)?)
    }
}

/// The lock and the watches of a worktree.
pub struct Watcher {
    request: Request,
    tree: Option<TreeWatch>,
    _lock: File,
}

/// Locks and watches the worktree.
pub fn begin(context: Context<'_>, request: Request) -> Result<Watcher, Error> {
    context.repo.work_tree().ok_or(Error::NoWorktree)?;
    Limits::read(context.repo)?;
    let path = context.repo.git_dir().join(LOCK);
    let shared = context.settings.locks.shared;
    let lock = by_path::lock_file(&path, shared.file_mode(0o666)).map_err(Error::cannot_open(&path))?;
    shared.adjust_file(&lock).map_err(Error::cannot_open(&path))?;
    if !sys::try_lock(&lock).map_err(Error::cannot_open(&path))? {
        return Err(Error::Watched);
    }
    let root = open_root(context)?;
    let tree = watch(context)?;
    must_be_root(context, &root)?;
    Ok(Watcher { request, tree: Some(tree), _lock: lock })
}

/// Watches the worktree.
fn watch(context: Context<'_>) -> Result<TreeWatch, Error> {
    let repo = context.repo;
    let top = repo.work_tree().ok_or(Error::NoWorktree)?;
    let index = store::index::load(&repo.index_path(), repo.hash(), &ReadOptions::default())?;
    Ok(TreeWatch::new(repo, top, &index)?)
}

impl Watcher {
    /// Makes entries until the interrupt is raised, which is an error, or the worktree is removed.
    pub fn follow(mut self, context: Context<'_>, each: &mut dyn FnMut(&Made)) -> Result<Report, Error> {
        let mut report = Report::default();
        let mut is_reported = false;
        loop {
            context.check_interrupt()?;
            let waited = self.store(context).and_then(|made| {
                if let Some(made) = made {
                    report.made += 1;
                    each(&made);
                }
                self.wait(context)
            });
            match waited {
                Ok(()) => is_reported = false,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(_) if is_gone(context.repo.git_dir()) => return Ok(report),
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        context.events.notice(Notice::WatchPauses(error.to_string()));
                    }
                    self.tree = None;
                    std::thread::sleep(WAIT);
                }
            }
        }
    }

    /// Makes an entry of a state that differs from the newest one, in the repository as it is now.
    fn store(&mut self, context: Context<'_>) -> Result<Option<Made>, Error> {
        let root = open_root(context)?;
        let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
        let repo = Opened::open(&context.repo.options_at(top))?;
        if (repo.work_tree(), repo.git_dir()) != (Some(top), context.repo.git_dir()) {
            return Err(is_another(top));
        }
        let settings = Settings::read(&repo, context.events)?.for_recording();
        let context = Context { repo: &repo, settings: &settings, ..context };
        // Changes after this point end the next wait.
        if self.tree.as_ref().is_none_or(TreeWatch::is_stale) {
            self.tree = Some(watch(context)?);
        }
        let unsaved = Unsaved::look(context, &root)?;
        must_be_root(context, &root)?;
        if !unsaved.is_changed() {
            return Ok(None);
        }
        let Request { label, command, .. } = self.request.clone();
        unsaved.save(super::Request { label, command }).map(Some)
    }

    /// Waits for a change, and then for a pause.
    fn wait(&mut self, context: Context<'_>) -> Result<(), Error> {
        let settle = self.request.settle.max(SHORTEST);
        let longest = settle.max(LONGEST);
        let Some(tree) = &mut self.tree else { return Ok(()) };
        let is_over = || context.check_interrupt().map(|()| is_gone(context.repo.git_dir()));
        while !tree.wait(WAIT)? {
            if is_over()? {
                return Ok(());
            }
        }
        let first = Instant::now();
        let mut last = first;
        while first.elapsed() < longest && !is_over()? {
            if tree.wait(settle.saturating_sub(last.elapsed()).min(WAIT))? {
                last = Instant::now();
            } else if last.elapsed() >= settle {
                // A command that holds the index is in the middle of its changes.
                if !is_index_locked(context.repo) {
                    break;
                }
                last = Instant::now();
            }
        }
        Ok(())
    }
}

/// Returns an error if the root of the worktree is not the directory `root`, which the caller has
/// opened there before.
fn must_be_root(context: Context<'_>, root: &Dir) -> Result<(), Error> {
    let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
    let identity = |dir: &Dir| dir.stat_self().map(|stat| (stat.dev, stat.ino));
    let held = identity(root).map_err(Error::cannot_open(top))?;
    let now = identity(&open_root(context)?).map_err(Error::cannot_open(top))?;
    if held == now { Ok(()) } else { Err(is_another(top)) }
}

fn is_another(top: &Path) -> Error {
    let path = top.as_os_str().as_bytes();
    Error::Failed(text!("'", path, "' is not the worktree that was watched"))
}

fn is_gone(git_dir: &Path) -> bool {
    match by_path::stat(git_dir) {
        Ok(found) => found.is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}
