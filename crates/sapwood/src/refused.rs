//! The refusals of changes.

use std::fmt;

use bstr::{BString, ByteSlice as _};
use engine::{
    checkout::{self, Operation, Refusal},
    look::LookError,
};

use crate::text;

/// Why a change is refused. Nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// Files or entries would be lost.
    Paths {
        /// The paths and the reasons, in Git's order.
        refusals: Vec<Refusal>,
        /// The operation that Git's text names.
        operation: Operation,
        /// True if the text says how to go on: `advice.commitBeforeMerge`.
        advises: bool,
    },
    /// A tree has a path that no worktree may have.
    InvalidPath(BString),
    /// A tree is deeper than `core.maxTreeDepth`.
    TooDeep,
    /// A path has to be merged file by file.
    NotTrivial {
        /// True if the caller wants no text.
        quiet: bool,
    },
}

impl Refused {
    /// Returns Git's text. That of [`Refused::Paths`] has its own prefixes and ends in a newline;
    /// it is empty if the caller wanted none.
    pub fn text(&self) -> BString {
        match self {
            Refused::Paths { refusals, operation, advises } => {
                checkout::refusal_text(refusals, *operation, *advises)
            }
            Refused::InvalidPath(path) => text!("invalid path '", path, "'"),
            Refused::TooDeep => LookError::TooDeep.to_string().into(),
            Refused::NotTrivial { .. } => checkout::PlanError::NotTrivial.to_string().into(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.text(), formatter)
    }
}

/// The files whose removal would lose content.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Files whose entry differs from the file and from HEAD.
    pub both: Vec<BString>,
    /// Files whose entry differs from HEAD.
    pub staged: Vec<BString>,
    /// Files that differ from their entry.
    pub local: Vec<BString>,
    /// True if the texts say how to go on: `advice.rmHints`.
    pub advises: bool,
}

impl Losses {
    /// Returns true if nothing would be lost.
    pub(crate) fn is_empty(&self) -> bool {
        self.both.is_empty() && self.staged.is_empty() && self.local.is_empty()
    }

    /// Returns Git's texts, without `error: `.
    pub fn texts(&self) -> Vec<BString> {
        let mut texts = Vec::new();
        let mut add = |paths: &[BString], one: &str, several: &str, hint: &str| {
            if paths.is_empty() {
                return;
            }
            let mut text = text!(if paths.len() == 1 { one } else { several });
            for path in paths {
                text.extend_from_slice(b"\n    ");
                text.extend_from_slice(path);
            }
            if self.advises {
                text.extend_from_slice(hint.as_bytes());
            }
            texts.push(text);
        };
        add(
            &self.both,
            "the following file has staged content different from both the\nfile and the HEAD:",
            "the following files have staged content different from both the\nfile and the HEAD:",
            "\n(use -f to force removal)",
        );
        add(
            &self.staged,
            "the following file has changes staged in the index:",
            "the following files have changes staged in the index:",
            "\n(use --cached to keep the file, or -f to force removal)",
        );
        add(
            &self.local,
            "the following file has local modifications:",
            "the following files have local modifications:",
            "\n(use --cached to keep the file, or -f to force removal)",
        );
        texts
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(bstr::join("\n", self.texts()).as_bstr(), formatter)
    }
}
