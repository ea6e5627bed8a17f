//! The objects of a new Git directory: clones, links or copies of the files of a repository.
//!
//! Order: the commit-graph, the loose objects, the packs. A `gc` that runs meanwhile moves objects
//! from left to right, so nothing that existed at the start is missed.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use format::HashKind;
use repo::Repository;
use sys::{FileType, by_path};

use super::{Error, Shared, Sharing};

/// Gives the files of object directories to another one.
pub(super) struct Sharer {
    sharing: Sharing,
    pub(super) shared: Shared,
    /// The clones and copies, which nobody has synced.
    pub(super) made: Vec<PathBuf>,
}

impl Sharer {
    pub(super) fn new(sharing: Sharing) -> Sharer {
        Sharer { sharing, shared: Shared::Free, made: Vec::new() }
    }

    /// Shares all objects that `repo` had when this was called. A second call adds newer ones.
    pub(super) fn share(&mut self, repo: &Repository, to: &Path) -> Result<(), Error> {
        let dirs = || repo.objects().directories();
        for dir in dirs() {
            self.commit_graph(&dir.join("info"), &to.join("info"))?;
        }
        for dir in dirs() {
            self.loose(dir, to, repo.hash())?;
        }
        for dir in dirs() {
            self.packs(&dir.join("pack"), &to.join("pack"))?;
        }
        Ok(())
    }

    /// Shares one file. Returns false if it is gone.
    fn file(&mut self, from: &Path, to: &Path) -> Result<bool, Error> {
        if matches!(self.sharing, Sharing::Auto | Sharing::Reflink) {
            match filled(from, to, sys::reflink) {
                Ok(is_new) => return Ok(self.made(to, is_new)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(source) if self.sharing == Sharing::Reflink => {
                    return Err(Error::NoClones { path: from.to_owned(), source });
                }
                Err(_) => self.sharing = Sharing::Link,
            }
        }
        if self.sharing == Sharing::Link {
            match by_path::hard_link(from, to) {
                Ok(()) => return Ok(true),
                // Two object directories have the same object.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                // Another disk, a file of another user, or too many links.
                Err(_) => self.shared = Shared::Copied,
            }
        }
        match filled(from, to, sys::copy) {
            Ok(is_new) => Ok(self.made(to, is_new)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("copy", from)(error)),
        }
    }

    /// Notes a file that was made. Returns true: it is there.
    fn made(&mut self, path: &Path, is_new: bool) -> bool {
        self.made.extend(is_new.then(|| path.to_owned()));
        true
    }

    fn commit_graph(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        self.file(&from.join("commit-graph"), &to.join("commit-graph"))?;
        let (from, to) = (from.join("commit-graphs"), to.join("commit-graphs"));
        let names = listed(&from)?;
        if names.is_empty() {
            return Ok(());
        }
        match by_path::create_dir(&to) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &to)(error));
            }
            _ => {}
        }
        for (name, _) in names.into_iter().filter(|(name, _)| !name.as_bytes().ends_with(b".lock")) {
            self.file(&from.join(&name), &to.join(&name))?;
        }
        Ok(())
    }

    fn loose(&mut self, from: &Path, to: &Path, hash: HashKind) -> Result<(), Error> {
        let is_hex = |name: &[u8], len: usize| name.len() == len && name.iter().all(u8::is_ascii_hexdigit);
        for (name, _) in listed(from)?.into_iter().filter(|(name, _)| is_hex(name.as_bytes(), 2)) {
            let (from, to) = (from.join(&name), to.join(&name));
            let files = listed(&from)?;
            if files.is_empty() {
                continue;
            }
            match by_path::create_dir(&to) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("create", &to)(error));
                }
                _ => {}
            }
            let is_object = |name: &[u8]| is_hex(name, hash.hex_len() - 2);
            for (name, _) in files.into_iter().filter(|(name, _)| is_object(name.as_bytes())) {
                // An object that is gone is in a pack by now.
                self.file(&from.join(&name), &to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Shares all packs that have an index. A list is not read at one moment: it can miss a pack
    /// that replaces another one meanwhile. So it is read until it shows nothing new.
    fn packs(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        const TRIES: usize = 16;
        let (mut done, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for round in 0..TRIES {
            let mut is_complete = round > 0;
            for (name, _) in listed(from)? {
                let Some(stem) = name.as_bytes().strip_suffix(b".idx") else { continue };
                if stem.starts_with(b".") || stem.starts_with(b"tmp_") || done.contains(stem) {
                    continue;
                }
                // An index that is still there without its pack belongs to no pack.
                if self.pack(from, to, stem)? || !gone.insert(stem.to_owned()) {
                    done.insert(stem.to_owned());
                }
                is_complete = false;
            }
            if is_complete {
                return Ok(());
            }
        }
        Err(Error::Busy(from.to_owned()))
    }

    /// Shares one pack. Its index comes last, because Git looks for that. Returns false if one of
    /// its files is gone.
    fn pack(&mut self, from: &Path, to: &Path, stem: &[u8]) -> Result<bool, Error> {
        let named = |dir: &Path, end: &[u8]| dir.join(sys::os_str(&[stem, end].concat()));
        let one = |sharer: &mut Self, end: &[u8]| sharer.file(&named(from, end), &named(to, end));
        if !one(self, b".pack")? {
            return Ok(false);
        }
        one(self, b".rev")?;
        if one(self, b".idx")? {
            return Ok(true);
        }
        let _ = by_path::remove_file(&named(to, b".pack"));
        let _ = by_path::remove_file(&named(to, b".rev"));
        Ok(false)
    }
}

/// Returns the entries of a directory, none if it does not exist.
fn listed(dir: &Path) -> Result<Vec<(OsString, FileType)>, Error> {
    match by_path::list(dir) {
        Err(error) if sys::is_missing(&error) => Ok(Vec::new()),
        listed => listed.map_err(Error::io("read", dir)),
    }
}

/// Creates `to` with the content of `from`. Returns false if it exists: two object directories may
/// have the same object. A failure leaves no file.
fn filled<T>(
    from: &Path,
    to: &Path,
    fill: impl Fn(&sys::File, &sys::File) -> io::Result<T>,
) -> io::Result<bool> {
    let source = by_path::open(from)?;
    let made = match by_path::create_new(to, 0o444) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        made => made?,
    };
    let filled = fill(&source, &made).map(|_| true);
    filled.inspect_err(|_| {
        let _ = by_path::remove_file(to);
    })
}
