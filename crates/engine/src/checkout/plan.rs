//! Planning: every step of a checkout, and every refusal, before anything is changed.

use std::sync::Arc;

use super::{
    Operation, Refusal,
    decide::{self, Decided, Decider, Policy, Sparsity},
    follow::Follow,
    queries::WorktreeQueries,
    refusal,
};
use crate::files::Premise;
use crate::look::{
    LookError, cache_tree,
    content::{Cleaning, LazyConverter},
    facts::{self, Fact, Facts, QueryKind, Seen},
    ignore::{self, Ignores},
    protect,
    sparse::{self, Patterns},
    stat::{StatRules, recorded_stat},
    trees::{self, Found, Kind, OneSided, Slot, TreeSource},
    unlinked::Unlinked,
};
use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    index::{Flags, Index, Stage},
    path::{self, Protect},
};
use repo::keys;
use sys::profile::{self, Phase};

/// The trees that are merged with the index, in the terms of Git's unpack-trees.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Merge {
    /// `reset --hard`, `checkout -f`, `clone`, `reset --merge`: the index becomes `target`.
    OneWay { target: ObjectId },
    /// `switch`, `reset --keep`: carry local changes over from `head` to `target`. `head` is `None`
    /// on an unborn branch.
    TwoWay { head: Option<ObjectId>, target: ObjectId },
    /// `read-tree -m base ours theirs` (one or more bases).
    ThreeWay {
        bases: Vec<ObjectId>,
        ours: ObjectId,
        theirs: ObjectId,
        one_sided: OneSided,
        conflicts: Conflicts,
    },
    /// `read-tree <trees>`: the paths of all trees, where later trees replace earlier ones. The old
    /// index is discarded.
    Overlay { trees: Vec<ObjectId> },
    /// `read-tree --prefix`: the paths of `tree` are added below `prefix` (without a slash at the
    /// end) to the index.
    Bind { tree: ObjectId, prefix: BString },
}

/// The treatment of a path that has to be merged file by file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Its stages are added to the index.
    Stages,
    /// The operation is refused (`--trivial`).
    Refuse,
}

/// The role of the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// The worktree is changed too (`-u`).
    Update,
    /// The worktree is not changed, but files of entries that the index loses must be unchanged.
    Check,
    /// The worktree is ignored (`-i`).
    Ignore,
}

/// The changes that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// No changes may be lost: refuse wherever Git refuses.
    No,
    /// `reset --mixed`: the index is reset, and untracked files in the way are kept.
    ProtectUntracked,
    /// `reset --hard`, `checkout -f`: local changes and untracked files in the way are removed.
    OverwriteUntracked,
    /// Resuming a clone that was killed. Entries of the index stay unchanged. Missing entries, and
    /// those never seen on disk, are written. A file in the way is removed only if the clone itself
    /// may have left it ([`Premise::Remnant`]).
    Remnants,
}

/// The patterns of a sparse worktree.
#[derive(Clone, Debug, Default)]
pub enum Sparse {
    /// Files are removed and written according to the configured patterns
    /// ([`crate::look::sparse::load`]).
    #[default]
    Configured,
    /// These patterns.
    Given(Arc<Patterns>),
    /// Entries keep their skip-worktree flags (`read-tree --no-sparse-checkout`).
    Ignored,
}

/// The treatment of entries that the file system monitor vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// Their files are examined: a step must not rely on a monitor that may have missed an event.
    Examined,
    /// Their files count as equal to the index entries. Only for plans that are not executed.
    Trusted,
}

/// Options of planning.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The trees and the kind of merge.
    pub merge: Merge,
    /// The changes that may be lost.
    pub force: Force,
    /// The role of the worktree.
    pub files: Files,
    /// Ignored files in the way may be overwritten (Git's default for switch;
    /// `--no-overwrite-ignore`).
    pub overwrite_ignored: bool,
    /// Treat a file with changed stat data but equal content as unchanged. `checkout` and `switch`
    /// do so, because they refresh the index first. `reset` and `read-tree` do not.
    pub refresh: bool,
    /// The command's current directory, relative to the worktree, without a slash at the end.
    /// `None` for the root or a directory outside. Git never removes this directory.
    pub original_cwd: Option<BString>,
    /// The sparse patterns. Not used if the worktree is not changed.
    pub sparse: Sparse,
    /// The operation, which selects the report of refusals.
    pub operation: Operation,
    /// The treatment of entries that the monitor vouches for.
    pub vouched: Vouched,
}

