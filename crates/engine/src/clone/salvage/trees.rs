//! Looks for the trees and blobs of commits, on all cores.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use bstr::BStr;
use format::{Kind, Mode, ObjectId, tree::TreeEntries};
use repo::objects::{Objects, Reader};

use super::Error;
use crate::{
    crew::{self, Tuning, Workers},
    pack_indexing::incoming,
};

/// The seen objects are in so many sets, so that threads rarely wait for each other.
const SHARDS: usize = 64;

/// A tree to look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    tree: ObjectId,
    path: u64,
    depth: u32,
    /// The tree was counted as seen before.
    is_known: bool,
}

impl Job {
    /// The tree of a commit.
    pub(super) fn root(tree: ObjectId) -> Job {
        Job { tree, path: 0, depth: 0, is_known: false }
    }

    /// A tree that was missing and has come.
    pub(super) fn of(missing: &Missing) -> Job {
        Job { tree: missing.oid, path: missing.path, depth: missing.depth, is_known: true }
    }
}

/// An object that is not here. The order keeps the versions of a file together, in the order in
/// which they were found: so they stay deltas against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missing {
    /// The number of directories above it.
    pub(super) depth: u32,
    path: u64,
    number: u32,
    pub(super) oid: ObjectId,
}

/// A walk that goes on when trees have come.
pub(super) struct Walk<'a> {
    interrupt: &'a AtomicBool,
    hasher: RandomState,
    seen: Vec<Mutex<HashSet<ObjectId>>>,
    number: AtomicU32,
    trees: Mutex<Vec<Missing>>,
    blobs: Mutex<Vec<Missing>>,
    failure: Mutex<Option<Error>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(interrupt: &'a AtomicBool) -> Walk<'a> {
        Walk {
            interrupt,
            hasher: RandomState::new(),
            seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
            number: AtomicU32::new(0),
            trees: Mutex::default(),
            blobs: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Looks at everything below `jobs` that is here. Returns the missing trees.
    pub(super) fn run(
        &self,
        objects: &Objects,
        mut jobs: Vec<Job>,
        workers: Workers,
    ) -> Result<Vec<Missing>, Error> {
        // The last job is done first, and the first has the newest objects.
        jobs.reverse();
        crew::descend(
            "missing",
            &Tuning::default(),
            workers,
            jobs.len(),
            jobs,
            |_| objects.reader(),
            |reader, job, jobs, pace| {
                if self.has_failed() || self.interrupt.load(Ordering::Relaxed) {
                    return;
                }
                pace.step();
                if let Err(error) = self.tree(objects, reader, job, jobs) {
                    self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            },
        );
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(incoming::Error::Interrupted.into());
        }
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.trees.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// Returns the missing blobs in the order in which they are asked for.
    pub(super) fn into_missing_blobs(self) -> Vec<ObjectId> {
        let mut blobs = self.blobs.into_inner().unwrap_or_else(PoisonError::into_inner);
        blobs.sort_unstable();
        blobs.into_iter().map(|blob| blob.oid).collect()
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn tree(
        &self,
        objects: &Objects,
        reader: &mut Reader<'_>,
        job: Job,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        let Job { tree, path, depth, is_known } = job;
        if !is_known && !self.is_new(&tree) {
            return Ok(());
        }
        if !objects.contains_listed(&tree) {
            self.lacks(&self.trees, tree, (depth, path));
            return Ok(());
        }
        let (kind, data) = reader.read(&tree).map_err(Error::Unreadable)?;
        if kind != Kind::Tree {
            return Err(Error::Incomplete);
        }
        for entry in TreeEntries::new(tree.kind(), data) {
            let entry = entry.map_err(|_| Error::Incomplete)?;
            let below = below(path, entry.name);
            match entry.mode {
                Mode::TREE => {
                    let depth = depth + 1;
                    jobs.push(Job { tree: entry.oid, path: below, depth, is_known: false });
                }
                Mode::GITLINK => {}
                _ if self.is_new(&entry.oid) && !objects.contains_listed(&entry.oid) => {
                    // The depth is of no use here, and would part a file from its earlier places.
                    self.lacks(&self.blobs, entry.oid, (0, below));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns true the first time.
    fn is_new(&self, oid: &ObjectId) -> bool {
        let shard = self.hasher.hash_one(oid) as usize % SHARDS;
        self.seen[shard].lock().unwrap_or_else(PoisonError::into_inner).insert(*oid)
    }

    fn lacks(&self, list: &Mutex<Vec<Missing>>, oid: ObjectId, (depth, path): (u32, u64)) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        list.lock().unwrap_or_else(PoisonError::into_inner).push(Missing { depth, path, number, oid });
    }
}

/// Returns a number for the path `name` below that of `path`: FNV-1a.
fn below(path: u64, name: &BStr) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let start = path ^ 0xcbf2_9ce4_8422_2325;
    name.iter().chain(b"/").fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
