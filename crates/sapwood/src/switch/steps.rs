//! The steps of a switch after its files. Each is a call, so that a caller can report one before
//! the next one, whose hooks write to the same terminal.

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::{self, Target, names, state};
use format::ObjectId;
use store::refs::LogPolicy;

use super::{Head, NewBranchKind, Report, Request, prepare::NewHead, refs::track};
use crate::{Context, Error, HeadChange, hooks, text, upstream};

/// A switch whose files and index are changed. The steps that are left are called in this order:
/// [`Executed::create_branch`], [`Executed::move_head`], [`Executed::end_operations`],
/// [`Executed::run_hook`].
pub struct Executed<'a> {
    pub(super) context: Context<'a>,
    pub(super) request: Request,
    pub(super) new: NewHead,
    pub(super) refs: store::refs::Options,
    /// HEAD changes from an unborn branch to another one, and nothing else.
    pub(super) only_head: bool,
    pub(super) report: Report,
}

impl Executed<'_> {
    /// The result so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the result.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// The name of the target, for messages: that of the new branch once it is created.
    pub fn name(&self) -> &BStr {
        self.new.name.as_bstr()
    }

    /// The commit of the target.
    pub fn commit(&self) -> Option<ObjectId> {
        self.new.commit
    }

    /// Returns true if only the name of HEAD's unborn branch changes.
    pub fn is_rename_of_unborn(&self) -> bool {
        self.only_head
    }

    /// Returns true if HEAD stays on its branch.
    pub fn stays(&self) -> bool {
        self.new.stays(&self.request)
    }

    /// Returns the branch of HEAD after the switch; `None` if HEAD will be detached.
    pub(super) fn attached_to(&self) -> Option<&BStr> {
        self.new.branch.as_ref().filter(|_| !self.request.detach).map(|branch| branch.as_bstr())
    }

    /// Creates the new branch, if there is one, and sets its upstream.
    pub fn create_branch(&mut self) -> Result<(), Error> {
        let (context, request) = (self.context, &self.request);
        let Some(branch) = request.new_branch.as_ref().filter(|_| !self.only_head) else { return Ok(()) };
        let repo = context.repo;
        let refs = &self.refs;
        let short = names::local_branch(repo, branch.name.as_ref())?;
        let full = text!(names::BRANCHES, short);
        self.report.existed = repo.find_ref(full.as_ref())?.is_some();
        let orphan = branch.kind == NewBranchKind::Orphan;
        if orphan {
            if request.reflog && refs.log == LogPolicy::Never {
                store::refs::begin_log(refs, full.as_ref()).map_err(switch::Error::from)?;
            }
        } else {
            let commit = self.new.commit.expect("only an orphan starts from nothing");
            let track = track(context, request)?;
            let name = self.new.name.as_bstr();
            let start = upstream::Start::find(repo, name, track)?;
            switch::create_branch(refs, full.as_ref(), commit, name, self.report.existed)?;
            self.report.upstream = upstream::set(context, short.as_ref(), start, track)?;
        }
        let commit = self.new.commit.filter(|_| !orphan);
        self.new = NewHead { name: short, branch: Some(full), commit };
        Ok(())
    }

    /// Moves HEAD.
    pub fn move_head(&mut self) -> Result<(), Error> {
        let NewHead { branch, commit, .. } = &self.new;
        let message = self.reflog_message();
        let message = if self.only_head { BStr::new("checkout -b") } else { message.as_bstr() };
        if !self.stays() {
            let (target, change) = match self.attached_to() {
                Some(full) => (Target::Branch(full), HeadChange::Attach),
                None => {
                    let commit = commit.expect("HEAD can only be detached at a commit");
                    (Target::Commit(commit), HeadChange::Detach)
                }
            };
            switch::move_head(&self.refs, target, message).map_err(Error::cannot_move_head(change))?;
            let branch = branch.clone().filter(|_| !self.request.detach);
            self.report.new = Head { branch, commit: *commit, is_unborn: commit.is_none() };
        }
        Ok(())
    }

    /// Ends a merge, cherry-pick or revert in progress. Removes the reflog of the old branch if the
    /// branch does not exist now: this operation, a hook or another process may have created it.
    pub fn end_operations(&mut self) -> Result<(), Error> {
        if self.only_head {
            return Ok(());
        }
        let repo = self.context.repo;
        if let (Some(old), Some(_)) = (&self.report.old.branch, self.attached_to())
            && repo.value_of_ref(old.as_ref())?.is_none()
        {
            state::forget_reflog(repo, old.as_ref())?;
        }
        self.report.ended = state::end(repo, &self.refs)?;
        Ok(())
    }

    /// Runs the hook `post-checkout`.
    pub fn run_hook(&mut self) -> Result<(), Error> {
        if !self.only_head {
            let old = self.report.old.commit;
            self.report.hook = hooks::post_checkout(self.context, old, self.new.commit, true)?;
        }
        Ok(())
    }

    /// Returns the message for HEAD's reflog.
    pub(super) fn reflog_message(&self) -> BString {
        if let Some(action) = &self.request.reflog_action {
            return action.clone();
        }
        let Head { branch, commit, .. } = &self.report.old;
        let old: BString = match (branch.as_ref().and_then(|full| full.strip_prefix(names::BRANCHES)), commit)
        {
            (Some(branch), _) => branch.into(),
            (None, Some(commit)) => commit.to_string().into(),
            (None, None) => "(invalid)".into(),
        };
        text!("checkout: moving from ", old, " to ", self.new.name)
    }
}
