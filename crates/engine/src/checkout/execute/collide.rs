//! What was in somebody's way.
//!
//! When a round is over and nothing moves, each step that found its path taken is looked at again. What
//! stands there is this run's own (two names are one on this file system), or somebody else's:
//!
//! - somebody else's goes if the step's premise lets it, and the step is tried once more in a second round;
//!   otherwise the step is [`Stale`](Outcome::Stale);
//! - steps that met this run's own work are redone one after the other in index order, together with
//!   those they met, each taking the place of the one before. So the last in index order survives, as if
//!   there had been one worker from the beginning; every one of them is [`Collided`](Outcome::Collided).
//!
//! The one exception is Git's as well: a symbolic link never takes the place of a directory of this run, lest
//! later writes be led elsewhere (CVE-2024-32002).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{
    Action, Outcome, Run,
    directories::{Directories, FileId, file_id},
    external,
    files::{Stop, Worker},
    layout::{Layout, file_name},
    queue::Weigh,
    round::{self, into_inner},
    subtree,
};
use crate::checkout::{Premise, Write};

/// Writes that replace one and the same file: on this file system their names are the same (or they are
/// hard links). None of them may be tried before the others are known.
pub(super) fn twins(writes: &[Write]) -> BTreeSet<usize> {
    let mut seen: HashMap<FileId, usize> = HashMap::new();
    let mut twins = BTreeSet::new();
    for (step, write) in writes.iter().enumerate() {
        if let Premise::Unchanged(stat) = &write.premise
            && let Some(other) = seen.insert(file_id(stat), step)
        {
            twins.extend([other, step]);
        }
    }
    twins
}

/// What stands in a step's way: at this length of its path, the whole or a leading directory that is none.
struct Obstacle {
    len: usize,
    stat: sys::Stat,
}

/// What is to be done about a step.
enum Verdict {
    /// This run's own work is in the way.
    Collided,
    /// Nothing is, or it may go.
    Free(Option<Obstacle>),
    /// The step is at its end.
    Settled(Outcome),
}

/// Settles the steps that found something in their way.
pub(super) fn resolve<'r>(
    run: &'r Run<'r>,
    outcomes: Vec<OnceLock<Outcome>>,
    mut steps: Vec<usize>,
) -> Vec<Outcome> {
    steps.sort_unstable();
    let mut collided = BTreeSet::new();
    let mut settle = |step: usize, verdict| match verdict {
        Verdict::Free(obstacle) => Some((step, obstacle)),
        Verdict::Collided => {
            collided.insert(step);
            None
        }
        Verdict::Settled(outcome) => {
            let set = outcomes[step].set(outcome);
            debug_assert!(set.is_ok(), "a step in somebody's way was not settled before");
            run.finished();
            None
        }
    };
    if !steps.is_empty() && !run.interrupted() {
        // All are looked at before the first is removed: names may be links to one file.
        let owned = Owned::of(run, &outcomes);
        let verdicts = in_parallel(run, &steps, |step| examine(run, &owned, *step));
        let free: Vec<_> =
            steps.iter().zip(verdicts).filter_map(|(&step, verdict)| settle(step, verdict)).collect();
        let cleared = in_parallel(run, &free, |(step, obstacle)| clear(run, *step, obstacle.as_ref()));
        let free = free.iter().zip(cleared).filter_map(|(&(step, _), verdict)| settle(step, verdict));
        let (links, files): (Vec<usize>, Vec<usize>) =
            free.map(|(step, _)| step).partition(|&step| run.is_link(step));

        let in_the_way = Mutex::new(Vec::new());
        round::create(run, &files, &links, &outcomes, &in_the_way);
        let owned = Owned::of(run, &outcomes);
        for step in into_inner(in_the_way) {
            // What may go went a moment ago. Whoever puts something there meanwhile keeps it.
            let verdict = match examine(run, &owned, step) {
                Verdict::Free(_) => Verdict::Settled(Outcome::Stale),
                verdict => verdict,
            };
            settle(step, verdict);
        }
    }
    let owned = Owned::of(run, &outcomes);
    let mut outcomes = round::settled(outcomes);
    Redo { run, owned, outcomes: &mut outcomes, waiting: collided }.work();
    outcomes
}

/// One answer for each item, in order.
fn in_parallel<T: Sync, A: Send + Sync>(run: &Run<'_>, items: &[T], ask: impl Fn(&T) -> A + Sync) -> Vec<A> {
    let answers: Vec<OnceLock<A>> = items.iter().map(|_| OnceLock::new()).collect();
    run.crew(items.len()).run(
        &items,
        || (),
        |(), item, done| {
            let _ = answers[item].set(ask(&items[item]));
            done();
        },
    );
    answers.into_iter().map(|answer| answer.into_inner().expect("a crew does all units")).collect()
}

