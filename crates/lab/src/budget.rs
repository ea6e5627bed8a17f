//! The time that a call of the lab may take.
//!
//! It begins with the first run, so preparing trees is not part of it. When it is over, no further
//! run begins. The runs that were made stay in the record. Tables with many rows divide the time
//! among them, so that slow rows at the beginning leave time for a run of the others.

use std::{
    fs,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The options for the time.
#[derive(clap::Args)]
pub(crate) struct BudgetOptions {
    /// Begin no run after this many seconds of runs; the record holds the runs before.
    #[arg(long, global = true, value_name = "SECONDS")]
    within: Option<u64>,
    /// Create this file when the first run begins.
    #[arg(long, global = true, hide = true)]
    begun: Option<PathBuf>,
}

struct Budget {
    time: Duration,
    begun: Option<PathBuf>,
}

static BUDGET: OnceLock<Budget> = OnceLock::new();
/// The moment after which no run begins.
static END: OnceLock<Instant> = OnceLock::new();
/// True once a run did not begin.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// The beginning of the note in a record that lacks runs.
pub(crate) const NOTE: &str = "The time for this table was over before all runs were made";

/// Sets the time of this process.
pub(crate) fn set(options: &BudgetOptions) {
    if let Some(seconds) = options.within {
        let time = Duration::from_secs(seconds);
        BUDGET.get_or_init(|| Budget { time, begun: options.begun.clone() });
    }
}

/// Returns true if the time is over. The first call begins it.
fn is_over() -> bool {
    let Some(Budget { time, begun }) = BUDGET.get() else { return false };
    let end = END.get_or_init(|| {
        if let Some(path) = begun
            && let Err(error) = fs::write(path, "")
        {
            eprintln!("lab: cannot write {}: {error}", path.display());
        }
        Instant::now() + *time
    });
    Instant::now() >= *end
}

/// Returns a sentence for the record if a run did not begin because the time was over.
pub(crate) fn note() -> Option<String> {
    let budget = BUDGET.get().filter(|_| LEFT_OUT.load(Ordering::Relaxed))?;
    Some(format!("{NOTE}: it was {} s.", budget.time.as_secs()))
}

/// Counts runs from zero. Ends early when the time is over.
pub(crate) fn rounds(runs: usize) -> impl Iterator<Item = usize> {
    rounds_of_row(runs, 1)
}

/// Like [`rounds`], for the first of `left` rows that are not measured yet. The row gets an equal
/// share of the time that is left, and one run even if that takes longer.
pub(crate) fn rounds_of_row(runs: usize, left: usize) -> impl Iterator<Item = usize> {
    let start = Instant::now();
    let share = BUDGET.get().map(|budget| {
        let time = END.get().map_or(budget.time, |end| end.saturating_duration_since(start));
        start + time.div_f64(left.max(1) as f64)
    });
    (0..runs).take_while(move |&run| {
        let is_over = is_over() || run > 0 && share.is_some_and(|end| Instant::now() >= end);
        LEFT_OUT.fetch_or(is_over, Ordering::Relaxed);
        !is_over
    })
}
