//! Progress of a transfer: one line for each phase.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use engine::base_transfer::{Phase, Progress as Step};

use crate::term::progress::{self, Progress, Rate, Unit};

/// Shows the phases of a transfer one after the other, each from its first step on, as Git shows
/// what it receives.
pub(crate) struct Display {
    visible: bool,
    shown: Mutex<Option<Shown>>,
}

struct Shown {
    phase: Phase,
    last: (usize, usize),
    progress: Progress,
    rate: Rate,
}

impl Display {
    pub(crate) fn new(given: Option<bool>, quiet: bool) -> Display {
        let visible = given.unwrap_or(!quiet && progress::has_terminal());
        Display { visible, shown: Mutex::default() }
    }

    /// Shows a step. From any thread.
    pub(crate) fn step(&self, step: Step) {
        if !self.visible {
            return;
        }
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.as_ref().is_none_or(|shown| shown.phase != step.phase) {
            if let Some(before) = shown.take() {
                before.finish();
            }
            let progress = Progress::titled(Cow::Borrowed(title(step.phase)), true, Duration::ZERO);
            let progress = progress.counting(unit(step.phase));
            *shown = Some(Shown { phase: step.phase, last: (0, 0), progress, rate: Rate::default() });
        }
        let Some(shown) = &mut *shown else { return };
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        shown.last = (count(step.done), count(step.total));
        let rate = match unit(step.phase) {
            Unit::Bytes => shown.rate.now(step.done),
            Unit::Things => String::new(),
        };
        // The counters say how much came.
        let rate = rate.rsplit_once(" | ").map_or(String::new(), |(_, rate)| format!(" | {rate}"));
        shown.progress.update_saying(shown.last.0, shown.last.1, &rate);
    }

    /// Ends the last line: after a failure without the word `done`.
    pub(crate) fn end<T, E>(&self, outcome: &Result<T, E>) {
        let last = self.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (last, outcome) {
            (Some(shown), Ok(_)) => shown.finish(),
            (Some(shown), Err(_)) => shown.progress.abandon(),
            (None, _) => {}
        }
    }
}

impl Shown {
    fn finish(&self) {
        self.progress.finish(self.last.0, self.last.1);
    }
}

fn unit(phase: Phase) -> Unit {
    match phase {
        Phase::Tables => Unit::Things,
        Phase::Sending | Phase::History | Phase::Receiving => Unit::Bytes,
    }
}

fn title(phase: Phase) -> &'static str {
    match phase {
        Phase::Sending => "Sending contents",
        Phase::History => "Receiving history",
        Phase::Tables => "Receiving tables",
        Phase::Receiving => "Receiving contents",
    }
}
