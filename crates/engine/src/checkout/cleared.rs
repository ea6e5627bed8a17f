//! A plan that the guard has checked. `execute` accepts no other plan.

use std::path::Path;

use bstr::{BString, ByteSlice as _};
use repo::Repository;
use sys::Dir;

use super::Plan;
use crate::{
    files::{Allowed, Worktree},
    guard::{Error, Guard},
};

/// A checked plan: none of its steps changes the repository.
#[derive(Clone, Copy, Debug)]
pub struct Cleared<'p> {
    plan: &'p Plan,
    lead: &'p [u8],
    root: &'p Dir,
    allowed: Allowed,
}

impl<'p> Cleared<'p> {
    /// Checks a plan for the worktree at `path`, which is open as `root`. The name of a file is
    /// `lead` followed by the path of its entry.
    pub fn new(
        repo: &Repository,
        path: &Path,
        root: &'p Dir,
        plan: &'p Plan,
        lead: &'p [u8],
    ) -> Result<Cleared<'p>, Error> {
        let allowed = if plan.writes.is_empty() && plan.removals.is_empty() {
            Allowed::for_no_step()
        } else {
            Worktree::of(repo, path, root)?.check_plan(|guard| check(guard, plan, lead))?
        };
        Ok(Cleared { plan, lead, root, allowed })
    }

    /// Accepts a plan for a directory that this process has just created and no other process uses.
    pub(crate) fn for_new_directory(root: &'p Dir, plan: &'p Plan) -> Cleared<'p> {
        Cleared { plan, lead: b"", root, allowed: Allowed::in_new_directory() }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    /// Returns the prefix of each file's name.
    pub fn lead(&self) -> &'p [u8] {
        self.lead
    }

    /// Returns the root of the worktree.
    pub fn root(&self) -> &'p Dir {
        self.root
    }

    /// Returns the proof that the steps may change the worktree.
    pub(super) fn allowed(&self) -> Allowed {
        self.allowed
    }
}

fn check(guard: &Guard, plan: &Plan, lead: &[u8]) -> Result<(), Error> {
    for removal in &plan.removals {
        guard.check(removal.path.as_bstr())?;
    }
    let mut placed = BString::from(lead);
    for write in &plan.writes {
        placed.truncate(lead.len());
        placed.extend_from_slice(plan.index.path_at(write.entry));
        // A step for a submodule only creates its directory if it is missing.
        if plan.index.entry(write.entry).mode.is_gitlink() {
            guard.check(placed.as_bstr())?;
        } else {
            guard.check_tree(placed.as_bstr())?;
        }
    }
    Ok(())
}
