//! Statistics of the untracked cache in a walk. They equal those in Git's traces, which scripts
//! read.
//!
//! A content check of a directory ends at the first path found, so the number of opened directories
//! depends on the order, as in Git.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The statistics of a finished walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Directories without a record (Git's `node-creation`).
    pub created: usize,
    /// Ignore files that differ from the record (`gitignore-invalidation`).
    pub rules_changed: usize,
    /// Records that were marked as valid and turned out to be outdated (`directory-invalidation`).
    pub invalidated: usize,
    /// Directories that had to be listed (`opendir`).
    pub listed: usize,
    /// Directories that were not listed.
    pub spared: usize,
    /// Names that were taken from records.
    pub names_taken: usize,
}

/// The statistics while the walk runs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    created: AtomicUsize,
    rules_changed: AtomicUsize,
    invalidated: AtomicUsize,
    listed: AtomicUsize,
    spared: AtomicUsize,
    names_taken: AtomicUsize,
}

/// The old record of a directory that has to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldRecord {
    /// There was no record.
    New,
    /// The record was marked as invalid.
    Invalid,
    /// The record was marked as valid, but is outdated.
    Valid,
    /// Only the directory's `.gitignore` differs from the record.
    OtherRules,
}

impl Counts {
    pub(super) fn listed(&self, old_record: OldRecord) {
        self.listed.fetch_add(1, Relaxed);
        match old_record {
            OldRecord::New => self.created.fetch_add(1, Relaxed),
            OldRecord::Valid => self.invalidated.fetch_add(1, Relaxed),
            OldRecord::Invalid | OldRecord::OtherRules => 0,
        };
    }

    pub(super) fn rules_changed(&self, files: usize) {
        self.rules_changed.fetch_add(files, Relaxed);
    }

    pub(super) fn spared(&self, names: usize) {
        self.spared.fetch_add(1, Relaxed);
        self.names_taken.fetch_add(names, Relaxed);
    }

    /// Counts `directories` directories that were not listed. All but the first are also names in
    /// another one.
    pub(super) fn spared_all(&self, directories: usize) {
        self.spared.fetch_add(directories, Relaxed);
        self.names_taken.fetch_add(directories - 1, Relaxed);
    }

    pub(super) fn get(&self) -> CacheStats {
        CacheStats {
            created: self.created.load(Relaxed),
            rules_changed: self.rules_changed.load(Relaxed),
            invalidated: self.invalidated.load(Relaxed),
            listed: self.listed.load(Relaxed),
            spared: self.spared.load(Relaxed),
            names_taken: self.names_taken.load(Relaxed),
        }
    }
}
