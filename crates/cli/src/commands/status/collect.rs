//! What is found: HEAD against the index and the index against the worktree, put together path by path; what is not in the index; and what
//! is in progress.

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
    diff::{self, Collapsed, Dirt, Pair, Status, SubmoduleIgnore, renames},
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
    record::{Learnt, record},
};
use crate::{
    commands::{paths, unseen},
    session::{
        apply,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{self, Fill, Tell},
        trace,
    },
    term::{console, failure::Failure},
};

/// One path that differs somewhere.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// How the index differs from HEAD.
    pub(super) index: Option<Status>,
    /// How the worktree differs from the index.
    pub(super) worktree: Option<Status>,
    /// What is there in HEAD and in the index, as far as a difference told of it.
    pub(super) head_side: Option<(Mode, ObjectId)>,
    pub(super) index_side: Option<(Mode, ObjectId)>,
    pub(super) worktree_mode: Option<Mode>,
    /// The sides of a conflict. As the rename it is apart, as most have none, and there may be many.
    pub(super) stages: Option<Box<Sides>>,
    pub(super) rename: Option<Box<Rename>>,
    /// Of a submodule.
    pub(super) dirt: Dirt,
}

/// What is there of base, ours and theirs.
pub(super) type Sides = [Option<(Mode, ObjectId)>; 3];

/// Where it was.
#[derive(Debug)]
pub(super) struct Rename {
    /// `Renamed` or `Copied`.
    pub(super) status: Status,
    pub(super) source: BString,
    pub(super) percent: u32,
}

/// Who has, or has not, something in a conflict.
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
    /// The two letters of the short formats.
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
    /// What kind of a conflict it is, if it is one.
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

    /// A difference of the worktree. What is unmerged comes as such first, and then as a change of what is ours.
    fn take_unstaged(&mut self, pair: Pair) {
        self.worktree.get_or_insert(pair.status);
        if pair.status != Status::Added {
            self.index_side = pair.old.map(known);
        }
        if let Some(new) = pair.new {
            self.worktree_mode = Some(new.mode);
            if new.mode.is_gitlink() {
                self.dirt = pair.dirt;
                // To Git a repository in the place of something else has another commit than that, and one in the place of nothing a name
                // once it was compared by content.
                self.dirt.commit |= match pair.status {
                    Status::TypeChanged => true,
                    Status::Added | Status::Unmerged => new.oid.is_some(),
                    _ => false,
                };
            }
        }
        self.take_rename(pair);
    }

    /// A difference of the index.
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

/// How much of the index is in the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sparse {
    No,
    /// The index is sparse itself.
    Index,
    /// So many of a hundred files are there.
    Percent(usize),
}

/// All that was found.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) head: Head,
    pub(super) changes: BTreeMap<BString, Change>,
    pub(super) untracked: Vec<BString>,
    pub(super) ignored: Vec<BString>,
    pub(super) operations: Operations,
    /// Where HEAD was detached.
    pub(super) detached: Option<DetachedFrom>,
    pub(super) comparison: Comparison,
    pub(super) sparse: Sparse,
    /// Something in the worktree differs from the index.
    pub(super) is_dirty: bool,
    /// The next commit is neither a merge's nor a cherry-pick's.
    pub(super) is_plain_commit: bool,
    /// There is something for a commit.
    pub(super) is_committable: bool,
    /// How long untracked files were looked for.
    pub(super) took: Duration,
}

impl Collected {
    pub(super) fn has_conflicts(&self) -> bool {
        self.changes.values().any(|change| change.conflict().is_some())
    }

    /// There is no commit yet.
    pub(super) fn is_initial(&self) -> bool {
        self.head.oid().is_none()
    }
}

