//! Reads worktree files as blobs: converts their bytes, and computes their object names.

use std::{
    convert::Infallible,
    io::Read as _,
    sync::{Arc, Mutex, OnceLock},
};

use bstr::BStr;
use format::{
    HashKind, Mode, ObjectId,
    hash::Hasher,
    index::{Entry, Index},
};
use repo::convert::Converter;
use sys::Dir;

use super::facts::is_obstacle;
use crate::{
    crew::{self, Meter, Tuning},
    look::LookError,
};

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
    let mut buffers = Buffers::default();
    let content = cleaned(root, path, entry.mode, worker, &mut buffers)?;
    Ok(content.map(|content| name(entry.oid.kind(), content)))
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
    let examine = |source| LookError::Examine { path: path.to_owned(), source };
    let Buffers { file, converted } = buffers;
    file.clear();
    if mode.is_symlink()
        && let Ok(target) = root.read_link(path)
    {
        *file = target;
        return Ok(Some(file));
    }
    // If `core.symlinks` is off, a link is a regular file that contains the link's target.
    match root.open_file(path) {
        Ok(mut open) => open.read_to_end(file).map_err(examine)?,
        Err(error) if is_obstacle(&error) => return Ok(None),
        Err(error) => return Err(examine(error)),
    };
    if mode.is_symlink() { Ok(Some(file)) } else { Ok(Some(worker.to_git(path, file, converted)?)) }
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
