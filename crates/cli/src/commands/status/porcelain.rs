//! Version 2 of the format for scripts. Source: git-status(1), "Porcelain Format Version 2".

use bstr::{BStr, ByteSlice as _};
use engine::diff::Status;
use sapwood::{Mode, ObjectId};

use super::{
    Change,
    report::{SpaceQuoting, StatusReport},
};
use crate::term::{console::text, failure::Failure};

impl StatusReport<'_> {
    /// Appends the lines of all paths.
    pub(super) fn porcelain(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.request.branch {
            self.porcelain_branch(out)?;
        }
        if self.request.stash {
            let entries = self.repo.reflog_length("refs/stash".into())?;
            if entries > 0 {
                out.extend_from_slice(&text!(format!("# stash {entries}"), self.end()));
            }
        }
        let changes = || self.found.changes.iter().map(|(path, change)| (path.as_bstr(), change));
        let is_merged = |change: &Change| change.conflict().is_none();
        for (path, change) in changes().filter(|(_, change)| is_merged(change)) {
            self.ordinary(out, path, change);
        }
        for (path, change) in changes().filter(|(_, change)| !is_merged(change)) {
            self.unmerged(out, path, change);
        }
        let found = &self.found;
        for (lead, paths) in [("? ", &found.untracked), ("! ", &found.ignored)] {
            for path in paths {
                out.extend_from_slice(&text!(
                    lead,
                    self.path(path.as_bstr(), SpaceQuoting::Plain),
                    self.end()
                ));
            }
        }
        Ok(())
    }

    fn ordinary(&self, out: &mut Vec<u8>, path: &BStr, change: &Change) {
        let head = change.in_head();
        let letter = |status: Option<Status>| status.map_or(b'.', Status::letter);
        let index = change.index_side.map(|side| side.0);
        let modes = [head.map(|side| side.0), index, change.mode_in_worktree()];
        let lead = if change.rename.is_some() { "2 " } else { "1 " };
        let path = self.path(path, SpaceQuoting::Plain);
        out.extend_from_slice(&text!(
            lead,
            [letter(change.index), letter(change.worktree)],
            " ",
            submodule(&modes, change),
            " ",
            octal(&modes),
            self.name(head),
            " ",
            self.name(change.index_side),
            " ",
        ));
        if let Some(rename) = &change.rename {
            let source = self.path(rename.source.as_bstr(), SpaceQuoting::Plain);
            let score = format!("{} ", rename.percent);
            let between = if self.request.nul { "\0" } else { "\t" };
            out.extend_from_slice(&text!([rename.status.letter()], score, path, between, source, self.end()));
        } else {
            out.extend_from_slice(&text!(path, self.end()));
        }
    }

    fn unmerged(&self, out: &mut Vec<u8>, path: &BStr, change: &Change) {
        let Some(conflict) = change.conflict() else { return };
        let [base, ours, theirs] = change.stages.as_deref().copied().unwrap_or_default();
        let modes = [base, ours, theirs].map(|side| side.map(|side| side.0));
        let in_worktree = [change.worktree_mode];
        let compared = [change.index_side.map(|side| side.0), change.worktree_mode];
        out.extend_from_slice(&text!(
            "u ",
            conflict.letters(),
            " ",
            submodule(&compared, change),
            " ",
            octal(&modes),
            octal(&in_worktree),
            self.name(base),
            " ",
            self.name(ours),
            " ",
            self.name(theirs),
            " ",
            self.path(path, SpaceQuoting::Plain),
            self.end(),
        ));
    }

    fn name(&self, side: Option<(Mode, ObjectId)>) -> String {
        side.map_or(ObjectId::null(self.repo.hash()), |side| side.1).to_string()
    }
}

/// Formats modes in octal, each with a space after it.
fn octal(modes: &[Option<Mode>]) -> String {
    modes.iter().map(|mode| format!("{:06o} ", mode.map_or(0, Mode::bits))).collect()
}

/// Returns the submodule field: the changes of a submodule that is on any side.
fn submodule(modes: &[Option<Mode>], change: &Change) -> String {
    if !modes.iter().flatten().any(|mode| mode.is_gitlink()) {
        return "N...".to_owned();
    }
    let mark = |is: bool, letter: char| if is { letter } else { '.' };
    let submodule_changes = change.submodule_changes;
    [
        'S',
        mark(submodule_changes.commit, 'C'),
        mark(submodule_changes.modified, 'M'),
        mark(submodule_changes.untracked, 'U'),
    ]
    .iter()
    .collect()
}
