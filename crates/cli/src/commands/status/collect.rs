//! Collecting the lists of `status`: HEAD against the index and the index against the worktree,
//! merged by path; untracked paths; operations in progress.

use std::{
    collections::BTreeMap,
    sync::OnceLock,
    thread::{self, Scope},
    time::{Duration, Instant},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    checkout::Workers,
    crew::Deferred,
    diff::{self, Collapsed, Pair, Status, SubmoduleChanges, SubmoduleIgnore, renames},
    pathspec::Pathspecs,
    sparse::{self, Purpose},
    status::{self, Touched},
    switch::operations::{Operations, operations},
    untracked::{self, Directories, Excludes, Nested},
};
use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage},
};
use repo::{DetachedFrom, Head, Repository, submodule::Ignore};
use sys::Dir;

use super::{
    branch::Comparison,
    options::{Ignored, Renames, Request, Untracked},
    record::{RefreshedIndex, record},
};
use crate::{
    commands::{paths, scan_messages},
    session::{
        apply,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{self, Expansion, ExpansionHint},
        trace,
    },
    term::{
        console,
        failure::Failure,
        progress::{self, Progress, Watch},
    },
};

/// A path that differs between HEAD, index and worktree.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// How the index differs from HEAD.
    pub(super) index: Option<Status>,
    /// How the worktree differs from the index.
    pub(super) worktree: Option<Status>,
    /// The entries of HEAD and of the index, as far as a difference contains them.
    pub(super) head_side: Option<(Mode, ObjectId)>,
    pub(super) index_side: Option<(Mode, ObjectId)>,
    pub(super) worktree_mode: Option<Mode>,
    /// The sides of a conflict. Boxed, like the rename, because most changes have none, and there
    /// may be many changes.
    pub(super) stages: Option<Box<Sides>>,
    pub(super) rename: Option<Box<Rename>>,
    /// The state of a submodule.
    pub(super) submodule_changes: SubmoduleChanges,
}

/// The entries of base, ours and theirs.
pub(super) type Sides = [Option<(Mode, ObjectId)>; 3];

/// The source of a rename or copy.
#[derive(Debug)]
pub(super) struct Rename {
    /// `Renamed` or `Copied`.
    pub(super) status: Status,
    pub(super) source: BString,
    pub(super) percent: u32,
}

/// The kind of a conflict: which sides changed, added or deleted the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    BothDeleted,
    AddedByUs,
    DeletedByThem,
    AddedByThem,
    DeletedByUs,
    BothAdded,
    BothModified,
}

impl Conflict {
    /// Returns the two letters of the short formats.
    pub(super) fn letters(self) -> &'static str {
        match self {
            Conflict::BothDeleted => "DD",
            Conflict::AddedByUs => "AU",
            Conflict::DeletedByThem => "UD",
            Conflict::AddedByThem => "UA",
            Conflict::DeletedByUs => "DU",
            Conflict::BothAdded => "AA",
            Conflict::BothModified => "UU",
        }
    }
}

impl Change {
    /// Returns the kind of the conflict, if the path is unmerged.
    pub(super) fn conflict(&self) -> Option<Conflict> {
        Some(match self.stages.as_deref()?.map(|side| side.is_some()) {
            [false, false, false] => return None,
            [true, false, false] => Conflict::BothDeleted,
            [false, true, false] => Conflict::AddedByUs,
            [true, true, false] => Conflict::DeletedByThem,
            [false, false, true] => Conflict::AddedByThem,
            [true, false, true] => Conflict::DeletedByUs,
            [false, true, true] => Conflict::BothAdded,
            [true, true, true] => Conflict::BothModified,
        })
    }