/// Looks, and brings stat data in the index up to date.
pub(super) fn collect(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    root: &Dir,
    request: &Request,
) -> Result<Collected, Failure> {
    let pathspecs = paths::parse(run, repo, &request.pathspecs)?;
    let indexed = OnceLock::new();
    let (tip, told) = (|| Tip::find(repo, settings, request, root, &indexed), || told(repo));
    let excludes = || excludes(repo, request);
    thread::scope(|scope| {
        let (tip, told, excludes) = (Deferred::new(&tip), Deferred::new(&told), Deferred::new(&excludes));
        if waits(root) {
            excludes.start(scope);
        }
        // On a disk of our own not before it is known how that answers: it would be asked by others, too.
        if root.is_remote() {
            tip.start(scope);
            told.start(scope);
        }
        let beside = Asides { scope, tip, told, excludes, indexed: &indexed };
        collect_beside(run, repo, settings, root, (request, &pathspecs), beside)
    })
}

/// Whether the disk makes who asks it wait: where the first files had to be fetched, what comes next has to be, too.
fn waits(root: &Dir) -> bool {
    root.is_remote() || sys::has_read_block_device()
}

/// What is to be known of HEAD.
struct Tip {
    head: Head,
    /// Of its commit.
    tree: Option<ObjectId>,
    /// What only the answer tells, so that it fails no earlier.
    detached: Result<Option<DetachedFrom>, Failure>,
    comparison: Result<Comparison, Failure>,
}

impl Tip {
    /// `indexed` is the tree that the index is, as far as that is known by now.
    fn find(
        repo: &Repository,
        settings: &Settings,
        request: &Request,
        root: &Dir,
        indexed: &OnceLock<ObjectId>,
    ) -> Result<Tip, Failure> {
        let head = repo.head()?;
        let bad_head = |error| Failure::of_name(error, Failure::fatal("bad object HEAD"));
        let tree = head.oid().map(|commit| repo.tree_of(commit)).transpose().map_err(bad_head)?;
        if let Some(tree) = tree.filter(|tree| waits(root) && indexed.get() != Some(tree)) {
            // So that it is at hand when it is compared. Whoever does that will say so if it cannot be read.
            let _read = repo.tree_of(tree);
        }
        let detached = match head {
            Head::Detached { .. } if request.names_what_is_detached() => {
                repo.detached_from().map_err(Failure::from)
            }
            _ => Ok(None),
        };
        let comparison = Comparison::find(repo, settings, request, &head);
        Ok(Tip { head, tree, detached, comparison })
    }
}

/// What is known of HEAD, once it is.
fn wait_for(tip: Deferred<'_, Result<Tip, Failure>>) -> Result<Tip, Failure> {
    let began = Instant::now();
    let tip = tip.get()?;
    let comparison = tip.comparison.map(|found| found.within(began.elapsed()));
    Ok(Tip { comparison, ..tip })
}

/// What the files in the Git directory tell of what is in progress.
struct Told {
    operations: Operations,
    /// The next commit is a cherry-pick's.
    picks: bool,
}

fn told(repo: &Repository) -> Result<Told, Failure> {
    Ok(Told { operations: operations(repo)?, picks: repo.find_ref("CHERRY_PICK_HEAD".into())?.is_some() })
}

/// The rules for what is ignored, if anybody wants to know.
fn excludes(repo: &Repository, request: &Request) -> Result<Excludes, Failure> {
    match request.untracked {
        Untracked::No => Ok(Excludes::default()),
        Untracked::Normal | Untracked::All => Ok(Excludes::standard(repo, &[])?),
    }
}

/// What is found out beside the rest.
struct Asides<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    tip: Deferred<'s, Result<Tip, Failure>>,
    told: Deferred<'s, Result<Told, Failure>>,
    excludes: Deferred<'s, Result<Excludes, Failure>>,
    indexed: &'s OnceLock<ObjectId>,
}

