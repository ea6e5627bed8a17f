//! `stash apply` and `stash pop`: apply a stash entry to the worktree.

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use engine::{
    add::{Missing, write_tree},
    checkout::{Attributes, Plan},
    stash::{self, Merge, Merged, Staged},
    switch::{self, ResetReason, state},
    workspace::crash,
};
use format::{ObjectId, index::Index};
use repo::Repository;
use store::{Components, objects};

use super::{
    common::{failure_before_changes, open},
    entry::{self, Entry},
    options::EntryRequest,
    store::drop_entry,
};
use crate::{
    commands::{nested, status},
    session::{
        Session,
        apply::{Done, Recorded, Start, Transaction},
        invocation::Invocation,
        settings::Settings,
    },
    term::{
        args::{Parsed, Set},
        console::{self, text},
        failure::Failure,
    },
};

/// The treatment of the entry afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnSuccess {
    /// The entry stays.
    Keep,
    /// The entry is dropped, unless something failed.
    Drop,
}

/// Runs the command. Returns the exit code.
pub(super) fn run(
    run: &Invocation,
    parsed: Parsed<Set<EntryRequest>>,
    on_success: OnSuccess,
) -> Result<u8, Failure> {
    let mut request = EntryRequest::default();
    let args = parsed.store(&mut request)?;
    let (repo, settings) = open(run)?;
    let index = match request.index {
        Some(index) => index,
        None => repo.config_bool("stash.index")?.unwrap_or(false),
    };
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let entry = entry::find(&repo, &args)?;
    let number = match on_success {
        OnSuccess::Keep => None,
        OnSuccess::Drop => Some(entry.number()?),
    };
    let code = apply(session, &entry, index, request.quiet)?;
    match number {
        None => Ok(code),
        Some(number) if code == 0 => drop_entry(&repo, &settings, &entry, number, request.quiet),
        Some(_) => {
            console::out("The stash entry is kept in case you need it again.");
            Ok(code)
        }
    }
}

/// Applies an entry. Returns the exit code. If it is 0, all files are durable.
pub(super) fn apply(session: Session<'_>, entry: &Entry, index: bool, quiet: bool) -> Result<u8, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let mut transaction = Transaction::start(session, Start::Full { dry_run: false })?;
    let planned = Planned::new(session, &mut transaction, entry, index, quiet)?;
    run.interrupt.check()?;
    // The changes begin here.
    let written = planned.written();
    let code = planned.carry_out(transaction, session)?;
    if code == 0 {
        make_durable(repo, settings, &written)?;
    }
    if !quiet {
        nested::run(run, repo, &status::COMMAND, &[])?;
    }
    Ok(code)
}

/// The planned changes.
struct Planned {
    merged: Vec<Merged>,
    /// The plan for `merged`.
    plan: Plan,
    /// The tree of the plan's index, if there was something to merge.
    result: Option<ObjectId>,
    /// The index of the entry, if it is restored.
    staged: Option<Staged>,
    untracked: Option<Plan>,
}

impl Planned {
    fn new(
        session: Session<'_>,
        transaction: &mut Transaction<'_>,
        entry: &Entry,
        index: bool,
        quiet: bool,
    ) -> Result<Planned, Failure> {
        let Session { repository: repo, settings, .. } = session;
        let failed = |error| failure_before_changes(session, error);
        stash::check_index(&transaction.index).map_err(failed)?;
        // Without `--quiet`, `status` refreshes the index.
        if quiet {
            transaction.refresh()?;
        }
        let tree = |index: &mut Index| {
            let objects = objects::Transaction::new(settings.objects(repo));
            let trees = write_tree(index, repo, &objects, Missing::Refused);
            let root = trees.map_err(|error| failed(error.into()))?.root;
            // The merge reads the tree.
            objects.publish()?;
            Ok::<_, Failure>(root)
        };
        let ours = tree(&mut transaction.index)?;
        let merge = Merge { base: entry.base_tree, ours, theirs: entry.tree };
        let root = transaction.worktree();
        let merged = stash::merge(repo, root, &transaction.index, settings.big_file_threshold, merge);
        let merged = merged.map_err(failed)?;
        let staged = match index && entry.base_tree != entry.index && ours != entry.index {
            true => {
                // Git resets the index to HEAD before it applies the staged changes.
                let head = repo.head()?.oid().map(|head| repo.tree_of(head)).transpose()?;
                if head != Some(ours) {
                    return Err(Failure::Unserved("staged changes under those of the stash"));
                }
                let staged = stash::staged(repo, &transaction.index, merge, entry.index, &merged);
                Some(staged.map_err(failed)?)
            }
            false => None,
        };
        let untracked = match entry.untracked {
            Some(tree) => Some(stash::plan_untracked(repo, root, tree).map_err(failed)?),
            None => None,
        };
        let is_taken = |plan: &Plan| {
            let path_is_taken = |it: &Merged| !plan.index.range_of(it.path.as_bstr()).is_empty();
            merged.iter().any(path_is_taken)
        };
        if untracked.as_ref().is_some_and(is_taken) {
            return Err(Failure::Unserved("paths that are both tracked and untracked"));
        }
        let mut plan = stash::plan_merge(take_index(transaction, repo), &merged);
        let result = match (entry.base_tree == entry.tree, entry.base_tree == ours) {
            (true, _) => None,
            (false, true) => Some(entry.tree),
            (false, false) => Some(tree(&mut plan.index)?),
        };
        Ok(Planned { merged, plan, result, staged, untracked })
    }

