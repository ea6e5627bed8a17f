//! Lists of differences: between the index and the worktree, or between a tree and one of them.
//!
//! Order: index; differences; renames among them; their order. No lock is taken. The index is not
//! refreshed, so a touched file is listed until another operation refreshes the index.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, diff::{self, Detect, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let tree = Some(repository.resolve("HEAD^{tree}")?);
//! let request = Request { tree, detect: Some(Detect::Renames), ..Request::default() };
//! for pair in diff::plan(&repository, request)?.run(&Silent)?.pairs {
//!     println!("{:?} {}", pair.status, pair.path);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod filter;
mod order;
mod refine;

use bstr::BString;
pub use engine::diff::{
    Depth, IntentToAdd, MAX_SCORE, Missing, Pair, Side, Status, Unchanged,
    renames::{Detect, Empty, Skipped, parse_score},
    rewrites::Scores,
};
use engine::{
    diff::{self, Against, Collapsed, Scope, SubmoduleIgnore, WorktreeFiles},
    pathspec::Pathspecs,
    sparse::Purpose,
    status::{self, Worktree},
};
use format::{
    ObjectId,
    index::{Index, Stage},
};
use repo::keys::{self, BoolOr};
pub use repo::submodule::Ignore;
use sys::Dir;

pub use filter::Filter;

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    index, monitor,
    settings::refused::{self, Reader},
    sparse_index::{self, Expansion, ExpansionHint, Read},
    status::messages,
};

/// The differences to list, and their order.
#[derive(Clone, Debug)]
pub struct Request {
    /// A tree, or a commit with a tree; `None` to compare the index with the worktree.
    pub tree: Option<ObjectId>,
    /// Compare the tree with the index, not with the worktree.
    pub cached: bool,
    /// The selected paths.
    pub pathspecs: Pathspecs,
    /// The changes in submodules to ignore; `None`: as configured for each submodule.
    pub submodules: Option<Ignore>,
    /// The treatment of intent-to-add entries; `None`: as in Git.
    pub intended: Option<IntentToAdd>,
    /// The stage to compare the file of an unmerged path with.
    pub stage: Option<Stage>,
    /// The treatment of entries without a file.
    pub missing: Missing,
    /// Selects if unchanged files are listed, as sources of copies.
    pub unchanged: Unchanged,
    /// The depth in collapsed directories of a sparse index.
    pub depth: Depth,
    /// List only paths that begin with this.
    pub base: BString,
    /// Stop at the first difference.
    pub quick: bool,
    /// Swap the sides.
    pub reverse: bool,
    /// Find rewritten files.
    pub rewrites: Option<Scores>,
    /// Find renames, or renames and copies.
    pub detect: Option<Detect>,
    /// The minimum similarity of renames, in units of 1/[`MAX_SCORE`]; 0 for Git's default.
    pub minimum: u32,
    /// The treatment of empty files by the search for renames.
    pub empty: Empty,
    /// The largest number of files among which renames are found; `None`: as configured.
    pub limit: Option<usize>,
    /// List only pairs that match this.
    pub needle: Option<Needle>,
    /// List all pairs if any pair matches the search.
    pub all_if_any: bool,
    /// Files with patterns that order the paths. The last one that exists or must exist is used.
    pub order_files: Vec<(BString, Presence)>,
    /// The path to list first.
    pub from: Option<(FirstPath, BString)>,
    /// The classes of changes to list.
    pub filter: Filter,
}

/// The search that a pair must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needle {
    /// A text whose number of occurrences differs between the sides.
    Text(BString),
    /// A regular expression whose number of matches differs between the sides.
    Matches(BString),
    /// A regular expression that matches a removed or added line.
    Lines(BString),
    /// One of these objects on either side.
    Objects(Vec<ObjectId>),
}

/// Selects if a file must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must exist.
    Needed,
    /// It may be missing.
    Optional,
}

/// How to treat the pairs before the path to list first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPath {
    /// List them last.
    Rotate,
    /// Omit them.
    Skip,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            tree: None,
            cached: false,
            pathspecs: Pathspecs::default(),
            submodules: None,
            intended: None,
            stage: Some(Stage::Ours),
            missing: Missing::Deleted,
            unchanged: Unchanged::Omitted,
            depth: Depth::Directories,
            base: BString::default(),
            quick: false,
            reverse: false,
            rewrites: None,
            detect: None,
            minimum: 0,
            empty: Empty::Included,
            limit: None,
            needle: None,
            all_if_any: false,
            order_files: Vec::new(),
            from: None,
            filter: Filter::default(),
        }
    }
}

impl Request {
    /// Returns true if the number of Git's warnings about line endings is unknown: it reads files
    /// several times while it searches for renames.
    pub fn warns_unpredictably(&self, repo: &repo::Repository) -> bool {
        let has_text = !matches!(self.needle, None | Some(Needle::Objects(_)));
        let reads_again = self.detect.is_some() && (has_text || self.rewrites.is_some());
        let converts = || !matches!(repo.config(&keys::core::AUTOCRLF), Ok(BoolOr::Bool(false)));
        !self.cached && reads_again && converts()
    }

    fn policy(&self) -> SubmoduleIgnore {
        self.submodules.map_or(SubmoduleIgnore::BySubmodule, SubmoduleIgnore::Given)
    }

    fn scope(&self) -> Scope<'_> {
        Scope { pathspecs: &self.pathspecs, submodules: self.policy(), unchanged: self.unchanged }
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The differences, in order.
    pub pairs: Vec<Pair>,
    /// Paths whose sides turned out to be equal. Git reports each as an error of its own.
    pub unknown: Vec<BString>,
    /// The part of the search for renames that was left out, and the limit that it needs.
    pub skipped: Option<Skipped>,
}

