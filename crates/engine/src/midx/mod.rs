//! Multi-pack-indexes: the packs and objects of a new one, the unused packs of an existing one, and
//! its verification.
//!
//! An object may have several copies. The copy in the preferred pack is chosen, then the one in the
//! most recently modified pack, then the one in the pack that was found first. Objects of an old
//! multi-pack-index count as those of a pack older than all others.

mod expire;
mod merge;
mod verify;

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    HashKind,
    idx::{self, Idx},
    midx::{self, Midx},
    pack::is_temporary,
};
use sys::{FileType, Map, by_path};

pub use expire::{Unused, unused};
pub use merge::{Content, Merged};
pub use verify::{Step, Verdict, verify};

/// The reason why a multi-pack-index cannot be read or created. The message is Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot read '{}': {}", .path.display(), sys::reason(.source))]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Midx(midx::Error),
    #[error("could not load pack {0}")]
    NoPack(usize),
    #[error("no pack files to index.")]
    NoPacks,
    #[error("cannot select preferred pack {} with no objects", .0.display())]
    EmptyPreferred(PathBuf),
    #[error("bad pack-int-id: {pack} ({packs} total packs)")]
    PackNumber { pack: u32, packs: usize },
    #[error("multi-pack-index large offset out of bounds")]
    LargeOffset,
    #[error("offset beyond end of pack index for {} (truncated index?)", .0.display())]
    PackOffset(PathBuf),
    #[error("interrupted")]
    Interrupted,
}

/// The pack directory of an object directory.
#[derive(Clone, Debug)]
pub struct PackDir {
    /// The path of the directory.
    pub path: PathBuf,
    /// The path of the directory in messages.
    pub shown: PathBuf,
    /// The hash of the objects.
    pub hash: HashKind,
}

impl PackDir {
    /// Returns the path of the multi-pack-index.
    pub fn midx(&self) -> PathBuf {
        self.path.join("multi-pack-index")
    }

    /// Reads the multi-pack-index. Returns `None` if there is none.
    pub fn load(&self) -> Result<Option<Midx<Map>>, Error> {
        let path = self.midx();
        let map = match by_path::open(&path).and_then(|file| Map::of(&file)) {
            // Git ignores a file that it cannot open.
            Err(error) if error.raw_os_error().is_some() => return Ok(None),
            map => map.map_err(|source| Error::Io { path, source })?,
        };
        Midx::parse(map, self.hash).map(Some).map_err(Error::Midx)
    }

    /// Returns a temporary pack of an unfinished repack that `midx` lists. Git lists such packs
    /// too. If the repack fails, the objects that `midx` finds in the pack are lost.
    pub fn temporary_pack(midx: &Midx<Map>) -> Option<&BStr> {
        midx.pack_names().find(|name| is_temporary(name)).map(BStr::new)
    }

    /// Returns true if the directory contains files that belong to a multi-pack-index: layers of an
    /// incremental one, bitmaps, or reverse indexes.
    pub fn has_companions(&self) -> bool {
        let names = by_path::list(&self.path).unwrap_or_default();
        names.iter().any(|(name, _)| {
            let name = name.as_encoded_bytes();
            name == b"multi-pack-index.d"
                || name.starts_with(b"multi-pack-index-")
                    && [&b"bitmap"[..], b"rev", b"midx"].iter().any(|ending| name.ends_with(ending))
        })
    }

    /// Returns the modification time of a pack in seconds, given the name of its index file.
    /// Returns `None` if the pack does not exist.
    pub(crate) fn modified(&self, name: &[u8]) -> Option<i64> {
        let pack = self.path.join(sys::os_str(name)).with_extension("pack");
        let found = by_path::stat_followed(&pack).ok().flatten()?;
        (found.file_type == FileType::File).then_some(found.mtime.0)
    }

    pub(crate) fn open_index(&self, name: &[u8]) -> Result<Idx<Map>, BadIndex> {
        let path = self.path.join(sys::os_str(name));
        let map = by_path::open(&path).and_then(|file| Map::of(&file)).map_err(|_| BadIndex::Unreadable)?;
        Idx::parse(map, self.hash).map_err(BadIndex::Content)
    }

    /// Returns the path in messages of a file in this directory.
    pub(crate) fn display_path(&self, name: &[u8]) -> PathBuf {
        self.shown.join(sys::os_str(name))
    }
}

/// The reason why the index of a pack is unusable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BadIndex {
    Unreadable,
    Content(idx::Error),
}

impl BadIndex {
    /// Returns Git's message about the index file, if Git prints one. `shown` is the file's path in
    /// messages.
    pub(crate) fn message(self, shown: &Path) -> Option<String> {
        match self {
            BadIndex::Unreadable => None,
            BadIndex::Content(error) => Some(error.about(shown.display())),
        }
    }
}

/// A message that does not stop the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notice {
    Error(String),
    Warning(String),
}

