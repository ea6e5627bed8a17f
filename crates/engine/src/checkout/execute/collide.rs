//! What was in somebody's way.
//!
//! When all lanes are through and nothing moves, each step that found its path taken is looked at again. If
//! somebody else's work stands there, the step is [`Stale`](Outcome::Stale). If this run's own does (two names are one on
//! this file system), the step has collided: all such steps are redone one after the other in index order, together with those
//! they met, each taking the place of the one before. So the last in index order survives, as if
//! there had been one worker from the beginning; those that Git names are [`Collided`](Outcome::Collided).
//!
//! The one exception is Git's as well: in a clone a symbolic link never takes the place of a directory of this run,
//! lest later writes be led elsewhere (CVE-2024-32002).
//!
//! A file system in user space or on a network lets go of what was just closed a moment later. Until then a removed file
//! lives on under another name and keeps its directory from going, and a number given out anew is stale: either is waited for,
//! up to a second, and is the step's failure then.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io, iter,
    sync::{OnceLock, PoisonError},
};

use super::{
    Action, Links, Outcome, Run, StepError,
    directories::{Directories, FileId, again_while, file_id},
    external,
    files::{Stop, Worker},
    layout::{Layout, file_name},
    round::settled,
    subtree,
};

/// What stands in a step's way: at this length of its path, the whole or a leading directory that is none.
pub(super) struct Obstacle {
    pub(super) len: usize,
    pub(super) stat: sys::Stat,
}

/// Settles the steps that found something in their way.
pub(super) fn resolve<'r>(
    run: &'r Run<'r>,
    outcomes: Vec<OnceLock<Outcome>>,
    in_the_way: &[usize],
) -> Vec<Outcome> {
    if in_the_way.is_empty() {
        return settled(outcomes);
    }
    let owned = Owned::of(run, &outcomes);
    let verdicts: Vec<OnceLock<io::Result<bool>>> = in_the_way.iter().map(|_| OnceLock::new()).collect();
    run.crew(in_the_way.len()).run(
        "collision",
        iter::repeat_n(1, in_the_way.len()),
        |_| (),
        |(), items, done| {
            for item in items.take_while(|_| !run.interrupted()) {
                let path = run.write(in_the_way[item]).2;
                let set = verdicts[item].set(owned.is_in_the_way(run.worktree, path));
                debug_assert!(set.is_ok(), "each is looked at once");
                done();
            }
        },
    );
    let mut outcomes = settled(outcomes);
    let mut waiting = BTreeSet::new();
    for (&step, verdict) in in_the_way.iter().zip(verdicts) {
        match verdict.into_inner() {
            Some(Ok(true)) => {
                waiting.insert(step);
            }
            Some(Ok(false)) => outcomes[step] = Outcome::Stale,
            Some(Err(error)) => outcomes[step] = Outcome::Failed(Action::Examine.failed()(error)),
            None => continue,
        }
        run.finished();
    }
    Redo { run, owned, outcomes: &mut outcomes, waiting }.work();
    outcomes
}

/// The first component from the root that is no directory, or whatever the whole path leads to.
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

/// Removes what this run has made. Before each further attempt it is looked at again: a file that is another one by then is
/// somebody else's and stays, to be found in the way; a directory goes only if it is empty.
fn remove(dir: &sys::Dir, name: &[u8], stat: &sys::Stat) -> io::Result<()> {
    let mut before = false;
    let attempt = || {
        if std::mem::replace(&mut before, true) {
            match dir.stat(name)? {
                Some(found) if found.file_type == sys::FileType::Directory || found == *stat => {}
                _ => return Ok(()),
            }
        }
        subtree::remove(dir, name, stat)
    };
    let passes = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty || is_stale(error);
    again_while(passes, attempt)
}