/// Differences that are found.
pub struct Plan {
    report: Report,
    notices: Vec<Notice>,
}

/// The settings that may be refused.
const READERS: &[Reader] =
    &[Reader::Every, Reader::Repository, Reader::Plumbing, Reader::Refs, Reader::Hooks];

/// Finds the differences.
pub fn plan(repository: &Repository, mut request: Request) -> Result<Plan, PlanError> {
    let repo = &repository.inner;
    let readers = if request.tree.is_some() { READERS } else { &READERS[..3] };
    refused::check(repo, readers).map_err(Error::from)?;
    if request.warns_unpredictably(repo) {
        return Err(PlanError::Unsupported("searches among renames where line ends are converted"));
    }
    let notices = Notices::default();
    if let Some(tree) = request.tree {
        request.tree = Some(repo.tree_of(tree).map_err(Error::from)?);
        messages::about_objects(repo, &notices);
    }
    let report = find(repository.context(&notices), &request)?;
    index::must_have_been_readable()?;
    Ok(Plan { report, notices: notices.into_vec() })
}

impl Plan {
    /// Reports the notices. Returns the differences.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(self.report)
    }
}

/// Finds the differences; [`Request::tree`] is a tree. The caller checks that the index could be
/// read: see [`index::must_have_been_readable`].
pub fn find(context: Context<'_>, request: &Request) -> Result<Report, Error> {
    let repo = context.repo;
    let top = match repo.work_tree() {
        Some(top) => top,
        None if request.tree.is_some() && request.cached => repo.git_dir(),
        None => return Err(Error::NoWorktree),
    };
    let root = Dir::open(top).map_err(Error::cannot_open(top))?;
    match request.tree {
        None => unstaged(context, &root, request),
        Some(tree) => of_tree(context, &root, tree, request),
    }
}

/// Compares the index with the worktree.
fn unstaged(context: Context<'_>, root: &Dir, request: &Request) -> Result<Report, Error> {
    let Read { index, before, .. } = load(context, root, Expansion::Later)?;
    let worktree = examine(context, root, &index, request, request.stage)?;
    messages::about_worktree(&index, &request.pathspecs, &worktree, context.events);
    let intended = request.intended.unwrap_or(IntentToAdd::Hidden);
    let mut pairs = diff::unstaged(&index, worktree.changes, intended);
    if request.unchanged == Unchanged::Listed {
        let unreadable = &worktree.unreadable;
        // Here Git lists collapsed directories of a sparse index as single entries.
        let index = before.as_ref().unwrap_or(&index);
        pairs =
            diff::with_unchanged(context.repo, index, pairs, unreadable, &request.scope(), request.stage)?;
    }
    refine::refine(context, request, WorktreeFiles { root, index: &index }, pairs)
}

/// Compares a tree with the worktree or the index.
fn of_tree(context: Context<'_>, root: &Dir, tree: ObjectId, request: &Request) -> Result<Report, Error> {
    let repo = context.repo;
    let warn = |warnings: &[BString]| {
        warnings.iter().for_each(|warning| context.events.notice(Notice::Submodule(warning.clone())));
    };
    // Listing unchanged entries needs each file.
    let fill = if request.unchanged == Unchanged::Listed { Expansion::AtOnce } else { Expansion::Later };
    let Read { mut index, before, .. } = load(context, root, fill)?;
    sparse_index::expand_for(repo, &mut index, &|_| Purpose::Compare(tree))?;
    let worktree =
        if request.cached { Worktree::default() } else { examine(context, root, &index, request, None)? };
    warn(&worktree.warnings);
    let against = if request.cached {
        Against::Index { intended: request.intended.unwrap_or(IntentToAdd::Shown) }
    } else {
        Against::Worktree {
            changes: &worktree.changes,
            unreadable: &worktree.unreadable,
            missing: request.missing,
            changes_within: status::changes_within,
        }
    };
    let found = diff::tree(repo, root, &index, Some(tree), against, &request.scope())?;
    // Git reads `.gitmodules` once, so its warnings are printed once.
    if worktree.warnings.is_empty() {
        warn(&found.warnings);
    }
    let patterns = if before.is_some() { sparse_index::wanted(repo)? } else { None };
    let pairs = match (&before, &patterns) {
        (Some(index), Some(patterns)) => {
            let collapsed = Collapsed { index, patterns };
            collapsed.collapse(repo, tree, found.pairs, &request.pathspecs, request.depth)?
        }
        _ => found.pairs,
    };
    refine::refine(context, request, WorktreeFiles { root, index: &index }, pairs)
}

/// Reads the index, which may be sparse, and applies the response of the file system monitor.
fn load(context: Context<'_>, root: &Dir, fill: Expansion) -> Result<Read, Error> {
    let mut read = index::read_index(context, root, ExpansionHint::Print, fill)?;
    monitor::refresh(context, &mut read.index)?;
    Ok(read)
}

/// Finds the differences between index and worktree; for unmerged paths also those from the stage
/// `unmerged`. Stat data that differ from the file's count as a difference.
fn examine(
    context: Context<'_>,
    root: &Dir,
    index: &Index,
    request: &Request,
    unmerged: Option<Stage>,
) -> Result<Worktree, Error> {
    let options = status::Options {
        meter: None,
        pathspecs: &request.pathspecs,
        untracked: None,
        touched: status::Touched::Changed,
        unmerged,
        submodules: request.policy(),
        missing: request.missing,
        ignore_untracked_in_submodules: false,
        when_cold: &|| {},
        interrupt: context.interrupt,
    };
    let worktree = status::examine(context.repo, root, index, &options)?;
    context.check_interrupt()?;
    Ok(worktree)
}
