//! Hashes objects on other threads while the stream is read.
//!
//! Small objects are passed in batches. The bytes in the queue are bounded: above the limit, the
//! thread that reads the stream hashes a batch itself. With one thread it hashes all of them.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::Scope,
};

use format::Kind;

use super::{Error, Options, existing::Namer, table::store_name};

/// The bytes of one batch; a larger object has a batch of its own.
const BATCH: usize = 512 << 10;

/// Limit for the bytes of queued batches.
const WAITING: usize = 12 << 20;

/// Batches that are kept for reuse.
const SPARE: usize = 8;

/// Objects, concatenated in one buffer.
#[derive(Default)]
pub(super) struct Batch {
    room: Vec<u8>,
    used: usize,
    items: Vec<Item>,
}

struct Item {
    index: u32,
    offset: u64,
    kind: Kind,
    start: usize,
    len: usize,
}

impl Batch {
    /// Returns the buffer for an object of `len` bytes; `None` if the batch is full.
    pub(super) fn place(&mut self, len: usize) -> Option<&mut [u8]> {
        self.room.get_mut(self.used..self.used + len)
    }

    /// Adds the object of `len` bytes that the caller wrote to the buffer of [`Batch::place`].
    pub(super) fn add(&mut self, index: u32, offset: u64, kind: Kind, len: usize) {
        self.items.push(Item { index, offset, kind, start: self.used, len });
        self.used += len;
    }

    fn has_room(&self, len: usize) -> bool {
        self.room.len() - self.used >= len
    }
}

/// The threads' common state.
pub(super) struct Pool<'a> {
    options: Options<'a>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Batch>,
    waiting: usize,
    spare: Vec<Batch>,
    is_closed: bool,
    names: Vec<u8>,
    /// The error of the first object in the pack that failed.
    failure: Option<(u32, Error)>,
}

impl<'a> Pool<'a> {
    pub(super) fn new(options: &Options<'a>) -> Pool<'a> {
        Pool { options: *options, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts up to `count` threads, which end after [`Pool::close`]. Returns the number of started
    /// threads: the system may refuse some.
    pub(super) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, count: usize) -> usize {
        let start = || {
            let work = || {
                let _profiled = sys::profile::thread(sys::profile::Phase::Decode);
                self.work();
            };
            std::thread::Builder::new().spawn_scoped(scope, work)
        };
        (0..count).take_while(|_| start().is_ok()).count()
    }

    fn work(&self) {
        let mut namer = Namer::new(&self.options);
        let mut state = self.state();
        loop {
            if let Some(batch) = state.take() {
                drop(state);
                self.name_all(&mut namer, batch);
                state = self.state();
            } else if state.is_closed {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Returns an empty batch with room for an object of `len` bytes.
    pub(super) fn batch_for(&self, len: usize) -> Batch {
        if len <= BATCH
            && let Some(batch) = self.state().spare.pop()
        {
            return batch;
        }
        Batch { room: vec![0; len.max(BATCH)], ..Batch::default() }
    }

    /// Makes room for an object of `len` bytes in `batch`. A full batch is queued and replaced.
    /// `namer` is used if this thread has to hash a batch itself. Returns false if an object has
    /// failed, so that the caller should stop.
    pub(super) fn make_room(
        &self,
        batch: &mut Batch,
        len: usize,
        namer: &mut Namer<'_>,
        threads: usize,
    ) -> bool {
        if batch.has_room(len) {
            return true;
        }
        let full = std::mem::take(batch);
        let goes_on = self.hand_over(full, namer, threads);
        *batch = self.batch_for(len);
        goes_on
    }

    /// Queues a batch for the `threads`. Returns false if an object has failed.
    pub(super) fn hand_over(&self, batch: Batch, namer: &mut Namer<'_>, threads: usize) -> bool {
        if threads == 0 {
            self.name_all(namer, batch);
            return self.state().failure.is_none();
        }
        let mut state = self.state();
        state.waiting += batch.room.len();
        state.jobs.push_back(batch);
        self.changed.notify_one();
        while state.waiting > WAITING {
            let Some(batch) = state.take() else { break };
            drop(state);
            self.name_all(namer, batch);
            state = self.state();
        }
        state.failure.is_none()
    }

    /// Hashes the remaining batches together with the threads, which then end.
    pub(super) fn close(&self, namer: &mut Namer<'_>) {
        let mut state = self.state();
        state.is_closed = true;
        self.changed.notify_all();
        while let Some(batch) = state.take() {
            drop(state);
            self.name_all(namer, batch);
            state = self.state();
        }
    }

    /// Returns the names, or the error of the first object that failed. The threads must have
    /// ended.
    pub(super) fn finish(self) -> Result<Vec<u8>, Error> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failure.map_or(Ok(state.names), |(_, error)| Err(error))
    }

    fn name_all(&self, namer: &mut Namer<'_>, mut batch: Batch) {
        let mut names = Vec::with_capacity(batch.items.len());
        let mut failure = None;
        for item in &batch.items {
            let content = &batch.room[item.start..item.start + item.len];
            match namer.accept(item.kind, content, item.offset) {
                Ok(oid) => names.push((item.index, oid)),
                Err(error) => {
                    failure = Some((item.index, error));
                    break;
                }
            }
        }
        (batch.used, batch.items) = (0, Vec::new());
        let mut state = self.state();
        names.iter().for_each(|(index, oid)| store_name(&mut state.names, *index, oid));
        if let Some((index, error)) = failure
            && state.failure.as_ref().is_none_or(|(first, _)| index < *first)
        {
            state.failure = Some((index, error));
        }
        if batch.room.len() == BATCH && state.spare.len() < SPARE {
            state.spare.push(batch);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock ends the command anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self) -> Option<Batch> {
        let batch = self.jobs.pop_front()?;
        self.waiting -= batch.room.len();
        Some(batch)
    }
}
