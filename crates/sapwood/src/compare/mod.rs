//! Measures status, clone and switch beside the user's Git, in the user's repository.
//!
//! The repository is only read: status runs without optional locks and without a file system
//! monitor, and the clones share its objects (`--shared`), so that no link is made to a file of it.
//! Clones lie in a new directory, which is removed at the end, also after an error.
//!
//! Order: status; clones; switches in the clones. The two programs alternate, and each round begins
//! with the other one. The caller starts the programs: [`Timer`].

use std::{
    fmt,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use bstr::BString;
use repo::keys;
use store::index::ReadOptions;
use sys::{Dir, by_path};

use crate::{Error, PlanError, Repository};

/// The distances from HEAD of the commit for the switch; the first that exists is taken.
const DISTANCES: [u32; 4] = [50, 20, 5, 1];

/// The space for clones, as a part of the two worktrees: Git directories need some too.
const SPACE: u64 = 5;

/// The measurement that is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    /// The directory that contains the clones while they exist.
    pub parent: PathBuf,
    /// The number of rounds.
    pub rounds: usize,
}

/// A measurement that may begin.
#[derive(Debug)]
pub struct Plan {
    repository: Place,
    commit: BString,
    /// An older commit; `None` if HEAD has no parent.
    older: Option<BString>,
    parent: PathBuf,
    rounds: usize,
    entries: usize,
    /// The reason why only status is measured.
    left_out: Option<&'static str>,
}

/// A place in which a program runs.
#[derive(Clone, Debug)]
pub enum Place {
    /// A repository with its worktree.
    Repository {
        /// The Git directory.
        git_dir: PathBuf,
        /// The root of the worktree.
        worktree: PathBuf,
    },
    /// A directory; programs look for a repository there.
    Directory(PathBuf),
}

/// The programs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The user's Git.
    Git,
    /// This program.
    Sapwood,
}

/// Starts the programs, and measures their time.
pub trait Timer {
    /// The error of a program that cannot be started.
    type Error: From<Error>;

    /// Runs a command of a program. Its messages go where those of the caller go.
    fn time(&self, side: Side, place: &Place, args: &[BString]) -> Result<Timed, Self::Error>;
}

/// A command that ended.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The time from its start to its end.
    pub time: Duration,
    /// The exit code.
    pub code: u8,
    /// Standard output.
    pub output: Vec<u8>,
}

/// The times of one command.
#[derive(Clone, Debug)]
pub struct Row {
    /// The command.
    pub name: &'static str,
    /// The times of Git, one for each round.
    pub git: Vec<Duration>,
    /// The times of this program.
    pub sapwood: Vec<Duration>,
    /// True if both printed the same, or made the same worktree.
    pub agrees: bool,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// One row for each command.
    pub rows: Vec<Row>,
    /// The number of entries of the index.
    pub entries: usize,
    /// The reason why commands are missing.
    pub left_out: Option<&'static str>,
}

/// Examines the repository. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    plan_for(&repository.inner, request)
}

/// Like [`plan`], for a repository that the command line has opened.
pub fn plan_for(repo: &repo::Repository, request: Request) -> Result<Plan, PlanError> {
    let worktree = repo.work_tree().ok_or(Error::NoWorktree)?.to_owned();
    let index = store::index::load(&repo.index_path(), repo.hash(), &ReadOptions::default());
    let index = index.map_err(|error| Error::failed(error.to_string()))?;
    let commit = repo.rev_parse("HEAD^{commit}".into()).map_err(|_| Error::NoHead)?.to_string().into();
    let older = DISTANCES.iter().find_map(|distance| {
        let name = format!("HEAD~{distance}^{{commit}}");
        repo.rev_parse(name.as_str().into()).ok()
    });
    let is_partial = repo.config_names().any(|name| name.ends_with(b".promisor"));
    let left_out = match () {
        () if is_partial => Some("the repository is a partial clone, and old files would be fetched"),
        () if repo.config(&keys::core::SPARSE_CHECKOUT).map_err(Error::from)? => {
            Some("the checkout is sparse, and a clone would write all files")
        }
        () => None,
    };
    let plan = Plan {
        repository: Place::Repository { git_dir: repo.git_dir().to_owned(), worktree },
        commit,
        older: older.map(|id| id.to_string().into()),
        parent: request.parent,
        rounds: request.rounds.max(1),
        entries: index.len(),
        left_out,
    };
    if left_out.is_none() {
        let bytes: u64 = index.entries().iter().map(|entry| u64::from(entry.stat.size)).sum();
        plan.refuse_if_full(bytes)?;
    }
    Ok(plan)
}

impl Plan {
    /// Refuses if two worktrees do not fit.
    fn refuse_if_full(&self, bytes: u64) -> Result<(), Error> {
        let parent = &self.parent;
        let cannot = |source| Error::CannotOpen { path: parent.clone(), source };
        let free = Dir::open(parent).and_then(|dir| dir.available()).map_err(cannot)?;
        let needed = 2 * (bytes + bytes / SPACE);
        if free < needed {
            let text = format!(
                "two clones need {needed} bytes, and '{}' has {free}: name another directory with --dir",
                parent.display()
            );
            return Err(Error::failed(text));
        }
        Ok(())
    }

    /// Measures with the programs of `timer`.
    pub fn run<T: Timer>(self, timer: &T) -> Result<Report, T::Error> {
        let mut rows = vec![self.status(timer)?];
        if self.left_out.is_none() {
            let scratch = Scratch::new(&self.parent)?;
            rows.push(self.clones(timer, &scratch)?);
            if let Some(older) = &self.older {
                rows.push(self.switches(timer, &scratch, older)?);
            }
        }
        Ok(Report { rows, entries: self.entries, left_out: self.left_out })
    }

