//! Removal of doomed paths in parallel: files grouped by directory, and whole directories from the
//! bottom up.
//!
//! Each directory is read once. Its listing shows whether it may be another repository, which
//! stays. The worker that finishes the last entry of a directory also removes the directory. A
//! directory that keeps an entry stays, without a message of its own.
//!
//! A failure does not stop the removal of other paths. Each failure is reported, in the order of a
//! single-threaded run.
//!
//! The repository itself stays, even inside the removed directories ([`crate::guard`]). It is
//! reported as a path that could not be removed.
//!
//! Files are reached through handles below the worktree's root, so no link is followed.

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sys::{
    FileType,
    profile::{self, Phase},
};

use crate::{
    crew::{self, Meter, StepReporter, Tuning, Workers},
    files::{Allowed, Failed, Premise, Removed, Worktree},
    guard,
    look::{copy_error, handle::Handle, unlinked::Unlinked},
};

/// Options of a removal.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Removal or dry run.
    pub act: Act,
    /// The policy for other repositories.
    pub repositories: Repositories,
    /// The command's current directory, without a slash at its end. It stays.
    pub cwd: Option<&'a BStr>,
    /// The limit of worker threads.
    pub workers: Workers,
    /// Flag that stops the removal early.
    pub interrupt: &'a AtomicBool,
    /// Counts the files and directories that are removed.
    pub meter: Option<&'a Meter>,
}

/// Removal or dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Paths are removed.
    Remove,
    /// Nothing is changed. The outcomes list the paths that would be removed.
    DryRun,
}

/// The policy for other repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repositories {
    /// They stay and are reported.
    Keep,
    /// They are removed with the directory they are in.
    Remove,
}

/// A line of the report. Paths are relative to the root of the worktree.
#[derive(Debug)]
pub enum Event {
    /// The path is removed, or would be in a dry run.
    Removed(BString),
    /// The path is another repository, which stays.
    Repository(BString),
    /// The path is the command's current directory, which stays.
    Cwd,
    /// The path could not be removed.
    Failed(BString, io::Error),
}

/// The result for one doomed path.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The events in the order of a single-threaded run.
    pub events: Vec<Event>,
    /// True if a path could not be removed.
    pub failed: bool,
}

/// An error before the first removal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worktree is the repository.
    #[error(transparent)]
    Guard(#[from] guard::Error),
    /// The handle of the worktree's root could not be duplicated.
    #[error("cannot open the worktree: {}", sys::reason(.0))]
    Open(io::Error),
}

/// Removes `doomed` (from [`super::doomed`]) from the worktree at `top`, which is open as `root`.
/// Returns one outcome for each path.
pub fn remove(
    repo: &Repository,
    top: &Path,
    root: &sys::Dir,
    doomed: &[BString],
    options: &Options<'_>,
) -> Result<Vec<Outcome>, Error> {
    if doomed.is_empty() {
        return Ok(Vec::new());
    }
    let _phase = profile::span(Phase::Execute);
    let worktree = Worktree::of(repo, top, root)?;
    let outcomes = doomed.iter().map(|_| OnceLock::new()).collect();
    let run = Run { repo, top, worktree, unlinked: Unlinked::default(), doomed, options, outcomes };
    let top = Handle::top(root.try_clone().map_err(Error::Open)?);
    let mut jobs = Vec::new();
    let mut at = 0;
    while at < doomed.len() {
        let path = doomed[at].as_bstr();
        let job = match path.strip_suffix(b"/") {
            Some(dir) => {
                at += 1;
                Job::Directory(Node::new(ReportTo::Outcome(at - 1), dir.as_bstr()), Arc::clone(&top))
            }
            None => {
                let dir = |path: &BStr| path.rfind_byte(b'/').unwrap_or(0);
                let length = dir(path);
                let here = |other: &&BString| {
                    !other.ends_with(b"/")
                        && dir(other.as_bstr()) == length
                        && other[..length] == path[..length]
                };
                let files = at..at + doomed[at..].iter().take(FILES_PER_JOB).take_while(here).count();
                at = files.end;
                Job::Files(files, Arc::clone(&top))
            }
        };
        jobs.push(job);
    }
    jobs.reverse();
    let tuning = Tuning::default();
    let listing = |_| sys::Listing::default();
    crew::descend(
        "clean",
        &tuning,
        options.workers,
        doomed.len(),
        jobs,
        listing,
        |listing, job, jobs, reporter| match job {
            Job::Files(files, top) => run.files(files, &top, reporter),
            Job::Directory(node, from) => run.directory(listing, node, from, jobs, reporter),
        },
    );
    Ok(run.outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap_or_default()).collect())
}

