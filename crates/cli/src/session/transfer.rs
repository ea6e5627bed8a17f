//! Progress of a transfer: one line for each phase.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sapwood::events::{Step, Transfer, TransferPhase as Phase};

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
    /// Shows them if that is wanted, and without a choice on a terminal.
    pub(crate) fn new(wanted: Option<bool>) -> Display {
        Display { visible: wanted.unwrap_or_else(progress::has_terminal), shown: Mutex::default() }
    }
}

impl Transfer for Display {
    fn step(&self, step: Step) {
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
    fn end(&self, is_complete: bool) {
        let last = self.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(shown) = last else { return };
        if is_complete {
            shown.finish();
        } else {
            shown.progress.abandon();
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
