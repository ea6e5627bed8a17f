//! The pipeline of a clone: files are written while the pack arrives.
//!
//! Order: the commit of HEAD, its trees, the wanted blobs, the staging directory. After refs and
//! HEAD are written, [`Staged::adopt`] moves the files into the worktree.
//!
//! Promise: nothing is done outside of the staging directory before the adoption. There is no
//! adoption unless the whole tree of HEAD is known and may be in a worktree. On any failure the
//! staging directory is removed, and the clone goes on without the pipeline. The note
//! docs/design/clone-pipeline.md says why.

mod adopt;
mod attributes;
mod lane;
mod plan;
mod write;

use std::{
    path::Path,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bstr::ByteSlice as _;
use format::{Kind, ObjectId};
use repo::{
    Repository,
    convert::Arriving,
    keys::{self, Key},
    objects::{Objects, Reader},
    pack_indexing::Observer,
};
use sys::by_path;

pub use adopt::Staged;

use self::{
    attributes::{Gate, Job},
    lane::Lane,
    plan::{File, Odd, Plan},
    write::Writer,
};

/// The directory for files that are written ahead, in the Git directory.
pub(super) const STAGING: &str = "sapwood-staging";

/// Writers for a network disk. Most of them wait.
const WRITERS: usize = 32;

/// After so many bytes of trees and blobs that are of no use, no haste is needed any more.
const IDLE: usize = 64 << 20;

/// Takes the objects of a pack, and writes the files of HEAD.
pub(super) struct Pipeline {
    // Dropped first: its threads end before the directory is removed.
    lane: Option<Lane>,
    shared: Arc<Shared>,
}

struct Shared {
    /// The commit or tag that leads to the tree; `None` when it came.
    head: RwLock<Option<ObjectId>>,
    plan: RwLock<Plan>,
    gate: Gate,
    writer: Arc<Writer>,
    stopped: AtomicBool,
    /// The bytes of trees and blobs since the last one that was of use.
    idle: AtomicUsize,
}

impl Pipeline {
    /// Begins a pipeline for the tree of `head`, unless the clone is one that has none.
    pub(super) fn begin(repo: &Repository, git_dir: &Path, head: ObjectId) -> Option<Pipeline> {
        let is = |key: Key<bool>| repo.config(&key).ok();
        let work_tree = repo.work_tree()?;
        let is_plain = is(keys::sapwood::PIPELINED_CLONE)?
            && !is(keys::core::SPARSE_CHECKOUT)?
            && !is(keys::core::IGNORE_CASE)?
            && !is(keys::core::IGNORE_STAT)?
            && git_dir == work_tree.join(".git")
            && gives_same_group(git_dir, work_tree);
        if !is_plain {
            return None;
        }
        let big = repo.config(&keys::core::BIG_FILE_THRESHOLD).ok()?;
        let protect = crate::look::protect(repo).ok()?;
        let arriving = Arriving::new(repo).ok()?;
        let staging = git_dir.join(STAGING);
        // A killed run that this one goes on with may have left it.
        let _ = by_path::remove_dir_all(&staging);
        let writer = Writer::create(&staging, big).ok()?;
        let is_slow = writer.root().is_remote();
        let shared = Arc::new(Shared {
            head: RwLock::new(Some(head)),
            plan: RwLock::new(Plan::new(repo.hash(), protect)),
            gate: Gate::new(arriving),
            writer: Arc::new(writer),
            stopped: AtomicBool::new(false),
            idle: AtomicUsize::new(0),
        });
        let lane = is_slow.then(|| {
            let shared = Arc::clone(&shared);
            Lane::start(WRITERS, move |job| shared.or_stop(|| shared.write(job.file, &job.content)))
        });
        Some(Pipeline { lane, shared })
    }

    /// Ends the pipeline after the pack is in `objects`. Returns the files, if the whole tree is
    /// one to be written.
    pub(super) fn finish(mut self, objects: &Objects) -> Option<Staged> {
        if let Some(mut lane) = self.lane.take() {
            lane.finish();
        }
        self.shared.or_stop(|| self.shared.complete(&mut objects.reader()));
        if self.shared.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let writer = Arc::clone(&self.shared.writer);
        Some(Staged { written: writer.take_written(), writer })
    }

    fn take(&self, oid: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Odd> {
        match kind {
            Kind::Commit | Kind::Tag => self.shared.take_head(oid, kind, content),
            Kind::Tree => self.shared.take_tree(oid, content),
            Kind::Blob => self.take_blob(oid, content),
        }
    }

    fn submit(&self, file: File, content: &[u8]) -> Result<(), Odd> {
        let Some(file) = self.shared.gate.pass(file, content) else { return Ok(()) };
        match &self.lane {
            Some(lane) => {
                lane.push(Job { file, content: content.into() });
                Ok(())
            }
            None => self.shared.write(file, content),
        }
    }

    fn take_blob(&self, oid: &ObjectId, content: &[u8]) -> Result<(), Odd> {
        let plan = self.shared.plan();
        let is_of_use = plan.wants(oid) || plan.is_attribute_file(oid);
        drop(plan);
        self.shared.count(content, is_of_use);
        if !is_of_use {
            return Ok(());
        }
        let mut plan = self.shared.change_plan();
        let (dirs, files) = (plan.take_attributes(oid), plan.take_files(oid));
        drop(plan);
        for dir in dirs {
            for job in self.shared.gate.admit(&dir, content)? {
                self.submit(job.file, &job.content)?;
            }
        }
        files.into_iter().try_for_each(|file| self.submit(file, content))
    }
}

impl Observer for Pipeline {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], _: u64) {
        if !self.shared.stopped.load(Ordering::Relaxed) {
            self.shared.or_stop(|| self.take(oid, kind, content));
        }
    }

    fn is_in_hurry(&self) -> bool {
        !self.shared.stopped.load(Ordering::Relaxed)
            && self.shared.idle.load(Ordering::Relaxed) < IDLE
            && (self.shared.head().is_some() || self.shared.plan().is_waiting())
    }
}

