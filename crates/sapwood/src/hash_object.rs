//! The object names of contents, and with [`Request::write`] the objects.
//!
//! Large contents are not read into memory. Objects are published before their names are returned.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, hash_object::{self, Content, Request, Source}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let sources = vec![Source { content: Content::Bytes(b"text\n".to_vec()), path: None }];
//! let plan = hash_object::plan(&repository, Request { sources, ..Request::default() })?;
//! println!("{}", plan.run(&Silent)?.names[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
pub use format::loose::Kind;
use format::{ObjectId, hash::Hasher, index::Index};
use repo::convert::{Converter, Worker};
use store::objects::{ObjectTransaction, StreamError};
use sys::{FileType, by_path};

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, new_commit,
    settings::refused::{self, Reader},
    text,
};

/// A content.
#[derive(Clone, Debug)]
pub enum Content {
    /// That of this file: an absolute path.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// A content, and how it is converted.
#[derive(Clone, Debug)]
pub struct Source {
    /// The content.
    pub content: Content,
    /// The path, relative to the root of the worktree, whose attributes and filters apply; `None`
    /// to convert nothing.
    pub path: Option<BString>,
}

/// The contents.
#[derive(Clone, Debug)]
pub struct Request {
    /// The contents.
    pub sources: Vec<Source>,
    /// The kind of the objects. Only a blob is converted.
    pub kind: Kind,
    /// Write the objects. Those that are no blobs are not checked.
    pub write: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request { sources: Vec::new(), kind: Kind::Blob, write: false }
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The names, in the order of the contents.
    pub names: Vec<ObjectId>,
}

/// Contents to be hashed.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
}

/// Checks the settings for contents.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    refused::check(&repository.inner, &[Reader::Contents]).map_err(Error::from)?;
    Ok(Plan { repository, request })
}

impl Plan<'_> {
    /// Hashes the contents, and publishes the objects.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, request } = self;
        let mut hashing = Hashing::new(repository.recording_context(events), request.kind, request.write);
        for Source { content, path } in request.sources {
            hashing.context.check_interrupt()?;
            match content {
                Content::File(place) => {
                    let shown = BString::from(place.as_os_str().as_encoded_bytes());
                    hashing.file(&place, shown.as_bstr(), path.as_ref())?;
                }
                Content::Bytes(bytes) => hashing.content(Ok((bytes, None)), path.as_ref())?,
            }
        }
        Ok(Report { names: hashing.publish()? })
    }
}

/// A content up to this size, in bytes, is read at once.
const WHOLE: u64 = 1 << 20;

/// Hashes contents, one after the other.
pub struct Hashing<'a> {
    context: Context<'a>,
    kind: Kind,
    write: bool,
    worker: Option<Worker>,
    objects: Option<ObjectTransaction<'a>>,
    /// The names that were not returned yet.
    names: Vec<ObjectId>,
}

