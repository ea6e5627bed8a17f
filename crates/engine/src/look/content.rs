//! Reads worktree files as blobs: converts their bytes, and computes their object names.

use std::{
    convert::Infallible,
    io::{self, Read as _},
    sync::{Arc, Mutex, OnceLock},
};

use bstr::BStr;
use format::{
    HashKind, Mode, ObjectId,
    hash::Hasher,
    index::{Entry, Index},
};
use repo::convert::Converter;
use store::objects::{self, StreamError};
use sys::{Dir, File};

use super::facts::is_obstacle;
use crate::{
    crew::{self, Meter, Tuning},
    look::LookError,
};

/// Files up to this size, in bytes, are read at once.
pub(crate) const WHOLE: u64 = 1 << 20;

/// The cost of reading and hashing a file, in steps of about one written file each.
const STEPS_PER_FILE: usize = 8;

/// Converts a worktree file's bytes into a blob's. Tests use one that leaves them unchanged.
pub(crate) trait Cleaning: Sync {
    /// Creates the converter for one thread.
    fn worker(&self) -> Box<dyn CleaningWorker + '_>;

    /// Prints the messages of the workers, in the order of the entries.
    fn print_messages(&self, _messages: Vec<String>) {}
}

/// The converter of one thread.
pub(crate) trait CleaningWorker: Send {
    /// Converts the content of the file at `path`. Returns `file` itself or the content of `out`.
    fn to_git<'a>(
        &mut self,
        path: &BStr,
        file: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], LookError>;

    /// Returns true if the file at `path` becomes a blob without conversion, so that it can be read
    /// in pieces.
    fn needs_no_conversion(&mut self, _path: &BStr) -> Result<bool, LookError> {
        Ok(false)
    }

    /// Converts an open file, for a filter that reads it in pieces. Returns false if the path has
    /// no such filter, and nothing is read.
    fn open_file_to_git(
        &mut self,
        _path: &BStr,
        _file: &File,
        _out: &mut Vec<u8>,
    ) -> Result<bool, LookError> {
        Ok(false)
    }

    /// Returns the messages that Git would have printed since the last call.
    fn take_messages(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Returns a bool for each of `entries`: true if its file has the entry's content. Prints the
/// messages of the conversion each time, as Git does. `meter` counts the entries.
pub(crate) fn same_content(
    root: &Dir,
    index: &Index,
    entries: &[usize],
    cleaning: &dyn Cleaning,
    meter: Option<&Meter>,
) -> Result<Vec<bool>, LookError> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let compared = crew::map(
        "hash",
        &Tuning::default(),
        entries,
        |_| STEPS_PER_FILE,
        &Mutex::new(Vec::new()),
        |_| cleaning.worker(),
        |worker, &at| {
            let entry = &index.entry(at);
            let path = index.path(entry);
            let is_same = hash(root, path, entry, &mut **worker).map(|oid| oid == Some(entry.oid));
            if let Some(meter) = meter {
                meter.add(1);
            }
            Ok::<_, Infallible>((is_same, worker.take_messages()))
        },
    );
    let Ok(compared) = compared;
    let in_order = compared.into_iter().map(|(is_same, messages)| {
        cleaning.print_messages(messages);
        is_same
    });
    in_order.collect()
}

/// Computes the object ID that the worktree file would get. Returns `None` if the file is missing.
pub(crate) fn hash(
    root: &Dir,
    path: &BStr,
    entry: &Entry,
    worker: &mut dyn CleaningWorker,
) -> Result<Option<ObjectId>, LookError> {
    let named = hash_sized(root, path, entry.mode, entry.oid.kind(), worker)?;
    Ok(named.map(|(oid, _)| oid))
}

/// Like [`hash`], for a file of this mode. Returns the size of the blob too. A large file that
/// needs no conversion is read in pieces.
pub(crate) fn hash_sized(
    root: &Dir,
    path: &BStr,
    mode: Mode,
    kind: HashKind,
    worker: &mut dyn CleaningWorker,
) -> Result<Option<(ObjectId, u64)>, LookError> {
    let examine = |source| LookError::examine(path, source);
    let file = match open(root, path, mode)? {
        Opened::Missing => return Ok(None),
        Opened::Link(target) => return Ok(Some((name(kind, &target), target.len() as u64))),
        Opened::File(file) => file,
    };
    let size = sys::stat_of(&file).map_err(examine)?.size;
    if size > WHOLE && (mode.is_symlink() || worker.needs_no_conversion(path)?) {
        return Ok(Some((stream(kind, size, file).map_err(examine)?, size)));
    }
    let mut buffers = Buffers::default();
    let content = read(&file, path, mode, size, worker, &mut buffers)?;
    Ok(Some((name(kind, content), content.len() as u64)))
}

/// Computes the name of a large file. A file that changes meanwhile gets the null ID, which no
/// object has.
fn stream(kind: HashKind, size: u64, mut file: File) -> io::Result<ObjectId> {
    match objects::hash_stream(kind, size, &mut file) {
        Ok(oid) if file.read(&mut [0])? == 0 => Ok(oid),
        Ok(_) | Err(StreamError::Length | StreamError::Collision) => Ok(ObjectId::null(kind)),
        Err(StreamError::Read(error)) => Err(error),
        Err(StreamError::Store(_)) => unreachable!("nothing is stored"),
    }
}