impl PlanOptions {
    /// Options of `switch` from `head`.
    pub fn switch(head: Option<ObjectId>, target: ObjectId) -> Self {
        PlanOptions {
            merge: Merge::TwoWay { head, target },
            force: Force::No,
            files: Files::Update,
            overwrite_ignored: true,
            refresh: true,
            original_cwd: None,
            sparse: Sparse::Configured,
            operation: Operation::Checkout,
            vouched: Vouched::Examined,
        }
    }

    /// Options of `reset --hard` and `checkout -f`.
    pub fn reset_hard(target: ObjectId) -> Self {
        PlanOptions {
            merge: Merge::OneWay { target },
            force: Force::OverwriteUntracked,
            refresh: false,
            operation: Operation::Plumbing,
            ..Self::switch(None, target)
        }
    }

    /// Options of `clone` and `reset --merge`.
    pub fn one_way(target: ObjectId) -> Self {
        PlanOptions { force: Force::No, ..Self::reset_hard(target) }
    }

    /// Options of `reset --keep`.
    pub fn reset_keep(head: ObjectId, target: ObjectId) -> Self {
        PlanOptions { refresh: false, operation: Operation::Plumbing, ..Self::switch(Some(head), target) }
    }
}

impl PlanOptions {
    /// Loads the configured patterns. Warnings about their file are lost: a caller that prints them
    /// loads the patterns itself.
    fn resolve(&self, repo: &repo::Repository) -> Result<PlanOptions, PlanError> {
        let mut options = self.clone();
        if let (Sparse::Configured, true) = (&self.sparse, self.files == Files::Update) {
            let loaded = sparse::load(repo)?;
            options.sparse =
                loaded.map_or(Sparse::Ignored, |loaded| Sparse::Given(Arc::new(loaded.patterns)));
        }
        Ok(options)
    }
}

/// An entry to write.
#[derive(Clone, Debug)]
pub struct Write {
    /// The position in `Plan::index.entries()`.
    pub entry: usize,
    /// The condition that must hold.
    pub premise: Premise,
}

/// A path to remove. Directories that become empty are removed too, except the worktree's root.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Removal {
    pub path: BString,
    pub premise: Premise,
    /// True for a submodule: only an empty directory is removed.
    pub gitlink: bool,
}

/// All steps of an operation.
#[derive(Debug)]
pub struct Plan {
    /// The new index. Entries to be written have a zero stat until then.
    pub index: Index,
    /// In index order.
    pub writes: Vec<Write>,
    /// In index order; executed in reverse.
    pub removals: Vec<Removal>,
    /// Git's warnings that do not refuse the operation, for example about sparse paths left in
    /// place. Texts for standard error, each with a newline.
    pub warnings: Vec<BString>,
}

impl Plan {
    /// Returns the files that planning saw and that must be unchanged when they are removed.
    pub(super) fn files(&self) -> impl Iterator<Item = &sys::Stat> {
        let writes = self.writes.iter().map(|write| &write.premise);
        writes.chain(self.removals.iter().map(|removal| &removal.premise)).filter_map(Premise::file)
    }
}

impl Plan {
    /// Renews the premises of files of which this process has just carried out other `removals`:
    /// hard links, whose ctime has changed. Any other change keeps the premise, which then fails.
    pub fn follow_removals(&mut self, worktree: &sys::Dir, removals: &[Removal]) {
        let files = removals.iter().filter_map(|removal| removal.premise.file());
        let unlinked = Unlinked::of(files);
        removals.iter().filter_map(|removal| removal.premise.file()).for_each(|file| unlinked.mark(file));
        let writes =
            self.writes.iter_mut().map(|write| (self.index.path_at(write.entry), &mut write.premise));
        let removals = self.removals.iter_mut().map(|it| (it.path.as_bstr(), &mut it.premise));
        for (path, premise) in writes.chain(removals) {
            let Premise::Unchanged(expected) = premise else { continue };
            if unlinked.contains(expected)
                && let Ok(Some(found)) = worktree.stat(path)
                && unlinked.is_unchanged(expected, &found)
            {
                **expected = found;
            }
        }
    }
}

