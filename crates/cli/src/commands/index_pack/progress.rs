//! The progress that `-v` shows: the objects as they arrive, then the deltas as they are resolved.

use std::{
    io::Write as _,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bstr::ByteSlice as _;
use repo::indexing::Meter;

use super::words::Request;
use crate::term::progress::Progress;

/// The time between two looks at the counters.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows the counters of a meter.
pub(super) struct Display<'a> {
    meter: &'a Meter,
    receiving: Progress,
    resolving: Progress,
    is_stream: bool,
    is_visible: bool,
}

impl<'a> Display<'a> {
    pub(super) fn of(request: &Request, meter: &'a Meter) -> Display<'a> {
        let title = match &request.title {
            Some(title) => title.to_str_lossy().into_owned().into(),
            None if request.stdin => "Receiving objects".into(),
            None => "Indexing objects".into(),
        };
        let resolves = request.verbose || request.shows_resolving;
        Display {
            meter,
            receiving: Progress::titled(title, request.verbose, Duration::ZERO),
            resolving: Progress::new("Resolving deltas", resolves, Duration::ZERO),
            is_stream: request.stdin,
            is_visible: resolves,
        }
    }

    /// Runs `work`, and shows meanwhile how far it is.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        if !self.is_visible {
            return work();
        }
        let ended = Ended { flag: Mutex::new(false), changed: Condvar::new() };
        std::thread::scope(|scope| {
            let watch = || {
                while !ended.wait() {
                    self.look();
                }
            };
            // Without a thread, only the last lines are shown.
            let _ = std::thread::Builder::new().spawn_scoped(scope, watch);
            let _ending = Ending(&ended);
            work()
        })
    }

    fn look(&self) {
        let [total, received, deltas, resolved] = self.counts();
        if deltas > 0 {
            self.finish_receiving(total);
            self.resolving.update(resolved, deltas);
        } else if total > 0 {
            self.receiving.update(received, total);
        }
    }

    fn counts(&self) -> [usize; 4] {
        let meter = self.meter;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as usize;
        [read(&meter.total), read(&meter.received), read(&meter.deltas), read(&meter.resolved)]
    }

    /// Git counts the bytes from its second read on. The first one fills its buffer, or takes all
    /// that a pipe holds.
    fn finish_receiving(&self, total: usize) {
        let bytes = self.meter.bytes.load(Ordering::Relaxed);
        let first = if sys::stdin_is_file() { 128 << 10 } else { 64 << 10 };
        match self.is_stream && bytes > first {
            true => self.receiving.finish_bytes(total, total, bytes),
            false => self.receiving.finish(total, total),
        }
    }

    /// The last lines. `added` bases were added to a thin pack.
    pub(super) fn finish(&self, added: u32) {
        let [total, _, deltas, resolved] = self.counts();
        self.finish_receiving(total);
        match added {
            _ if deltas == 0 => {}
            0 => self.resolving.finish(resolved, deltas),
            1 => self.resolving.finish_saying(resolved, deltas, "completed with 1 local object"),
            _ => {
                let words = format!("completed with {added} local objects");
                self.resolving.finish_saying(resolved, deltas, &words);
            }
        }
    }
}

/// Writes a NUL to standard error: the whole pack has been read.
pub(super) fn report_end() {
    let _ = std::io::stderr().lock().write_all(b"\0");
}

struct Ended {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    /// Waits for the end, at most for a pause. Returns true if it has come.
    fn wait(&self) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(flag, PAUSE, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct Ending<'a>(&'a Ended);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}
