//! A plan that the guard has checked. `execute` accepts no other plan.

use std::path::Path;

use bstr::{BString, ByteSlice as _};
use repo::Repository;

use super::Plan;
use crate::guard::{Error, Guard};

/// A checked plan: none of its steps changes the repository.
#[derive(Clone, Copy, Debug)]
pub struct Cleared<'p> {
    plan: &'p Plan,
    lead: &'p [u8],
}

impl<'p> Cleared<'p> {
    /// Checks a plan for the worktree at `root`. The name of a file is `lead` followed by the path
    /// of its entry.
    pub fn new(repo: &Repository, root: &Path, plan: &'p Plan, lead: &'p [u8]) -> Result<Cleared<'p>, Error> {
        let cleared = Cleared { plan, lead };
        if plan.writes.is_empty() && plan.removals.is_empty() {
            return Ok(cleared);
        }
        let guard = Guard::of(repo, root)?;
        for removal in &plan.removals {
            guard.check(removal.path.as_bstr())?;
        }
        let mut placed = BString::from(lead);
        for write in &plan.writes {
            placed.truncate(lead.len());
            placed.extend_from_slice(plan.index.path_at(write.entry));
            // A step for a submodule only creates its directory if it is missing.
            match plan.index.entries()[write.entry].mode.is_gitlink() {
                true => guard.check(placed.as_bstr())?,
                false => guard.check_tree(placed.as_bstr())?,
            }
        }
        Ok(cleared)
    }

    /// Accepts a plan for a directory that this process has just created and no other process uses.
    pub(crate) fn for_new_directory(plan: &'p Plan) -> Cleared<'p> {
        Cleared { plan, lead: b"" }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    /// Returns the prefix of each file's name.
    pub fn lead(&self) -> &'p [u8] {
        self.lead
    }
}