/// The reason why planning stopped. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// All refused paths in Git's order. [`refusal_text`](super::refusal_text) formats them.
    #[error("refused")]
    Refused(Vec<Refusal>),
    /// A `switch` with unmerged entries.
    #[error("you need to resolve your current index first")]
    Unmerged,
    /// A path has to be merged file by file, which [`Conflicts::Refuse`] forbids.
    #[error("Merge requires file-level merging")]
    NotTrivial,
    /// A tree, the worktree or the configuration cannot be read.
    #[error(transparent)]
    Look(LookError),
}

impl<E: Into<LookError>> From<E> for PlanError {
    fn from(error: E) -> PlanError {
        PlanError::Look(error.into())
    }
}

/// The inputs of planning besides the index.
pub(super) struct PlanInputs<'a> {
    pub(super) trees: &'a dyn TreeSource,
    pub(super) root: &'a sys::Dir,
    pub(super) cleaning: &'a dyn Cleaning,
    /// The contents of `info/exclude` and `core.excludesFile`.
    pub(super) excludes: Vec<Vec<u8>>,
    /// The facts about submodules that move with the superproject; `None` if submodules stay.
    pub(super) follow: Option<&'a dyn Follow>,
    pub(super) settings: Settings,
}

/// The relevant configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) stat: StatRules,
    pub(super) protect: Protect,
    pub(super) ignore_case: bool,
}

impl Settings {
    pub(super) fn of(repo: &repo::Repository) -> Result<Self, repo::Error> {
        Ok(Settings {
            stat: StatRules::of(repo)?,
            protect: protect(repo)?,
            ignore_case: repo.config(&keys::core::IGNORE_CASE)?,
        })
    }
}

/// Plans an operation. The plan consumes `index` and contains the new one. Nothing is changed on
/// disk.
pub fn plan(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    index: Index,
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    plan_with_submodules(repo, worktree, index, options, None)
}

/// Plans an operation. With `follow`, submodules move with their superproject.
pub fn plan_with_submodules(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    index: Index,
    options: &PlanOptions,
    follow: Option<&dyn Follow>,
) -> Result<Plan, PlanError> {
    let _phase = profile::span(Phase::Plan);
    let cleaning = LazyConverter::new(repo, &index);
    let inputs = PlanInputs {
        trees: repo.objects(),
        root: worktree,
        cleaning: &cleaning,
        excludes: ignore::outside(repo)?,
        follow,
        settings: Settings::of(repo)?,
    };
    let options = &options.resolve(repo)?;
    let decided = decide(&inputs, &index, options)?;
    Ok(finish(repo.objects(), index, decided, options.operation))
}

