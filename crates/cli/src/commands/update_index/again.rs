//! `--again` and `--unresolve`: update paths that the command determines itself.

use bstr::{BString, ByteSlice as _};
use engine::{
    add,
    pathspec::{Pathspecs, Seen},
};
use sapwood::ObjectId;

use super::update::Update;
use crate::{
    commands::paths,
    session::sparse_index,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

impl Update<'_> {
    /// Updates the merged entries that differ from HEAD; all entries before the first commit.
    pub(super) fn again(&mut self, specs: &[BString]) -> Result<(), Failure> {
        self.needs_worktree()?;
        let specs = paths::parse_or_here(self.run, self.repo, specs)?;
        let tree = match self.repo.head()?.oid() {
            Some(commit) => Some(self.repo.tree_of(commit)?),
            None => None,
        };
        // Like Git, forgets errors of an earlier refresh.
        self.has_errors = false;
        // Like Git, starts again after an entry was removed or has replaced others. Messages may be
        // printed twice.
        while !self.once_again(&specs, tree)? {}
        Ok(())
    }

    /// Makes one pass. Returns false, and stops, when the number of entries changes.
    fn once_again(&mut self, specs: &Pathspecs, tree: Option<ObjectId>) -> Result<bool, Failure> {
        let index = self.staging.index();
        let differing = if index.sparse {
            let mut full = index.clone();
            sparse_index::expand(self.repo, &mut full)?;
            add::differing(self.repo, &full, tree)?
        } else {
            add::differing(self.repo, index, tree)?
        };
        for (path, mode) in differing {
            self.run.interrupt.check()?;
            let path = path.as_bstr();
            if !specs.is_empty() && !specs.matches_entry(path, mode, &mut Seen::default()) {
                continue;
            }
            // Git expands the index at a collapsed directory that differs from HEAD.
            self.looks_for(path)?;
            let before = self.staging.index().entries().len();
            self.update(path, None)?;
            if self.staging.index().entries().len() != before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Restores the stages of paths that were resolved.
    pub(super) fn unresolve(&mut self, paths: &[BString]) -> Result<(), Failure> {
        self.has_errors = false;
        for path in paths {
            let path = self.below_top(path.as_bstr())?;
            self.looks_for(path.as_bstr())?;
            if self.staging.unresolve(path.as_bstr()).is_err() {
                console::error(text!("cannot unmerge '", path, "'"));
                self.has_errors = true;
            }
        }
        if self.has_errors {
            self.staging.set_changed(false);
        }
        Ok(())
    }
}
