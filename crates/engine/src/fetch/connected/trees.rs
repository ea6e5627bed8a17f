//! Looks up the trees and blobs of new commits, on all cores.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::BString;
use format::{Mode, ObjectId, tree::TreeEntries};
use repo::objects::{Kind, Objects, Reader};

use crate::crew::{self, Tuning, Workers};

/// The number of shards of the set of visited objects, chosen so that threads rarely wait for each
/// other.
const SHARDS: usize = 64;

/// A tree to check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) tree: ObjectId,
    /// The tree of the first parent at the same path. Its objects need no check.
    pub(super) base: Option<ObjectId>,
}

pub(super) struct Walk<'a> {
    objects: &'a Objects,
    /// True in a partial clone: missing objects count as promised.
    is_partial: bool,
    interrupt: &'a AtomicBool,
    hasher: RandomState,
    seen: Vec<Mutex<HashSet<ObjectId>>>,
    missing: Mutex<Option<ObjectId>>,
    is_over: AtomicBool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(objects: &'a Objects, is_partial: bool, interrupt: &'a AtomicBool) -> Walk<'a> {
        Walk {
            objects,
            is_partial,
            interrupt,
            hasher: RandomState::new(),
            seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
            missing: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Checks all objects below `jobs`. Returns a missing object, if any.
    pub(super) fn run(self, mut jobs: Vec<Job>, workers: Workers) -> Option<ObjectId> {
        // Workers take the last job first, so the newest commit has to be last.
        let ahead = jobs.len();
        jobs.reverse();
        crew::descend(
            "connected",
            &Tuning::default(),
            workers,
            ahead,
            jobs,
            |_| self.objects.reader(),
            |reader, job, jobs, pace| {
                if self.is_over.load(Ordering::Relaxed) || self.interrupt.load(Ordering::Relaxed) {
                    return;
                }
                pace.step();
                self.tree(reader, job, jobs);
            },
        );
        self.missing.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree(&self, reader: &mut Reader<'_>, job: Job, jobs: &mut Vec<Job>) {
        let Job { tree, base } = job;
        if base == Some(tree) || !self.is_new(&tree) {
            return;
        }
        let base = base.map(|base| entries(reader, &base)).unwrap_or_default();
        let data = match reader.read(&tree) {
            Ok((Kind::Tree, data)) => data,
            _ => return self.lacks(tree),
        };
        for entry in TreeEntries::new(tree.kind(), data) {
            let Ok(entry) = entry else { return self.lacks(tree) };
            let before = base.get(entry.name).copied();
            if before == Some(entry.oid) {
                continue;
            }
            match entry.mode {
                Mode::TREE => jobs.push(Job { tree: entry.oid, base: before }),
                Mode::GITLINK => {}
                _ => self.blob(&entry.oid),
            }
        }
    }

    fn blob(&self, oid: &ObjectId) {
        if self.is_new(oid) && !self.objects.contains_listed(oid) && !self.objects.contains(oid) {
            self.lacks(*oid);
        }
    }

    /// Adds an object to the visited ones. Returns true if it was not visited before.
    fn is_new(&self, oid: &ObjectId) -> bool {
        let shard = self.hasher.hash_one(oid) as usize % SHARDS;
        self.seen[shard].lock().unwrap_or_else(PoisonError::into_inner).insert(*oid)
    }

    fn lacks(&self, oid: ObjectId) {
        if self.is_partial {
            return;
        }
        self.is_over.store(true, Ordering::Relaxed);
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(oid);
    }
}

/// Returns the entries of a base tree; none if it cannot be read.
fn entries(reader: &mut Reader<'_>, tree: &ObjectId) -> HashMap<BString, ObjectId> {
    let Ok((Kind::Tree, data)) = reader.read(tree) else { return HashMap::new() };
    let entries = TreeEntries::new(tree.kind(), data).filter_map(Result::ok);
    entries.map(|entry| (entry.name.to_owned(), entry.oid)).collect()
}
