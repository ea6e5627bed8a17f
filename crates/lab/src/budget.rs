//! The time that a call of the lab may take.
//!
//! When the time is over, no further run begins. The runs that were made stay in the record.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The moment after which no run begins, and the whole time.
static END: OnceLock<(Instant, Duration)> = OnceLock::new();

/// True once a run did not begin.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// The beginning of the note in a record that lacks runs.
pub(crate) const NOTE: &str = "The time for this table was over before all runs were made";

/// Begins the time of this process.
pub(crate) fn begin(seconds: u64) {
    let all = Duration::from_secs(seconds);
    END.get_or_init(|| (Instant::now() + all, all));
}

/// Returns true if the time is over.
fn is_over() -> bool {
    END.get().is_some_and(|(end, _)| Instant::now() >= *end)
}

/// Returns a sentence for the record if a run did not begin because the time was over.
pub(crate) fn note() -> Option<String> {
    let (_, all) = END.get().filter(|_| LEFT_OUT.load(Ordering::Relaxed))?;
    Some(format!("{NOTE}: it was {} s.", all.as_secs()))
}

/// Counts runs from zero. Ends early when the time is over.
pub(crate) fn rounds(runs: usize) -> impl Iterator<Item = usize> {
    (0..runs).take_while(|_| {
        let is_over = is_over();
        LEFT_OUT.fetch_or(is_over, Ordering::Relaxed);
        !is_over
    })
}
