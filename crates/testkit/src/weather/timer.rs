//! The time of a reply.
//!
//! The work itself is done at once. Its reply waits in one heap of deadlines, which one thread
//! drains. The limit of parallel operations is a heap of the times at which slots become free. With
//! an arm instead of slots, one reply is in progress and the others wait, sorted by their place on
//! the disk. A slot is free from the deadline on, not from the time at which the thread woke up: a
//! late wake-up does not make the disk slower.
//!
//! Flushes have a queue of their own: one runs, and all that arrive meanwhile share the next one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt,
    num::NonZeroU64,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{Counts, Latency};

/// Sends a reply.
type Send = Box<dyn FnOnce() + std::marker::Send>;

/// The heap, its thread, and the measurement of lateness.
pub(super) struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

struct Queue {
    order: Order,
    flushes: Option<Flushes>,
    due: BinaryHeap<Due>,
    /// A counter that keeps replies with the same deadline in their order of arrival.
    arrivals: u64,
    punctuality: Histogram,
    ends: bool,
}

enum Order {
    Free,
    Slots { each: Duration, at_once: usize, free: BinaryHeap<Reverse<Instant>> },
    Arm { settle: Duration, stroke: Duration, arm: Arm },
}

/// The flushes of a disk's cache.
struct Flushes {
    each: Duration,
    /// The end of the last flush, which may not have started.
    end: Option<Instant>,
}

impl Flushes {
    /// Returns the end of the flush that serves a sync which arrived at `arrival`, and true if it
    /// is the first sync that this flush serves.
    fn join(&mut self, arrival: Instant) -> (Instant, bool) {
        // This flush has not started, so it serves this sync too.
        if let Some(end) = self.end.filter(|end| arrival + self.each < *end) {
            return (end, false);
        }
        let begin = self.end.map_or(arrival, |end| end.max(arrival));
        self.end = Some(begin + self.each);
        (begin + self.each, true)
    }
}

/// The position of the arm, and the waiting operations, by place.
#[derive(Default)]
struct Arm {
    place: u64,
    moves: bool,
    waiting: BTreeMap<(u64, u64), (Instant, Send)>,
}

struct Due {
    deadline: Instant,
    arrival: u64,
    /// True if the arm is free afterwards.
    moves_arm: bool,
    send: Send,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.deadline, self.arrival) == (other.deadline, other.arrival)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// The earliest deadline is the greatest.
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (other.deadline, other.arrival).cmp(&(self.deadline, self.arrival))
    }
}

impl Timer {
    pub(super) fn new(latency: Latency, flush: Option<Duration>) -> std::io::Result<Timer> {
        let order = match latency {
            Latency::None => Order::Free,
            Latency::Slots { each, at_once } => {
                Order::Slots { each, at_once: at_once.max(1), free: BinaryHeap::new() }
            }
            Latency::Arm { settle, stroke } => Order::Arm { settle, stroke, arm: Arm::default() },
        };
        let queue = Queue {
            order,
            flushes: flush.map(|each| Flushes { each, end: None }),
            due: BinaryHeap::new(),
            arrivals: 0,
            punctuality: Histogram::default(),
            ends: false,
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), wake: Condvar::new() });
        let drained = Arc::clone(&shared);
        let thread = thread::Builder::new().name("weather-timer".into()).spawn(move || drained.drain())?;
        Ok(Timer { shared, thread: Some(thread) })
    }

    /// Calls `send` when an operation that arrived at `arrival` and concerns `place` has taken its
    /// time.
    pub(super) fn serve(
        &self,
        arrival: Instant,
        place: u64,
        send: impl FnOnce() + std::marker::Send + 'static,
    ) {
        let mut queue = self.shared.lock();
        if let Order::Free = queue.order {
            drop(queue);
            return send();
        }
        queue.arrivals += 1;
        let number = queue.arrivals;
        let deadline = match &mut queue.order {
            Order::Free => arrival,
            Order::Slots { each, at_once, free } => {
                let slot = if free.len() < *at_once {
                    arrival
                } else {
                    free.pop().map_or(arrival, |Reverse(time)| time.max(arrival))
                };
                free.push(Reverse(slot + *each));
                slot + *each
            }
            Order::Arm { arm, .. } => {
                arm.waiting.insert((place, number), (arrival, Box::new(send)));
                if !arm.moves {
                    queue.move_arm(arrival);
                    self.shared.wake.notify_one();
                }
                return;
            }
        };
        self.wait(queue, Due { deadline, arrival: number, moves_arm: false, send: Box::new(send) });
    }

    /// Calls `send` when a flush that began after `arrival` has ended. Calls `begun` before, if no
    /// earlier sync has started that flush.
    pub(super) fn flush(
        &self,
        arrival: Instant,
        place: u64,
        begun: impl FnOnce(),
        send: impl FnOnce() + std::marker::Send + 'static,
    ) {
        let mut queue = self.shared.lock();
        let Some(flushes) = &mut queue.flushes else {
            drop(queue);
            begun();
            return self.serve(arrival, place, send);
        };
        let (deadline, is_first) = flushes.join(arrival);
        if is_first {
            begun();
        }
        queue.arrivals += 1;
        let number = queue.arrivals;
        self.wait(queue, Due { deadline, arrival: number, moves_arm: false, send: Box::new(send) });
    }

    fn wait(&self, mut queue: MutexGuard<'_, Queue>, due: Due) {
        let is_next = queue.due.peek().is_none_or(|first| due.deadline < first.deadline);
        queue.due.push(due);
        if is_next {
            self.shared.wake.notify_one();
        }
    }

    pub(super) fn lateness(&self) -> Lateness {
        self.shared.lock().punctuality.lateness()
    }

    /// Resets the measurement of lateness.
    pub(super) fn reset(&self) {
        self.shared.lock().punctuality = Histogram::default();
    }
}

