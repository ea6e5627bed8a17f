//! Deciding: every step of a checkout, and every refusal, before anything is touched.

use std::sync::Arc;

use super::{
    Refusal,
    decide::{self, Decided, Decider, Policy, Sparsity},
    follow::Follow,
    look::Looker,
    refusal,
};
use crate::look::{
    LookError, cache_tree,
    content::{Cleaning, Lazy},
    facts::{self, Fact, Facts, Seen, Want},
    ignore::{self, Ignores},
    protect,
    sparse::{self, Patterns},
    stat::StatRules,
    trees::{self, Found, Kind, OneSided, Slot, TreeSource},
};
use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    index::{Flags, Index, Stage},
    path::{self, Protect},
};
use sys::profile::{self, Phase};

/// Which trees are merged with the index, in Git's unpack-trees terms.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Merge {
    /// `reset --hard`, `checkout -f`, `clone`, `reset --merge`: the index becomes `target`.
    OneWay { target: ObjectId },
    /// `switch`, `reset --keep`: carry local changes over from `head` to `target`.
    /// `head: None`: from nothing (unborn branch).
    TwoWay { head: Option<ObjectId>, target: ObjectId },
    /// `read-tree -m base ours theirs` (one or more bases).
    ThreeWay {
        bases: Vec<ObjectId>,
        ours: ObjectId,
        theirs: ObjectId,
        one_sided: OneSided,
        conflicts: Conflicts,
    },
    /// `read-tree <trees>`: what the trees hold, one laid over the other. Nothing of an index is kept.
    Overlay { trees: Vec<ObjectId> },
    /// `read-tree --prefix`: `tree` is put below `prefix` (which has no slash at the end), beside what is there.
    Bind { tree: ObjectId, prefix: BString },
}

/// A path that has to be merged file by file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Its stages are put into the index.
    Stages,
    /// `--trivial`: there is to be none.
    Refuse,
}

/// What the worktree has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// It is changed too (`-u`).
    Update,
    /// It is not touched, but what the index loses must be unchanged in it.
    Check,
    /// It is not looked at (`-i`).
    Ignore,
}

/// What may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Refuse wherever Git refuses.
    No,
    /// `reset --mixed`: the index is reset, untracked files in the way are kept.
    ProtectUntracked,
    /// `reset --hard`, `checkout -f`: local changes and untracked files in the way go.
    OverwriteUntracked,
    /// A clone that was killed and is gone on with: what the index holds stays as it is, what it lacks
    /// (or never saw on disk) is written, and of what is in the way only goes what the clone itself may
    /// have left there ([`Premise::Remnant`]).
    Remnants,
}

/// What is made of the patterns of a sparse worktree.
#[derive(Clone, Debug, Default)]
pub enum Sparse {
    /// Files go and come as the configured ones say ([`crate::look::sparse::load`]).
    #[default]
    Configured,
    /// As these say.
    By(Arc<Patterns>),
    /// Entries keep the marks they have (`read-tree --no-sparse-checkout`).
    Ignored,
}

/// Options of planning.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// See [`Merge`].
    pub merge: Merge,
    /// See [`Force`].
    pub force: Force,
    /// See [`Files`].
    pub files: Files,
    /// Ignored files in the way may be overwritten (Git's default for switch; `--no-overwrite-ignore`).
    pub overwrite_ignored: bool,
    /// Take a file whose stat differs from the index for unchanged if its content is the same, as
    /// `checkout` and `switch` do, which refresh the index first. `reset` and `read-tree` do not.
    pub refresh: bool,
    /// Where the command was started, relative to the worktree, no slash at the end; `None` for its
    /// root or outside. Git never removes this directory.
    pub original_cwd: Option<BString>,
    /// See [`Sparse`]. Not asked if the worktree is not changed.
    pub sparse: Sparse,
    /// Git's name of the operation for the texts of refusals: see [`refusal_text`](super::refusal_text).
    /// "checkout" and "merge" collect all refusals, others stop at the first.
    pub operation: &'static str,
}

