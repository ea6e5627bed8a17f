//! The differences of one path.

use bstr::BString;
use engine::diff::{self, Pair, Status, SubmoduleChanges};
use format::{Mode, ObjectId};

/// A path that differs between HEAD, index and worktree.
#[derive(Debug, Default)]
pub struct Change {
    /// How the index differs from HEAD.
    pub index: Option<Status>,
    /// How the worktree differs from the index.
    pub worktree: Option<Status>,
    /// The entries of HEAD and of the index, as far as a difference contains them.
    pub head_side: Option<(Mode, ObjectId)>,
    /// See `head_side`.
    pub index_side: Option<(Mode, ObjectId)>,
    /// The mode of the file in the worktree.
    pub worktree_mode: Option<Mode>,
    /// The sides of a conflict. Boxed, like the rename, because most changes have none, and there
    /// may be many changes.
    pub stages: Option<Box<Sides>>,
    /// The source, if the path was renamed or copied.
    pub rename: Option<Box<Rename>>,
    /// The state of a submodule.
    pub submodule_changes: SubmoduleChanges,
}

/// The entries of base, ours and theirs.
pub type Sides = [Option<(Mode, ObjectId)>; 3];

/// The source of a rename or copy.
#[derive(Debug)]
pub struct Rename {
    /// `Renamed` or `Copied`.
    pub status: Status,
    /// The old path.
    pub source: BString,
    /// The similarity of the contents, from 0 to 100.
    pub percent: u32,
}

/// The kind of a conflict: which sides changed, added or deleted the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// `DD`
    BothDeleted,
    /// `AU`
    AddedByUs,
    /// `UD`
    DeletedByThem,
    /// `UA`
    AddedByThem,
    /// `DU`
    DeletedByUs,
    /// `AA`
    BothAdded,
    /// `UU`
    BothModified,
}

impl Conflict {
    /// Returns the two letters of the short formats.
    pub fn letters(self) -> &'static str {
        match self {
            Conflict::BothDeleted => "DD",
            Conflict::AddedByUs => "AU",
            Conflict::DeletedByThem => "UD",
            Conflict::AddedByThem => "UA",
            Conflict::DeletedByUs => "DU",
            Conflict::BothAdded => "AA",
            Conflict::BothModified => "UU",
        }
    }
}

impl Change {
    /// Returns the kind of the conflict, if the path is unmerged.
    pub fn conflict(&self) -> Option<Conflict> {
        Some(match self.stages.as_deref()?.map(|side| side.is_some()) {
            [false, false, false] => return None,
            [true, false, false] => Conflict::BothDeleted,
            [false, true, false] => Conflict::AddedByUs,
            [true, true, false] => Conflict::DeletedByThem,
            [false, false, true] => Conflict::AddedByThem,
            [true, false, true] => Conflict::DeletedByUs,
            [false, true, true] => Conflict::BothAdded,
            [true, true, true] => Conflict::BothModified,
        })
    }

    /// Returns HEAD's entry. If HEAD and index are equal, only the difference of the worktree
    /// contains it.
    pub fn in_head(&self) -> Option<(Mode, ObjectId)> {
        if self.index.is_some() { self.head_side } else { self.index_side }
    }

    /// Returns the mode of the file in the worktree, which is the index's if they are equal.
    pub fn mode_in_worktree(&self) -> Option<Mode> {
        match self.worktree {
            Some(_) => self.worktree_mode,
            None => self.index_side.map(|(mode, _)| mode),
        }
    }

    /// Adds a difference of the worktree. An unmerged path occurs twice: first as unmerged, and
    /// then as a change against our side.
    pub(super) fn take_unstaged(&mut self, pair: Pair) {
        self.worktree.get_or_insert(pair.status);
        if pair.status != Status::Added {
            self.index_side = pair.old.map(known);
        }
        if let Some(new) = pair.new {
            self.worktree_mode = Some(new.mode);
            if new.mode.is_gitlink() {
                self.submodule_changes = pair.submodule_changes;
                // For Git, a repository that replaces another type of file has a changed commit; a
                // repository in an unoccupied place has one if the content was compared.
                self.submodule_changes.commit |= match pair.status {
                    Status::TypeChanged => true,
                    Status::Added | Status::Unmerged => new.oid.is_some(),
                    _ => false,
                };
            }
        }
        self.take_rename(pair);
    }

    /// Adds a difference of the index.
    pub(super) fn take_staged(&mut self, pair: Pair) {
        self.index = Some(pair.status);
        if pair.status != Status::Unmerged {
            self.head_side = pair.old.map(known);
            self.index_side = pair.new.map(known).or(self.index_side);
        }
        self.take_rename(pair);
    }

    fn take_rename(&mut self, pair: Pair) {
        if let Some(source) = pair.source.filter(|_| pair.status != Status::Unmerged) {
            let percent = pair.score * 100 / diff::MAX_SCORE;
            self.rename = Some(Box::new(Rename { status: pair.status, source, percent }));
        }
    }
}

fn known(side: diff::Side) -> (Mode, ObjectId) {
    (side.mode, side.oid.expect("only what is in the worktree may be without a name"))
}
