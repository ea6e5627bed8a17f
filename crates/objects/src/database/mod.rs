//! Reads objects: loose, packed, through multi-pack-indexes and alternates.
//!
//! Promise: returned bytes are those of the object, as far as Git's checks on the same path can
//! detect: sizes, checksums of the compressed data, delta bounds, and that pack and index belong
//! together. Git and this module do not verify the hash. For any content of the disk, the result is
//! bytes or an error, with bounded memory and without recursion that depends on file content.
//!
//! Order: packs first, local ones before those of alternates, then loose objects. A damaged copy is
//! marked and the next one is tried. If no copy is found, the pack directories are listed once
//! more, because another process may have repacked.
//!
//! The disk is not accessed before the first lookup. An error holds the object and the file.
//! Nothing is written; [`Objects::freshen`] sets modification times.
//!
//! docs/design/objects.md has the measurements behind these decisions.

mod alternates;
pub(crate) mod buffer;
mod cache;
mod error;
pub(crate) mod inflate;
mod loose;
mod pack;
mod packs;
mod permits;
pub(crate) mod pool;
mod reader;
mod sparse_map;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bstr::BString;
use format::{HashKind, ObjectId, hash::Prefix};

pub use error::{Error, Fault, PackError};
pub use format::Kind;
pub use reader::{Content, Counts, Reader};

use alternates::Directories;
use loose::LooseDir;
use pack::Pack;
use packs::Packs;
use permits::Permits;
use pool::Pool;

/// The maximum number of lookups in a chain of replacements. The last name must not be replaced.
const MAX_REPLACE_DEPTH: usize = 5;

