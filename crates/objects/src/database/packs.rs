//! The packs of an object directory and its alternates, from a listing.
//!
//! A list never changes. Listing again makes a new list in which packs keep their numbers.
//!
//! Each object directory is searched in this order: its multi-pack-index, or the layers of an
//! incremental one from the newest; then the packs that these do not cover, youngest first. A
//! damaged multi-pack-index is ignored, and the indexes of its packs are used.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::hash::Prefix;
use format::idx::Idx;
use format::midx::{self, Midx};
use format::pack::is_temporary;
use format::{HashKind, ObjectId};
use sys::Map;

use super::PackError;
use super::pack::{Pack, map};
use super::sparse_map::SparseMap;

/// The packs known at one time.
#[derive(Debug)]
pub(super) struct Packs {
    /// All packs by number, including removed ones: readers may still have them mapped.
    all: Vec<Arc<Pack>>,
    /// An entry for each object directory, local ones first.
    stores: Vec<Store>,
    /// True if any pack came from a promisor remote.
    promised: bool,
    /// A directory that could not be listed.
    unlisted: Option<(PathBuf, Arc<io::Error>)>,
}

#[derive(Debug)]
struct Store {
    /// Newest first.
    layers: Vec<Layer>,
    /// The numbers of the packs that no layer covers, youngest first: recent packs tend to hold the
    /// requested objects.
    order: Vec<u32>,
}

/// A multi-pack-index.
#[derive(Debug)]
struct Layer {
    midx: Midx<Map>,
    /// The numbers of its packs; `None` for a pack that must not be used.
    packs: Vec<Option<u32>>,
}

impl Packs {
    /// Lists the pack directories. Keeps the packs of `before` with their maps, except packs whose
    /// files were missing and exist again.
    pub(super) fn scan<P: AsRef<Path>>(
        dirs: impl IntoIterator<Item = P>,
        hash: HashKind,
        before: Option<&Packs>,
    ) -> Packs {
        let all = before.map(|packs| packs.all.clone()).unwrap_or_default();
        let mut numbers = HashMap::new();
        for pack in all.iter().filter(|pack| !pack.is_gone()) {
            numbers.insert(pack.path().to_owned(), pack.id);
        }
        let mut scan = Scan { all, numbers, hash, promised: false, unlisted: None };
        let stores = dirs.into_iter().map(|dir| scan.store(&dir.as_ref().join("pack"))).collect();
        Packs { all: scan.all, stores, promised: scan.promised, unlisted: scan.unlisted }
    }

