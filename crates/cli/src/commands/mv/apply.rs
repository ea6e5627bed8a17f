//! Executing the moves.

use std::io;

use bstr::{BStr, ByteSlice as _};
use engine::{
    add::{self, Allow, FileHasher, Staging},
    guard::Guard,
    stat::{Match, StatRules, index_stat},
};
use format::index::{Flags, Index, NewEntry};
use sys::Dir;

use super::{
    Request,
    plan::{Kind, Move},
};
use crate::{
    session::{
        Session,
        apply::{Recorded, Transaction},
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Moves files and entries, and writes the index. Returns the exit code.
pub(super) fn moves(
    session: Session<'_>,
    request: &Request,
    worktree: &Dir,
    transaction: &mut Transaction<'_>,
    moves: Vec<Move>,
) -> Result<u8, Failure> {
    let repo = session.repository;
    let guard = Guard::of(repo, repo.work_tree().expect("it was opened"))?;
    let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
    let mut mover = Mover {
        worktree,
        hasher: FileHasher::new(repo, worktree, session.settings.big_file_threshold),
        rules: StatRules::of(repo)?,
        staging: Staging::new(index, add::protect(repo)?),
    };
    // Directories that were not moved, whose entries stay too.
    let mut left: Vec<Move> = Vec::new();
    for one in moves {
        let is_within = |left: &Move| {
            one.from.strip_prefix(left.from.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        if one.kind == Kind::Within && left.iter().any(is_within) {
            continue;
        }
        if request.dry_run || request.verbose {
            console::out(text!("Renaming ", one.from, " to ", one.to));
        }
        if request.dry_run {
            continue;
        }
        if one.kind != Kind::Within {
            session.invocation.interrupt.check()?;
            guard.check_tree(one.from.as_bstr())?;
            guard.check(one.to.trim_end_with(|letter| letter == '/').as_bstr())?;
            if let Err(error) = mover.rename(&one) {
                if request.skip_errors {
                    left.push(one);
                    continue;
                }
                let reason = sys::reason(&error);
                return Err(Failure::Fatal(text!("renaming '", one.from, "' failed: ", reason)));
            }
        }
        if one.kind != Kind::Directory {
            mover.entry(&one)?;
        }
    }
    let changed = mover.staging.is_changed() || transaction.state.differs_on_disk;
    transaction.index = mover.staging.into_index();
    transaction.finish(if changed { Recorded::Yes } else { Recorded::No })?;
    Ok(0)
}

struct Mover<'a> {
    worktree: &'a Dir,
    hasher: FileHasher<'a>,
    rules: StatRules,
    staging: Staging,
}

impl Mover<'_> {
    fn rename(&self, one: &Move) -> io::Result<()> {
        let to = one.to.trim_end_with(|letter| letter == '/').as_bstr();
        match one.replaces {
            true => self.worktree.rename(&one.from, to),
            false => self.worktree.rename_new(&one.from, to),
        }
    }

    /// Sets the entry's new path, and the file's new stat data: a rename changes the ctime.
    fn entry(&mut self, one: &Move) -> Result<(), Failure> {
        let (from, to) = (one.from.as_bstr(), one.to.as_bstr());
        let Some(mut entry) = self.staging.merged(from) else { return Ok(()) };
        self.renew(&mut entry, from, to);
        self.staging.remove(from);
        let allow = Allow { new: true, replacing: true };
        if self.staging.add(to, entry, allow).is_err() {
            console::error(text!("invalid path '", to, "'"));
            return Err(Failure::fatal(text!("renaming '", from, "' failed")));
        }
        Ok(())
    }

    fn renew(&mut self, entry: &mut NewEntry, from: &BStr, to: &BStr) {
        if entry.flags.intersects(Flags::ASSUME_VALID | Flags::INTENT_TO_ADD) {
            return;
        }
        let Ok(Some(stat)) = self.worktree.stat(to) else { return };
        let written = self.staging.base().timestamp;
        let (rules, hasher, base) = (self.rules, &mut self.hasher, self.staging.base());
        let is_same = self.staging.with_merged(from, |old| match rules.compare(old, &stat, written) {
            Match::Same => true,
            Match::Racy | Match::Touched => hasher.matches_entry(old, to, &stat, base),
            Match::Different => false,
        });
        if is_same == Some(true) {
            entry.stat = index_stat(&stat);
        }
    }
}
