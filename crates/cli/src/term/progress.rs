//! `Updating files:  42% (n/m)` on standard error. For downloads the last line shows bytes and
//! throughput.
//!
//! Nothing shows before a delay (two seconds, `GIT_PROGRESS_DELAY`). Then each new percent does,
//! and at least one line a second. The last one ends in `, done.` if any was shown.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::term::{console, text::bytes::readable};

/// A counter that shows itself. Shared by threads.
pub(crate) struct Progress {
    title: &'static str,
    started: Instant,
    from: Instant,
    shown: Option<Mutex<Shown>>,
}

#[derive(Default)]
struct Shown {
    percent: Option<usize>,
    at: Option<Instant>,
    width: usize,
    last: (usize, usize),
    /// The last word has been said.
    over: bool,
}

impl Progress {
    /// A counter that starts to show after `delay`; or never, if not `visible`.
    pub(crate) fn new(title: &'static str, visible: bool, delay: Duration) -> Progress {
        let started = Instant::now();
        Progress { title, started, from: started + delay, shown: visible.then(Mutex::default) }
    }

    /// Shows `done` of `total`. Cheap if nothing is to be shown. A thread does not wait for another
    /// one that is showing.
    pub(crate) fn update(&self, done: usize, total: usize) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.try_lock() else { return };
        let now = Instant::now();
        if now < self.from || done < shown.last.0 || shown.over {
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

    /// The last word. Said once.
    pub(crate) fn finish(&self, done: usize, total: usize) {
        self.finish_with(done, total, ", done.\n");
    }

    /// As [`Progress::finish`], with how much came, in bytes, and how fast.
    pub(crate) fn finish_bytes(&self, done: usize, total: usize, bytes: u64) {
        // Git counts in units of 1,024 bytes and 1/1,024 seconds.
        let time = (self.started.elapsed().as_secs_f64() * 1024.0) as u64;
        let rate = bytes / time.max(1) * 1024;
        self.finish_with(done, total, &format!(", {} | {}/s, done.\n", readable(bytes), readable(rate)));
    }

    fn finish_with(&self, done: usize, total: usize, end: &str) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.lock() else { return };
        if !shown.over && (shown.at.is_some() || (total > 0 && Instant::now() >= self.from)) {
            self.show(&mut shown, done, total, end);
        }
        shown.over = true;
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
