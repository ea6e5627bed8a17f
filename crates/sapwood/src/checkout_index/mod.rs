//! Entries of the index, of any stage, as files.
//!
//! Order: the index; the entries of each path, in the order of the paths; the files. A path that
//! fails does not stop the others. After an error that is fatal in Git, the paths before it are
//! written.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, checkout_index::{self, Options, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let options = Options { prefix: "/tmp/export/".into(), ..Options::default() };
//! let plan = checkout_index::plan(&repository, Request { options, ..Request::default() })?;
//! assert!(plan.run(&Silent)?.is_complete);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod temporary;
mod write;

use bstr::{BStr, BString, ByteSlice as _};
use engine::checkout::Attributes;
use format::index::{Flags, Index, Stage};
use repo::convert::Delays;

use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, Silent,
    events::Notices,
    sparse_index, text,
    transaction::{IndexTransaction, Recorded, Start},
};
pub use temporary::{Temporary, temporary};
pub use write::check_out;

/// The stages of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stages {
    /// This one.
    One(Stage),
    /// All stages of an unmerged path.
    All,
}

/// How entries become files.
#[derive(Clone, Debug)]
pub struct Options {
    /// The stages.
    pub stages: Stages,
    /// Include entries outside of the sparse checkout.
    pub include_sparse: bool,
    /// Replace files that are in the way.
    pub force: bool,
    /// Create missing files.
    pub create: bool,
    /// Report no path that is skipped.
    pub quiet: bool,
    /// The text before each path: a directory with a slash at the end, the beginning of names, or
    /// both. It is relative to the root of the worktree.
    pub prefix: BString,
    /// Record the stat data of the files in the index.
    pub records_stat: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            stages: Stages::One(Stage::Normal),
            include_sparse: false,
            force: false,
            create: true,
            quiet: false,
            prefix: BString::default(),
            records_stat: false,
        }
    }
}

/// The entries to write, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths, relative to the root of the worktree; all of them if empty.
    pub paths: Vec<BString>,
    /// Write files with names of their own, in the root of the worktree.
    pub temporary: bool,
    /// How they become files.
    pub options: Options,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All selected entries are files now. Reasons why not were reported.
    pub is_complete: bool,
    /// The files of [`Request::temporary`].
    pub temporaries: Vec<Temporary>,
}

/// The result for one requested path, in order.
#[derive(Clone, Debug)]
pub enum Found {
    /// The positions of the selected entries.
    Entries(Vec<usize>),
    /// No entry; the message is the reason.
    Skipped(BString),
    /// An error that is fatal in Git.
    Fatal(BString),
}

impl Found {
    fn entries(&self) -> &[usize] {
        match self {
            Found::Entries(entries) => entries,
            Found::Skipped(_) | Found::Fatal(_) => &[],
        }
    }
}

/// The entries to write.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    transaction: IndexTransaction<'r>,
    found: Vec<Found>,
    notices: Vec<Notice>,
}