/// What this run has made.
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
        self.dirs.extend(run.made.lock().unwrap_or_else(PoisonError::into_inner).iter());
    }

    fn contains(&self, stat: &sys::Stat) -> bool {
        let id = file_id(stat);
        self.files.contains_key(&id) || self.dirs.contains(&id)
    }

    /// Whether what stands in a path's way is, or is a directory that holds, anything of this run.
    fn is_in_the_way(&self, worktree: &sys::Dir, path: &[u8]) -> io::Result<bool> {
        let Some(Obstacle { len, stat }) = find_obstacle(worktree, path)? else { return Ok(false) };
        let mut found = self.contains(&stat);
        if !found && stat.file_type == sys::FileType::Directory {
            subtree::visit(&worktree.open_dir(&path[..len])?, &mut |_, _, stat| {
                found |= self.contains(stat);
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// The serial end: see the module.
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
                Err(Stop::InTheWay) => Outcome::Stale,
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
                return Ok(self.give_way(step, path));
            }
            let displaced = self.displace(&path[..obstacle.len], &obstacle.stat)?;
            self.displaced(step, displaced, obstacle.len == path.len());
        }
        let passes =
            |stop: &Stop| matches!(stop, Stop::Failed(StepError::Io { source, .. }) if is_stale(source));
        again_while(passes, || self.place(step, path))
    }

    /// Puts a step's file where nothing is any more.
    fn place(&self, step: usize, path: &[u8]) -> Result<Outcome, Stop> {
        let layout = Layout::new([(step, path)]);
        let directories = Directories::new(self.run.worktree, &layout, &self.run.made);
        let mut worker = Worker::new(self.run, &directories);
        let unit = &layout.units[0];
        let dir = worker.handles.made(unit.dir).map_err(|unreachable| Stop::from(&unreachable))?;
        let class = worker.class(step)?;
        match worker.place(step, (class, None), &dir, file_name(path)) {
            Err(Stop::External) => external::place(&mut worker, step, &dir, file_name(path)),
            placed => placed,
        }
    }

    /// A link that gives way to a directory collides with the first entry before it that is in there. If there
    /// is none, the link was there first, and what is in the directory would have taken its place unsaid.
    fn give_way(&mut self, link: usize, path: &[u8]) -> Outcome {
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

    /// Removes this run's own work from `path`; returns whose it was.
    fn displace(&mut self, path: &[u8], stat: &sys::Stat) -> Result<Vec<usize>, Stop> {
        let unlink = |error| Stop::from(Action::UnlinkOld.failed()(error));
        let worktree = self.run.worktree;
        if stat.file_type != sys::FileType::Directory {
            let Some(other) = self.owned.files.remove(&file_id(stat)) else { return Err(Stop::InTheWay) };
            remove(worktree, path, stat).map_err(unlink)?;
            return Ok(vec![other]);
        }
        let dir = worktree.open_dir(path).map_err(unlink)?;
        let mut all_ours = self.owned.dirs.contains(&file_id(stat));
        let visited = subtree::visit(&dir, &mut |_, _, stat| {
            all_ours &= self.owned.contains(stat);
            Ok(())
        });
        visited.map_err(unlink)?;
        if !all_ours {
            return Err(Stop::InTheWay);
        }
        let mut others = Vec::new();
        let removed = subtree::visit(&dir, &mut |dir, name, stat| {
            others.extend(self.owned.files.remove(&file_id(stat)));
            remove(dir, name, stat)
        });
        removed.and_then(|()| remove(worktree, path, stat)).map_err(unlink)?;
        Ok(others)
    }

    /// What comes later in index order will have its turn again. Of what came before, one is said to have
    /// collided; and none if it only stood where a leading directory has to be. So it is with Git.
    fn displaced(&mut self, by: usize, mut steps: Vec<usize>, at_its_path: bool) {
        steps.sort_unstable();
        let collides = steps.first().is_some_and(|first| *first < by && at_its_path);
        for (number, &step) in steps.iter().enumerate() {
            let collided = matches!(self.outcomes[step], Outcome::Collided(_));
            self.outcomes[step] = match collided || collides && number == 0 {
                true => Outcome::Collided(None),
                false => Outcome::Removed,
            };
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
    fn a_directory_that_is_emptied_late_is_waited_for() {
        let sandbox = Sandbox::new();
        let kept = sandbox.path().join("dir/kept");
        fs::create_dir(sandbox.path().join("dir")).expect("a directory");
        fs::write(&kept, "").expect("a file");
        let root = sys::Dir::open(&sandbox.path()).expect("it is there");
        let stat = root.stat(b"dir").expect("can be asked").expect("is there");
        let error =
            again_while(|_| false, || subtree::remove(&root, b"dir", &stat)).expect_err("it holds something");
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                fs::remove_file(&kept).expect("it was made");
            });
            remove(&root, b"dir", &stat).expect("it is empty in the end");
        });
        assert_eq!(root.stat(b"dir").expect("can be asked"), None);
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        let mut attempts = 0;
        let mut failing = |errors: &[i32]| {
            attempts = 0;
            let answer = again_while(is_stale, || {
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