fn collect_beside(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    root: &Dir,
    (request, pathspecs): (&Request, &Pathspecs),
    Asides { scope, tip, told, excludes, indexed }: Asides<'_, '_>,
) -> Result<Collected, Failure> {
    let sparse_index::Read { mut index, before, seen, differs_on_disk } =
        apply::read_index(repo, settings, root, Tell::Hint, Fill::Later)?;
    if let Some((tree, _)) = index.cache_tree.as_ref().and_then(|tree| tree.valid) {
        let _first = indexed.set(tree);
    }
    let sparse = match before {
        Some(_) if sparse::is_on(repo)? => Sparse::Index,
        _ => percentage(repo, &index)?,
    };
    let mut is_news = differs_on_disk;
    let monitor = monitor::refresh(run, repo, settings, &mut index)?;
    // Of HEAD only a sparse index has to know this early.
    let tip = match index.sparse {
        false => Err(tip),
        true => {
            let tip = wait_for(tip)?;
            match tip.tree {
                Some(tree) => sparse_index::settle(repo, &mut index, &|_| Purpose::Compare(tree))?,
                None => sparse_index::fill(repo, &mut index)?,
            }
            Ok(tip)
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
        if let Err(tip) = &tip {
            tip.start(scope);
        }
        told.start(scope);
    };
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
    };
    let worktree = status::examine(repo, root, &index, &options)?;
    // What was fetched for the sake of tracked files would have been without looking for others, too.
    let took = began.elapsed().saturating_sub(worktree.swept);
    if options.untracked.is_some() {
        trace::walk(2, pathspecs.common_directory(), &worktree.found);
    }
    run.interrupt.check()?;
    let Tip { head, tree, detached, comparison } = tip.or_else(wait_for)?;
    // Before there is a commit everything that is staged counts.
    let counts = if tree.is_some() { request.submodules.unwrap_or(Ignore::Dirty) } else { Ignore::None };
    let patterns = if before.is_some() { sparse_index::wanted(repo)? } else { None };
    let collapsed = before.as_ref().zip(patterns.as_ref());
    let collapsed = collapsed.map(|(index, patterns)| Collapsed { index, patterns });
    let staged = diff::staged(repo, root, &index, tree, pathspecs, Some(counts), collapsed)?;
    unseen::tell(&index, pathspecs, &worktree);
    if tree.is_some() {
        console::complaints(repo);
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
        is_news |= records_cache(run, repo)?;
    }
    let learnt = Learnt {
        seen,
        before,
        refreshed: worktree.refreshed,
        proved: worktree.proven_clean,
        monitor,
        is_news,
    };
    record(run, repo, settings, root, &mut index, learnt)?;
    // The process is about to end, and need not give back a name for each directory before that.
    std::mem::forget(index);
    let detached = detached?;
    let Told { operations, picks } = told.get()?;
    let mut collected = Collected {
        is_plain_commit: !operations.merge && !picks,
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

/// The differences, with what was renamed among them.
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

/// Whether the untracked cache of `index`, if it has one, may serve such a walk; it is made fit for that. Git's words if it is of elsewhere.
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

/// Whether the index is written for the sake of what its untracked cache has learnt, as by Git.
fn records_cache(run: &Invocation, repo: &Repository) -> Result<bool, Failure> {
    Ok(match is_true(run, "GIT_FORCE_UNTRACKED_CACHE") {
        Some(forced) => forced,
        None => untracked::cache::setting(repo)? == untracked::cache::CacheSetting::Write,
    })
}

fn is_true(run: &Invocation, variable: &str) -> Option<bool> {
    run.variable(variable).and_then(|value| repo::parse_bool(Some(value.into())))
}

/// What is looked for that is not in the index.
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

/// How much of a full index is in a sparse worktree.
fn percentage(repo: &Repository, index: &Index) -> Result<Sparse, Failure> {
    if index.is_empty() || !sparse::is_on(repo)? {
        return Ok(Sparse::No);
    }
    let is_skipped = |entry: &Entry| entry.flags.contains(Flags::SKIP_WORKTREE);
    let skipped = index.entries_in(0..index.len()).filter(is_skipped).count();
    Ok(Sparse::Percent(100 - 100 * skipped / index.len()))
}
