//! The rule that ignores a path.
//!
//! The index and the global rules are read first; then the paths are looked up one after another.
//! Nothing is changed.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, check_ignore::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = Request { paths: vec!["target/x.o".into()], ..Request::default() };
//! for answer in check_ignore::plan(&repository, request)?.run(&Silent)?.answers {
//!     println!("{}: {:?}", answer.path, answer.rule);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
pub use engine::ignore::check::Match;
use engine::{
    ignore::check::{Checker, Sources},
    pathspec::{Defaults, Pathspecs},
};
use format::index::Index;
use sys::{Dir, FileType};

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    index,
    settings::refused::{self, Reader},
    sparse_index::{self, ExpansionHint},
    text,
};

/// The paths to look up.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths, relative to the directory that was opened. The only magic is `:/`, for the top.
    pub paths: Vec<BString>,
    /// Do not read the index, so that rules apply to tracked paths, too.
    pub no_index: bool,
}

/// A rule that matches a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name of its file in Git's messages.
    pub source: BString,
    /// The line number.
    pub line: u32,
    /// The pattern without `!` and without the slash at its end.
    pub pattern: BString,
    /// True for `!`: the path is not ignored.
    pub negative: bool,
    /// True for a slash at the end: the rule applies to directories.
    pub directory: bool,
}

impl From<Match<'_>> for Rule {
    fn from(found: Match<'_>) -> Rule {
        let Match { source, line, pattern, negative, directory } = found;
        Rule { source: source.to_owned(), line, pattern: pattern.to_owned(), negative, directory }
    }
}

/// A path, and the rule that decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The path as it was given.
    pub path: BString,
    /// The rule; `None` if no rule matches, or the path is tracked.
    pub rule: Option<Rule>,
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
    refused::check(repo, &[Reader::Hooks]).map_err(Error::from)?;
    let notices = Notices::default();
    let context = repository.context(&notices);
    let ground = Ground::read(context, request.no_index)?;
    let root = repo.work_tree().map_or(&b""[..], |root| root.as_os_str().as_bytes());
    let parse = |path: &BString| {
        let spec = std::slice::from_ref(path);
        let parsed = Pathspecs::parse_paths(spec, repo.prefix(), root.as_bstr(), Defaults::default());
        parsed.map_err(|error| Error::Pathspec(error.message))
    };
    let mut answers = Vec::with_capacity(request.paths.len());
    Lookup::new(context, &ground)?.each(request.paths.iter().map(parse), |path, found| {
        answers.push(Answer { path: path.to_owned(), rule: found.map(Rule::from) });
        Ok::<_, Error>(())
    })?;
    Ok(Plan { answers, notices: notices.into_vec() })
}

impl Plan {
    /// Reports the notices. Returns the answers.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(Report { answers: self.answers })
    }
}

/// The worktree, and the index that names tracked paths.
pub struct Ground {
    worktree: Dir,
    index: Index,
    no_index: bool,
}

impl Ground {
    /// Reads the index, unless `no_index` is set.
    pub fn read(context: Context<'_>, no_index: bool) -> Result<Ground, Error> {
        let Context { repo, settings, .. } = context;
        let root = repo.work_tree().ok_or(Error::NoWorktree)?;
        let worktree = Dir::open(root).map_err(Error::cannot_open(root))?;
        if no_index {
            return Ok(Ground { worktree, index: Index::empty(repo.hash()), no_index });
        }
        let mut index = index::load_raw(repo, settings)?;
        // Git expands the index here, independent of the patterns.
        if index.sparse {
            sparse_index::report_expansion(context, &index, ExpansionHint::Print)?;
            sparse_index::expand(repo, &mut index)?;
        }
        Ok(Ground { worktree, index, no_index })
    }
}

