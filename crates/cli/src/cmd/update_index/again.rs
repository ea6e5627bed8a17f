//! `--again` and `--unresolve`: paths that are found, not named.

use bstr::{BString, ByteSlice as _};
use engine::{add, pathspec::Seen};
use format::index::{Flags, Stage};

use super::Update;
use crate::{cmd::paths, console, console::text, failure::Failure, sparse_index};

impl Update<'_> {
    /// Updates the merged entries that are not as in HEAD; all of them before the first commit.
    pub(super) fn again(&mut self, specs: &[BString]) -> Result<(), Failure> {
        self.needs_worktree()?;
        let specs = paths::parse_or_here(self.run, self.repo, specs)?;
        let tree = match self.repo.head()?.oid() {
            Some(commit) => Some(self.repo.tree_of(commit)?),
            None => None,
        };
        let index = self.staging.index();
        let differing = add::differing(self.repo, index, tree)?;
        let skipped = differing.iter().any(|(path, _)| {
            let inside = sparse_index::is_collapsed(self.work.before.as_ref(), path.as_bstr());
            let at = index.position(path.as_bstr(), Stage::Normal);
            inside && at.is_ok_and(|at| index.entries()[at].flags.contains(Flags::SKIP_WORKTREE))
        });
        if let Some((path, _)) = differing.first().filter(|_| skipped) {
            // Git makes it full at the first directory that is not as in HEAD.
            self.looks_for(path.as_bstr())?;
        }
        for (path, mode) in differing {
            self.run.interrupt.check()?;
            let is_meant =
                specs.is_empty() || specs.matches_entry(path.as_bstr(), mode, &mut Seen::default());
            // One that was updated may have taken the place of others.
            if is_meant && self.staging.merged(path.as_bstr()).is_some() {
                self.update(path.as_bstr())?;
            }
        }
        Ok(())
    }

    /// Brings back the stages of paths that were resolved.
    pub(super) fn unresolve(&mut self, paths: &[BString]) -> Result<(), Failure> {
        self.has_errors = false;
        for path in paths {
            let path = self.from_top(path.as_bstr())?;
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
