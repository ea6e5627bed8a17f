//! Planning a push: the changes, and everything that may refuse it.

use std::fmt;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::Workers,
    clean,
    pathspec::{Pathspecs, Seen},
    stash::{self, Changes, File, Scope, Target},
    status, switch,
    untracked::{self, Directories, Excludes, Ignored, Nested},
};
use format::index::Index;
use repo::Repository;

use super::{
    STASH, StashError, before_changes,
    commits::{self, Head, Inputs, Objects},
    newest,
    push::{Reason, Request, Saved, Untracked},
};
use crate::{
    Context, Error, PlanError, refs,
    transaction::{IndexTransaction, Recorded, Start},
};

/// A push that can run, with the locked index.
pub enum Prepared<'r, 'a> {
    /// There is nothing to stash.
    Nothing(Box<Nothing<'a>>),
    /// There are changes.
    Stash(Box<Stash<'r, 'a>>),
}

/// A push that finds nothing to stash. The stat data of its index may be newer than on disk.
pub struct Nothing<'a> {
    /// Why there is nothing.
    pub reason: Reason,
    transaction: IndexTransaction<'a>,
    recorded: Recorded,
}

impl Nothing<'_> {
    /// Writes the index, if it has newer stat data.
    pub fn finish(mut self) -> Result<(), Error> {
        self.transaction.finish(self.recorded)
    }
}

/// Changes that can be stashed.
pub struct Stash<'r, 'a> {
    pub(super) request: Request,
    pub(super) transaction: IndexTransaction<'a>,
    pub(super) objects: Objects<'r>,
    pub(super) head: Head,
    pub(super) changes: Changes,
    /// Untracked directories that may be empty once their files are gone.
    pub(super) doomed: Vec<BString>,
    pub(super) saved: Saved,
}

/// Locks the index, finds the changes and stages their objects. Changes nothing.
pub fn prepare<'r, 'a>(
    context: Context<'a>,
    objects: Objects<'r>,
    request: Request,
) -> Result<Prepared<'r, 'a>, PlanError> {
    let mut transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    transaction.policy.original_cwd.clone_from(&request.keep);
    request.match_paths(&transaction.index)?;
    let unmerged = transaction.unmerged();
    if !unmerged.is_empty() {
        return Err(Error::from(StashError::Unmerged(unmerged)).into());
    }
    let nothing = |reason, transaction, recorded| {
        Ok(Prepared::Nothing(Box::new(Nothing { reason, transaction, recorded })))
    };
    let Some(head) = Head::read(context.repo)? else {
        // Git has refreshed the index at this point.
        return nothing(Reason::NoCommit, transaction, Recorded::Yes);
    };
    let changes = find(context, &request, &mut transaction, &head)?;
    context.check_interrupt()?;
    if changes.paths.is_empty() && changes.untracked.is_empty() {
        let recorded = if changes.is_refreshed { Recorded::Yes } else { Recorded::No };
        return nothing(Reason::NoChanges, transaction, recorded);
    }
    let changes = if request.staged { staged(changes)? } else { changes };
    if request.staged && changes.paths.is_empty() {
        return nothing(Reason::NothingStaged, transaction, Recorded::No);
    }
    check(context.repo, &request, &changes, &transaction.index)?;
    let message = head.message(request.message.as_ref().map(|message| message.as_bstr()));
    let untracked = request.untracked != Untracked::Stay;
    let inputs = Inputs { head: &head, changes: &changes, untracked, message: message.as_bstr() };
    let commit = commits::stage(&mut transaction, &objects, &inputs, |transaction| {
        if !request.pathspecs.is_empty() && matches_head(&transaction.index, &changes) {
            Err(PlanError::Unsupported("staged changes that the worktree lacks"))
        } else {
            Ok(())
        }
    })?;
    let doomed = if request.cleans() { doomed(context, &request, &transaction)? } else { Vec::new() };
    context.check_interrupt()?;
    request.check_head(context, &head)?;
    let saved = Saved { commit, message };
    Ok(Prepared::Stash(Box::new(Stash { request, transaction, objects, head, changes, doomed, saved })))
}

