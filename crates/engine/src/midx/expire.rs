//! Unused packs of a multi-pack-index: it refers to none of their objects.

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use format::midx::Midx;
use sys::{Map, by_path};

use super::{Error, PackDir, sibling};

/// An unused pack.
#[derive(Clone, Debug)]
pub struct Unused {
    /// The name of its index file.
    pub name: BString,
    dir: PathBuf,
}

/// The extensions of a pack's files. A reader that finds one of the first two missing reloads the
/// list of packs.
const ENDINGS: [&str; 6] = ["idx", "pack", "rev", "bitmap", "promisor", "mtimes"];

/// Returns the packs of `midx` to which no object refers, sorted by name. Omits packs with a
/// `.keep` file and cruft packs. Also omits names with a slash, because such a name may be an alias
/// of a used pack or lead out of the directory.
pub fn unused(pack_dir: &PackDir, midx: &Midx<Map>) -> Result<Vec<Unused>, Error> {
    let names: Vec<&[u8]> = midx.pack_names().collect();
    let mut is_used = vec![false; names.len()];
    for n in 0..midx.count() {
        let pack = midx.pack_of(n);
        let bad = Error::PackNumber { pack, packs: names.len() };
        *is_used.get_mut(pack as usize).ok_or(bad)? = true;
    }
    let has =
        |name: &[u8], ending| !matches!(by_path::stat(&sibling(&pack_dir.path, name, ending)), Ok(None));
    let unused = names.into_iter().zip(is_used).filter(|(name, is_used)| {
        !is_used
            && !name.contains(&b'/')
            && pack_dir.modified(name).is_some()
            && !has(name, "keep")
            && !has(name, "mtimes")
    });
    Ok(unused.map(|(name, _)| Unused { name: name.into(), dir: pack_dir.path.clone() }).collect())
}

impl Unused {
    /// Returns the name of an object of this pack that `midx` does not find in another pack. It
    /// exists only if the multi-pack-index is wrong.
    pub fn missing_elsewhere(&self, pack_dir: &PackDir, midx: &Midx<Map>) -> Option<format::ObjectId> {
        let index = pack_dir.open_index(&self.name).ok()?;
        let name_of = |pack: u32| midx.pack_names().nth(pack as usize);
        let is_elsewhere = |n: u32| {
            let found = midx.find(&index.name(n)).and_then(|at| midx.locate(at));
            found.is_some_and(|(pack, _)| name_of(pack).is_some_and(|name| name != self.name.as_bytes()))
        };
        (0..index.count()).find(|&n| !is_elsewhere(n)).map(|n| index.name(n))
    }

    /// Removes the files of the pack. Like Git, it continues if a file cannot be removed.
    pub fn remove(&self) {
        for ending in ENDINGS {
            let _ = by_path::remove_file(&sibling(&self.dir, &self.name, ending));
        }
    }
}
