//! The objects that revisions name, and facts about the repository.
//!
//! The words are evaluated from left to right, as in Git: a word acts on those after it. A word
//! that Git would refuse, warn about or treat as a file is Unsupported. Nothing is changed.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, rev_parse::{self, Request, Word}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let words = vec![Word::Short(None), Word::Revision("HEAD~1".into())];
//! let report = rev_parse::plan(&repository, Request { words })?.run(&Silent)?;
//! println!("{:?}", report.answers);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod evaluation;
mod paths;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;

pub use evaluation::Evaluation;

use crate::{
    Error, Events, PlanError, Repository, RunError,
    settings::refused::{self, Reader},
};

/// A word: a revision, a question, or an option for the words after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// Accept exactly one revision.
    Verify,
    /// Abbreviate object names to at least this number of digits; `None`: as configured. Includes
    /// [`Word::Verify`].
    Short(Option<usize>),
    /// Answer with short names of refs; true for strict ones, so that no other ref matches. `None`:
    /// as configured.
    AbbrevRef(Option<bool>),
    /// Answer with names as given.
    Symbolic,
    /// Answer with full names of refs.
    SymbolicFullName,
    /// Turn the meaning of the following revisions around.
    Not,
    /// The revision if there is no other one.
    Default(&'a BStr),
    /// Leave out the answers of this class.
    LeaveOut(Class),
    /// All refs with this prefix.
    Refs {
        /// The prefix.
        prefix: &'a str,
        /// Names as given are without the prefix.
        is_trimmed: bool,
    },
    /// The form of the paths that follow.
    PathFormat(PathFormat),
    /// A question about the repository.
    Query(Query),
    /// The place of a file in the Git directory.
    GitPath(&'a BStr),
    /// A marker, such as `--`. It is an answer unless both revisions and flags are left out.
    Mark(&'a BStr),
    /// The name of a file.
    File(&'a BStr),
    /// A revision, or a range of them.
    Revision(&'a BStr),
}

/// A class of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Options.
    Flags,
    /// Names of files.
    Files,
    /// Revisions.
    Revisions,
    /// Words that `git rev-list` does not take as options.
    Others,
}

/// The form of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFormat {
    /// The form that Git uses for each path by default.
    Own,
    /// Absolute, without symbolic links.
    Canonical,
    /// Relative to the current directory, if possible.
    Relative,
}

/// A property of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The Git directory.
    GitDir,
    /// The Git directory as an absolute path.
    AbsoluteGitDir,
    /// The directory that all worktrees share.
    CommonDir,
    /// The top of the worktree.
    TopLevel,
    /// The path from the top of the worktree.
    Prefix,
    /// The path to the top of the worktree. Without a worktree there is no answer.
    CdUp,
    /// True if the current directory is in the Git directory.
    IsInsideGitDir,
    /// True if the current directory is in the worktree.
    IsInsideWorkTree,
    /// True if the repository is bare.
    IsBare,
    /// True if the history is cut off.
    IsShallow,
    /// The hash of object names.
    ObjectFormat,
    /// The format of refs.
    RefFormat,
}

/// The words.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// The words, in order.
    pub words: Vec<Word<'a>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An object.
    Object {
        /// Its name.
        id: ObjectId,
        /// True for `^id`.
        is_reversed: bool,
    },
    /// A name: an abbreviated object name, a ref, a file or a marker.
    Name {
        /// The name.
        name: BString,
        /// True for `^name`.
        is_reversed: bool,
    },
    /// A fact about the repository: a path, a name, `true` or `false`.
    Fact(BString),
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The answers, in the order of the words.
    pub answers: Vec<Answer>,
    /// True if [`Word::Verify`] found no revision, or several.
    pub lacks_revision: bool,
}

/// Words that are evaluated.
#[derive(Clone, Debug)]
pub struct Plan {
    report: Report,
}

/// Evaluates the words.
pub fn plan(repository: &Repository, request: Request<'_>) -> Result<Plan, PlanError> {
    refused::check(&repository.inner, &[Reader::Every, Reader::Repository]).map_err(Error::from)?;
    let mut evaluation = Evaluation::new(&repository.inner);
    for word in request.words {
        if evaluation.word(word)?.is_break() {
            break;
        }
    }
    Ok(Plan { report: evaluation.finish()? })
}

impl Plan {
    /// Returns the answers.
    pub fn run(self, _: &impl Events) -> Result<Report, RunError> {
        Ok(self.report)
    }
}

/// Returns false for a revision with syntax that sapwood does not fully support: index entries,
/// message searches, dates, and several revisions in one word.
pub fn is_supported(revision: &BStr) -> bool {
    // Words without these are the usual ones, and a search for a text costs page faults.
    if !revision.is_empty() && !revision.iter().any(|byte| b":@^".contains(byte)) {
        return true;
    }
    let is_date = revision.find("@{").is_some_and(|at| {
        let inner = revision[at + 2..].split_str("}").next().unwrap_or_default();
        let is_mark =
            ["u", "upstream", "push"].iter().any(|mark| inner.eq_ignore_ascii_case(mark.as_bytes()));
        !is_mark && !inner.strip_prefix(b"-").unwrap_or(inner).iter().all(u8::is_ascii_digit)
    });
    let special = ["^{/", "^!", "^@", "^-", ":./", ":../"];
    !revision.is_empty()
        && !revision.starts_with(b":")
        && !is_date
        && !special.iter().any(|part| revision.contains_str(part))
}

/// Returns the error that leaves the words to the real Git.
fn unsupported() -> Error {
    PlanError::Unsupported("these words of rev-parse").into()
}
