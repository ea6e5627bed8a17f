//! Names, sizes and chunks of files, in objects and in the worktree; many at once.

use std::sync::{Mutex, PoisonError};

use bstr::{BStr, BString, ByteSlice as _};
use format::{HashKind, ObjectId, index::Index};
use repo::{
    Repository,
    attributes::{Attributes, Source, Value},
    objects::Reader,
};
use sys::Dir;

use super::{
    super::{Pair, Side},
    spans::{self, Spans},
};
use crate::{
    crew::{self, Tuning},
    look::{
        LookError,
        content::{self, Cleaning as _, CleaningWorker, Lazy},
    },
};

/// Reading a file costs about as much as writing one, at so many steps.
const STEPS_PER_FILE: usize = 8;

/// `core.bigFileThreshold` where nothing is configured, in bytes.
const BIG: u64 = 512 << 20;

/// The attribute that says what is text.
const DIFF: &str = "diff";

/// What a content is to a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::diff) enum Kind {
    Any,
    Text,
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::diff) enum Home {
    Objects,
    Worktree,
}

/// One side of a pair, and what has been found out about it.
pub(in crate::diff) struct File {
    /// The number of the pair.
    pub(in crate::diff) pair: usize,
    pub(super) path: BString,
    pub(super) side: Side,
    pub(super) home: Home,
    /// Of a submodule: something within was changed.
    is_changed_within: bool,
    /// In bytes; `None` if that was not asked, or it is gone.
    pub(in crate::diff) size: Option<u64>,
    pub(in crate::diff) spans: Option<Spans>,
}

impl File {
    /// A side of the pair that has the number `at`.
    pub(in crate::diff) fn new(at: usize, pair: &Pair, side: Side) -> File {
        let home = if side.oid.is_some() { Home::Objects } else { Home::Worktree };
        let (path, is_changed_within) = (pair.path.clone(), pair.dirt.is_within());
        File { pair: at, path, side, home, is_changed_within, size: None, spans: None }
    }

    /// A side of which only the content is asked.
    pub(in crate::diff) fn alone(
        pair: usize,
        path: &BString,
        side: Side,
        in_worktree: bool,
        is_changed_within: bool,
    ) -> File {
        let home = if in_worktree { Home::Worktree } else { Home::Objects };
        File { pair, path: path.clone(), side, home, is_changed_within, size: None, spans: None }
    }

    /// Only these are compared by content.
    pub(super) fn is_regular(&self) -> bool {
        self.side.mode.is_file()
    }
}

/// Where contents are read from.
pub(in crate::diff) struct Contents<'a> {
    repo: &'a Repository,
    worktree: Option<(&'a Dir, Lazy<'a>)>,
    /// Loaded when a file is met that needs them.
    attributes: Mutex<Option<Attributes<&'a Repository, &'a Index>>>,
}

/// One thread's.
struct Worker<'a> {
    kind: HashKind,
    reader: Reader<'a>,
    worktree: Option<(&'a Dir, Box<dyn CleaningWorker + 'a>)>,
    file: Vec<u8>,
    out: Vec<u8>,
}

impl<'a> Contents<'a> {
    pub(in crate::diff) fn new(repo: &'a Repository, worktree: Option<(&'a Dir, &'a Index)>) -> Contents<'a> {
        let worktree = worktree.map(|(root, index)| (root, Lazy::new(repo, index)));
        Contents { repo, worktree, attributes: Mutex::new(None) }
    }

    /// The same, for [`Contents::judge`] and [`Contents::weigh`] to tell of line ends that would not come back.
    pub(in crate::diff) fn telling(
        repo: &'a Repository,
        (root, index): (&'a Dir, &'a Index),
    ) -> Contents<'a> {
        Contents {
            repo,
            worktree: Some((root, Lazy::for_showing(repo, index))),
            attributes: Mutex::new(None),
        }
    }

    /// Names files of the worktree, and tells their sizes. One that is gone stays without.
    pub(super) fn name(&self, files: &mut [&mut File]) -> Result<(), LookError> {
        let kind = self.repo.hash();
        let found = self.each(files, |worker, file| {
            let content = worker.content(file)?;
            Ok(content.map(|content| (content::name(kind, content), content.len() as u64)))
        })?;
        for (file, found) in files.iter_mut().zip(found) {
            (file.side.oid, file.size) = found.unzip();
        }
        Ok(())
    }

    /// Tells the sizes of objects.
    pub(in crate::diff) fn measure(&self, files: &mut [&mut File]) -> Result<(), LookError> {
        let mut unknown: Vec<&mut File> = Vec::new();
        for file in files {
            if file.size.is_none() && file.home == Home::Objects && file.is_regular() {
                unknown.push(file);
            }
        }
        let sizes = self.each(&unknown, |worker, file| match file.side.oid {
            Some(oid) => Ok(Some(worker.reader.header(&oid)?.1)),
            None => Ok(None),
        })?;
        unknown.iter_mut().zip(sizes).for_each(|(file, size)| file.size = size);
        Ok(())
    }

    /// Cuts contents into chunks, unless that was done.
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

