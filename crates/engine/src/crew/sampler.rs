//! Samples of whether a worker waits.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{MAX_SKIPPED_STEPS, SAMPLE_INTERVAL, WAITING};

/// Samples whether a thread waits: it neither runs nor is ready to run. Time spent ready to run is
/// due to other load on the machine, not to a slow disk.
pub(super) struct Sampler {
    since: Instant,
    ran: Duration,
    delayed: Duration,
    /// Steps to skip before the clock is read and the steps are counted. Each of the two costs a
    /// tenth of a stat.
    to_skip: usize,
    skipped: usize,
    /// The number of clock reads since the last sample.
    clock_reads: usize,
}

impl Sampler {
    pub(super) fn start() -> Sampler {
        Sampler {
            since: Instant::now(),
            ran: sys::thread_time(),
            // The delay before the thread's first wait is not read. At worst, that wait is
            // attributed to load on the machine.
            delayed: Duration::ZERO,
            to_skip: 0,
            skipped: 0,
            clock_reads: 0,
        }
    }

    /// Counts `count` steps. Returns the number of steps to report, or `None` while steps are
    /// collected.
    pub(super) fn count(&mut self, count: usize) -> Option<usize> {
        self.skipped += count;
        if self.skipped <= self.to_skip {
            return None;
        }
        self.to_skip = 0;
        Some(std::mem::take(&mut self.skipped))
    }

    /// Called when steps are reported. Returns whether the thread waited since the last sample, or
    /// `None` if no sample is due.
    pub(super) fn sample(&mut self) -> Option<bool> {
        let now = Instant::now();
        let took = now - self.since;
        if took < SAMPLE_INTERVAL {
            // If many steps fit between two samples, most of them skip the clock.
            self.clock_reads += 1;
            self.to_skip = self.clock_reads.min(MAX_SKIPPED_STEPS);
            return None;
        }
        self.clock_reads = 0;
        let ran = sys::thread_time();
        let mut busy = (ran - self.ran).as_secs_f64();
        let mut waits = busy < took.as_secs_f64() * WAITING;
        // The thread's delay is read only here, because it matters only if the thread did not run.
        if waits {
            let delayed = delayed();
            busy += delayed.saturating_sub(self.delayed).as_secs_f64();
            self.delayed = delayed;
            waits = busy < took.as_secs_f64() * WAITING;
        }
        (self.since, self.ran) = (now, ran);
        Some(waits)
    }
}

/// Returns how long this thread was ready to run without running; zero if the kernel does not
/// report it.
fn delayed() -> Duration {
    let text = sys::by_path::read(Path::new("/proc/thread-self/schedstat")).ok().flatten();
    let field = text.as_deref().and_then(|text| text.split(|&byte| byte == b' ').nth(1));
    let nanos = field.and_then(|field| str::from_utf8(field).ok()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