    /// Adds a difference of the worktree. An unmerged path occurs twice: first as unmerged, and
    /// then as a change against our side.
    fn take_unstaged(&mut self, pair: Pair) {
        self.worktree.get_or_insert(pair.status);
        if pair.status != Status::Added {
            self.index_side = pair.old.map(known);
        }
        if let Some(new) = pair.new {
            self.worktree_mode = Some(new.mode);
            if new.mode.is_gitlink() {
                self.submodule_changes = pair.submodule_changes;
                // For Git, a repository that replaces another type of file has a changed commit; a
                // repository in an unoccupied place has one if the content was compared.
                self.submodule_changes.commit |= match pair.status {
                    Status::TypeChanged => true,
                    Status::Added | Status::Unmerged => new.oid.is_some(),
                    _ => false,
                };
            }
        }
        self.take_rename(pair);
    }

    /// Adds a difference of the index.
    fn take_staged(&mut self, pair: Pair) {
        self.index = Some(pair.status);
        if pair.status != Status::Unmerged {
            self.head_side = pair.old.map(known);
            self.index_side = pair.new.map(known).or(self.index_side);
        }
        self.take_rename(pair);
    }

    fn take_rename(&mut self, pair: Pair) {
        if let Some(source) = pair.source.filter(|_| pair.status != Status::Unmerged) {
            let percent = pair.score * 100 / diff::MAX_SCORE;
            self.rename = Some(Box::new(Rename { status: pair.status, source, percent }));
        }
    }
}

fn known(side: diff::Side) -> (Mode, ObjectId) {
    (side.mode, side.oid.expect("only what is in the worktree may be without a name"))
}

/// The sparsity of the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sparse {
    No,
    /// The index itself is sparse.
    Index,
    /// The percentage of files that are present.
    Percent(usize),
}

/// All collected results.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) head: Head,
    /// There is no commit to compare the index with.
    pub(super) is_initial: bool,
    pub(super) changes: BTreeMap<BString, Change>,
    pub(super) untracked: Vec<BString>,
    pub(super) ignored: Vec<BString>,
    pub(super) operations: Operations,
    /// The commit at which HEAD was detached.
    pub(super) detached: Option<DetachedFrom>,
    pub(super) comparison: Comparison,
    pub(super) sparse: Sparse,
    /// The worktree differs from the index.
    pub(super) is_dirty: bool,
    /// The next commit concludes neither a merge nor a cherry-pick.
    pub(super) is_plain_commit: bool,
    /// There is something to commit.
    pub(super) is_committable: bool,
    /// The time spent on the search for untracked files.
    pub(super) took: Duration,
}

impl Collected {
    pub(super) fn has_conflicts(&self) -> bool {
        self.changes.values().any(|change| change.conflict().is_some())
    }

    /// Returns true if there is no commit yet.
    pub(super) fn is_initial(&self) -> bool {
        self.is_initial
    }
}

/// The index to examine.
pub(super) enum Source {
    /// The repository's index, whose stat data are updated.
    File,
    /// An index that the caller provides.
    Held(Box<sparse_index::Read>),
}

/// Collects the results, and updates stat data in the index.
pub(super) fn collect(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    root: &Dir,
    request: &Request,
    source: Source,
) -> Result<Collected, Failure> {
    let pathspecs = paths::parse(run, repo, &request.pathspecs)?;
    let indexed = OnceLock::new();
    let (head_info, in_progress) =
        (|| HeadInfo::find(repo, settings, request, root, &indexed), || in_progress(repo));
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
        let tasks = BackgroundTasks { scope, head_info, in_progress, excludes, indexed: &indexed, source };
        collect_with(run, repo, settings, root, (request, &pathspecs), tasks)
    })
}

/// Returns true if the disk is slow: the first files were read from the device, so the next ones
/// will be too.
fn is_slow_disk(root: &Dir) -> bool {
    root.is_remote() || sys::has_read_block_device()
}

/// Data about HEAD.
struct HeadInfo {
    head: Head,
    /// The tree of its commit.
    tree: Option<ObjectId>,
    /// An error is reported with the result, and does not stop the comparison.
    detached: Result<Option<DetachedFrom>, Failure>,
    comparison: Result<Comparison, Failure>,
}

