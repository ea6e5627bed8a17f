//! The stages of a clone: source, skeleton, objects, refs, worktree, publish.
//!
//! Each stage is a type, made from the stage before it. [`Prepared`] is the source,
//! [`Skeleton`] and [`Configured`] the new repository without objects, [`Populated`] has all
//! objects, [`Referenced`] all refs. The caller fills the worktree of [`Cloned`], and publishes it.
//! A killed clone begins at the stage of its [`resume::Point`](super::resume::Point).

use super::{
    Caller, Cloned, Destination, Error, Event, Prepared, Worktree,
    assembly::Skeleton,
    configured::{Configured, Selected},
    junk::Junk,
    marker::{self, Claim},
    objects::Populated,
    refs::Referenced,
    resume::Entered,
    salvage::{self, Keeping},
};
use crate::checkout::Force;

impl Prepared {
    /// Creates the clone without its worktree.
    pub fn run(&self, caller: &Caller<'_>) -> Result<Cloned, Error> {
        let mut junk = Junk::default();
        let keeping = if caller.seed.is_some() { Keeping::Nothing } else { self.keeping()? };
        let made = self.make(keeping, &mut junk, caller);
        let git_dir = &self.destination.git_dir;
        if let Err(error) = &made
            && error.is_interrupted_transfer()
            && salvage::is_worth_keeping(git_dir, keeping)
            && salvage::set_aside(git_dir).is_ok()
        {
            junk.keep();
            let kept = "the objects that came are kept; the same command goes on with them";
            (caller.events)(Event::Info(kept));
        }
        made
    }

    /// Runs the stages from the one at which the clone resumes. `junk` removes their work after a
    /// failure.
    fn make(&self, keeping: Keeping, junk: &mut Junk, caller: &Caller<'_>) -> Result<Cloned, Error> {
        let destination = &self.destination;
        let transfer = match destination.point.enter(&destination.git_dir, keeping, self.extent())? {
            Entered::Worktree(claim) => return self.resume_worktree(claim, caller),
            Entered::Objects(claim) => Some(claim),
            Entered::Skeleton => None,
        };
        let is_resumed = transfer.is_some();
        let skeleton = Skeleton::make(self, transfer, junk, caller)?;
        let configured = Configured::of(Selected::of(skeleton)?)?;
        if is_resumed {
            destination.add_to(junk);
        }
        let populated = Populated::of(configured)?;
        let referenced = Referenced::of(populated)?;
        junk.keep();
        referenced.into_cloned()
    }

    /// Resumes a clone that lacks only files of its worktree.
    fn resume_worktree(&self, claim: Claim, caller: &Caller<'_>) -> Result<Cloned, Error> {
        self.say_begin(caller);
        let git_dir = &self.destination.git_dir;
        let repo = repo::Repository::open(&self.to_open())?;
        salvage::keep_promised(&repo, git_dir, caller.interrupt)?;
        let claim = marker::take_over(git_dir, claim)?;
        let worktree = match repo.head()? {
            _ if self.options.no_checkout => Worktree::None,
            repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
            repo::Head::Detached { oid } => Worktree::Detached(oid),
            repo::Head::Unborn { .. } | repo::Head::Unresolvable => Worktree::Nonexistent,
        };
        let Destination { git_dir, work_tree, .. } = self.destination.clone();
        let (force, claim) = (Force::Remnants, Some(claim));
        Ok(Cloned { git_dir, work_tree, worktree, force, settings: None, staged: None, claim })
    }
}
