//! The checks of the worktree before a case is applied: Git's `verify_uptodate`, `verify_absent`
//! and `verify_clean_subdirectory`.

use std::ops::Range;

use bstr::{BStr, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{Flags, Stage},
};
use sys::FileType;

use super::{Check, Decider, IndexedEntry, SparseState, Strict};
use crate::{
    checkout::{Force, Premise, RefusalKind, Removal, follow::Start, plan::Files},
    look::{
        LookError,
        facts::{Fact, Seen},
    },
};

impl Decider<'_> {
    /// Git's `verify_uptodate`: the file may be overwritten, because it is missing or equals the
    /// index entry.
    pub(super) fn verify_uptodate(
        &mut self,
        path: &BStr,
        sparse_state: SparseState,
        IndexedEntry { flags, mode, oid }: IndexedEntry,
        fact: &Fact,
    ) -> Result<Check, LookError> {
        let is_unreliable = flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
        if sparse_state == SparseState::Outside {
            return Ok(Check::Allowed(Premise::Absent));
        }
        if self.policy.files == Files::Ignore {
            return Ok(Check::Allowed(Premise::Anything));
        }
        if !is_unreliable && self.policy.force != Force::No {
            return Ok(Check::Allowed(Premise::Anything));
        }
        Ok(match fact.seen {
            Seen::Absent => Check::Allowed(Premise::Absent),
            Seen::There(_) if self.follows(path, mode)? => {
                match self.can_move(path, Start::Head, Some(oid))? {
                    true => Check::Allowed(Premise::Anything),
                    false => {
                        self.refuse(RefusalKind::NotUptodateFile, path);
                        Check::Refused
                    }
                }
            }
            // Git does not check a submodule's directory: it is removed with everything in it.
            Seen::There(_) if mode.is_gitlink() => Check::Allowed(Premise::Anything),
            Seen::There(stat) if fact.clean => Check::Allowed(Premise::Unchanged(Box::new(stat))),
            // Git's lstat follows the link, so the file is missing to Git. The link itself may be
            // removed.
            Seen::Blocked(_, stat)
                if stat.file_type == FileType::Symlink && self.queries.is_dangling(path) =>
            {
                Check::Allowed(Premise::Anything)
            }
            _ => {
                self.refuse(RefusalKind::NotUptodateFile, path);
                Check::Refused
            }
        })
    }

    /// Git's `verify_absent`: no untracked file is at `path`, where an entry of `mode` is to be
    /// written or removed.
    pub(super) fn verify_absent(
        &mut self,
        path: &BStr,
        mode: Mode,
        oid: ObjectId,
        fact: &Fact,
        kind: RefusalKind,
        strict: Strict,
    ) -> Result<Check, LookError> {
        if !self.policy.updates() {
            return Ok(Check::Allowed(Premise::Absent));
        }
        if self.policy.force == Force::Remnants {
            return Ok(Check::Allowed(Premise::Remnant));
        }
        if self.policy.force == Force::OverwriteUntracked {
            if self.policy.cwd == Some(path) {
                self.refuse(RefusalKind::CwdInTheWay, path);
                return Ok(Check::Refused);
            }
            return Ok(Check::Allowed(Premise::Anything));
        }
        // Git also checks the submodule here. Files that do not belong to the submodule are not
        // protected.
        if matches!(fact.seen, Seen::There(_))
            && self.follows(path, mode)?
            && !self.can_move(path, Start::Commit(oid), None)?
        {
            return Ok(Check::Refused);
        }
        let (at, stat, is_dir, whole) = match fact.seen {
            Seen::Absent | Seen::Unknown => return Ok(Check::Allowed(Premise::Absent)),
            Seen::Blocked(len, stat) => {
                (path[..len].as_bstr(), stat, stat.file_type == FileType::Directory, false)
            }
            Seen::There(stat) => (path, stat, mode.is_gitlink(), true),
        };
        if self.queries.is_other_case(at, &stat)? {
            return Ok(Check::Allowed(Premise::Anything));
        }
        if self.policy.overwrite_ignored && self.queries.is_ignored(at, is_dir)? {
            if !whole && kind == RefusalKind::UntrackedOverwritten {
                self.remove_blocker(at, &stat);
            }
            return Ok(Check::Allowed(Premise::Anything));
        }
        if stat.file_type == FileType::Directory {
            return self.verify_clean_subdirectory(path, mode);
        }
        if strict == Strict::No {
            return Ok(Check::Allowed(Premise::Anything));
        }
        match self.removed.get(at) {
            Some(false) => return Ok(Check::Allowed(Premise::Absent)),
            // Removing a submodule removes only an empty directory, so a file at its path is still
            // there.
            Some(true) => return Ok(Check::Allowed(Premise::Anything)),
            None => {}
        }
        self.refuse(kind, at);
        Ok(Check::Refused)
    }

    /// Removes an ignored file at the path of a new directory.
    fn remove_blocker(&mut self, path: &BStr, stat: &sys::Stat) {
        if self.removed.insert(path.to_owned(), false).is_none() {
            let premise = Premise::Unchanged(Box::new(*stat));
            self.decided.removals.push(Removal { path: path.to_owned(), premise, gitlink: false });
        }
    }

    /// Git's `verify_clean_subdirectory`: the directory at `path`, which is to be replaced,
    /// contains only clean tracked files, which are removed, and ignored files.
    pub(super) fn verify_clean_subdirectory(&mut self, path: &BStr, mode: Mode) -> Result<Check, LookError> {
        if mode.is_gitlink() {
            return Ok(Check::Allowed(Premise::Directory));
        }
        for at in self.adjacent_below(path) {
            let entry = &self.index.entry(at);
            if entry.stage != Stage::Normal || self.removed_entries.contains(&at) {
                continue;
            }
            let below = self.index.path(entry);
            let fact = self.queries.examine(at)?;
            let sparse_state = self.policy.sparse_state(at, entry.flags);
            let Check::Allowed(premise) =
                self.verify_uptodate(below, sparse_state, IndexedEntry::of(entry), &fact)?
            else {
                return Ok(Check::Refused);
            };
            self.warn_of_removal(below, sparse_state, entry.mode, &fact);
            self.record_removal(below, entry.mode, premise, sparse_state);
            self.removed_entries.insert(at);
        }
        if self.queries.untracked_below(path, !self.policy.overwrite_ignored)? {
            self.refuse(RefusalKind::NotUptodateDir, path);
            return Ok(Check::Refused);
        }
        if self.policy.cwd == Some(path) {
            self.refuse(RefusalKind::CwdInTheWay, path);
            return Ok(Check::Refused);
        }
        Ok(Check::Allowed(Premise::Anything))
    }

    /// Returns the index entries below `path` if they directly follow the position of `path`
    /// itself. Like Git, it does not search beyond a `path-x` or `path.c`. Entries missed here are
    /// decided as rows of their own.
    fn adjacent_below(&self, path: &BStr) -> Range<usize> {
        let at = self.index.first_in(0..self.index.len(), path);
        let below = self.index.range_below(path);
        if below.start == at { below } else { at..at }
    }
}
