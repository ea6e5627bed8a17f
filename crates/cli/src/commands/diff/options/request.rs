//! The request of `diff-files` and `diff-index`.

use bstr::BString;
use engine::diff::{
    Depth, IntentToAdd, Missing, Unchanged,
    renames::{Detect, Empty},
    rewrites,
};
use repo::submodule::Ignore;
use sapwood::{ObjectId, index::Stage};

/// The form in which pairs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Raw,
    NameOnly,
    NameStatus,
    Nothing,
}

/// Classes of changes (`--diff-filter`).
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// Letters of the classes to show; if empty, all classes except `without`.
    only: Vec<u8>,
    without: Vec<u8>,
    /// `*`: all changes are shown if any change is selected.
    all_or_none: bool,
}

impl Filter {
    /// Returns true if a change of this class is shown, or makes all changes shown.
    pub(crate) fn takes(&self, letter: u8) -> bool {
        let is_wanted = self.only.is_empty() && !self.all_or_none || self.only.contains(&letter);
        is_wanted && !self.without.contains(&letter) || self.is_undone()
    }

    /// Returns true if the letters exclude every class that they include: then no filter applies.
    fn is_undone(&self) -> bool {
        let is_excluded = |letter| self.without.contains(letter);
        !self.all_or_none && !self.only.is_empty() && self.only.iter().all(is_excluded)
    }

    /// Returns true if the filter excludes nothing.
    pub(super) fn is_none(&self) -> bool {
        self.only.is_empty() && self.without.is_empty() && !self.all_or_none || self.is_undone()
    }

    pub(crate) fn is_all_or_none(&self) -> bool {
        self.all_or_none
    }

    /// Adds classes. The error is the first unknown letter; the letters before it are added.
    pub(super) fn add(&mut self, classes: &[u8]) -> Result<(), u8> {
        for &class in classes {
            match class {
                b'*' => self.all_or_none = true,
                b'A' | b'C' | b'D' | b'M' | b'R' | b'T' | b'U' | b'X' | b'B' => self.only.push(class),
                b'a' | b'c' | b'd' | b'm' | b'r' | b't' | b'u' | b'x' | b'b' => {
                    self.without.push(class.to_ascii_uppercase());
                }
                _ => return Err(class),
            }
        }
        Ok(())
    }
}

/// How to treat the pairs before the path to show first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstPath {
    /// Show them last (`--rotate-to`).
    Rotate,
    /// Omit them (`--skip-to`).
    Skip,
}

/// Selects if a file must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Needed,
    Optional,
}

/// The text or object to search for in the pairs.
#[derive(Debug)]
pub(crate) enum Needle {
    /// A text whose number of occurrences differs between the sides (`-S`).
    Text(BString),
    /// A regular expression whose number of matches differs between the sides.
    Matches(BString),
    /// A regular expression that matches a removed or added line (`-G`).
    Lines(BString),
    /// Objects (`--find-object`).
    Objects,
}

/// The request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) nul: bool,
    /// The minimum number of digits of object names; `Some(None)`: as configured; `None`: all
    /// digits.
    pub(crate) abbrev: Option<Option<usize>>,
    pub(crate) line_prefix: BString,
    pub(crate) rewrites: Option<rewrites::Scores>,
    pub(crate) detect: Option<Detect>,
    /// Selects if unchanged files are listed, as sources of copies.
    pub(crate) unchanged: Unchanged,
    pub(crate) empty: Empty,
    pub(crate) minimum: u32,
    pub(crate) limit: Option<usize>,
    /// The directory; `Some(None)` is the current directory.
    pub(crate) relative: Option<Option<BString>>,
    /// The depth in collapsed directories.
    pub(crate) depth: Depth,
    pub(crate) reverse: bool,
    pub(crate) exit_code: bool,
    pub(crate) is_quiet: bool,
    /// True if a tree is compared with the worktree.
    pub(crate) is_of_trees_first: bool,
    pub(crate) filter: Filter,
    pub(crate) needle: Option<Needle>,
    /// The names of the objects to find, and the objects once they are resolved.
    pub(crate) object_words: Vec<BString>,
    pub(crate) objects: Vec<ObjectId>,
    /// Show all pairs if any pair matches the search.
    pub(crate) all_if_any: bool,
    /// The files of `-O`, of which the last one that exists or must exist is used.
    pub(crate) order_files: Vec<(BString, Presence)>,
    pub(crate) from: Option<(FirstPath, BString)>,
    pub(crate) ignore_submodules: Option<Ignore>,
    pub(crate) intended: Option<IntentToAdd>,
    /// The stage to compare the file of an unmerged path with.
    pub(crate) stage: Option<Stage>,
    pub(crate) cached: bool,
    pub(crate) merge_base: bool,
    pub(crate) missing: Missing,
    /// Conflicting options. Git reports them after it has resolved revisions and paths.
    pub(crate) clash: Option<&'static str>,
    /// Words that are not options, before `--` and after it.
    pub(crate) words: Vec<BString>,
    pub(crate) paths: Option<Vec<BString>>,
}

impl Request {
    /// Returns true if Git stops at the first difference.
    pub(crate) fn is_quick(&self) -> bool {
        self.is_quiet && self.filter.is_none()
    }

    /// Returns true if the number of Git's warnings about the line endings of a file is known. It
    /// equals the number of times that Git reads the file, which is unknown during a search for
    /// renames.
    pub(crate) fn predicts_line_ending_warnings(&self) -> bool {
        self.detect.is_none()
    }
}