/// Walks the trees, gathers facts, and decides.
pub(super) fn decide(
    inputs: &PlanInputs<'_>,
    index: &Index,
    options: &PlanOptions,
) -> Result<Decided, PlanError> {
    let handles_sparse_index = matches!(options.merge, Merge::OneWay { .. } | Merge::TwoWay { .. })
        && options.files == Files::Update
        && matches!(options.sparse, Sparse::Given(_));
    if index.sparse && !handles_sparse_index {
        return Err(LookError::Unsupported("sparse indexes").into());
    }
    let (kind, trees) = match &options.merge {
        Merge::OneWay { target } => (Kind::OneWay, vec![Some(*target)]),
        Merge::TwoWay { head, target } => {
            let initial = index.is_empty() && index.timestamp == (0, 0);
            (Kind::TwoWay { initial }, vec![*head, Some(*target)])
        }
        Merge::ThreeWay { bases, ours, theirs, one_sided, .. } => {
            let kind = Kind::ThreeWay { one_sided: *one_sided };
            (kind, bases.iter().chain([ours, theirs]).copied().map(Some).collect())
        }
        Merge::Overlay { trees } => (Kind::Overlay, trees.iter().copied().map(Some).collect()),
        Merge::Bind { tree, .. } => (Kind::Bind, vec![Some(*tree)]),
    };
    let below = match &options.merge {
        Merge::Bind { prefix, .. } => prefix.as_bstr(),
        _ => BStr::new(""),
    };
    if options.operation == Operation::Checkout && options.force == Force::No && index.is_unmerged() {
        return Err(PlanError::Unmerged);
    }
    let patterns = match &options.sparse {
        Sparse::Given(patterns) if options.files == Files::Update => Some(&**patterns),
        _ => None,
    };
    let sparsity = patterns.map(|patterns| Sparsity::new(patterns, index));
    let policy = Policy {
        kind,
        force: options.force,
        files: options.files,
        protect: inputs.settings.protect,
        overwrite_ignored: options.overwrite_ignored,
        sparse: sparsity.as_ref(),
        cwd: options.original_cwd.as_ref().map(|cwd| cwd.as_bstr()),
        report_all: options.operation.reports_all(),
        recurse_submodules: inputs.follow.is_some(),
        vouched: options.vouched,
    };
    let found = if inputs.follow.is_some() && kind == Kind::OneWay {
        // Every submodule is checked, so equal directories are not skipped.
        let mut whole = index.clone();
        whole.cache_tree = None;
        trees::walk_below(inputs.trees, &whole, kind, trees, below)?
    } else {
        trees::walk_below(inputs.trees, index, kind, trees, below)?
    };
    let mut queries = WorktreeQueries {
        root: inputs.root,
        index,
        rules: inputs.settings.stat,
        refresh: options.refresh,
        ignores: Ignores::new(
            inputs.root,
            &inputs.excludes.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            inputs.settings.ignore_case,
        ),
        cleaning: inputs.cleaning,
        fold_case: inputs.settings.ignore_case,
        folded: None,
        follow: inputs.follow,
    };
    let (facts, same) = gather(&queries, index, &found, &policy)?;
    let mut decided = Decider::new(index, policy, &mut queries).run(found.rows, facts.into_iter())?;
    if !decided.refusals.is_empty() {
        return Err(PlanError::Refused(decided.refusals));
    }
    if matches!(options.merge, Merge::ThreeWay { conflicts: Conflicts::Refuse, .. }) && decided.unresolved {
        return Err(PlanError::NotTrivial);
    }
    let premise = if options.force == Force::Remnants { Premise::Remnant } else { Premise::Anything };
    let is_outside = |at: usize| sparsity.as_ref().is_some_and(|sparsity| sparsity.outside[at]);
    for at in same.into_iter().filter(|&at| !is_outside(at)) {
        decided.writes.push((index.path_at(at).to_owned(), premise.clone()));
    }
    for edit in &decided.edits {
        for entry in &edit.entries {
            path::verify(edit.path.as_bstr(), entry.mode, inputs.settings.protect)
                .map_err(|_| LookError::InvalidPath(edit.path.clone()))?;
        }
    }
    Ok(decided)
}

