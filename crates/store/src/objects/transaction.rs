//! New objects of one command: staged side by side, published together.
//!
//! Order: stage, barrier, publish, sync directories. A small number of objects stays in memory
//! until they are published as loose objects: each one costs a flush, and its directory another.
//! From the number in [`super::PackOnAdd`] on, they go into a pack, which costs the same flushes
//! for any number of objects. Blobs that are streamed go into packs of their own, as in Git.
//!
//! On failure nothing is published, except that [`ObjectTransaction::publish`] itself may already
//! have published some objects. That does no harm: nothing refers to them yet. Dropping a
//! transaction removes its files.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    io::{self, Read},
    mem,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use format::{HashKind, Kind, ObjectId};

use super::{
    LARGE, Options, STREAM_LEVEL, StreamError,
    deflate::Deflaters,
    loose::{StagedLoose, TempDirectory},
    packing::{Content, OpenPack},
};
use crate::{Components, Error, fold, pack::Complete, side_by_side, temp_file::TempFile};

/// Limit for the bytes of objects that wait in memory, to become loose objects or part of a pack.
/// Above the limit, an object is written to a file immediately.
const WAITING_BYTES: usize = 32 << 20;

/// The new objects of a command, shared by its workers. An object can be read only after
/// [`ObjectTransaction::publish`].
pub struct ObjectTransaction<'a> {
    options: Options<'a>,
    /// From this number of objects on, they go into a pack. `None` means never.
    pack_from: Option<usize>,
    state: Mutex<State>,
    /// The pack for objects from memory. Its lock is held only while an object is appended.
    pack: Mutex<Option<OpenPack>>,
    deflaters: Deflaters,
}

#[derive(Default)]
struct State {
    /// True if staging an object failed or a worker panicked. Nothing is published then.
    is_failed: bool,
    claimed: HashSet<ObjectId>,
    /// The number of objects from memory.
    count: usize,
    is_packing: bool,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    loose: Vec<StagedLoose>,
    batch: Option<TempDirectory>,
    /// Packs for streams that no worker uses now.
    idle: Vec<OpenPack>,
    /// Packs that reached `pack.packSizeLimit`.
    complete: Vec<Complete>,
}

struct Waiting {
    oid: ObjectId,
    kind: Kind,
    content: Vec<u8>,
}

/// The destination of an object.
enum Way {
    /// It waits in memory.
    Waits,
    Loose,
    /// The object goes into the pack, and so do these objects that waited before it.
    Pack(Vec<Waiting>),
}

impl fmt::Debug for ObjectTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectTransaction").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Marks the transaction as failed when it is dropped before the stage is done, also after a panic.
struct Stage<'t, 'a> {
    transaction: &'t ObjectTransaction<'a>,
    is_done: bool,
}

impl Drop for Stage<'_, '_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.transaction.state().is_failed = true;
        }
    }
}