impl<'r> Prepared<'r, '_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'r, 'b> {
        match self {
            Prepared::Nothing(nothing) => {
                let Nothing { reason, transaction, recorded } = *nothing;
                let transaction = transaction.with_context(context);
                Prepared::Nothing(Box::new(Nothing { reason, transaction, recorded }))
            }
            Prepared::Stash(stash) => {
                let Stash { request, transaction, objects, head, changes, doomed, saved } = *stash;
                let transaction = transaction.with_context(context);
                let stash = Stash { request, transaction, objects, head, changes, doomed, saved };
                Prepared::Stash(Box::new(stash))
            }
        }
    }
}

/// The paths whose changes are stashed, each in a line.
impl fmt::Display for Prepared<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prepared::Stash(stash) = self else { return Ok(()) };
        stash.changes.paths.iter().try_for_each(|changed| writeln!(formatter, "stash {}", changed.path))?;
        let mut untracked = stash.changes.untracked.iter();
        untracked.try_for_each(|(path, _)| writeln!(formatter, "stash untracked {path}"))
    }
}

impl Request {
    /// Returns true if Git runs `clean`: before it resets anything, so by the ignore rules that are
    /// there until then.
    fn cleans(&self) -> bool {
        self.untracked != Untracked::Stay && self.pathspecs.is_empty()
    }

    pub(super) fn target(&self) -> Target {
        match (self.staged, self.keep_index) {
            (true, _) => Target::Staged,
            (false, true) => Target::Index,
            (false, false) => Target::Head,
        }
    }

    /// Returns true if Git resets HEAD to itself: no paths are given.
    pub(super) fn moves_head(&self) -> bool {
        self.pathspecs.is_empty()
    }

    /// Leaves a HEAD to Git whose update would fail at the end.
    fn check_head(&self, context: Context<'_>, head: &Head) -> Result<(), PlanError> {
        if !self.moves_head() {
            return Ok(());
        }
        let refs = refs::planned_options(context)?;
        match switch::check_reset(context.repo, &refs, head.commit) {
            Err(_) if context.hands_over => Err(PlanError::Unsupported("refs that cannot be written")),
            checked => Ok(checked.map_err(Error::from)?),
        }
    }

    /// Leaves paths that match nothing to Git, which has its own messages for them.
    fn match_paths(&self, index: &Index) -> Result<(), PlanError> {
        if self.pathspecs.is_empty() || self.untracked != Untracked::Stay {
            return Ok(());
        }
        self.all_match(&seen_in(&self.pathspecs, index))
    }

    fn all_match(&self, seen: &Seen) -> Result<(), PlanError> {
        match self.pathspecs.unseen(seen).next() {
            None => Ok(()),
            Some(_) => Err(PlanError::Unsupported("paths that match nothing")),
        }
    }

    fn excludes(&self, repo: &Repository) -> Result<Excludes, Error> {
        Ok(match self.untracked {
            Untracked::Stay => Excludes::default(),
            Untracked::Stashed => Excludes::standard(repo, &[])?,
            Untracked::All => Excludes::only(repo, &[])?,
        })
    }
}

fn seen_in(specs: &Pathspecs, index: &Index) -> Seen {
    let mut seen = Seen::default();
    for at in 0..index.len() {
        specs.matches_entry(index.path_at(at), index.mode_at(at), &mut seen);
    }
    seen
}

fn find(
    context: Context<'_>,
    request: &Request,
    transaction: &mut IndexTransaction<'_>,
    head: &Head,
) -> Result<Changes, PlanError> {
    let excludes = request.excludes(context.repo)?.without_cache();
    let options = untracked::Options {
        directories: Directories::Files,
        ignored: Ignored::Left,
        nested: Nested::AsOne,
        workers: Workers::Auto,
    };
    let untracked =
        (request.untracked != Untracked::Stay).then_some(status::Untracked { options, excludes: &excludes });
    let scope = Scope { pathspecs: &request.pathspecs, untracked, interrupt: context.interrupt };
    let (root, index) = transaction.worktree_and_index();
    stash::collect(context.repo, root, index, head.tree, scope).map_err(before_changes(context))
}

