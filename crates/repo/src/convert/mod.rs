//! Conversions between blobs and files: line ends, `$Id$`, encodings, and filters.
//!
//! A [`Converter`] is built once from an index and shared; each thread has its own [`Worker`]. If
//! neither configuration nor attributes ask for conversion, each path is [`Class::None`] after one
//! comparison. A checkout reads attributes from the index first and then from the worktree.
//! Restoring paths and comparing files read them in the opposite order.
//!
//! The steps to the worktree are ident, line ends, encoding, filter; the steps to Git are the
//! reverse. A step that fails and is not required is skipped with a message, as in Git: see
//! [`Worker::take_messages`]. Source: gitattributes(5).

mod arriving;
pub(crate) mod attributes;
pub(crate) mod encoding;
mod filter;
mod lfs;
mod shared;
mod storing;
mod text;

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use format::{Mode, ObjectId, index::Index};
use sys::profile::{self, Phase};

use crate::{ConvertError, Error, Repository, filter_process::Input};
pub use arriving::Arriving;
use attributes::{File, Values};
pub use filter::{Delays, ExternalFilters, Metadata, Smudged, any_required_driver_cannot_smudge};
pub use shared::outside_attributes;
use shared::{Action, Direction, Shared, Tables, Text};
use storing::Storing;
use text::LineEnds;
pub use text::describe as describe_line_ends;

/// The kind of conversion that a path needs for a checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No conversion.
    None,
    /// eol, ident or working-tree-encoding: in memory, on any thread.
    InProcess,
    /// A smudge command or a long-running process.
    External,
}

/// The program by which a file becomes a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// No program.
    None,
    /// A command for each file.
    Command,
    /// A long-running process, which serves one file at a time.
    Process,
}

/// The settings and attributes of conversion, shared by all threads.
pub struct Converter {
    shared: Arc<Shared>,
}

impl Converter {
    /// Makes a converter for writing files. `index` is the index to check out. The caller may
    /// remove files after this call: attribute files in the worktree are read when the first path
    /// is looked up.
    pub fn for_checkout(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        Ok(Converter { shared: Arc::new(Shared::load(repo, index, Direction::Checkout)?) })
    }

    /// Like [`Converter::for_checkout`], for files outside of the worktree: attribute files in the
    /// worktree do not count.
    pub fn for_tree(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        Ok(Converter { shared: Arc::new(Shared::load(repo, index, Direction::Tree)?) })
    }

    /// Like [`Converter::for_checkout`], for paths that are restored. An attribute file that is in
    /// the worktree now has precedence, even if the command overwrites it. Where `renewed` returns
    /// true for a directory, the index has precedence.
    pub fn for_restore(
        repo: &Repository,
        index: &Index,
        renewed: impl Fn(&[u8]) -> bool,
    ) -> Result<Converter, Error> {
        let mut shared = Shared::load(repo, index, Direction::Restore)?;
        shared.prefer_worktree(renewed);
        Ok(Converter { shared: Arc::new(shared) })
    }

    /// Makes a converter for comparing files with `index` ([`Worker::to_git`]).
    pub fn for_compare(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        Ok(Converter { shared: Arc::new(Shared::load(repo, index, Direction::Compare)?) })
    }

    /// Like [`Converter::for_compare`], for content that will be stored. A conversion that a
    /// checkout would not undo gives a warning or an error (`core.safecrlf`,
    /// `core.checkRoundtripEncoding`).
    pub fn for_adding(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        let mut shared = Shared::load(repo, index, Direction::Compare)?;
        shared.storing = Some(Storing::of(repo)?);
        Ok(Converter { shared: Arc::new(shared) })
    }

    /// Like [`Converter::for_compare`], for content that is only shown. A conversion that a
    /// checkout would not undo gives a warning (`core.safecrlf`).
    pub fn for_showing(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        let mut shared = Shared::load(repo, index, Direction::Compare)?;
        shared.storing = Some(Storing::for_showing(repo)?);
        Ok(Converter { shared: Arc::new(shared) })
    }

