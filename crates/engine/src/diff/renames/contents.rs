//! Object names, sizes and chunks of many files, read in parallel from objects and the worktree.

use std::sync::{Mutex, PoisonError};

use bstr::{BStr, BString, ByteSlice as _};
use format::{HashKind, ObjectId, index::Index};
use repo::{
    Repository,
    attributes::{Attributes, Source, Value},
    keys,
    objects::Reader,
};
use sys::Dir;

use super::{
    super::{Pair, Side, WorktreeFiles},
    spans::{self, Spans},
};
use crate::{
    crew::{self, Tuning},
    look::{
        LookError,
        content::{self, Buffers, Cleaning as _, CleaningWorker, LazyConverter},
    },
};

/// Reading a file costs about as much as this many steps. A step is the writing of a file.
const STEPS_PER_FILE: usize = 8;

/// The attribute that marks a file as text or binary.
const DIFF_ATTRIBUTE: &str = "diff";

/// The kinds of content that a caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::diff) enum Kind {
    Any,
    Text,
}

/// The location of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::diff) enum Location {
    Objects,
    Worktree,
}

/// One side of a pair, with the facts found so far.
pub(in crate::diff) struct File {
    /// The number of the pair.
    pub(in crate::diff) pair: usize,
    pub(super) path: BString,
    pub(super) side: Side,
    pub(super) location: Location,
    /// True for a submodule with changes within.
    is_dirty_within: bool,
    /// The size in bytes. `None` if it is unknown or the file no longer exists.
    pub(in crate::diff) size: Option<u64>,
    pub(in crate::diff) spans: Option<Spans>,
}

impl File {
    /// Creates a side of the pair with number `at`.
    pub(in crate::diff) fn new(at: usize, pair: &Pair, side: Side) -> File {
        let location = if side.oid.is_some() { Location::Objects } else { Location::Worktree };
        let (path, is_dirty_within) = (pair.path.clone(), pair.submodule_changes.is_within());
        File { pair: at, path, side, location, is_dirty_within, size: None, spans: None }
    }

    /// Creates a side for callers that need only its content.
    pub(in crate::diff) fn for_content(
        pair: usize,
        path: &BString,
        side: Side,
        in_worktree: bool,
        is_dirty_within: bool,
    ) -> File {
        let location = if in_worktree { Location::Worktree } else { Location::Objects };
        File { pair, path: path.clone(), side, location, is_dirty_within, size: None, spans: None }
    }

    /// Returns true for a regular file. Only these are compared by content.
    pub(super) fn is_regular(&self) -> bool {
        self.side.mode.is_file()
    }
}

/// The sources of contents.
pub(in crate::diff) struct Contents<'a> {
    repo: &'a Repository,
    worktree: Option<(&'a Dir, LazyConverter<'a>)>,
    /// Loaded for the first file that needs attributes.
    attributes: Mutex<Option<Attributes<&'a Repository, &'a Index>>>,
}

/// The state of one thread.
struct Worker<'a> {
    kind: HashKind,
    reader: Reader<'a>,
    worktree: Option<(&'a Dir, Box<dyn CleaningWorker + 'a>)>,
    buffers: Buffers,
}

