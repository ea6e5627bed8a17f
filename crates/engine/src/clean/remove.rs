//! Removing what is doomed: files grouped by directory, and whole directories from the bottom up, in parallel.
//!
//! Each directory is read once; the listing tells whether it may be another repository, which stays. The last one in a directory to be
//! gone takes the directory with it. A directory that keeps something stays itself, silently.
//! On failure what could be removed is; each failure is told, in the order in which one thread alone would have met it.
//!
//! The repository itself stays, wherever it lies ([`crate::guard`]). It is reported as a path that
//! could not be removed.
//!
//! Files are reached through handles beneath the worktree's root: no link is followed.

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
    crew::{self, Pace, Tuning, Workers},
    guard::{self, Guard},
    handle::Handle,
};

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// In earnest?
    pub act: Act,
    /// What becomes of other repositories.
    pub repositories: Repositories,
    /// Where the command was started, without a slash at its end: that directory stays.
    pub cwd: Option<&'a BStr>,
    /// At most so many threads.
    pub workers: Workers,
    /// Ends it early.
    pub interrupt: &'a AtomicBool,
}

/// Whether anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Things are removed.
    Remove,
    /// Nothing is: what would happen is told.
    Pretend,
}

/// What becomes of other repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repositories {
    /// They stay, and are told of.
    Stay,
    /// They go with the directory they are in.
    Go,
}

/// Something to be told. Paths are from the root of the worktree.
#[derive(Debug)]
pub enum Event {
    /// It is gone, or would be.
    Removed(BString),
    /// Another repository, which stays.
    Repository(BString),
    /// The directory the command was started in, which stays.
    Cwd,
    /// It could not be removed.
    Failed(BString, io::Error),
}

/// What became of one doomed path.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In order.
    pub events: Vec<Event>,
    /// Something could not be removed.
    pub failed: bool,
}

/// An error before the first removal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worktree is the repository.
    #[error(transparent)]
    Guard(#[from] guard::Error),
    /// The root's handle cannot be duplicated.
    #[error("cannot open the worktree: {}", sys::reason(.0))]
    Open(io::Error),
}

/// Removes `doomed` (from [`super::doomed`]) from the worktree at `top`, which is open as `root`.
/// Returns one outcome for each path.
pub fn remove(
    repo: &Repository,
    (top, root): (&Path, &sys::Dir),
    doomed: &[BString],
    options: &Options<'_>,
) -> Result<Vec<Outcome>, Error> {
    if doomed.is_empty() {
        return Ok(Vec::new());
    }
    let _phase = profile::span(Phase::Execute);
    let guard = Guard::of(repo, top)?;
    let outcomes = doomed.iter().map(|_| OnceLock::new()).collect();
    let run = Run { repo, top, guard, doomed, options, outcomes };
    let top = Handle::top(root.try_clone().map_err(Error::Open)?);
    let mut jobs = Vec::new();
    let mut at = 0;
    while at < doomed.len() {
        let path = doomed[at].as_bstr();
        let job = match path.strip_suffix(b"/") {
            Some(dir) => {
                at += 1;
                Job::Directory(Node::new(Above::Doomed(at - 1), dir.as_bstr()), Arc::clone(&top))
            }
            None => {
                let dir = |path: &BStr| path.rfind_byte(b'/').unwrap_or(0);
                let length = dir(path);
                let here = |other: &&BString| {
                    !other.ends_with(b"/")
                        && dir(other.as_bstr()) == length
                        && other[..length] == path[..length]
                };
                let files = at..at + doomed[at..].iter().take(FILES).take_while(here).count();
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
        ("clean", &tuning),
        options.workers,
        doomed.len(),
        jobs,
        listing,
        |listing, job, jobs, pace| match job {
            Job::Files(files, top) => run.files(files, &top, pace),
            Job::Directory(node, from) => run.directory(listing, node, from, jobs, pace),
        },
    );
    Ok(run.outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap_or_default()).collect())
}

/// Doomed files of one directory that are removed in a row.
const FILES: usize = 256;

enum Job {
    /// Doomed files of one directory.
    Files(Range<usize>, Arc<Handle>),
    /// A directory, and a handle above it.
    Directory(Arc<Node>, Arc<Handle>),
}

/// A directory that is to go.
struct Node {
    above: Above,
    /// From the root of the worktree, without a slash at its end.
    path: BString,
    listed: OnceLock<Listed>,
    /// Directories in it that have not ended, and itself.
    pending: AtomicUsize,
    /// What is not simply gone, by its place in the listing.
    troubles: Mutex<Vec<(usize, End)>>,
}

/// Where a directory is told of.
enum Above {
    /// It is the doomed path of this number.
    Doomed(usize),
    /// It has this place in the listing of its parent.
    Parent(Arc<Node>, usize),
}

/// What is in a directory, and how it is reached from above.
struct Listed {
    names: Vec<BString>,
    from: Arc<Handle>,
}

/// What became of a path in a directory.
struct End {
    events: Vec<Event>,
    failed: bool,
    gone: bool,
}

impl End {
    fn stays(event: Event, failed: bool) -> End {
        End { events: vec![event], failed, gone: false }
    }
}

impl Node {
    fn new(above: Above, path: &BStr) -> Arc<Node> {
        Arc::new(Node {
            above,
            path: path.to_owned(),
            listed: OnceLock::new(),
            pending: AtomicUsize::new(1),
            troubles: Mutex::default(),
        })
    }

    /// As it is told: what was doomed as a directory has a slash at its end.
    fn told(&self) -> BString {
        let mut path = self.path.clone();
        if self.is_doomed() {
            path.push(b'/');
        }
        path
    }

    fn is_doomed(&self) -> bool {
        matches!(self.above, Above::Doomed(_))
    }

    fn trouble(&self, place: usize, end: End) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).push((place, end));
    }
}

