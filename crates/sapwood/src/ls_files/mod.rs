//! The paths of the index, and other paths of the worktree.
//!
//! Order: the index; untracked paths, killed paths, then entry by entry, then resolved conflicts.
//! A caller gets each path when it is found. Nothing is changed. A sparse index is expanded where
//! Git's would be: when a collapsed directory would be listed.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use sapwood::{Repository, Silent, ls_files::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let plan = ls_files::plan(&repository, Request::default())?;
//! plan.run(&Silent, &mut |listed| {
//!     println!("{}", listed.path);
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod line_ends;
mod list;
mod prepare;
mod prune;
mod recurse;

use std::{io, ops::ControlFlow};

use bstr::{BStr, BString};
use engine::pathspec::Pathspecs;
use format::{
    Mode, ObjectId,
    index::{Entry, Index, Stage},
};
use repo::Repository;

pub use self::{
    line_ends::LineEnds,
    list::list,
    prepare::{Prepared, prepare},
    prune::for_attributes,
};
use crate::{Events, Notice, PlanError, RunError, events::Notices};

/// The lists. A path can be in several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lists {
    /// All entries.
    pub cached: bool,
    /// Unmerged entries.
    pub unmerged: bool,
    /// Entries whose file is missing.
    pub deleted: bool,
    /// Entries whose file is missing or differs.
    pub modified: bool,
    /// Paths without an entry.
    pub others: bool,
    /// Paths that a checkout of all entries would remove.
    pub killed: bool,
    /// The stages that paths had before their conflicts were resolved.
    pub resolved: bool,
}

impl Lists {
    /// No list.
    pub const NONE: Lists = Lists {
        cached: false,
        unmerged: false,
        deleted: false,
        modified: false,
        others: false,
        killed: false,
        resolved: false,
    };
}

/// All entries.
impl Default for Lists {
    fn default() -> Lists {
        Lists { cached: true, ..Lists::NONE }
    }
}

/// A source of ignore rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// This file. Its name is relative to the root of the worktree.
    File(BString),
    /// The file of this name in each directory; `None` for no such files.
    PerDirectory(Option<BString>),
    /// Git's own sources.
    Standard,
}

/// The lists, and what they include.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The lists.
    pub lists: Lists,
    /// List only what the rules ignore.
    pub ignored: bool,
    /// Rules that take precedence over all others.
    pub patterns: Vec<BString>,
    /// The sources of other rules. A later file takes precedence.
    pub rules: Vec<Rule>,
    /// List a directory without entries as one path.
    pub directories: bool,
    /// Leave out such directories without files.
    pub hides_empty: bool,
    /// List each entry once, and an unmerged path as one.
    pub deduplicate: bool,
    /// List a collapsed directory of a sparse index as one entry.
    pub collapsed: bool,
    /// Add the entries of this tree that the index lacks, as stage 1. Unmerged entries become
    /// stage 3.
    pub with_tree: Option<BString>,
    /// Replace each active submodule by its entries. Only [`Lists::cached`] can be listed so.
    pub recurse: bool,
    /// Find the pathspecs that match no listed path.
    pub finds_unmatched: bool,
    /// Ask the monitor, also for lists that do not need it: the caller shows its marks.
    pub shows_monitor: bool,
}

/// The paths to list.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The selected paths; all of them if empty.
    pub pathspecs: Pathspecs,
    /// The lists.
    pub options: Options,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The pathspecs that matched nothing, with [`Options::finds_unmatched`]. Empty if the visitor
    /// ended the list.
    pub unmatched: Vec<BString>,
}

/// A path in a list.
#[derive(Clone, Copy)]
pub struct Listed<'a> {
    /// The path, relative to the root of the worktree. That of a directory ends with a slash.
    pub path: &'a BStr,
    /// The list, with its facts about the path.
    pub kind: Kind<'a>,
    /// The index of the worktree, also for a path in a submodule.
    pub top: &'a Index,
}

/// A list, with its facts about a path.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    /// An entry.
    Entry(ListedEntry<'a>),
    /// See [`Lists::others`].
    Other,
    /// See [`Lists::killed`].
    Killed,
    /// See [`Lists::resolved`].
    Resolved {
        /// The stage.
        stage: Stage,
        /// Its mode.
        mode: Mode,
        /// Its object.
        oid: ObjectId,
    },
    /// The file of an entry cannot be examined. The entry may be listed next.
    Unreadable(&'a io::Error),
}

/// An entry in a list.
#[derive(Clone, Copy)]
pub struct ListedEntry<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// The list.
    pub state: State,
    /// The repository with its object: that of the worktree, or of a submodule.
    pub repo: &'a Repository,
    /// The index of that repository.
    pub index: &'a Index,
}

/// The list of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// See [`Lists::cached`].
    Cached,
    /// See [`Lists::deleted`].
    Deleted,
    /// See [`Lists::modified`].
    Modified,
}

/// Receives the paths. It ends the list by [`ControlFlow::Break`].
pub type Visit<'v> = dyn FnMut(Listed<'_>) -> ControlFlow<()> + 'v;

/// The index, and the rules.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    request: Request,
    prepared: Prepared,
    notices: Vec<Notice>,
}

/// Reads the index and the rules.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    if request.options.recurse && context.repo.extensions().submodule_paths {
        return Err(PlanError::Unsupported("submodules with extensions.submodulePathConfig"));
    }
    let mut prepared = prepare(context, &request.options)?;
    prepared.add_tree(context, &request.options)?;
    Ok(Plan { repository, request, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, and lists the paths.
    pub fn run(self, events: &impl Events, visit: &mut Visit<'_>) -> Result<Report, RunError> {
        let Plan { repository, request, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(list(repository.context(events), &request.options, prepared, &request.pathspecs, visit)?)
    }
}
