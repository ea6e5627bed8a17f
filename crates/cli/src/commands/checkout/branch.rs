//! Switching: [`sapwood::switch`], with each of its steps reported as Git reports it.
//!
//! If files could not be written, HEAD still moves and the exit code is 1.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{self, PlanOptions},
    diff::Pair,
    switch::names,
};
use repo::{Repository, keys};
use sapwood::{
    Dir, Error, ObjectId, PlanError,
    switch::{self, Executed, Head, Report},
    upstream,
    workspace::rebase::Replacement,
};

use crate::{
    commands::checkout::request::{NewBranchKind, Request, Source, describe},
    session::{
        Session,
        index::{Done, load_index},
        invocation::{Invocation, Program},
        revisions::warn_ambiguous,
        settings::Settings,
        tracking,
    },
    term::{
        console::{self, text},
        failure::{Failure, refused_with},
        text::quote,
    },
};

/// Runs `checkout <branch>` and `switch`. Returns the exit code.
pub(crate) fn run(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: Request,
    source: Option<Source>,
) -> Result<u8, Failure> {
    run_with(run, repo, settings, request, source, None)
}

/// Runs like [`run`]. If there is a replacement, it changes the files and the index.
pub(crate) fn run_with(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: Request,
    source: Option<Source>,
    replacement: Option<&Replacement<'_>>,
) -> Result<u8, Failure> {
    let context = Session { invocation: run, repository: repo, settings }.context(run);
    let name = source.as_ref().map_or_else(|| "HEAD".into(), |source| source.name.clone());
    let switch = Switch { run, repo, settings, request: &request, name };
    let wanted = request.switch(run, repo);
    let refused = |error| switch.refused(error);
    if request.dry_run {
        let steps = switch::preview(context, wanted, source).or_else(|error| Err(refused(error)?))?;
        steps.iter().for_each(|steps| console::out(steps.trim_end()));
        return Ok(0);
    }
    let executed = match (replacement, source) {
        (Some(replacement), Some(source)) => {
            let prepared = switch::prepare_replacement(context, wanted, source);
            prepared
                .or_else(|error| Err(refused(error)?))?
                .execute_by(|locked, branch, message| replacement.perform(locked, branch, message))?
        }
        (_, source) => {
            let prepared = switch::prepare(context, wanted, source);
            prepared.or_else(|error| Err(refused(error)?))?.execute()?
        }
    };
    switch.go_on(executed, replacement)
}

/// Returns true if local changes block the switch to `name`, so that `-m` has something to merge,
/// or `None` if `name` is not a commit. Changes nothing. Returns false for a conflicted index, for
/// which the switch is refused.
pub(crate) fn needs_a_merge(
    run: &Invocation,
    repo: &Repository,
    name: &BStr,
) -> Result<Option<bool>, Failure> {
    let name = if name == "-" { BStr::new("@{-1}") } else { name };
    let oid = match repo.rev_parse_or_base(name) {
        Ok(oid) => oid,
        Err(error) if error.is_unreadable() || error.is_final() => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let source = describe(repo, name, oid)?;
    if source.commit.is_none() {
        return Ok(None);
    }
    let settings = Settings::read(repo)?;
    let index = load_index(repo, &settings)?;
    let Some(root) = repo.work_tree().filter(|_| !index.is_unmerged()) else { return Ok(Some(false)) };
    let root = Dir::open(root).map_err(|error| Failure::fatal(error.to_string()))?;
    let head = Head::read(repo)?.commit.map(|commit| repo.tree_of(commit)).transpose()?;
    let original_cwd = run.original_cwd(repo);
    let options = PlanOptions { original_cwd, ..PlanOptions::switch(head, source.tree) };
    match checkout::plan(repo, &root, index, &options) {
        Ok(_) => Ok(Some(false)),
        Err(checkout::PlanError::Refused(_)) => Ok(Some(true)),
        Err(error) => Err(Failure::fatal(error.to_string())),
    }
}

struct Switch<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    request: &'a Request,
    /// The name of the target.
    name: BString,
}

