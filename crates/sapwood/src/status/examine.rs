//! Examining HEAD, the index and the worktree side by side.
//!
//! Order: the index and its monitor; the facts about HEAD and the ignore rules, read in the
//! background where the disk is slow; the worktree; HEAD's tree against the index; the merge of
//! both lists by path. Nothing is changed.

use std::{
    collections::BTreeMap,
    sync::OnceLock,
    thread::{self, Scope},
    time::{Duration, Instant},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    crew::Deferred,
    diff::{self, Collapsed, Pair, Status as Difference, SubmoduleIgnore, renames},
    sparse::{self, Purpose},
    status::{self, Touched, Worktree},
    untracked::{self, Excludes},
};
use format::{
    ObjectId,
    index::{Entry, Flags, Index, Stage},
};
use repo::{Repository, submodule::Ignore};
use sys::Dir;

use super::{
    Sparse, Status,
    change::Change,
    head::{HeadInfo, InProgress, is_slow_disk},
    messages,
    record::{RefreshedIndex, record},
    request::{Renames, Request, Untracked},
};
use crate::{
    Context, Error, Notice,
    events::Phase,
    index, monitor,
    sparse_index::{self, Expansion, ExpansionHint},
    trace,
};

/// The index to examine.
pub enum Source {
    /// The repository's index, whose stat data are updated.
    File,
    /// An index that the caller provides.
    Held(Box<sparse_index::Read>),
}

/// A complete status, and the new stat data of the index.
pub struct Examined {
    /// The result.
    pub status: Status,
    index: Index,
    refreshed: RefreshedIndex,
}

impl Examined {
    /// Writes the new stat data to the index, if it can be locked. Returns the result.
    pub fn record(self, context: Context<'_>, root: &Dir) -> Result<Status, Error> {
        let Examined { status, mut index, refreshed } = self;
        record(context, root, &mut index, refreshed)?;
        // The process often ends soon: skip freeing a name for each directory.
        std::mem::forget(index);
        Ok(status)
    }
}

/// Examines the worktree at `root`.
pub fn examine(
    context: Context<'_>,
    root: &Dir,
    request: &Request,
    source: Source,
) -> Result<Examined, Error> {
    let repo = context.repo;
    let indexed = OnceLock::new();
    let (head_info, in_progress) =
        (|| HeadInfo::find(repo, request, root, &indexed), || InProgress::find(repo));
    let excludes = || excludes(repo, request);
    thread::scope(|scope| {
        let (head_info, in_progress, excludes) =
            (Deferred::new(&head_info), Deferred::new(&in_progress), Deferred::new(&excludes));
        if is_slow_disk(root) {
            excludes.start(scope);
        }
        // On a local disk, delay these reads until its latency is known: they would distort the
        // probe.
        if root.is_remote() {
            head_info.start(scope);
            in_progress.start(scope);
        }
        let tasks = Background { scope, head_info, in_progress, excludes };
        Examination { context, root, request, indexed: &indexed }.run(source, tasks)
    })
}

/// Returns the ignore rules, if untracked files are listed.
fn excludes(repo: &Repository, request: &Request) -> Result<Excludes, Error> {
    match request.untracked {
        Untracked::No => Ok(Excludes::default()),
        Untracked::Normal | Untracked::All => Ok(Excludes::standard(repo, &[])?),
    }
}

/// The tasks beside the examination.
struct Background<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    head_info: Deferred<'s, Result<HeadInfo, Error>>,
    in_progress: Deferred<'s, Result<InProgress, Error>>,
    excludes: Deferred<'s, Result<Excludes, Error>>,
}

/// The facts about HEAD, or the task that reads them.
type PendingHead<'s> = Result<HeadInfo, Deferred<'s, Result<HeadInfo, Error>>>;

#[derive(Clone, Copy)]
struct Examination<'a> {
    context: Context<'a>,
    root: &'a Dir,
    request: &'a Request,
    /// The tree that equals the index, once that is known.
    indexed: &'a OnceLock<ObjectId>,
}

/// The index, before the worktree is examined.
struct Loaded {
    index: Index,
    sparse: Sparse,
    refreshed: RefreshedIndex,
}

