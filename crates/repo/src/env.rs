//! The environment as a value. The library never reads the environment of the process.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use bstr::{BStr, ByteSlice};
use sys::UserPath;

use crate::error::{ConfigError, Error};

/// The variables by name.
#[derive(Clone, Debug, Default)]
pub struct Env(HashMap<OsString, OsString>);

impl Env {
    /// Returns true if a variable is set, even to the empty string.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(OsStr::new(name))
    }

    /// Returns the value of a variable.
    pub fn bytes(&self, name: &str) -> Option<&BStr> {
        self.0.get(OsStr::new(name)).map(|value| value.as_bytes().as_bstr())
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: &str, value: OsString) {
        self.0.insert(name.into(), value);
    }

    /// Returns the path in a variable.
    pub fn path(&self, name: &str) -> Option<UserPath> {
        self.bytes(name).map(UserPath::new)
    }

    /// Returns a variable as a boolean, parsed like a setting; `None` if it is not set.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.bytes(name) else { return Ok(None) };
        format::config::parse_bool(Some(value)).map(Some).ok_or_else(|| {
            ConfigError::EnvironmentBoolean { name: name.to_owned(), value: value.to_owned() }.into()
        })
    }

    /// Returns the path of a file of Git in the user's configuration directory.
    pub fn xdg_config(&self, name: &str) -> Option<UserPath> {
        let base = match self.bytes("XDG_CONFIG_HOME").and_then(UserPath::unless_empty) {
            Some(xdg) => xdg,
            None => self.path("HOME")?.with(".config"),
        };
        Some(base.with("git").with(name))
    }

    /// Returns all variables, for a child process.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl From<HashMap<OsString, OsString>> for Env {
    fn from(variables: HashMap<OsString, OsString>) -> Self {
        Env(variables)
    }
}
