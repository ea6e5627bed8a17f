//! All attributes of a path, as `check-attr` prints them. [`crate::convert`] reads only those that
//! concern conversion.
//!
//! Attribute files are read when a path needs them. Those of the last path's directory stay in
//! memory. A malformed line is skipped, and Git's message about it is queued
//! ([`Attributes::take_messages`]).
//!
//! Source: gitattributes(5). Precedence, strongest first: `info/attributes`, `.gitattributes` of
//! the path's directory and upwards, `core.attributesFile`, the system's file, the built-in macro.

use std::{borrow::Borrow, collections::HashMap, io::Read as _};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Index, Stage},
    keys,
    pattern::Pattern,
};
use objects::Kind;
use sys::UserPath;

use crate::{
    Attempt, Error, Repository,
    convert::attributes::{Flaw, Head, MAX_FILE, RawFile, State},
};

pub use crate::convert::attributes::is_name;

/// The place from which `.gitattributes` files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The worktree; the index where the worktree has no such file.
    Worktree,
    /// The index alone.
    Index,
    /// This tree.
    Tree(ObjectId),
    /// No place: there is no worktree, and the user named no tree.
    Absent,
}

/// The state of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `attr`
    Set,
    /// `-attr`
    Unset,
    /// No line sets the attribute, or the last one is `!attr`.
    Unspecified,
    /// `attr=value`
    Text(&'a BStr),
}

/// The position of an attribute in [`Attributes::names`].
type Number = usize;

/// The lines of a file: the attributes that each pattern sets.
#[derive(Default)]
struct File(Vec<(Pattern, Vec<(Number, State)>)>);

/// Looks up the attributes of one path after another. Repository and index are owned or borrowed.
pub struct Attributes<R, I> {
    repo: R,
    index: I,
    source: Source,
    worktree: Option<sys::Dir>,
    fold_case: bool,
    /// The names of attributes, in the order in which they were first read.
    names: Vec<BString>,
    numbers: HashMap<BString, Number>,
    /// The attributes that each macro sets.
    macros: HashMap<Number, Vec<(Number, State)>>,
    /// The files that apply to the whole repository, weakest first. `info` is not among them: it is
    /// stronger than the files of directories.
    global_files: Vec<File>,
    info: File,
    /// The directory of the last path, and the attribute files on the way to it, each with the
    /// length of its directory's path.
    dir: BString,
    dir_files: Vec<(File, usize)>,
    values: Vec<Option<State>>,
    messages: Vec<BString>,
}

impl<R: Borrow<Repository>, I: Borrow<Index>> Attributes<R, I> {
    /// Reads the files that apply to the whole repository. `names` come first in
    /// [`Attributes::names`]; `info` is the path of `info/attributes` in Git's messages.
    pub fn new(repo: R, index: I, source: Source, names: &[BString], info: &BStr) -> Result<Self, Error> {
        let fold_case = repo.borrow().config(&keys::core::IGNORE_CASE)?;
        let worktree = match repo.borrow().work_tree() {
            Some(top) => Some(sys::Dir::open(top).map_err(Attempt::Access.on(top))?),
            None => None,
        };
        let mut attributes = Attributes {
            repo,
            index,
            source,
            worktree,
            fold_case,
            names: Vec::new(),
            numbers: HashMap::new(),
            macros: HashMap::new(),
            global_files: Vec::new(),
            info: File::default(),
            dir: BString::default(),
            dir_files: Vec::new(),
            values: Vec::new(),
            messages: Vec::new(),
        };
        for name in names {
            attributes.number(name);
        }
        attributes.read_global_files(info)?;
        Ok(attributes)
    }

    /// The attributes read so far.
    pub fn names(&self) -> &[BString] {
        &self.names
    }

    /// Returns the messages for standard error since the last call: whole lines.
    pub fn take_messages(&mut self) -> Vec<BString> {
        std::mem::take(&mut self.messages)
    }

