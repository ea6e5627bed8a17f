//! Settings that a command refuses before it does anything, even if it does not need them.
//!
//! Git's commands read the whole configuration in order and fail at the first invalid value.
//! Settings that they read only on demand (`repo_config_get_*`) fail them at that point, and only
//! if no later value overrides the invalid one. Source: git-config(1), and Git's message for each
//! value.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
pub use repo::keys::Reader;
use repo::{
    Configured, Repository, StandaloneConfig,
    keys::{self, Form, Values},
};

use crate::text;

/// The reason why a setting is refused. Its text is Git's, without `fatal: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The error that Git prints first, without `error: `.
    pub detail: Option<String>,
    /// The reason.
    pub message: BString,
}

impl Refused {
    fn new(message: impl Into<BString>) -> Refused {
        Refused { detail: None, message: message.into() }
    }
}

/// Returns an error for a setting that one of `readers` refuses.
pub fn check(repo: &Repository, readers: &[Reader]) -> Result<(), Refused> {
    check_all(repo.configured(), repo.work_tree(), readers)
}

/// Like [`check`], without a repository.
pub fn check_outside(outside: &StandaloneConfig, readers: &[Reader]) -> Result<(), Refused> {
    check_all(outside.configured(), None, readers)
}

fn check_all(all: Vec<Configured<'_>>, top: Option<&Path>, readers: &[Reader]) -> Result<(), Refused> {
    for configured in all {
        if let Some((setting, check)) = keys::checked(configured.key)
            && readers.contains(&check.reader)
            && (check.values == Values::All || configured.is_last)
        {
            check_form(setting.form, top, &configured)?;
        }
    }
    Ok(())
}

fn check_form(form: Form, top: Option<&Path>, configured: &Configured<'_>) -> Result<(), Refused> {
    let Configured { key, value, place, .. } = *configured;
    let bad_number = |kind: &str| {
        let file = place.map_or(String::new(), |(file, _)| format!(" in file {}", shown(top, file)));
        let value = value.unwrap_or_default();
        Refused::new(format!("bad numeric config value '{value}' for '{key}'{file}: {kind}"))
    };
    let given = || value.ok_or_else(|| refused(top, configured, &format!("missing value for '{key}'")));
    let boolean = || match repo::parse_bool(value) {
        Some(_) => Ok(()),
        None => {
            let value = value.unwrap_or_default();
            Err(Refused::new(format!("bad boolean config value '{value}' for '{key}'")))
        }
    };
    let among = |words: &[&str], value: &BStr| words.iter().any(|word| value == *word);
    match form {
        Form::Bool => boolean(),
        Form::BoolOr(words) => match value {
            Some(value) if words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes())) => Ok(()),
            _ => boolean(),
        },
        Form::GivenBoolOr(words) => {
            given()?;
            check_form(Form::BoolOr(words), top, configured)
        }
        Form::Number => repo::parse_number(value.unwrap_or_default()).map(drop).map_err(bad_number),
        Form::Size => repo::parse_unsigned(value.unwrap_or_default()).map(drop).map_err(bad_number),
        Form::Level(name) => match repo::parse_number(value.unwrap_or_default()).map_err(bad_number)? {
            -1..=9 => Ok(()),
            level => Err(Refused::new(format!("bad {name} compression level {level}"))),
        },
        Form::Abbreviation => {
            let value = given()?;
            let is_off =
                || repo::parse_bool(Some(value)) == Some(false) && repo::parse_number(value).is_err();
            if value.eq_ignore_ascii_case(b"auto") || is_off() {
                return Ok(());
            }
            match repo::parse_number(value).map_err(bad_number)? {
                LEAST_LENGTH.. => Ok(()),
                length => Err(refused(top, configured, &format!("abbrev length out of range: {length}"))),
            }
        }
        Form::Text | Form::Path => given().map(drop),
        Form::Character => {
            if given()?.is_empty() {
                Err(refused(top, configured, &format!("{key} must have at least one character")))
            } else {
                Ok(())
            }
        }
        Form::Word(words, wrong) => match given()? {
            value if among(words, value) => Ok(()),
            value => Err(refused(top, configured, &wrong.replace('\0', &value.to_string()))),
        },
        Form::AnyCase(words, wrong) => match given()? {
            value if words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes())) => Ok(()),
            value => Err(refused(top, configured, &wrong.replace('\0', &value.to_string()))),
        },
        Form::Highlight => match given()? {
            value if value.is_empty() || value.split_str(",").all(is_highlight) => Ok(()),
            value => {
                let wrong = format!("unknown value for config '{key}': {value}");
                Err(refused(top, configured, &wrong))
            }
        },
        Form::Count => match repo::parse_number(value.unwrap_or_default()).map_err(bad_number)? {
            0.. => Ok(()),
            _ => Err(unparsable(top, configured)),
        },
        Form::Mode(words, wrong) => match given()? {
            value if among(words, value) => Ok(()),
            value => Err(Refused::new(wrong.replace('\0', &value.to_string()))),
        },
    }
}

/// The minimum length of an abbreviated name.
const LEAST_LENGTH: i32 = 4;

/// Returns the error `wrong` with the setting's file and line.
fn refused(top: Option<&Path>, configured: &Configured<'_>, wrong: &str) -> Refused {
    Refused { detail: Some(wrong.to_owned()), ..unparsable(top, configured) }
}

fn is_highlight(kind: &[u8]) -> bool {
    matches!(kind, b"none" | b"default" | b"all" | b"new" | b"old" | b"context")
}

/// Returns the failure that names the file and line of an invalid value.
fn unparsable(top: Option<&Path>, configured: &Configured<'_>) -> Refused {
    let key = configured.key;
    Refused::new(match configured.place {
        Some((file, line)) => {
            text!(
                "bad config variable '",
                key,
                "' in file '",
                shown(top, file),
                "' at line ",
                line.to_string()
            )
        }
        None => text!("unable to parse '", key, "' from command-line config"),
    })
}

/// Returns a file's path relative to the root of the worktree, if it is below.
fn shown(top: Option<&Path>, file: &Path) -> String {
    let below = top.and_then(|top| file.strip_prefix(top).ok());
    below.unwrap_or(file).display().to_string()
}
