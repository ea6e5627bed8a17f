//! The attributes of paths.
//!
//! The index, the tree with the attributes if there is one, and the global attribute files are read
//! first; then the paths are looked up one after another. Nothing is changed.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, check_attr::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = Request { paths: vec!["src/main.rs".into()], ..Request::default() };
//! for answer in check_attr::plan(&repository, request)?.run(&Silent)?.answers {
//!     println!("{}: {:?}", answer.path, answer.attributes);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{pathspec, sparse};
use format::{
    Mode, ObjectId,
    index::{Index, Stage},
};
pub use repo::attributes::{Value, is_name};
use repo::{
    attributes::{Attributes, Source},
    keys,
};
use sys::{FileType, UserPath};

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    index,
    settings::refused::{self, Reader},
    sparse_index::{self, ExpansionHint},
    text,
};

/// An attribute that every file has without any attribute file.
const OBJECT_MODE: &str = "builtin_objectmode";

/// The attributes and paths to look up.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The names of attributes; `None` for all that are set.
    pub names: Option<Vec<BString>>,
    /// The paths, relative to the directory that was opened.
    pub paths: Vec<BString>,
    /// Use only attribute files in the index.
    pub cached: bool,
    /// The tree with the attribute files, instead of the worktree.
    pub source: Option<BString>,
}

/// The state of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// `attr`
    Set,
    /// `-attr`
    Unset,
    /// No line sets the attribute, or the last one is `!attr`.
    Unspecified,
    /// `attr=value`
    Text(BString),
}

impl From<Value<'_>> for State {
    fn from(value: Value<'_>) -> State {
        match value {
            Value::Set => State::Set,
            Value::Unset => State::Unset,
            Value::Unspecified => State::Unspecified,
            Value::Text(text) => State::Text(text.to_owned()),
        }
    }
}

/// A path, and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The path as it was given.
    pub path: BString,
    /// Names and states, in the order of the request.
    pub attributes: Vec<(BString, State)>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// An answer for each path, in order.
    pub answers: Vec<Answer>,
}

/// Paths that are looked up.
pub struct Plan {
    answers: Vec<Answer>,
    notices: Vec<Notice>,
}

/// Looks up the paths.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let repo = &repository.inner;
    check_worktree(repo)?;
    refused::check(repo, &[Reader::Hooks]).map_err(Error::from)?;
    if let Some(name) = request.names.iter().flatten().find(|name| !is_name(name)) {
        return Err(Error::Failed(text!(name, ": not a valid attribute name")).into());
    }
    let notices = Notices::default();
    let context = repository.context(&notices);
    let index = index::load_raw(repo, context.settings)?;
    let mut lookup = Lookup::new(context, &index, &request)?;
    let mut answers = Vec::with_capacity(request.paths.len());
    for path in &request.paths {
        let mut attributes = Vec::new();
        lookup.path(path.as_bstr(), |name, value| attributes.push((name.to_owned(), value.into())))?;
        answers.push(Answer { path: path.clone(), attributes });
    }
    drop(lookup);
    Ok(Plan { answers, notices: notices.into_vec() })
}

impl Plan {
    /// Reports the notices. Returns the answers.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(Report { answers: self.answers })
    }
}

/// Returns an error for a repository that lacks a worktree, and is not bare by its own
/// configuration.
pub fn check_worktree(repo: &repo::Repository) -> Result<(), Error> {
    let is_there = repo.work_tree().is_some() || repo.is_bare_by_own_config();
    if is_there { Ok(()) } else { Err(Error::NoWorktree) }
}

impl Request {
    fn place(&self, repo: &repo::Repository) -> Result<Source, Error> {
        let tree = self.tree(repo)?;
        Ok(match tree {
            _ if self.cached => Source::Index,
            Some(tree) => Source::Tree(tree),
            None if repo.is_bare() => Source::Absent,
            None if repo.work_tree().is_none() => Source::Index,
            None => Source::Worktree,
        })
    }

    /// Returns the tree with the attributes: from the option, a variable or a setting. For an
    /// object without a tree (a blob), returns the object itself.
    fn tree(&self, repo: &repo::Repository) -> Result<Option<ObjectId>, Error> {
        let resolve = |name: &BStr| repo.resolve(name).ok().flatten();
        let named = match (&self.source, repo.env().bytes("GIT_ATTR_SOURCE")) {
            (Some(name), _) => Some(
                resolve(name.as_bstr())
                    .ok_or_else(|| Error::Failed(text!(name, ": not a valid tree-ish source")))?,
            ),
            (None, Some(name)) => {
                let wrong = || Error::failed("bad --attr-source or GIT_ATTR_SOURCE");
                Some(resolve(name).ok_or_else(wrong)?)
            }
            // A setting that does not resolve counts as unset.
            (None, None) => repo.config_str(&keys::attr::TREE).and_then(|name| resolve(name.as_bstr())),
        };
        Ok(named.map(|oid| repo.tree_of(oid).unwrap_or(oid)))
    }
}

