//! Finds settings, and reads their values as types.

use std::borrow::Cow;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Configured, Env, Origin, Scope, keys};
use sys::Regex;

use super::{
    source::Found,
    unsupported_value,
    url::{self, Url},
    value::{Kind, Mismatch, Value, bad_boolean, bad_value, invalid_color, typed},
};
use crate::{Error, PlanError, color, error::ConfigError, text};

/// The settings to find.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The name.
    pub name: BString,
    /// The name is a regular expression.
    pub is_regexp: bool,
    /// The values.
    pub values: Values,
    /// The type of the values; `None` to leave them as they are.
    pub kind: Option<Kind>,
    /// The value to return if nothing is found.
    pub default: Option<BString>,
}

/// The selected values of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// All.
    #[default]
    All,
    /// None: a change adds a value.
    None,
    /// The values that equal this one.
    Exactly(BString),
    /// The values that match a regular expression; `!` negates it.
    Matching(BString),
}

/// A query with its compiled patterns.
pub struct Search {
    query: Query,
    names: NameTest,
    values: ValueTest,
}

enum NameTest {
    Is(BString),
    Matches(Regex),
}

pub(super) enum ValueTest {
    All,
    None,
    Exactly(BString),
    Matching { regex: Regex, is_negated: bool },
}

impl Search {
    /// Checks the name, and compiles the patterns.
    pub fn new(query: Query) -> Result<Search, Error> {
        let names = if query.is_regexp {
            // Section and variable are in lower case in the names that the pattern is matched
            // against.
            let mut pattern = query.name.clone();
            format::config::normalize(&mut pattern);
            let invalid = |_| ConfigError::Pattern(text!("invalid key pattern: ", query.name));
            NameTest::Matches(Regex::of_text(&pattern).map_err(invalid)?)
        } else {
            NameTest::Is(normalized(query.name.as_bstr())?)
        };
        let values = ValueTest::of(&query.values)?;
        Ok(Search { query, names, values })
    }
}

impl ValueTest {
    pub(super) fn of(values: &Values) -> Result<ValueTest, ConfigError> {
        Ok(match values {
            Values::All => ValueTest::All,
            Values::None => ValueTest::None,
            Values::Exactly(wanted) => ValueTest::Exactly(wanted.clone()),
            Values::Matching(pattern) => {
                let (pattern, is_negated) = match pattern.strip_prefix(b"!") {
                    Some(rest) => (rest.as_bstr(), true),
                    None => (pattern.as_bstr(), false),
                };
                let invalid = |_| ConfigError::Pattern(text!("invalid pattern: ", pattern));
                ValueTest::Matching { regex: Regex::of_text(pattern).map_err(invalid)?, is_negated }
            }
        })
    }

    pub(super) fn accepts(&self, value: Option<&BStr>) -> bool {
        match self {
            ValueTest::All => true,
            ValueTest::None => false,
            // A key without `=` has no value that could differ.
            ValueTest::Exactly(wanted) => value.is_none_or(|value| value == wanted),
            ValueTest::Matching { regex, is_negated } => {
                *is_negated != value.is_some_and(|value| regex.find(value, true).is_some())
            }
        }
    }
}

/// Checks a name, and converts section and variable to lower case.
pub(super) fn normalized(name: &BStr) -> Result<BString, ConfigError> {
    use format::config::Error::{NoName, NoSection};
    format::config::Key::parse(name).map_err(|error| {
        // The name need not be UTF-8.
        let message = error.to_string();
        let problem = message.split(": ").next().unwrap_or_default();
        let is_incomplete = matches!(error, NoSection(_) | NoName(_));
        ConfigError::Key { message: text!(problem, ": ", name), is_incomplete }
    })?;
    let mut key = name.to_owned();
    format::config::normalize(&mut key);
    Ok(key)
}

/// A setting that was found.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The name; section and variable are in lower case.
    pub key: Cow<'a, BStr>,
    /// The value; `None` without a type for a name without `=`.
    pub value: Option<Value<'a>>,
    /// The scope of its source.
    pub scope: Scope,
    /// The kind of its source.
    pub origin: Origin,
    /// The file or blob in Git's form; empty for other sources.
    pub source: &'a BStr,
}

/// Settings, without those whose values do not have the type.
#[derive(Debug, Default)]
pub struct Listed<'a> {
    /// The settings.
    pub records: Vec<Record<'a>>,
    /// Messages of Git's about settings that are left out.
    pub messages: Vec<BString>,
    /// The error that ended the list.
    pub failed: Option<Error>,
    /// True if no setting was found, whatever its value.
    pub is_empty: bool,
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorUse {
    /// Never.
    Never,
    /// Always.
    Always,
    /// On a terminal.
    Auto,
}

