//! Conversion of one worktree file to an object: Git's `index_path`.
//!
//! Order: open, convert, hash, check if the object exists, store. A file larger than
//! `core.bigFileThreshold` that needs no conversion is stored in pieces. Attributes are read
//! lazily, for the first file that needs them.

use std::{io, path::PathBuf};

use bstr::{BStr, BString};
use format::{
    ObjectId,
    hash::Hasher,
    index::{Entry, Index},
    loose::Kind,
};
use repo::{
    Repository,
    convert::{Converter, Filtering, Worker},
};
use store::objects::{self, ObjectTransaction, StreamError};
use sys::{Dir, FileType, Stat};

use crate::look::content;

/// The treatment of an object after it is hashed.
#[derive(Clone, Copy, Debug)]
pub enum Store<'a> {
    /// The object is staged in this transaction.
    Write(&'a ObjectTransaction<'a>),
    /// The object is only hashed (`--info-only`).
    HashOnly,
}

/// The reason why a file has no object. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("open(\"{path}\"): {}", sys::reason(.source))]
    Open { path: BString, source: io::Error },
    #[error("readlink(\"{path}\"): {}", sys::reason(.source))]
    ReadLink { path: BString, source: io::Error },
    #[error("read error while indexing {path}: {}", sys::reason(.source))]
    Read { path: BString, source: io::Error },
    #[error("short read while indexing {path}")]
    Short { path: BString },
    #[error("unable to stat '{path}': {}", sys::reason(.source))]
    Stat { path: BString, source: io::Error },
    #[error("{path}: unsupported file type")]
    Type { path: BString },
    #[error("'{path}' does not have a commit checked out")]
    NoCommit { path: BString },
    #[error("cannot add a submodule of a different hash algorithm")]
    OtherHash { path: BString },
    #[error("the content of '{path}' collides in SHA-1")]
    Collision { path: BString },
    /// The object could not be stored in the object directory.
    #[error("{source}")]
    Store { objects: PathBuf, source: store::Error },
    /// A filter failed, or `core.safecrlf` refuses the line ends. Git stops at once.
    #[error(transparent)]
    Convert(#[from] repo::Error),
}

/// Hashes files and stores their objects.
pub struct FileHasher<'a> {
    repo: &'a Repository,
    worktree: &'a Dir,
    /// Files larger than this, in bytes, are not read into memory.
    big_file_threshold: u64,
    /// The converter for all files, if the caller has set one.
    given: Option<Worker>,
    worker: Option<Worker>,
    /// A converter for comparing and hashing only, which reports fewer warnings.
    comparing: Option<Worker>,
    messages: Vec<String>,
}

