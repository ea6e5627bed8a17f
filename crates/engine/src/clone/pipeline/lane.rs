//! Writers of their own, for a disk whose answers take long: the threads that name objects do not
//! wait for it.
//!
//! The contents that wait are bounded. A file that finds no room is left to the checkout, so that
//! the server does not wait for the disk either.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use super::attributes::Job;

/// The bytes that may wait.
const WAITING: usize = 32 << 20;

/// The queue and its threads.
pub(super) struct Lane {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.bytes -= job.content.len();
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Lane {
    /// Starts up to `count` threads, which call `write`. The system may refuse some.
    pub(super) fn start(count: usize, write: impl Fn(Job) + Clone + Send + 'static) -> Lane {
        let queue = Arc::new(Queue::default());
        let start = |_| {
            let (queue, write) = (Arc::clone(&queue), write.clone());
            let work = move || {
                let _profiled = sys::profile::thread(sys::profile::Phase::Execute);
                while let Some(job) = queue.next() {
                    write(job);
                }
            };
            std::thread::Builder::new().spawn(work).ok()
        };
        let threads = (0..count).map_while(start).collect();
        Lane { queue, threads }
    }

    /// Hands a file over, if there is room.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.queue.state();
        if state.bytes + job.content.len() <= WAITING && !self.threads.is_empty() {
            state.bytes += job.content.len();
            state.jobs.push_back(job);
            self.queue.changed.notify_one();
        }
    }

    /// Waits until all files are written.
    pub(super) fn finish(&mut self) {
        self.queue.state().is_closed = true;
        self.queue.changed.notify_all();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.queue.state().jobs.clear();
        self.finish();
    }
}
