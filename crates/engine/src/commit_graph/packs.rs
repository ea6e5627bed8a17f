//! Lists the commits of a pack, in pack order.
//!
//! Reads only the header of each pack entry. A delta has the type of its base, which is found among
//! the entries.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use bstr::BString;
use format::{
    Kind, ObjectId,
    idx::Idx,
    pack::{self, Stored, is_temporary},
};
use sys::{Advice, Map, by_path};

use crate::{crew::parallel, midx::PackDir};

/// The reason why the commits of a pack could not be listed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// The pack or its index does not exist.
    #[error("error adding pack {}", .0.display())]
    Missing(PathBuf),
    /// The index is unusable. `why` is Git's message about the defect, if Git prints one.
    #[error("error opening index for {}", .path.display())]
    Index { why: Option<String>, path: PathBuf },
    /// The type of this object could not be determined.
    #[error("unable to get type of object {0}")]
    Type(ObjectId),
}

/// Returns the commits of the packs with these index file names, pack after pack.
pub(super) fn commits(pack_dir: &PackDir, names: &[BString]) -> Result<Vec<ObjectId>, Error> {
    let threads = sys::cores().clamp(1, names.len().max(1));
    let found = parallel::map(names, &mut vec![(); threads], |(), name| of_pack(pack_dir, name))?;
    Ok(found.concat())
}

/// Returns the names of the index files in a pack directory, the most recently modified pack first,
/// which is Git's order.
pub(super) fn all(pack_dir: &PackDir) -> Vec<BString> {
    let names = by_path::list(&pack_dir.path).unwrap_or_default().into_iter();
    let names = names.map(|(name, _)| BString::from(name.into_encoded_bytes()));
    let mut packs: Vec<_> = names
        .filter(|name| name.ends_with(b".idx") && !is_temporary(name))
        .filter_map(|name| Some((std::cmp::Reverse(pack_dir.modified(&name)?), name)))
        .collect();
    packs.sort();
    packs.into_iter().map(|(_, name)| name).collect()
}

fn of_pack(pack_dir: &PackDir, name: &BString) -> Result<Vec<ObjectId>, Error> {
    let shown = pack_dir.display_path(name);
    if !name.ends_with(b".idx") || pack_dir.modified(name).is_none() {
        return Err(Error::Missing(shown));
    }
    let index = pack_dir
        .open_index(name)
        .map_err(|bad| Error::Index { why: bad.message(&shown), path: shown.clone() })?;
    let path = pack_dir.path.join(sys::os_str(name)).with_extension("pack");
    let map = by_path::open(&path).and_then(|file| Map::of(&file));
    let map = map.map_err(|_| Error::Missing(shown))?;
    let _ = map.advise(Advice::Sequential);
    Scan { index: &index, map: &map, pack_dir }.run()
}

struct Scan<'a> {
    index: &'a Idx<Map>,
    map: &'a Map,
    pack_dir: &'a PackDir,
}

impl Scan<'_> {
    fn run(&self) -> Result<Vec<ObjectId>, Error> {
        let mut entries = Vec::with_capacity(self.index.count() as usize);
        for n in 0..self.index.count() {
            let offset = self.index.offset(n).ok_or_else(|| Error::Type(self.index.name(n)))?;
            entries.push((offset, n));
        }
        entries.sort_unstable();
        let mut kinds: Vec<Option<Kind>> = Vec::with_capacity(entries.len());
        // Deltas whose base comes later in the pack: their position and that of the base.
        let mut waiting: HashMap<usize, usize> = HashMap::new();
        for (at, &(offset, n)) in entries.iter().enumerate() {
            let base = match self.header(offset).ok_or_else(|| Error::Type(self.index.name(n)))? {
                (Stored::Whole(kind), _) => {
                    kinds.push(Some(kind));
                    continue;
                }
                (Stored::OfsDelta(distance), _) => offset.checked_sub(distance),
                (Stored::RefDelta, base) => base.and_then(|base| self.index.offset(self.index.find(&base)?)),
            };
            let base = base.and_then(|base| entries.binary_search_by_key(&base, |entry| entry.0).ok());
            let base = base.filter(|&base| base != at).ok_or_else(|| Error::Type(self.index.name(n)))?;
            kinds.push(kinds.get(base).copied().flatten());
            if kinds[at].is_none() {
                waiting.insert(at, base);
            }
        }
        let mut commits = Vec::new();
        for (at, &(_, n)) in entries.iter().enumerate() {
            let mut end = at;
            let mut steps = 0;
            while kinds[end].is_none() && steps <= waiting.len() {
                end = waiting[&end];
                steps += 1;
            }
            if kinds[end].ok_or_else(|| Error::Type(self.index.name(n)))? == Kind::Commit {
                commits.push(self.index.name(n));
            }
        }
        Ok(commits)
    }

    /// Parses the header of the entry at `offset`. Returns its storage type, and for a ref delta
    /// the object name of its base.
    fn header(&self, offset: u64) -> Option<(Stored, Option<ObjectId>)> {
        let end = self.map.len().checked_sub(self.pack_dir.hash.len())?;
        let bytes = self.map[..end].get(usize::try_from(offset).ok()?..)?;
        let entry = pack::parse_entry(bytes, self.pack_dir.hash).ok()?;
        let name = &bytes[entry.len.checked_sub(self.pack_dir.hash.len()).unwrap_or(entry.len)..entry.len];
        Some((entry.stored, ObjectId::from_bytes(self.pack_dir.hash, name)))
    }
}

/// Returns the location of the packs of an object directory.
pub(super) fn pack_dir(objects: &Path, shown: &Path, hash: format::HashKind) -> PackDir {
    PackDir { path: objects.join("pack"), shown: shown.join("pack"), hash }
}
