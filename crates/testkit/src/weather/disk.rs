//! The common part of all requests of the kernel: each is counted, may fail, and is answered after
//! its delay.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bstr::BString;
use fuser::{Errno, FileHandle, FopenFlags, Generation, INodeNo, ReplyEmpty, ReplyEntry, Request};

use super::{
    Caching, Closing, Operation, Profile, What, Xattrs,
    counts::Counters,
    faults::Faults,
    listing::Name,
    names::Entry,
    timer::Timer,
    tree::{Inode, Result, Tree},
};

/// The state that requests, the owner of the mount, and the timer share.
pub(super) struct Shared {
    pub(super) tree: Tree,
    pub(super) counters: Counters,
    pub(super) faults: Faults,
    pub(super) timer: Timer,
    /// True after a power cut.
    pub(super) cut: AtomicBool,
}

/// See the module.
pub(super) struct Disk {
    shared: Arc<Shared>,
    pub(super) caching: Caching,
    pub(super) xattrs: Xattrs,
    pub(super) closing: Closing,
    /// The last missing name that each thread looked up. The kernel looks up each name before it
    /// creates it, which a network mount does not do: creating that name is answered without delay.
    missing: Mutex<HashMap<u32, (u64, OsString)>>,
}

/// The arrival time of a request, and its place on the disk.
#[derive(Clone, Copy)]
pub(super) struct Came {
    at: Instant,
    place: u64,
    paid: bool,
}

impl Came {
    /// Returns the cost of a request for the names after the first `offset`. If there are none, it
    /// is free: the kernel sends requests until no names are left, but a real server marks the last
    /// names as such.
    pub(super) fn to_list(self, listed: &Result<(Arc<Inode>, Arc<[Name]>)>, offset: u64) -> Came {
        let is_told = |names: &[Name]| offset > 0 && offset >= names.len() as u64;
        Came { paid: !listed.as_ref().is_ok_and(|(_, names)| is_told(names)), ..self }
    }
}

impl Disk {
    pub(super) fn new(shared: Arc<Shared>, profile: &Profile) -> Disk {
        let Profile { caching, xattrs, closing, .. } = *profile;
        Disk { shared, caching, xattrs, closing, missing: Mutex::default() }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.shared.tree
    }

    /// Counts a request, and applies faults. Returns the maximum length of a write, or the error.
    pub(super) fn begin(
        &self,
        operation: Operation,
        paths: impl FnOnce(&Tree) -> Vec<BString>,
    ) -> Result<usize> {
        self.shared.counters.add(operation);
        if self.shared.cut.load(Ordering::Acquire) {
            return Err(rustix::io::Errno::IO);
        }
        match self.shared.faults.strike(operation, || paths(self.tree())) {
            None => Ok(usize::MAX),
            Some(What::Short(most)) => Ok(most.max(1)),
            Some(What::Fail(errno)) => Err(errno),
            Some(What::Cut) => {
                self.shared.cut.store(true, Ordering::Release);
                Err(rustix::io::Errno::IO)
            }
        }
    }

    pub(super) fn begin_at(&self, operation: Operation, number: INodeNo) -> Result<usize> {
        self.begin(operation, |tree| tree.find(number).map(|inode| inode.paths()).unwrap_or_default())
    }

    pub(super) fn begin_name(&self, operation: Operation, parent: INodeNo, name: &OsStr) -> Result<usize> {
        self.begin(operation, |tree| tree.paths_of(parent, name))
    }

    pub(super) fn came(&self, number: INodeNo) -> Came {
        let place = self.tree().find(number).map_or(0, |inode| inode.place.at);
        Came { at: Instant::now(), place, paid: true }
    }

    pub(super) fn came_for(&self, parent: INodeNo, name: &OsStr) -> Came {
        let place = self.tree().find(parent).map_or(0, |inode| inode.place.below(name).at);
        Came { at: Instant::now(), place, paid: true }
    }

    /// A request that creates `name`. It is free if the lookup of the name was already delayed.
    pub(super) fn came_to_make(&self, request: &Request, parent: INodeNo, name: &OsStr) -> Came {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = missing.remove(&request.pid());
        let paid = looked.is_none_or(|(dir, asked)| (dir, asked.as_os_str()) != (parent.0, name));
        Came { paid, ..self.came_for(parent, name) }
    }

    pub(super) fn is_missing(&self, request: &Request, parent: INodeNo, name: &OsStr) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        // Entries of ended threads would accumulate.
        if missing.len() > 4096 {
            missing.clear();
        }
        missing.insert(request.pid(), (parent.0, name.to_owned()));
    }

    /// Sends the reply after the delay.
    pub(super) fn answer<T, R>(
        &self,
        came: Came,
        result: Result<T>,
        reply: R,
        done: impl FnOnce(R, T) + Send + 'static,
        failed: fn(R, Errno),
    ) where
        T: Send + 'static,
        R: Send + 'static,
    {
        let send = move || match result {
            Ok(value) => done(reply, value),
            Err(error) => failed(reply, Errno::from_i32(error.raw_os_error())),
        };
        if came.paid { self.shared.timer.serve(came.at, came.place, send) } else { send() }
    }

    pub(super) fn answer_entry(&self, came: Came, result: Result<Entry>, reply: ReplyEntry) {
        let caching = self.caching;
        let result = result.map(|(_, stat)| self.tree().attributes(&stat));
        let done = move |reply: ReplyEntry, attributes: fuser::FileAttr| {
            reply.entry_with_ttls(&caching.attributes, &caching.entries, &attributes, Generation(0));
        };
        self.answer(came, result, reply, done, ReplyEntry::error);
    }

    pub(super) fn answer_empty(&self, came: Came, result: Result<()>, reply: ReplyEmpty) {
        self.answer(came, result, reply, |reply, ()| reply.ok(), ReplyEmpty::error);
    }

    /// Replies to a sync when the disk has flushed its cache.
    pub(super) fn answer_sync(&self, came: Came, result: Result<()>, reply: ReplyEmpty) {
        let send = move || match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        };
        self.shared.timer.flush(came.at, came.place, || self.shared.counters.add_flush(), send);
    }

    /// Counts the bytes of a write.
    pub(super) fn wrote(&self, result: &Result<u32>) {
        if let Ok(count) = result {
            self.shared.counters.add_written(u64::from(*count));
        }
    }

    /// Replies without delay, because no program waits for it.
    pub(super) fn close(&self, handle: FileHandle, reply: ReplyEmpty) {
        self.shared.counters.add(Operation::Release);
        self.tree().handles.close(handle);
        reply.ok();
    }

    pub(super) fn opened(&self) -> FopenFlags {
        // Only this process changes the backing directory.
        FopenFlags::FOPEN_KEEP_CACHE
    }
}
