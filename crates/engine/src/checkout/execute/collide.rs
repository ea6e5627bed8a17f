//! Resolution of collisions.
//!
//! After all other work is finished, each step that found its path occupied is examined. If another
//! process occupied the path, the step is [`Stale`](Outcome::Stale). If this run occupied it,
//! because the file system treats two names as one, the steps collided. Collided steps are redone
//! serially in index order, each replacing the one before. So the last one in index order survives,
//! as with a single worker. The steps that Git reports as collided are
//! [`Collided`](Outcome::Collided).
//!
//! There is one exception, as in Git: in a clone, a symbolic link never replaces a directory of
//! this run, because it would redirect later writes (CVE-2024-32002).
//!
//! A file system in user space or on a network releases closed files with a delay. Until then a
//! removed file exists under another name and its directory cannot be removed, and a reused inode
//! number is stale. Such operations are retried for up to a second; after that the step fails.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io, iter,
    sync::{OnceLock, PoisonError},
};

use super::{
    Action, Links, Outcome, Run, StepError,
    directories::{Directories, FileId, file_id, retry_while},
    external,
    files::{Stop, Worker},
    layout::{Layout, file_name},
    round::into_outcomes,
};
use crate::files::{Allowed, Proof, tree};

/// The obstacle on a step's path: the whole path, or a leading component that is not a directory,
/// with the length of that prefix.
pub(super) struct Obstacle {
    pub(super) len: usize,
    pub(super) stat: sys::Stat,
}

/// Determines the outcomes of the steps whose paths were occupied.
pub(super) fn resolve<'r>(
    run: &'r Run<'r>,
    outcomes: Vec<OnceLock<Outcome>>,
    blocked: &[usize],
) -> Vec<Outcome> {
    if blocked.is_empty() {
        return into_outcomes(outcomes);
    }
    let owned = Owned::of(run, &outcomes);
    let verdicts: Vec<OnceLock<io::Result<bool>>> = blocked.iter().map(|_| OnceLock::new()).collect();
    run.crew(blocked.len()).run(
        "collision",
        iter::repeat_n(1, blocked.len()),
        |_| (),
        |(), items, done| {
            for item in items.take_while(|_| !run.interrupted()) {
                let path = run.write(blocked[item]).2;
                let set = verdicts[item].set(owned.is_own_obstacle(run.worktree, path));
                debug_assert!(set.is_ok(), "each is looked at once");
                done();
            }
        },
    );
    let mut outcomes = into_outcomes(outcomes);
    let mut waiting = BTreeSet::new();
    for (&step, verdict) in blocked.iter().zip(verdicts) {
        match verdict.into_inner() {
            Some(Ok(true)) => {
                waiting.insert(step);
            }
            Some(Ok(false)) => outcomes[step] = Outcome::Stale,
            Some(Err(error)) => outcomes[step] = Outcome::Failed(Action::Examine.failed()(error)),
            None => continue,
        }
        run.count_step();
    }
    Redo { run, owned, outcomes: &mut outcomes, waiting }.work();
    outcomes
}

