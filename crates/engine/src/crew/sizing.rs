//! The number of workers of a crew while it runs.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use super::{
    Crew, IDLE_PART, SAMPLERS, locked,
    sampler::Sampler,
    tuner::{DiskKind, Tuner},
};

/// The number of workers while the crew runs.
pub(super) struct Sizing<'t> {
    pub(super) crew: Crew<'t>,
    /// Workers with this number and above leave.
    size: AtomicUsize,
    /// The steps that all workers have done.
    steps: AtomicUsize,
    /// The last worker that sampled was waiting.
    waits: AtomicBool,
    tuner: Mutex<Tuner>,
    pub(super) role: &'static str,
}

impl<'t> Sizing<'t> {
    pub(super) fn new(crew: Crew<'t>, role: &'static str) -> Self {
        if crew.limit > 1 {
            tracing::info!(target: "workers", role, size = crew.first);
        }
        Sizing {
            crew,
            size: AtomicUsize::new(crew.first),
            steps: AtomicUsize::new(0),
            // The assumption before the first sample.
            waits: AtomicBool::new(crew.disk == DiskKind::RemoteRead),
            tuner: Mutex::new(crew.tuner()),
            role,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns true if there are more workers than cores because they wait.
    pub(super) fn is_large(&self) -> bool {
        self.size() > self.crew.cores
    }

    /// Returns true if the workers wait, regardless of their number.
    pub(super) fn is_slow(&self) -> bool {
        self.is_large() || self.waits.load(Ordering::Relaxed)
    }

    /// Returns true if the size is tuned, not fixed.
    pub(super) fn is_tuned(&self) -> bool {
        self.crew.first < self.crew.limit
    }

    /// Returns a sampler for the worker with this number, if it is one that samples.
    pub(super) fn sampler(&self, number: usize) -> Option<Sampler> {
        (self.is_tuned() && number < SAMPLERS).then(Sampler::start)
    }

    /// Counts `count` steps of a worker and, if a sample is due, adapts the size. `spawn_worker`
    /// starts workers with the given numbers. `idle` workers have no unit at this moment.
    pub(super) fn steps(
        &self,
        count: usize,
        sampler: &mut Option<Sampler>,
        idle: usize,
        spawn_worker: impl FnOnce(Range<usize>),
    ) {
        if !self.is_tuned() {
            return;
        }
        let Some(done) = sampler.as_mut().map_or(Some(count), |sampler| sampler.count(count)) else { return };
        self.steps.fetch_add(done, Ordering::Relaxed);
        let Some(waits) = sampler.as_mut().and_then(Sampler::sample) else { return };
        self.waits.store(waits, Ordering::Relaxed);
        // Another worker holds the tuner.
        let Ok(mut tuner) = self.tuner.try_lock() else { return };
        let size = self.size();
        let (now, steps) = (Instant::now(), self.crew.done(self.steps.load(Ordering::Relaxed)));
        if idle > size / IDLE_PART {
            return tuner.restart_window(now, steps);
        }
        let next = tuner.sample(now, steps, waits);
        if next == size {
            return;
        }
        tracing::info!(target: "workers", role = self.role, size = next);
        self.size.store(next, Ordering::Relaxed);
        if size < next {
            spawn_worker(size..next);
        }
    }

    /// Stores the result in the tuning for the next phase.
    pub(super) fn learn(&self) {
        if let Some(tuning) = self.crew.tuning
            && let Some(learned) = locked(&self.tuner).learned()
        {
            *locked(&tuning.learned) = Some(learned);
        }
    }
}