impl Found<'_> {
    /// Returns the settings that a query selects.
    pub fn search<'s>(&'s self, search: &'s Search) -> Result<Vec<Record<'s>>, PlanError> {
        let Query { name, kind, default, .. } = &search.query;
        let mut records = Vec::new();
        let candidates = match &search.names {
            NameTest::Is(key) => self.named(key.as_bstr()),
            NameTest::Matches(_) => self.entries(),
        };
        for entry in candidates {
            let is_named = match &search.names {
                NameTest::Is(_) => true,
                NameTest::Matches(regex) => regex.find(entry.key, true).is_some(),
            };
            if is_named && search.values.accepts(Some(entry.value.unwrap_or_default())) {
                let record = record(*kind, Cow::Borrowed(entry.key), entry.value, Some(&entry), self.env());
                records.extend(present(record, |message| bad_value(message, &entry))?);
            }
        }
        if let (true, Some(default)) = (records.is_empty(), default) {
            let key = Cow::Borrowed(name.as_bstr());
            let record = record(*kind, key, Some(default.as_bstr()), None, self.env());
            records.extend(present(record, |message| {
                let place = text!("failed to format default config value: ", default);
                super::refused(ConfigError::BadValue { message, place })
            })?);
        }
        Ok(records)
    }

    /// Returns all settings.
    pub fn list(&self, kind: Option<Kind>) -> Result<Listed<'_>, PlanError> {
        self.must_exist()?;
        let entries = self.entries();
        let mut listed = Listed { is_empty: entries.is_empty(), ..Listed::default() };
        for entry in entries {
            match record(kind, Cow::Borrowed(entry.key), entry.value, Some(&entry), self.env()) {
                Ok(record) => listed.records.push(record),
                Err(Mismatch::Missing(message)) => listed.messages.push(message),
                Err(Mismatch::Failed(error)) if kind == Some(Kind::Path) => {
                    listed.records.clear();
                    listed.failed = Some(error);
                    break;
                }
                Err(Mismatch::Unsupported) => return Err(unsupported_value()),
                Err(_) => {}
            }
        }
        Ok(listed)
    }

    /// Returns the settings of `section` for a URL; that of one variable, or all. Both names are in
    /// lower case.
    pub fn for_url(
        &self,
        section: &BStr,
        variable: Option<&BStr>,
        url: &Url,
        kind: Option<Kind>,
    ) -> Result<Listed<'_>, PlanError> {
        let best = url::best(self.entries(), section, variable, url);
        let best = best.map_err(|url::UnsupportedUrl| unsupported_value())?;
        let mut listed = Listed { is_empty: best.is_empty(), ..Listed::default() };
        for (name, entry) in best {
            match record(kind, Cow::Owned(name), entry.value, Some(&entry), self.env()) {
                Ok(record) => listed.records.push(record),
                Err(Mismatch::Absent) => {}
                Err(Mismatch::Value(message) | Mismatch::Missing(message)) => listed.messages.push(message),
                Err(Mismatch::Failed(error)) => {
                    listed.failed = Some(error);
                    break;
                }
                Err(Mismatch::Unsupported) => return Err(unsupported_value()),
            }
        }
        Ok(listed)
    }

    /// Returns the escape sequence of the colour that a setting has, or by default `default`. The
    /// name is not checked.
    pub fn color(&self, name: &BStr, default: Option<&BStr>) -> Result<BString, PlanError> {
        let mut shown = None;
        for entry in self.named(name) {
            let text = entry.value.ok_or_else(unsupported_value)?;
            let sequence = color::parse(text);
            shown = Some(sequence.ok_or_else(|| bad_value(invalid_color(text), &entry))?);
        }
        match (shown, default) {
            (Some(shown), _) => Ok(shown),
            (None, None) => Ok(BString::default()),
            (None, Some(default)) => color::parse(default).ok_or_else(unsupported_value),
        }
    }

    /// Returns when output is coloured: by a setting, or by `color.ui`.
    pub fn color_use(&self, name: &BStr) -> Result<ColorUse, Error> {
        let (mut own, mut diff, mut all) = (None, None, None);
        for entry in self.entries() {
            let field = match entry.key {
                key if key == name => &mut own,
                key if keys::diff::COLOR.is(key) => &mut diff,
                key if keys::color::UI.is(key) => &mut all,
                _ => continue,
            };
            *field = Some(ColorUse::of(&entry)?);
        }
        let diff = diff.filter(|_| name == keys::color::DIFF.name());
        Ok(own.or(diff).or(all).unwrap_or(ColorUse::Auto))
    }
}

impl ColorUse {
    fn of(entry: &Configured<'_>) -> Result<ColorUse, Error> {
        let is = |word: &str| entry.value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
        if is("never") {
            return Ok(ColorUse::Never);
        } else if is("always") {
            return Ok(ColorUse::Always);
        } else if is("auto") {
            return Ok(ColorUse::Auto);
        }
        match repo::parse_bool(entry.value) {
            Some(true) => Ok(ColorUse::Auto),
            Some(false) => Ok(ColorUse::Never),
            None => Err(bad_boolean(entry.key, entry.value.unwrap_or_default())),
        }
    }
}

/// Returns a record; `source` is `None` for a default.
fn record<'a>(
    kind: Option<Kind>,
    key: Cow<'a, BStr>,
    value: Option<&'a BStr>,
    source: Option<&Configured<'a>>,
    env: &Env,
) -> Result<Record<'a>, Mismatch> {
    let value = match kind {
        Some(kind) => Some(typed(kind, &key, value, source, env)?),
        None => value.map(Value::Text),
    };
    let (scope, origin, source) = match source {
        Some(entry) => (entry.scope, entry.origin, entry.source_name),
        None => (Scope::Command, Origin::CommandLine, BStr::new("")),
    };
    Ok(Record { key, value, scope, origin, source })
}

/// Returns a record, `None` for an optional path that does not exist, or the error; that of a value
/// by its message.
fn present<'a>(
    record: Result<Record<'a>, Mismatch>,
    bad: impl FnOnce(BString) -> PlanError,
) -> Result<Option<Record<'a>>, PlanError> {
    match record {
        Ok(record) => Ok(Some(record)),
        Err(Mismatch::Absent) => Ok(None),
        Err(Mismatch::Failed(error)) => Err(error.into()),
        Err(Mismatch::Unsupported) => Err(unsupported_value()),
        Err(Mismatch::Value(message) | Mismatch::Missing(message)) => Err(bad(message)),
    }
}