/// Looks up one path after another.
pub struct Lookup<'a> {
    context: Context<'a>,
    request: &'a Request,
    /// The Git directory, as Git names it in messages.
    git_dir: BString,
    /// May be sparse.
    index: &'a Index,
    /// The expanded index, once a path in a collapsed directory is looked up.
    full: Option<Index>,
    attributes: Attributes<&'a repo::Repository, &'a Index>,
}

impl<'a> Lookup<'a> {
    /// Reads the attribute files that apply to all paths. The index may be sparse.
    pub fn new(context: Context<'a>, index: &'a Index, request: &'a Request) -> Result<Lookup<'a>, Error> {
        let repo = context.repo;
        let source = request.place(repo)?;
        let info = repo.display_common_file("info/attributes");
        let info = info.as_os_str().as_bytes().as_bstr();
        let attributes =
            Attributes::new(repo, index, source, request.names.as_deref().unwrap_or_default(), info)?;
        let mut git_dir = BString::from(repo.git_dir().as_os_str().as_bytes());
        // The caller may have named the current directory with links.
        let cwd = || sys::by_path::realpath_forgiving(repo.cwd());
        if repo.work_tree().is_none() && cwd() == repo.git_dir() {
            git_dir.extend_from_slice(b"/.");
        }
        Ok(Lookup { context, request, git_dir, index, full: None, attributes })
    }

    /// Looks up a path, and visits the names and values of its attributes.
    pub fn path(&mut self, file: &BStr, mut visit: impl FnMut(&BString, Value<'_>)) -> Result<(), Error> {
        let repo = self.context.repo;
        let root = repo.work_tree().map_or(self.git_dir.as_bstr(), |top| top.as_os_str().as_bytes().into());
        let is_inside = repo.work_tree().is_some() || !file.starts_with(b"/");
        let path = pathspec::normalize(file, repo.prefix(), root)
            .filter(|_| is_inside)
            .ok_or_else(|| Error::Failed(text!("'", file, "' is outside repository at '", root, "'")))?;
        self.attributes.look_up(path.as_bstr());
        for message in self.attributes.take_messages() {
            self.context.events.notice(Notice::Plan(text!(message, "\n")));
        }
        let Some(names) = &self.request.names else {
            for name in self.attributes.names() {
                match self.attributes.value(name.as_bstr()) {
                    Value::Unspecified => {}
                    value => visit(name, value),
                }
            }
            return Ok(());
        };
        let is_mode_asked = names.iter().any(|name| name == OBJECT_MODE);
        let mode = if is_mode_asked { self.mode(path.as_bstr())? } else { None };
        for name in names {
            let value = match &mode {
                Some(mode) if name == OBJECT_MODE => Value::Text(BStr::new(mode.as_str())),
                _ => self.attributes.value(name.as_bstr()),
            };
            visit(name, value);
        }
        Ok(())
    }

    /// Returns the mode that the file at `path` has, or would have in the index; for attributes of
    /// the index alone the mode in the index.
    fn mode(&mut self, path: &BStr) -> Result<Option<String>, Error> {
        let (repo, cached) = (self.context.repo, self.request.cached);
        if cached && self.full.is_none() && self.index.sparse && sparse::is_inside(self.index, path) {
            sparse_index::report_expansion(self.context, self.index, ExpansionHint::Print)?;
            let mut full = self.index.clone();
            sparse_index::expand(repo, &mut full)?;
            self.full = Some(full);
        }
        let index = self.full.as_ref().unwrap_or(self.index);
        let entry = index.position(path, Stage::Normal).ok().map(|at| index.mode_at(at));
        if cached {
            return Ok(entry.map(shown));
        }
        let place = UserPath::new(path).resolve(repo.base_dir());
        let failed = |reason: &str| Error::Failed(text!("unable to stat '", path, "': ", reason));
        let stat = match place.map_err(Into::into).and_then(|place| sys::by_path::stat(&place)) {
            Ok(Some(stat)) => stat,
            Ok(_) => return Err(failed("No such file or directory")),
            Err(error) => return Err(failed(&sys::reason(&error))),
        };
        let mode = match stat.file_type {
            FileType::File if stat.is_executable() => Mode::EXECUTABLE,
            FileType::File => Mode::FILE,
            FileType::Symlink => Mode::SYMLINK,
            FileType::Directory => match entry {
                Some(entry) if !entry.is_gitlink() => Mode::TREE,
                None if !is_repository(repo, path) => Mode::TREE,
                _ => Mode::GITLINK,
            },
            FileType::Other => Mode::GITLINK,
        };
        Ok(Some(shown(mode)))
    }
}

/// Returns true if the directory contains a repository with a commit.
fn is_repository(repo: &repo::Repository, path: &BStr) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
    let found = repo.submodule(path).ok().flatten();
    found.and_then(|found| found.head().ok()?.oid()).is_some()
}

fn shown(mode: Mode) -> String {
    format!("{:06o}", mode.bits())
}