/// A pack of a new multi-pack-index.
#[derive(Debug)]
pub struct Pack {
    /// The name of its index file.
    pub name: BString,
    mtime: i64,
    /// The pack's index; `None` if the old multi-pack-index provides its objects.
    index: Option<Idx<Map>>,
}

/// The packs of a new multi-pack-index.
#[derive(Debug)]
pub struct Packs {
    pack_dir: PackDir,
    old: Option<Midx<Map>>,
    all: Vec<Pack>,
    preferred: Option<usize>,
}

impl Packs {
    /// Finds the packs: first those of `old`, then the other packs in the directory, or only those
    /// in `include`. `tell` gets messages. `count` is called for each pack in the directory.
    pub fn find(
        pack_dir: &PackDir,
        old: Option<Midx<Map>>,
        include: Option<&[BString]>,
        tell: &mut dyn FnMut(Notice),
        count: &mut dyn FnMut(),
    ) -> Result<Packs, Error> {
        let mut all = Vec::new();
        for (number, name) in old.iter().flat_map(|old| old.pack_names()).enumerate() {
            let mtime = pack_dir.modified(name).filter(|_| name.ends_with(b".idx"));
            let mtime = mtime.ok_or(Error::NoPack(number))?;
            all.push(Pack { name: name.into(), mtime, index: None });
        }
        let of_old = all.len();
        let mut known: Vec<BString> = all.iter().map(|pack| pack.name.clone()).collect();
        known.sort_unstable();
        let listed = match by_path::list(&pack_dir.path) {
            Ok(listed) => listed,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let (dir, reason) = (pack_dir.shown.display(), sys::reason(&error));
                    tell(Notice::Error(format!("unable to open object pack directory: {dir}: {reason}")));
                }
                Vec::new()
            }
        };
        for (name, _) in listed {
            let name = name.as_encoded_bytes().as_bstr();
            if !name.ends_with(b".idx") || is_temporary(name) {
                continue;
            }
            count();
            let is_wanted = include.is_none_or(|include| include.iter().any(|wanted| wanted == name));
            if !is_wanted || known.binary_search_by(|other| other.as_bstr().cmp(name)).is_ok() {
                continue;
            }
            let shown = pack_dir.display_path(name);
            let Some(mtime) = pack_dir.modified(name) else {
                tell(Notice::Warning(format!("failed to add packfile '{}'", shown.display())));
                continue;
            };
            match pack_dir.open_index(name) {
                Ok(index) => all.push(Pack { name: name.to_owned(), mtime, index: Some(index) }),
                Err(bad) => {
                    bad.message(&shown).into_iter().for_each(|message| tell(Notice::Error(message)));
                    tell(Notice::Warning(format!("failed to open pack-index '{}'", shown.display())));
                }
            }
        }
        debug_assert!(
            all[..of_old].iter().all(|pack| pack.index.is_none()),
            "packs of the old one come first"
        );
        Ok(Packs { pack_dir: pack_dir.clone(), old, all, preferred: None })
    }

    /// Returns the old multi-pack-index.
    pub fn old(&self) -> Option<&Midx<Map>> {
        self.old.as_ref()
    }

    /// Returns true if `midx` has exactly these packs.
    pub fn are_those_of(&self, midx: &Midx<Map>) -> bool {
        let mut ours: Vec<&BStr> = self.all.iter().map(|pack| pack.name.as_bstr()).collect();
        let mut theirs: Vec<&BStr> = midx.pack_names().map(BStr::new).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        ours == theirs
    }

    /// Makes the pack with this name the preferred one, if possible. `name` ends in `.pack` or
    /// `.idx`.
    pub fn prefer(&mut self, name: &BStr) -> Preference {
        let same = |pack: &Pack| {
            let stem = name.strip_suffix(b".pack");
            pack.name == name || stem.is_some_and(|stem| pack.name.strip_suffix(b".idx") == Some(stem))
        };
        let Some(number) = self.all.iter().position(same) else { return Preference::Unknown };
        let name = self.all[number].name.clone();
        match self.index(number).map(Idx::count) {
            None => Preference::Unreadable(name),
            Some(0) => Preference::Empty(self.pack_dir.display_path(&name).with_extension("pack")),
            Some(_) => {
                self.preferred = Some(number);
                Preference::Preferred
            }
        }
    }

    fn index(&mut self, number: usize) -> Option<&Idx<Map>> {
        let pack = &mut self.all[number];
        if pack.index.is_none() {
            pack.index = self.pack_dir.open_index(&pack.name).ok();
        }
        pack.index.as_ref()
    }
}

/// The result of [`Packs::prefer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The pack is preferred.
    Preferred,
    /// There is no pack with this name.
    Unknown,
    /// The pack's index cannot be read. Contains the index's name.
    Unreadable(BString),
    /// The pack is empty. Contains its path in messages.
    Empty(PathBuf),
}

/// Returns the path of a pack's file with another extension, given the name of its index.
fn sibling(dir: &Path, index: &[u8], ending: &str) -> PathBuf {
    dir.join(OsStr::new(sys::os_str(index))).with_extension(ending)
}
