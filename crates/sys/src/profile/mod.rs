//! A profile of a run: for each phase the number of calls, the time, and the part of the time in
//! which the thread did not run.
//!
//! Promise: each nanosecond between a thread's first and last phase change belongs to exactly one
//! phase, the innermost. So the phases of a thread add up to its lifetime. Each system call through
//! this crate is counted once. The profile is off until [`start`]. When it is on, a phase change
//! costs a clock read without a system call, and an addition. When it is off, it costs one load.
//!
//! Each thread records its own figures (`record`) and submits them when it ends; threads share no
//! data before that. The profile belongs to the process, like its threads and clocks. See
//! docs/design/profile.md.

mod clock;
mod record;
mod timeline;

use std::{
    cell::RefCell,
    marker::PhantomData,
    mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use clock::Clock;
use record::{Interval, Intervals, Record, ThreadFigures};
pub use timeline::{Bucket, Timeline};

/// The activity of a thread: work, a kind of system call, or waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All work without a phase of its own: start-up, configuration, refs.
    Other,
    /// Walking trees, checking the worktree, making the plan.
    Plan,
    /// Executing the plan's steps, except for the phases below.
    Execute,
    /// Finding and inflating objects.
    Decode,
    /// Attributes, line ends, encodings, filters.
    Convert,
    /// Reading, completing and writing the index.
    Index,
    /// `open` and similar calls.
    Open,
    /// `read`, `readlink`.
    Read,
    /// `write`, and other changes of a file: its length, mode or times.
    Write,
    /// `stat` and similar calls, `access`.
    Stat,
    /// `getdents`
    List,
    /// `close`
    Close,
    /// `unlink`, `rmdir`.
    Remove,
    /// `mkdir`
    MakeDir,
    /// `symlink`, `link`, `rename`.
    Link,
    /// `fsync` and similar calls.
    Sync,
    /// Waiting for other threads to finish.
    Wait,
}

const PHASES: usize = Phase::ALL.len();

impl Phase {
    /// All phases in display order. The position of each is its discriminant.
    pub const ALL: [Phase; 17] = [
        Phase::Other,
        Phase::Plan,
        Phase::Execute,
        Phase::Decode,
        Phase::Convert,
        Phase::Index,
        Phase::Open,
        Phase::Read,
        Phase::Write,
        Phase::Stat,
        Phase::List,
        Phase::Close,
        Phase::Remove,
        Phase::MakeDir,
        Phase::Link,
        Phase::Sync,
        Phase::Wait,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Other => "other",
            Phase::Plan => "plan",
            Phase::Execute => "execute",
            Phase::Decode => "decode",
            Phase::Convert => "convert",
            Phase::Index => "index",
            Phase::Open => "open",
            Phase::Read => "read",
            Phase::Write => "write",
            Phase::Stat => "stat",
            Phase::List => "list",
            Phase::Close => "close",
            Phase::Remove => "remove",
            Phase::MakeDir => "mkdir",
            Phase::Link => "link",
            Phase::Sync => "sync",
            Phase::Wait => "wait",
        }
    }
}

/// The figures of one phase, summed over all threads. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How many times the phase began. For a kind of system call, the number of calls.
    pub count: u64,
    /// The time spent in the phase, without the phases nested in it.
    pub wall: u64,
    /// The part of `wall` in which the thread did not run.
    pub off: u64,
}

/// Threads that ran one after the other, drawn as one row.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The start of its first thread and the end of its last one, in nanoseconds since the start.
    since: u64,
    until: u64,
    /// The activity of its threads over time.
    pub timeline: Timeline,
}

/// The threads of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Their number.
    pub count: usize,
    /// The sum of their lifetimes in nanoseconds.
    pub wall: u64,
}

/// The profile of a run. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The time from [`start`] to [`finish`].
    pub wall: u64,
    /// The threads that took part.
    pub threads: Threads,
    totals: [Total; PHASES],
    /// The rows of the chart, the main thread's first. All timelines have the same bucket width and
    /// begin at the start.
    pub lanes: Vec<Lane>,
}

impl Profile {
    /// Returns the figures of a phase.
    pub fn total(&self, phase: Phase) -> Total {
        self.totals[phase as usize]
    }
}

/// True while the profile is on. Set before other threads start.
static ON: AtomicBool = AtomicBool::new(false);
/// A thread's CPU clock is read only after an interval this many times longer than the read, so
/// that reads take less than a hundredth of the time.
const CLOCK_READS: u64 = 128;
static COLLECTED: Mutex<Collected> = Mutex::new(Collected {
    clock: None,
    threads: Threads { count: 0, wall: 0 },
    totals: [NOTHING; PHASES],
    lanes: Vec::new(),
});
const NOTHING: Total = Total { count: 0, wall: 0, off: 0 };

/// The figures of ended threads.
struct Collected {
    /// The clock, and the length of a long interval in nanoseconds; see `record`.
    clock: Option<(Clock, u64)>,
    threads: Threads,
    totals: [Total; PHASES],
    lanes: Vec<Lane>,
}

/// A thread's record, which is submitted at the latest when the thread ends.
struct Local(RefCell<Option<Box<Record>>>);

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            INTERVALS.with(|intervals| collect(*record, intervals));
        }
    }
}

thread_local! {
    /// This type needs no drop, so a phase change need not check that it still exists.
    static INTERVALS: Intervals = const { Intervals::none() };
    static LOCAL: Local = const { Local(RefCell::new(None)) };
}