    /// Returns the paths to write.
    fn written(&self) -> Vec<BString> {
        let tracked = self.merged.iter().filter(|it| it.theirs.is_some()).map(|it| it.path.clone());
        let plan = self.untracked.iter();
        let untracked =
            plan.flat_map(|plan| plan.writes.iter().map(|write| plan.index.path_at(write.entry).to_owned()));
        tracked.chain(untracked).collect()
    }

    /// Executes the plan. Returns the exit code.
    fn carry_out(self, mut transaction: Transaction<'_>, session: Session<'_>) -> Result<u8, Failure> {
        let Session { invocation: run, repository: repo, settings } = session;
        if self.staged.is_some() {
            let refs = settings.refs(repo)?;
            let reason = match run.variable("GIT_REFLOG_ACTION") {
                Some(action) => ResetReason::Action(action.as_bstr()),
                None => ResetReason::To("HEAD".into()),
            };
            switch::reset_head_to_itself(repo, &refs, reason)?;
            state::end(repo, &refs)?;
        }
        if self.result.is_none() {
            console::out("Already up to date.");
        }
        let mut code = u8::from(transaction.carry_out(self.plan)? != Done::Complete);
        if let Some(tree) = self.result {
            note_merge(repo, settings, tree)?;
        }
        match &self.staged {
            Some(staged) if code == 0 => staged.apply(&mut transaction.index, &self.merged),
            _ => stash::unstage(repo, &mut transaction.index, &self.merged),
        }
        if let Some(plan) = self.untracked.filter(|_| !transaction.report.stopped) {
            // Untracked files have no entries in the index.
            let index = take_index(&mut transaction, repo);
            transaction.policy.attributes = Attributes::OfWorktree;
            let done = transaction.carry_out(plan);
            transaction.index = index;
            if done? != Done::Complete {
                console::error("could not restore untracked files from stash");
                code = 1;
            }
        }
        transaction.finish(Recorded::Yes)?;
        Ok(code)
    }
}

/// Records the tree of the merge in AUTO_MERGE, as Git does after each merge.
fn note_merge(repo: &Repository, settings: &Settings, tree: ObjectId) -> Result<(), Failure> {
    let mut lock = store::Lock::take(&repo.git_dir().join("AUTO_MERGE"), &settings.locks)?;
    lock.write(format!("{tree}\n").as_bytes())?;
    Ok(lock.commit_synced(&settings.fsync, Components::REFERENCE)?)
}

fn take_index(transaction: &mut Transaction<'_>, repo: &Repository) -> Index {
    std::mem::replace(&mut transaction.index, Index::empty(repo.hash()))
}

/// Makes the files durable if the removal of the entry will be durable: they may be the last copy.
fn make_durable(repo: &Repository, settings: &Settings, paths: &[BString]) -> Result<(), Failure> {
    let fsync = &settings.fsync;
    if !fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    let top = place_to_sync(repo)?;
    let root = sys::Dir::open(&top).map_err(Failure::cannot_open(&top))?;
    stash::sync(&root, paths)
        .map_err(|(path, error)| Failure::error(text!("cannot sync '", path, "': ", sys::reason(&error))))
}

/// Like [`make_durable`], for files that the real Git wrote: their paths are unknown.
pub(super) fn make_all_durable(repo: &Repository, settings: &Settings) -> Result<(), Failure> {
    if !settings.fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    sys::mount::sync_file_system(&place_to_sync(repo)?)
        .map_err(|error| Failure::error(text!("cannot sync the worktree: ", sys::reason(&error))))
}

/// Returns the directory through which the files of the worktree are synced: of a workspace its
/// upper layer, because its mount may ignore syncs.
fn place_to_sync(repo: &Repository) -> Result<PathBuf, Failure> {
    let top = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let upper = crash::place_to_sync(&repo.real_common_dir(), repo.git_dir());
    Ok(upper.unwrap_or_else(|| top.to_owned()))
}