impl<'a> Hashing<'a> {
    /// Begins without contents.
    pub fn new(context: Context<'a>, kind: Kind, write: bool) -> Hashing<'a> {
        Hashing { context, kind, write, worker: None, objects: None, names: Vec::new() }
    }

    /// Publishes the objects so far, and returns their names.
    pub fn publish(&mut self) -> Result<Vec<ObjectId>, Error> {
        if let Some(objects) = self.objects.take() {
            objects.publish()?;
        }
        Ok(std::mem::take(&mut self.names))
    }

    /// Hashes the file at `place`, which messages call `named`.
    pub fn file(&mut self, place: &Path, named: &BStr, path: Option<&BString>) -> Result<(), Error> {
        let mut file = by_path::open(place).map_err(|error| {
            Error::Failed(text!("could not open '", named, "' for reading: ", sys::reason(&error)))
        })?;
        let stat = sys::stat_of(&file).map_err(|_| self.failed(path))?;
        let is_file = stat.file_type == FileType::File;
        if is_file && self.is_streamed(stat.size, path)? {
            return self.stream(&mut file, stat.size, path);
        }
        if is_file
            && stat.size > WHOLE
            && let Some(path) = path.filter(|_| self.kind == Kind::Blob)
            && self.worker()?.filters_open_file(path.as_bstr())?
        {
            let mut filtered = Vec::new();
            let result = self.worker()?.open_file_to_git(path.as_bstr(), &file, &mut filtered);
            self.report_messages();
            result?;
            return self.record(&filtered);
        }
        let mut content = Vec::new();
        let read = sys::read_stoppable(&file, stat.size, &mut content).map(|_| content);
        self.content(read.map(|content| (content, is_file.then_some(stat.size))), path)
    }

    /// Hashes one content: the bytes that were read, and the size that they should have.
    pub fn content(
        &mut self,
        read: io::Result<(Vec<u8>, Option<u64>)>,
        path: Option<&BString>,
    ) -> Result<(), Error> {
        let shown = || path.map_or_else(|| "<unknown>".into(), BString::clone);
        let content = match read {
            Ok((content, Some(size))) if (content.len() as u64) < size => {
                self.report(text!("short read while indexing ", shown()));
                return Err(self.failed(path));
            }
            Ok((mut content, size)) => {
                let size = size.and_then(|size| usize::try_from(size).ok());
                content.truncate(size.unwrap_or(content.len()));
                content
            }
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Err(self.failed(path)),
            Err(error) => {
                self.context.check_interrupt()?;
                self.report(text!("read error while indexing ", shown(), ": ", sys::reason(&error)));
                return Err(self.failed(path));
            }
        };
        let mut converted = Vec::new();
        let content: &[u8] = match path.filter(|_| self.kind == Kind::Blob) {
            Some(path) => {
                let result = self.worker()?.to_git(path.as_bstr(), &content, &mut converted);
                self.report_messages();
                result?
            }
            None => &content,
        };
        self.record(content)
    }

    fn record(&mut self, content: &[u8]) -> Result<(), Error> {
        let (repo, kind) = (self.context.repo, self.kind);
        let oid = if self.write {
            new_commit::record(repo, self.transaction(), kind, content)?
        } else {
            let mut hasher = Hasher::object(repo.hash(), &kind.to_string(), content.len() as u64);
            hasher.update(content);
            hasher.finish().map_err(|_| Error::failed("the content is a collision of SHA-1"))?
        };
        self.names.push(oid);
        Ok(())
    }

    /// Returns true for a content that is not read into memory. Only an object that is written
    /// keeps Git's choice of a loose object or a pack.
    pub fn is_streamed(&mut self, size: u64, path: Option<&BString>) -> Result<bool, Error> {
        let least = if self.write { self.context.settings.big_file_threshold } else { WHOLE };
        if size <= least || self.kind != Kind::Blob {
            return Ok(false);
        }
        match path {
            Some(path) => Ok(self.worker()?.needs_no_conversion(path.as_bstr())?),
            None => Ok(true),
        }
    }

    /// Hashes a content in pieces.
    pub fn stream(
        &mut self,
        file: &mut dyn io::Read,
        size: u64,
        path: Option<&BString>,
    ) -> Result<(), Error> {
        let repo = self.context.repo;
        let exists = |oid: &_| repo.objects().freshen(oid);
        let named = if self.write {
            self.transaction().write_stream_unless(repo.hash(), size, file, &exists)
        } else {
            store::objects::hash_stream(repo.hash(), size, file)
        };
        match named {
            Ok(oid) => self.names.push(oid),
            Err(StreamError::Store(error)) => return Err(error.into()),
            Err(error) => {
                self.context.check_interrupt()?;
                self.report(error.to_string());
                return Err(self.failed(path));
            }
        }
        Ok(())
    }

    fn worker(&mut self) -> Result<&mut Worker, Error> {
        let repo = self.context.repo;
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None if self.write => Converter::for_adding(repo, &Index::empty(repo.hash()))?.worker(),
            None => Converter::for_compare(repo, &Index::empty(repo.hash()))?.worker(),
        };
        Ok(self.worker.insert(worker))
    }

    fn transaction(&mut self) -> &ObjectTransaction<'a> {
        let Context { repo, settings, .. } = self.context;
        self.objects.get_or_insert_with(|| ObjectTransaction::new(settings.objects(repo)))
    }

    fn report(&self, message: impl Into<BString>) {
        self.context.events.notice(Notice::NotHashed(message.into()));
    }

    fn report_messages(&mut self) {
        for message in self.worker.iter_mut().flat_map(Worker::take_messages) {
            self.context.events.notice(Notice::Converter(message.to_string()));
        }
    }

    /// Returns the error of a content that could not be hashed.
    fn failed(&self, path: Option<&BString>) -> Error {
        let path = path.map_or_else(|| "(null)".into(), BString::clone);
        Error::Failed(if self.write {
            text!("Unable to add ", path, " to database")
        } else {
            text!("Unable to hash ", path)
        })
    }
}