/// Looks up one path after another.
pub struct Lookup<'a> {
    context: Context<'a>,
    ground: &'a Ground,
    /// The positions of submodules in the index.
    submodules: Vec<usize>,
    /// The last path that was found to be a directory without a symlink on the way, with a slash at
    /// its end. Like Git, trusts it until the next directory is found.
    directory: BString,
    checker: Checker<'a>,
}

impl<'a> Lookup<'a> {
    /// Reads the rules that apply to the whole worktree.
    pub fn new(context: Context<'a>, ground: &'a Ground) -> Result<Lookup<'a>, Error> {
        let Ground { worktree, index, no_index } = ground;
        let mut sources = Sources::default();
        let info = context.repo.display_common_file("info/exclude");
        sources.add_standard(context.repo, info.as_os_str().as_bytes().into())?;
        let known = (!no_index).then_some(index);
        let checker = Checker::new(context.repo, Some(worktree), known, sources)?;
        let (submodules, directory) = (index.gitlinks().collect(), BString::default());
        let mut lookup = Lookup { context, ground, submodules, directory, checker };
        lookup.warn();
        Ok(lookup)
    }

    fn warn(&mut self) {
        let warnings = self.checker.take_warnings().into_iter();
        warnings.for_each(|warning| self.context.events.notice(Notice::Repository(warning)));
    }

    /// Visits each path, as it was given, and the rule that matches it. All paths, which are parsed
    /// one by one, are checked for errors before the first one is looked up.
    pub fn each<E: From<Error>>(
        &mut self,
        paths: impl Iterator<Item = Result<Pathspecs, E>>,
        mut visit: impl FnMut(&BStr, Option<Match<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut specs = Vec::new();
        for spec in paths {
            let spec = spec?;
            self.must_not_be_behind_a_link(&spec)?;
            specs.push(spec);
        }
        let paths = specs.iter().map(|spec| self.outside_of_submodules(spec));
        let paths: Vec<BString> = paths.collect::<Result<_, _>>()?;
        for (spec, path) in specs.iter().zip(&paths) {
            let (_, original) = only(spec);
            // A tracked path is not ignored.
            let is_tracked = spec.match_any(&self.ground.index);
            let found = if is_tracked { None } else { self.checker.find(path.as_bstr(), None) };
            visit(original, found)?;
            self.warn();
        }
        Ok(())
    }

    fn must_not_be_behind_a_link(&mut self, spec: &Pathspecs) -> Result<(), Error> {
        let (path, original) = only(spec);
        let shared = path.iter().zip(self.directory.iter()).take_while(|(one, two)| one == two).count();
        let known = path[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1);
        self.directory.truncate(known);
        for slash in path[known..].find_iter("/").map(|slash| known + slash) {
            // The parent directories were checked before.
            let found = self.ground.worktree.stat_below(path[..slash].as_bytes()).ok().flatten();
            match found.map(|stat| stat.file_type) {
                Some(FileType::Symlink) => {
                    let refused = text!("pathspec '", original, "' is beyond a symbolic link");
                    return Err(Error::Failed(refused));
                }
                Some(FileType::Directory) => self.directory = path[..=slash].into(),
                _ => break,
            }
        }
        Ok(())
    }

    /// Returns the path, for a submodule without the slash at its end. Returns an error for a path
    /// in a submodule.
    fn outside_of_submodules(&self, spec: &Pathspecs) -> Result<BString, Error> {
        let (path, original) = only(spec);
        for slash in path.find_iter("/") {
            let dir = path[..slash].as_bstr();
            let entries = self.ground.index.range_of(dir);
            if !self.submodules.iter().any(|at| entries.contains(at)) {
                continue;
            }
            if slash + 1 == path.len() {
                return Ok(dir.to_owned());
            }
            return Err(Error::Failed(text!("Pathspec '", original, "' is in submodule '", dir, "'")));
        }
        Ok(path.to_owned())
    }
}

/// Returns the only path, relative to the root of the worktree, and as it was given.
fn only(spec: &Pathspecs) -> (&BStr, &BStr) {
    spec.patterns().next().expect("one was parsed")
}
