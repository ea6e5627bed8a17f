//! Writing in rounds: first regular files and submodule directories, then links.
//!
//! A round only creates entries, each with `O_EXCL` or an equivalent. The one exception is the old
//! file of an entry, which is removed after its premise is compared once more. So a path is
//! occupied either by another process or by this run. [`super::collide`] finds out which after all
//! rounds.

use std::{
    io,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

use repo::convert::Class;

use super::{
    Action, Outcome, Run,
    batch::{self, BatchStep},
    clear, collide,
    directories::{Directories, Unreachable},
    external::Lane,
    files::{Stop, Worker},
    groups,
    layout::Layout,
    remnant,
};
use crate::look::copy_error;

/// Performs the plan's writes.
pub(super) fn write(run: &Run<'_>) -> Vec<Outcome> {
    let outcomes: Vec<OnceLock<Outcome>> = run.plan.writes.iter().map(|_| OnceLock::new()).collect();
    clear::clear(run, &outcomes);
    remnant::adopt(run, &outcomes);
    let (links, files): (Vec<usize>, Vec<usize>) = (0..run.plan.writes.len())
        .filter(|&step| outcomes[step].get().is_none())
        .partition(|&step| run.is_link(step));
    let blocked = Mutex::new(Vec::new());
    create(run, files, links, &outcomes, &blocked);
    collide::resolve(run, outcomes, &into_inner(blocked))
}

/// Creates `files`, then `links`. Steps whose path is occupied are added to `blocked`.
fn create<'r>(
    run: &'r Run<'r>,
    files: Vec<usize>,
    links: Vec<usize>,
    outcomes: &[OnceLock<Outcome>],
    blocked: &Mutex<Vec<usize>>,
) {
    let paths = |step: usize| (step, run.write(step).2);
    let (mut file_layout, link_layout) =
        (Layout::new(files.into_iter().map(paths)), Layout::new(links.into_iter().map(paths)));
    groups::arrange(run, &mut file_layout);
    let [file_dirs, link_dirs] = [&file_layout, &link_layout].map(|layout| Directories::new(run, layout));
    let [file_round, link_round] =
        [&file_dirs, &link_dirs].map(|directories| Round { run, directories, outcomes, blocked });
    let lane = Lane::new(&file_round);
    thread::scope(|scope| {
        // The name of Git's worker processes.
        file_round.work("checkout_worker", &|| lane.start(scope));
        link_round.work("link", &|| unreachable!("links have no filters"));
    });
}

/// A set of steps in progress.
pub(super) struct Round<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) directories: &'r Directories<'r>,
    outcomes: &'r [OnceLock<Outcome>],
    blocked: &'r Mutex<Vec<usize>>,
}

impl Round<'_> {
    /// Performs the steps. `start_lane` is called when a step needs an external filter.
    fn work(&self, role: &'static str, start_lane: &(dyn Fn() + Sync)) {
        let Round { run, directories, .. } = *self;
        let layout = directories.layout;
        run.crew(layout.steps.len()).run(
            role,
            layout.weights(),
            |number| (Worker::of_crew(run, directories, number), Vec::new()),
            |(worker, steps), units, done| {
                batch::order(layout, units, run, steps);
                for &BatchStep { location, dir, step, name } in steps.iter() {
                    if run.interrupted() {
                        return;
                    }
                    let class = worker.class(step);
                    if let Ok(Class::External) = class {
                        // The lane performs all steps with external filters, including this one.
                        start_lane();
                        done();
                        continue;
                    }
                    let placed = class.and_then(|class| match worker.handles.open_or_create(dir) {
                        Ok(dir) => worker.place(step, class, location, &dir, name),
                        Err(unreachable) => Err((&unreachable).into()),
                    });
                    self.settle(step, placed);
                    done();
                }
            },
        );
    }

    /// Records the outcome of a step.
    pub(super) fn settle(&self, step: usize, placed: Result<Outcome, Stop>) {
        let outcome = match placed {
            Ok(outcome) => outcome,
            Err(Stop::Failed(error)) => self.run.failed(error),
            Err(Stop::Blocked) => {
                self.blocked.lock().unwrap_or_else(PoisonError::into_inner).push(step);
                return;
            }
            Err(Stop::Interrupted) => return,
            Err(Stop::External) => unreachable!("goes to the lane"),
        };
        let set = self.outcomes[step].set(outcome);
        debug_assert!(set.is_ok(), "each write is settled once");
        self.run.count_step();
    }
}

impl From<&Unreachable> for Stop {
    fn from(unreachable: &Unreachable) -> Stop {
        let error = match unreachable {
            Unreachable::Blocked => return Stop::Blocked,
            Unreachable::Missing => io::ErrorKind::NotFound.into(),
            Unreachable::Failed(error) => copy_error(error),
        };
        Stop::Failed(Action::CreateDirectory.failed()(error))
    }
}

/// Collects the outcomes. A step without an outcome was never started, and is skipped.
pub(super) fn into_outcomes(outcomes: Vec<OnceLock<Outcome>>) -> Vec<Outcome> {
    outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap_or(Outcome::Skipped)).collect()
}

pub(super) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
