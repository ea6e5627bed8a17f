//! The objects of a repository that nobody trusts.
//!
//! Its packs get further names in a private directory, after each was opened without following a
//! link and found to be a regular file. A loose object gets one when it is needed. So the reader of
//! objects sees a plain object directory: without alternates, multi-pack-index, replacements and
//! links. Processes may still write into these files. So each object is hashed from the bytes that
//! are used.

use std::{
    collections::HashSet,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use format::{Kind, ObjectId};
use repo::{
    Repository, keys,
    objects::{Limits, Objects, Options},
};
use sys::{Dir, FileType, by_path};

use super::{
    Error,
    tips::{odd, unreadable},
};

/// The most packs that are read.
const MOST_PACKS: usize = 10_000;

/// Commits and trees of more bytes are refused, and deltas in packs that produce more are not
/// decoded.
pub(super) const LARGEST: u64 = 256 << 20;
/// The longest chain of deltas that Git makes.
const LONGEST_CHAIN: usize = 4095;

/// The objects. The private directory is removed when this is dropped.
pub struct Foreign<'g> {
    git: &'g Dir,
    private: PathBuf,
    objects: Objects,
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        let _ = by_path::remove_dir_all(&self.private);
    }
}

impl<'g> Foreign<'g> {
    /// Opens the objects of the Git directory `git`. Packs that `repo` has too are left out.
    /// `private` is a path in a directory that nobody else writes to; the caller holds a lock on
    /// it.
    pub fn open(repo: &Repository, git: &'g Dir, private: &Path) -> Result<Foreign<'g>, Error> {
        match by_path::remove_dir_all(private) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("remove", private)(error)),
            _ => {}
        }
        by_path::create_private_dir(private).map_err(io("create", private))?;
        // Git makes no deltas of larger blobs.
        let largest = LARGEST.max(repo.config(&keys::core::BIG_FILE_THRESHOLD)?);
        let limits = Limits { largest, deepest: LONGEST_CHAIN, work: largest.saturating_mul(64) };
        let options = Options { limits: Some(limits), ..Options::default() };
        let objects = Objects::with(private, repo.hash(), options);
        let foreign = Foreign { git, private: private.to_owned(), objects };
        by_path::create_dir(&private.join("pack")).map_err(io("create", private))?;
        foreign.take_packs(repo)?;
        Ok(foreign)
    }

    /// Returns the objects: all that are packed, and the loose ones that [`Foreign::prepare`]
    /// named.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the private directory.
    pub(super) fn private(&self) -> &Path {
        &self.private
    }

    /// Makes an object readable, if it exists and is loose. Returns the size of its file then.
    pub fn prepare(&self, oid: &ObjectId) -> Result<Option<u64>, Error> {
        if self.objects.locate_packed(oid).is_some() {
            return Ok(None);
        }
        let hex = oid.to_string();
        let (above, rest) = hex.split_at(2);
        let path = format!("objects/{above}/{rest}");
        let Some((file, stat)) = self.regular(path.as_bytes())? else { return Ok(None) };
        let dir = self.private.join(above);
        match by_path::create_dir(&dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(io("create", &dir)(error)),
            _ => self.adopt(&file, path.as_bytes(), &dir.join(rest)).map(|()| Some(stat.size)),
        }
    }

    /// Returns the kind of an object; `None` if it does not exist or cannot be read.
    pub fn kind_of(&self, oid: &ObjectId) -> Result<Option<Kind>, Error> {
        self.prepare(oid)?;
        Ok(self.objects.reader().header(oid).ok().map(|(kind, _)| kind))
    }

    fn take_packs(&self, repo: &Repository) -> Result<(), Error> {
        let place = b"objects/pack";
        let dir = match self.git.open_dir(place) {
            Err(error) if sys::is_missing(&error) => return Ok(()),
            dir => dir.map_err(unreadable(place))?,
        };
        let own = own_packs(repo);
        let mut taken = 0;
        for (name, _) in dir.list().map_err(unreadable(place))? {
            let Some(stem) = name.strip_suffix(b".idx") else { continue };
            let pack = [place, &b"/"[..], stem, b".pack"].concat();
            let Some((file, stat)) = self.regular(&pack)? else { continue };
            if own.contains(&(stem.to_vec(), stat.size)) {
                continue;
            }
            let index_path = [place, &b"/"[..], &name].concat();
            let Some((index, _)) = self.regular(&index_path)? else { continue };
            taken += 1;
            if taken > MOST_PACKS {
                return Err(odd(place, "holds too many packs"));
            }
            let named = |end: &str| self.private.join("pack").join(format!("pack-{taken}.{end}"));
            self.adopt(&file, &pack, &named("pack"))?;
            self.adopt(&index, &index_path, &named("idx"))?;
        }
        Ok(())
    }

    /// Returns the most bytes that a new file may take: half of the free space.
    pub(super) fn room(&self) -> Result<u64, Error> {
        let free = Dir::open(&self.private).and_then(|dir| dir.available());
        free.map(|free| free / 2).map_err(io("examine", &self.private))
    }

    /// Gives the open file `path` a name, or copies it if it lies on another disk.
    fn adopt(&self, file: &sys::File, path: &[u8], to: &Path) -> Result<(), Error> {
        match by_path::hard_link_open(file, to) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Ok(()) => return Ok(()),
            Err(_) => {}
        }
        let room = self.room()?;
        // A sparse file can seem to be larger than the disk.
        let too_large = || odd(path, "is larger than half of the free space");
        if sys::stat_of(file).map_err(unreadable(path))?.size > room {
            return Err(too_large());
        }
        let made = by_path::create_new(to, 0o600).map_err(io("write", to))?;
        match sys::copy_up_to(file, &made, room) {
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(too_large()),
            copied => copied.map(drop).map_err(io("write", to)),
        }
    }

    /// Opens a regular file; returns `None` if it does not exist.
    fn regular(&self, path: &[u8]) -> Result<Option<(sys::File, sys::Stat)>, Error> {
        let file = match self.git.open_file(path) {
            Err(error) if sys::is_missing(&error) => return Ok(None),
            file => file.map_err(unreadable(path))?,
        };
        let stat = sys::stat_of(&file).map_err(unreadable(path))?;
        match stat.file_type {
            FileType::File => Ok(Some((file, stat))),
            _ => Err(odd(path, "is not a regular file")),
        }
    }
}

/// Returns the packs of the repository, by name without extension and size. A foreign pack that
/// only looks like one of them is not read, and its objects are missing.
fn own_packs(repo: &Repository) -> HashSet<(Vec<u8>, u64)> {
    let mut own = HashSet::new();
    for dir in repo.objects().directories().map(|dir| dir.join("pack")) {
        for (name, _) in by_path::list(&dir).unwrap_or_default() {
            let Some(stem) = name.as_encoded_bytes().strip_suffix(b".pack") else { continue };
            if let Ok(Some(stat)) = by_path::stat_followed(&dir.join(&name)) {
                own.insert((stem.as_bytes().to_vec(), stat.size));
            }
        }
    }
    own
}

fn io(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { action, path: path.clone(), source }
}