/// Leaves changes to Git on which its steps after the stash fail, or that they treat specially.
fn check(repo: &Repository, request: &Request, changes: &Changes, index: &Index) -> Result<(), PlanError> {
    let is_there = newest(repo)?.is_some();
    if is_there && repo.reflog(BStr::new(STASH)).map_err(Error::from)?.is_none() {
        return Err(PlanError::Unsupported("a stash without a reflog"));
    }
    let specs = &request.pathspecs;
    let attributes = |path: &BString| path == ".gitattributes" || path.ends_with(b"/.gitattributes");
    let whole = request.target() == Target::Head && specs.is_empty();
    if !whole && changes.paths.iter().any(|changed| attributes(&changed.path)) {
        return Err(PlanError::Unsupported("changes of attributes"));
    }
    let is_unknown = |changed: &stash::Changed| changed.index.is_none() && changed.file.stat().is_some();
    // With paths, Git does not add files that the index lacks, so it cannot remove them.
    let is_refused = !specs.is_empty() && request.untracked == Untracked::Stay;
    if (request.keep_index || is_refused) && changes.paths.iter().any(is_unknown) {
        return Err(PlanError::Unsupported("files that the index lacks"));
    }
    if request.target() == Target::Index && index.is_empty() {
        return Err(PlanError::Unsupported("empty indexes that are kept"));
    }
    if specs.is_empty() || request.untracked == Untracked::Stay {
        return Ok(());
    }
    let mut seen = seen_in(specs, index);
    if !request.keep_index {
        changes.untracked.iter().for_each(|(path, _)| {
            specs.matches(path.as_bstr(), &mut seen);
        });
    }
    request.all_match(&seen)
}

/// Returns the directories that `clean` would remove with the untracked files in them.
fn doomed(
    context: Context<'_>,
    request: &Request,
    transaction: &IndexTransaction<'_>,
) -> Result<Vec<BString>, Error> {
    let excludes = request.excludes(context.repo)?;
    let options = untracked::Options {
        directories: Directories::Whole,
        ignored: match request.untracked {
            Untracked::All => Ignored::TooWithContents,
            _ => Ignored::MatchingWithContents,
        },
        nested: Nested::Skipped,
        workers: Workers::Auto,
    };
    let everything = Pathspecs::default();
    let (root, index) = (transaction.worktree(), &transaction.index);
    let interrupt = context.interrupt;
    let found =
        untracked::walk(context.repo, root, index, &everything, &excludes, &options, interrupt, None)?;
    Ok(clean::doomed(found, index, clean::Directories::Remove, false))
}

/// Returns the staged changes. An error leaves files with unstaged changes to Git.
fn staged(mut changes: Changes) -> Result<Changes, PlanError> {
    changes.paths.retain(|changed| changed.head != changed.index);
    let is_plain = |changed: &stash::Changed| match changed.file {
        File::AsIndexed(_) => true,
        File::Missing => changed.index.is_none(),
        File::Other(..) => false,
    };
    if changes.paths.iter().all(is_plain) {
        Ok(changes)
    } else {
        Err(PlanError::Unsupported("staged changes of files with other changes"))
    }
}

/// Returns true if the worktree equals HEAD. `index` matches the worktree.
fn matches_head(index: &Index, changes: &Changes) -> bool {
    let is_same = |changed: &stash::Changed| {
        if matches!(changed.file, File::Missing) {
            return changed.head.is_none();
        }
        let entry = index.entries_in(index.range_of(changed.path.as_bstr())).next();
        entry.map(|entry| stash::Content { mode: entry.mode, oid: entry.oid }) == changed.head
    };
    changes.untracked.is_empty() && changes.paths.iter().all(is_same)
}