    /// Tells sizes and cuts contents, wherever they are. One that is gone stays without. Returns what Git says while it reads them.
    pub(in crate::diff) fn weigh(&self, files: &mut [&mut File]) -> Result<Vec<String>, LookError> {
        let found = self.each(files, |worker, file| {
            let Some(content) = worker.content(file)? else { return Ok((None, worker.messages())) };
            let spans = Spans::of(content, self.is_text(&file.path, content)?);
            let size = content.len() as u64;
            Ok((Some((size, spans)), worker.messages()))
        })?;
        let mut said = Vec::new();
        for (file, (found, messages)) in files.iter_mut().zip(found) {
            (file.size, file.spans) = found.unzip();
            said.extend(messages);
        }
        Ok(said)
    }

    /// Whether `judge` is true of the contents of each pair's sides, and what Git says while it reads them; a side that is not there is empty. Of what is of
    /// another kind it is not asked.
    pub(in crate::diff) fn judge(
        &self,
        pairs: &[[Option<File>; 2]],
        kind: Kind,
        judge: impl Fn(&[u8], &[u8]) -> bool + Sync,
    ) -> Result<Vec<(bool, Vec<String>)>, LookError> {
        // What is larger is binary, unless an attribute says otherwise.
        let big = self.repo.config_size("core.bigFileThreshold")?.unwrap_or(BIG);
        self.map(pairs, |worker, sides| {
            let mut contents = [Vec::new(), Vec::new()];
            let mut said = Vec::new();
            for (side, known) in sides.iter().zip(&mut contents) {
                let Some(file) = side else { continue };
                let unreadable = || repo::Error::new(String::from("unable to read files to diff"));
                let content = worker.content(file)?.ok_or_else(unreadable)?;
                known.extend_from_slice(content);
                let messages = worker.messages();
                let is_small = known.len() as u64 <= big;
                let looks = || spans::looks_like_text(known) && is_small;
                if kind == Kind::Text && !self.is_text_by_attribute(&file.path, looks())? {
                    // What is binary whatever it holds Git does not read.
                    if is_small && self.is_text_by_attribute(&file.path, true)? {
                        said.extend(messages);
                    }
                    return Ok((false, said));
                }
                said.extend(messages);
            }
            let [old, new] = &contents;
            Ok((judge(old, new), said))
        })
    }

    /// Whether a file is text to a diff: by its attribute `diff`, else by its looks. Asked only where it matters.
    fn is_text(&self, path: &BString, content: &[u8]) -> Result<bool, LookError> {
        let looks = spans::looks_like_text(content);
        match content.contains_str("\r\n") {
            true => self.is_text_by_attribute(path, looks),
            false => Ok(looks),
        }
    }

    fn is_text_by_attribute(&self, path: &BString, looks: bool) -> Result<bool, LookError> {
        let Some((_, Lazy { index, .. })) = &self.worktree else { return Ok(looks) };
        // A panic while it is held leaves at most what was read so far.
        let mut attributes = self.attributes.lock().unwrap_or_else(PoisonError::into_inner);
        let attributes = match &mut *attributes {
            Some(attributes) => attributes,
            None => {
                let info = BStr::new("info/attributes");
                let loaded = Attributes::new(self.repo, *index, Source::Worktree, &[DIFF.into()], info)?;
                attributes.insert(loaded)
            }
        };
        attributes.look_up(path.as_bstr());
        let driver = match attributes.value(DIFF.into()) {
            Value::Set => return Ok(true),
            Value::Unset => return Ok(false),
            Value::Text(name) => name.to_str_lossy().into_owned(),
            Value::Unspecified => "default".to_owned(),
        };
        let is_binary = self.repo.config_bool(&format!("diff.{driver}.binary"));
        Ok(is_binary.ok().flatten().map_or(looks, |is_binary| !is_binary))
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
            ("compare", &Tuning::default()),
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
        Worker { kind: self.repo.hash(), reader, worktree, file: Vec::new(), out: Vec::new() }
    }
}

impl Worker<'_> {
    /// What is to be said of what was read from the worktree.
    fn messages(&mut self) -> Vec<String> {
        self.worktree.as_mut().map_or_else(Vec::new, |(_, cleaning)| cleaning.take_messages())
    }

    /// What a file holds; `None` if it is gone or cannot be read. A repository holds what Git's diff of it would show; in the worktree its commit is not
    /// known.
    fn content(&mut self, file: &File) -> Result<Option<&[u8]>, LookError> {
        if file.side.mode.is_gitlink() {
            let dirt = if file.is_changed_within { "-dirty" } else { "" };
            let known = file.side.oid.filter(|_| file.home == Home::Objects);
            let commit = known.unwrap_or(ObjectId::null(self.kind));
            self.out = format!("Subproject commit {commit}{dirt}\n").into_bytes();
            return Ok(Some(&self.out));
        }
        match (file.home, file.side.oid, &mut self.worktree) {
            (Home::Objects, Some(oid), _) => Ok(Some(self.reader.read(&oid)?.1)),
            (Home::Worktree, _, Some((root, cleaning))) => {
                let path = file.path.as_bstr();
                match root.stat(path) {
                    // Sockets and pipes among it, which are never opened.
                    Ok(Some(stat)) if stat.size == 0 => return Ok(Some(b"")),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(None),
                }
                match content::cleaned(
                    root,
                    path,
                    file.side.mode,
                    &mut **cleaning,
                    (&mut self.file, &mut self.out),
                ) {
                    // Git passes over what cannot be opened.
                    Err(LookError::Examine { .. }) => Ok(None),
                    content => content,
                }
            }
            _ => Ok(None),
        }
    }
}