impl PlanOptions {
    /// What `switch` does from `head`.
    pub fn switch(head: Option<ObjectId>, target: ObjectId) -> Self {
        PlanOptions {
            merge: Merge::TwoWay { head, target },
            force: Force::No,
            files: Files::Update,
            overwrite_ignored: true,
            refresh: true,
            original_cwd: None,
            sparse: Sparse::Configured,
            operation: "checkout",
        }
    }

    /// What `reset --hard` and `checkout -f` do.
    pub fn reset_hard(target: ObjectId) -> Self {
        PlanOptions {
            merge: Merge::OneWay { target },
            force: Force::OverwriteUntracked,
            refresh: false,
            operation: "reset",
            ..Self::switch(None, target)
        }
    }

    /// What `clone` does, and `reset --merge`.
    pub fn one_way(target: ObjectId) -> Self {
        PlanOptions { force: Force::No, ..Self::reset_hard(target) }
    }

    /// What `reset --keep` does.
    pub fn reset_keep(head: ObjectId, target: ObjectId) -> Self {
        PlanOptions { refresh: false, operation: "reset", ..Self::switch(Some(head), target) }
    }
}

impl PlanOptions {
    /// With the patterns that are configured. What is wrong with their file is for the caller to tell, who then gives them.
    fn resolve(&self, repo: &repo::Repository) -> Result<PlanOptions, PlanError> {
        let mut options = self.clone();
        if let (Sparse::Configured, true) = (&self.sparse, self.files == Files::Update) {
            let loaded = sparse::load(repo)?;
            options.sparse = loaded.map_or(Sparse::Ignored, |loaded| Sparse::By(Arc::new(loaded.patterns)));
        }
        Ok(options)
    }
}

/// What must still be true of a path when `execute` comes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Premise {
    /// Nothing is there.
    Absent,
    /// The file or link seen when planning; compared once more before it is unlinked. Apart, as most writes of a large
    /// checkout have none.
    Unchanged(Box<sys::Stat>),
    /// Whatever is there may go (forced, ignored, or examined when planning): files, links, directories
    /// with all they hold; also a file or link where a leading directory has to be.
    Anything,
    /// Nothing, or what a killed run left of this very entry: the file begun or finished, the link. Compared
    /// with what is to be written; anything else stays. Only writes.
    Remnant,
    /// A directory that is to become a submodule or already is one.
    Directory,
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub struct Write {
    /// Position in `Plan::index.entries()`.
    pub entry: usize,
    /// See [`Premise`].
    pub premise: Premise,
}

/// A path to be removed. Directories it leaves empty go too (never the worktree's root).
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Removal {
    pub path: BString,
    pub premise: Premise,
    /// A submodule: only an empty directory is removed.
    pub gitlink: bool,
}

/// Everything that will be done, decided.
#[derive(Debug)]
pub struct Plan {
    /// The index as it will be. Entries to be written carry a zero stat until then.
    pub index: Index,
    /// In index order.
    pub writes: Vec<Write>,
    /// In index order (executed in reverse).
    pub removals: Vec<Removal>,
    /// What Git prints without refusing, e.g. sparse paths left in place: texts for standard error, with their newline.
    pub warnings: Vec<BString>,
}

/// Why planning stopped. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Every offending path, in Git's order; [`refusal_text`](super::refusal_text) words them.
    #[error("refused")]
    Refused(Vec<Refusal>),
    /// `switch` with unmerged entries.
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

/// What planning works with, apart from the index.
pub(super) struct World<'a> {
    pub(super) trees: &'a dyn TreeSource,
    pub(super) root: &'a sys::Dir,
    pub(super) cleaning: &'a dyn Cleaning,
    /// Contents of `info/exclude` and `core.excludesFile`.
    pub(super) excludes: Vec<Vec<u8>>,
    /// Asked of submodules that go along, if they do.
    pub(super) follow: Option<&'a dyn Follow>,
    pub(super) settings: Settings,
}

/// What the configuration says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) stat: StatRules,
    pub(super) protect: Protect,
    pub(super) ignore_case: bool,
}

impl Settings {
    pub(super) fn of(repo: &repo::Repository) -> Result<Self, repo::Error> {
        let is = |key: &str, default: bool| Ok(repo.config_bool(key)?.unwrap_or(default));
        Ok(Settings {
            stat: StatRules::of(repo)?,
            protect: protect(repo)?,
            ignore_case: is("core.ignoreCase", false)?,
        })
    }
}

