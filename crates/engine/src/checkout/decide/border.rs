//! What passes the border of a sparse worktree without a row of its own.

use bstr::{BStr, ByteSlice};
use format::index::{Flags, Stage};

use super::{Border, Decider, Held, Look, Strict};
use crate::{
    checkout::{Force, Left, LeftKind, Refusal, RefusalKind, Removal},
    look::{LookError, trees::Kind},
};

impl Decider<'_> {
    pub(super) fn leave(&mut self, kind: LeftKind, path: &BStr) {
        self.decided.left.push(Left { kind, path: path.to_owned() });
    }

    /// Git's `apply_sparse_checkout`, for the entries no row has changed: files of those that are outside now go, those
    /// of the others come. What is not as it should be is left, with a warning.
    pub(super) fn cross_the_border(&mut self) -> Result<(), LookError> {
        if self.policy.sparse.is_none() {
            return Ok(());
        }
        let index = self.index;
        self.decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
        let mut edits = self.decided.edits.iter().map(|edit| edit.path.as_bstr()).peekable();
        let (mut leaving, mut entering) = (Vec::new(), Vec::new());
        for (at, entry) in index.entries().iter().enumerate() {
            let path = index.path(entry);
            while edits.next_if(|edited| *edited < path).is_some() {}
            if entry.stage != Stage::Normal || edits.peek() == Some(&path) {
                continue;
            }
            match self.policy.border(at, entry.flags) {
                Border::Leaving => leaving.push(at),
                Border::Entering => entering.push(at),
                Border::Inside | Border::Outside => {}
            }
        }
        let overwrites = self.policy.kind == Kind::OneWay && self.policy.force != Force::No;
        let [left, entered] = self.ask.crossing(&leaving, &entering)?;
        for (at, fact) in leaving.into_iter().zip(left) {
            let held = Held::of(&index.entries()[at]);
            let mode = held.mode;
            // Being marked by now it is looked at, however much it is trusted; what a reset would write is not.
            let flags = if overwrites { Flags::empty() } else { Flags::SKIP_WORKTREE };
            self.verdict(index.path_at(at), LeftKind::NotUptodate, |decider, path| {
                let look = decider.uptodate(path, Border::Leaving, Held { flags, ..held }, &fact)?;
                if let Look::Fine(premise) = &look {
                    let (path, premise, gitlink) = (path.to_owned(), premise.clone(), mode.is_gitlink());
                    decider.decided.removals.push(Removal { path, premise, gitlink });
                    decider.decided.skip.push((at, true));
                }
                Ok(look)
            })?;
        }
        // What a forced merge would write is outside now.
        let left = &self.decided.skip;
        self.decided.writes.retain(|(path, _)| {
            let at = index.position(path.as_bstr(), Stage::Normal);
            !at.is_ok_and(|at| left.binary_search(&(at, true)).is_ok())
        });
        for (at, fact) in entering.into_iter().zip(entered) {
            let entry = (index.entries()[at].mode, index.entries()[at].oid);
            self.decided.skip.push((at, false));
            self.verdict(index.path_at(at), LeftKind::Present, |decider, path| {
                let kind = RefusalKind::UntrackedOverwritten;
                let look = decider.absent(path, entry, &fact, kind, Strict::Yes)?;
                if let Look::Fine(premise) = &look {
                    decider.decided.writes.push((path.to_owned(), premise.clone()));
                }
                Ok(look)
            })?;
        }
        self.decided.left.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Makes a warning of a refusal.
    pub(super) fn verdict(
        &mut self,
        path: &BStr,
        kind: LeftKind,
        look: impl FnOnce(&mut Self, &BStr) -> Result<Look, LookError>,
    ) -> Result<(), LookError> {
        let before = self.decided.refusals.len();
        if let Look::Refused = look(self, path)? {
            let expected = match kind {
                LeftKind::NotUptodate => RefusalKind::NotUptodateFile,
                _ => RefusalKind::UntrackedOverwritten,
            };
            self.leave_refused(before, expected, kind);
        }
        Ok(())
    }

    /// Makes warnings of the refusals from number `from` on: those `expected` are of this kind.
    pub(super) fn leave_refused(&mut self, from: usize, expected: RefusalKind, kind: LeftKind) {
        for Refusal { kind: why, path } in self.decided.refusals.split_off(from) {
            let kind = if why == expected { kind } else { LeftKind::Refused(why) };
            self.decided.left.push(Left { kind, path });
        }
    }
}