impl Examination<'_> {
    fn run(self, source: Source, tasks: Background<'_, '_>) -> Result<Examined, Error> {
        let Context { repo, events, .. } = self.context;
        let Background { scope, head_info, in_progress, excludes } = tasks;
        let Loaded { mut index, sparse, mut refreshed } = self.load(source)?;
        let head_info = self.expand(&mut index, head_info)?;
        self.context.check_interrupt()?;
        let excludes = excludes.get()?;
        let start = || {
            if let Err(head_info) = &head_info {
                head_info.start(scope);
            }
            in_progress.start(scope);
        };
        let (mut worktree, took) = self.examine_worktree(&mut index, excludes, &start)?;
        self.context.check_interrupt()?;
        let HeadInfo { head, tree, detached, comparison } = head_info.or_else(HeadInfo::wait_for)?;
        let staged = self.staged(&index, tree, refreshed.before.as_ref())?;
        messages::about_worktree(&index, &self.request.pathspecs, &worktree, events);
        if tree.is_some() {
            messages::about_objects(repo, events);
        }
        let warnings = worktree.found.warnings.iter();
        warnings.for_each(|warning| events.notice(Notice::Untracked(warning.message())));
        let place = Some(diff::WorktreeFiles { root: self.root, index: &index });
        let unstaged = self.with_renames(std::mem::take(&mut worktree.changes), place)?;
        let staged = self.with_renames(staged, None)?;
        let (is_dirty, is_initial) = (!unstaged.is_empty(), tree.is_none());
        let is_committable = staged.iter().any(|pair| pair.status != Difference::Unmerged || is_initial);
        let changes = merged(&index, unstaged, staged);
        let mut found = worktree.found;
        for paths in [&mut found.untracked, &mut found.ignored] {
            let mut others = untracked::Others::of(&index);
            paths.retain(|path| others.is_other(path.as_bstr()));
        }
        if let Some(cache) = found.cache.take() {
            index.untracked = Some(cache);
            refreshed.is_worth_writing |= records_cache(repo)?;
        }
        refreshed.refreshed = worktree.refreshed;
        refreshed.proved = worktree.proven_clean;
        let (detached, comparison) = (detached?, comparison?);
        let InProgress { operations, concludes_pick } = in_progress.get()?;
        let mut status = Status {
            is_plain_commit: !operations.merge && !concludes_pick,
            is_initial,
            head,
            changes,
            untracked: found.untracked,
            ignored: found.ignored,
            operations,
            detached,
            comparison,
            sparse,
            is_dirty,
            is_committable,
            took,
        };
        status.is_committable |= status.operations.merge && !status.has_conflicts();
        Ok(Examined { status, index, refreshed })
    }

    /// Reads the index, and asks its monitor for changed files.
    fn load(self, source: Source) -> Result<Loaded, Error> {
        let context = self.context;
        let read = match source {
            Source::File => index::read_index(context, self.root, ExpansionHint::Print, Expansion::Later)?,
            Source::Held(read) => *read,
        };
        let sparse_index::Read { mut index, before, seen, differs_on_disk } = read;
        if let Some((tree, _)) = index.cache_tree.as_ref().and_then(|tree| tree.valid) {
            let _first = self.indexed.set(tree);
        }
        let sparse = match before {
            Some(_) if sparse::is_on(context.repo)? => Sparse::Index,
            _ => percentage(context.repo, &index)?,
        };
        let monitor = monitor::refresh(context, &mut index)?;
        let refreshed = RefreshedIndex {
            seen,
            before,
            refreshed: Vec::new(),
            proved: Vec::new(),
            monitor,
            is_worth_writing: differs_on_disk,
        };
        Ok(Loaded { index, sparse, refreshed })
    }

    /// Expands as much of a sparse index as the comparison with HEAD needs. Only a sparse index
    /// needs HEAD this early.
    fn expand<'s>(
        self,
        index: &mut Index,
        head_info: Deferred<'s, Result<HeadInfo, Error>>,
    ) -> Result<PendingHead<'s>, Error> {
        if !index.sparse {
            return Ok(Err(head_info));
        }
        let head_info = HeadInfo::wait_for(head_info)?;
        match head_info.tree {
            Some(tree) => {
                sparse_index::expand_for(self.context.repo, index, &|_| Purpose::Compare(tree))?;
            }
            None => sparse_index::expand(self.context.repo, index)?,
        }
        Ok(Ok(head_info))
    }

    /// Compares the index with the worktree, and searches for untracked files. Returns the time
    /// that the search took. `when_cold` is called if files must be read from a cold disk.
    fn examine_worktree(
        self,
        index: &mut Index,
        excludes: Excludes,
        when_cold: &(dyn Fn() + Sync),
    ) -> Result<(Worktree, Duration), Error> {
        let (Context { repo, events, interrupt, .. }, request) = (self.context, self.request);
        let began = Instant::now();
        let search = request.search(repo)?;
        let excludes = if search.as_ref().is_some_and(|how| self.uses_cache(index, how)) {
            excludes
        } else {
            excludes.without_cache()
        };
        let meter = events.begin(Phase::RefreshIndex, index.len());
        let options = status::Options {
            pathspecs: &request.pathspecs,
            untracked: search.map(|options| status::Untracked { options, excludes: &excludes }),
            touched: Touched::Compared,
            unmerged: Some(Stage::Ours),
            submodules: request.submodules.map_or(SubmoduleIgnore::Configured, SubmoduleIgnore::Given),
            missing: diff::Missing::Deleted,
            ignore_untracked_in_submodules: request.untracked == Untracked::No
                && request.submodules.is_none(),
            when_cold,
            interrupt,
            meter: meter.as_deref(),
        };
        let worktree = status::examine(repo, self.root, index, &options)?;
        let searched = options.untracked.is_some();
        events.end(Phase::RefreshIndex);
        // Tracked files would have been read without the search for untracked files, too.
        let took = began.elapsed().saturating_sub(worktree.swept);
        if searched {
            trace::walk(2, request.pathspecs.common_directory(), &worktree.found);
        }
        Ok((worktree, took))
    }

    /// Compares the index with a tree. `before` is the sparse index.
    fn staged(
        self,
        index: &Index,
        tree: Option<ObjectId>,
        before: Option<&Index>,
    ) -> Result<Vec<Pair>, Error> {
        let (repo, request) = (self.context.repo, self.request);
        // Before the first commit all staged submodules count.
        let counts = if tree.is_some() { request.submodules.unwrap_or(Ignore::Dirty) } else { Ignore::None };
        let patterns = if before.is_some() { sparse_index::wanted(repo)? } else { None };
        let collapsed = before.zip(patterns.as_ref());
        let collapsed = collapsed.map(|(index, patterns)| Collapsed { index, patterns });
        Ok(diff::staged(repo, self.root, index, tree, &request.pathspecs, Some(counts), collapsed)?)
    }

    /// Detects renames among the differences.
    fn with_renames(
        self,
        pairs: Vec<Pair>,
        worktree: Option<diff::WorktreeFiles<'_>>,
    ) -> Result<Vec<Pair>, Error> {
        let Renames { detect: Some(detect), minimum, limit } = self.request.renames else {
            return Ok(pairs);
        };
        let options = renames::Options { detect, minimum, limit, empty: renames::Empty::Included, worktree };
        Ok(renames::detect(self.context.repo, pairs, &options)?.resolved())
    }

    /// Returns true if the untracked cache of `index` may serve this walk, and prepares it.
    fn uses_cache(self, index: &mut Index, how: &untracked::Options) -> bool {
        let is_off = is_true(self.context.repo, "GIT_DISABLE_UNTRACKED_CACHE") == Some(true);
        if is_off || !self.request.pathspecs.is_empty() || how.ignored != untracked::Ignored::Left {
            return false;
        }
        let fits = untracked::cache::fit(self.context.repo, index, how.directories);
        if !fits {
            self.context.events.notice(Notice::UntrackedCacheDisabled);
        }
        fits
    }
}

