//! Reading objects: loose, packed, through multi-pack-indices and alternates.
//!
//! Promise: bytes returned are the object's, as far as the checks Git makes on the same path can tell
//! (sizes, checksums of the compressed data, delta bounds, pack and index belonging together); the
//! hash itself is verified by neither. Whatever is on disk, the answer is bytes or an error, with
//! bounded memory and without recursion on what a file says.
//!
//! Order: packs first, the local ones before those of alternates, then loose objects. A copy that
//! turns out to be damaged is set aside and the next one is tried. When nothing is found, the pack
//! directories are listed once more, as another process may have repacked.
//!
//! Nothing is asked of the disk before the first object is. On failure the error names the object and the file; nothing is ever written.
//!
//! See docs/design/objects.md for the measurements behind the choices.

mod alternates;
mod buffer;
mod cache;
mod error;
mod inflate;
mod loose;
mod pack;
mod packs;
mod pool;
mod reader;
mod sparing;
mod turns;

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
use packs::Packs;
use pool::Pool;
use turns::Turns;

/// How many names are looked up for one: the last of them must be one that is not replaced.
const MAX_REPLACE_DEPTH: usize = 5;

/// What can be chosen when opening.
#[derive(Clone, Debug)]
pub struct Options {
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`: further object directories, separated by colons.
    pub alternates: BString,
    /// Where relative ones of these start; empty: the process's current directory.
    pub alternates_base: PathBuf,
    /// Bytes of delta bases each reader may keep.
    pub base_cache: usize,
    /// `refs/replace/`, unless nothing is replaced.
    pub replacements: Option<Arc<dyn Replacements>>,
    /// Of a partial clone: who has what is missing.
    pub promisors: Option<Arc<dyn Promisors>>,
}

/// What to read in place of what. A replacement may be replaced, four deep.
pub trait Replacements: std::fmt::Debug + Send + Sync {
    /// All of them; asked for often.
    fn all(&self) -> Result<&HashMap<ObjectId, ObjectId>, crate::Error>;
}

/// The remotes of a partial clone that promised to have what was left out.
pub trait Promisors: std::fmt::Debug + Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Has the one of this number send these objects, as a pack. Whether all of them came.
    fn fetch(&self, number: usize, missing: &[ObjectId]) -> bool;
}

impl Default for Options {
    fn default() -> Self {
        Options {
            alternates: BString::default(),
            alternates_base: PathBuf::new(),
            base_cache: 16 << 20,
            replacements: None,
            promisors: None,
        }
    }
}

/// Where an object is stored. The order is that of the packs and of the offsets within them, loose
/// objects last: reading in this order reads each pack from its beginning to its end.
///
/// A location is advice: it stays valid while the [`Objects`] lives, but the copy there can turn out
/// to be damaged, so reading takes the name too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// In a pack, given by a number of no other meaning.
    Packed {
        /// The pack.
        pack: u32,
        /// Offset of the entry in the pack.
        offset: u64,
    },
    /// In a file of its own.
    Loose,
}

/// An object directory and its alternates, shared by all threads.
///
/// Alternates are read and the pack directories listed when an object is first looked for; indices and packs are mapped when first needed.
#[derive(Debug)]
pub struct Objects {
    hash: HashKind,
    options: Options,
    objects_dir: PathBuf,
    directories: OnceLock<Directories>,
    packs: RwLock<Option<Arc<Packs>>>,
    /// For what its readers decode.
    pool: Arc<Pool>,
    /// Of readers that are many.
    turns: Arc<Turns>,
    /// Held while something is fetched: another thread may be about to ask for the same.
    fetching: Mutex<()>,
}

impl Objects {
    /// An object directory and the alternates it names.
    pub fn new(objects_dir: &Path, hash: HashKind) -> Objects {
        Objects::with(objects_dir, hash, Options::default())
    }

    /// As [`Objects::new`], with choices.
    pub fn with(objects_dir: &Path, hash: HashKind, options: Options) -> Objects {
        Objects {
            hash,
            options,
            objects_dir: objects_dir.to_owned(),
            directories: OnceLock::new(),
            packs: RwLock::default(),
            pool: Arc::default(),
            turns: Arc::default(),
            fetching: Mutex::default(),
        }
    }

    /// Which hash names the objects.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// The object directories, the local one first, then the alternates in Git's order.
    pub fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        self.loose().iter().map(LooseDir::path)
    }

    /// What Git says when it first looks for an object, as errors that stop nothing: alternates that are
    /// gone, say.
    pub fn errors(&self) -> &[BString] {
        &self.found().errors
    }

    /// As [`Objects::errors`], but none before an object was looked for: nothing is asked of the disk.
    pub fn errors_so_far(&self) -> &[BString] {
        self.directories.get().map_or(&[], |found| &found.errors)
    }

    /// A list of alternates that could not be read, and why: what is missing may be in one of them.
    pub fn unread_alternates(&self) -> Option<(&Path, &std::io::Error)> {
        self.found().unread.as_ref().map(|(file, source)| (file.as_path(), &**source))
    }

    /// Is it there (any type)? Content is not looked at.
    pub fn contains(&self, oid: &ObjectId) -> bool {
        self.locate(oid).is_some()
    }

    /// As [`Objects::contains`], for who acts on it that nothing is there: an error if the disk keeps from finding it.
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

    /// All objects whose names begin so, sorted. An error, with the file it is of, if others cannot be looked for.
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

    /// How many objects are in packs, about.
    pub fn packed_count(&self) -> Result<u64, (PathBuf, PackError)> {
        self.packs().count()
    }

    /// Where an object is stored, if it is; content is not looked at.
    pub fn locate(&self, oid: &ObjectId) -> Option<Location> {
        let oid = self.replaced(oid).ok()?;
        let packs = self.packs();
        let packed = |packs: &Packs| packs.find(&oid).map(|(pack, offset)| Location::Packed { pack, offset });
        packed(&packs)
            .or_else(|| self.loose().iter().any(|dir| dir.contains(&oid)).then_some(Location::Loose))
            .or_else(|| packed(&self.rescan(&packs)))
    }

    /// The files that hold copies of an object itself, whatever replaces it: packs first.
    pub fn files_of(&self, oid: &ObjectId) -> Vec<PathBuf> {
        let packs = self.packs();
        let packed = packs.find(oid).and_then(|(pack, _)| packs.get(pack).map(|pack| pack.path().to_owned()));
        let loose = self.loose().iter().filter(|dir| dir.contains(oid)).map(|dir| dir.file(oid));
        packed.into_iter().chain(loose).collect()
    }

    /// As [`Objects::locate`], but only of packs known already: no file is looked for.
    pub fn locate_packed(&self, oid: &ObjectId) -> Option<Location> {
        let oid = self.replaced(oid).ok()?;
        let (pack, offset) = self.packs().find(&oid)?;
        Some(Location::Packed { pack, offset })
    }

    /// In a partial clone: has what of these is missing sent by the remotes that promised it, all of it at once. Elsewhere
    /// nothing is done, and reading tells what is missing.
    pub fn fetch_missing(&self, oids: &mut dyn Iterator<Item = ObjectId>) -> Result<(), Error> {
        let Some(promisors) = &self.options.promisors else { return Ok(()) };
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing: Vec<ObjectId> = oids.collect();
        for number in 0..promisors.count() {
            // Listed anew each time: the last one may have sent some.
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

    /// Whether an object, or what replaces it, is in a pack that is known or loose. The empty tree is everywhere.
    fn is_here(&self, packs: &Packs, oid: &ObjectId) -> bool {
        let Ok(oid) = self.replaced(oid) else { return true };
        packs.find(&oid).is_some()
            || self.loose().iter().any(|dir| dir.contains(&oid))
            || oid == ObjectId::empty_tree(oid.kind())
    }

    /// Type and size without decoding the whole.
    pub fn header(&self, oid: &ObjectId) -> Result<(Kind, u64), Error> {
        self.reader().header(oid)
    }

    /// A reader of one thread, with its own inflater, buffers and bounded delta-base cache.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self, self.options.base_cache)
    }

    /// As [`Objects::reader`], with a sixteenth of the memory: for the many that mostly wait. They take turns at
    /// objects of more than that, which a reader holds until it reads again or is dropped.
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

    /// The packs known now.
    fn packs(&self) -> Arc<Packs> {
        // A panic elsewhere cannot leave the list half-changed: it is replaced as a whole.
        let known = self.packs.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| self.list(None))
    }

    /// Lists the pack directories again, unless somebody did since `seen` was current.
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

    /// The name to read in place of `oid`.
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

#[cfg(test)]
mod tests;