impl<'a> ObjectTransaction<'a> {
    /// Starts a transaction. It has no effect until the first object is written.
    pub fn new(options: Options<'a>) -> ObjectTransaction<'a> {
        let pack_from = options.pack_on_add.threshold(options.fsync.batches());
        let deflaters = Deflaters::new(options.pack_level.unwrap_or(options.level));
        ObjectTransaction { options, pack_from, state: Mutex::default(), pack: Mutex::new(None), deflaters }
    }

    /// Stages the object with this name, type and content. Does nothing if it is staged already.
    pub fn write(&self, oid: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
        let Some(mut stage) = self.claim(oid)? else { return Ok(()) };
        match self.choose(oid, kind, content) {
            Way::Waits => {}
            Way::Loose => {
                let root = self.root()?;
                let staged = StagedLoose::write(&root, oid, kind, content, &self.options)?;
                self.state().loose.push(staged);
            }
            Way::Pack(waiting) => {
                for object in waiting {
                    self.append(&object.oid, object.kind, &object.content)?;
                }
                self.append(oid, kind, content)?;
            }
        }
        stage.is_done = true;
        Ok(())
    }

    /// Returns true if the object is staged in this transaction.
    pub fn contains(&self, oid: &ObjectId) -> bool {
        self.state().claimed.contains(oid)
    }

    /// Returns true if no object is staged in this transaction.
    pub fn is_empty(&self) -> bool {
        self.state().claimed.is_empty()
    }

    /// Stages a blob of `size` bytes from `content` in pieces, so it may be larger than memory.
    /// Returns its name.
    pub fn write_stream(
        &self,
        hash: HashKind,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<ObjectId, StreamError> {
        self.write_stream_unless(hash, size, content, &|_| false)
    }

    /// Like [`ObjectTransaction::write_stream`], but calls `exists` once the name is known. If
    /// `exists` returns true, the repository has the object, and it is not staged.
    pub fn write_stream_unless(
        &self,
        hash: HashKind,
        size: u64,
        content: &mut dyn Read,
        exists: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<ObjectId, StreamError> {
        let mut stage = Stage { transaction: self, is_done: false };
        let mut pack = self.pack_for_stream(hash, size)?;
        let is_wanted = |oid: &ObjectId| !exists(oid) && self.state().claimed.insert(*oid);
        let level = self.options.pack_level.unwrap_or(STREAM_LEVEL);
        let named = pack.stream(hash, size, content, level, &is_wanted);
        if !matches!(named, Err(StreamError::Store(_))) {
            self.state().idle.push(pack);
            stage.is_done = true;
        }
        named
    }

    /// Makes all staged objects visible, and durable if the policy says so.
    pub fn publish(self) -> Result<(), Error> {
        self.publish_with(|| Ok(()))
    }

    /// Like [`ObjectTransaction::publish`]. Calls `sync` beside the syncs of the objects' files, so
    /// that the disk combines them. If it fails, nothing is published.
    pub fn publish_with(self, sync: impl Fn() -> Result<(), Error> + Sync) -> Result<(), Error> {
        let ObjectTransaction { options, state, pack, .. } = self;
        let mut state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if state.is_failed {
            return Err(Error::Incomplete);
        }
        let mut packs = mem::take(&mut state.complete);
        let open = pack.into_inner().unwrap_or_else(PoisonError::into_inner);
        for pack in open.into_iter().chain(mem::take(&mut state.idle)) {
            packs.extend(pack.complete(&options)?);
        }
        // A single object needs one flush in any case.
        if state.waiting.len() > 1 && options.fsync.batches() && state.batch.is_none() {
            state.batch = Some(TempDirectory::create(&options)?);
        }
        let has_packs = !packs.is_empty();
        let hash = state.claimed.iter().next().map_or(HashKind::Sha1, ObjectId::kind);
        let loose = barrier(&options, &mut state, &packs, &sync)?;
        let mut directories = BTreeMap::new();
        publish_loose(&options, loose, state.batch.is_some(), &mut directories)?;
        drop(state.batch);
        for pack in packs {
            let stem = pack.stem();
            directories.insert(pack.install(&stem)?, Components::PACK | Components::PACK_METADATA);
        }
        let directories: Vec<(PathBuf, Components)> = directories.into_iter().collect();
        side_by_side::for_each(&directories, |(dir, component)| {
            let io = |source| Error::Io { what: "sync", path: dir.clone(), source };
            match options.fsync.directory(*component, dir) {
                // A concurrent `gc` has packed the objects of the directory, and removed the
                // directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    options.fsync.directory(Components::PACK, &options.objects.join("pack")).map_err(io)
                }
                synced => synced.map_err(io),
            }
        })?;
        if let Some(above) = options.fold_above.filter(|_| has_packs) {
            fold_packs(&options, hash, above);
        }
        Ok(())
    }

    /// Claims the name for the caller. Returns `None` if it is staged already. The claim is made
    /// before any file is created, so that two workers with the same object never create two files.
    fn claim(&self, oid: &ObjectId) -> Result<Option<Stage<'_, 'a>>, Error> {
        let (is_new, is_first) = {
            let mut state = self.state();
            (state.claimed.insert(*oid), state.claimed.len() == 1)
        };
        let stage = Stage { transaction: self, is_done: !is_new };
        if is_new && is_first {
            self.options.check_access(oid)?;
        }
        Ok(is_new.then_some(stage))
    }

    fn choose(&self, oid: &ObjectId, kind: Kind, content: &[u8]) -> Way {
        let mut state = self.state();
        // An entry of a pack is deflated in memory.
        if content.len() > LARGE {
            return Way::Loose;
        }
        state.count += 1;
        if state.is_packing || self.pack_from.is_some_and(|from| state.count >= from) {
            state.is_packing = true;
            state.waiting_bytes = 0;
            return Way::Pack(mem::take(&mut state.waiting));
        }
        if state.waiting_bytes + content.len() > WAITING_BYTES {
            return Way::Loose;
        }
        state.waiting_bytes += content.len();
        state.waiting.push(Waiting { oid: *oid, kind, content: content.to_owned() });
        Way::Waits
    }

    /// Returns the directory for loose objects that are not published.
    fn root(&self) -> Result<PathBuf, Error> {
        if !self.options.fsync.batches() {
            return Ok(self.options.objects.to_owned());
        }
        let mut state = self.state();
        let batch = match state.batch.take() {
            Some(batch) => batch,
            None => TempDirectory::create(&self.options)?,
        };
        Ok(state.batch.insert(batch).path.clone())
    }

    /// Deflates an object and appends it to the pack.
    fn append(&self, oid: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
        let (entry, crc32) = self.deflaters.entry_of(kind, content);
        let mut open = self.pack.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = open.take_if(|pack| pack.is_full(entry.len() as u64, &self.options)) {
            let complete = full.complete(&self.options)?;
            self.state().complete.extend(complete);
        }
        let pack = match open.take() {
            Some(pack) => pack,
            None => OpenPack::create(&self.options, oid.kind(), Content::Many)?,
        };
        open.insert(pack).append(oid, &entry, crc32)
    }

    /// Returns a pack for a stream of `size` bytes: an idle one with enough room under
    /// `pack.packSizeLimit`, or a new one.
    fn pack_for_stream(&self, hash: HashKind, size: u64) -> Result<OpenPack, Error> {
        let idle = self.state().idle.pop();
        if let Some(mut pack) = idle {
            if !pack.is_full(size, &self.options) {
                return Ok(pack);
            }
            let complete = pack.complete(&self.options)?;
            self.state().complete.extend(complete);
        }
        OpenPack::create(&self.options, hash, Content::Streams)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Folds small packs. The objects are published already, so an error is ignored: the packs stay
/// unchanged, and the next command tries again.
fn fold_packs(options: &Options<'_>, hash: HashKind, above: usize) {
    let Options { objects, shared, fsync, pack_size_limit, reverse_index, .. } = *options;
    let _ =
        fold::fold(&fold::Options { objects, hash, shared, fsync, pack_size_limit, reverse_index, above });
}

/// A task before the barrier.
enum Task<'t> {
    Stage(&'t Waiting),
    Sync(&'t TempFile, Components),
    /// The sync of a file that is no object.
    Other,
}

/// Number of bytes from which objects are compressed on several threads though syncs are fast. One
/// thread takes some milliseconds for them, and a thread starts in a tenth of one.
const WORTH_THREADS: usize = 256 << 10;

/// Writes the objects that waited in memory, and syncs all files, in parallel. Afterwards all data
/// that the policy hardens are on the disk.
fn barrier(
    options: &Options<'_>,
    state: &mut State,
    packs: &[Complete],
    sync: &(impl Fn() -> Result<(), Error> + Sync),
) -> Result<Vec<StagedLoose>, Error> {
    let (mut loose, waiting) = (mem::take(&mut state.loose), mem::take(&mut state.waiting));
    let root = state.batch.as_ref().map_or(options.objects, |batch| &batch.path);
    let staged = Mutex::new(Vec::with_capacity(waiting.len()));
    let mut tasks: Vec<Task<'_>> = Vec::new();
    let files = packs.iter().flat_map(Complete::files);
    tasks.extend(files.map(|(file, component)| Task::Sync(file, component)));
    tasks.extend(waiting.iter().map(Task::Stage));
    tasks.push(Task::Other);
    let complete = |task: &Task<'_>| match task {
        Task::Other => sync(),
        Task::Sync(file, component) => file.sync(options.fsync, *component),
        Task::Stage(object) => {
            let made = StagedLoose::write(root, &object.oid, object.kind, &object.content, options)?;
            staged.lock().unwrap_or_else(PoisonError::into_inner).push(made);
            Ok(())
        }
    };
    if mem::take(&mut state.waiting_bytes) > WORTH_THREADS {
        side_by_side::in_parallel(&tasks, complete)?;
    } else {
        side_by_side::for_each(&tasks, complete)?;
    }
    loose.extend(staged.into_inner().unwrap_or_else(PoisonError::into_inner));
    if let Some(batch) = &state.batch {
        batch.flush(options)?;
    }
    Ok(loose)
}

/// Renames loose objects to their final names, and adds the directories to sync.
fn publish_loose(
    options: &Options<'_>,
    loose: Vec<StagedLoose>,
    is_batch: bool,
    directories: &mut BTreeMap<PathBuf, Components>,
) -> Result<(), Error> {
    // Another process may have created a directory, and been killed before it synced the parent.
    if !loose.is_empty() && was_changed_lately(options.objects) {
        directories.insert(options.objects.to_owned(), Components::LOOSE_OBJECT);
    }
    for object in loose {
        let is_first = if is_batch {
            super::make_directory(&object.directory(options.objects), options.shared)?
        } else {
            object.is_first_in_directory
        };
        if is_first {
            directories.insert(options.objects.to_owned(), Components::LOOSE_OBJECT);
        }
        directories.insert(object.publish(options.objects)?, Components::LOOSE_OBJECT);
    }
    Ok(())
}

/// Returns false only if the names in `dir` have not changed for so long that the kernel must have
/// written them back by itself, which takes about half a minute.
fn was_changed_lately(dir: &Path) -> bool {
    const LONG: Duration = Duration::from_secs(120);
    let Ok(Some(stat)) = sys::by_path::stat_followed(dir) else { return true };
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(stat.mtime.0.max(0).unsigned_abs());
    changed.elapsed().map_or(true, |age| age < LONG)
}

#[cfg(test)]
mod tests;