/// Finds the first component that is not a directory, or the file at the whole path.
pub(super) fn find_obstacle(worktree: &sys::Dir, path: &[u8]) -> io::Result<Option<Obstacle>> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for len in ends.chain([path.len()]) {
        match worktree.stat(&path[..len])? {
            None => return Ok(None),
            Some(stat) if len == path.len() || stat.file_type != sys::FileType::Directory => {
                return Ok(Some(Obstacle { len, stat }));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// Removes a file or directory of this run. Each retry checks the path first: a file that has
/// changed belongs to another process and stays. A directory is removed only if it is empty.
fn remove(allowed: Allowed, dir: &sys::Dir, name: &[u8], proof: Proof<'_>) -> io::Result<()> {
    let mut before = false;
    let attempt = || {
        if std::mem::replace(&mut before, true) {
            match dir.stat(name)? {
                Some(found) if found.file_type == sys::FileType::Directory || found == *proof.found() => {}
                _ => return Ok(()),
            }
        }
        allowed.within(dir).remove_proven(name, proof)
    };
    let is_transient =
        |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty || is_stale(error);
    retry_while(is_transient, attempt)
}

/// The files and directories that this run created.
struct Owned {
    files: HashMap<FileId, usize>,
    dirs: HashSet<FileId>,
}

impl Owned {
    fn of(run: &Run<'_>, outcomes: &[OnceLock<Outcome>]) -> Owned {
        let written = |(step, outcome): (usize, &OnceLock<Outcome>)| match outcome.get()? {
            Outcome::Written(stat) => Some((file_id(stat), step)),
            _ => None,
        };
        let files = outcomes.iter().enumerate().filter_map(written).collect();
        let mut owned = Owned { files, dirs: HashSet::new() };
        owned.update(run);
        owned
    }

    fn update(&mut self, run: &Run<'_>) {
        self.dirs.extend(run.created_dirs.lock().unwrap_or_else(PoisonError::into_inner).iter());
    }

    fn contains(&self, stat: &sys::Stat) -> bool {
        self.proof(stat).is_some()
    }

    /// Returns the proof that an entry comes from this run, and may be removed.
    fn proof<'s>(&self, stat: &'s sys::Stat) -> Option<Proof<'s>> {
        let id = file_id(stat);
        let (created, _) = self.files.get_key_value(&id).unzip();
        Proof::created(*created.or_else(|| self.dirs.get(&id))?, stat)
    }

    /// Returns true if the obstacle on a path comes from this run, or is a directory that holds
    /// anything from this run.
    fn is_own_obstacle(&self, worktree: &sys::Dir, path: &[u8]) -> io::Result<bool> {
        let Some(Obstacle { len, stat }) = find_obstacle(worktree, path)? else { return Ok(false) };
        let mut found = self.contains(&stat);
        if !found && stat.file_type == sys::FileType::Directory {
            tree::visit(&worktree.open_dir(&path[..len])?, &mut |_, _, stat| {
                found |= self.contains(stat);
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// The serial pass over collided steps.
struct Redo<'r, 'o> {
    run: &'r Run<'r>,
    owned: Owned,
    outcomes: &'o mut Vec<Outcome>,
    waiting: BTreeSet<usize>,
}

impl Redo<'_, '_> {
    fn work(mut self) {
        while let Some(step) = self.waiting.pop_first() {
            if self.run.interrupted() {
                self.outcomes[step] = Outcome::Skipped;
                continue;
            }
            self.outcomes[step] = match self.redo(step) {
                Ok(Outcome::Written(stat)) => {
                    self.owned.files.insert(file_id(&stat), step);
                    match self.outcomes[step] {
                        Outcome::Collided(_) => Outcome::Collided(Some(stat)),
                        _ => Outcome::Written(stat),
                    }
                }
                Ok(outcome) => outcome,
                Err(Stop::Failed(error)) => self.run.failed(error),
                Err(Stop::Blocked) => Outcome::Stale,
                Err(Stop::Interrupted | Stop::External) => Outcome::Skipped,
            };
            self.owned.update(self.run);
        }
    }

    fn redo(&mut self, step: usize) -> Result<Outcome, Stop> {
        let (_, entry, path) = self.run.write(step);
        let examine = |error| Stop::from(Action::Examine.failed()(error));
        if let Some(obstacle) = find_obstacle(self.run.worktree, path).map_err(examine)? {
            let directory = obstacle.stat.file_type == sys::FileType::Directory;
            if directory && entry.mode.is_symlink() && self.run.options.links == Links::GiveWay {
                return Ok(self.yield_to_directory(step, path));
            }
            let displaced = self.displace(&path[..obstacle.len], &obstacle.stat)?;
            self.record_displaced(step, displaced, obstacle.len == path.len());
        }
        let is_transient =
            |stop: &Stop| matches!(stop, Stop::Failed(StepError::Io { source, .. }) if is_stale(source));
        retry_while(is_transient, || self.place(step, path))
    }

    /// Writes a step's file to a path that is free.
    fn place(&self, step: usize, path: &[u8]) -> Result<Outcome, Stop> {
        let layout = Layout::new([(step, path)]);
        let directories = Directories::new(self.run, &layout);
        let mut worker = Worker::new(self.run, &directories);
        let unit = &layout.units[0];
        let dir = worker.handles.open_or_create(unit.dir).map_err(|unreachable| Stop::from(&unreachable))?;
        let class = worker.class(step)?;
        match worker.place(step, class, None, &dir, file_name(path)) {
            Err(Stop::External) => external::place(&mut worker, step, &dir, file_name(path)),
            placed => placed,
        }
    }

    /// Lets a link give way to a directory. The link collides with the first earlier entry in that
    /// directory. If there is none, the link came first, and the directory would have replaced it
    /// without a message.
    fn yield_to_directory(&mut self, link: usize, path: &[u8]) -> Outcome {
        let below = |step: &usize| {
            let other = self.run.write(*step).2;
            other.get(..path.len()).is_some_and(|start| start.eq_ignore_ascii_case(path))
                && other.get(path.len()) == Some(&b'/')
        };
        let mut before = (0..link).filter(below).peekable();
        if before.peek().is_none() {
            return Outcome::Removed;
        }
        let met = before.find_map(|step| match self.outcomes[step] {
            Outcome::Written(stat) => Some((step, stat)),
            _ => None,
        });
        if let Some((step, stat)) = met {
            self.outcomes[step] = Outcome::Collided(Some(stat));
        }
        Outcome::Collided(None)
    }

    /// Removes this run's own work from `path`. Returns the steps that it came from.
    fn displace(&mut self, path: &[u8], stat: &sys::Stat) -> Result<Vec<usize>, Stop> {
        let unlink = |error| Stop::from(Action::UnlinkOld.failed()(error));
        let (worktree, allowed) = (self.run.worktree, self.run.allowed);
        if stat.file_type != sys::FileType::Directory {
            let Some((id, other)) = self.owned.files.remove_entry(&file_id(stat)) else {
                return Err(Stop::Blocked);
            };
            let proof = Proof::created(id, stat).ok_or(Stop::Blocked)?;
            remove(allowed, worktree, path, proof).map_err(unlink)?;
            return Ok(vec![other]);
        }
        let dir = worktree.open_dir(path).map_err(unlink)?;
        let mut all_ours = self.owned.dirs.contains(&file_id(stat));
        let visited = tree::visit(&dir, &mut |_, _, stat| {
            all_ours &= self.owned.contains(stat);
            Ok(())
        });
        visited.map_err(unlink)?;
        if !all_ours {
            return Err(Stop::Blocked);
        }
        let mut others = Vec::new();
        // An entry that has appeared since the first visit stays, and so does its directory.
        let not_ours = || io::Error::from(io::ErrorKind::DirectoryNotEmpty);
        let removed = tree::visit(&dir, &mut |dir, name, stat| {
            let proof = self.owned.proof(stat).ok_or_else(not_ours)?;
            others.extend(self.owned.files.remove(&file_id(stat)));
            remove(allowed, dir, name, proof)
        });
        removed.map_err(unlink)?;
        let proof = self.owned.proof(stat).ok_or(Stop::Blocked)?;
        remove(allowed, worktree, path, proof).map_err(unlink)?;
        Ok(others)
    }

    /// Records displaced steps. Later ones in index order are redone. The first of the earlier ones
    /// counts as collided, unless it only occupied the path of a leading directory. Git does the
    /// same.
    fn record_displaced(&mut self, by: usize, mut steps: Vec<usize>, at_its_path: bool) {
        steps.sort_unstable();
        let collides = steps.first().is_some_and(|first| *first < by && at_its_path);
        for (number, &step) in steps.iter().enumerate() {
            let collided = matches!(self.outcomes[step], Outcome::Collided(_));
            self.outcomes[step] =
                if collided || collides && number == 0 { Outcome::Collided(None) } else { Outcome::Removed };
            if step > by {
                self.waiting.insert(step);
            }
        }
        if collides {
            self.outcomes[by] = Outcome::Collided(None);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{fs, thread, time::Duration};

    use testkit::Sandbox;

    use super::*;

    #[test]
    fn waits_for_a_directory_that_is_emptied_late() {
        let sandbox = Sandbox::new();
        let kept = sandbox.path().join("dir/kept");
        fs::create_dir(sandbox.path().join("dir")).expect("a directory");
        fs::write(&kept, "").expect("a file");
        let root = sys::Dir::open(&sandbox.path()).expect("it is there");
        let stat = root.stat(b"dir").expect("can be asked").expect("is there");
        let (allowed, proof) =
            (Allowed::in_new_directory(), Proof::created(file_id(&stat), &stat).expect("the same"));
        let error = retry_while(|_| false, || allowed.within(&root).remove_proven(b"dir", proof))
            .expect_err("it holds something");
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                fs::remove_file(&kept).expect("it was made");
            });
            remove(allowed, &root, b"dir", proof).expect("it is empty in the end");
        });
        assert_eq!(root.stat(b"dir").expect("can be asked"), None);
    }

    #[test]
    fn retries_only_transient_errors() {
        let mut attempts = 0;
        let mut failing = |errors: &[i32]| {
            attempts = 0;
            let answer = retry_while(is_stale, || {
                attempts += 1;
                errors.get(attempts - 1).map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(*code)))
            });
            (attempts, answer.err().and_then(|error| error.raw_os_error()))
        };
        const ESTALE: i32 = 116;
        const EACCES: i32 = 13;
        assert_eq!(failing(&[]), (1, None));
        assert_eq!(failing(&[ESTALE, ESTALE]), (3, None));
        assert_eq!(failing(&[EACCES]), (1, Some(EACCES)));
        assert_eq!(failing(&[ESTALE, EACCES]), (2, Some(EACCES)));
    }
}