/// The maximum number of doomed files of one directory in a job.
const FILES_PER_JOB: usize = 256;

enum Job {
    /// Doomed files of one directory.
    Files(Range<usize>, Arc<Handle>),
    /// A directory, and a handle above it.
    Directory(Arc<Node>, Arc<Handle>),
}

/// A directory to remove.
struct Node {
    report_to: ReportTo,
    /// The path relative to the worktree's root, without a slash at its end.
    path: BString,
    listed: OnceLock<Listed>,
    /// Number of subdirectories that are not finished, plus one for the directory's own job.
    pending: AtomicUsize,
    /// The entries that stay or have events, each with its position in the listing.
    unremoved: Mutex<Vec<(usize, Removal)>>,
}

/// The receiver of a directory's result.
enum ReportTo {
    /// The outcome of the doomed path with this number.
    Outcome(usize),
    /// The parent directory. The result belongs to this position of its listing.
    Parent(Arc<Node>, usize),
}

/// The names in a directory, and a handle of a parent directory.
struct Listed {
    names: Vec<BString>,
    from: Arc<Handle>,
    allowed: Allowed,
}

/// The result for an entry of a directory.
struct Removal {
    events: Vec<Event>,
    failed: bool,
    gone: bool,
}

impl Removal {
    fn kept(event: Event, failed: bool) -> Removal {
        Removal { events: vec![event], failed, gone: false }
    }
}

impl Node {
    fn new(report_to: ReportTo, path: &BStr) -> Arc<Node> {
        Arc::new(Node {
            report_to,
            path: path.to_owned(),
            listed: OnceLock::new(),
            pending: AtomicUsize::new(1),
            unremoved: Mutex::default(),
        })
    }

    /// Returns the path for the report. A doomed directory has a slash at its end.
    fn display_path(&self) -> BString {
        let mut path = self.path.clone();
        if self.is_doomed() {
            path.push(b'/');
        }
        path
    }

    fn is_doomed(&self) -> bool {
        matches!(self.report_to, ReportTo::Outcome(_))
    }

    fn record_unremoved(&self, place: usize, removal: Removal) {
        self.unremoved.lock().unwrap_or_else(PoisonError::into_inner).push((place, removal));
    }
}

struct Run<'a> {
    repo: &'a Repository,
    top: &'a Path,
    worktree: Worktree<'a>,
    /// Empty: no premise names a file.
    unlinked: Unlinked,
    doomed: &'a [BString],
    options: &'a Options<'a>,
    outcomes: Vec<OnceLock<Outcome>>,
}

