//! `--refresh`: updates stat data only.

use engine::{
    checkout::{self, ChangeKind, ChangedEntry},
    pathspec::{Matched, Seen},
};
use format::index::{Flags, Stage};

use super::{
    check::{OutsideMatches, is_outside},
    run::Adding,
};
use crate::{
    session::{advice, apply::Transaction, monitor::WriteIndex},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

impl Adding<'_> {
    /// Compares the selected files with their entries. Returns the exit code.
    pub(super) fn refresh(
        mut self,
        transaction: &mut Transaction<'_>,
        worth: WriteIndex,
    ) -> Result<u8, Failure> {
        let index = &mut transaction.index;
        let repo = self.session.repository;
        let found = checkout::refresh_selected(repo, self.worktree, index, &self.pathspecs)?;
        let changed = found.has_news || transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
        let mut is_first = true;
        for ChangedEntry { kind, path } in found.changes {
            if self.plan.options.verbose {
                if std::mem::take(&mut is_first) {
                    console::out("Unstaged changes after refreshing the index:");
                }
                console::out(text!([kind.letter()], "\t", path));
            } else if kind == ChangeKind::Unmerged {
                console::out(text!(path, ": needs merge"));
            }
        }
        self.unmatched_of_refresh(transaction)?;
        let code = self.code;
        self.write(transaction, changed, None)?;
        Ok(code)
    }

    fn unmatched_of_refresh(&mut self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        let index = &transaction.index;
        let mut seen = Seen::default();
        for entry in index.entries_in(self.pathspecs.bounds(index)) {
            if !entry.flags.contains(Flags::SKIP_WORKTREE) {
                self.pathspecs.matches_in_turn(index.path(&entry), entry.mode, &mut seen);
            }
        }
        let mut outside = OutsideMatches {
            index: transaction.state.before.as_ref().unwrap_or(index),
            pathspecs: &self.pathspecs,
            patterns: self.patterns.as_deref(),
            seen: None,
        };
        let mut outside_specs = Vec::new();
        for one in self.pathspecs.uses(&seen).filter(|one| one.matched == Matched::Nothing) {
            if !outside.has(one.number) && advice::is_inside(self.patterns.as_deref(), one.original) {
                let message = text!("pathspec '", one.original, "' did not match any files");
                return Err(Failure::Fatal(message));
            }
            outside_specs.push(one.original);
        }
        if !outside_specs.is_empty() {
            advice::about_outside(self.session, &outside_specs)?;
            self.code = 1;
        }
        Ok(())
    }

    /// Returns the selected tracked files and symlinks, for `--renormalize`.
    pub(super) fn tracked_files(&self, transaction: &Transaction<'_>) -> Vec<bstr::BString> {
        let index = &transaction.index;
        let is_meant = |entry: &format::index::Entry| {
            (self.request.sparse || !is_outside(index, entry, self.patterns.as_deref()))
                && entry.stage == Stage::Normal
                && (entry.mode.is_file() || entry.mode.is_symlink())
                && (self.pathspecs.is_empty()
                    || self.pathspecs.matches_entry(index.path(entry), entry.mode, &mut Seen::default()))
        };
        let entries = index.entries_in(self.pathspecs.bounds(index)).filter(|entry| is_meant(entry));
        entries.map(|entry| index.path(&entry).to_owned()).collect()
    }
}
