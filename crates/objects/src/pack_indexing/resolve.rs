//! The second pass: applies the deltas, family by family, on all threads.
//!
//! A thread takes an object that is not a delta and has children, and resolves its family depth
//! first. It uses a stack of its own instead of recursion, because chains have any length. The
//! bytes of the contents on the stack are bounded. Above the limit, the contents that are needed
//! last are dropped, and computed again from their bases when they are needed. The last child of a
//! base replaces the base on the stack. A thread without work gets a part of another thread's
//! family.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use format::{Kind, ObjectId};

use super::{
    Error, Options,
    families::{Children, Families},
    table::{Form, Table, name_in, store_name},
    worker::Worker,
};
use crate::database::{buffer::Buffer, pool::Pool};

/// A thread takes roots in runs of this many entries.
const RUN: u32 = 64;

/// The common state of the threads.
pub(super) struct Resolver<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) table: &'a Table,
    pub(super) families: &'a Families,
    /// The pack, up to the end of its last entry at least.
    pub(super) data: &'a [u8],
    /// The file that contains `data`. If set, entries are read from it.
    pub(super) file: Option<&'a sys::File>,
    /// A pool of memory for large contents.
    pub(super) memory: Arc<Pool>,
    /// A base that is not in `data`: its entry number, type and content.
    pub(super) outside: Option<(u32, Kind, Arc<Buffer>)>,
    names: RwLock<Vec<u8>>,
    resolved: AtomicUsize,
    next_root: AtomicU32,
    /// The number of waiting threads that exceeds the frames in `State::given`.
    hungry: AtomicUsize,
    has_failed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    given: Vec<Frame>,
    threads: usize,
    idle: usize,
    is_over: bool,
    failure: Option<(u64, Error)>,
}

/// An object with children.
pub(super) struct Frame {
    pub(super) index: u32,
    pub(super) kind: Kind,
    /// `None` if it was not computed yet, or was dropped to save memory.
    pub(super) content: Option<Arc<Buffer>>,
    pub(super) children: Children,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(
        options: &'a Options<'a>,
        table: &'a Table,
        families: &'a Families,
        data: &'a [u8],
        names: Vec<u8>,
    ) -> Resolver<'a> {
        Resolver {
            options,
            table,
            families,
            data,
            file: None,
            memory: Arc::default(),
            outside: None,
            names: RwLock::new(names),
            resolved: AtomicUsize::new(0),
            next_root: AtomicU32::new(0),
            hungry: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Resolves every delta whose base is in the pack. Returns the names and the number of resolved
    /// deltas.
    pub(super) fn run(self) -> Result<(Vec<u8>, usize), Error> {
        std::thread::scope(|scope| {
            let this = &self;
            this.state().threads = 1;
            for _ in 1..this.options.threads {
                // The thread is counted before it starts, so the others wait for its work.
                this.state().threads += 1;
                let work = || {
                    let _profiled = sys::profile::thread(sys::profile::Phase::Decode);
                    this.work();
                };
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    this.state().threads -= 1;
                    break;
                }
            }
            this.work();
        });
        self.finish()
    }

    /// Resolves the family of the base in `outside`, on this thread.
    pub(super) fn run_outside(mut self) -> Result<(Vec<u8>, usize), Error> {
        let (index, kind, content) = self.outside.clone().expect("set by the caller");
        let name = name_in(&self.names(), self.table.hash, index).to_vec();
        let name = ObjectId::from_bytes(self.table.hash, &name).expect("as long as the hash");
        let children = self.families.children(index, || name);
        self.next_root = AtomicU32::new(self.table.count());
        self.state().given.push(Frame { index, kind, content: Some(content), children });
        self.state().threads = 1;
        self.work();
        self.finish()
    }

