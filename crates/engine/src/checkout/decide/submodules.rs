//! The checks of submodules that move with their superproject, in Git's order.

use bstr::{BStr, ByteSlice as _};
use format::{Mode, ObjectId};
use sys::FileType;

use super::{Check, Decider, IndexedEntry, SparseState};
use crate::{
    checkout::{Force, Premise, RefusalKind, follow::Start},
    look::{
        LookError,
        facts::{Fact, Seen},
        trees::{Kind, Row},
    },
};

impl Decider<'_> {
    /// Returns true if an entry of this mode is a submodule that moves with its superproject.
    pub(super) fn follows(&mut self, path: &BStr, mode: Mode) -> Result<bool, LookError> {
        Ok(mode.is_gitlink() && self.queries.follows(path)?)
    }

    /// Checks if a submodule can be moved. Otherwise refuses its path and returns false.
    pub(super) fn can_move(
        &mut self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
    ) -> Result<bool, LookError> {
        let may = self.queries.can_move(path, from, to, self.policy.force)?;
        if !may {
            self.refuse(RefusalKind::WouldLoseSubmodule, path);
        }
        Ok(may)
    }

    /// The end of Git's `merged_entry`: checks if the submodule at `path` can become `oid`.
    pub(super) fn can_become(
        &mut self,
        path: &BStr,
        mode: Mode,
        oid: ObjectId,
        from: Start,
    ) -> Result<bool, LookError> {
        Ok(!self.follows(path, mode)? || self.can_move(path, from, Some(oid))?)
    }

    /// Checks out the submodule of an entry that a one-way merge keeps. An obstacle causes a
    /// message, not a refusal.
    pub(super) fn keep_submodule(&mut self, row: &Row, at: usize, fact: &Fact) -> Result<(), LookError> {
        let index = self.index;
        let (entry, path) = (&index.entry(at), row.path.as_bstr());
        let sparse_state = self.policy.sparse_state(at, entry.flags);
        if sparse_state == SparseState::Outside {
            return Ok(());
        }
        let fact = if fact.seen == Seen::Unknown { self.queries.examine(at)? } else { *fact };
        let before = self.decided.refusals.len();
        match self.verify_uptodate(path, sparse_state, IndexedEntry::of(entry), &fact)? {
            Check::Refused => {
                let refused = self.decided.refusals.split_off(before);
                self.decided.notices.extend(refused);
            }
            Check::Allowed(_) => {
                let premise = match fact.seen {
                    Seen::There(stat) if stat.file_type == FileType::Directory => Premise::Directory,
                    Seen::Absent => Premise::Absent,
                    _ if self.policy.force == Force::No => return Ok(()),
                    _ => Premise::Anything,
                };
                self.decided.writes.push((row.path.clone(), premise));
            }
        }
        Ok(())
    }

    /// Returns true if [`Self::keep_submodule`] applies to this operation.
    pub(super) fn restores_submodules(&mut self) -> bool {
        self.policy.kind == Kind::OneWay && self.policy.updates() && self.policy.recurse_submodules
    }
}
