//! `Updating files:  42% (n/m)` on standard error, or `Copying objects: n` if the total is unknown.
//! For downloads the last line shows bytes and throughput.
//!
//! Nothing is shown before a delay (two seconds, or `GIT_PROGRESS_DELAY`), nor while the process is
//! in the background of its terminal. After that, each new percent is shown, and at least one line
//! a second. The last line ends in `, done.` if any line was shown.
//!
//! A phase either updates a [`Progress`] itself, or counts in a meter that a [`Watch`] samples in
//! its own thread, so that a slow step does not stop the display.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use engine::crew::Meter;

use crate::term::{console, text::bytes::readable};

/// The things that a [`Progress`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Files, objects and the like: shown as numbers.
    Things,
    /// Bytes: shown as `253.65 MiB`.
    Bytes,
}

/// A counter that displays itself. Threads may share it.
pub(crate) struct Progress {
    title: Cow<'static, str>,
    unit: Unit,
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
    /// The last line was shown.
    over: bool,
}

/// Returns the delay that `GIT_PROGRESS_DELAY` sets, in seconds; two seconds by default.
pub(crate) fn delay(variable: Option<&[u8]>) -> Duration {
    const DEFAULT: Duration = Duration::from_secs(2);
    let seconds = variable.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    seconds.map_or(DEFAULT, Duration::from_secs)
}

/// Returns true if standard error is a terminal. Without `--progress`, progress shows only there.
pub(crate) fn has_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}

impl Progress {
    /// Creates a counter that is shown from `delay` on, or never if not `visible`.
    pub(crate) fn new(title: &'static str, visible: bool, delay: Duration) -> Progress {
        Progress::titled(title.into(), visible, delay)
    }

    /// Like [`Progress::new`], with a title built at run time.
    pub(crate) fn titled(title: Cow<'static, str>, visible: bool, delay: Duration) -> Progress {
        let started = Instant::now();
        let shown = visible.then(Mutex::default);
        Progress { title, unit: Unit::Things, started, from: started + delay, shown }
    }

    /// Counts in this unit.
    pub(crate) fn counting(self, unit: Unit) -> Progress {
        Progress { unit, ..self }
    }

    /// Shows `done` of `total`, or `done` alone if the total is 0. Cheap if nothing is to be shown.
    /// It does not wait for another thread that is showing the counter.
    pub(crate) fn update(&self, done: usize, total: usize) {
        self.update_saying(done, total, "");
    }

    /// Like [`Progress::update`], with `words` after the counters.
    pub(crate) fn update_saying(&self, done: usize, total: usize, words: &str) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.try_lock() else { return };
        let now = Instant::now();
        if now < self.from || done < shown.last.0 || shown.over {
            return;
        }
        let is_new = total > 0 && shown.percent != Some(percent(done, total));
        let idle = shown.at.is_none_or(|at| now - at >= Duration::from_secs(1));
        if is_new || idle {
            if sys::terminal::is_foreground() {
                self.show(&mut shown, (done, total), words, "\r");
            }
            shown.at = Some(now);
        }
        shown.last = (done, total);
    }

    /// Shows the last line, once.
    pub(crate) fn finish(&self, done: usize, total: usize) {
        self.finish_with(done, total, "", "done");
    }

    /// Like [`Progress::finish`], with the amount received in bytes and the throughput.
    pub(crate) fn finish_bytes(&self, done: usize, total: usize, bytes: u64) {
        self.finish_with(done, total, &throughput(bytes, bytes, self.started.elapsed()), "done");
    }

    /// Ends a line that was shown, without a claim: the phase failed.
    pub(crate) fn abandon(&self) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.lock() else { return };
        if shown.at.is_some() && !shown.over {
            console::eprint_raw(b"\n");
        }
        shown.over = true;
    }

    /// Like [`Progress::finish`], with `words` instead of `done`.
    pub(crate) fn finish_saying(&self, done: usize, total: usize, words: &str) {
        self.finish_with(done, total, "", words);
    }

    fn finish_with(&self, done: usize, total: usize, words: &str, last: &str) {
        let Some(shown) = &self.shown else { return };
        let Ok(mut shown) = shown.lock() else { return };
        let is_due = done.max(total) > 0 && Instant::now() >= self.from;
        if !shown.over && (shown.at.is_some() || is_due) {
            self.show(&mut shown, (done, total), words, &format!(", {last}.\n"));
        }
        shown.over = true;
    }

    fn show(&self, shown: &mut Shown, (done, total): (usize, usize), words: &str, end: &str) {
        let number = |number: usize| match self.unit {
            Unit::Things => number.to_string(),
            Unit::Bytes => readable(number as u64),
        };
        let counters = match total {
            0 => format!("{}{words}", number(done)),
            _ => format!("{:3}% ({}/{}){words}", percent(done, total), number(done), number(total)),
        };
        let clear = (shown.width + 1).saturating_sub(counters.len()).max(end.len());
        let clear = if shown.width > counters.len() { clear } else { 0 };
        shown.width = counters.len();
        shown.percent = Some(percent(done, total));
        console::eprint_raw(format!("{}: {counters}{end:>clear$}", self.title).as_bytes());
    }
}