/// Merges both lists by path.
fn merged(index: &Index, unstaged: Vec<Pair>, staged: Vec<Pair>) -> BTreeMap<BString, Change> {
    let mut changes: BTreeMap<BString, Change> = BTreeMap::new();
    for mut pair in unstaged {
        changes.entry(std::mem::take(&mut pair.path)).or_default().take_unstaged(pair);
    }
    for mut pair in staged {
        changes.entry(std::mem::take(&mut pair.path)).or_default().take_staged(pair);
    }
    for (path, change) in changes.iter_mut().filter(|(_, change)| change.index == Some(Difference::Unmerged))
    {
        for entry in index.entries_in(index.range_of(path.as_bstr())) {
            if let Some(stage) = (entry.stage as usize).checked_sub(Stage::Base as usize) {
                change.stages.get_or_insert_default()[stage] = Some((entry.mode, entry.oid));
            }
        }
    }
    changes
}

/// Returns true if the index is written to keep new content of its untracked cache, as Git does.
fn records_cache(repo: &Repository) -> Result<bool, Error> {
    Ok(match is_true(repo, "GIT_FORCE_UNTRACKED_CACHE") {
        Some(forced) => forced,
        None => untracked::cache::setting(repo)? == untracked::cache::CacheSetting::Write,
    })
}

fn is_true(repo: &Repository, variable: &str) -> Option<bool> {
    repo.env().bytes(variable).and_then(|value| repo::parse_bool(Some(value)))
}

/// Returns the share of a full index that is in a sparse worktree.
fn percentage(repo: &Repository, index: &Index) -> Result<Sparse, Error> {
    if index.is_empty() || !sparse::is_on(repo)? {
        return Ok(Sparse::No);
    }
    let is_skipped = |entry: &Entry| entry.flags.contains(Flags::SKIP_WORKTREE);
    let skipped = index.entries_in(0..index.len()).filter(is_skipped).count();
    Ok(Sparse::Percent(100 - 100 * skipped / index.len()))
}