impl HeadInfo {
    /// `indexed` is the tree that equals the index, once that is known.
    fn find(
        repo: &Repository,
        settings: &Settings,
        request: &Request,
        root: &Dir,
        indexed: &OnceLock<ObjectId>,
    ) -> Result<HeadInfo, Failure> {
        let head = repo.head()?;
        let bad_head = |error| Failure::of_name(error, Failure::fatal("bad object HEAD"));
        let compared = match (head.oid(), request.amends()) {
            (Some(commit), true) => repo.commit_text(commit)?.parents.first().copied(),
            (commit, _) => commit,
        };
        let tree = compared.map(|commit| repo.tree_of(commit)).transpose().map_err(bad_head)?;
        if let Some(tree) = tree.filter(|tree| is_slow_disk(root) && indexed.get() != Some(tree)) {
            // Read the tree into the page cache ahead of the comparison, which also reports errors.
            let _read = repo.tree_of(tree);
        }
        let detached = match head {
            Head::Detached { .. } if request.names_what_is_detached() => {
                repo.detached_from().map_err(Failure::from)
            }
            _ => Ok(None),
        };
        let comparison = Comparison::find(repo, settings, request, &head);
        Ok(HeadInfo { head, tree, detached, comparison })
    }
}

/// Waits for the data about HEAD.
fn wait_for(head_info: Deferred<'_, Result<HeadInfo, Failure>>) -> Result<HeadInfo, Failure> {
    let began = Instant::now();
    let head_info = head_info.get()?;
    let comparison = head_info.comparison.map(|found| found.within(began.elapsed()));
    Ok(HeadInfo { comparison, ..head_info })
}

/// The operations in progress, derived from files in the Git directory.
struct InProgress {
    operations: Operations,
    /// The next commit concludes a cherry-pick.
    concludes_pick: bool,
}

fn in_progress(repo: &Repository) -> Result<InProgress, Failure> {
    Ok(InProgress {
        operations: operations(repo)?,
        concludes_pick: repo.find_ref("CHERRY_PICK_HEAD".into())?.is_some(),
    })
}

/// Returns the ignore rules, if untracked files are listed.
fn excludes(repo: &Repository, request: &Request) -> Result<Excludes, Failure> {
    match request.untracked {
        Untracked::No => Ok(Excludes::default()),
        Untracked::Normal | Untracked::All => Ok(Excludes::standard(repo, &[])?),
    }
}

/// The background tasks during the comparison.
struct BackgroundTasks<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    head_info: Deferred<'s, Result<HeadInfo, Failure>>,
    in_progress: Deferred<'s, Result<InProgress, Failure>>,
    excludes: Deferred<'s, Result<Excludes, Failure>>,
    indexed: &'s OnceLock<ObjectId>,
    source: Source,
}