/// Computes a blob's object ID. For a SHA-1 collision attack, returns the null ID, which no object
/// has.
pub(crate) fn name(kind: HashKind, content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(kind, "blob", content.len() as u64);
    hasher.update(content);
    hasher.finish().unwrap_or(ObjectId::null(kind))
}

/// Buffers for [`cleaned`], reused for each file.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) file: Vec<u8>,
    pub(crate) converted: Vec<u8>,
}

/// Reads the worktree file of an entry with this mode, converted to a blob. The content is in one
/// of the buffers. Returns `None` if the file is missing.
pub(crate) fn cleaned<'a>(
    root: &Dir,
    path: &BStr,
    mode: Mode,
    worker: &mut dyn CleaningWorker,
    buffers: &'a mut Buffers,
) -> Result<Option<&'a [u8]>, LookError> {
    let file = match open(root, path, mode)? {
        Opened::Missing => return Ok(None),
        Opened::Link(target) => {
            buffers.file = target;
            return Ok(Some(&buffers.file));
        }
        Opened::File(file) => file,
    };
    let size = sys::stat_of(&file).map_err(|source| LookError::examine(path, source))?.size;
    read(&file, path, mode, size, worker, buffers).map(Some)
}

/// A worktree file.
enum Opened {
    Missing,
    /// A symbolic link: its target.
    Link(Vec<u8>),
    /// A file. If `core.symlinks` is off, a link is a regular file that contains the link's target.
    File(File),
}

fn open(root: &Dir, path: &BStr, mode: Mode) -> Result<Opened, LookError> {
    if mode.is_symlink()
        && let Ok(target) = root.read_link(path)
    {
        return Ok(Opened::Link(target));
    }
    match root.open_file(path) {
        Ok(file) => Ok(Opened::File(file)),
        Err(error) if is_obstacle(&error) => Ok(Opened::Missing),
        Err(error) => Err(LookError::examine(path, error)),
    }
}

/// Reads and converts an open file of `size` bytes.
fn read<'a>(
    file: &File,
    path: &BStr,
    mode: Mode,
    size: u64,
    worker: &mut dyn CleaningWorker,
    buffers: &'a mut Buffers,
) -> Result<&'a [u8], LookError> {
    let Buffers { file: content, converted } = buffers;
    content.clear();
    if size > WHOLE && mode.is_file() && worker.open_file_to_git(path, file, converted)? {
        return Ok(converted);
    }
    sys::read_stoppable(file, size, content).map_err(|source| LookError::examine(path, source))?;
    if mode.is_symlink() { Ok(content) } else { worker.to_git(path, content, converted) }
}

impl Cleaning for Converter {
    fn worker(&self) -> Box<dyn CleaningWorker + '_> {
        Box::new(Converter::worker(self))
    }
}

impl CleaningWorker for repo::convert::Worker {
    fn to_git<'a>(
        &mut self,
        path: &BStr,
        file: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], LookError> {
        Ok(repo::convert::Worker::to_git(self, path, file, out)?)
    }

    fn needs_no_conversion(&mut self, path: &BStr) -> Result<bool, LookError> {
        Ok(repo::convert::Worker::needs_no_conversion(self, path)?)
    }

    fn open_file_to_git(&mut self, path: &BStr, file: &File, out: &mut Vec<u8>) -> Result<bool, LookError> {
        let is_filtered = self.filters_open_file(path)?;
        if is_filtered {
            let length = repo::convert::Worker::open_file_to_git(self, path, file, out)?.len();
            debug_assert_eq!(length, out.len(), "the filter's output");
        }
        Ok(is_filtered)
    }

    fn take_messages(&mut self) -> Vec<String> {
        repo::convert::Worker::take_messages(self)
    }
}

/// A converter that loads the attributes when the first content has to be converted.
pub(crate) struct LazyConverter<'a> {
    pub(crate) repo: &'a repo::Repository,
    pub(crate) index: &'a Index,
    pub(crate) converter: OnceLock<Result<Converter, Arc<repo::Error>>>,
    load: fn(&repo::Repository, &Index) -> Result<Converter, repo::Error>,
}

impl<'a> LazyConverter<'a> {
    pub(crate) fn new(repo: &'a repo::Repository, index: &'a Index) -> Self {
        LazyConverter { repo, index, converter: OnceLock::new(), load: Converter::for_compare }
    }

    /// Creates a converter for showing file contents. It warns if the conversion cannot be
    /// reversed.
    pub(crate) fn for_showing(repo: &'a repo::Repository, index: &'a Index) -> Self {
        LazyConverter { load: Converter::for_showing, ..LazyConverter::new(repo, index) }
    }
}

impl Cleaning for LazyConverter<'_> {
    fn worker(&self) -> Box<dyn CleaningWorker + '_> {
        let loaded = self.converter.get_or_init(|| (self.load)(self.repo, self.index).map_err(Arc::new));
        match loaded {
            Ok(converter) => Box::new(Converter::worker(converter)),
            Err(error) => Box::new(FailedConverter(error)),
        }
    }

    fn print_messages(&self, messages: Vec<String>) {
        self.repo.message_sink().print(messages);
    }
}

/// Replaces a converter that could not be loaded. Every use returns the error.
struct FailedConverter<'a>(&'a Arc<repo::Error>);

impl CleaningWorker for FailedConverter<'_> {
    fn to_git<'a>(&mut self, _: &BStr, _: &'a [u8], _: &'a mut Vec<u8>) -> Result<&'a [u8], LookError> {
        Err(LookError::Converter(Arc::clone(self.0)))
    }
}
