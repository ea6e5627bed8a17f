//! Files of which a command removes one name and then examines another: hard links, and names that
//! the file system treats as equal. The removal changes the file's ctime, so a premise that was
//! taken before is compared without it.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use sys::Stat;

/// Device and inode number.
type FileId = (u64, u64);

/// The files that the premises of one command name, and whether it has removed a name of them.
#[derive(Debug, Default)]
pub struct Unlinked(HashMap<FileId, AtomicBool>);

impl Unlinked {
    /// Collects the files of these premises.
    pub fn of<'s>(premises: impl Iterator<Item = &'s Stat>) -> Unlinked {
        Unlinked(premises.map(|stat| (id(stat), AtomicBool::new(false))).collect())
    }

    /// Returns true if a premise names this file.
    pub fn contains(&self, stat: &Stat) -> bool {
        self.0.contains_key(&id(stat))
    }

    /// Returns true if there is no premise, so that [`Unlinked::mark`] has no effect.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records that the command is about to remove a name of this file.
    pub fn mark(&self, stat: &Stat) {
        if let Some(mark) = self.0.get(&id(stat)) {
            mark.store(true, Ordering::Release);
        }
    }

    /// Returns true if `found` is the file `expected`, unchanged except by this command. `found`
    /// must be examined before the call.
    pub fn is_unchanged(&self, expected: &Stat, found: &Stat) -> bool {
        let is_ours = || self.0.get(&id(expected)).is_some_and(|mark| mark.load(Ordering::Acquire));
        expected == found || Stat { ctime: expected.ctime, ..*found } == *expected && is_ours()
    }
}

fn id(stat: &Stat) -> FileId {
    (stat.dev, stat.ino)
}