    /// Looks up the attributes of a path. The path of a directory ends with a slash.
    pub fn look_up(&mut self, path: &BStr) {
        let (path, is_dir) = match path.strip_suffix(b"/") {
            Some(path) => (path.as_bstr(), true),
            None => (path, false),
        };
        let slash = path.rfind_byte(b'/');
        self.enter(path[..slash.unwrap_or(0)].as_bstr());
        let name = path[slash.map_or(0, |slash| slash + 1)..].as_bstr();
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        values.resize(self.names.len(), None);
        let inside = self.dir_files.iter().rev().map(|(file, length)| (file, *length));
        let everywhere = self.global_files.iter().rev().map(|file| (file, 0));
        for (file, length) in std::iter::once((&self.info, 0)).chain(inside).chain(everywhere) {
            let below = if length == 0 { path } else { path[length + 1..].as_bstr() };
            for (pattern, states) in file.0.iter().rev() {
                let is_meant = is_dir || !pattern.is_for_directories();
                if is_meant && pattern.matches(below, name, self.fold_case) {
                    self.fill(states, &mut values);
                }
            }
        }
        self.values = values;
    }

    /// The value of an attribute for the last path.
    pub fn value(&self, name: &BStr) -> Value<'_> {
        let known = self.numbers.get(name).and_then(|&number| self.values.get(number));
        match known.and_then(Option::as_ref) {
            None | Some(State::Unspecified) => Value::Unspecified,
            Some(State::Set) => Value::Set,
            Some(State::Unset) => Value::Unset,
            Some(State::Value(text)) => Value::Text(text.as_bstr()),
        }
    }

    /// Sets the attributes that are not set yet. If a line names an attribute twice, the later word
    /// wins. Macros may expand to macros, to any depth.
    fn fill(&self, states: &[(Number, State)], values: &mut [Option<State>]) {
        let mut todo: Vec<&(Number, State)> = states.iter().collect();
        while let Some((number, state)) = todo.pop() {
            if values[*number].is_none() {
                values[*number] = Some(state.clone());
                if let (State::Set, Some(states)) = (state, self.macros.get(number)) {
                    todo.extend(states);
                }
            }
        }
    }

    fn number(&mut self, name: &BString) -> Number {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.numbers.insert(name.clone(), self.names.len());
        self.names.push(name.clone());
        self.names.len() - 1
    }

    /// Replaces attribute names by their numbers. The macros of `raw` replace earlier macros of the
    /// same name.
    fn take(&mut self, raw: RawFile) -> File {
        let mut file = File::default();
        for line in raw.0 {
            let named = match &line.head {
                Head::Macro(name) => Some(self.number(name)),
                Head::Pattern(_) => None,
            };
            let states: Vec<_> =
                line.states.into_iter().map(|(name, state)| (self.number(&name), state)).collect();
            match (line.head, named) {
                (Head::Pattern(pattern), _) => file.0.push((Pattern::new(pattern.as_bstr()), states)),
                (Head::Macro(_), Some(number)) => drop(self.macros.insert(number, states)),
                (Head::Macro(_), None) => unreachable!("every macro has been numbered"),
            }
        }
        file
    }

    fn read_global_files(&mut self, info: &BStr) -> Result<(), Error> {
        let built_in = self.take(RawFile::built_in());
        self.global_files.push(built_in);
        let repo = self.repo.borrow();
        let env = repo.env();
        let system = if env.boolean("GIT_ATTR_NOSYSTEM")?.unwrap_or(false) {
            None
        } else {
            Some(UserPath::new("/etc/gitattributes"))
        };
        let users = match repo.config_path(&keys::core::ATTRIBUTES_FILE)? {
            Some(path) => Some(path),
            None => env.xdg_config("attributes"),
        };
        for path in [system, users].into_iter().flatten() {
            let file = self.read_outside(&path, path.as_bytes().into());
            self.global_files.push(file);
        }
        let root = self.read_inside(BStr::new(""));
        self.dir_files.push((root, 0));
        let path = self.repo.borrow().common_dir().join("info/attributes");
        self.info = self.read_outside(&path.into(), info);
        Ok(())
    }

    /// Reads a file outside the worktree. `name` is its path in Git's messages.
    fn read_outside(&mut self, path: &UserPath, name: &BStr) -> File {
        let repo = self.repo.borrow();
        let opened =
            path.resolve(repo.base_dir()).map_err(Into::into).and_then(|path| sys::by_path::open(&path));
        self.read(opened, name, true).unwrap_or_default()
    }

    /// Reads the attribute file of a directory of the worktree.
    fn read_inside(&mut self, dir: &BStr) -> File {
        let mut name = dir.to_owned();
        if !dir.is_empty() {
            name.push(b'/');
        }
        name.extend_from_slice(b".gitattributes");
        let (name, macros) = (name.as_bstr(), dir.is_empty());
        if let (Source::Worktree, Some(worktree)) = (self.source, &self.worktree) {
            // Git follows symbolic links in directories here, so the file behind a link counts.
            let opened = worktree.open_file_through_links(name);
            if let Some(file) = self.read(opened, name, macros) {
                return file;
            }
        }
        let oid = match self.source {
            Source::Worktree | Source::Index => {
                let ours = [Stage::Normal, Stage::Ours];
                let index = self.index.borrow();
                let at = ours.into_iter().find_map(|stage| index.position(name, stage).ok());
                let inside = || {
                    let at = index.sparse_directory_above(name)?;
                    let below = name[index.path_at(at).len()..].as_bstr();
                    self.repo.borrow().lookup_path(index.entry(at).oid, below).ok().flatten()
                };
                at.map(|at| index.entry(at).oid).or_else(inside)
            }
            // A tree that cannot be read sets no attributes.
            Source::Tree(tree) => self.repo.borrow().lookup_path(tree, name).ok().flatten(),
            Source::Absent => None,
        };
        let Some(oid) = oid else { return File::default() };
        let content = match self.repo.borrow().objects().reader().read(&oid) {
            Ok((Kind::Blob, content)) => content.to_vec(),
            _ => return File::default(),
        };
        if content.len() as u64 >= MAX_FILE {
            let what = b"ignoring overly large gitattributes blob '".as_slice();
            self.warn(&[what, name, b"'"]);
            return File::default();
        }
        self.parse(&content, name, macros)
    }

    /// Reads and parses a file; `None` if it could not be opened.
    fn read(&mut self, opened: std::io::Result<sys::File>, name: &BStr, macros: bool) -> Option<File> {
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => {
                if !sys::is_missing(&error) {
                    let reason = sys::reason(&error);
                    self.warn(&[b"unable to access '", name, b"': ", reason.as_bytes()]);
                }
                return None;
            }
        };
        if sys::stat_of(&file).is_ok_and(|stat| stat.size >= MAX_FILE) {
            self.warn(&[b"ignoring overly large gitattributes file '", name, b"'"]);
            return None;
        }
        let mut content = Vec::new();
        // A file that cannot be read sets no attributes.
        let _ = file.read_to_end(&mut content);
        Some(self.parse(&content, name, macros))
    }

    fn parse(&mut self, content: &[u8], name: &BStr, macros: bool) -> File {
        let mut messages = Vec::new();
        let raw = RawFile::parse_strictly(content, macros, |line, flaw| {
            let place = [b": ", name.as_bytes(), b":", line.to_string().as_bytes()].concat();
            messages.push(match flaw {
                Flaw::TooLong => format!("warning: ignoring overly long attributes line {line}").into(),
                Flaw::Name(name) => {
                    [name.as_slice(), b" is not a valid attribute name", &place].concat().into()
                }
                Flaw::Macro(line) => [line.as_slice(), b" not allowed", &place].concat().into(),
                Flaw::Negative => BString::from(
                    "warning: Negative patterns are ignored in git attributes\n\
                     Use '\\!' for literal leading exclamation.",
                ),
            });
        });
        self.messages.append(&mut messages);
        self.take(raw)
    }

    fn warn(&mut self, parts: &[&[u8]]) {
        self.messages.push([b"warning: ", parts.concat().as_slice()].concat().into());
    }

    /// Moves to the directory of a path: keeps the files of the common ancestors and reads the
    /// others.
    fn enter(&mut self, dir: &BStr) {
        if self.dir == dir {
            return;
        }
        let both = |length: usize| {
            length == 0
                || self.dir.get(..length) == dir.get(..length)
                    && matches!(self.dir.get(length), None | Some(b'/'))
                    && matches!(dir.get(length), None | Some(b'/'))
        };
        let kept =
            self.dir_files.iter().take_while(|(_, length)| *length <= dir.len() && both(*length)).count();
        self.dir_files.truncate(kept);
        let done = self.dir_files.last().map_or(0, |(_, length)| *length);
        let ends = dir.find_iter("/").chain((!dir.is_empty()).then_some(dir.len()));
        for end in ends.filter(|&end| end > done) {
            let file = self.read_inside(dir[..end].as_bstr());
            self.dir_files.push((file, end));
        }
        self.dir = dir.to_owned();
    }
}