/// The options of an object database.
#[derive(Clone, Debug)]
pub struct Options {
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`: further object directories, separated by colons.
    pub alternates: BString,
    /// The base of relative paths in `alternates`. If empty, the current directory of the process.
    pub alternates_base: PathBuf,
    /// The size of each reader's delta base cache in bytes.
    pub base_cache: usize,
    /// `refs/replace/`; `None` if replacements are turned off.
    pub replacements: Option<Arc<dyn Replacements>>,
    /// The promisor remotes of a partial clone.
    pub promisors: Option<Arc<dyn Promisors>>,
    /// The limits for packs and files that somebody wrote who is not trusted. With them, damaged
    /// bases of deltas are not looked for in other packs.
    pub limits: Option<Limits>,
    /// `core.maxTreeDepth`: walks refuse trees that are nested deeper. The root has depth 0.
    pub max_tree_depth: i32,
}

/// Limits for the memory and the time of one read. They are checked before memory is allocated. A
/// stream of a whole entry is not limited, because it takes no memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of an object, a delta, or the file of a loose object.
    pub largest: u64,
    /// The most deltas between an object and its base.
    pub deepest: usize,
    /// The most bytes of all deltas and results of a chain together.
    pub work: u64,
}

impl Limits {
    const NONE: Limits = Limits { largest: u64::MAX, deepest: usize::MAX, work: u64::MAX };
}

/// The default of `core.maxTreeDepth`.
pub const MAX_TREE_DEPTH: i32 = 2048;

/// The objects to read in place of others. A replacement may be replaced itself, up to four times.
pub trait Replacements: std::fmt::Debug + Send + Sync {
    /// Returns all replacements. Called for every lookup, so it must be fast.
    fn all(&self) -> Result<&HashMap<ObjectId, ObjectId>, Box<dyn std::error::Error + Send + Sync>>;
}

/// The remotes of a partial clone that promise the omitted objects.
pub trait Promisors: std::fmt::Debug + Send + Sync {
    /// Returns the number of remotes.
    fn count(&self) -> usize;

    /// Fetches these objects as a pack from the remote with this number. Returns true if all of
    /// them arrived.
    fn fetch(&self, number: usize, missing: &[ObjectId]) -> bool;

    /// Returns the contents that are tried before a fetch.
    fn contents(&self) -> Option<&dyn Contents>;
}

/// Contents of blobs that are stored outside of the object database. Only readers use them: for
/// code that writes, fetches, sends or checks objects, such an object does not exist.
pub trait Contents: std::fmt::Debug + Send + Sync {
    /// Finds contents that were added since the last scan.
    fn refresh(&self);

    /// Returns the size of a content; `None` if it is not here. Only the first call accesses the
    /// disk.
    fn size(&self, oid: &ObjectId) -> Option<u64>;

    /// Passes a content to `sink` in pieces, and verifies its hash. Returns `None` if it is not
    /// here. After an error the receiver must discard all pieces; a damaged content is not found
    /// again.
    fn read(
        &self,
        oid: &ObjectId,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Option<Result<(), ContentError>>;
}

/// The reason why a content was not read.
#[derive(Debug)]
pub enum ContentError {
    /// The receiver failed.
    Sink(std::io::Error),
    /// The file cannot be read, or its content has another hash.
    Damaged(PathBuf, std::io::Error),
}

/// Returns the paths in a list of alternates (`info/alternates`): one per line, with comments.
pub fn alternates_in(list: &[u8]) -> Vec<sys::UserPath> {
    alternates::parse(list, b'\n')
}

impl Default for Options {
    fn default() -> Self {
        Options {
            alternates: BString::default(),
            alternates_base: PathBuf::new(),
            base_cache: 16 << 20,
            replacements: None,
            promisors: None,
            limits: None,
            max_tree_depth: MAX_TREE_DEPTH,
        }
    }
}

/// The location of an object. The order is that of the packs and of the offsets in them, with loose
/// objects last. Reading in this order reads each pack from beginning to end.
///
/// A location is a hint. It stays valid as long as the [`Objects`], but the copy there may be
/// damaged, so a read needs the name too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// In a pack. The number identifies the pack and has no other meaning.
    Packed {
        /// The pack.
        pack: u32,
        /// Offset of the entry in the pack.
        offset: u64,
    },
    /// In its own file.
    Loose,
}

/// An object directory and its alternates, shared by all threads.
///
/// The first lookup reads the alternates and lists the pack directories. Indexes and packs are
/// mapped when they are first needed.
#[derive(Debug)]
pub struct Objects {
    hash: HashKind,
    options: Options,
    objects_dir: PathBuf,
    directories: OnceLock<Directories>,
    packs: RwLock<Option<Arc<Packs>>>,
    /// The memory for decoded objects.
    pool: Arc<Pool>,
    /// Permits that small readers take in turn to decode large objects.
    permits: Arc<Permits>,
    /// Held during a fetch, because another thread may need the same objects.
    fetching: Mutex<()>,
}

impl Objects {
    /// Opens an object directory with its alternates.
    pub fn new(objects_dir: &Path, hash: HashKind) -> Objects {
        Objects::with(objects_dir, hash, Options::default())
    }

    /// Like [`Objects::new`], with options.
    pub fn with(objects_dir: &Path, hash: HashKind, options: Options) -> Objects {
        Objects {
            hash,
            options,
            objects_dir: objects_dir.to_owned(),
            directories: OnceLock::new(),
            packs: RwLock::default(),
            pool: Arc::default(),
            permits: Arc::default(),
            fetching: Mutex::default(),
        }
    }

    /// Returns the hash of the object names.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns `core.maxTreeDepth`.
    pub fn max_tree_depth(&self) -> i32 {
        self.options.max_tree_depth
    }

    /// Returns the object directories: the local one first, then the alternates in Git's order.
    pub fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        self.loose().iter().map(LooseDir::path)
    }

    /// Returns the messages that Git prints at its first object lookup, such as the one about a
    /// missing alternate. The lookup continues in spite of them.
    pub fn errors(&self) -> &[BString] {
        &self.found().errors
    }

    /// Like [`Objects::errors`], but empty before the first lookup, and without access to the disk.
    pub fn errors_so_far(&self) -> &[BString] {
        self.directories.get().map_or(&[], |found| &found.errors)
    }

    /// Returns a list of alternates that could not be read, and the reason. A missing object may be
    /// in one of them.
    pub fn unreadable_alternates(&self) -> Option<(&Path, &std::io::Error)> {
        self.found().unread.as_ref().map(|(file, source)| (file.as_path(), &**source))
    }

    /// Returns true if the object exists, whatever its type. Its content is not read.
    pub fn contains(&self, oid: &ObjectId) -> bool {
        self.locate(oid).is_some()
    }

    /// Like [`Objects::contains`], for a caller that acts on a missing object. Returns an error if
    /// an I/O error or damaged data prevents finding it.
    pub fn has(&self, oid: &ObjectId) -> Result<bool, Error> {
        if self.contains(oid) {
            return Ok(true);
        }
        match self.header(oid) {
            Ok(_) => Ok(true),
            Err(error) if error.is_unreadable() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Returns the objects whose names begin with `prefix`, sorted. If some of them cannot be
    /// listed, the error holds the file.
    pub fn with_prefix(&self, prefix: Prefix) -> Result<Vec<ObjectId>, (PathBuf, PackError)> {
        let with_prefix = |dir: &LooseDir, prefix, anew| {
            dir.with_prefix(prefix, anew).map_err(|(path, error)| (path, PackError::io(error)))
        };
        let packs = self.packs();
        let mut found = packs.with_prefix(prefix)?;
        for dir in self.loose() {
            found.extend(with_prefix(dir, prefix, false)?);
        }
        if found.is_empty() {
            found = self.rescan(&packs).with_prefix(prefix)?;
            for dir in self.loose() {
                found.extend(with_prefix(dir, prefix, true)?);
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Returns the approximate number of objects in packs.
    pub fn packed_count(&self) -> Result<u64, (PathBuf, PackError)> {
        self.packs().count()
    }

    /// Returns the location of an object, if it exists. Its content is not read.
    pub fn locate(&self, oid: &ObjectId) -> Option<Location> {
        let oid = self.replaced(oid).ok()?;
        let packs = self.packs();
        let packed = |packs: &Packs| packs.find(&oid).map(|(pack, offset)| Location::Packed { pack, offset });
        packed(&packs)
            .or_else(|| self.loose().iter().any(|dir| dir.contains(&oid)).then_some(Location::Loose))
            .or_else(|| packed(&self.rescan(&packs)))
    }

    /// Returns true if the object exists, or existed when its directory was listed. Loose objects
    /// are found in the cached listing. For many lookups, most of them of objects that do not
    /// exist.
    pub fn contains_listed(&self, oid: &ObjectId) -> bool {
        let Ok(oid) = self.replaced(oid) else { return false };
        self.packs().find(&oid).is_some() || self.loose().iter().any(|dir| dir.lists(&oid))
    }

    /// Returns true if a copy of the object exists that `gc` keeps for now: its file's modification
    /// time could be updated. A copy in a cruft pack does not count, because `gc` prunes it by the
    /// time in the pack's `.mtimes`. If this returns false, a writer must store the object again.
    /// Replacements are ignored.
    pub fn freshen(&self, oid: &ObjectId) -> bool {
        let packs = self.packs();
        let packed = packs.find(oid).and_then(|(pack, _)| packs.get(pack));
        packed.is_some_and(|pack| pack.freshen() || packs.copies(oid).any(Pack::freshen))
            || self.loose().iter().any(|dir| dir.contains(oid) && mark_used(&dir.file(oid)))
    }

    /// Returns the files that hold copies of an object, packs first. Replacements are ignored.
    pub fn files_of(&self, oid: &ObjectId) -> Vec<PathBuf> {
        let packs = self.packs();
        let packed = packs.find(oid).and_then(|(pack, _)| packs.get(pack).map(|pack| pack.path().to_owned()));
        let loose = self.loose().iter().filter(|dir| dir.contains(oid)).map(|dir| dir.file(oid));
        packed.into_iter().chain(loose).collect()
    }

    /// Like [`Objects::locate`], but searches only the known packs, without access to loose
    /// objects.
    pub fn locate_packed(&self, oid: &ObjectId) -> Option<Location> {
        let oid = self.replaced(oid).ok()?;
        let (pack, offset) = self.packs().find(&oid)?;
        Some(Location::Packed { pack, offset })
    }

    /// Returns true if this is a partial clone.
    pub fn is_partial(&self) -> bool {
        self.options.promisors.is_some()
    }

    /// In a partial clone, fetches the missing ones of these objects in one batch. Otherwise it
    /// does nothing, and reading reports missing objects.
    pub fn fetch_missing(&self, oids: &mut dyn Iterator<Item = ObjectId>) -> Result<(), Error> {
        self.fetch_those(oids, &|_| true)
    }

    /// Like [`Objects::fetch_missing`], for a caller that only reads the objects: contents outside
    /// of the object database need no fetch.
    pub fn fetch_to_read(&self, oids: &mut dyn Iterator<Item = ObjectId>) -> Result<(), Error> {
        let Some(contents) = self.contents() else { return self.fetch_missing(oids) };
        let is_fresh = OnceLock::new();
        self.fetch_those(oids, &|oid| {
            is_fresh.get_or_init(|| contents.refresh());
            self.replaced(oid).is_ok_and(|oid| contents.size(&oid).is_none())
        })
    }

    fn fetch_those(
        &self,
        oids: &mut dyn Iterator<Item = ObjectId>,
        is_needed: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<(), Error> {
        let Some(promisors) = &self.options.promisors else { return Ok(()) };
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing: Vec<ObjectId> = oids.collect();
        let packs = self.packs();
        missing.retain(|oid| !self.is_here(&packs, oid) && is_needed(oid));
        for number in 0..promisors.count() {
            // List again each time: the previous remote may have sent some of the objects.
            self.rescan(&self.packs());
            let packs = self.packs();
            missing.retain(|oid| !self.is_here(&packs, oid));
            if missing.is_empty() || promisors.fetch(number, &missing) {
                break;
            }
        }
        let packs = self.rescan(&self.packs());
        missing.retain(|oid| !self.is_here(&packs, oid));
        match missing.first() {
            Some(oid) if packs.promised() => Err(Error::Promised(*oid)),
            _ => Ok(()),
        }
    }

    /// Returns the contents outside of the object database.
    fn contents(&self) -> Option<&dyn Contents> {
        self.options.promisors.as_ref()?.contents()
    }

    /// Returns true if an object, or its replacement, is loose or in a known pack. The empty tree
    /// always exists.
    fn is_here(&self, packs: &Packs, oid: &ObjectId) -> bool {
        let Ok(oid) = self.replaced(oid) else { return true };
        packs.find(&oid).is_some()
            || self.loose().iter().any(|dir| dir.contains(&oid))
            || oid == ObjectId::empty_tree(oid.kind())
    }

    /// Returns type and size without decoding the content.
    pub fn header(&self, oid: &ObjectId) -> Result<(Kind, u64), Error> {
        self.reader().header(oid)
    }

    /// Returns a reader for one thread, with its own inflater, buffers and bounded delta base
    /// cache.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self, self.options.base_cache)
    }

    /// Like [`Objects::reader`], with a sixteenth of the cache: for large crews whose workers
    /// mostly wait. Only a few of them decode larger objects at once; the others wait for a permit.
    /// A reader keeps its permit until its next read or until it is dropped.
    pub fn small_reader(&self) -> Reader<'_> {
        Reader::small(self, self.options.base_cache / 16)
    }

    fn found(&self) -> &Directories {
        let resolve = || {
            let alternates = self.options.alternates.as_ref();
            alternates::resolve(&self.objects_dir, alternates, &self.options.alternates_base)
        };
        self.directories.get_or_init(resolve)
    }

    fn loose(&self) -> &[LooseDir] {
        &self.found().loose
    }

    /// Returns the known packs.
    fn packs(&self) -> Arc<Packs> {
        // The list is replaced as a whole, so a panic elsewhere cannot leave it partly changed.
        let known = self.packs.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| self.list(None))
    }

    /// Lists the pack directories again, unless another thread has done so since `seen` was
    /// current.
    fn rescan(&self, seen: &Arc<Packs>) -> Arc<Packs> {
        self.list(Some(seen))
    }

    fn list(&self, seen: Option<&Arc<Packs>>) -> Arc<Packs> {
        let mut known = self.packs.write().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(packs) if seen.is_none_or(|seen| !Arc::ptr_eq(packs, seen)) => Arc::clone(packs),
            _ => {
                let packs = Packs::scan(self.directories(), self.hash, seen.map(|seen| &**seen));
                Arc::clone(known.insert(Arc::new(packs)))
            }
        }
    }

    /// Returns the name to read in place of `oid`.
    fn replaced(&self, oid: &ObjectId) -> Result<ObjectId, Error> {
        let mut current = *oid;
        let Some(replacements) = &self.options.replacements else { return Ok(current) };
        let all = replacements.all().map_err(Error::Replacements)?;
        for _ in 0..MAX_REPLACE_DEPTH {
            match all.get(&current) {
                Some(next) => current = *next,
                None => return Ok(current),
            }
        }
        Err(Error::ReplaceDepth(*oid))
    }
}

/// Sets the times of a file of objects to now. Returns true on success.
#[expect(clippy::disallowed_methods, reason = "the times only tell `gc` that the objects are in use")]
fn mark_used(path: &Path) -> bool {
    sys::changes::aside(|| sys::by_path::touch(path)).is_ok()
}

#[cfg(test)]
mod tests;
