//! All packs of an object directory and its alternates, as found by listing.
//!
//! A list never changes; listing again makes a new one in which packs keep their numbers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::{HashKind, ObjectId};

use super::pack::Pack;

/// The packs known at one time.
#[derive(Debug)]
pub(super) struct Packs {
    /// By number, those that are gone included: readers may still hold them mapped.
    all: Vec<Arc<Pack>>,
    /// One for each object directory, local ones first.
    stores: Vec<Store>,
    /// Whether any pack came from a promisor remote.
    promised: bool,
}

#[derive(Debug)]
struct Store {
    /// Numbers of the packs, youngest first: recent packs tend to hold what is asked for.
    order: Vec<u32>,
}

impl Packs {
    /// Lists the pack directories. What `before` knows is kept, open maps included, except packs whose
    /// files were gone and are now back.
    pub(super) fn scan<P: AsRef<Path>>(
        dirs: impl IntoIterator<Item = P>,
        hash: HashKind,
        before: Option<&Packs>,
    ) -> Packs {
        let mut packs = Packs {
            all: before.map(|packs| packs.all.clone()).unwrap_or_default(),
            stores: Vec::new(),
            promised: false,
        };
        for dir in dirs {
            let store = packs.scan_dir(dir.as_ref().join("pack"), hash);
            packs.stores.push(store);
        }
        packs
    }

    fn scan_dir(&mut self, dir: PathBuf, hash: HashKind) -> Store {
        let mut found = Vec::new();
        // An object directory without packs may lack the directory; one that cannot be listed has none to offer.
        let names = sys::by_path::list(&dir).unwrap_or_default();
        for (name, _) in &names {
            let path = dir.join(name);
            match path.extension().and_then(OsStr::to_str) {
                Some("promisor") => self.promised = true,
                Some("idx") => found.push(path.with_extension("pack")),
                _ => {}
            }
        }
        if found.len() > 1 {
            found.sort_by_cached_key(|path| {
                let modified = sys::by_path::stat_followed(path).ok().flatten().map(|stat| stat.mtime);
                (std::cmp::Reverse(modified), path.clone())
            });
        }
        let order = found.into_iter().map(|path| self.number_of(path, hash)).collect();
        Store { order }
    }

    fn number_of(&mut self, path: PathBuf, hash: HashKind) -> u32 {
        let known = self.all.iter().find(|pack| pack.path() == path && !pack.is_gone());
        if let Some(pack) = known {
            return pack.id;
        }
        let id = u32::try_from(self.all.len()).expect("fewer packs than 2^32");
        self.all.push(Arc::new(Pack::new(id, path, hash)));
        id
    }

    /// Pack and offset of an object.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<(u32, u64)> {
        self.stores.iter().flat_map(|store| &store.order).find_map(|&id| self.find_in(id, oid))
    }

    /// Pack and offset of an object that is in this pack.
    pub(super) fn find_in(&self, id: u32, oid: &ObjectId) -> Option<(u32, u64)> {
        self.all.get(id as usize)?.find(oid).map(|offset| (id, offset))
    }

    /// The pack of a number that this or an earlier list gave out.
    pub(super) fn get(&self, id: u32) -> Option<&Arc<Pack>> {
        self.all.get(id as usize)
    }

    /// Whether a remote promised to have what is missing here.
    pub(super) fn promised(&self) -> bool {
        self.promised
    }

    /// A pack that is there and of no use.
    pub(super) fn unusable(&self) -> Option<&Pack> {
        let listed = self.stores.iter().flat_map(|store| &store.order);
        listed
            .filter_map(|&id| self.get(id))
            .map(|pack| &**pack)
            .find(|pack| pack.failure().is_some_and(|failure| !failure.is_gone()))
    }
}