fn collect_with(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    root: &Dir,
    (request, pathspecs): (&Request, &Pathspecs),
    BackgroundTasks { scope, head_info, in_progress, excludes, indexed, source }: BackgroundTasks<'_, '_>,
) -> Result<Collected, Failure> {
    let sparse_index::Read { mut index, before, seen, differs_on_disk } = match source {
        Source::File => apply::read_index(repo, settings, root, ExpansionHint::Print, Expansion::Later)?,
        Source::Held(read) => *read,
    };
    if let Some((tree, _)) = index.cache_tree.as_ref().and_then(|tree| tree.valid) {
        let _first = indexed.set(tree);
    }
    let sparse = match before {
        Some(_) if sparse::is_on(repo)? => Sparse::Index,
        _ => percentage(repo, &index)?,
    };
    let mut is_worth_writing = differs_on_disk;
    let monitor = monitor::refresh(run, repo, settings, &mut index)?;
    // Only a sparse index needs HEAD this early.
    let head_info = match index.sparse {
        false => Err(head_info),
        true => {
            let head_info = wait_for(head_info)?;
            match head_info.tree {
                Some(tree) => sparse_index::expand_for(repo, &mut index, &|_| Purpose::Compare(tree))?,
                None => sparse_index::expand(repo, &mut index)?,
            }
            Ok(head_info)
        }
    };
    run.interrupt.check()?;
    let began = Instant::now();
    let wanted = wanted(request, status::workers(repo)?);
    let excludes = excludes.get()?;
    let excludes = match wanted.as_ref().is_some_and(|how| uses_cache(run, repo, &mut index, pathspecs, how))
    {
        true => excludes,
        false => excludes.without_cache(),
    };
    let start = || {
        if let Err(head_info) = &head_info {
            head_info.start(scope);
        }
        in_progress.start(scope);
    };
    let shows = progress::has_terminal() && !request.format.is_for_scripts();
    let shown = Progress::new("Refresh index", shows, settings.progress_delay);
    let watch = Watch::start(shown, index.len());
    let options = status::Options {
        pathspecs,
        untracked: wanted.map(|options| status::Untracked { options, excludes: &excludes }),
        touched: Touched::Compared,
        unmerged: Some(Stage::Ours),
        submodules: request.submodules.map_or(SubmoduleIgnore::Configured, SubmoduleIgnore::Given),
        missing: diff::Missing::Deleted,
        ignore_untracked_in_submodules: request.untracked == Untracked::No && request.submodules.is_none(),
        when_cold: &start,
        interrupt: run.interrupt.flag(),
        meter: watch.meter(),
    };
    let worktree = status::examine(repo, root, &index, &options)?;
    let searched = options.untracked.is_some();
    watch.finish();
    // Tracked files would have been read without the search for untracked files, too.
    let took = began.elapsed().saturating_sub(worktree.swept);
    if searched {
        trace::walk(2, pathspecs.common_directory(), &worktree.found);
    }
    run.interrupt.check()?;
    let HeadInfo { head, tree, detached, comparison } = head_info.or_else(wait_for)?;
    // Before the first commit all staged submodules count.
    let counts = if tree.is_some() { request.submodules.unwrap_or(Ignore::Dirty) } else { Ignore::None };
    let patterns = if before.is_some() { sparse_index::wanted(repo)? } else { None };
    let collapsed = before.as_ref().zip(patterns.as_ref());
    let collapsed = collapsed.map(|(index, patterns)| Collapsed { index, patterns });
    let staged = diff::staged(repo, root, &index, tree, pathspecs, Some(counts), collapsed)?;
    scan_messages::print(&index, pathspecs, &worktree);
    if tree.is_some() {
        console::print_object_store_errors(repo);
    }
    worktree.found.warnings.iter().for_each(|warning| console::warning(warning.message()));
    let place = Some(diff::WorktreeFiles { root, index: &index });
    let unstaged = with_renames(repo, worktree.changes, request, place)?;
    let staged = with_renames(repo, staged, request, None)?;
    let is_dirty = !unstaged.is_empty();
    let is_committable = staged.iter().any(|pair| pair.status != Status::Unmerged || tree.is_none());
    let mut changes: BTreeMap<BString, Change> = BTreeMap::new();
    for mut pair in unstaged {
        changes.entry(std::mem::take(&mut pair.path)).or_default().take_unstaged(pair);
    }
    for mut pair in staged {
        changes.entry(std::mem::take(&mut pair.path)).or_default().take_staged(pair);
    }
    for (path, change) in changes.iter_mut().filter(|(_, change)| change.index == Some(Status::Unmerged)) {
        for entry in index.entries_in(index.range_of(path.as_bstr())) {
            if let Some(stage) = (entry.stage as usize).checked_sub(Stage::Base as usize) {
                change.stages.get_or_insert_default()[stage] = Some((entry.mode, entry.oid));
            }
        }
    }
    let mut found = worktree.found;
    for paths in [&mut found.untracked, &mut found.ignored] {
        let mut others = untracked::Others::of(&index);
        paths.retain(|path| others.is_other(path.as_bstr()));
    }
    if let Some(cache) = found.cache.take() {
        index.untracked = Some(cache);
        is_worth_writing |= records_cache(run, repo)?;
    }
    let refreshed_index = RefreshedIndex {
        seen,
        before,
        refreshed: worktree.refreshed,
        proved: worktree.proven_clean,
        monitor,
        is_worth_writing,
    };
    record(run, repo, settings, root, &mut index, refreshed_index)?;
    // The process ends soon: skip freeing a name for each directory.
    std::mem::forget(index);
    let detached = detached?;
    let InProgress { operations, concludes_pick } = in_progress.get()?;
    let mut collected = Collected {
        is_plain_commit: !operations.merge && !concludes_pick,
        is_initial: tree.is_none(),
        head,
        changes,
        untracked: found.untracked,
        ignored: found.ignored,
        operations,
        detached,
        comparison: comparison?,
        sparse,
        is_dirty,
        is_committable,
        took,
    };
    collected.is_committable |= collected.operations.merge && !collected.has_conflicts();
    Ok(collected)
}