    /// Like [`Converter::for_compare`], for content that is stored with the line ends that the
    /// attributes ask for, whatever those in the index are (`--renormalize`).
    pub fn for_renormalizing(repo: &Repository, index: &Index) -> Result<Converter, Error> {
        let mut shared = Shared::load(repo, index, Direction::Compare)?;
        shared.index = None;
        Ok(Converter { shared: Arc::new(shared) })
    }

    /// Returns true if a long-running process is configured that converts files to blobs.
    pub fn may_start_processes(&self) -> bool {
        self.shared.drivers.iter().any(|driver| driver.cleans() == Filtering::Process)
    }

    /// Sets the metadata about the checkout that filters receive.
    pub fn with_metadata(mut self, metadata: Metadata) -> Converter {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.metadata = metadata;
        }
        self
    }

    /// Returns true if no path needs conversion. This needs no lookup of a path.
    pub fn is_idle(&self) -> bool {
        self.shared.tables().idle
    }

    /// Returns a worker for one thread.
    pub fn worker(&self) -> Worker {
        Worker::new(&self.shared)
    }

    /// Returns the external filters, for one thread.
    pub fn external(&self, delays: Delays) -> ExternalFilters {
        ExternalFilters::new(Worker::new(&self.shared), delays)
    }
}

/// The converter of one thread. If paths come in index order, each directory's attributes are
/// looked up once.
pub struct Worker {
    shared: Arc<Shared>,
    /// The directory of the last path.
    dir: BString,
    /// The attribute files from the top to `dir`, each with the length of its directory's path.
    files: Vec<(Option<Arc<File>>, usize)>,
    /// True if `core.autocrlf` is set or one of the attribute files is not empty.
    may_convert: bool,
    values: Values,
    /// The last path and its action.
    last: Option<(BString, Action)>,
    spare: Vec<u8>,
    messages: Vec<String>,
}

impl Worker {
    fn new(shared: &Arc<Shared>) -> Worker {
        Worker {
            shared: Arc::clone(shared),
            dir: BString::default(),
            files: Vec::new(),
            may_convert: false,
            values: Values::default(),
            last: None,
            spare: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Returns the kind of conversion that a path of this mode needs.
    pub fn class(&mut self, path: &BStr, mode: Mode) -> Result<Class, Error> {
        if !mode.is_file() {
            return Ok(Class::None);
        }
        let Some(action) = self.action(path)? else { return Ok(Class::None) };
        Ok(if action.smudge_driver().is_some_and(|at| self.shared.drivers[at].acts_on_checkout()) {
            Class::External
        } else if action.ident || action.ends.adds_cr() || action.encoding.is_some() {
            Class::InProcess
        } else {
            Class::None
        })
    }

    /// Returns the bytes to write: `blob` itself or `out`. For [`Class::External`] it runs the
    /// filter and waits for it.
    pub fn to_worktree<'a>(
        &mut self,
        path: &BStr,
        oid: ObjectId,
        blob: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        let Some(action) = self.action(path)? else { return Ok(blob) };
        let _phase = profile::span(Phase::Convert);
        let spare = std::mem::take(&mut self.spare);
        let mut content = Content { input: blob, out, spare, changed: false };
        self.in_process(path, oid, &action, &mut content);
        if let Some(driver) = action.smudge_driver() {
            let job = filter::Job { path, oid, driver, delay: false };
            if let Smudged::Ready(filtered) = self.smudge(&job, content.bytes())? {
                content.replace(filtered);
            }
        }
        let (bytes, spare) = content.finish();
        self.spare = spare;
        Ok(bytes)
    }

    /// Returns true if the file at `path` becomes a blob without conversion.
    pub fn needs_no_conversion(&mut self, path: &BStr) -> Result<bool, Error> {
        Ok(self.action(path)?.is_none())
    }

    /// Returns the program that the file at `path` passes through on its way to a blob.
    pub fn filtering(&mut self, path: &BStr) -> Result<Filtering, Error> {
        let driver = self.action(path)?.and_then(|action| action.driver);
        Ok(driver.map_or(Filtering::None, |at| self.shared.drivers[at].cleans()))
    }

    /// Returns the content of the blob: `file` itself or `out`. Used to compare a file with its
    /// blob and to store it.
    pub fn to_git<'a>(
        &mut self,
        path: &BStr,
        file: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        self.convert_to_git(path, Input::Bytes(file), file, out)
    }