    fn status<T: Timer>(&self, timer: &T) -> Result<Row, T::Error> {
        let args = words(&["--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain"]);
        // The first look brings the worktree into memory, for both.
        for side in [Side::Git, Side::Sapwood] {
            succeeded(timer.time(side, &self.repository, &args)?, side, "status")?;
        }
        let mut answers: Vec<Vec<u8>> = Vec::new();
        let mut row = self.each_round("status", |_, side| {
            let timed = succeeded(timer.time(side, &self.repository, &args)?, side, "status")?;
            answers.push(timed.output);
            Ok::<_, T::Error>(timed.time)
        })?;
        row.agrees = answers.windows(2).all(|pair| pair[0] == pair[1]);
        Ok(row)
    }

    fn clones<T: Timer>(&self, timer: &T, scratch: &Scratch) -> Result<Row, T::Error> {
        let Place::Repository { git_dir, .. } = &self.repository else {
            unreachable!("a plan is made in a repository")
        };
        let source = BString::from(git_dir.as_os_str().as_encoded_bytes());
        let place = Place::Directory(scratch.0.clone());
        let mut row = self.each_round("clone", |round, side| {
            let target = scratch.clone_of(side);
            if round > 0 {
                by_path::remove_dir_all(&target).map_err(cannot_remove(&target))?;
            }
            let name = BString::from(target.as_os_str().as_encoded_bytes());
            let mut args = words(&["clone", "-q", "--shared", "--no-checkout"]);
            args.extend(["--".into(), source.clone(), name.clone()]);
            let cloned = succeeded(timer.time(side, &place, &args)?, side, "clone")?;
            // HEAD of the repository may be detached, or on a branch that is not there.
            let mut args = words(&["checkout", "-q", "--detach"]);
            args.push(self.commit.clone());
            let filled = succeeded(timer.time(side, &Place::Directory(target), &args)?, side, "checkout")?;
            Ok::<_, T::Error>(cloned.time + filled.time)
        })?;
        row.agrees = self.agree(timer, scratch)?;
        Ok(row)
    }

    fn switches<T: Timer>(&self, timer: &T, scratch: &Scratch, older: &BString) -> Result<Row, T::Error> {
        let mut row = self.each_round("switch", |_, side| {
            let place = Place::Directory(scratch.clone_of(side));
            let mut time = Duration::ZERO;
            for commit in [older, &self.commit] {
                let mut args = words(&["checkout", "-q", "--detach"]);
                args.push(commit.clone());
                time += succeeded(timer.time(side, &place, &args)?, side, "checkout")?.time;
            }
            // There and back again.
            Ok::<_, T::Error>(time / 2)
        })?;
        row.agrees = self.agree(timer, scratch)?;
        Ok(row)
    }

    /// Returns true if Git finds no change in either clone.
    fn agree<T: Timer>(&self, timer: &T, scratch: &Scratch) -> Result<bool, T::Error> {
        let args = words(&["-c", "core.fsmonitor=false", "status", "--porcelain"]);
        let mut answers = Vec::new();
        for side in [Side::Git, Side::Sapwood] {
            let place = Place::Directory(scratch.clone_of(side));
            answers.push(succeeded(timer.time(Side::Git, &place, &args)?, Side::Git, "status")?.output);
        }
        Ok(answers[0] == answers[1])
    }

    /// Runs `act` for both sides in each round. The side that begins alternates.
    fn each_round<E>(
        &self,
        name: &'static str,
        mut act: impl FnMut(usize, Side) -> Result<Duration, E>,
    ) -> Result<Row, E> {
        let mut row = Row { name, git: Vec::new(), sapwood: Vec::new(), agrees: true };
        for round in 0..self.rounds {
            let mut sides = [Side::Git, Side::Sapwood];
            sides.rotate_left(round % 2);
            for side in sides {
                let time = act(round, side)?;
                match side {
                    Side::Git => row.git.push(time),
                    Side::Sapwood => row.sapwood.push(time),
                }
            }
        }
        Ok(row)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "measure {} rounds in '{}'", self.rounds, self.parent.display())
    }
}

impl Row {
    /// Returns the median times of Git and of this program.
    pub fn medians(&self) -> (Duration, Duration) {
        (median(&self.git), median(&self.sapwood))
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The directory of the clones. Dropping it removes it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch, Error> {
        for number in 0u32.. {
            let path = parent.join(format!("sapwood-try-{}-{number}", std::process::id()));
            match by_path::create_private_dir(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::CannotOpen { path, source }),
            }
        }
        unreachable!("some name is free")
    }

    fn clone_of(&self, side: Side) -> PathBuf {
        self.0.join(match side {
            Side::Git => "git",
            Side::Sapwood => "sapwood",
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody but this process knows the directory.
        let _ = by_path::remove_dir_all(&self.0);
    }
}

fn cannot_remove(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::failed(format!("cannot remove '{}': {}", path.display(), sys::reason(&source)))
}

fn succeeded(timed: Timed, side: Side, command: &str) -> Result<Timed, Error> {
    if timed.code == 0 {
        return Ok(timed);
    }
    let name = match side {
        Side::Git => "git",
        Side::Sapwood => "sapwood",
    };
    Err(Error::failed(format!("'{name} {command}' failed here with exit code {}", timed.code)))
}

fn words(args: &[&str]) -> Vec<BString> {
    args.iter().map(|&arg| arg.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        let times = |millis: &[u64]| millis.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(median(&times(&[9, 1, 5])), Duration::from_millis(5));
        assert_eq!(median(&times(&[7])), Duration::from_millis(7));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