impl<T: Sync> Weigh for &[T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
    fn weight(&self, _: usize) -> usize {
        1
    }
}

fn examine(run: &Run<'_>, owned: &Owned, step: usize) -> Verdict {
    let (write, _, path) = run.write(step);
    let examined = find_obstacle(run.worktree, path).and_then(|obstacle| {
        let Some(obstacle) = obstacle else { return Ok(Verdict::Free(None)) };
        if owned.contains(&obstacle.stat) || owned.is_beneath(run.worktree, path, &obstacle)? {
            return Ok(Verdict::Collided);
        }
        let may_go = match &write.premise {
            Premise::Anything => true,
            Premise::Unchanged(expected) => obstacle.len == path.len() && *expected == obstacle.stat,
            Premise::Absent | Premise::Directory => false,
        };
        Ok(if may_go { Verdict::Free(Some(obstacle)) } else { Verdict::Settled(Outcome::Stale) })
    });
    examined.unwrap_or_else(|error| failed(Action::Examine, error))
}

fn clear(run: &Run<'_>, step: usize, obstacle: Option<&Obstacle>) -> Verdict {
    let Some(Obstacle { len, stat }) = obstacle else { return Verdict::Free(None) };
    let path = &run.write(step).2[..*len];
    let cleared = match stat.file_type {
        sys::FileType::Directory => run
            .worktree
            .open_dir(path)
            .and_then(|dir| subtree::visit(&dir, &mut subtree::remove))
            .and_then(|()| run.worktree.remove_dir(path)),
        _ => run.worktree.remove_file(path),
    };
    match cleared {
        Err(error) if error.kind() != io::ErrorKind::NotFound => failed(Action::UnlinkOld, error),
        _ => Verdict::Free(None),
    }
}

fn failed(action: Action, error: io::Error) -> Verdict {
    Verdict::Settled(Outcome::Failed(action.failed()(error)))
}

/// The first component from the root that is no directory, or whatever the whole path leads to.
fn find_obstacle(worktree: &sys::Dir, path: &[u8]) -> io::Result<Option<Obstacle>> {
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

    /// Whether a directory in the way holds anything of this run.
    fn is_beneath(&self, worktree: &sys::Dir, path: &[u8], obstacle: &Obstacle) -> io::Result<bool> {
        if obstacle.stat.file_type != sys::FileType::Directory {
            return Ok(false);
        }
        let mut found = false;
        subtree::visit(&worktree.open_dir(&path[..obstacle.len])?, &mut |_, _, stat| {
            found |= self.contains(stat);
            Ok(())
        })?;
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
                    Outcome::Collided(Some(stat))
                }
                Ok(outcome) => outcome,
                Err(Stop::Failed(error)) => Outcome::Failed(error),
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
            if obstacle.stat.file_type == sys::FileType::Directory && entry.mode.is_symlink() {
                return Ok(Outcome::Collided(None));
            }
            self.displace(step, &path[..obstacle.len], &obstacle.stat)?;
        }
        let layout = Layout::new([(step, path)]);
        let directories = Directories::new(self.run.worktree, &layout, &self.run.made);
        let mut worker = Worker::new(self.run, &directories);
        let unit = &layout.units[0];
        let dir = worker.handles.made(unit.dir).map_err(|unreachable| Stop::from(&unreachable))?;
        match worker.place(step, &dir, file_name(path)) {
            Err(Stop::External) => external::place(&mut worker, step, &dir, file_name(path)),
            placed => placed,
        }
    }

    /// Removes this run's own work from `path`. What comes later in index order will have its turn again.
    fn displace(&mut self, step: usize, path: &[u8], stat: &sys::Stat) -> Result<(), Stop> {
        let unlink = |error| Stop::from(Action::UnlinkOld.failed()(error));
        let worktree = self.run.worktree;
        if stat.file_type != sys::FileType::Directory {
            let Some(other) = self.owned.files.remove(&file_id(stat)) else { return Err(Stop::InTheWay) };
            worktree.remove_file(path).map_err(unlink)?;
            self.displaced(step, other);
            return Ok(());
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
            subtree::remove(dir, name, stat)
        });
        for other in others {
            self.displaced(step, other);
        }
        removed.and_then(|()| worktree.remove_dir(path)).map_err(unlink)
    }

    fn displaced(&mut self, by: usize, step: usize) {
        self.outcomes[step] = Outcome::Collided(None);
        if step > by {
            self.waiting.insert(step);
        }
    }
}