/// Detects renames among the differences.
fn with_renames(
    repo: &Repository,
    pairs: Vec<Pair>,
    request: &Request,
    worktree: Option<diff::WorktreeFiles<'_>>,
) -> Result<Vec<Pair>, Failure> {
    let Renames { detect: Some(detect), minimum, limit } = request.renames else { return Ok(pairs) };
    let options = renames::Options { detect, minimum, limit, empty: renames::Empty::Included, worktree };
    Ok(renames::detect(repo, pairs, &options)?.resolved())
}

/// Returns true if the untracked cache of `index` may serve this walk, and prepares it. Prints
/// Git's warning if the cache belongs to another location or system.
fn uses_cache(
    run: &Invocation,
    repo: &Repository,
    index: &mut Index,
    pathspecs: &Pathspecs,
    how: &untracked::Options,
) -> bool {
    let is_off = is_true(run, "GIT_DISABLE_UNTRACKED_CACHE") == Some(true);
    if is_off || !pathspecs.is_empty() || how.ignored != untracked::Ignored::Left {
        return false;
    }
    let fits = untracked::cache::fit(repo, index, how.directories);
    if !fits {
        console::warning("untracked cache is disabled on this system or location");
    }
    fits
}

/// Returns true if the index is written to keep new content of its untracked cache, as Git does.
fn records_cache(run: &Invocation, repo: &Repository) -> Result<bool, Failure> {
    Ok(match is_true(run, "GIT_FORCE_UNTRACKED_CACHE") {
        Some(forced) => forced,
        None => untracked::cache::setting(repo)? == untracked::cache::CacheSetting::Write,
    })
}

fn is_true(run: &Invocation, variable: &str) -> Option<bool> {
    run.variable(variable).and_then(|value| repo::parse_bool(Some(value.into())))
}

/// Returns the options of the search for untracked paths; `None` for no search.
fn wanted(request: &Request, workers: Workers) -> Option<untracked::Options> {
    let directories = match request.untracked {
        Untracked::No => return None,
        Untracked::Normal => Directories::WholeUnlessEmpty,
        Untracked::All => Directories::Files,
    };
    let ignored = match request.ignored {
        Ignored::No => untracked::Ignored::Left,
        Ignored::Traditional => untracked::Ignored::Too,
        Ignored::Matching => untracked::Ignored::Matching,
    };
    Some(untracked::Options { directories, ignored, nested: Nested::AsOne, workers })
}

/// Returns the share of a full index that is in a sparse worktree.
fn percentage(repo: &Repository, index: &Index) -> Result<Sparse, Failure> {
    if index.is_empty() || !sparse::is_on(repo)? {
        return Ok(Sparse::No);
    }
    let is_skipped = |entry: &Entry| entry.flags.contains(Flags::SKIP_WORKTREE);
    let skipped = index.entries_in(0..index.len()).filter(is_skipped).count();
    Ok(Sparse::Percent(100 - 100 * skipped / index.len()))
}