struct Run<'a> {
    repo: &'a Repository,
    top: &'a Path,
    guard: Guard,
    doomed: &'a [BString],
    options: &'a Options<'a>,
    outcomes: Vec<OnceLock<Outcome>>,
}

impl Run<'_> {
    fn interrupted(&self) -> bool {
        self.options.interrupt.load(Ordering::Relaxed)
    }

    fn files(&self, files: Range<usize>, top: &Handle, pace: &mut dyn Pace) {
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
            let removed = self.admit(path).and_then(|()| match (&opened, self.options.act) {
                (_, Act::Pretend) => Ok(()),
                (None, Act::Remove) => top.dir().remove_file(name),
                (Some(Ok(dir)), Act::Remove) => dir.remove_file(name),
                (Some(Err(error)), Act::Remove) => Err(again(error)),
            });
            pace.step();
            let outcome = match removed {
                Ok(()) => Outcome { events: vec![Event::Removed(path.to_owned())], failed: false },
                Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::default(),
                Err(error) => Outcome { events: vec![Event::Failed(path.to_owned(), error)], failed: true },
            };
            self.end_of_doomed(at, outcome);
        }
    }

    fn admit(&self, path: &BStr) -> io::Result<()> {
        self.guard.admit(path).map_err(|error| match error {
            guard::Error::Step { own, .. } => {
                io::Error::other(format!("this repository's Git directory is '{own}'"))
            }
            other => io::Error::other(other),
        })
    }

    fn end_of_doomed(&self, at: usize, outcome: Outcome) {
        let set = self.outcomes[at].set(outcome);
        debug_assert!(set.is_ok(), "each doomed path ends once");
    }

    fn directory(
        &self,
        listing: &mut sys::Listing,
        node: Arc<Node>,
        from: Arc<Handle>,
        jobs: &mut Vec<Job>,
        pace: &mut dyn Pace,
    ) {
        if self.interrupted() {
            return;
        }
        if let Err(error) = self.admit(node.path.as_bstr()) {
            let stays = Event::Failed(node.told(), error);
            return self.end(node, End::stays(stays, true));
        }
        let mut names: Vec<(BString, FileType)> = Vec::new();
        let opened = listing.open(from.dir(), from.rest(&node.path), |entry| {
            names.push((entry.name.into(), entry.file_type));
            Ok::<_, io::Error>(())
        });
        let may_be_a_repository = match &opened {
            Ok(_) => names.iter().any(|(name, _)| name == ".git"),
            Err(_) => true,
        };
        if self.options.repositories == Repositories::Stay && may_be_a_repository && self.is_repository(&node)
        {
            let stays = Event::Repository(node.told());
            return self.end(node, End::stays(stays, false));
        }
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound && node.is_doomed() => {
                return self.end(node, End { events: Vec::new(), failed: false, gone: false });
            }
            // An empty one can go even if it cannot be read.
            Err(_) => {
                let end = match self.remove_dir(&from, &node) {
                    Ok(()) => End { events: Vec::new(), failed: false, gone: true },
                    Err(error) => End::stays(Event::Failed(node.told(), error), true),
                };
                return self.end(node, end);
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
                .admit(below(&node, name.as_bstr()).as_bstr())
                .and_then(|()| self.remove_file(&dir, name.as_bstr()));
            pace.step();
            if let Err(error) = removed {
                node.trouble(place, End::stays(Event::Failed(below(&node, name.as_bstr()), error), true));
            }
        }
        let handle = from.next(&dir, node.path.len() + 1);
        node.pending.fetch_add(directories.len(), Ordering::Relaxed);
        for &place in directories.iter().rev() {
            let path = below(&node, names[place].0.as_bstr());
            let child = Node::new(Above::Parent(Arc::clone(&node), place), path.as_bstr());
            jobs.push(Job::Directory(child, Arc::clone(&handle)));
        }
        let names = names.into_iter().map(|(name, _)| name).collect();
        let set = node.listed.set(Listed { names, from });
        debug_assert!(set.is_ok(), "a directory is listed once");
        self.leave(node);
    }

    fn remove_file(&self, dir: &sys::Dir, name: &BStr) -> io::Result<()> {
        match self.options.act {
            Act::Pretend => Ok(()),
            Act::Remove => match dir.remove_file(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
        }
    }

    fn remove_dir(&self, from: &Handle, node: &Node) -> io::Result<()> {
        match self.options.act {
            Act::Pretend => Ok(()),
            Act::Remove => from.dir().remove_dir(from.rest(&node.path)),
        }
    }

    fn is_repository(&self, node: &Node) -> bool {
        self.repo.is_worktree(&self.top.join(sys::os_str(&node.path)))
    }

    /// A job of `node` is done: whoever does the last one takes the directory away, and so on upwards.
    fn leave(&self, node: Arc<Node>) {
        let mut next = Some(node);
        while let Some(node) = next.filter(|node| node.pending.fetch_sub(1, Ordering::AcqRel) == 1) {
            let end = self.take_away(&node);
            next = self.tell(&node, end);
        }
    }

    /// `node` has ended without a look at what is in it.
    fn end(&self, node: Arc<Node>, end: End) {
        if let Some(parent) = self.tell(&node, end) {
            self.leave(parent);
        }
    }

    /// Removes a directory of which nothing is left but what stays.
    fn take_away(&self, node: &Node) -> End {
        let mut troubles = std::mem::take(&mut *node.troubles.lock().unwrap_or_else(PoisonError::into_inner));
        troubles.sort_by_key(|(place, _)| *place);
        let mut end = End { events: Vec::new(), failed: false, gone: true };
        let mut stay = Vec::new();
        for (place, trouble) in troubles {
            end.events.extend(trouble.events);
            end.failed |= trouble.failed;
            if !trouble.gone {
                end.gone = false;
                stay.push(place);
            }
        }
        let listed = node.listed.get().expect("it was listed before its first child was begun");
        if end.gone {
            if self.options.cwd == Some(node.path.as_bstr()) {
                end.gone = false;
                end.events.push(Event::Cwd);
            } else if let Err(error) = self.remove_dir(&listed.from, node) {
                end.gone = false;
                end.failed = true;
                end.events.push(Event::Failed(node.told(), error));
            }
        }
        if !end.gone {
            let gone =
                listed.names.iter().enumerate().filter(|(place, _)| stay.binary_search(place).is_err());
            end.events.extend(gone.map(|(_, name)| Event::Removed(below(node, name.as_bstr()))));
        }
        end
    }

    /// Tells of the end of `node`; its parent, if it has one, is to be left then.
    fn tell(&self, node: &Node, mut end: End) -> Option<Arc<Node>> {
        match &node.above {
            Above::Doomed(at) => {
                if end.gone {
                    end.events.push(Event::Removed(node.told()));
                }
                self.end_of_doomed(*at, Outcome { events: end.events, failed: end.failed });
                None
            }
            Above::Parent(parent, place) => {
                if !end.gone || !end.events.is_empty() {
                    parent.trouble(*place, end);
                }
                Some(Arc::clone(parent))
            }
        }
    }
}

fn below(node: &Node, name: &BStr) -> BString {
    [node.path.as_bytes(), b"/", name.as_bytes()].concat().into()
}

/// The same error, for another path.
fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