/// Finds the entries. Locks the index if stat data are recorded.
pub fn plan(repository: &Repository, mut request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    request.options.records_stat &= request.options.prefix.is_empty() && !request.temporary;
    let options = &request.options;
    let mut transaction = IndexTransaction::start(context, options.start())?;
    prepare(&mut transaction, options, request.paths.is_empty())?;
    let mut found = Vec::new();
    for path in &request.paths {
        found.push(find(&mut transaction, options, path.as_bstr())?);
    }
    if request.paths.is_empty() {
        find_all(&mut transaction, options, BStr::new(""), &mut found)?;
    }
    let transaction = transaction.with_context(repository.context(&Silent));
    Ok(Plan { repository, request, transaction, found, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, and writes the files.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, request, transaction, found, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let mut transaction = transaction.with_context(repository.context(events));
        let mut temporaries = Vec::new();
        let is_complete = if request.temporary {
            temporary(&transaction, &request.options, found, &mut |file| temporaries.push(file))?
        } else {
            check_out(&mut transaction, &request.options, found).map_err(Error::from)?
        };
        if is_complete {
            transaction.finish(Recorded::Yes)?;
        }
        Ok(Report { is_complete, temporaries })
    }
}

impl Options {
    /// Returns how a transaction for these options starts.
    pub fn start(&self) -> Start {
        if self.records_stat { Start::Sparse { dry_run: false } } else { Start::Reading }
    }

    fn is_meant(&self, stage: Stage) -> bool {
        match self.stages {
            Stages::One(one) => stage == one,
            Stages::All => stage != Stage::Normal,
        }
    }
}

/// Prepares a transaction, in which `all` entries or single paths are searched for.
pub fn prepare(transaction: &mut IndexTransaction<'_>, options: &Options, all: bool) -> Result<(), Error> {
    transaction.policy.attributes = Attributes::OfWorktree;
    transaction.policy.delays = Delays::Refused;
    if !all || options.include_sparse {
        sparse_index::expand(transaction.context().repo, &mut transaction.index)?;
    }
    Ok(())
}

/// Finds the entries of `path`.
pub fn find(transaction: &mut IndexTransaction<'_>, options: &Options, path: &BStr) -> Result<Found, Error> {
    transaction.looks_for(path)?;
    let (index, before) = (&transaction.index, transaction.state.before.as_ref());
    let of_path = index.range_of(path);
    if before.is_some_and(|before| before.position(path, Stage::Normal).is_ok()) && of_path.is_empty() {
        return Ok(match options.stages {
            Stages::All => Found::Entries(Vec::new()),
            Stages::One(_) => skipped(path, "is a sparse directory"),
        });
    }
    let is_sparse =
        |at: usize| !options.include_sparse && index.entry(at).flags.contains(Flags::SKIP_WORKTREE);
    let looked_at = of_path.clone().take_while(|&at| !is_sparse(at));
    let seen = looked_at.clone().count();
    let entries: Vec<usize> = looked_at.filter(|&at| options.is_meant(index.entry(at).stage)).collect();
    if !entries.is_empty() || (!of_path.is_empty() && options.stages == Stages::All) {
        return Ok(Found::Entries(entries));
    }
    Ok(match options.stages {
        _ if of_path.is_empty() => skipped(path, "is not in the cache"),
        _ if seen == 0 => {
            skipped(path, "has skip-worktree enabled; use '--ignore-skip-worktree-bits' to checkout")
        }
        Stages::One(Stage::Normal) => skipped(path, "is unmerged"),
        Stages::One(stage) => skipped(path, &format!("does not exist at stage {}", stage as u8)),
        Stages::All => unreachable!("what has any entry has been found"),
    })
}

fn skipped(path: &BStr, why: &str) -> Found {
    Found::Skipped(text!("git checkout-index: ", path, " ", why))
}

/// Finds all entries below the directory `prefix`, which ends in a slash or is empty, with the
/// entries of a path in one group.
pub fn find_all(
    transaction: &mut IndexTransaction<'_>,
    options: &Options,
    prefix: &BStr,
    found: &mut Vec<Found>,
) -> Result<(), Error> {
    if options.include_sparse {
        transaction.needs_full()?;
    }
    let index: &Index = &transaction.index;
    let mut last: Option<&BStr> = None;
    for at in index.range_below(prefix.strip_suffix(b"/").unwrap_or(prefix).as_bstr()) {
        let entry = &index.entry(at);
        let is_sparse = !options.include_sparse && entry.flags.contains(Flags::SKIP_WORKTREE);
        if is_sparse || !options.is_meant(entry.stage) {
            continue;
        }
        let path = index.path(entry);
        match found.last_mut() {
            Some(Found::Entries(entries)) if last == Some(path) => entries.push(at),
            _ => found.push(Found::Entries(vec![at])),
        }
        last = Some(path);
    }
    Ok(())
}

/// Reports a path that is skipped.
fn report(transaction: &IndexTransaction<'_>, options: &Options, message: BString) {
    if !options.quiet {
        transaction.context().events.notice(Notice::Skipped(message));
    }
}
