//! The request of `diff-files` and `diff-index`.

use bstr::BString;
use sapwood::diff;

/// The form in which pairs are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Raw,
    NameOnly,
    NameStatus,
    Nothing,
}

/// The request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// The request to the library, without the tree, the paths and the directory.
    pub(crate) wanted: diff::Request,
    pub(crate) kind: Kind,
    pub(crate) nul: bool,
    /// The minimum number of digits of object names; `Some(None)`: as configured; `None`: all
    /// digits.
    pub(crate) abbrev: Option<Option<usize>>,
    pub(crate) line_prefix: BString,
    /// The directory; `Some(None)` is the current directory.
    pub(crate) relative: Option<Option<BString>>,
    pub(crate) exit_code: bool,
    /// The names of the objects to find.
    pub(crate) object_words: Vec<BString>,
    pub(crate) merge_base: bool,
    /// Conflicting options. Git reports them after it has resolved revisions and paths.
    pub(crate) clash: Option<&'static str>,
    /// Words that are not options, before `--` and after it.
    pub(crate) words: Vec<BString>,
    pub(crate) paths: Option<Vec<BString>>,
}