impl Run<'_> {
    fn interrupted(&self) -> bool {
        self.options.interrupt.load(Ordering::Relaxed)
    }

    fn files(&self, files: Range<usize>, top: &Handle, reporter: &mut dyn StepReporter) {
        let dir = self.doomed[files.start]
            .rfind_byte(b'/')
            .map(|slash| self.doomed[files.start][..slash].as_bstr());
        let opened = match (dir, self.options.act) {
            (Some(dir), Act::Remove) => Some(top.dir().open_dir(dir)),
            _ => None,
        };
        for at in files {
            if self.interrupted() {
                return;
            }
            let path = self.doomed[at].as_bstr();
            let name = path[dir.map_or(0, |dir| dir.len() + 1)..].as_bstr();
            let removed = self.check(path).and_then(|allowed| match &opened {
                None => self.remove_file(allowed, top.dir(), name),
                Some(Ok(dir)) => self.remove_file(allowed, dir, name),
                Some(Err(error)) => Err(copy_error(error)),
            });
            reporter.step();
            self.count();
            let outcome = match removed {
                Ok(Removed::Gone) => Outcome { events: vec![Event::Removed(path.to_owned())], failed: false },
                Ok(Removed::Missing | Removed::Changed) => Outcome::default(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::default(),
                Err(error) => Outcome { events: vec![Event::Failed(path.to_owned(), error)], failed: true },
            };
            self.set_outcome(at, outcome);
        }
    }

    fn count(&self) {
        if let Some(meter) = self.options.meter {
            meter.add(1);
        }
    }

    fn check(&self, path: &BStr) -> io::Result<Allowed> {
        self.worktree.check(path).map_err(|error| match error {
            guard::Error::Step { own, .. } => {
                io::Error::other(format!("this repository's Git directory is '{own}'"))
            }
            other => io::Error::other(other),
        })
    }

    fn set_outcome(&self, at: usize, outcome: Outcome) {
        let set = self.outcomes[at].set(outcome);
        debug_assert!(set.is_ok(), "each doomed path ends once");
    }

    fn directory(
        &self,
        listing: &mut sys::Listing,
        node: Arc<Node>,
        from: Arc<Handle>,
        jobs: &mut Vec<Job>,
        reporter: &mut dyn StepReporter,
    ) {
        if self.interrupted() {
            return;
        }
        let allowed = match self.check(node.path.as_bstr()) {
            Ok(allowed) => allowed,
            Err(error) => {
                let event = Event::Failed(node.display_path(), error);
                return self.finish_unvisited(node, Removal::kept(event, true));
            }
        };
        let mut names: Vec<(BString, FileType)> = Vec::new();
        let opened = listing.open(from.dir(), from.rest(&node.path), |entry| {
            names.push((entry.name.into(), entry.file_type));
            Ok::<_, io::Error>(())
        });
        let may_be_a_repository = match &opened {
            Ok(_) => names.iter().any(|(name, _)| name == ".git"),
            Err(_) => true,
        };
        if self.options.repositories == Repositories::Keep && may_be_a_repository && self.is_repository(&node)
        {
            let event = Event::Repository(node.display_path());
            return self.finish_unvisited(node, Removal::kept(event, false));
        }
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound && node.is_doomed() => {
                return self
                    .finish_unvisited(node, Removal { events: Vec::new(), failed: false, gone: false });
            }
            // An empty directory can be removed even if it cannot be read.
            Err(_) => {
                let removal = match self.remove_dir(allowed, &from, &node) {
                    Ok(()) => Removal { events: Vec::new(), failed: false, gone: true },
                    Err(error) => Removal::kept(Event::Failed(node.display_path(), error), true),
                };
                return self.finish_unvisited(node, removal);
            }
        };
        let mut directories = Vec::new();
        for (place, (name, file_type)) in names.iter().enumerate() {
            if self.interrupted() {
                return;
            }
            if *file_type == FileType::Directory {
                directories.push(place);
                continue;
            }
            let removed = self
                .check(below(&node, name.as_bstr()).as_bstr())
                .and_then(|allowed| self.remove_file(allowed, &dir, name.as_bstr()));
            reporter.step();
            self.count();
            if let Err(error) = removed {
                node.record_unremoved(
                    place,
                    Removal::kept(Event::Failed(below(&node, name.as_bstr()), error), true),
                );
            }
        }
        let handle = from.next(&dir, node.path.len() + 1);
        node.pending.fetch_add(directories.len(), Ordering::Relaxed);
        for &place in directories.iter().rev() {
            let path = below(&node, names[place].0.as_bstr());
            let child = Node::new(ReportTo::Parent(Arc::clone(&node), place), path.as_bstr());
            jobs.push(Job::Directory(child, Arc::clone(&handle)));
        }
        let names = names.into_iter().map(|(name, _)| name).collect();
        let set = node.listed.set(Listed { names, from, allowed });
        debug_assert!(set.is_ok(), "a directory is listed once");
        self.finish_job(node);
    }

    /// Removes a file, in whatever state: the user has doomed it.
    fn remove_file(&self, allowed: Allowed, dir: &sys::Dir, name: &BStr) -> io::Result<Removed> {
        match self.options.act {
            Act::DryRun => Ok(Removed::Gone),
            Act::Remove => {
                let removed = allowed.within(dir).remove(name, &Premise::Anything, &self.unlinked);
                removed.map_err(Failed::into_source)
            }
        }
    }

    fn remove_dir(&self, allowed: Allowed, from: &Handle, node: &Node) -> io::Result<()> {
        match self.options.act {
            Act::DryRun => Ok(()),
            Act::Remove => allowed.within(from.dir()).remove_empty(from.rest(&node.path)),
        }
    }

    fn is_repository(&self, node: &Node) -> bool {
        self.repo.is_worktree(&self.top.join(sys::os_str(&node.path)))
    }

    /// Counts one finished job of `node`. The worker that finishes the last job removes the
    /// directory, then does the same for its parent.
    fn finish_job(&self, node: Arc<Node>) {
        let mut next = Some(node);
        while let Some(node) = next.filter(|node| node.pending.fetch_sub(1, Ordering::AcqRel) == 1) {
            let removal = self.remove_if_empty(&node);
            next = self.report(&node, removal);
        }
    }

    /// Finishes a `node` whose entries are not visited.
    fn finish_unvisited(&self, node: Arc<Node>, removal: Removal) {
        if let Some(parent) = self.report(&node, removal) {
            self.finish_job(parent);
        }
    }

    /// Removes a directory whose entries are finished, unless one of them stays.
    fn remove_if_empty(&self, node: &Node) -> Removal {
        let mut unremoved =
            std::mem::take(&mut *node.unremoved.lock().unwrap_or_else(PoisonError::into_inner));
        unremoved.sort_by_key(|(place, _)| *place);
        let mut removal = Removal { events: Vec::new(), failed: false, gone: true };
        let mut stay = Vec::new();
        for (place, child) in unremoved {
            removal.events.extend(child.events);
            removal.failed |= child.failed;
            if !child.gone {
                removal.gone = false;
                stay.push(place);
            }
        }
        let listed = node.listed.get().expect("it was listed before its first child was begun");
        if removal.gone {
            if self.options.cwd == Some(node.path.as_bstr()) {
                removal.gone = false;
                removal.events.push(Event::Cwd);
            } else if let Err(error) = self.remove_dir(listed.allowed, &listed.from, node) {
                removal.gone = false;
                removal.failed = true;
                removal.events.push(Event::Failed(node.display_path(), error));
            }
        }
        if !removal.gone {
            let gone =
                listed.names.iter().enumerate().filter(|(place, _)| stay.binary_search(place).is_err());
            removal.events.extend(gone.map(|(_, name)| Event::Removed(below(node, name.as_bstr()))));
        }
        removal
    }

    /// Passes the result of `node` on. Returns the parent, if there is one: one of its jobs is now
    /// finished.
    fn report(&self, node: &Node, mut removal: Removal) -> Option<Arc<Node>> {
        match &node.report_to {
            ReportTo::Outcome(at) => {
                if removal.gone {
                    removal.events.push(Event::Removed(node.display_path()));
                }
                self.set_outcome(*at, Outcome { events: removal.events, failed: removal.failed });
                None
            }
            ReportTo::Parent(parent, place) => {
                if !removal.gone || !removal.events.is_empty() {
                    parent.record_unremoved(*place, removal);
                }
                Some(Arc::clone(parent))
            }
        }
    }
}

fn below(node: &Node, name: &BStr) -> BString {
    [node.path.as_bytes(), b"/", name.as_bytes()].concat().into()
}