    fn finish(self) -> Result<(Vec<u8>, usize), Error> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = state.failure {
            return Err(error);
        }
        let names = self.names.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((names, self.resolved.into_inner()))
    }

    fn work(&self) {
        // If this thread panics, the others must not wait for it.
        let _over = OverOnPanic(self);
        let mut worker = Worker::new(self);
        let mut roots = 0..0;
        loop {
            let outcome = worker.family(&mut |stack| self.share(stack));
            let outcome = outcome.and_then(|()| {
                if self.root(&mut worker, &mut roots)? {
                    Ok(true)
                } else {
                    Ok(self.wait().map(|frame| worker.push(frame)).is_some())
                }
            });
            match outcome {
                Ok(true) => {}
                Ok(false) => break,
                Err((offset, error)) => {
                    self.fail(offset, error);
                    break;
                }
            }
        }
        worker.flush();
    }

    /// Gives the worker the next object that is not a delta and has children. Returns false after
    /// the last one, or if a thread has failed.
    fn root(
        &self,
        worker: &mut Worker<'_, '_>,
        roots: &mut std::ops::Range<u32>,
    ) -> Result<bool, (u64, Error)> {
        let count = self.table.count();
        loop {
            if self.options.interrupt.load(Ordering::Relaxed) {
                return Err((0, Error::Interrupted));
            }
            for index in roots.by_ref() {
                let Form::Whole(kind) = self.table.entry(index).form else { continue };
                let children = self.families.children(index, || self.name(index));
                if !children.is_empty() {
                    worker.push(Frame { index, kind, content: None, children });
                    return Ok(true);
                }
            }
            if self.has_failed.load(Ordering::Relaxed) {
                return Ok(false);
            }
            // The counter stops at the number of entries.
            let start = self.next_root.load(Ordering::Relaxed);
            if start >= count {
                return Ok(false);
            }
            let end = start.saturating_add(RUN).min(count);
            let taken =
                self.next_root.compare_exchange(start, end, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            *roots = if taken { start..end } else { 0..0 };
        }
    }

    fn name(&self, index: u32) -> ObjectId {
        let names = self.names();
        ObjectId::from_bytes(self.table.hash, name_in(&names, self.table.hash, index))
            .expect("as long as the hash")
    }

    fn names(&self) -> std::sync::RwLockReadGuard<'_, Vec<u8>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the names of resolved deltas.
    pub(super) fn store(&self, found: &[(u32, ObjectId)]) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        found.iter().for_each(|(index, name)| store_name(&mut names, *index, name));
        drop(names);
        let resolved = self.resolved.fetch_add(found.len(), Ordering::Relaxed) + found.len();
        self.options.meter.resolved.fetch_add(found.len() as u64, Ordering::Relaxed);
        debug_assert!(resolved <= self.families.deltas());
    }

    /// Waits for a part of another family. Returns `None` when no thread has work left.
    fn wait(&self) -> Option<Frame> {
        let mut state = self.state();
        state.idle += 1;
        loop {
            if let Some(frame) = state.given.pop().filter(|_| !state.is_over) {
                state.idle -= 1;
                self.note_hunger(&state);
                return Some(frame);
            }
            if state.is_over || state.idle == state.threads {
                state.is_over = true;
                self.changed.notify_all();
                return None;
            }
            self.note_hunger(&state);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn note_hunger(&self, state: &State) {
        self.hungry.store(state.idle.saturating_sub(state.given.len()), Ordering::Relaxed);
    }

    /// Gives a part of the family on `stack` to a thread without work, if there is one. Returns
    /// false if the worker must stop.
    fn share(&self, stack: &mut [Frame]) -> bool {
        if self.has_failed.load(Ordering::Relaxed) || self.options.interrupt.load(Ordering::Relaxed) {
            return false;
        }
        if self.hungry.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let last = stack.len().saturating_sub(1);
        let part = stack.iter_mut().enumerate().find_map(|(at, frame)| {
            let content = frame.content.as_ref()?;
            let children = frame.children.split(at == last)?;
            Some(Frame { index: frame.index, kind: frame.kind, content: Some(Arc::clone(content)), children })
        });
        let Some(part) = part else { return true };
        let mut state = self.state();
        state.given.push(part);
        self.note_hunger(&state);
        self.changed.notify_one();
        true
    }

    fn fail(&self, offset: u64, error: Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if state.failure.as_ref().is_none_or(|(first, _)| offset < *first) {
            state.failure = Some((offset, error));
        }
        state.is_over = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock ends the command anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct OverOnPanic<'r, 'a>(&'r Resolver<'a>);

impl Drop for OverOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
            self.0.state().is_over = true;
            self.0.changed.notify_all();
        }
    }
}