impl Shared {
    fn or_stop(&self, act: impl FnOnce() -> Result<(), Odd>) {
        if act().is_err() {
            self.stopped.store(true, Ordering::Relaxed);
            self.writer.remove();
        }
    }

    fn plan(&self) -> RwLockReadGuard<'_, Plan> {
        self.plan.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_plan(&self) -> RwLockWriteGuard<'_, Plan> {
        self.plan.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commit or tag that leads to the tree.
    fn head(&self) -> Option<ObjectId> {
        *self.head.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_head(&self, oid: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Odd> {
        if self.head().as_ref() != Some(oid) {
            return Ok(());
        }
        let next = |key: &[u8]| {
            let line = content.strip_prefix(key)?.lines().next()?;
            ObjectId::from_hex(oid.kind(), line)
        };
        let next = if kind == Kind::Tag { next(b"object ") } else { next(b"tree ") }.ok_or(Odd)?;
        let is_tag = kind == Kind::Tag;
        *self.head.write().unwrap_or_else(PoisonError::into_inner) = is_tag.then_some(next);
        if is_tag { Ok(()) } else { self.with_top(|plan| plan.begin(next)) }
    }

    fn take_tree(&self, oid: &ObjectId, content: &[u8]) -> Result<(), Odd> {
        let plan = self.plan();
        let (is_open, is_wanted) = (plan.is_open(), plan.wants_tree(oid));
        drop(plan);
        self.count(content, is_wanted);
        if !is_open {
            return Ok(());
        }
        self.with_top(|plan| plan.take_tree(oid, content))
    }

    /// Changes the plan. Files are found only after the change, and by then the attribute file at
    /// the top is known to be missing, if it is.
    fn with_top(&self, change: impl FnOnce(&mut Plan) -> Result<(), Odd>) -> Result<(), Odd> {
        let mut plan = self.change_plan();
        let known = plan.knows_top;
        change(&mut plan)?;
        if plan.knows_top && !known { self.gate.open() } else { Ok(()) }
    }

    /// Reads the trees that did not come in time, so that the whole tree is known.
    fn complete(&self, reader: &mut Reader<'_>) -> Result<(), Odd> {
        while let Some(oid) = self.head() {
            let (kind, content) = reader.read(&oid).map_err(|_| Odd)?;
            match kind {
                Kind::Commit | Kind::Tag => self.take_head(&oid, kind, content)?,
                Kind::Tree | Kind::Blob => return Err(Odd),
            }
        }
        loop {
            let missing = self.plan().missing_tree();
            let Some(oid) = missing else { return Ok(()) };
            match reader.read(&oid).map_err(|_| Odd)? {
                (Kind::Tree, content) => self.take_tree(&oid, content)?,
                _ => return Err(Odd),
            }
        }
    }

    fn count(&self, content: &[u8], is_of_use: bool) {
        if is_of_use {
            self.idle.store(0, Ordering::Relaxed);
        } else {
            self.idle.fetch_add(content.len(), Ordering::Relaxed);
        }
    }

    fn write(&self, file: File, content: &[u8]) -> Result<(), Odd> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.writer.write(self.gate.converter().ok_or(Odd)?, file, content)
    }
}

/// Returns true if new files in both directories get the same group.
fn gives_same_group(git_dir: &Path, work_tree: &Path) -> bool {
    const SETGID: u32 = 0o2000;
    let group = |path| {
        let stat = by_path::stat_followed(path).ok().flatten()?;
        Some((stat.mode & SETGID != 0).then_some(stat.gid))
    };
    matches!((group(git_dir), group(work_tree)), (Some(one), Some(other)) if one == other)
}
