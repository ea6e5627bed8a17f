//! The progress of a pack: the objects received, then the deltas resolved.
//!
//! As in Git, the line of objects has the bytes and the throughput only after a first read.

use std::{
    borrow::Cow,
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use repo::pack_indexing::Meter;

use crate::term::progress::{Progress, Rate};

/// The time between two samples of the counters.
const PAUSE: Duration = Duration::from_millis(100);

/// The progress lines of a pack.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// The title of the line of objects. Objects that become loose have Git's own title.
    pub(crate) title: Cow<'static, str>,
    /// True to show the line of objects.
    pub(crate) objects: bool,
    /// True to show the line of deltas.
    pub(crate) deltas: bool,
    /// The number of received bytes from which Git shows the byte count; `None` if it never does.
    pub(crate) uncounted: Option<u64>,
}

impl Form {
    /// The form for a fetched pack, whose header is read in advance.
    pub(crate) fn of_fetch(is_wanted: bool) -> Form {
        let title = "Receiving objects".into();
        Form { title, objects: is_wanted, deltas: is_wanted, uncounted: Some(0) }
    }

    /// The form for a cloned pack, which is read from its beginning through a pipe.
    pub(crate) fn of_clone(is_wanted: bool) -> Form {
        Form { uncounted: Some(64 << 10), ..Form::of_fetch(is_wanted) }
    }
}

/// Displays the counters of a meter.
pub(crate) struct Display<'a> {
    meter: &'a Meter,
    form: Form,
    /// Created at the first object, so that the throughput covers the pack alone.
    receiving: OnceLock<(Progress, Rate)>,
    resolving: Progress,
}

impl<'a> Display<'a> {
    pub(crate) fn new(form: Form, meter: &'a Meter) -> Display<'a> {
        let resolving = Progress::new("Resolving deltas", form.deltas, Duration::ZERO);
        Display { meter, form, receiving: OnceLock::new(), resolving }
    }

    /// Runs `work` and displays its progress.
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

    /// Returns the byte count to show, if any.
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

    /// Shows the last lines, if the pack is complete.
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
    /// Waits for the end, at most for [`PAUSE`]. Returns true if the work has ended.
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
