//! `stash push`: saves the changes in a stash, and resets the worktree to HEAD.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{Plan, Premise, Removal, Workers},
    clean,
    pathspec::{Pathspecs, Seen},
    stash::{self, Changes, File, Scope, Target},
    status, switch,
    switch::{ResetReason, state},
    untracked::{self, Directories, Excludes, Ignored, Nested},
};
use format::{
    ObjectId,
    index::{Index, Stage},
};
use repo::{Repository, convert::Metadata};
use store::refs::Expected;

use super::{
    common::{STASH, failure_before_changes, newest, open},
    create::{Head, commits, no_commit_yet},
    options::{Request, Untracked},
};
use crate::{
    commands::paths,
    session::{
        Session,
        apply::{Done, Recorded, Start, Transaction},
        invocation::{Invocation, Program},
        settings::Settings,
    },
    term::{
        args::{Parsed, Set},
        console::{self, text},
        failure::Failure,
    },
};

/// Runs a parsed command line. Returns the exit code.
pub(super) fn run(run: &Invocation, parsed: Parsed<Set<Request>>) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = parsed.store(&mut request)?;
    let paths = rest.strip_prefix(&[BString::from("--")]).unwrap_or(&rest);
    push(run, request, paths)
}

/// Stashes the changes of these paths, or of all. Returns the exit code.
pub(super) fn push(run: &Invocation, request: Request, paths: &[BString]) -> Result<u8, Failure> {
    let (repo, settings) = open(run)?;
    let apart = request.staged.then_some("--staged");
    let specs = request.pathspec_file.or(paths::parse(run, &repo, paths)?, apart, run, &repo)?;
    if request.staged && request.untracked != Untracked::Stay {
        console::eprint_line("Can't use --staged and --include-untracked or --all at the same time");
        return Ok(1);
    }
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    Push { run, repo: &repo, settings: &settings, session, request, specs: &specs }.run()
}

struct Push<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    session: Session<'a>,
    request: Request,
    specs: &'a Pathspecs,
}

impl<'a> Push<'a> {
    fn run(&self) -> Result<u8, Failure> {
        let mut transaction = Transaction::start(self.session, Start::Full { dry_run: false })?;
        let top = self.repo.work_tree().ok_or_else(Failure::no_worktree)?;
        let root = sys::Dir::open(top).map_err(Failure::cannot_open(top))?;
        self.match_paths(&transaction.index)?;
        refuse_conflicts(&transaction.index)?;
        let Some(head) = Head::read(self.repo)? else {
            // Git has refreshed the index at this point.
            transaction.finish(Recorded::Yes)?;
            return Ok(no_commit_yet(self.request.quiet));
        };
        let changes = self.changes(&root, &mut transaction.index, head.tree)?;
        self.run.interrupt.check()?;
        if changes.paths.is_empty() && changes.untracked.is_empty() {
            let recorded = if changes.is_refreshed { Recorded::Yes } else { Recorded::No };
            transaction.finish(recorded)?;
            if !self.request.quiet {
                console::out("No local changes to save");
            }
            return Ok(0);
        }
        let changes = if self.request.staged { staged(changes)? } else { changes };
        if self.request.staged && changes.paths.is_empty() {
            if !self.request.quiet {
                console::eprint_line("No staged changes");
            }
            return Ok(1);
        }
        self.check(&changes, &transaction.index)?;
        let message = head.message(self.request.message.as_ref().map(|message| message.as_bstr()));
        let target = self.target();
        let stash = {
            let is_selective = !self.specs.is_empty();
            commits(
                self.session,
                &mut transaction,
                &head,
                &changes,
                self.request.untracked != Untracked::Stay,
                message.as_bstr(),
                |transaction, snapshot| {
                    if target == Target::Index && snapshot.index == ObjectId::empty_tree(self.repo.hash()) {
                        return Err(Failure::Unserved("empty indexes that are kept"));
                    }
                    match is_selective && matches_head(&transaction.index, &changes) {
                        true => Err(Failure::Unserved("staged changes that the worktree lacks")),
                        false => Ok(()),
                    }
                },
            )?
        };
        let index = std::mem::replace(&mut transaction.index, Index::empty(self.repo.hash()));
        let doomed = match self.cleans() {
            true => self.doomed(&root, &index)?,
            false => Vec::new(),
        };
        let mut plan = stash::reset(self.repo, index, &changes, target);
        if !self.specs.is_empty() {
            // Git's `apply` looks at no entry whose file is missing.
            plan.removals.retain(|removal| removal.premise != Premise::Absent);
        }
        let untracked = self.first_removals(&mut plan, &changes);
        self.run.interrupt.check()?;
        self.check_head(head.commit)?;
        self.record(stash, message.as_bstr())?;
        transaction.policy.metadata = Metadata { reference: None, treeish: Some(head.commit) };
        if !self.remove_untracked(&mut transaction, &mut plan, untracked)? {
            return Ok(1);
        }
        let cleaned = self.remove_directories(&root, &doomed);
        let code = self.reset(transaction, plan)?;
        cleaned?;
        Ok(code)
    }

