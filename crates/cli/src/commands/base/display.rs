//! Progress of a transfer: one line for each phase.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use engine::fleet::{Phase, Progress as Step};

use crate::term::progress::{self, Progress};

/// Shows the phases of a transfer one after the other.
pub(crate) struct Display {
    visible: bool,
    delay: Duration,
    shown: Mutex<Option<Shown>>,
}

struct Shown {
    phase: Phase,
    last: (usize, usize),
    progress: Progress,
}

impl Display {
    pub(crate) fn new(given: Option<bool>, quiet: bool, delay: Duration) -> Display {
        let visible = given.unwrap_or(!quiet && progress::has_terminal());
        Display { visible, delay, shown: Mutex::default() }
    }

    /// Shows a step. From any thread.
    pub(crate) fn step(&self, step: Step) {
        if !self.visible {
            return;
        }
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.as_ref().is_none_or(|shown| shown.phase != step.phase) {
            end(shown.take());
            let progress = Progress::titled(Cow::Borrowed(title(step.phase)), true, self.delay);
            *shown = Some(Shown { phase: step.phase, last: (0, 0), progress });
        }
        let Some(shown) = &mut *shown else { return };
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        shown.last = (count(step.done), count(step.total));
        shown.progress.update(shown.last.0, shown.last.1);
    }

    /// Ends the last line.
    pub(crate) fn finish(&self) {
        end(self.shown.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn end(shown: Option<Shown>) {
    if let Some(shown) = shown {
        shown.progress.finish(shown.last.0, shown.last.1);
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
