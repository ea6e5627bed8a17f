//! The short format, and version 1 of the porcelain format, which is the same without colours and
//! with paths from the root.

use bstr::{BStr, ByteSlice as _};
use engine::diff::{Status, SubmoduleChanges};

use super::{
    Change, Format,
    report::{Slot, SpaceQuoting, StatusReport},
};
use crate::term::{console::text, failure::Failure};

impl StatusReport<'_> {
    /// Appends two letters and the path for each change.
    pub(super) fn short(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.request.branch {
            self.short_branch(out);
        }
        for (path, change) in &self.found.changes {
            match change.conflict() {
                Some(conflict) => self.marked(out, Slot::Unmerged, conflict.letters(), path.as_bstr()),
                None => self.changed(out, path.as_bstr(), change),
            }
        }
        let found = &self.found;
        for (letters, paths) in [("??", &found.untracked), ("!!", &found.ignored)] {
            paths.iter().for_each(|path| self.marked(out, Slot::Untracked, letters, path.as_bstr()));
        }
        Ok(())
    }

    fn marked(&self, out: &mut Vec<u8>, slot: Slot, letters: &str, path: &BStr) {
        self.palette.paint(out, Some(slot), letters);
        out.extend_from_slice(&text!(" ", self.path(path, SpaceQuoting::Quoted), self.end()));
    }

    fn changed(&self, out: &mut Vec<u8>, path: &BStr, change: &Change) {
        let mut letter = |slot, letter: Option<u8>| match letter {
            Some(letter) => self.palette.paint(out, Some(slot), [letter]),
            None => out.push(b' '),
        };
        letter(Slot::Updated, change.index.map(Status::letter));
        letter(
            Slot::Changed,
            change.worktree.map(|status| self.worktree_letter(status, change.submodule_changes)),
        );
        let path = self.path(path, SpaceQuoting::Quoted);
        let line = match &change.rename {
            None => text!(" ", path, self.end()),
            Some(rename) => {
                let source = self.path(rename.source.as_bstr(), SpaceQuoting::Quoted);
                if self.request.nul {
                    text!(" ", path, "\0", source, "\0")
                } else {
                    text!(" ", source, " -> ", path, "\n")
                }
            }
        };
        out.extend_from_slice(&line);
    }

    /// Returns the letter; in the short format, a submodule's letter shows the kind of its changes.
    fn worktree_letter(&self, status: Status, submodule_changes: SubmoduleChanges) -> u8 {
        match submodule_changes {
            _ if self.request.format != Format::Short => status.letter(),
            SubmoduleChanges { commit: true, .. } => b'M',
            SubmoduleChanges { modified: true, .. } => b'm',
            SubmoduleChanges { untracked: true, .. } => b'?',
            _ => status.letter(),
        }
    }
}