    /// Returns pack and offset of an object.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<(u32, u64)> {
        self.stores.iter().find_map(|store| {
            let uncovered = || store.order.iter().find_map(|&id| self.find_in(id, oid));
            let Some((layer, n)) = store.layers.iter().find_map(|layer| Some((layer, layer.midx.find(oid)?)))
            else {
                return uncovered();
            };
            self.find_in_layer(layer, n).or_else(uncovered).or_else(|| {
                // The copy in the multi-pack-index is unusable. The multi-pack-index lists one copy
                // of each object, but other packs that it covers may hold another copy.
                let covered = store.layers.iter().flat_map(|layer| layer.packs.iter().flatten());
                covered.into_iter().find_map(|&id| self.find_in(id, oid))
            })
        })
    }

    /// Returns the packs that hold the object, each with its own index. Slower than
    /// [`Packs::find`].
    pub(super) fn copies<'a>(&'a self, oid: &'a ObjectId) -> impl Iterator<Item = &'a Pack> {
        let covered = self.stores.iter().flat_map(|store| &store.layers).flat_map(|layer| layer.packs.iter());
        let uncovered = self.stores.iter().flat_map(|store| &store.order);
        let packs = uncovered.chain(covered.flatten()).filter_map(|&id| self.get(id));
        packs.filter(|pack| pack.find(oid).is_some()).map(|pack| &**pack)
    }

    fn find_in_layer(&self, layer: &Layer, n: u32) -> Option<(u32, u64)> {
        let (pack, offset) = layer.midx.locate(n)?;
        let id = (*layer.packs.get(pack as usize)?)?;
        self.get(id)?.usable(offset).then_some((id, offset))
    }

    /// Returns pack and offset of an object in this pack, from the pack's own index.
    pub(super) fn find_in(&self, id: u32, oid: &ObjectId) -> Option<(u32, u64)> {
        self.get(id)?.find(oid).map(|offset| (id, offset))
    }

    /// Returns a copy that is known to be damaged.
    pub(super) fn find_bad(&self, oid: &ObjectId) -> Option<(Arc<Pack>, u64)> {
        self.all.iter().find_map(|pack| Some((Arc::clone(pack), pack.find_bad(oid)?)))
    }

    /// Returns the pack of a number that this or an earlier list assigned.
    pub(super) fn get(&self, id: u32) -> Option<&Arc<Pack>> {
        self.all.get(id as usize)
    }

    /// Returns true if trying the pack of the last object first saves a search. It does not if a
    /// multi-pack-index covers the pack, or if the pack is first in order anyway.
    pub(super) fn should_try_first(&self, id: u32) -> bool {
        self.stores.iter().any(|store| store.order.iter().skip(1).any(|&other| other == id))
    }

    /// Returns the objects whose names begin with `prefix`, possibly repeated. If some of them
    /// cannot be listed, the error holds the file.
    pub(super) fn with_prefix(&self, prefix: Prefix) -> Result<Vec<ObjectId>, (PathBuf, PackError)> {
        self.check_all_listed()?;
        let mut found = Vec::new();
        for store in &self.stores {
            store.layers.iter().for_each(|layer| found.extend(layer.midx.with_prefix(prefix)));
            for pack in self.uncovered(store) {
                found.extend(pack?.with_prefix(prefix));
            }
        }
        Ok(found)
    }

    /// Counts the objects; an object with several copies counts several times.
    pub(super) fn count(&self) -> Result<u64, (PathBuf, PackError)> {
        self.check_all_listed()?;
        let mut count = 0;
        for store in &self.stores {
            count += store.layers.iter().map(|layer| u64::from(layer.midx.count())).sum::<u64>();
            for pack in self.uncovered(store) {
                count += u64::from(pack?.count());
            }
        }
        Ok(count)
    }

    fn check_all_listed(&self) -> Result<(), (PathBuf, PackError)> {
        match &self.unlisted {
            None => Ok(()),
            Some((dir, error)) => Err((dir.clone(), PackError::Io(Arc::clone(error)))),
        }
    }

    /// Returns the indexes of the packs that no layer covers, without damaged and missing ones.
    fn uncovered<'a>(
        &'a self,
        store: &'a Store,
    ) -> impl Iterator<Item = Result<&'a Idx<SparseMap>, (PathBuf, PackError)>> {
        let packs = store.order.iter().filter_map(|&id| self.get(id));
        packs.filter_map(|pack| match pack.idx() {
            Ok(idx) => Some(Ok(idx)),
            Err(failure @ PackError::Io(_)) if !failure.is_gone() => {
                Some(Err((pack.path().with_extension("idx"), failure.clone())))
            }
            Err(_) => None,
        })
    }

    /// Returns a directory of packs that could not be listed.
    pub(super) fn unlisted(&self) -> Option<&(PathBuf, Arc<io::Error>)> {
        self.unlisted.as_ref()
    }

    /// Returns true if a remote promised the missing objects.
    pub(super) fn promised(&self) -> bool {
        self.promised
    }

    /// Returns a pack that exists and cannot be used.
    pub(super) fn unusable(&self) -> Option<&Pack> {
        let covered =
            self.stores.iter().flat_map(|store| &store.layers).flat_map(|layer| layer.packs.iter().flatten());
        let listed = self.stores.iter().flat_map(|store| &store.order);
        listed
            .chain(covered)
            .filter_map(|&id| self.get(id))
            .map(|pack| &**pack)
            .find(|pack| pack.failure().is_some_and(|failure| !failure.is_gone()))
    }
}

