//! Switching: the worktree and the index to another commit, then HEAD.
//!
//! Order: checks that need no lock; the plan and refusals; the check that refs can be changed;
//! execution and record; then refs, state files and the `post-checkout` hook. If files could not be
//! written, HEAD still moves and the exit code is 1, as in Git. After a signal the finished steps
//! are recorded and HEAD stays.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{self, Files, Force, Merge, PlanError, PlanOptions, Sparse, Vouched},
    switch::{
        self, Target, names,
        state::{self, Operation},
        tracking::Track,
    },
};
use format::ObjectId;
use repo::{Head, Repository, convert::Metadata};
use store::refs::LogPolicy;

use crate::{
    commands::{
        checkout::request::{NewBranch, NewBranchKind, Request, Source, Variant, describe},
        upstream,
    },
    session::{
        Session,
        apply::{Done, IncompleteSteps, LockedPlan, PreflightCheck, Start, Transaction, load_index},
        hooks,
        invocation::{Invocation, Program},
        revisions::warn_ambiguous,
        settings::Settings,
        submodules, tracking,
    },
    term::{
        console::{self, text},
        failure::Failure,
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

/// Moves the files of a worktree to another commit by other means than a plan's steps.
pub(crate) trait WorktreeUpdater {
    /// Performs the change that is planned in `locked`. HEAD will then be on `branch`, or detached
    /// at `commit`, with `message` in its reflog.
    fn perform(
        &self,
        locked: LockedPlan,
        branch: Option<&BStr>,
        commit: ObjectId,
        message: &BStr,
    ) -> Result<(), Failure>;

    /// Called after HEAD has moved, before the hook.
    fn finish(&self) -> Result<(), Failure>;
}

/// Runs like [`run`]. If `updater` is `Some`, it changes the files and the index.
pub(crate) fn run_with(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: Request,
    source: Option<Source>,
    updater: Option<&dyn WorktreeUpdater>,
) -> Result<u8, Failure> {
    let old = OldHead::read(repo)?;
    if request.variant == Variant::Switch {
        refuse_in_progress(repo)?;
    }
    let new_branch = request.new_branch.as_ref();
    match (&source, new_branch) {
        (Some(Source { branch: Some(branch), .. }), None) if !request.detach => {
            refuse_used_elsewhere(repo, &request, &old, branch.as_bstr())?;
        }
        (_, Some(NewBranch { name, kind: NewBranchKind::Reset })) => {
            let name = names::local_branch(repo, name.as_bstr())?;
            refuse_used_elsewhere(repo, &request, &old, text!(names::BRANCHES, name).as_bstr())?;
        }
        _ => {}
    }
    let switch = Switch { run, repo, settings, request, old, updater };
    if source.is_none() && switch.old.is_unborn && switch.request.new_branch.is_some() {
        return switch.rename_unborn();
    }
    switch.run(source)
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
    let settings = Settings::read(run, repo)?;
    let index = load_index(repo, &settings)?;
    let Some(root) = repo.work_tree().filter(|_| !index.is_unmerged()) else { return Ok(Some(false)) };
    let root = sys::Dir::open(root).map_err(|error| Failure::fatal(error.to_string()))?;
    let head = OldHead::read(repo)?.commit.map(|commit| repo.tree_of(commit)).transpose()?;
    let original_cwd = run.original_cwd(repo);
    let options = PlanOptions { original_cwd, ..PlanOptions::switch(head, source.tree) };
    match checkout::plan(repo, &root, index, &options) {
        Ok(_) => Ok(Some(false)),
        Err(PlanError::Refused(_)) => Ok(Some(true)),
        Err(error) => Err(Failure::fatal(error.to_string())),
    }
}

/// The state of HEAD before the switch.
struct OldHead {
    /// Full name of the branch, which may be unborn.
    branch: Option<BString>,
    /// The branch does not exist yet. An existing branch has no `commit` either if the object is
    /// missing.
    is_unborn: bool,
    commit: Option<ObjectId>,
}

impl OldHead {
    fn read(repo: &Repository) -> Result<OldHead, Failure> {
        let head = repo.head()?;
        // Git can leave a branch whose object is missing, or not a commit, like an unborn one.
        let commit = head.oid().map(|oid| repo.commit_if_there(oid)).transpose()?.flatten();
        let is_unborn = matches!(head, Head::Unborn { .. });
        Ok(OldHead { branch: head.branch().map(BStr::to_owned), is_unborn, commit })
    }

    /// Returns the name for reflogs.
    fn described(&self) -> BString {
        let branch = self.branch.as_ref().and_then(|full| full.strip_prefix(names::BRANCHES));
        match (branch, self.commit) {
            (Some(branch), _) => branch.into(),
            (None, Some(commit)) => commit.to_string().into(),
            (None, None) => "(invalid)".into(),
        }
    }
}

struct Switch<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    request: Request,
    old: OldHead,
    updater: Option<&'a dyn WorktreeUpdater>,
}

/// The state of HEAD after the switch.
struct NewHead {
    /// The name for messages and reflogs.
    name: BString,
    /// Full name of the branch, if HEAD will be on one.
    branch: Option<BString>,
    commit: Option<ObjectId>,
}

impl Switch<'_> {
    /// `-b` on an unborn branch: HEAD only changes its branch name.
    fn rename_unborn(self) -> Result<u8, Failure> {
        let Some(branch) = &self.request.new_branch else {
            return Err(Failure::fatal("You are on a branch yet to be born"));
        };
        let full = text!(names::BRANCHES, branch.name);
        if self.request.dry_run {
            console::out(text!("HEAD -> ", full));
            return Ok(0);
        }
        let refs = self.settings.refs(self.repo)?;
        switch::move_head(&refs, Target::Branch(full.as_bstr()), "checkout -b".into())
            .map_err(cannot_update_head)?;
        if !self.request.quiet {
            console::eprint_line(text!("Switched to a new branch '", branch.name, "'"));
        }
        Ok(0)
    }

    fn run(self, source: Option<Source>) -> Result<u8, Failure> {
        let from_nothing = self.request.variant == Variant::Switch && self.makes(NewBranchKind::Orphan);
        let stays = source.is_none() && !from_nothing;
        let new = match &source {
            _ if from_nothing => NewHead { name: "(empty)".into(), branch: None, commit: None },
            Some(source) => {
                NewHead { name: source.name.clone(), branch: source.branch.clone(), commit: source.commit }
            }
            None => {
                let commit = self.old.commit;
                commit.ok_or_else(|| Failure::fatal("You are on a branch yet to be born"))?;
                NewHead { name: "HEAD".into(), branch: None, commit }
            }
        };
        let mut code = 0;
        let preflight = || self.check_ref_updates(&new);
        if !(stays && self.request.only_makes_a_branch()) {
            let tree = match (&source, new.commit) {
                (Some(source), _) => source.tree,
                (None, Some(commit)) => self.repo.tree_of(commit)?,
                (None, None) => ObjectId::empty_tree(self.repo.hash()),
            };
            let metadata = match source {
                Some(source) => source.metadata,
                None => Metadata { reference: None, treeish: new.commit },
            };
            match self.worktree(tree, &new, metadata, Box::new(preflight))? {
                Done::Planned => return Ok(0),
                Done::Complete => {}
                // Git reports the files that it could not write, and exits with 0.
                Done::Incomplete => code = u8::from(self.run.program == Program::Sapwood),
                Done::Unfinished => {
                    console::hint("HEAD was not moved; the same command, run again, does the rest");
                    return Err(Failure::Reported(1));
                }
            }
        } else if self.request.dry_run {
            return Ok(0);
        } else {
            preflight()?;
        }
        if !self.request.quiet && self.old.branch.is_none() && new.commit != self.old.commit {
            self.leave_detached(new.commit)?;
        }
        let new = self.update_refs(new)?;
        if let Some(updater) = self.updater {
            updater.finish()?;
        }
        let hook = hooks::post_checkout(self.repo, self.settings, self.old.commit, new.commit, true)?;
        Ok(if hook == 0 { code } else { 1 })
    }

    fn makes(&self, kind: NewBranchKind) -> bool {
        self.request.new_branch.as_ref().is_some_and(|new| new.kind == kind)
    }

    /// Updates worktree and index to `tree`.
    fn worktree(
        &self,
        tree: ObjectId,
        new: &NewHead,
        metadata: Metadata,
        preflight: PreflightCheck<'_>,
    ) -> Result<Done, Failure> {
        let request = &self.request;
        let mut transaction = Transaction::start(
            Session { invocation: self.run, repository: self.repo, settings: self.settings },
            Start::Sparse { dry_run: request.dry_run },
        )?;
        transaction.policy.progress = request.shows_progress();
        transaction.policy.metadata = metadata;
        transaction.policy.merges = request.merges();
        transaction.policy.preflight = Some(preflight);
        if self.run.program == Program::Sapwood {
            transaction.policy.incomplete_steps = IncompleteSteps::Resumable;
        }
        transaction.policy.recurses = submodules::wanted(request.recurse, self.repo)?;
        let merge = match (request.discard, self.old.commit) {
            (true, _) => Merge::OneWay { target: tree },
            (false, Some(old)) => Merge::TwoWay { head: Some(self.repo.tree_of(old)?), target: tree },
            (false, None) => Merge::TwoWay { head: None, target: tree },
        };
        if !request.discard && transaction.index.is_unmerged() {
            transaction.list_unmerged();
            console::error("you need to resolve your current index first");
            return Err(Failure::Reported(1));
        }
        let lists_changes = !request.quiet && !request.discard && new.commit.is_some() && !request.dry_run;
        // With `-q`, sapwood examines only the files that it will change; Git examines all.
        let refreshes = lists_changes
            || self.updater.is_some()
            || (self.run.program == Program::Git && !request.discard && !request.dry_run);
        if refreshes {
            transaction.refresh()?;
        }
        let options = PlanOptions {
            merge,
            force: match (request.discard, request.force) {
                (true, true) => Force::OverwriteUntracked,
                (true, false) => Force::ProtectUntracked,
                (false, _) => Force::No,
            },
            files: Files::Update,
            overwrite_ignored: request.overwrite_ignore,
            refresh: !request.discard,
            original_cwd: self.run.original_cwd(self.repo),
            sparse: Sparse::Configured,
            // `checkout -f` prints messages like the plumbing, one path at a time.
            operation: if request.discard {
                checkout::Operation::Plumbing
            } else {
                checkout::Operation::Checkout
            },
            vouched: match self.updater {
                Some(_) => Vouched::Trusted,
                None => Vouched::Examined,
            },
        };
        let code = if request.discard { 128 } else { 1 };
        if let (Some(updater), Some(commit)) = (self.updater, new.commit) {
            let branch = new.branch.as_ref().filter(|_| !request.detach).map(|branch| branch.as_bstr());
            let locked = transaction.plan_locked(&options, code)?;
            updater.perform(locked, branch, commit, self.reflog_message(&new.name).as_bstr())?;
            return Ok(Done::Complete);
        }
        transaction.perform(&options, code, lists_changes.then_some(tree))
    }

    fn leave_detached(&self, new: Option<ObjectId>) -> Result<(), Failure> {
        let Some(old) = self.old.commit else { return Ok(()) };
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
        if self.settings.advises(self.repo, "detachedHead")? {
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

    /// Returns an error if [`Switch::update_refs`] would fail. Called before the worktree is
    /// changed.
    fn check_ref_updates(&self, new: &NewHead) -> Result<(), Failure> {
        let (request, repo) = (&self.request, self.repo);
        let mut refs = self.settings.refs(repo)?;
        let mut target = new.branch.clone();
        if let Some(branch) = &request.new_branch {
            let short = names::local_branch(repo, branch.name.as_bstr())?;
            let full = text!(names::BRANCHES, short);
            if let (Some(commit), false) = (new.commit, branch.kind == NewBranchKind::Orphan) {
                if request.reflog {
                    refs.log = LogPolicy::Standard;
                }
                let exists = repo.find_ref(full.as_bstr())?.is_some();
                let track = self.track()?;
                let name = new.name.as_bstr();
                let start = match upstream::Start::find(repo, name, track) {
                    Ok(start) => start,
                    Err(failure) => {
                        warn_ambiguous(repo, self.settings, name, 1)?;
                        return Err(failure);
                    }
                };
                switch::check_branch(&refs, full.as_bstr(), commit, exists)?;
                upstream::preflight(repo, self.settings, short.as_bstr(), &start, track)?;
            }
            target = Some(full);
        }
        let commit = new.commit.filter(|_| !self.makes(NewBranchKind::Orphan));
        match (&target, commit) {
            (Some(full), commit) if !request.detach => {
                switch::check_head(&refs, Target::Branch(full.as_bstr()), commit).map_err(cannot_update_head)
            }
            (None, _) if new.name == "HEAD" && !request.detach => Ok(()),
            (_, Some(commit)) => {
                switch::check_head(&refs, Target::Commit(commit), Some(commit)).map_err(cannot_detach_head)
            }
            (_, None) => Ok(()),
        }
    }

    fn track(&self) -> Result<Track, Failure> {
        match self.request.track {
            Some(track) => Ok(track),
            None => Ok(Track::configured(self.repo)?),
        }
    }

    /// Creates the branch, moves HEAD, and reports that.
    fn update_refs(&self, mut new: NewHead) -> Result<NewHead, Failure> {
        let (request, repo) = (&self.request, self.repo);
        let mut refs = self.settings.refs(repo)?;
        let mut existed = false;
        if let Some(branch) = &request.new_branch {
            let short = names::local_branch(repo, branch.name.as_bstr())?;
            let full = text!(names::BRANCHES, short);
            existed = repo.find_ref(full.as_bstr())?.is_some();
            if branch.kind == NewBranchKind::Orphan {
                if request.reflog && refs.log == LogPolicy::Never {
                    store::refs::begin_log(&refs, full.as_bstr()).map_err(switch::Error::from)?;
                }
            } else {
                if request.reflog {
                    refs.log = LogPolicy::Standard;
                }
                let commit = new.commit.expect("only an orphan starts from nothing");
                let track = self.track()?;
                warn_ambiguous(repo, self.settings, new.name.as_bstr(), 1)?;
                let start = upstream::Start::find(repo, new.name.as_bstr(), track)?;
                switch::create_branch(&refs, full.as_bstr(), commit, new.name.as_bstr(), existed)?;
                upstream::set(repo, self.settings, short.as_bstr(), start, track, request.quiet)?;
            }
            new = NewHead {
                name: short,
                commit: if branch.kind == NewBranchKind::Orphan { None } else { new.commit },
                branch: Some(full),
            };
        }
        let message = self.reflog_message(&new.name);
        let message = message.as_bstr();
        match (&new.branch, new.commit) {
            (None, _) if new.name == "HEAD" && !request.detach => {}
            (Some(full), _) if !request.detach => {
                switch::move_head(&refs, Target::Branch(full.as_bstr()), message)
                    .map_err(cannot_update_head)?;
                if !request.quiet {
                    self.print_switched(full, existed);
                }
                self.drop_unborn_reflog()?;
            }
            (_, commit) => {
                let commit = commit.expect("HEAD can only be detached at a commit");
                switch::move_head(&refs, Target::Commit(commit), message).map_err(cannot_detach_head)?;
                if !request.quiet {
                    let advises = self.settings.advises(repo, "detachedHead")?;
                    if self.old.branch.is_some() && advises && !request.detach {
                        console::eprint_line(text!("Note: switching to '", new.name, "'.\n\n", DETACHED));
                    }
                    self.describe("HEAD is now at ", commit)?;
                }
            }
        }
        let ended = state::end(repo, &refs)?;
        if ended.cherry_pick && !request.quiet {
            console::warning("cancelling a cherry picking in progress");
        }
        if ended.revert && !request.quiet {
            console::warning("cancelling a revert in progress");
        }
        let reports = !request.quiet && !request.detach && (new.branch.is_some() || new.name == "HEAD");
        if let (true, Some(branch)) = (reports, new.branch.as_ref().or(self.old.branch.as_ref())) {
            tracking::report(repo, self.settings, branch.as_bstr())?;
        }
        Ok(new)
    }

    /// Returns the message for HEAD's reflog.
    fn reflog_message(&self, name: &BString) -> BString {
        match self.run.variable("GIT_REFLOG_ACTION") {
            Some(action) => action.into(),
            None => text!("checkout: moving from ", self.old.described(), " to ", name),
        }
    }

    fn print_switched(&self, full: &BString, existed: bool) {
        let short = full.strip_prefix(names::BRANCHES).unwrap_or(full);
        let same = self.old.branch.as_ref() == Some(full);
        let lead = match self.request.new_branch.as_ref().map(|new| new.kind) {
            Some(NewBranchKind::Reset) if same => "Reset branch '",
            _ if same => "Already on '",
            Some(_) if existed => "Switched to and reset branch '",
            Some(_) => "Switched to a new branch '",
            None => "Switched to branch '",
        };
        console::eprint_line(text!(lead, short, "'"));
    }

    /// Removes the reflog of the old branch if the branch does not exist now: this command, a hook
    /// or another process may have created it.
    fn drop_unborn_reflog(&self) -> Result<(), Failure> {
        match &self.old.branch {
            Some(branch) if self.repo.value_of_ref(branch.as_bstr())?.is_none() => {
                Ok(state::forget_reflog(self.repo, branch.as_bstr())?)
            }
            _ => Ok(()),
        }
    }
}

/// Returns the failure for a HEAD that cannot be put on a branch.
pub(crate) fn cannot_update_head(error: switch::Error) -> Failure {
    if error.is_missing_committer() {
        return error.into();
    }
    console::error(error.to_string());
    Failure::fatal("unable to update HEAD").advised(error.advice())
}

fn cannot_detach_head(error: switch::Error) -> Failure {
    match error.is_missing_committer() {
        true => error.into(),
        false => Failure::fatal(format!("update_ref failed for ref 'HEAD': {error}")).advised(error.advice()),
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

/// Returns an error if an operation is in progress, for `switch`.
fn refuse_in_progress(repo: &Repository) -> Result<(), Failure> {
    let found = state::in_progress(repo)?;
    let (doing, quit) = match found.operation {
        Some(Operation::Merge) => ("while merging", "merge"),
        Some(Operation::Am) => ("in the middle of an am session", "am"),
        Some(Operation::Rebase) => ("while rebasing", "rebase"),
        Some(Operation::CherryPick) => ("while cherry-picking", "cherry-pick"),
        Some(Operation::Revert) => ("while reverting", "revert"),
        None => {
            if found.bisect {
                console::warning("you are switching branch while bisecting");
            }
            return Ok(());
        }
    };
    Err(Failure::fatal(format!(
        "cannot switch branch {doing}\nConsider \"git {quit} --quit\" or \"git worktree add\"."
    )))
}

/// Returns an error if another worktree has the branch checked out.
fn refuse_used_elsewhere(
    repo: &Repository,
    request: &Request,
    old: &OldHead,
    branch: &BStr,
) -> Result<(), Failure> {
    if request.ignore_other_worktrees || old.branch.as_ref().is_some_and(|old| old == branch) {
        return Ok(());
    }
    match repo.worktree_using(branch, true)? {
        None => Ok(()),
        Some(path) => {
            let short = branch.strip_prefix(names::BRANCHES).unwrap_or(branch);
            let path = path.display().to_string();
            Err(Failure::Fatal(text!("'", short, "' is already used by worktree at '", path, "'")))
        }
    }
}
