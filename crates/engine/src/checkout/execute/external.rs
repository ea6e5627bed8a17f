//! The lane of external filters: one thread in addition to the workers, because a filter may assume
//! a single caller. The lane starts with the first file that needs it.
//!
//! The lane goes through all of its steps in index order, which is the order in which a filter
//! expects its files, while the workers write the other files. Delayed files are requested after
//! the last step. If a filter promised a file and never delivers it, the file's step fails.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    thread::Scope,
};

use bstr::BString;
use repo::convert::{Class, ExternalFilters, Smudged};

use super::{
    Outcome, StepError,
    files::{Stop, Worker, blob, write_new},
    layout::file_name,
    round::Round,
};

/// A step and its directory in the round's layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    step: usize,
    dir: usize,
}

/// The lane of a round. It starts only if a step needs an external filter.
pub(super) struct Lane<'r> {
    round: &'r Round<'r>,
    started: AtomicBool,
}

impl<'r> Lane<'r> {
    pub(super) fn new(round: &'r Round<'r>) -> Self {
        Lane { round, started: AtomicBool::new(false) }
    }

    /// Starts the lane, unless it has started.
    pub(super) fn start<'scope>(&self, scope: &'scope Scope<'scope, '_>)
    where
        'r: 'scope,
    {
        if !self.started.swap(true, Ordering::Relaxed) {
            let round = self.round;
            scope.spawn(move || {
                let _profiled = sys::profile::thread(sys::profile::Phase::Execute);
                work(round);
            });
        }
    }
}

/// Returns all steps of the round in index order.
fn jobs(round: &Round<'_>) -> Vec<Job> {
    let layout = round.directories.layout;
    let units = layout.units.iter();
    let mut jobs: Vec<Job> = units
        .flat_map(|unit| {
            layout.steps[unit.steps.clone()].iter().map(|&(step, _)| Job { step, dir: unit.dir })
        })
        .collect();
    jobs.sort_unstable();
    jobs
}

fn work(round: &Round<'_>) {
    let mut worker = Worker::new(round.run, round.directories);
    let mut filters = round.run.converter.external(round.run.options.delays);
    let mut delayed: HashMap<BString, Job> = HashMap::new();
    for job in jobs(round) {
        if round.run.interrupted() {
            return;
        }
        // If the class cannot be determined, the step's worker reports the error.
        if !matches!(worker.class(job.step), Ok(Class::External)) {
            continue;
        }
        let path = round.run.entry_path(job.step);
        match smudge(&mut worker, &mut filters, job.step) {
            Ok(Smudged::Delayed) => {
                delayed.insert(path.into(), job);
            }
            smudged => finish(round, &mut worker, job, smudged),
        }
        round.run.add_messages(filters.take_messages());
    }
    let (total, mut done, mut bytes) = (delayed.len(), 0, 0);
    let report = round.run.options.filtering;
    if total > 0 && !round.run.interrupted() {
        report(0, total, 0);
    }
    // A filter is queried until it reports no more files, even if all promised files have arrived.
    while !round.run.interrupted() {
        let ready = match filters.available() {
            Ok(ready) if ready.is_empty() => break,
            Ok(ready) => ready,
            Err(error) => {
                round.run.add_messages(filters.take_messages());
                return round.run.stop_for_filter(error);
            }
        };
        for path in ready {
            let Some(job) = delayed.remove(&path) else { continue };
            let smudged = filters.fetch(path.as_ref(), round.run.write(job.step).1.oid).map_err(Stop::from);
            done += 1;
            if let Ok(Smudged::Ready(content)) = &smudged {
                bytes += content.len() as u64;
            }
            report(done, total, bytes);
            finish(round, &mut worker, job, smudged);
        }
        round.run.add_messages(filters.take_messages());
    }
    round.run.add_messages(filters.take_messages());
    if filters.has_failed() {
        round.run.filter_failed.store(true, Ordering::Relaxed);
    }
    if !round.run.interrupted() {
        for job in delayed.into_values() {
            round.settle(job.step, Err(StepError::NotFiltered.into()));
        }
    }
}

fn smudge(worker: &mut Worker<'_>, filters: &mut ExternalFilters, step: usize) -> Result<Smudged, Stop> {
    let (entry, path) = (worker.run.write(step).1, worker.run.entry_path(step));
    Ok(filters.smudge(path, entry.oid, blob(&mut worker.reader, &entry)?)?)
}

/// Writes the file that a filter has returned.
fn finish(round: &Round<'_>, worker: &mut Worker<'_>, job: Job, smudged: Result<Smudged, Stop>) {
    let placed = smudged.and_then(|smudged| {
        let (write, entry, path) = round.run.write(job.step);
        let dir = worker.handles.open_or_create(job.dir).map_err(|unreachable| Stop::from(&unreachable))?;
        let Worker { handles, reader, .. } = worker;
        let content = match &smudged {
            Smudged::Ready(bytes) => bytes,
            Smudged::Unchanged | Smudged::Delayed => blob(reader, &entry)?,
        };
        write_new(round.run, handles, &dir, file_name(path), write, &entry, content)
    });
    round.settle(job.step, placed);
}

/// Filters a file, waits for the result, and creates the file.
pub(super) fn place(
    worker: &mut Worker<'_>,
    step: usize,
    dir: &sys::Dir,
    name: &[u8],
) -> Result<Outcome, Stop> {
    let (write, entry, _) = worker.run.write(step);
    let path = worker.run.entry_path(step);
    let Worker { run, handles, reader, convert, converted, .. } = worker;
    let content = convert.to_worktree(path, entry.oid, blob(reader, &entry)?, converted);
    run.add_messages(convert.take_messages());
    write_new(run, handles, dir, name, write, &entry, content?)
}
