//! Writing in rounds: first regular files and submodule directories, then links.
//!
//! Within a round things are only created, each with `O_EXCL` or its like; the one exception, the
//! file an entry replaces, is removed after its premise was compared once more. So whatever is found in
//! the way is either somebody else's or this run's own, and which of the two is asked when all is over and
//! nothing moves ([`super::collide`]).

use std::{
    io,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

use repo::convert::Class;

use super::{
    Action, Outcome, Run,
    batch::{self, Placed},
    clear, collide,
    directories::{Directories, Unreachable},
    external::Lane,
    files::{Stop, Worker},
    groups,
    layout::Layout,
    remnant,
};

/// Does the plan's writes.
pub(super) fn write(run: &Run<'_>) -> Vec<Outcome> {
    let outcomes: Vec<OnceLock<Outcome>> = run.plan.writes.iter().map(|_| OnceLock::new()).collect();
    clear::clear(run, &outcomes);
    remnant::adopt(run, &outcomes);
    let (links, files): (Vec<usize>, Vec<usize>) = (0..run.plan.writes.len())
        .filter(|&step| outcomes[step].get().is_none())
        .partition(|&step| run.is_link(step));
    let in_the_way = Mutex::new(Vec::new());
    create(run, files, links, &outcomes, &in_the_way);
    collide::resolve(run, outcomes, &into_inner(in_the_way))
}

/// Creates `files`, then `links`. Steps that found something in their way are added to `in_the_way`.
fn create<'r>(
    run: &'r Run<'r>,
    files: Vec<usize>,
    links: Vec<usize>,
    outcomes: &[OnceLock<Outcome>],
    in_the_way: &Mutex<Vec<usize>>,
) {
    let paths = |step: usize| (step, run.write(step).2);
    let (mut file_layout, link_layout) =
        (Layout::new(files.into_iter().map(paths)), Layout::new(links.into_iter().map(paths)));
    groups::arrange(run, &mut file_layout);
    let [file_dirs, link_dirs] =
        [&file_layout, &link_layout].map(|layout| Directories::new(run.worktree, layout, &run.made));
    let [file_round, link_round] =
        [&file_dirs, &link_dirs].map(|directories| Round { run, directories, outcomes, in_the_way });
    let lane = Lane::new(&file_round);
    thread::scope(|scope| {
        // The name that Git's worker processes have.
        file_round.work("checkout_worker", &|| lane.start(scope));
        link_round.work("link", &|| unreachable!("links have no filters"));
    });
}

/// One set of steps on their way.
pub(super) struct Round<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) directories: &'r Directories<'r>,
    outcomes: &'r [OnceLock<Outcome>],
    in_the_way: &'r Mutex<Vec<usize>>,
}

impl Round<'_> {
    /// `start_lane` is called when there is a step that an external filter must see to.
    fn work(&self, role: &'static str, start_lane: &(dyn Fn() + Sync)) {
        let Round { run, directories, .. } = *self;
        let layout = directories.layout;
        run.crew(layout.steps.len()).run(
            role,
            layout.weights(),
            |number| (Worker::of_crew(run, directories, number), Vec::new()),
            |(worker, steps), units, done| {
                batch::order(layout, units, run, steps);
                for &Placed { location, dir, step, name } in steps.iter() {
                    if run.interrupted() {
                        return;
                    }
                    let class = worker.class(step);
                    if let Ok(Class::External) = class {
                        // It sees to all such steps, this one too.
                        start_lane();
                        done();
                        continue;
                    }
                    let placed = class.and_then(|class| match worker.handles.made(dir) {
                        Ok(dir) => worker.place(step, (class, location), &dir, name),
                        Err(unreachable) => Err((&unreachable).into()),
                    });
                    self.settle(step, placed);
                    done();
                }
            },
        );
    }

    /// Notes what became of a step.
    pub(super) fn settle(&self, step: usize, placed: Result<Outcome, Stop>) {
        let outcome = match placed {
            Ok(outcome) => outcome,
            Err(Stop::Failed(error)) => self.run.failed(error),
            Err(Stop::InTheWay) => {
                self.in_the_way.lock().unwrap_or_else(PoisonError::into_inner).push(step);
                return;
            }
            Err(Stop::Interrupted) => return,
            Err(Stop::External) => unreachable!("goes to the lane"),
        };
        let set = self.outcomes[step].set(outcome);
        debug_assert!(set.is_ok(), "each write is settled once");
        self.run.finished();
    }
}

impl From<&Unreachable> for Stop {
    fn from(unreachable: &Unreachable) -> Stop {
        let error = match unreachable {
            Unreachable::Blocked => return Stop::InTheWay,
            Unreachable::Missing => io::ErrorKind::NotFound.into(),
            Unreachable::Failed(error) => again(error),
        };
        Stop::Failed(Action::CreateDirectory.failed()(error))
    }
}

/// What every step in a directory that cannot be had is told.
pub(super) fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// What was never set was never begun.
pub(super) fn settled(outcomes: Vec<OnceLock<Outcome>>) -> Vec<Outcome> {
    outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap_or(Outcome::Skipped)).collect()
}

pub(super) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