    /// Like [`Worker::to_git`], for an open file and a path with [`Worker::filters_open_file`].
    pub fn open_file_to_git<'a>(
        &mut self,
        path: &BStr,
        file: &sys::File,
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        self.convert_to_git(path, Input::File(file), b"", out)
    }

    /// `input` is the filter's; `file` is the content where no filter replaces it.
    fn convert_to_git<'a>(
        &mut self,
        path: &BStr,
        input: Input<'_>,
        file: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        let Some(action) = self.action(path)? else { return Ok(file) };
        let _phase = profile::span(Phase::Convert);
        let spare = std::mem::take(&mut self.spare);
        let mut content = Content { input: file, out, spare, changed: false };
        if let Some(driver) = action.driver
            && let Some(filtered) = self.clean(path, driver, input)?
        {
            content.replace(filtered);
        }
        let shared = &self.shared;
        if let Some(name) = &action.encoding {
            let mut failed = None;
            let round_trip =
                shared.storing.as_ref().is_some_and(|storing| storing.checks_round_trip(name.as_bstr()));
            let before = round_trip.then(|| content.bytes().to_vec());
            content.step(|bytes, to| {
                match encoding::to_git(path, name.as_bstr(), bytes, to, &mut self.messages) {
                    Ok(()) => true,
                    Err(error) => {
                        failed = error;
                        false
                    }
                }
            });
            match failed {
                Some(error) if shared.storing.as_ref().is_some_and(|storing| storing.refuses) => {
                    return Err(error.into());
                }
                Some(error) => self.messages.push(format!("error: {error}")),
                None => {}
            }
            if before.is_some_and(|before| !encoding::round_trips(name.as_bstr(), &before, content.bytes())) {
                return Err(ConvertError::RoundTrip { path: path.to_owned(), encoding: name.clone() }.into());
            }
        }
        let mut lost = None;
        content.step(|bytes, to| {
            let done = text::line_ends_to_git(bytes, action.ends, || shared.indexed_blob(path), to);
            lost = done.lost;
            done.converted
        });
        if let (Some(lost), Some(storing)) = (lost, &shared.storing) {
            self.messages.extend(storing.message_about_lost(path, lost)?);
        }
        if action.ident {
            content.step(text::ident_to_git);
        }
        let (bytes, spare) = content.finish();
        self.spare = spare;
        Ok(bytes)
    }

    /// Returns the messages that Git would have printed; each begins with `error: ` or `warning: `.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Applies the steps of a checkout that precede the filter.
    fn in_process(&mut self, path: &BStr, oid: ObjectId, action: &Action, content: &mut Content<'_>) {
        if action.ident && action.streamed {
            content.step(|bytes, to| text::ident_streamed(bytes, oid, to));
        } else if action.ident {
            content.step(|bytes, to| text::ident_to_worktree(bytes, self.shared.hash, to));
        }
        content.step(|bytes, to| text::line_ends_to_worktree(bytes, action.ends, to));
        if let Some(name) = &action.encoding {
            content
                .step(|bytes, to| encoding::to_worktree(path, name.as_bstr(), bytes, to, &mut self.messages));
        }
    }

    /// Describes the attributes of a path that concern line ends, as `ls-files --eol` does.
    pub fn describe_attributes(&mut self, path: &BStr) -> &'static str {
        let shared = Arc::clone(&self.shared);
        let tables = shared.tables();
        if !tables.idle && self.look_up(&shared, tables, path) {
            Text::of(&self.values).describe()
        } else {
            ""
        }
    }

    /// Returns the action for a path; `None` if it needs no conversion.
    fn action(&mut self, path: &BStr) -> Result<Option<Action>, Error> {
        let shared = Arc::clone(&self.shared);
        let tables = shared.tables();
        if tables.idle {
            return Ok(None);
        }
        if let Some((last, action)) = &self.last
            && last == path
        {
            return Ok(Some(action.clone()));
        }
        let _phase = profile::span(Phase::Convert);
        if !self.look_up(&shared, tables, path) {
            return Ok(None);
        }
        let action = shared.action(&self.values)?;
        if action.is_none() {
            return Ok(None);
        }
        self.last = Some((path.to_owned(), action.clone()));
        Ok(Some(action))
    }

    /// Looks up the attributes of a path; returns false if no attribute applies to it.
    fn look_up(&mut self, shared: &Shared, tables: &Tables, path: &BStr) -> bool {
        let dir = path[..path.rfind_byte(b'/').unwrap_or(0)].as_bstr();
        if self.files.is_empty() || self.dir != dir {
            self.enter(shared, tables, dir);
        }
        if !self.may_convert {
            return false;
        }
        let nested = self.files.iter().rev().filter_map(|(file, dir)| Some((file.as_deref()?, *dir)));
        let files = std::iter::once((&tables.info, 0))
            .chain(nested)
            .chain(tables.weakest.iter().rev().map(|file| (file, 0)));
        tables.names.lookup(path, shared.settings.fold_case, files, &mut self.values);
        true
    }

    /// Moves to a directory: keeps the files of the common ancestors and reads the others.
    fn enter(&mut self, shared: &Shared, tables: &Tables, dir: &BStr) {
        let both = |len: usize| {
            len == 0
                || (self.dir.get(..len) == dir.get(..len)
                    && matches!(self.dir.get(len), None | Some(b'/'))
                    && matches!(dir.get(len), None | Some(b'/')))
        };
        let kept = self.files.iter().take_while(|(_, len)| *len <= dir.len() && both(*len)).count();
        self.files.truncate(kept);
        if self.files.is_empty() {
            self.files.push((tables.root.clone(), 0));
        }
        let done = self.files.last().map_or(0, |(_, len)| *len);
        let ends = dir.find_iter("/").chain((!dir.is_empty()).then_some(dir.len()));
        for end in ends.filter(|end| *end > done) {
            self.files.push((shared.file_of(tables, dir[..end].as_bstr()), end));
        }
        self.dir = dir.to_owned();
        let shared_files = tables.weakest.iter().chain([&tables.info]);
        let mut files = self.files.iter().filter_map(|(file, _)| file.as_deref()).chain(shared_files);
        self.may_convert = shared.settings.auto != LineEnds::Keep || files.any(|file| !file.is_empty());
    }
}

/// The bytes between the steps of a conversion.
struct Content<'a> {
    input: &'a [u8],
    out: &'a mut Vec<u8>,
    spare: Vec<u8>,
    /// True if the bytes are in `out`, not in `input`.
    changed: bool,
}

impl Content<'_> {
    fn bytes(&self) -> &[u8] {
        if self.changed { self.out } else { self.input }
    }

    /// Runs a step, which fills a buffer and returns true if the result replaces the bytes.
    fn step(&mut self, step: impl FnOnce(&[u8], &mut Vec<u8>) -> bool) {
        self.spare.clear();
        let bytes = if self.changed { self.out.as_slice() } else { self.input };
        if step(bytes, &mut self.spare) {
            std::mem::swap(self.out, &mut self.spare);
            self.changed = true;
        }
    }

    fn replace(&mut self, bytes: Vec<u8>) {
        *self.out = bytes;
        self.changed = true;
    }
}

impl<'a> Content<'a> {
    /// Returns the bytes, and the spare buffer.
    fn finish(self) -> (&'a [u8], Vec<u8>) {
        (if self.changed { self.out } else { self.input }, self.spare)
    }
}