impl<'a> Contents<'a> {
    pub(in crate::diff) fn new(repo: &'a Repository, worktree: Option<WorktreeFiles<'a>>) -> Contents<'a> {
        let worktree = worktree.map(|files| (files.root, LazyConverter::new(repo, files.index)));
        Contents { repo, worktree, attributes: Mutex::new(None) }
    }

    /// Like [`Contents::new`]; [`Contents::evaluate`] and [`Contents::measure_and_cut`] then return
    /// warnings about line ends that would not round-trip.
    pub(in crate::diff) fn with_warnings(repo: &'a Repository, files: WorktreeFiles<'a>) -> Contents<'a> {
        Contents {
            repo,
            worktree: Some((files.root, LazyConverter::for_showing(repo, files.index))),
            attributes: Mutex::new(None),
        }
    }

    /// Sets the object names and sizes of worktree files. A file that no longer exists gets none.
    pub(super) fn name(&self, files: &mut [&mut File]) -> Result<(), LookError> {
        let kind = self.repo.hash();
        let found = self.each(files, |worker, file| worker.name(file, kind))?;
        for (file, found) in files.iter_mut().zip(found) {
            (file.side.oid, file.size) = found.unzip();
        }
        Ok(())
    }

    /// Sets the sizes of objects.
    pub(in crate::diff) fn measure(&self, files: &mut [&mut File]) -> Result<(), LookError> {
        let mut unknown: Vec<&mut File> = Vec::new();
        for file in files {
            if file.size.is_none() && file.location == Location::Objects && file.is_regular() {
                unknown.push(file);
            }
        }
        let sizes = self.each(&unknown, |worker, file| match file.side.oid {
            Some(oid) => Ok(Some(worker.reader.size(&oid)?)),
            None => Ok(None),
        })?;
        unknown.iter_mut().zip(sizes).for_each(|(file, size)| file.size = size);
        Ok(())
    }

    /// Cuts contents into chunks, unless they already are.
    pub(super) fn cut(&self, files: &mut [&mut File]) -> Result<(), LookError> {
        let mut whole: Vec<&mut File> = Vec::new();
        for file in files {
            if file.spans.is_none() {
                whole.push(file);
            }
        }
        let spans = self.each(&whole, |worker, file| {
            let content = worker.content(file)?;
            content.map(|content| Ok(Spans::of(content, self.is_text(&file.path, content)?))).transpose()
        })?;
        whole.iter_mut().zip(spans).for_each(|(file, spans)| file.spans = spans);
        Ok(())
    }

    /// Sets sizes and cuts contents, of objects and worktree files. A file that no longer exists
    /// gets none. Returns the warnings that Git prints while it reads the files.
    pub(in crate::diff) fn measure_and_cut(&self, files: &mut [&mut File]) -> Result<Vec<String>, LookError> {
        let found = self.each(files, |worker, file| {
            let Some(content) = worker.content(file)? else { return Ok((None, worker.messages())) };
            let spans = Spans::of(content, self.is_text(&file.path, content)?);
            let size = content.len() as u64;
            Ok((Some((size, spans)), worker.messages()))
        })?;
        let mut warnings = Vec::new();
        for (file, (found, messages)) in files.iter_mut().zip(found) {
            (file.size, file.spans) = found.unzip();
            warnings.extend(messages);
        }
        Ok(warnings)
    }

    /// Evaluates `predicate` on the contents of each pair's sides; a missing side is empty. Returns
    /// false for a pair of another kind. Also returns the warnings that Git prints while it reads
    /// the files.
    pub(in crate::diff) fn evaluate(
        &self,
        pairs: &[[Option<File>; 2]],
        kind: Kind,
        predicate: impl Fn(&[u8], &[u8]) -> bool + Sync,
    ) -> Result<Vec<(bool, Vec<String>)>, LookError> {
        // A larger file is binary, unless an attribute marks it as text.
        let big_file_threshold = self.repo.config(&keys::core::BIG_FILE_THRESHOLD)?;
        self.map(pairs, |worker, sides| {
            let mut contents = [Vec::new(), Vec::new()];
            let mut warnings = Vec::new();
            for (side, known) in sides.iter().zip(&mut contents) {
                let Some(file) = side else { continue };
                let unreadable = || repo::Error::new(String::from("unable to read files to diff"));
                let content = worker.content(file)?.ok_or_else(unreadable)?;
                known.extend_from_slice(content);
                let messages = worker.messages();
                let is_small = known.len() as u64 <= big_file_threshold;
                let by_content = || spans::looks_like_text(known) && is_small;
                if kind == Kind::Text && !self.is_text_by_attribute(&file.path, by_content())? {
                    // Git does not read a file that is binary regardless of its content.
                    if is_small && self.is_text_by_attribute(&file.path, true)? {
                        warnings.extend(messages);
                    }
                    return Ok((false, warnings));
                }
                warnings.extend(messages);
            }
            let [old, new] = &contents;
            Ok((predicate(old, new), warnings))
        })
    }

    /// Returns true if a file is text for a diff, by its `diff` attribute, otherwise by its
    /// content. The attribute is read only if it affects the result.
    fn is_text(&self, path: &BString, content: &[u8]) -> Result<bool, LookError> {
        let by_content = spans::looks_like_text(content);
        if content.contains_str("\r\n") {
            self.is_text_by_attribute(path, by_content)
        } else {
            Ok(by_content)
        }
    }

    fn is_text_by_attribute(&self, path: &BString, by_content: bool) -> Result<bool, LookError> {
        let Some((_, LazyConverter { index, .. })) = &self.worktree else { return Ok(by_content) };
        // A panic during a lookup leaves the attributes valid, although they may be incomplete.
        let mut attributes = self.attributes.lock().unwrap_or_else(PoisonError::into_inner);
        let attributes = match &mut *attributes {
            Some(attributes) => attributes,
            None => {
                let info = BStr::new("info/attributes");
                let loaded =
                    Attributes::new(self.repo, *index, Source::Worktree, &[DIFF_ATTRIBUTE.into()], info)?;
                attributes.insert(loaded)
            }
        };
        attributes.look_up(path.as_bstr());
        let driver = match attributes.value(DIFF_ATTRIBUTE.into()) {
            Value::Set => return Ok(true),
            Value::Unset => return Ok(false),
            Value::Text(name) => name.to_str_lossy().into_owned(),
            Value::Unspecified => "default".to_owned(),
        };
        let is_binary = self.repo.config(&keys::diff::DRIVER_BINARY.of(driver));
        Ok(is_binary.ok().flatten().map_or(by_content, |is_binary| !is_binary))
    }

    fn each<R: Send + Sync>(
        &self,
        files: &[&mut File],
        work: impl Fn(&mut Worker<'_>, &File) -> Result<R, LookError> + Sync,
    ) -> Result<Vec<R>, LookError> {
        self.map(files, |worker, file| work(worker, file))
    }

    fn map<J: Sync, R: Send + Sync>(
        &self,
        jobs: &[J],
        work: impl Fn(&mut Worker<'_>, &J) -> Result<R, LookError> + Sync,
    ) -> Result<Vec<R>, LookError> {
        crew::map(
            "compare",
            &Tuning::default(),
            jobs,
            |_| STEPS_PER_FILE,
            &Mutex::new(Vec::new()),
            |number| self.worker(number),
            |worker, job| work(worker, job),
        )
    }

    fn worker(&self, number: usize) -> Worker<'_> {
        let reader = crew::reader(self.repo.objects(), number);
        let worktree = self.worktree.as_ref().map(|(root, cleaning)| (*root, cleaning.worker()));
        Worker { kind: self.repo.hash(), reader, worktree, buffers: Buffers::default() }
    }
}