/// Returns the text for `bytes` in total, of which `lately` arrived within `time`.
fn throughput(bytes: u64, lately: u64, time: Duration) -> String {
    // Git counts in units of 1,024 bytes and 1/1,024 seconds.
    let time = (time.as_secs_f64() * 1024.0) as u64;
    let rate = lately / time.max(1) * 1024;
    format!(", {} | {}/s", readable(bytes), readable(rate))
}

/// The throughput of the last seconds.
#[derive(Default)]
pub(crate) struct Rate {
    state: Mutex<RateState>,
}

#[derive(Default)]
struct RateState {
    /// The byte count at each sample time, oldest first.
    samples: VecDeque<(Instant, u64)>,
    words: String,
}

impl Rate {
    /// Git's interval between two samples, and its number of samples.
    const PAUSE: Duration = Duration::from_millis(500);
    const SAMPLES: usize = 8;

    /// Returns the text for the bytes received so far. It changes twice a second.
    pub(crate) fn now(&self, bytes: u64) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match (state.samples.front().copied(), state.samples.back()) {
            (Some((start, before)), Some((last, _))) if now - *last >= Rate::PAUSE => {
                state.words = throughput(bytes, bytes.saturating_sub(before), now - start);
                state.samples.push_back((now, bytes));
                if state.samples.len() > Rate::SAMPLES {
                    state.samples.pop_front();
                }
            }
            (None, _) => state.samples.push_back((now, bytes)),
            _ => {}
        }
        state.words.clone()
    }
}

fn percent(done: usize, total: usize) -> usize {
    done * 100 / total.max(1)
}

/// A phase that counts in a [`Meter`], which a separate thread displays. If nothing is to be shown,
/// there is no thread.
pub(crate) struct Watch {
    progress: Arc<Progress>,
    meter: Arc<Meter>,
    total: usize,
    ended: Arc<Ended>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Ended {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    /// Waits for the end of the phase, at most for `time`. Returns true if the phase has ended.
    fn wait(&self, time: Duration) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(flag, time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Watch {
    /// Time between two samples of the counter.
    const PAUSE: Duration = Duration::from_millis(100);

    /// Shows the counter from now on. A `total` of 0 means unknown: nothing is shown until the
    /// counter is above zero.
    pub(crate) fn start(progress: Progress, total: usize) -> Watch {
        let (progress, meter) = (Arc::new(progress), Arc::new(Meter::default()));
        let ended = Arc::new(Ended::default());
        let thread = progress.shown.is_some().then(|| {
            let (progress, meter, ended) = (Arc::clone(&progress), Arc::clone(&meter), Arc::clone(&ended));
            let show = move || {
                let mut pause = progress.from.saturating_duration_since(Instant::now());
                while !ended.wait(pause) {
                    if total > 0 || meter.done() > 0 {
                        progress.update(meter.done(), total);
                    }
                    pause = Watch::PAUSE;
                }
            };
            std::thread::Builder::new().spawn(show).ok()
        });
        Watch { progress, meter, total, ended, thread: thread.flatten() }
    }

    /// Returns the meter, if its count is displayed.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.progress.shown.is_some().then_some(&*self.meter)
    }

    /// Like [`Watch::meter`], as a shared reference that may outlive the borrow.
    pub(crate) fn shared_meter(&self) -> Option<Arc<Meter>> {
        self.progress.shown.is_some().then(|| Arc::clone(&self.meter))
    }

    /// Ends the display, with the total as the final count if it is known.
    pub(crate) fn finish(mut self) {
        self.stop();
        let done = if self.total > 0 { self.total } else { self.meter.done() };
        self.progress.finish(done, self.total);
    }

    fn stop(&mut self) {
        *self.ended.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.changed.notify_all();
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// A failed phase leaves its last line on the screen, and nothing is shown after it.
impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}