impl<'a> FileHasher<'a> {
    /// Creates a hasher for the files of `worktree`. `big_file_threshold` is the value of
    /// `core.bigFileThreshold`.
    pub fn new(repo: &'a Repository, worktree: &'a Dir, big_file_threshold: u64) -> FileHasher<'a> {
        FileHasher {
            repo,
            worktree,
            big_file_threshold,
            given: None,
            worker: None,
            comparing: None,
            messages: Vec::new(),
        }
    }

    /// Uses this converter for all files that are hashed.
    pub(super) fn with_converter(self, worker: Worker) -> FileHasher<'a> {
        FileHasher { given: Some(worker), ..self }
    }

    /// Takes the messages about the files so far. Each begins with `error: `, `warning: ` or `hint:
    /// `.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Returns the object name of the file at `path`, whose stat data are `stat`, and stores the
    /// object if `store` says so. Attributes come from `index` where the worktree has none.
    pub fn hash(
        &mut self,
        path: &BStr,
        stat: &Stat,
        index: &Index,
        store: Store<'_>,
    ) -> Result<ObjectId, Error> {
        match stat.file_type {
            FileType::File => self.file(path, stat, index, store),
            FileType::Symlink => {
                let target = self.worktree.read_link(path);
                let target = target.map_err(|source| Error::ReadLink { path: path.to_owned(), source })?;
                self.content(path, &target, store)
            }
            FileType::Directory => match super::commit_at(self.repo, path) {
                None => Err(Error::NoCommit { path: path.to_owned() }),
                Some(oid) if oid.kind() != self.repo.hash() => {
                    Err(Error::OtherHash { path: path.to_owned() })
                }
                Some(oid) => Ok(oid),
            },
            FileType::Other => Err(Error::Type { path: path.to_owned() }),
        }
    }

    /// Returns true if the file at `path` has the content of `entry`, regardless of its stat data.
    /// Returns false for an unreadable file.
    pub fn matches_entry(&mut self, entry: &Entry, path: &BStr, stat: &Stat, index: &Index) -> bool {
        let worker = match self.comparing.take() {
            Some(worker) => Ok(worker),
            None => Converter::for_compare(self.repo, index).map(|converter| converter.worker()),
        };
        let Ok(worker) = worker else { return false };
        let worker = self.comparing.insert(worker);
        let named = match stat.file_type {
            FileType::Directory => return false,
            _ => content::hash(self.worktree, path, entry, worker),
        };
        self.messages.extend(worker.take_messages());
        matches!(named, Ok(Some(oid)) if oid == entry.oid)
    }

    fn file(&mut self, path: &BStr, stat: &Stat, index: &Index, store: Store<'_>) -> Result<ObjectId, Error> {
        let file = self.worktree.open_file(path);
        let mut file = file.map_err(|source| Error::Open { path: path.to_owned(), source })?;
        // An object that is only hashed uses a converter without the round-trip check
        // (`core.safecrlf`).
        let slot = match store {
            _ if self.given.is_some() => &mut self.given,
            Store::Write(_) => &mut self.worker,
            Store::HashOnly => &mut self.comparing,
        };
        let worker = match (slot.take(), store) {
            (Some(worker), _) => worker,
            (None, Store::Write(_)) => Converter::for_adding(self.repo, index)?.worker(),
            (None, Store::HashOnly) => Converter::for_compare(self.repo, index)?.worker(),
        };
        let worker = slot.insert(worker);
        let in_pieces = match store {
            Store::Write(_) => stat.size > self.big_file_threshold,
            Store::HashOnly => true,
        };
        if in_pieces && worker.needs_no_conversion(path)? {
            return self.stream(path, stat, &mut file, store);
        }
        if stat.size > content::WHOLE && worker.filters_open_file(path)? {
            let mut filtered = Vec::new();
            let filtered = worker.open_file_to_git(path, &file, &mut filtered);
            self.messages.extend(worker.take_messages());
            return self.content(path, filtered?, store);
        }
        let mut content = Vec::new();
        let read = sys::read_stoppable(&file, stat.size, &mut content);
        read.map_err(|source| Error::Read { path: path.to_owned(), source })?;
        // A filter gets the whole file. Otherwise the content is cut to the size in the stat data:
        // bytes appended later then show as a change.
        if worker.filtering(path)? == Filtering::None {
            if (content.len() as u64) < stat.size {
                return Err(Error::Short { path: path.to_owned() });
            }
            content.truncate(usize::try_from(stat.size).unwrap_or(usize::MAX));
        }
        let mut converted = Vec::new();
        let converted = worker.to_git(path, &content, &mut converted);
        self.messages.extend(worker.take_messages());
        self.content(path, converted?, store)
    }

    /// Hashes or stores a file without conversion. The file is read in pieces, not into memory at
    /// once.
    fn stream(
        &self,
        path: &BStr,
        stat: &Stat,
        file: &mut sys::File,
        store: Store<'_>,
    ) -> Result<ObjectId, Error> {
        let (hash, size) = (self.repo.hash(), stat.size);
        let named = match store {
            Store::Write(objects) => {
                objects.write_stream_unless(hash, size, file, &|oid| self.repo.objects().freshen(oid))
            }
            Store::HashOnly => objects::hash_stream(hash, size, file),
        };
        named.map_err(|error| match error {
            StreamError::Read(source) => Error::Read { path: path.to_owned(), source },
            StreamError::Length => Error::Short { path: path.to_owned() },
            StreamError::Collision => Error::Collision { path: path.to_owned() },
            StreamError::Store(source) => {
                Error::Store { objects: self.repo.objects_dir().to_owned(), source }
            }
        })
    }

    fn content(&self, path: &BStr, content: &[u8], store: Store<'_>) -> Result<ObjectId, Error> {
        let mut hasher = Hasher::object(self.repo.hash(), "blob", content.len() as u64);
        hasher.update(content);
        let oid = hasher.finish().map_err(|_| Error::Collision { path: path.to_owned() })?;
        let Store::Write(objects) = store else { return Ok(oid) };
        if objects.contains(&oid) || self.repo.objects().freshen(&oid) {
            return Ok(oid);
        }
        objects
            .write(&oid, Kind::Blob, content)
            .map_err(|source| Error::Store { objects: self.repo.objects_dir().to_owned(), source })?;
        Ok(oid)
    }
}
