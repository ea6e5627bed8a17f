//! The conditions under which a path may be changed, and the proof that one holds.

use sys::Stat;

use crate::look::unlinked::Unlinked;

/// The condition that must hold for a path when it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Premise {
    /// Nothing is at the path.
    Absent,
    /// The file or link that planning saw. It is compared once more before it is unlinked. Boxed,
    /// because most writes of a large checkout have no such premise.
    Unchanged(Box<Stat>),
    /// Anything may be removed, because the operation is forced, or the file is ignored or was
    /// checked by the planner. Covers files, links, directories with all content, and a file or
    /// link at the path of a leading directory.
    Anything,
    /// The path is free, or holds a file or link of this entry that a killed run wrote in part or
    /// in whole. The file is compared with the new content; any other file stays. Only for writes.
    Remnant,
    /// A directory that is a submodule or becomes one.
    Directory,
}

impl Premise {
    /// Returns the file that must be unchanged.
    pub(crate) fn file(&self) -> Option<&Stat> {
        if let Premise::Unchanged(stat) = self { Some(stat) } else { None }
    }
}

/// Device and inode number.
pub(crate) type FileId = (u64, u64);

/// Returns the identity of a file during a run.
pub(crate) fn file_id(stat: &Stat) -> FileId {
    (stat.dev, stat.ino)
}

/// A proof that an entry may be removed. The caller has just examined the entry, so its removal
/// examines it no further.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'s> {
    found: &'s Stat,
}

impl<'s> Proof<'s> {
    /// Returns a proof if `premise` holds for the entry `found`.
    pub(crate) fn of(premise: &Premise, found: &'s Stat, unlinked: &Unlinked) -> Option<Proof<'s>> {
        let holds = match premise {
            Premise::Absent | Premise::Remnant => false,
            Premise::Unchanged(expected) => unlinked.is_unchanged(expected, found),
            Premise::Anything => true,
            Premise::Directory => found.file_type == sys::FileType::Directory,
        };
        holds.then_some(Proof { found })
    }

    /// Returns a proof if the entry `found` is exactly as the caller saw it before.
    pub(crate) fn unchanged(seen: &Stat, found: &'s Stat) -> Option<Proof<'s>> {
        (seen == found).then_some(Proof { found })
    }

    /// Returns a proof if the entry `found` is the file or directory `created`, which this command
    /// has created.
    pub(crate) fn created(created: FileId, found: &'s Stat) -> Option<Proof<'s>> {
        (created == file_id(found)).then_some(Proof { found })
    }

    /// Returns the entry that was examined.
    pub(crate) fn found(&self) -> &'s Stat {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    fn stat(ino: u64, ctime: i64) -> Stat {
        Stat {
            file_type: sys::FileType::File,
            mode: 0o100644,
            ctime: (ctime, 0),
            mtime: (1, 0),
            dev: 1,
            ino,
            uid: 0,
            gid: 0,
            size: 3,
        }
    }

    #[test]
    fn a_proof_needs_a_premise_that_holds() {
        let (seen, changed) = (stat(1, 1), stat(1, 2));
        let none = Unlinked::default();
        let unchanged = Premise::Unchanged(Box::new(seen));
        assert!(Proof::of(&unchanged, &seen, &none).is_some());
        assert!(Proof::of(&unchanged, &changed, &none).is_none());
        assert!(Proof::of(&Premise::Anything, &changed, &none).is_some());
        for premise in [Premise::Absent, Premise::Remnant, Premise::Directory] {
            assert!(Proof::of(&premise, &seen, &none).is_none(), "{premise:?}");
        }
        // The removal of another name of the file has changed its ctime.
        let unlinked = Unlinked::of(iter::once(&seen));
        unlinked.mark(&seen);
        assert!(Proof::of(&unchanged, &changed, &unlinked).is_some());
    }

    #[test]
    fn only_created_or_equal_entries_need_no_premise() {
        let (one, other) = (stat(1, 1), stat(2, 1));
        assert!(Proof::created(file_id(&one), &stat(1, 9)).is_some());
        assert!(Proof::created(file_id(&one), &other).is_none());
        assert!(Proof::unchanged(&one, &one).is_some());
        assert!(Proof::unchanged(&one, &stat(1, 9)).is_none());
    }
}
