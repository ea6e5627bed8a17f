//! The words of the command line. An option acts on the words after it.

use bstr::{BStr, BString, ByteSlice as _};

use super::paths::{PathFormat, PathQuery};
use crate::{commands::reason::Reason, term::text::split_once};

/// The kinds of words to print.
#[derive(Clone, Copy)]
pub(super) struct Filter {
    pub(super) flags: bool,
    pub(super) files: bool,
    pub(super) revisions: bool,
    /// Words that are not options of `rev-list`.
    pub(super) others: bool,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { flags: true, files: true, revisions: true, others: true }
    }
}

/// A word, or an option with its value.
pub(super) enum Word<'a> {
    Verify,
    Quiet,
    /// The minimum number of digits; `None`: as configured.
    Short(Option<usize>),
    /// Print short names of refs; true for strict ones, `None`: as configured.
    AbbrevRef(Option<bool>),
    Symbolic,
    SymbolicFullName,
    Quoted,
    Not,
    Default(&'a BStr),
    Filter(fn(&mut Filter)),
    /// Print all refs with this prefix, without the first `trimmed` bytes of their names.
    Refs {
        prefix: &'static str,
        trimmed: usize,
    },
    PathFormat(PathFormat),
    PathQuery(PathQuery),
    GitPath(&'a BStr),
    /// A marker that is printed unless both revisions and flags are excluded.
    Mark(&'a BStr),
    File(&'a BStr),
    Revision(&'a BStr),
}

/// Parses the command line. The error is the reason why sapwood does not serve it.
pub(super) fn parse(args: &[BString]) -> Result<Vec<Word<'_>>, Reason> {
    // Each of these is a mode with its own syntax.
    if args.first().is_some_and(|first| first == "--parseopt" || first == "--sq-quote") {
        return Err(Reason::Option(args[0].to_string()));
    }
    let mut words = Vec::new();
    let (mut only_files, mut takes_options) = (false, true);
    let mut args = args.iter().map(|arg| arg.as_bstr());
    while let Some(arg) = args.next() {
        words.push(match arg.as_bytes() {
            _ if only_files => Word::File(arg),
            b"--" => {
                only_files = true;
                Word::Mark(arg)
            }
            b"--end-of-options" if takes_options => {
                takes_options = false;
                Word::Mark(arg)
            }
            b"--default" if takes_options => Word::Default(args.next().ok_or_else(|| unserved(arg))?),
            b"--git-path" if takes_options => Word::GitPath(args.next().ok_or_else(|| unserved(arg))?),
            [b'-', ..] if takes_options => option(arg).ok_or_else(|| unserved(arg))?,
            _ if may_warn(arg) => return Err(Reason::command_line(format!("'{arg}'"))),
            _ => Word::Revision(arg),
        });
    }
    Ok(words)
}

fn unserved(option: &BStr) -> Reason {
    Reason::Option(option.to_string())
}

/// Returns true for a word with syntax that sapwood does not fully support: index entries, message
/// searches, dates, and several revisions in one word.
fn may_warn(word: &BStr) -> bool {
    // Words without these are the usual ones, and a search for a text costs page faults.
    if !word.is_empty() && !word.iter().any(|byte| b":@^".contains(byte)) {
        return false;
    }
    let has = |part: &str| word.contains_str(part);
    let is_date = word.find("@{").is_some_and(|at| {
        let inner = word[at + 2..].split_str("}").next().unwrap_or_default();
        let is_mark =
            ["u", "upstream", "push"].iter().any(|mark| inner.eq_ignore_ascii_case(mark.as_bytes()));
        !is_mark && !inner.strip_prefix(b"-").unwrap_or(inner).iter().all(u8::is_ascii_digit)
    });
    word.is_empty()
        || word.starts_with(b":")
        || is_date
        || ["^{/", "^!", "^@", "^-", ":./", ":../"].iter().any(|part| has(part))
}

fn option(arg: &BStr) -> Option<Word<'_>> {
    let (name, value) = match split_once(arg, b'=') {
        Some((name, value)) => (name, Some(value.as_bstr())),
        None => (arg.as_bytes(), None),
    };
    Some(match (name, value.map(|value| &**value)) {
        (b"--verify", None) => Word::Verify,
        (b"-q" | b"--quiet", None) => Word::Quiet,
        (b"--short", None) => Word::Short(None),
        (b"--short", Some(digits)) => {
            let number = digits.to_str().ok()?.parse().ok()?;
            Word::Short(Some(number))
        }
        (b"--abbrev-ref", None) => Word::AbbrevRef(None),
        (b"--abbrev-ref", Some(b"strict")) => Word::AbbrevRef(Some(true)),
        (b"--abbrev-ref", Some(b"loose")) => Word::AbbrevRef(Some(false)),
        (b"--symbolic", None) => Word::Symbolic,
        (b"--symbolic-full-name", None) => Word::SymbolicFullName,
        (b"--sq", None) => Word::Quoted,
        (b"--not", None) => Word::Not,
        (b"--revs-only", None) => Word::Filter(|filter| filter.others = false),
        (b"--no-revs", None) => Word::Filter(|filter| filter.revisions = false),
        (b"--flags", None) => Word::Filter(|filter| filter.files = false),
        (b"--no-flags", None) => Word::Filter(|filter| filter.flags = false),
        (b"--all", None) => Word::Refs { prefix: "refs/", trimmed: 0 },
        (b"--branches", None) => below("refs/heads/"),
        (b"--tags", None) => below("refs/tags/"),
        (b"--remotes", None) => below("refs/remotes/"),
        (b"--path-format", Some(b"absolute")) => Word::PathFormat(PathFormat::Canonical),
        (b"--path-format", Some(b"relative")) => Word::PathFormat(PathFormat::Relative),
        (b"--show-object-format", None | Some(b"storage" | b"input" | b"output")) => {
            Word::PathQuery(PathQuery::ObjectFormat)
        }
        (_, None) => Word::PathQuery(query(name)?),
        _ => return None,
    })
}

const fn below(prefix: &'static str) -> Word<'static> {
    Word::Refs { prefix, trimmed: prefix.len() }
}

fn query(name: &[u8]) -> Option<PathQuery> {
    Some(match name {
        b"--git-dir" => PathQuery::GitDir,
        b"--absolute-git-dir" => PathQuery::AbsoluteGitDir,
        b"--git-common-dir" => PathQuery::CommonDir,
        b"--show-toplevel" => PathQuery::TopLevel,
        b"--show-prefix" => PathQuery::Prefix,
        b"--show-cdup" => PathQuery::CdUp,
        b"--is-inside-git-dir" => PathQuery::IsInsideGitDir,
        b"--is-inside-work-tree" => PathQuery::IsInsideWorkTree,
        b"--is-bare-repository" => PathQuery::IsBare,
        b"--is-shallow-repository" => PathQuery::IsShallow,
        b"--show-ref-format" => PathQuery::RefFormat,
        _ => return None,
    })
}