/// Starts the profile of this process. The calling thread becomes the main thread.
pub fn start() {
    let long = clock_read_cost() * CLOCK_READS;
    let clock = Clock::new();
    clock.install();
    locked().clock = Some((clock, long));
    ON.store(true, Ordering::Relaxed);
    switch(Phase::Other);
}

/// Ends the profile. The main thread calls it after all other threads have ended. Returns `None` if
/// [`start`] was not called.
pub fn finish() -> Option<Profile> {
    if !ON.swap(false, Ordering::Relaxed) {
        return None;
    }
    leave();
    let collected = &mut *locked();
    let (clock, _) = collected.clock.take()?;
    let mut lanes = mem::take(&mut collected.lanes);
    Timeline::align(lanes.iter_mut().map(|lane| &mut lane.timeline).collect());
    lanes.sort_by_key(|lane| lane.since);
    Some(Profile {
        wall: clock.nanos(clock::now()),
        threads: collected.threads,
        totals: collected.totals,
        lanes,
    })
}

/// Puts this thread into `phase` until the returned value is dropped.
#[must_use]
#[inline]
pub fn span(phase: Phase) -> Span {
    Span { previous: is_on().then(|| begin(phase)), _on_this_thread: PhantomData }
}

/// The guard that [`span`] returns.
pub struct Span {
    previous: Option<Phase>,
    _on_this_thread: PhantomData<*const ()>,
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            switch(previous);
        }
    }
}

/// Returns the phase of this thread.
pub fn current() -> Phase {
    INTERVALS.with(Intervals::phase)
}

/// Adds this thread to the profile, in `phase`, until the returned value is dropped. `phase` is the
/// phase of the thread that started it. Call it first on the new thread.
#[must_use]
pub fn thread(phase: Phase) -> Thread {
    if is_on() {
        switch(phase);
    }
    Thread(PhantomData)
}

/// The guard that [`thread`] returns.
pub struct Thread(PhantomData<*const ()>);

impl Drop for Thread {
    fn drop(&mut self) {
        leave();
    }
}

/// Makes one system call of this kind.
#[inline]
pub(crate) fn call<T>(kind: Phase, call: impl FnOnce() -> T) -> T {
    crate::interrupt::before(kind);
    crate::changes::before(kind);
    let _span = span(kind);
    call()
}

/// Makes a system call of this kind, and repeats it while a signal interrupts it.
pub(crate) fn retried<T>(
    kind: Phase,
    mut attempt: impl FnMut() -> Result<T, rustix::io::Errno>,
) -> Result<T, rustix::io::Errno> {
    rustix::io::retry_on_intr(|| call(kind, &mut attempt))
}

fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins a phase and counts it. Returns the previous phase.
#[inline]
fn begin(phase: Phase) -> Phase {
    INTERVALS.with(|intervals| intervals.begin(phase, clock::now(), |interval| settle(intervals, interval)))
}

/// Changes to a phase without counting it.
#[inline]
fn switch(phase: Phase) {
    INTERVALS.with(|intervals| {
        intervals.switch(phase, clock::now(), |interval| settle(intervals, interval));
    });
}

/// Adds this thread's intervals to its record, and creates the record if it is missing. Does
/// nothing without a profile, and at the very end of a thread.
#[cold]
#[inline(never)]
fn settle(intervals: &Intervals, interval: Interval) {
    if !is_on() {
        return;
    }
    let _ = LOCAL.try_with(|local| match &mut *local.0.borrow_mut() {
        Some(record) => record.settle(intervals, interval, cpu_time),
        slot => {
            let Some((clock, long)) = locked().clock else { return };
            *slot = Some(Box::new(Record::new(clock, long, interval.until, cpu_time(), intervals)));
        }
    });
}

/// Submits this thread's record.
fn leave() {
    if let Ok(Some(record)) = LOCAL.try_with(|local| local.0.take()) {
        INTERVALS.with(|intervals| collect(*record, intervals));
    }
}

fn collect(record: Record, intervals: &Intervals) {
    let ThreadFigures { began, ended, totals, timeline } = record.finish(intervals, clock::now(), cpu_time());
    let collected = &mut *locked();
    collected.threads.count += 1;
    collected.threads.wall += ended - began;
    for (total, of_thread) in collected.totals.iter_mut().zip(totals) {
        total.count += of_thread.count;
        total.wall += of_thread.wall;
        total.off += of_thread.off;
    }
    // Uses the lane that became free last, so there are never more lanes than concurrent threads.
    let free = collected.lanes.iter_mut().filter(|lane| lane.until <= began).max_by_key(|lane| lane.until);
    match free {
        Some(lane) => {
            lane.until = ended;
            lane.timeline.append(timeline);
        }
        None => collected.lanes.push(Lane { since: began, until: ended, timeline }),
    }
}

fn locked() -> std::sync::MutexGuard<'static, Collected> {
    // The data are sums, which stay valid if a thread panics.
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the CPU time of this thread in nanoseconds. This is a system call.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns the cost of reading the thread's CPU clock in nanoseconds, the minimum of a few tries:
/// 200 ns on most machines, ten times that on some virtual machines.
fn clock_read_cost() -> u64 {
    const TRIES: usize = 8;
    let cost = || {
        let before = clock::monotonic();
        cpu_time();
        clock::monotonic() - before
    };
    std::iter::repeat_with(cost).take(TRIES).min().unwrap_or(0)
}
