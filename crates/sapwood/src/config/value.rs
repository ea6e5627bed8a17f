//! Values as types: how they are read, and how they are stored.

use std::borrow::Cow;

use bstr::{BStr, BString, ByteSlice as _};
use engine::worktree::prune::Expire;
use repo::{Configured, Env, Origin};
use sys::UserPath;

use super::{refused, unsupported};
use crate::{Error, PlanError, color, error::ConfigError, settings::expiry::expire_date, text};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A boolean word, a number, or a name without `=`.
    Bool,
    /// A number of 64 bits. The units k, m and g are powers of 1,024.
    Int,
    /// A number of 32 bits, or a boolean word.
    BoolOrInt,
    /// A boolean, or any text.
    BoolOrStr,
    /// A path, in which `~` is expanded.
    Path,
    /// A date of the past.
    ExpiryDate,
    /// A colour.
    Color,
}

impl Kind {
    /// Returns the type called `name`.
    pub fn named(name: &BStr) -> Option<Kind> {
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

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A boolean.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A text; the empty one also for a name without `=`.
    Text(&'a BStr),
    /// A path.
    Path(UserPath),
    /// A time in seconds since 1970.
    Date(Expire),
    /// The escape sequence of a colour.
    Color(BString),
}

impl Value<'_> {
    /// Returns the value as Git prints it.
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Value::Bool(true) => Cow::Borrowed(b"true"),
            Value::Bool(false) => Cow::Borrowed(b"false"),
            Value::Int(number) => Cow::Owned(number.to_string().into_bytes()),
            Value::Text(text) => Cow::Borrowed(text.as_bytes()),
            Value::Path(path) => Cow::Borrowed(path.as_bytes()),
            Value::Date(Expire::Now) => Cow::Owned(u64::MAX.to_string().into_bytes()),
            Value::Date(Expire::At(time)) => Cow::Owned(time.to_string().into_bytes()),
            Value::Color(sequence) => Cow::Borrowed(sequence.as_bytes()),
        }
    }
}

/// The reason why there is no value of a type.
pub(super) enum Mismatch {
    /// The value does not have the type: Git's message, which another one about the place follows.
    Value(BString),
    /// Like `Value`, for a name without `=`.
    Missing(BString),
    /// Like `Value`, with the complete error.
    Failed(Error),
    /// An optional path that does not exist.
    Absent,
    /// A form that only Git reads.
    Unsupported,
}

/// Returns a value of the type `kind`. `source` is `None` for a default.
pub(super) fn typed<'a>(
    kind: Kind,
    key: &BStr,
    value: Option<&'a BStr>,
    source: Option<&Configured<'_>>,
    env: &Env,
) -> Result<Value<'a>, Mismatch> {
    let present = || value.ok_or_else(|| Mismatch::Missing(text!("missing value for '", key, "'")));
    match kind {
        Kind::Path => path(present()?, env),
        Kind::ExpiryDate => {
            let date = expire_date(present()?).filter(|_| !env.is_set("GIT_TEST_DATE_NOW"));
            date.map(Value::Date).ok_or(Mismatch::Unsupported)
        }
        Kind::Color => {
            let text = present()?;
            color::parse(text).map(Value::Color).ok_or_else(|| Mismatch::Value(invalid_color(text)))
        }
        _ => plain(kind, key, value, source).map_err(Mismatch::Failed),
    }
}

/// Returns a boolean or number of the type `kind`, and values of other types as they are.
fn plain<'a>(
    kind: Kind,
    key: &BStr,
    value: Option<&'a BStr>,
    source: Option<&Configured<'_>>,
) -> Result<Value<'a>, Error> {
    let text = value.unwrap_or_default();
    let bad_number = |reason| bad_number(key, text, source, reason);
    match kind {
        Kind::Bool => repo::parse_bool(value).map(Value::Bool).ok_or_else(|| bad_boolean(key, text)),
        Kind::Int => repo::parse_size(text).map(Value::Int).map_err(bad_number),
        Kind::BoolOrInt => match (repo::parse_number(text), repo::parse_bool(value)) {
            (Ok(number), _) => Ok(Value::Int(number.into())),
            (Err(_), Some(on)) => Ok(Value::Bool(on)),
            (Err(reason), None) => Err(bad_number(reason)),
        },
        Kind::BoolOrStr => Ok(repo::parse_bool(value).map_or(Value::Text(text), Value::Bool)),
        Kind::Path | Kind::ExpiryDate | Kind::Color => Ok(Value::Text(text)),
    }
}

fn path(value: &BStr, env: &Env) -> Result<Value<'static>, Mismatch> {
    if value.starts_with(b"%(prefix)/") {
        return Err(Mismatch::Unsupported);
    }
    match repo::config_path(value, env) {
        Ok(path) => path.map(Value::Path).ok_or(Mismatch::Absent),
        Err(error) => Err(Mismatch::Failed(error.into())),
    }
}

/// Returns the text to store for a value of the type `kind`.
pub(super) fn stored(kind: Option<Kind>, key: &BStr, value: &BStr) -> Result<BString, Error> {
    let Some(kind) = kind else { return Ok(value.to_owned()) };
    if kind == Kind::Color && color::parse(value).is_none() {
        let place = text!("cannot parse color '", value, "'");
        return Err(ConfigError::BadValue { message: invalid_color(value), place }.into());
    }
    Ok(plain(kind, key, Some(value), None)?.text().into_owned().into())
}

/// Returns Git's message about a value that is no colour.
pub(super) fn invalid_color(value: &BStr) -> BString {
    text!("invalid color value: ", value)
}

/// Returns Git's error about a value that is not a boolean.
pub(super) fn bad_boolean(key: &BStr, value: &BStr) -> Error {
    Error::Failed(text!("bad boolean config value '", value, "' for '", key, "'"))
}

fn bad_number(key: &BStr, value: &BStr, source: Option<&Configured<'_>>, reason: &str) -> Error {
    let (place, name) = match source.map(|entry| (entry.origin, entry.source_name)) {
        None | Some((Origin::CommandLine, _)) => ("", BStr::new("")),
        Some((Origin::File, name)) => (" in file ", name),
        Some((Origin::Blob, name)) => (" in blob ", name),
        Some((Origin::Stdin, _)) => (" in standard input", BStr::new("")),
    };
    Error::Failed(text!("bad numeric config value '", value, "' for '", key, "'", place, name, ": ", reason))
}

/// Returns the error of a value that does not have its type.
pub(super) fn bad_value(message: BString, entry: &Configured<'_>) -> PlanError {
    let line = entry.place.map_or(0, |(_, line)| line).to_string();
    let place = match entry.origin {
        Origin::File => text!("bad config line ", line, " in file ", entry.source_name),
        Origin::Stdin => text!("bad config line ", line, " in standard input"),
        Origin::CommandLine => "unable to parse command-line config".into(),
        Origin::Blob => return unsupported("values of another type in a blob"),
    };
    refused(ConfigError::BadValue { message, place })
}
