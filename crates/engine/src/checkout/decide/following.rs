//! What Git asks submodules that go along, each at its place in the rows' order.

use bstr::{BStr, ByteSlice as _};
use format::{Mode, ObjectId};
use sys::FileType;

use super::{Border, Decider, Held, Look};
use crate::{
    checkout::{Force, Premise, RefusalKind, follow::Start},
    look::{
        LookError,
        facts::{Fact, Seen},
        trees::{Kind, Row},
    },
};

impl Decider<'_> {
    /// Whether an entry of this mode is a submodule that goes along.
    pub(super) fn follows(&mut self, path: &BStr, mode: Mode) -> Result<bool, LookError> {
        Ok(mode.is_gitlink() && self.ask.follows(path)?)
    }

    /// `false`: the submodule cannot be moved, and so the path is refused.
    pub(super) fn may_move(
        &mut self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
    ) -> Result<bool, LookError> {
        let may = self.ask.may_move(path, from, to, self.policy.force)?;
        if !may {
            self.refuse(RefusalKind::WouldLoseSubmodule, path);
        }
        Ok(may)
    }

    /// The end of Git's `merged_entry`: the submodule at `path` can become `oid`.
    pub(super) fn may_become(
        &mut self,
        path: &BStr,
        mode: Mode,
        oid: ObjectId,
        from: Start,
    ) -> Result<bool, LookError> {
        Ok(!self.follows(path, mode)? || self.may_move(path, from, Some(oid))?)
    }

    /// A one-way merge whose entry stays checks out the submodule all the same. What is in the way is told; it is no
    /// refusal.
    pub(super) fn keep_submodule(&mut self, row: &Row, at: usize, fact: &Fact) -> Result<(), LookError> {
        let index = self.index;
        let (entry, path) = (&index.entries()[at], row.path.as_bstr());
        let border = self.policy.border(at, entry.flags);
        if border == Border::Outside {
            return Ok(());
        }
        let fact = if fact.seen == Seen::Unknown { self.ask.look(at)? } else { *fact };
        let before = self.decided.refusals.len();
        match self.uptodate(path, border, Held::of(entry), &fact)? {
            Look::Refused => {
                let refused = self.decided.refusals.split_off(before);
                self.decided.told.extend(refused);
            }
            Look::Fine(_) => {
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

    /// Whether [`Self::keep_submodule`] is asked for.
    pub(super) fn restores_submodules(&mut self) -> bool {
        self.policy.kind == Kind::OneWay && self.policy.updates() && self.policy.follows
    }
}
