//! The interface to configuration and environment.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString};
use format::keys::{Key, Typed as _};

use super::Error;

/// Configuration and environment of the user, and of the repository if there is one.
///
/// Names of settings that it returns have section and variable in lower case.
pub trait Settings {
    /// Returns all settings, in the order in which Git reads them. The value is `None` for a name
    /// without `=`.
    fn entries(&self) -> Vec<(&BStr, Option<&BStr>)>;

    /// Returns the last value of a setting, whose name may have any case; a name without `=` counts
    /// as empty.
    fn string(&self, key: &str) -> Option<&BStr>;

    /// Converts the value of a setting to a path, with `~` expanded. Returns `None` for an optional
    /// path that does not exist.
    fn path(&self, value: &BStr) -> Result<Option<PathBuf>, Error>;

    /// Returns the value of an environment variable.
    fn variable(&self, name: &str) -> Option<&BStr>;

    /// Returns the whole environment.
    fn variables(&self) -> Vec<(OsString, OsString)>;

    /// Returns the environment of a remote helper, which reads the same configuration.
    fn helper_variables(&self) -> Vec<(OsString, OsString)>;

    /// Returns the directory in which processes start.
    fn child_dir(&self) -> &Path;

    /// Returns the function that prints a line of Git, such as `warning: ...`.
    fn message_printer(&self) -> fn(&str);
}

/// Returns the last value of a setting, or its default.
pub(super) fn text<'s>(settings: &'s dyn Settings, key: &Key<BString>) -> &'s BStr {
    settings.string(key.name()).unwrap_or_else(|| BStr::new(key.default().unwrap_or_default()))
}

/// Returns all values of a setting, in order.
pub(super) fn all<'s, T>(settings: &'s dyn Settings, key: &Key<T>) -> Vec<&'s BStr> {
    let entries = settings.entries().into_iter().filter(|(name, _)| key.is(name));
    entries.map(|(_, value)| value.unwrap_or_default()).collect()
}

/// Returns an environment variable as a boolean; `None` if it is not set.
pub(super) fn boolean_variable(settings: &dyn Settings, name: &'static str) -> Result<Option<bool>, Error> {
    let Some(value) = settings.variable(name) else { return Ok(None) };
    let parsed = format::config::parse_bool(Some(value)).map(Some);
    parsed.ok_or_else(|| Error::Variable { name, value: value.to_owned() })
}
