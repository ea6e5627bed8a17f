//! Typed values: how they are printed, and how they are stored.

use bstr::{BStr, BString, ByteSlice as _};
use engine::worktree::prune::Expire;
use repo::{Configured, Env, Origin};

use crate::{
    session::settings::expiry::expire_date,
    term::{
        console::{self, text},
        failure::Failure,
        text::color,
    },
};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    BoolOrInt,
    BoolOrStr,
    Path,
    ExpiryDate,
    Color,
}

impl Kind {
    /// Returns the type called `name`.
    pub(super) fn named(name: &BStr) -> Option<Kind> {
        Some(match name.as_bytes() {
            b"bool" => Kind::Bool,
            b"int" => Kind::Int,
            b"bool-or-int" => Kind::BoolOrInt,
            b"bool-or-str" => Kind::BoolOrStr,
            b"path" => Kind::Path,
            b"expiry-date" => Kind::ExpiryDate,
            b"color" => Kind::Color,
            _ => return None,
        })
    }
}

/// The value to print, and its source.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) key: &'a BStr,
    /// `None` for a key without `=`.
    pub(super) value: Option<&'a BStr>,
    /// `None` for a default value from the command line.
    pub(super) entry: Option<&'a Configured<'a>>,
}

/// The reason not to print a value.
pub(super) enum Refusal {
    /// The value does not have the type. A listing leaves it out; otherwise the message is printed,
    /// and then the file and line.
    Value(Option<BString>),
    /// Like `Value`, with the complete failure.
    Fatal(Failure),
    /// An optional path that does not exist.
    Absent,
    /// A type that is left to the real Git.
    Unserved,
}

/// Returns the text of a value of the type `kind`.
pub(super) fn shown(kind: Kind, given: Given<'_>, env: &Env) -> Result<BString, Refusal> {
    let text = given.value.unwrap_or_default();
    let words = |on: bool| BString::from(if on { "true" } else { "false" });
    let number = |number: Result<i64, &'static str>| {
        number.map(|number| BString::from(number.to_string())).map_err(|reason| {
            Refusal::Fatal(Failure::fatal(bad_number(given.key, text, given.entry, reason)))
        })
    };
    match kind {
        Kind::Bool => repo::parse_bool(given.value)
            .map(words)
            .ok_or_else(|| Refusal::Fatal(Failure::fatal(bad_boolean(given.key, text)))),
        Kind::Int => number(repo::parse_size(text)),
        Kind::BoolOrInt => match bool_word(given.value) {
            Some(on) => Ok(words(on)),
            None => number(repo::parse_number(text).map(i64::from)),
        },
        Kind::BoolOrStr => Ok(repo::parse_bool(given.value).map_or_else(|| text.to_owned(), words)),
        Kind::Path => path(given, env),
        Kind::ExpiryDate => match given.value {
            None => Err(missing(given.key)),
            Some(_) if env.is_set("GIT_TEST_DATE_NOW") => Err(Refusal::Unserved),
            Some(text) => match expire_date(text) {
                Some(Expire::Now) => Ok(u64::MAX.to_string().into()),
                Some(Expire::At(time)) => Ok(time.to_string().into()),
                None => Err(Refusal::Unserved),
            },
        },
        Kind::Color => match given.value {
            None => Err(missing(given.key)),
            Some(text) => {
                color::parse(text).ok_or_else(|| Refusal::Value(Some(text!("invalid color value: ", text))))
            }
        },
    }
}

/// Parses a boolean word, or a missing value. Numbers are not boolean words.
fn bool_word(value: Option<&BStr>) -> Option<bool> {
    let is_number = value.is_some_and(|value| repo::parse_number(value).is_ok());
    if is_number { None } else { repo::parse_bool(value) }
}

fn missing(key: &BStr) -> Refusal {
    Refusal::Value(Some(text!("missing value for '", key, "'")))
}

fn path(given: Given<'_>, env: &Env) -> Result<BString, Refusal> {
    let Some(value) = given.value else { return Err(missing(given.key)) };
    if value.starts_with(b"%(prefix)/") {
        return Err(Refusal::Unserved);
    }
    match repo::config_path(value, env) {
        Ok(Some(path)) => Ok(path.as_bytes().into()),
        Ok(None) => Err(Refusal::Absent),
        Err(error) => Err(Refusal::Fatal(error.into())),
    }
}

/// Returns Git's message about a value that is not a boolean.
pub(super) fn bad_boolean(key: &BStr, value: &BStr) -> BString {
    text!("bad boolean config value '", value, "' for '", key, "'")
}

fn bad_number(key: &BStr, value: &BStr, entry: Option<&Configured<'_>>, reason: &str) -> BString {
    let (place, name) = match entry.map(|entry| (entry.origin, entry.source_name)) {
        None | Some((Origin::CommandLine, _)) => ("", BStr::new("")),
        Some((Origin::File, name)) => (" in file ", name),
        Some((Origin::Blob, name)) => (" in blob ", name),
        Some((Origin::Stdin, _)) => (" in standard input", BStr::new("")),
    };
    text!("bad numeric config value '", value, "' for '", key, "'", place, name, ": ", reason)
}

/// Returns the failure of a command that read an invalid value.
pub(super) fn bad_line(entry: &Configured<'_>) -> Failure {
    let line = entry.place.map_or(0, |(_, line)| line);
    match entry.origin {
        Origin::File => {
            Failure::Fatal(text!("bad config line ", line.to_string(), " in file ", entry.source_name))
        }
        Origin::Stdin => Failure::fatal(format!("bad config line {line} in standard input")),
        Origin::CommandLine => Failure::fatal("unable to parse command-line config"),
        Origin::Blob => Failure::Unserved("values of another type in a blob"),
    }
}

/// Returns the text to store for a value of the type `kind`.
pub(super) fn stored(kind: Option<Kind>, key: &BStr, value: &BStr) -> Result<BString, Failure> {
    let Some(kind) = kind else { return Ok(value.to_owned()) };
    let words = |on: bool| BString::from(if on { "true" } else { "false" });
    let bad_number = |reason| Failure::fatal(bad_number(key, value, None, reason));
    match kind {
        Kind::Path | Kind::ExpiryDate => Ok(value.to_owned()),
        Kind::Int => repo::parse_size(value).map(|number| number.to_string().into()).map_err(bad_number),
        Kind::Bool => {
            repo::parse_bool(Some(value)).map(words).ok_or_else(|| Failure::fatal(bad_boolean(key, value)))
        }
        Kind::BoolOrInt => match bool_word(Some(value)) {
            Some(on) => Ok(words(on)),
            None => repo::parse_number(value).map(|number| number.to_string().into()).map_err(bad_number),
        },
        Kind::BoolOrStr => Ok(repo::parse_bool(Some(value)).map_or_else(|| value.to_owned(), words)),
        Kind::Color if color::parse(value).is_some() => Ok(value.to_owned()),
        Kind::Color => {
            console::error(text!("invalid color value: ", value));
            Err(Failure::Fatal(text!("cannot parse color '", value, "'")))
        }
    }
}