impl Switch<'_> {
    /// Returns the failure of a switch that cannot be planned.
    fn refused(&self, error: sapwood::PlanError) -> Result<Failure, Failure> {
        if let PlanError::Failed(Error::Upstream(
            upstream::Error::NotABranch(_) | upstream::Error::AmbiguousName(_),
        )) = error
        {
            warn_ambiguous(self.repo, self.settings, self.name.as_bstr(), 1)?;
        }
        Ok(refused_with(if self.request.discard { 128 } else { 1 })(error))
    }

    /// Moves HEAD after the files were changed, and reports each step.
    fn go_on(
        &self,
        mut executed: Executed<'_>,
        replacement: Option<&Replacement<'_>>,
    ) -> Result<u8, Failure> {
        let request = self.request;
        for Pair { status, path, .. } in &executed.report().changes {
            let path = quote(path.as_ref(), self.settings.quote_path);
            console::out(text!([status.letter()], "\t", path));
        }
        let code = match executed.report().done {
            Done::Complete => 0,
            // Git reports the files that it could not write, and exits with 0.
            Done::Incomplete => u8::from(self.run.program == Program::Sapwood),
            Done::Unfinished => {
                console::hint("HEAD was not moved; the same command, run again, does the rest");
                return Err(Failure::Reported(1));
            }
        };
        let old = executed.report().old.clone();
        if let (false, None, Some(commit)) = (request.quiet, &old.branch, old.commit)
            && executed.commit() != old.commit
        {
            self.leave_detached(commit, executed.commit())?;
        }
        if request.new_branch.as_ref().is_some_and(|new| new.kind != NewBranchKind::Orphan)
            && !executed.is_rename_of_unborn()
        {
            warn_ambiguous(self.repo, self.settings, executed.name(), 1)?;
        }
        executed.create_branch()?;
        executed
            .report()
            .upstream
            .iter()
            .filter(|_| !request.quiet)
            .for_each(|installed| console::out(installed.text()));
        executed.move_head()?;
        if !request.quiet {
            self.report_head(&executed)?;
        }
        if executed.is_rename_of_unborn() {
            return Ok(0);
        }
        executed.end_operations()?;
        if !request.quiet {
            self.report_end(executed.report())?;
        }
        if let Some(replacement) = replacement {
            replacement.finish()?;
        }
        executed.run_hook()?;
        Ok(if executed.report().hook == 0 { code } else { 1 })
    }

    fn leave_detached(&self, old: ObjectId, new: Option<ObjectId>) -> Result<(), Failure> {
        let lost = self.repo.left_behind(old, new)?;
        if lost.total == 0 {
            return self.describe("Previous HEAD position was ", old);
        }
        let mut list = BString::default();
        for (short, subject) in &lost.listed {
            list.extend_from_slice(&text!("  ", short, " ", subject, "\n"));
        }
        if lost.total > lost.listed.len() {
            let more = lost.total - lost.listed.len();
            list.extend_from_slice(format!(" ... and {more} more.\n").as_bytes());
        }
        let (s, them) = if lost.total == 1 { ("", "it") } else { ("s", "them") };
        console::eprint_line(text!(
            format!("Warning: you are leaving {} commit{s} behind, not connected to\n", lost.total),
            "any of your branches:\n\n",
            list
        ));
        if self.settings.advises(self.repo, keys::advice::DETACHED_HEAD)? {
            let short = self.repo.abbreviate(old)?;
            console::eprint_line(format!(
                "If you want to keep {them} by creating a new branch, this may be a good time\n\
                 to do so with:\n\n git branch <new-branch-name> {short}\n"
            ));
        }
        Ok(())
    }

    fn describe(&self, lead: &str, commit: ObjectId) -> Result<(), Failure> {
        let short = self.repo.abbreviate(commit)?;
        let wants_dots = self.run.variable("GIT_PRINT_SHA1_ELLIPSIS");
        let dots =
            if wants_dots.is_some_and(|value| value.eq_ignore_ascii_case(b"yes")) { "..." } else { "" };
        console::eprint_line(text!(lead, short, dots, " ", self.repo.subject(commit)?));
        Ok(())
    }

    /// Reports the new HEAD.
    fn report_head(&self, executed: &Executed<'_>) -> Result<(), Failure> {
        let Report { old, new, .. } = executed.report();
        match (&new.branch, new.commit) {
            _ if executed.stays() => {}
            (Some(full), _) => self.print_switched(full, executed),
            (None, Some(commit)) => {
                let advises = self.settings.advises(self.repo, keys::advice::DETACHED_HEAD)?;
                if old.branch.is_some() && advises && !self.request.detach {
                    console::eprint_line(text!("Note: switching to '", executed.name(), "'.\n\n", DETACHED));
                }
                self.describe("HEAD is now at ", commit)?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn print_switched(&self, full: &BString, executed: &Executed<'_>) {
        let short = full.strip_prefix(names::BRANCHES).unwrap_or(full);
        let same = executed.report().old.branch.as_ref() == Some(full) && !executed.is_rename_of_unborn();
        let lead = match self.request.new_branch.as_ref().map(|new| new.kind) {
            Some(NewBranchKind::Reset) if same => "Reset branch '",
            _ if same => "Already on '",
            Some(_) if executed.report().existed => "Switched to and reset branch '",
            Some(_) => "Switched to a new branch '",
            None => "Switched to branch '",
        };
        console::eprint_line(text!(lead, short, "'"));
    }

    /// Reports the operations that ended, and the branch beside its upstream.
    fn report_end(&self, Report { new, ended, .. }: &Report) -> Result<(), Failure> {
        if ended.cherry_pick {
            console::warning("cancelling a cherry picking in progress");
        }
        if ended.revert {
            console::warning("cancelling a revert in progress");
        }
        match &new.branch {
            Some(branch) if !self.request.detach => {
                tracking::report(self.repo, self.settings, branch.as_bstr())
            }
            _ => Ok(()),
        }
    }
}

/// Git's advice after HEAD was detached without `--detach`.
pub(crate) const DETACHED: &str = "\
You are in 'detached HEAD' state. You can look around, make experimental
changes and commit them, and you can discard any commits you make in this
state without impacting any branches by switching back to a branch.

If you want to create a new branch to retain commits you create, you may
do so (now or later) by using -c with the switch command. Example:

  git switch -c <new-branch-name>

Or undo this operation with:

  git switch -

Turn off this advice by setting config variable advice.detachedHead to false
";