impl Drop for Timer {
    /// Sends waiting replies immediately.
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread only sends replies, and a panic there has been reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self) {
        // By default the kernel adds 50 us to each wait. If the kernel refuses the change, only the
        // punctuality suffers.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            let next = queue.due.peek().map(|due| due.deadline);
            match next {
                Some(deadline) if deadline <= now || queue.ends => {
                    let Some(due) = queue.due.pop() else { continue };
                    if due.moves_arm {
                        queue.move_arm(deadline);
                    }
                    queue.punctuality.add(now.saturating_duration_since(deadline));
                    drop(queue);
                    (due.send)();
                    queue = self.lock();
                }
                Some(deadline) => {
                    let waited = self.wake.wait_timeout(queue, deadline - now);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None if queue.ends => return,
                None => queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Queue {
    /// Moves the arm, which is free since `since`, to the next operation: upwards, and from the
    /// highest place back to the lowest.
    fn move_arm(&mut self, since: Instant) {
        let Order::Arm { settle, stroke, arm } = &mut self.order else { return };
        let above = arm.waiting.range((arm.place, 0)..).next().or_else(|| arm.waiting.iter().next());
        let key = above.map(|(key, _)| *key);
        let Some(((place, arrival), (came, send))) =
            key.and_then(|key| arm.waiting.remove(&key).map(|waiting| (key, waiting)))
        else {
            arm.moves = false;
            return;
        };
        let share = place.abs_diff(arm.place) as f64 / u64::MAX as f64;
        arm.place = place;
        arm.moves = true;
        let deadline = since.max(came) + *settle + stroke.mul_f64(share.sqrt());
        self.due.push(Due { deadline, arrival, moves_arm: true, send });
    }
}

/// The number of replies by lateness, in steps of 10 us.
#[derive(Default)]
struct Histogram {
    steps: Vec<u64>,
    most: Duration,
}

const STEP: Duration = Duration::from_micros(10);
/// The last step also counts later replies.
const LAST_STEP: usize = 20_000;

impl Histogram {
    fn add(&mut self, late: Duration) {
        let step =
            usize::try_from(late.as_nanos() / STEP.as_nanos()).map_or(LAST_STEP, |step| step.min(LAST_STEP));
        if self.steps.len() <= step {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += 1;
        self.most = self.most.max(late);
    }

    fn lateness(&self) -> Lateness {
        let answers: u64 = self.steps.iter().sum();
        let percentile = |percent: u64| {
            let mut left = (answers * percent).div_ceil(100);
            let step = self.steps.iter().position(|count| {
                let within = *count >= left;
                left = left.saturating_sub(*count);
                within
            });
            // The upper end of the step.
            step.map_or(Duration::ZERO, |step| (STEP * (step as u32 + 1)).min(self.most))
        };
        Lateness {
            answers,
            half: percentile(50),
            nine_tenths: percentile(90),
            p99: percentile(99),
            most: self.most,
        }
    }
}

/// The lateness of replies: the delay that the server itself adds to the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// The number of delayed replies.
    pub answers: u64,
    /// The median.
    pub half: Duration,
    /// The 90th percentile.
    pub nine_tenths: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The maximum.
    pub most: Duration,
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_micros();
        let (half, tenths, p99) = (micros(self.half), micros(self.nine_tenths), micros(self.p99));
        write!(f, "late by {half}/{tenths}/{p99}/{} us (p50/p90/p99/most)", micros(self.most))
    }
}

/// The figures of a mount since it began, or since the last reset.
#[derive(Clone, Debug)]
pub struct Report {
    /// The number of operations of each kind.
    pub counts: Counts,
    /// The lateness of replies.
    pub lateness: Lateness,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations, {}: {}", self.counts.all(), self.lateness, self.counts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn answers_take_their_time_and_slots_are_shared() {
        let each = Duration::from_millis(5);
        let timer = Timer::new(Latency::Slots { each, at_once: 2 }, None).expect("a thread can be started");
        let (sent, received) = mpsc::channel();
        let start = Instant::now();
        for number in 0..6_u32 {
            let sent = sent.clone();
            timer.serve(start, 0, move || sent.send((number, start.elapsed())).expect("it is awaited"));
        }
        for number in 0..6 {
            let (which, taken) = received.recv().expect("each is sent");
            assert_eq!(which, number);
            assert!(taken >= each * (number / 2 + 1), "{number}: {taken:?}");
        }
        assert_eq!(timer.lateness().answers, 6);
    }

    #[test]
    fn flushes_that_wait_are_one() {
        let each = Duration::from_millis(10);
        let mut flushes = Flushes { each, end: None };
        let start = Instant::now();
        let mut join = |millis: u64| {
            let (end, is_first) = flushes.join(start + Duration::from_millis(millis));
            ((end - start).as_millis(), is_first)
        };
        assert_eq!(join(0), (10, true));
        // Syncs that arrive while it runs share the next flush.
        assert_eq!([join(0), join(3), join(9)], [(20, true), (20, false), (20, false)]);
        assert_eq!([join(10), join(15)], [(30, true), (30, false)]);
        assert_eq!(join(100), (110, true));
    }

    #[test]
    fn the_arm_sweeps() {
        let (settle, stroke) = (Duration::from_millis(1), Duration::from_millis(10));
        let came = Instant::now();
        let waiting =
            [5, 9, 1, 7, 3].map(|place: u64| ((place << 60, place), (came, Box::new(|| ()) as Send)));
        let arm = Arm { place: 4 << 60, moves: false, waiting: BTreeMap::from(waiting) };
        let order = Order::Arm { settle, stroke, arm };
        let mut queue = Queue {
            order,
            flushes: None,
            due: BinaryHeap::new(),
            arrivals: 0,
            punctuality: Histogram::default(),
            ends: false,
        };
        let mut free = came;
        let mut served = Vec::new();
        loop {
            queue.move_arm(free);
            let Some(due) = queue.due.pop() else { break };
            served.push((due.arrival, due.deadline - free));
            free = due.deadline;
        }
        let places: Vec<u64> = served.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [5, 7, 9, 1, 3]);
        let way = |sixteenths: f64| settle + stroke.mul_f64((sixteenths / 16.0).sqrt());
        for (&(place, taken), expected) in
            served.iter().zip([way(1.0), way(2.0), way(2.0), way(8.0), way(2.0)])
        {
            assert!(taken.abs_diff(expected) < Duration::from_nanos(100), "{place}: {taken:?}, {expected:?}");
        }
    }

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        for late in 1..=100_u64 {
            histogram.add(Duration::from_micros(late * 100));
        }
        let lateness = histogram.lateness();
        assert_eq!(lateness.half, Duration::from_micros(5_010));
        assert_eq!(lateness.p99, Duration::from_micros(9_910));
        assert_eq!(lateness.most, Duration::from_micros(10_000));
    }

    #[test]
    fn what_waits_at_the_end_is_sent() {
        let latency = Latency::Slots { each: Duration::from_secs(3600), at_once: 1 };
        let timer = Timer::new(latency, None).expect("a thread");
        let (sent, received) = mpsc::channel();
        timer.serve(Instant::now(), 0, move || sent.send(()).expect("it is awaited"));
        drop(timer);
        received.recv().expect("sent");
    }
}