    /// Takes the removals out of `plan` that come before all other steps: those of untracked files,
    /// unless paths are given. Git runs `clean` for them, and changes nothing else if that fails.
    fn first_removals(&self, plan: &mut Plan, changes: &Changes) -> Vec<Removal> {
        if changes.untracked.is_empty() || !self.specs.is_empty() {
            return Vec::new();
        }
        let untracked: HashSet<&BStr> = changes.untracked.iter().map(|(path, _)| path.as_bstr()).collect();
        plan.removals.extract_if(.., |removal| untracked.contains(removal.path.as_bstr())).collect()
    }

    /// Removes untracked files, before `rest` is carried out. Returns false if some stay; the
    /// errors were printed.
    fn remove_untracked(
        &self,
        transaction: &mut Transaction<'a>,
        rest: &mut Plan,
        removals: Vec<Removal>,
    ) -> Result<bool, Failure> {
        if removals.is_empty() {
            return Ok(true);
        }
        let index = Index::empty(self.repo.hash());
        let first = removals.clone();
        let plan = Plan { writes: Vec::new(), removals, warnings: Vec::new(), index };
        let done = transaction.carry_out(plan)?;
        self.run.interrupt.check()?;
        rest.follow_removals(transaction.worktree(), &first);
        Ok(done == Done::Complete && !transaction.report.was_undeleted)
    }

    /// Runs all steps after the stash is recorded. Returns the exit code.
    fn reset(&self, mut transaction: Transaction<'a>, plan: Plan) -> Result<u8, Failure> {
        let done = transaction.carry_out(plan)?;
        transaction.finish(Recorded::Yes)?;
        if self.moves_head() {
            let refs = self.settings.refs(self.repo)?;
            let reason = match self.run.variable("GIT_REFLOG_ACTION") {
                Some(action) => ResetReason::Action(action.as_bstr()),
                None => ResetReason::To("HEAD".into()),
            };
            switch::reset_head_to_itself(self.repo, &refs, reason)?;
            state::end(self.repo, &refs)?;
        }
        // With paths, Git's `apply` fails if it cannot remove a file.
        let was_undeleted = !self.specs.is_empty() && transaction.report.was_undeleted;
        Ok(u8::from(done != Done::Complete || was_undeleted))
    }

    /// Returns true if Git runs `clean`: before it resets anything, so by the ignore rules that are
    /// there until then.
    fn cleans(&self) -> bool {
        self.request.untracked != Untracked::Stay && self.specs.is_empty()
    }

    fn target(&self) -> Target {
        match (self.request.staged, self.request.keep_index) {
            (true, _) => Target::Staged,
            (false, true) => Target::Index,
            (false, false) => Target::Head,
        }
    }

    /// Returns true if Git resets HEAD to itself: no paths are given.
    fn moves_head(&self) -> bool {
        self.specs.is_empty()
    }

    /// Leaves a HEAD to Git whose update would fail at the end.
    fn check_head(&self, head: ObjectId) -> Result<(), Failure> {
        if !self.moves_head() {
            return Ok(());
        }
        let refs = self.settings.refs(self.repo)?;
        let checked = switch::check_reset(self.repo, &refs, head);
        checked.map_err(|error| match self.run.program {
            Program::Git => Failure::Unserved("refs that cannot be written"),
            Program::Sapwood => error.into(),
        })
    }

    /// Leaves paths that match nothing to Git, which has its own messages for them.
    fn match_paths(&self, index: &Index) -> Result<(), Failure> {
        if self.specs.is_empty() || self.request.untracked != Untracked::Stay {
            return Ok(());
        }
        let mut seen = Seen::default();
        for entry in index.entries() {
            self.specs.matches_entry(index.path(entry), entry.mode, &mut seen);
        }
        match self.specs.unseen(&seen).next() {
            None => Ok(()),
            Some(_) => Err(Failure::Unserved("paths that match nothing")),
        }
    }

    fn changes(&self, root: &sys::Dir, index: &mut Index, head: ObjectId) -> Result<Changes, Failure> {
        let excludes = self.excludes()?.without_cache();
        let options = untracked::Options {
            directories: Directories::Files,
            ignored: Ignored::Left,
            nested: Nested::AsOne,
            workers: Workers::Auto,
        };
        let untracked = (self.request.untracked != Untracked::Stay)
            .then_some(status::Untracked { options, excludes: &excludes });
        let scope = Scope { pathspecs: self.specs, untracked, interrupt: self.run.interrupt.flag() };
        stash::collect(self.repo, root, index, head, scope)
            .map_err(|error| failure_before_changes(self.session, error))
    }

    fn excludes(&self) -> Result<Excludes, Failure> {
        Ok(match self.request.untracked {
            Untracked::Stay => Excludes::default(),
            Untracked::Stashed => Excludes::standard(self.repo, &[])?,
            Untracked::All => Excludes::only(self.repo, &[])?,
        })
    }

