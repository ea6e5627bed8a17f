//! Where the time of a run goes: per phase how often, how long, and how much of it the thread did not run.
//!
//! Promise: each nanosecond between a thread's first border and its last belongs to exactly one phase, the innermost, so
//! the phases of a thread add up to its time; and each system call made through this crate is counted once. Off until
//! [`start`]; then a border costs a look at a clock that needs no system call and an addition, off it costs a load.
//!
//! A thread's figures are its own (`record`) and are collected when it leaves; nothing is shared meanwhile. The profile
//! is the process's, as its threads and its clocks are. See docs/design/profile.md.

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
use record::{Piece, Pieces, Record};
pub use timeline::{Bucket, Timeline};

/// What a thread is about: work, a kind of system call, or waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Whatever has no phase of its own: start-up, configuration, refs.
    Other,
    /// Walking trees, looking at the worktree, deciding.
    Plan,
    /// Doing the plan's steps, less what follows.
    Execute,
    /// Finding and inflating objects.
    Decode,
    /// Attributes, line ends, encodings, filters.
    Convert,
    /// Reading, completing and writing the index.
    Index,
    /// `open` and its kin.
    Open,
    /// `read`, `readlink`.
    Read,
    /// `write`, and what else changes a file: its length, mode or times.
    Write,
    /// `stat` and its kin, `access`.
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
    /// `fsync` and its kin.
    Sync,
    /// Waiting for other threads to finish.
    Wait,
}

const PHASES: usize = Phase::ALL.len();

impl Phase {
    /// All, in the order in which they are shown; each at the position that is its number.
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

    /// Its name.
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

/// What a phase took, all threads together. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How often it was begun: of system calls, how many there were.
    pub count: u64,
    /// Time, less that of phases within it.
    pub wall: u64,
    /// The part of `wall` in which the thread did not run.
    pub off: u64,
}

/// Threads that came one after the other, drawn as one.
#[derive(Clone, Debug)]
pub struct Lane {
    /// When its first thread came and its last one left, in nanoseconds since the start.
    since: u64,
    until: u64,
    /// What its threads did, when.
    pub timeline: Timeline,
}

/// Where the time of a run went. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// From [`start`] to [`finish`].
    pub wall: u64,
    /// How many threads there were, and how long they lived together.
    pub threads: (usize, u64),
    totals: [Total; PHASES],
    /// The main thread first. All timelines have buckets of one width, from the start on.
    pub lanes: Vec<Lane>,
}

impl Profile {
    /// What a phase took.
    pub fn total(&self, phase: Phase) -> Total {
        self.totals[phase as usize]
    }
}

/// Set once, before there are threads.
static ON: AtomicBool = AtomicBool::new(false);
/// So many times what a look at the thread's clock costs: looking takes less than a hundredth of the time.
const LOOKS: u64 = 128;
static COLLECTED: Mutex<Collected> =
    Mutex::new(Collected { clock: None, threads: (0, 0), totals: [NOTHING; PHASES], lanes: Vec::new() });
const NOTHING: Total = Total { count: 0, wall: 0, off: 0 };

/// What the threads that left have handed in.
struct Collected {
    /// What they go by, and how many nanoseconds are long; see `record`.
    clock: Option<(Clock, u64)>,
    threads: (usize, u64),
    totals: [Total; PHASES],
    lanes: Vec<Lane>,
}

/// A thread's record, handed in at the latest when the thread ends.
struct Local(RefCell<Option<Box<Record>>>);

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            PIECES.with(|pieces| collect(*record, pieces));
        }
    }
}

thread_local! {
    /// Needs no dropping, so that a border need not ask whether it still is there.
    static PIECES: Pieces = const { Pieces::none() };
    static LOCAL: Local = const { Local(RefCell::new(None)) };
}

/// Begins the profile of this process; the calling thread is the main one.
pub fn start() {
    let long = cost_of_a_look() * LOOKS;
    let clock = Clock::new();
    clock.install();
    locked().clock = Some((clock, long));
    ON.store(true, Ordering::Relaxed);
    switch(Phase::Other);
}

/// Ends it. To be called by the main thread when all others have left. Nothing before [`start`].
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

/// From now until the value goes out of scope, this thread is in `phase`.
#[must_use]
#[inline]
pub fn span(phase: Phase) -> Span {
    Span { previous: is_on().then(|| begin(phase)), _on_this_thread: PhantomData }
}

/// See [`span`].
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

/// The phase this thread is in.
pub fn current() -> Phase {
    PIECES.with(Pieces::phase)
}

/// Takes part as a thread that begins in `phase`, that of whoever started it, and leaves when the value goes out of scope: to be
/// the first thing on the thread.
#[must_use]
pub fn thread(phase: Phase) -> Thread {
    if is_on() {
        switch(phase);
    }
    Thread(PhantomData)
}

/// See [`thread`].
pub struct Thread(PhantomData<*const ()>);

impl Drop for Thread {
    fn drop(&mut self) {
        leave();
    }
}

/// Makes one system call of this kind.
#[inline]
pub(crate) fn call<T>(kind: Phase, call: impl FnOnce() -> T) -> T {
    let _span = span(kind);
    call()
}

/// Makes a system call of this kind until no signal comes in between.
pub(crate) fn retried<T>(
    kind: Phase,
    mut attempt: impl FnMut() -> Result<T, rustix::io::Errno>,
) -> Result<T, rustix::io::Errno> {
    rustix::io::retry_on_intr(|| call(kind, &mut attempt))
}

fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins a phase, and counts that. Returns the one before.
#[inline]
fn begin(phase: Phase) -> Phase {
    PIECES.with(|pieces| pieces.begin(phase, clock::now(), |piece| settle(pieces, piece)))
}

/// Goes over to a phase.
#[inline]
fn switch(phase: Phase) {
    PIECES.with(|pieces| {
        pieces.switch(phase, clock::now(), |piece| settle(pieces, piece));
    });
}

/// Makes figures of this thread's pieces; begins its record if it has none. Nothing without a profile, and when the thread is all but gone.
#[cold]
#[inline(never)]
fn settle(pieces: &Pieces, piece: Piece) {
    if !is_on() {
        return;
    }
    let _ = LOCAL.try_with(|local| match &mut *local.0.borrow_mut() {
        Some(record) => record.settle(pieces, piece, ran),
        slot => {
            let Some((clock, long)) = locked().clock else { return };
            *slot = Some(Box::new(Record::new(clock, long, piece.until, ran(), pieces)));
        }
    });
}

/// Hands this thread's record in.
fn leave() {
    if let Ok(Some(record)) = LOCAL.try_with(|local| local.0.take()) {
        PIECES.with(|pieces| collect(*record, pieces));
    }
}

fn collect(record: Record, pieces: &Pieces) {
    let (began, ended, totals, timeline) = record.finish(pieces, clock::now(), ran());
    let collected = &mut *locked();
    collected.threads.0 += 1;
    collected.threads.1 += ended - began;
    for (total, of_thread) in collected.totals.iter_mut().zip(totals) {
        total.count += of_thread.count;
        total.wall += of_thread.wall;
        total.off += of_thread.off;
    }
    // The lane that became free last: there are then never more of them than threads at one time.
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
    // Sums: whole whoever panicked.
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds for which this thread has run. A system call.
fn ran() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The least of a few: 200 ns on most machines, ten times that on some virtual ones.
fn cost_of_a_look() -> u64 {
    const TRIES: usize = 8;
    let cost = || {
        let before = clock::monotonic();
        ran();
        clock::monotonic() - before
    };
    std::iter::repeat_with(cost).take(TRIES).min().unwrap_or(0)
}
