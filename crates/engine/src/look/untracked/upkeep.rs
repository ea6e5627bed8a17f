//! Counts of what a walk did with the untracked cache. They equal those in Git's traces, which
//! scripts read.
//!
//! A directory that is only checked for content is left as soon as there is some, so the number of
//! opened directories depends on the order, as in Git.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Directories without a record (Git's `node-creation`).
    pub created: usize,
    /// Ignore files that differ from the record (`gitignore-invalidation`).
    pub rules_changed: usize,
    /// Records that were valid by the index and turned out to be outdated
    /// (`directory-invalidation`).
    pub invalidated: usize,
    /// Directories that had to be listed (`opendir`).
    pub listed: usize,
    /// Directories that did not.
    pub spared: usize,
    /// Names that were taken from records.
    pub names_taken: usize,
}

/// The counts while the walk runs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    created: AtomicUsize,
    rules_changed: AtomicUsize,
    invalidated: AtomicUsize,
    listed: AtomicUsize,
    spared: AtomicUsize,
    names_taken: AtomicUsize,
}

/// The record of a directory that has to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// There was none.
    New,
    /// It was known to be outdated.
    Invalid,
    /// It was found to be outdated.
    Valid,
    /// It was outdated only because of the directory's `.gitignore`.
    OtherRules,
}

impl Counts {
    pub(super) fn listed(&self, was: Was) {
        self.listed.fetch_add(1, Relaxed);
        match was {
            Was::New => self.created.fetch_add(1, Relaxed),
            Was::Valid => self.invalidated.fetch_add(1, Relaxed),
            Was::Invalid | Was::OtherRules => 0,
        };
    }

    pub(super) fn rules_changed(&self, files: usize) {
        self.rules_changed.fetch_add(files, Relaxed);
    }

    pub(super) fn spared(&self, names: usize) {
        self.spared.fetch_add(1, Relaxed);
        self.names_taken.fetch_add(names, Relaxed);
    }

    /// Counts spared directories. All but the first are names in another one.
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
