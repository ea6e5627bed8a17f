//! `Updating files:  42% (n/m)` on standard error.
//!
//! Nothing shows before a delay (two seconds, `GIT_PROGRESS_DELAY`), then each new percent does, and
//! at least one line a second; the last one ends in `, done.` if any was shown.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::console;

/// A counter that shows itself. Shared by threads.
pub(crate) struct Progress {
    title: &'static str,
    from: Instant,
    shown: Option<Mutex<Shown>>,
}

#[derive(Default)]
struct Shown {
    percent: Option<usize>,
    at: Option<Instant>,
    width: usize,
    last: (usize, usize),
}

impl Progress {
    /// A counter that starts to show after `delay`; or never, if not `visible`.
    pub(crate) fn new(title: &'static str, visible: bool, delay: Duration) -> Progress {
        Progress { title, from: Instant::now() + delay, shown: visible.then(Mutex::default) }
    }

    /// So many done of so many. Cheap when there is nothing to show; a thread that finds another
    /// one at it goes on.
    pub(crate) fn update(&self, done: usize, total: usize) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.try_lock() else { return };
        let now = Instant::now();
        if now < self.from || done < shown.last.0 {
            return;
        }
        let percent = done * 100 / total.max(1);
        let idle = shown.at.is_none_or(|at| now - at >= Duration::from_secs(1));
        if shown.percent != Some(percent) || idle {
            self.show(&mut shown, done, total, "\r");
            shown.at = Some(now);
        }
        shown.last = (done, total);
    }

    /// The last word.
    pub(crate) fn finish(&self, done: usize, total: usize) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.lock() else { return };
        if shown.at.is_some() || (total > 0 && Instant::now() >= self.from) {
            self.show(&mut shown, done, total, ", done.\n");
        }
    }

    fn show(&self, shown: &mut Shown, done: usize, total: usize, end: &str) {
        let percent = done * 100 / total.max(1);
        let counters = format!("{percent:3}% ({done}/{total})");
        let clear = (shown.width + 1).saturating_sub(counters.len()).max(end.len());
        let clear = if shown.width > counters.len() { clear } else { 0 };
        shown.width = counters.len();
        shown.percent = Some(percent);
        console::raw(format!("{}: {counters}{end:>clear$}", self.title).as_bytes());
    }
}