/// Returns the fact for each row, and the unchanged entries that a forced merge writes again. Files
/// with [`Premise::Remnant`] need no facts: they are checked when they are written.
fn gather(
    queries: &WorktreeQueries<'_>,
    index: &Index,
    found: &Found,
    policy: &Policy<'_>,
) -> Result<(Facts, Vec<usize>), PlanError> {
    let restore = policy.kind == Kind::OneWay && policy.force != Force::No && policy.updates();
    let same: Vec<usize> = found
        .same
        .iter()
        .filter(|_| restore)
        .flat_map(Clone::clone)
        .filter(|&at| !decide::is_trusted(index, &index.entry(at)))
        .collect();
    if policy.force == Force::Remnants {
        let unfinished = same.into_iter().filter(|&at| decide::is_unfinished(&index.entry(at)));
        return Ok((Facts::unknown(found.rows.len()), unfinished.collect()));
    }
    let mut asked_rows = Vec::new();
    let mut path_queries = Vec::new();
    let mut trusted = Vec::new();
    for (at, row) in found.rows.iter().enumerate() {
        let action = decide::action(row, policy.kind, policy.force, index);
        if let Some(kind) = decide::needed_query(row, action, policy, index) {
            if let Some(stat) = vouched_for(row.slot, policy, index) {
                trusted.push((at, stat));
                continue;
            }
            asked_rows.push(at);
            path_queries.push((row.path.as_bstr(), kind));
        }
    }
    path_queries.extend(same.iter().map(|&at| (index.path_at(at), QueryKind::Stat)));
    let mut seen = facts::probe(queries.root, index, &path_queries)?;
    let seen_same = seen.split_off(asked_rows.len());
    let entries: Vec<(usize, Seen)> = asked_rows
        .iter()
        .zip(&seen)
        .filter_map(|(&at, &seen)| match found.rows[at].slot {
            Slot::Merged(entry) => Some((entry, seen)),
            _ => None,
        })
        .chain(same.iter().copied().zip(seen_same))
        .collect();
    let mut clean = queries.clean(&entries)?.into_iter();
    let mut facts = Facts::unknown(found.rows.len());
    for (&at, &seen) in asked_rows.iter().zip(&seen) {
        let is_entry = matches!(found.rows[at].slot, Slot::Merged(_));
        let clean = is_entry && clean.next().expect("one verdict for each entry asked about");
        facts.set(at, Fact { seen, clean });
    }
    for (at, stat) in trusted {
        facts.set(at, Fact { seen: Seen::There(stat), clean: true });
    }
    let changed = same.into_iter().zip(clean).filter(|(_, clean)| !clean).map(|(at, _)| at).collect();
    Ok((facts, changed))
}

/// Returns the stat data of an entry from the index, if the plan may use them instead of a stat of
/// the file.
fn vouched_for(slot: Slot, policy: &Policy<'_>, index: &Index) -> Option<sys::Stat> {
    let Slot::Merged(at) = slot else { return None };
    let entry = &index.entry(at);
    let is_reliable = !entry.flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
    let is_trusted = policy.vouched == Vouched::Trusted && is_reliable && index.is_fsmonitor_valid(entry);
    is_trusted.then(|| recorded_stat(entry))
}

/// Applies the edits, and locates the entries to write.
pub(super) fn finish(
    trees: &dyn TreeSource,
    mut index: Index,
    decided: Decided,
    operation: Operation,
) -> Plan {
    let Decided { edits, mut writes, mut removals, sparse_marks, sparse_leftovers, notices, .. } = decided;
    for (at, outside) in sparse_marks {
        let flags = &mut index.entries_mut()[at].flags;
        flags.set(Flags::SKIP_WORKTREE, outside);
        flags.remove(Flags::FSMONITOR_VALID);
    }
    writes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    index.apply(edits);
    // Git discards the resolve-undo information.
    index.resolve_undo = None;
    let empty = ObjectId::empty_tree(index.hash);
    cache_tree::complete(&mut index, &|oid, _| *oid == empty || trees.has(oid));
    let writes = locate(&index, writes);
    removals.sort_by(|a, b| a.path.cmp(&b.path));
    let notices = notices.iter().map(refusal::plumbing);
    let warnings =
        notices.chain([refusal::leftover_text(&sparse_leftovers, operation)]).filter(|text| !text.is_empty());
    Plan { index, writes, removals, warnings: warnings.collect() }
}

/// Locates the entries of `writes`, which are sorted by path. A few entries are found by binary
/// search, many in one pass over the index.
fn locate(index: &Index, writes: Vec<(BString, Premise)>) -> Vec<Write> {
    let mut from = 0;
    let one_pass = writes.len() > index.len() / 16;
    let mut position = |path: &BStr| {
        if one_pass {
            from += (from..index.len()).take_while(|&at| index.path_at(at) < path).count();
        } else {
            from = index.position(path, Stage::Normal).unwrap_or(index.len());
        }
        (from < index.len() && index.path_at(from) == path).then_some(from)
    };
    // The vector's memory is reused: at this point all data of a large plan are in memory.
    let located = writes
        .into_iter()
        .filter_map(|(path, premise)| position(path.as_bstr()).map(|entry| Write { entry, premise }));
    located.collect()
}
