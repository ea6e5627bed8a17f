//! The lane of external filters: one thread beside the workers, as a filter may assume that it has only
//! one caller. It starts with the first file that needs it.

use std::{
    io::Write as _,
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread::Scope,
};

use super::{
    Action, Outcome,
    files::{Stop, Worker, blob, create, fill, make_way},
    layout::file_name,
    round::Round,
};

/// A step and its directory in the round's layout.
type Job = (usize, usize);

/// The way into the lane.
pub(super) struct Lane<'r> {
    round: &'r Round<'r>,
    sender: Mutex<Option<mpsc::Sender<Job>>>,
}

impl<'r> Lane<'r> {
    pub(super) fn new(round: &'r Round<'r>) -> Self {
        Lane { round, sender: Mutex::new(None) }
    }

    /// Hands a step over.
    pub(super) fn send<'scope>(&self, scope: &'scope Scope<'scope, '_>, step: usize, dir: usize)
    where
        'r: 'scope,
    {
        let mut sender = self.sender();
        let sender = sender.get_or_insert_with(|| {
            let (sender, jobs) = mpsc::channel();
            let round = self.round;
            scope.spawn(move || work(round, &jobs));
            sender
        });
        // It hangs up only by panicking, which ends the scope in a panic as well.
        let _ = sender.send((step, dir));
    }

    /// No more steps will come.
    pub(super) fn close(&self) {
        *self.sender() = None;
    }

    fn sender(&self) -> MutexGuard<'_, Option<mpsc::Sender<Job>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn work(round: &Round<'_>, jobs: &mpsc::Receiver<Job>) {
    let mut worker = Worker::new(round.run, round.directories);
    for (step, dir) in jobs {
        if round.run.interrupted() {
            return;
        }
        let placed = match worker.handles.made(dir) {
            Ok(dir) => place(&mut worker, step, &dir, file_name(round.run.write(step).2)),
            Err(unreachable) => Err(Stop::from(&unreachable)),
        };
        round.settle(step, placed);
    }
}

/// Filters a file and creates it.
pub(super) fn place(
    worker: &mut Worker<'_>,
    step: usize,
    dir: &sys::Dir,
    name: &[u8],
) -> Result<Outcome, Stop> {
    let (write, entry, path) = worker.run.write(step);
    let Worker { handles, reader, convert, converted, .. } = worker;
    let content = convert.to_worktree(path.into(), entry.oid, blob(reader, entry)?, converted)?;
    make_way(dir, name, write.premise)?;
    let file = create(handles, dir, name, entry)?;
    fill(dir, name, &file, |mut file| Ok(file.write_all(content).map_err(Action::WriteFile.failed())?))
}