    /// Leaves changes to Git on which its steps after the stash fail, or that they treat specially.
    fn check(&self, changes: &Changes, index: &Index) -> Result<(), Failure> {
        let is_there = newest(self.repo)?.is_some();
        if is_there && self.repo.reflog(BStr::new(STASH))?.is_none() {
            return Err(Failure::Unserved("a stash without a reflog"));
        }
        let attributes = |path: &BString| path == ".gitattributes" || path.ends_with(b"/.gitattributes");
        let whole = self.target() == Target::Head && self.specs.is_empty();
        if !whole && changes.paths.iter().any(|changed| attributes(&changed.path)) {
            return Err(Failure::Unserved("changes of attributes"));
        }
        let is_unknown = |changed: &stash::Changed| changed.index.is_none() && changed.file.stat().is_some();
        // With paths, Git does not add files that the index lacks, so it cannot remove them.
        let is_refused = !self.specs.is_empty() && self.request.untracked == Untracked::Stay;
        if (self.request.keep_index || is_refused) && changes.paths.iter().any(is_unknown) {
            return Err(Failure::Unserved("files that the index lacks"));
        }
        if self.specs.is_empty() || self.request.untracked == Untracked::Stay {
            return Ok(());
        }
        let mut seen = Seen::default();
        for entry in index.entries() {
            self.specs.matches_entry(index.path(entry), entry.mode, &mut seen);
        }
        if !self.request.keep_index {
            changes.untracked.iter().for_each(|(path, _)| {
                self.specs.matches(path.as_bstr(), &mut seen);
            });
        }
        match self.specs.unseen(&seen).next() {
            None => Ok(()),
            Some(_) => Err(Failure::Unserved("paths that match nothing")),
        }
    }

    /// Records the commit as the newest stash entry, and reports that.
    fn record(&self, stash: ObjectId, message: &BStr) -> Result<(), Failure> {
        let refs = self.settings.refs(self.repo)?;
        if let Err(error) = store::refs::record(&refs, BStr::new(STASH), stash, Expected::Any, message) {
            // Git hides the cause.
            console::error(error.to_string());
            if !self.request.quiet {
                console::eprint_line("Cannot save the current status");
            }
            return Err(Failure::Reported(1).advised(error.advice()));
        }
        if !self.request.quiet {
            console::out(text!("Saved working directory and index state ", message));
        }
        Ok(())
    }

    /// Returns the directories that `clean` would remove with the untracked files in them.
    fn doomed(&self, root: &sys::Dir, index: &Index) -> Result<Vec<BString>, Failure> {
        let excludes = self.excludes()?;
        let options = untracked::Options {
            directories: Directories::Whole,
            ignored: match self.request.untracked {
                Untracked::All => Ignored::TooWithContents,
                _ => Ignored::MatchingWithContents,
            },
            nested: Nested::Skipped,
            workers: Workers::Auto,
        };
        let interrupt = self.run.interrupt.flag();
        let everything = Pathspecs::default();
        let found =
            untracked::walk(self.repo, root, index, &everything, &excludes, &options, interrupt, None)?;
        Ok(clean::doomed(found, index, clean::Directories::Remove, false))
    }

    /// Removes these directories if they are empty now.
    fn remove_directories(&self, root: &sys::Dir, doomed: &[BString]) -> Result<(), Failure> {
        let top = self.repo.work_tree().ok_or_else(Failure::no_worktree)?;
        let cwd = self.run.original_cwd(self.repo);
        let kept = cwd.as_ref().map(|cwd| cwd.as_bstr());
        // The stash is recorded, so the command can no longer be left to Git.
        if stash::remove_empty_directories(self.repo, top, root, doomed, kept)? {
            console::out("Refusing to remove current working directory");
        }
        Ok(())
    }
}

/// Returns the staged changes. An error leaves files with unstaged changes to Git.
fn staged(mut changes: Changes) -> Result<Changes, Failure> {
    changes.paths.retain(|changed| changed.head != changed.index);
    let is_plain = |changed: &stash::Changed| match changed.file {
        File::AsIndexed(_) => true,
        File::Missing => changed.index.is_none(),
        File::Other(..) => false,
    };
    match changes.paths.iter().all(is_plain) {
        true => Ok(changes),
        false => Err(Failure::Unserved("staged changes of files with other changes")),
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

/// Lists the unmerged paths and returns Git's error about them, if there are any.
fn refuse_conflicts(index: &Index) -> Result<(), Failure> {
    let unmerged = index.entries().iter().filter(|entry| entry.stage != Stage::Normal);
    let mut paths: Vec<&BStr> = unmerged.map(|entry| index.path(entry)).collect();
    paths.dedup();
    paths.iter().for_each(|path| console::out(text!(path, ": needs merge")));
    if paths.is_empty() { Ok(()) } else { Err(Failure::error("could not write index")) }
}
