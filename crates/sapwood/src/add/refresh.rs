//! `--refresh`: updates stat data only.

use engine::pathspec::{Matched, Seen};
use format::index::{Flags, Stage};

use super::{
    Adding,
    check::{OutsideMatches, is_outside},
};
use crate::{Error, advice, text, transaction::IndexTransaction};

impl Adding<'_> {
    /// Returns an error for a pathspec that matches nothing. Returns true, and reports advice, if
    /// some match only entries outside the sparse checkout.
    pub(super) fn unmatched_of_refresh(&self, transaction: &IndexTransaction<'_>) -> Result<bool, Error> {
        let index = &transaction.index;
        let mut seen = Seen::default();
        for entry in self.request.pathspecs.positions(index).map(|at| index.entry(at)) {
            if !entry.flags.contains(Flags::SKIP_WORKTREE) {
                self.request.pathspecs.matches_in_turn(index.path(&entry), entry.mode, &mut seen);
            }
        }
        let mut outside = OutsideMatches {
            index: transaction.state.before.as_ref().unwrap_or(index),
            pathspecs: &self.request.pathspecs,
            patterns: self.patterns.as_deref(),
            seen: None,
        };
        let mut outside_specs = Vec::new();
        for one in self.request.pathspecs.uses(&seen).filter(|one| one.matched == Matched::Nothing) {
            if !outside.has(one.number) && advice::is_inside(self.patterns.as_deref(), one.original) {
                let message = text!("pathspec '", one.original, "' did not match any files");
                return Err(Error::Failed(message));
            }
            outside_specs.push(one.original);
        }
        advice::about_outside(self.context, &outside_specs)?;
        Ok(!outside_specs.is_empty())
    }

    /// Returns the selected tracked files and symlinks, for `--renormalize`.
    pub(super) fn tracked_files(&self, transaction: &IndexTransaction<'_>) -> Vec<bstr::BString> {
        let index = &transaction.index;
        let is_meant = |entry: &format::index::Entry| {
            (self.request.options.sparse || !is_outside(index, entry, self.patterns.as_deref()))
                && entry.stage == Stage::Normal
                && (entry.mode.is_file() || entry.mode.is_symlink())
                && (self.request.pathspecs.is_empty()
                    || self.request.pathspecs.matches_entry(
                        index.path(entry),
                        entry.mode,
                        &mut Seen::default(),
                    ))
        };
        let entries = self.request.pathspecs.positions(index).map(|at| index.entry(at)).filter(is_meant);
        entries.map(|entry| index.path(&entry).to_owned()).collect()
    }
}
