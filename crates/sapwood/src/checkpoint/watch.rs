//! Makes an entry whenever the worktree or the index has changed and is quiet again.
//!
//! Order: the lock that keeps a second watcher out; the watches; an entry, if the state differs
//! from the newest one; the wait for a change, and for the pause after it; an entry again.
//!
//! The repository is opened anew for each entry. If that fails, because the worktree is unmounted
//! or its configuration is damaged, no entry is made until it succeeds again. The run ends when
//! the interrupt is raised, or when the Git directory of the worktree is gone.
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
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bstr::BString;
use engine::tree_watch::TreeWatch;
use repo::Repository as Opened;
use store::index::ReadOptions;
use sys::{File, by_path};

use super::{Report as Made, limits::Limits, make_if_changed};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, events::Notices, settings::Settings,
    text,
};

/// The default of [`Request::settle`]. The writes of one call of a tool, or of one save of an
/// editor, are closer together. The next call of an agent comes later.
pub const SETTLE: Duration = Duration::from_millis(500);

/// The shortest pause: with none, the wait for a lock would occupy a processor.
const SHORTEST: Duration = Duration::from_millis(10);

/// Under changes without a pause an entry is made after this time.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest wait. A signal just before a wait is seen after it.
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
    Ok(Watcher { request, tree: Some(watch(context)?), _lock: lock })
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
        let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
        let repo = Opened::open(&context.repo.options_at(top))?;
        if (repo.work_tree(), repo.git_dir()) != (Some(top), context.repo.git_dir()) {
            let path = std::os::unix::ffi::OsStrExt::as_bytes(top.as_os_str());
            return Err(Error::Failed(text!("'", path, "' is not the worktree that was watched")));
        }
        let settings = Settings::read(&repo, context.events)?.for_recording();
        let context = Context { repo: &repo, settings: &settings, ..context };
        // Changes after this point end the next wait.
        if self.tree.as_ref().is_none_or(TreeWatch::is_stale) {
            self.tree = Some(watch(context)?);
        }
        let Request { label, command, .. } = self.request.clone();
        make_if_changed(context, super::Request { label, command })
    }

    /// Waits for a change, and then for a pause.
    fn wait(&mut self, context: Context<'_>) -> Result<(), Error> {
        let settle = self.request.settle.max(SHORTEST);
        let Some(tree) = &mut self.tree else { return Ok(()) };
        while !tree.wait(WAIT)? {
            context.check_interrupt()?;
            if is_gone(context.repo.git_dir()) {
                return Ok(());
            }
        }
        let first = Instant::now();
        let lock = locked_by(&context.repo.index_path());
        let is_locked = || matches!(by_path::stat(&lock), Ok(Some(_)));
        // A command that holds the index is in the middle of its changes.
        while first.elapsed() < LONGEST && (tree.wait(settle)? || is_locked()) {
            context.check_interrupt()?;
        }
        Ok(())
    }
}

/// Returns the path of the lock of a file.
fn locked_by(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}

fn is_gone(git_dir: &Path) -> bool {
    match by_path::stat(git_dir) {
        Ok(found) => found.is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}
