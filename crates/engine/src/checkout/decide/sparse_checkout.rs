//! The entries that enter or leave a sparse worktree without a row of their own.

use bstr::{BStr, ByteSlice};
use format::index::{Flags, Stage};

use super::{Check, Decider, IndexedEntry, SparseState, Strict};
use crate::{
    checkout::{Force, Refusal, RefusalKind, Removal, SparseLeftover, SparseLeftoverKind},
    look::{LookError, trees::Kind},
};

impl Decider<'_> {
    pub(super) fn add_leftover(&mut self, kind: SparseLeftoverKind, path: &BStr) {
        self.decided.sparse_leftovers.push(SparseLeftover { kind, path: path.to_owned() });
    }

    /// Git's `apply_sparse_checkout`, for the entries that no row has changed: files that are
    /// outside now are removed, the others are written. A file in an unexpected state stays, with a
    /// warning.
    pub(super) fn apply_sparse_checkout(&mut self) -> Result<(), LookError> {
        if self.policy.sparse.is_none() {
            return Ok(());
        }
        let index = self.index;
        self.decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
        let mut edits = self.decided.edits.iter().map(|edit| edit.path.as_bstr()).peekable();
        let (mut leaving, mut entering) = (Vec::new(), Vec::new());
        for (at, entry) in index.iter().enumerate() {
            let path = index.path_at(at);
            while edits.next_if(|edited| *edited < path).is_some() {}
            if entry.stage != Stage::Normal || edits.peek() == Some(&path) {
                continue;
            }
            match self.policy.sparse_state(at, entry.flags) {
                SparseState::Leaving => leaving.push(at),
                SparseState::Entering => entering.push(at),
                SparseState::Inside | SparseState::Outside => {}
            }
        }
        let overwrites = self.policy.kind == Kind::OneWay && self.policy.force != Force::No;
        let [left, entered] = self.queries.sparse_facts(&leaving, &entering)?;
        for (at, fact) in leaving.into_iter().zip(left) {
            let indexed = IndexedEntry::of(&index.entry(at));
            let mode = indexed.mode;
            // Git marks the entry before this check, so its file is checked even if it is trusted.
            // A file that a reset would write is not checked.
            let flags = if overwrites { Flags::empty() } else { Flags::SKIP_WORKTREE };
            self.keep_on_refusal(index.path_at(at), SparseLeftoverKind::NotUptodate, |decider, path| {
                let check = decider.verify_uptodate(
                    path,
                    SparseState::Leaving,
                    IndexedEntry { flags, ..indexed },
                    &fact,
                )?;
                if let Check::Allowed(premise) = &check {
                    let (path, premise, gitlink) = (path.to_owned(), premise.clone(), mode.is_gitlink());
                    decider.decided.removals.push(Removal { path, premise, gitlink });
                    decider.decided.sparse_marks.push((at, true));
                }
                Ok(check)
            })?;
        }
        // A forced merge does not write the files that are outside now.
        let left = &self.decided.sparse_marks;
        self.decided.writes.retain(|(path, _)| {
            let at = index.position(path.as_bstr(), Stage::Normal);
            !at.is_ok_and(|at| left.binary_search(&(at, true)).is_ok())
        });
        for (at, fact) in entering.into_iter().zip(entered) {
            let (mode, oid) = (index.entry(at).mode, index.entry(at).oid);
            self.decided.sparse_marks.push((at, false));
            self.keep_on_refusal(index.path_at(at), SparseLeftoverKind::Present, |decider, path| {
                let kind = RefusalKind::UntrackedOverwritten;
                let check = decider.verify_absent(path, mode, oid, &fact, kind, Strict::Yes)?;
                if let Check::Allowed(premise) = &check {
                    decider.decided.writes.push((path.to_owned(), premise.clone()));
                }
                Ok(check)
            })?;
        }
        self.decided.sparse_leftovers.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Runs a check, and turns its refusals into warnings.
    pub(super) fn keep_on_refusal(
        &mut self,
        path: &BStr,
        kind: SparseLeftoverKind,
        check: impl FnOnce(&mut Self, &BStr) -> Result<Check, LookError>,
    ) -> Result<(), LookError> {
        let before = self.decided.refusals.len();
        if let Check::Refused = check(self, path)? {
            let expected = match kind {
                SparseLeftoverKind::NotUptodate => RefusalKind::NotUptodateFile,
                _ => RefusalKind::UntrackedOverwritten,
            };
            self.turn_into_leftovers(before, expected, kind);
        }
        Ok(())
    }

    /// Turns the refusals from number `from` on into warnings. A refusal of the `expected` kind
    /// becomes `kind`.
    pub(super) fn turn_into_leftovers(
        &mut self,
        from: usize,
        expected: RefusalKind,
        kind: SparseLeftoverKind,
    ) {
        for Refusal { kind: why, path } in self.decided.refusals.split_off(from) {
            let kind = if why == expected { kind } else { SparseLeftoverKind::Refused(why) };
            self.decided.sparse_leftovers.push(SparseLeftover { kind, path });
        }
    }
}
