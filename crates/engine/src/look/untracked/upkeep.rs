//! What a walk made of the untracked cache, counted as Git counts it in its traces: scripts read these figures.
//!
//! Each is of what this walk did. Directories that are only asked whether there is anything in them are left when that is known, so how many
//! were opened depends on the order, as in Git.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What was done for the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Directories of which nothing was recorded (Git's `node-creation`).
    pub created: usize,
    /// Files of ignore rules that are not as recorded (`gitignore-invalidation`).
    pub rules_changed: usize,
    /// Records that held by what the index knows, and turned out not to (`directory-invalidation`).
    pub invalidated: usize,
    /// Directories that had to be listed (`opendir`).
    pub listed: usize,
    /// Directories that did not.
    pub spared: usize,
    /// Names that were taken from their records.
    pub names_taken: usize,
}

/// The same, while it goes on.
#[derive(Debug, Default)]
pub(super) struct Counts {
    created: AtomicUsize,
    rules_changed: AtomicUsize,
    invalidated: AtomicUsize,
    listed: AtomicUsize,
    spared: AtomicUsize,
    names_taken: AtomicUsize,
}

/// What a directory that has to be listed was in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Not in it.
    New,
    /// Its record was known not to hold.
    Invalid,
    /// Its record was found out not to hold.
    Valid,
    /// Its record did not hold for its `.gitignore` alone.
    UnderOtherRules,
}

impl Counts {
    pub(super) fn listed(&self, was: Was) {
        self.listed.fetch_add(1, Relaxed);
        match was {
            Was::New => self.created.fetch_add(1, Relaxed),
            Was::Valid => self.invalidated.fetch_add(1, Relaxed),
            Was::Invalid | Was::UnderOtherRules => 0,
        };
    }

    pub(super) fn rules_changed(&self, files: usize) {
        self.rules_changed.fetch_add(files, Relaxed);
    }

    pub(super) fn spared(&self, names: usize) {
        self.spared.fetch_add(1, Relaxed);
        self.names_taken.fetch_add(names, Relaxed);
    }

    /// So many directories, all of which but the first are names in another.
    pub(super) fn spared_all(&self, directories: usize) {
        self.spared.fetch_add(directories, Relaxed);
        self.names_taken.fetch_add(directories - 1, Relaxed);
    }

    pub(super) fn get(&self) -> Upkeep {
        Upkeep {
            created: self.created.load(Relaxed),
            rules_changed: self.rules_changed.load(Relaxed),
            invalidated: self.invalidated.load(Relaxed),
            listed: self.listed.load(Relaxed),
            spared: self.spared.load(Relaxed),
            names_taken: self.names_taken.load(Relaxed),
        }
    }
}
