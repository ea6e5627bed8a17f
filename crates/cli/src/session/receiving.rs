//! The progress of a pack: the objects as they arrive, then the deltas as they are resolved.
//!
//! Git's line of objects also has the bytes and the rate, once it has read more than once.

use std::{
    borrow::Cow,
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use repo::indexing::Meter;

use crate::term::progress::{Progress, Rate};

/// The time between two looks at the counters.
const PAUSE: Duration = Duration::from_millis(100);

/// How a pack is shown.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// The title of the line of objects. Objects that become loose have Git's own.
    pub(crate) title: Cow<'static, str>,
    /// The line of objects is wanted.
    pub(crate) objects: bool,
    /// The line of deltas is wanted.
    pub(crate) deltas: bool,
    /// The bytes that Git reads before it counts them; `None` if it never does.
    pub(crate) uncounted: Option<u64>,
}

impl Form {
    /// The form for a pack from a server whose header is read before.
    pub(crate) fn of_fetch(is_wanted: bool) -> Form {
        let title = "Receiving objects".into();
        Form { title, objects: is_wanted, deltas: is_wanted, uncounted: Some(0) }
    }

    /// The form for a pack that is read from its beginning through a pipe.
    pub(crate) fn of_clone(is_wanted: bool) -> Form {
        Form { uncounted: Some(64 << 10), ..Form::of_fetch(is_wanted) }
    }
}

/// Shows the counters of a meter.
pub(crate) struct Display<'a> {
    meter: &'a Meter,
    form: Form,
    /// Made when the first object is known, so that the rate is that of the pack.
    receiving: OnceLock<(Progress, Rate)>,
    resolving: Progress,
}

impl<'a> Display<'a> {
    pub(crate) fn new(form: Form, meter: &'a Meter) -> Display<'a> {
        let resolving = Progress::new("Resolving deltas", form.deltas, Duration::ZERO);
        Display { meter, form, receiving: OnceLock::new(), resolving }
    }

    /// Runs `work`, and shows meanwhile how far it is.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        if !self.form.objects && !self.form.deltas {
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
        if deltas > 0 && !self.unpacks() {
            self.finish_receiving(total);
            self.resolving.update(resolved, deltas);
        } else if total > 0 {
            let (receiving, rate) = self.receiving();
            match self.bytes() {
                Some(bytes) => receiving.update_saying(received, total, &rate.now(bytes)),
                None => receiving.update(received, total),
            }
        }
    }

    fn unpacks(&self) -> bool {
        self.meter.unpacks.load(Ordering::Relaxed)
    }

    fn receiving(&self) -> &(Progress, Rate) {
        self.receiving.get_or_init(|| {
            let title = if self.unpacks() { "Unpacking objects".into() } else { self.form.title.clone() };
            (Progress::titled(title, self.form.objects, Duration::ZERO), Rate::default())
        })
    }

    /// The bytes that are shown.
    fn bytes(&self) -> Option<u64> {
        let bytes = self.meter.bytes.load(Ordering::Relaxed);
        self.form.uncounted.filter(|uncounted| bytes > *uncounted).map(|_| bytes)
    }

    fn counts(&self) -> [usize; 4] {
        let meter = self.meter;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as usize;
        [read(&meter.total), read(&meter.received), read(&meter.deltas), read(&meter.resolved)]
    }

    fn finish_receiving(&self, total: usize) {
        let (receiving, _) = self.receiving();
        match self.bytes() {
            Some(bytes) => receiving.finish_bytes(total, total, bytes),
            None => receiving.finish(total, total),
        }
    }

    /// The last lines, if a whole pack came.
    pub(crate) fn finish(&self) {
        let added = self.meter.added.load(Ordering::Relaxed);
        let [total, received, deltas, resolved] = self.counts();
        if received < total || total == 0 {
            return;
        }
        self.finish_receiving(total);
        match added {
            _ if deltas == 0 || self.unpacks() => {}
            0 => self.resolving.finish(resolved, deltas),
            1 => self.resolving.finish_saying(resolved, deltas, "completed with 1 local object"),
            _ => {
                let words = format!("completed with {added} local objects");
                self.resolving.finish_saying(resolved, deltas, &words);
            }
        }
    }
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
