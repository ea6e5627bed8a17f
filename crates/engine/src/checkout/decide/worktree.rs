//! The looks at the worktree that go before a case: Git's `verify_uptodate`, `verify_absent` and `verify_clean_subdirectory`.

use std::ops::Range;

use bstr::{BStr, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{Flags, Stage},
};
use sys::FileType;

use super::{Border, Decider, Held, Look, Strict};
use crate::{
    checkout::{Force, Premise, RefusalKind, Removal, follow::Start, plan::Files},
    look::{
        LookError,
        facts::{Fact, Seen},
    },
};

impl Decider<'_> {
    /// Git's `verify_uptodate`: the file may be overwritten, being the index entry's, or missing.
    pub(super) fn uptodate(
        &mut self,
        path: &BStr,
        border: Border,
        Held { flags, mode, oid }: Held,
        fact: &Fact,
    ) -> Result<Look, LookError> {
        let doubted = flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
        if border == Border::Outside {
            return Ok(Look::Fine(Premise::Absent));
        }
        if self.policy.files == Files::Ignore {
            return Ok(Look::Fine(Premise::Anything));
        }
        if !doubted && self.policy.force != Force::No {
            return Ok(Look::Fine(Premise::Anything));
        }
        Ok(match fact.seen {
            Seen::Absent => Look::Fine(Premise::Absent),
            Seen::There(_) if self.follows(path, mode)? => {
                match self.may_move(path, Start::Head, Some(oid))? {
                    true => Look::Fine(Premise::Anything),
                    false => {
                        self.refuse(RefusalKind::NotUptodateFile, path);
                        Look::Refused
                    }
                }
            }
            // Git does not care what became of a submodule: it goes, with all that is in it.
            Seen::There(_) if mode.is_gitlink() => Look::Fine(Premise::Anything),
            Seen::There(stat) if fact.clean => Look::Fine(Premise::Unchanged(Box::new(stat))),
            // For Git, whose lstat follows it, the file is missing; the link is what may go.
            Seen::Blocked(_, stat) if stat.file_type == FileType::Symlink && self.ask.leads_nowhere(path) => {
                Look::Fine(Premise::Anything)
            }
            _ => {
                self.refuse(RefusalKind::NotUptodateFile, path);
                Look::Refused
            }
        })
    }

    /// Git's `verify_absent`: nothing untracked is at `path`, where an entry of `mode` is to be made or
    /// removed.
    pub(super) fn absent(
        &mut self,
        path: &BStr,
        (mode, oid): (Mode, ObjectId),
        fact: &Fact,
        kind: RefusalKind,
        strict: Strict,
    ) -> Result<Look, LookError> {
        if !self.policy.updates() {
            return Ok(Look::Fine(Premise::Absent));
        }
        if self.policy.force == Force::Remnants {
            return Ok(Look::Fine(Premise::Remnant));
        }
        if self.policy.force == Force::OverwriteUntracked {
            if self.policy.cwd == Some(path) {
                self.refuse(RefusalKind::CwdInTheWay, path);
                return Ok(Look::Refused);
            }
            return Ok(Look::Fine(Premise::Anything));
        }
        // Beside what Git asks here: it leaves what is not the submodule's to fate.
        if matches!(fact.seen, Seen::There(_))
            && self.follows(path, mode)?
            && !self.may_move(path, Start::Commit(oid), None)?
        {
            return Ok(Look::Refused);
        }
        let (at, stat, is_dir, whole) = match fact.seen {
            Seen::Absent | Seen::Unknown => return Ok(Look::Fine(Premise::Absent)),
            Seen::Blocked(len, stat) => {
                (path[..len].as_bstr(), stat, stat.file_type == FileType::Directory, false)
            }
            Seen::There(stat) => (path, stat, mode.is_gitlink(), true),
        };
        if self.ask.other_case(at, &stat)? {
            return Ok(Look::Fine(Premise::Anything));
        }
        if self.policy.overwrite_ignored && self.ask.ignored(at, is_dir)? {
            if !whole && kind == RefusalKind::UntrackedOverwritten {
                self.remove_blocker(at, &stat);
            }
            return Ok(Look::Fine(Premise::Anything));
        }
        if stat.file_type == FileType::Directory {
            return self.clean_subdirectory(path, mode);
        }
        if strict == Strict::No {
            return Ok(Look::Fine(Premise::Anything));
        }
        match self.removed.get(at) {
            Some(false) => return Ok(Look::Fine(Premise::Absent)),
            // Removing a submodule is removing an empty directory: a file in its place is still there.
            Some(true) => return Ok(Look::Fine(Premise::Anything)),
            None => {}
        }
        self.refuse(kind, at);
        Ok(Look::Refused)
    }

    /// An ignored file where a directory has to be made.
    fn remove_blocker(&mut self, path: &BStr, stat: &sys::Stat) {
        if self.removed.insert(path.to_owned(), false).is_none() {
            let premise = Premise::Unchanged(Box::new(*stat));
            self.decided.removals.push(Removal { path: path.to_owned(), premise, gitlink: false });
        }
    }

    /// Git's `verify_clean_subdirectory`: the directory at `path`, to be replaced, holds nothing but clean
    /// tracked files (they go) and ignored ones.
    pub(super) fn clean_subdirectory(&mut self, path: &BStr, mode: Mode) -> Result<Look, LookError> {
        if mode.is_gitlink() {
            return Ok(Look::Fine(Premise::Directory));
        }
        for at in self.adjacent_below(path) {
            let entry = &self.index.entries()[at];
            if entry.stage != Stage::Normal || self.gone.contains(&at) {
                continue;
            }
            let below = self.index.path(entry);
            let fact = self.ask.look(at)?;
            let border = self.policy.border(at, entry.flags);
            let Look::Fine(premise) = self.uptodate(below, border, Held::of(entry), &fact)? else {
                return Ok(Look::Refused);
            };
            self.tell_of_removal(below, border, entry.mode, &fact);
            self.drop_path(below, entry.mode, premise, border);
            self.gone.insert(at);
        }
        if self.ask.untracked_below(path, !self.policy.overwrite_ignored)? {
            self.refuse(RefusalKind::NotUptodateDir, path);
            return Ok(Look::Refused);
        }
        if self.policy.cwd == Some(path) {
            self.refuse(RefusalKind::CwdInTheWay, path);
            return Ok(Look::Refused);
        }
        Ok(Look::Fine(Premise::Anything))
    }

    /// The index entries below `path`, if they come right where `path` itself would: Git does not look
    /// past a `path-x` or `path.c`. What is missed here is still decided as a row of its own.
    fn adjacent_below(&self, path: &BStr) -> Range<usize> {
        let entries = self.index.entries();
        let at = entries.partition_point(|entry| self.index.path(entry) < path);
        let below = self.index.range_below(path);
        if below.start == at { below } else { at..at }
    }
}