struct Scan {
    all: Vec<Arc<Pack>>,
    numbers: HashMap<PathBuf, u32>,
    hash: HashKind,
    promised: bool,
    unlisted: Option<(PathBuf, Arc<io::Error>)>,
}

impl Scan {
    fn store(&mut self, dir: &Path) -> Store {
        let (mut found, mut has_midx, mut has_chain) = (Vec::new(), false, false);
        // An object directory without packs may lack the directory. If it cannot be listed, a
        // failed lookup reports that.
        let listed = sys::by_path::list(dir).unwrap_or_else(|error| {
            if !sys::is_missing(&error) {
                self.unlisted = Some((dir.to_owned(), Arc::new(error)));
            }
            Vec::new()
        });
        for (name, _) in listed.into_iter().filter(|(name, _)| !is_temporary(name.as_encoded_bytes())) {
            let path = dir.join(&name);
            match path.extension().and_then(OsStr::to_str) {
                Some("promisor") => self.promised = true,
                Some("idx") => found.push(path.with_extension("pack")),
                Some("d") => has_chain |= name == "multi-pack-index.d",
                None => has_midx |= name == "multi-pack-index",
                Some(_) => {}
            }
        }
        let single = has_midx.then(|| self.layer(dir, &dir.join("multi-pack-index"))).flatten();
        let layers = match single {
            Some(layer) => vec![layer],
            None if has_chain => self.chain(dir),
            None => Vec::new(),
        };
        let covered: Vec<u32> =
            layers.iter().flat_map(|layer| layer.packs.iter().copied().flatten()).collect();
        found.retain(|path| !self.numbers.get(path).is_some_and(|id| covered.contains(id)));
        if found.len() > 1 {
            found.sort_by_cached_key(|path| {
                let modified = sys::by_path::stat_followed(path).ok().flatten().map(|stat| stat.mtime);
                (std::cmp::Reverse(modified), path.clone())
            });
        }
        Store { layers, order: found.into_iter().map(|path| self.number_of(path)).collect() }
    }

    /// Reads the layers of an incremental multi-pack-index. A damaged layer makes the newer ones
    /// unusable.
    fn chain(&mut self, dir: &Path) -> Vec<Layer> {
        let dir_d = dir.join("multi-pack-index.d");
        let list =
            sys::by_path::read(&dir_d.join("multi-pack-index-chain")).ok().flatten().unwrap_or_default();
        let mut layers: Vec<Layer> = midx::parse_chain(&list, self.hash)
            .map_while(|checksum| self.layer(dir, &dir_d.join(format!("multi-pack-index-{checksum}.midx"))))
            .collect();
        layers.reverse();
        layers
    }

    fn layer(&mut self, dir: &Path, path: &Path) -> Option<Layer> {
        let midx = Midx::parse(map(path).ok()?, self.hash).ok()?;
        let names: Vec<Option<PathBuf>> = midx
            .pack_names()
            .map(|name| {
                let is_name = name.ends_with(b".idx") && !name.contains(&b'/') && !is_temporary(name);
                is_name.then(|| dir.join(sys::os_str(name)).with_extension("pack"))
            })
            .collect();
        let packs = names.into_iter().map(|path| path.map(|path| self.number_of(path))).collect();
        Some(Layer { midx, packs })
    }

    fn number_of(&mut self, path: PathBuf) -> u32 {
        if let Some(&id) = self.numbers.get(&path) {
            return id;
        }
        let id = u32::try_from(self.all.len()).expect("fewer packs than 2^32");
        self.all.push(Arc::new(Pack::new(id, path.clone(), self.hash)));
        self.numbers.insert(path, id);
        id
    }
}