impl Worker<'_> {
    /// Takes the warnings about the files read from the worktree.
    fn messages(&mut self) -> Vec<String> {
        self.worktree.as_mut().map_or_else(Vec::new, |(_, cleaning)| cleaning.take_messages())
    }

    /// Returns the object name and the size of a file's content. A large file of the worktree is
    /// read in pieces.
    fn name(&mut self, file: &File, kind: HashKind) -> Result<Option<(ObjectId, u64)>, LookError> {
        if let (Location::Worktree, true, Some((root, cleaning))) =
            (file.location, file.is_regular(), &mut self.worktree)
        {
            let path = file.path.as_bstr();
            if root.stat(path).is_ok_and(|stat| stat.is_some_and(|stat| stat.size > 0)) {
                return match content::hash_sized(root, path, file.side.mode, kind, &mut **cleaning) {
                    // Git skips files that cannot be opened.
                    Err(LookError::Examine { .. }) => Ok(None),
                    named => named,
                };
            }
        }
        let content = self.content(file)?;
        Ok(content.map(|content| (content::name(kind, content), content.len() as u64)))
    }

    /// Returns the content of a file, or `None` if it is missing or unreadable. A submodule's
    /// content is the line that Git's diff would show. For a submodule in the worktree the line
    /// contains no commit.
    fn content(&mut self, file: &File) -> Result<Option<&[u8]>, LookError> {
        if file.side.mode.is_gitlink() {
            let suffix = if file.is_dirty_within { "-dirty" } else { "" };
            let known = file.side.oid.filter(|_| file.location == Location::Objects);
            let commit = known.unwrap_or(ObjectId::null(self.kind));
            self.buffers.converted = format!("Subproject commit {commit}{suffix}\n").into_bytes();
            return Ok(Some(&self.buffers.converted));
        }
        match (file.location, file.side.oid, &mut self.worktree) {
            (Location::Objects, Some(oid), _) => Ok(Some(self.reader.read(&oid)?.1)),
            (Location::Worktree, _, Some((root, cleaning))) => {
                let path = file.path.as_bstr();
                match root.stat(path) {
                    // Sockets and pipes also have size 0. They are never opened.
                    Ok(Some(stat)) if stat.size == 0 => return Ok(Some(b"")),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(None),
                }
                match content::cleaned(root, path, file.side.mode, &mut **cleaning, &mut self.buffers) {
                    // Git skips files that cannot be opened.
                    Err(LookError::Examine { .. }) => Ok(None),
                    content => content,
                }
            }
            _ => Ok(None),
        }
    }
}
