//! The words of the command line. An option acts on the words after it.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::rev_parse::{Class, PathFormat, Query, Word, is_supported};

use crate::{commands::reason::Reason, term::text::split_once};

/// A part of the command line.
pub(super) enum Part<'a> {
    /// Print no message if there is no single revision.
    Quiet,
    /// Quote the output of the following words for the shell.
    Quoted,
    Word(Word<'a>),
}

/// Parses the command line. The error is the reason why sapwood does not serve it.
pub(super) fn parse(args: &[BString]) -> Result<Vec<Part<'_>>, Reason> {
    // Each of these is a mode with its own syntax.
    if args.first().is_some_and(|first| first == "--parseopt" || first == "--sq-quote") {
        return Err(Reason::Option(args[0].to_string()));
    }
    let mut parts = Vec::new();
    let (mut only_files, mut takes_options) = (false, true);
    let mut args = args.iter().map(|arg| arg.as_bstr());
    while let Some(arg) = args.next() {
        let word = match arg.as_bytes() {
            _ if only_files => Word::File(arg),
            b"--" => {
                only_files = true;
                Word::Mark(arg)
            }
            b"--end-of-options" if takes_options => {
                takes_options = false;
                Word::Mark(arg)
            }
            b"-q" | b"--quiet" | b"--sq" if takes_options => {
                parts.push(if arg == "--sq" { Part::Quoted } else { Part::Quiet });
                continue;
            }
            b"--default" if takes_options => Word::Default(args.next().ok_or_else(|| unserved(arg))?),
            b"--git-path" if takes_options => Word::GitPath(args.next().ok_or_else(|| unserved(arg))?),
            [b'-', ..] if takes_options => option(arg).ok_or_else(|| unserved(arg))?,
            _ if !is_supported(arg) => return Err(Reason::command_line(format!("'{arg}'"))),
            _ => Word::Revision(arg),
        };
        parts.push(Part::Word(word));
    }
    Ok(parts)
}

fn unserved(option: &BStr) -> Reason {
    Reason::Option(option.to_string())
}

fn option(arg: &BStr) -> Option<Word<'_>> {
    let (name, value) = match split_once(arg, b'=') {
        Some((name, value)) => (name, Some(value.as_bstr())),
        None => (arg.as_bytes(), None),
    };
    Some(match (name, value.map(|value| &**value)) {
        (b"--verify", None) => Word::Verify,
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
        (b"--not", None) => Word::Not,
        (b"--revs-only", None) => Word::LeaveOut(Class::Others),
        (b"--no-revs", None) => Word::LeaveOut(Class::Revisions),
        (b"--flags", None) => Word::LeaveOut(Class::Files),
        (b"--no-flags", None) => Word::LeaveOut(Class::Flags),
        (b"--all", None) => Word::Refs { prefix: "refs/", is_trimmed: false },
        (b"--branches", None) => below("refs/heads/"),
        (b"--tags", None) => below("refs/tags/"),
        (b"--remotes", None) => below("refs/remotes/"),
        (b"--path-format", Some(b"absolute")) => Word::PathFormat(PathFormat::Canonical),
        (b"--path-format", Some(b"relative")) => Word::PathFormat(PathFormat::Relative),
        (b"--show-object-format", None | Some(b"storage" | b"input" | b"output")) => {
            Word::Query(Query::ObjectFormat)
        }
        (_, None) => Word::Query(query(name)?),
        _ => return None,
    })
}

const fn below(prefix: &'static str) -> Word<'static> {
    Word::Refs { prefix, is_trimmed: true }
}

fn query(name: &[u8]) -> Option<Query> {
    Some(match name {
        b"--git-dir" => Query::GitDir,
        b"--absolute-git-dir" => Query::AbsoluteGitDir,
        b"--git-common-dir" => Query::CommonDir,
        b"--show-toplevel" => Query::TopLevel,
        b"--show-prefix" => Query::Prefix,
        b"--show-cdup" => Query::CdUp,
        b"--is-inside-git-dir" => Query::IsInsideGitDir,
        b"--is-inside-work-tree" => Query::IsInsideWorkTree,
        b"--is-bare-repository" => Query::IsBare,
        b"--is-shallow-repository" => Query::IsShallow,
        b"--show-ref-format" => Query::RefFormat,
        _ => return None,
    })
}