/// Decides. `index` is consumed: the plan holds the result, and nothing is changed on disk.
pub fn plan(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    index: Index,
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    plan_following(repo, worktree, index, options, None)
}

/// Decides; submodules go along if there is a `follow` to ask them.
pub fn plan_following(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    index: Index,
    options: &PlanOptions,
    follow: Option<&dyn Follow>,
) -> Result<Plan, PlanError> {
    let _phase = profile::span(Phase::Plan);
    let cleaning = Lazy::new(repo, &index);
    let world = World {
        trees: repo.objects(),
        root: worktree,
        cleaning: &cleaning,
        excludes: ignore::outside(repo)?,
        follow,
        settings: Settings::of(repo)?,
    };
    let options = &options.resolve(repo)?;
    let decided = decide(&world, &index, options)?;
    Ok(finish(repo.objects(), index, decided, options.operation))
}

/// Walk, probe, decide.
pub(super) fn decide(world: &World<'_>, index: &Index, options: &PlanOptions) -> Result<Decided, PlanError> {
    let is_settled = matches!(options.merge, Merge::OneWay { .. } | Merge::TwoWay { .. })
        && options.files == Files::Update
        && matches!(options.sparse, Sparse::By(_));
    if index.sparse && !is_settled {
        return Err(LookError::Unsupported("sparse indexes").into());
    }
    let (kind, trees) = match &options.merge {
        Merge::OneWay { target } => (Kind::OneWay, vec![Some(*target)]),
        Merge::TwoWay { head, target } => {
            let initial = index.entries().is_empty() && index.timestamp == (0, 0);
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
    if options.operation == "checkout" && options.force == Force::No && index.is_unmerged() {
        return Err(PlanError::Unmerged);
    }
    let patterns = match &options.sparse {
        Sparse::By(patterns) if options.files == Files::Update => Some(&**patterns),
        _ => None,
    };
    let sparsity = patterns.map(|patterns| Sparsity { patterns, outside: patterns.outside(index) });
    let policy = Policy {
        kind,
        force: options.force,
        files: options.files,
        protect: world.settings.protect,
        overwrite_ignored: options.overwrite_ignored,
        sparse: sparsity.as_ref(),
        cwd: options.original_cwd.as_ref().map(|cwd| cwd.as_bstr()),
        report_all: refusal::reports_all(options.operation),
        follows: world.follow.is_some(),
    };
    let found = match world.follow.is_some() && kind == Kind::OneWay {
        // Submodules are looked into wherever they are: no directory is skipped for being the same.
        true => {
            let mut whole = index.clone();
            whole.cache_tree = None;
            trees::walk_below(world.trees, &whole, kind, trees, below)?
        }
        false => trees::walk_below(world.trees, index, kind, trees, below)?,
    };
    let mut looker = Looker {
        root: world.root,
        index,
        rules: world.settings.stat,
        refresh: options.refresh,
        ignores: Ignores::new(
            world.root,
            &world.excludes.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            world.settings.ignore_case,
        ),
        cleaning: world.cleaning,
        fold_case: world.settings.ignore_case,
        folded: None,
        follow: world.follow,
    };
    let (facts, same) = gather(&looker, index, &found, &policy)?;
    let mut decided = Decider::new(index, policy, &mut looker).run(found.rows, facts.into_iter())?;
    if !decided.refusals.is_empty() {
        return Err(PlanError::Refused(decided.refusals));
    }
    if matches!(options.merge, Merge::ThreeWay { conflicts: Conflicts::Refuse, .. }) && decided.unresolved {
        return Err(PlanError::NotTrivial);
    }
    let premise = if options.force == Force::Remnants { Premise::Remnant } else { Premise::Anything };
    let leaves = |at: usize| sparsity.as_ref().is_some_and(|sparsity| sparsity.outside[at]);
    for at in same.into_iter().filter(|&at| !leaves(at)) {
        decided.writes.push((index.path_at(at).to_owned(), premise.clone()));
    }
    for edit in &decided.edits {
        for entry in &edit.entries {
            path::verify(edit.path.as_bstr(), entry.mode, world.settings.protect)
                .map_err(|_| LookError::InvalidPath(edit.path.clone()))?;
        }
    }
    Ok(decided)
}

/// The fact for each row, and the skipped entries a forced merge has to write again. What comes with
/// [`Premise::Remnant`] needs no facts: it is looked at when it is written.
fn gather(
    looker: &Looker<'_>,
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
        .filter(|&at| !decide::is_trusted(index, &index.entries()[at]))
        .collect();
    if policy.force == Force::Remnants {
        let unfinished = same.into_iter().filter(|&at| decide::is_unfinished(&index.entries()[at]));
        return Ok((Facts::unknown(found.rows.len()), unfinished.collect()));
    }
    let mut asked = Vec::new();
    let mut questions = Vec::new();
    for (at, row) in found.rows.iter().enumerate() {
        let action = decide::action(row, policy.kind, policy.force, index);
        if let Some(want) = decide::question(row, action, policy, index) {
            asked.push(at);
            questions.push((row.path.as_bstr(), want));
        }
    }
    questions.extend(same.iter().map(|&at| (index.path_at(at), Want::Stat)));
    let mut seen = facts::probe(looker.root, index, &questions)?;
    let seen_same = seen.split_off(asked.len());
    let entries: Vec<(usize, Seen)> = asked
        .iter()
        .zip(&seen)
        .filter_map(|(&at, &seen)| match found.rows[at].slot {
            Slot::Merged(entry) => Some((entry, seen)),
            _ => None,
        })
        .chain(same.iter().copied().zip(seen_same))
        .collect();
    let mut clean = looker.clean(&entries)?.into_iter();
    let mut facts = Facts::unknown(found.rows.len());
    for (&at, &seen) in asked.iter().zip(&seen) {
        let is_entry = matches!(found.rows[at].slot, Slot::Merged(_));
        let clean = is_entry && clean.next().expect("one verdict for each entry asked about");
        facts.set(at, Fact { seen, clean });
    }
    let changed = same.into_iter().zip(clean).filter(|(_, clean)| !clean).map(|(at, _)| at).collect();
    Ok((facts, changed))
}

/// Applies the edits and finds where the entries to be written are.
pub(super) fn finish(trees: &dyn TreeSource, mut index: Index, decided: Decided, operation: &str) -> Plan {
    let Decided { edits, mut writes, mut removals, skip, left, told, .. } = decided;
    for (at, outside) in skip {
        let flags = &mut index.entries_mut()[at].flags;
        flags.set(Flags::SKIP_WORKTREE, outside);
        flags.remove(Flags::FSMONITOR_VALID);
    }
    writes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    index.apply(edits);
    // Git drops what it knows of resolved conflicts.
    index.resolve_undo = None;
    let empty = ObjectId::empty_tree(index.hash);
    cache_tree::complete(&mut index, &|oid, _| *oid == empty || trees.has(oid));
    let writes = locate(&index, writes);
    removals.sort_by(|a, b| a.path.cmp(&b.path));
    let told = told.iter().map(refusal::plumbing);
    let warnings = told.chain([refusal::left_text(&left, operation)]).filter(|text| !text.is_empty());
    Plan { index, writes, removals, warnings: warnings.collect() }
}

/// Where the entries of `writes`, sorted by path, are. Few are searched for, many met in one pass.
fn locate(index: &Index, writes: Vec<(BString, Premise)>) -> Vec<Write> {
    let mut from = 0;
    let one_pass = writes.len() > index.entries().len() / 16;
    let mut position = |path: &BStr| {
        if one_pass {
            from += index.entries()[from..].iter().take_while(|entry| index.path(entry) < path).count();
        } else {
            from = index.position(path, Stage::Normal).unwrap_or(index.entries().len());
        }
        index.entries().get(from).filter(|entry| index.path(entry) == path).map(|_| from)
    };
    // Into the same memory: all that a large plan is made of is there at this moment.
    let located = writes
        .into_iter()
        .filter_map(|(path, premise)| position(path.as_bstr()).map(|entry| Write { entry, premise }));
    located.collect()
}
