//! The environment as a value. The library never reads the environment of the process.

use std::{
    collections::{HashMap, hash_map},
    ffi::{OsStr, OsString},
    ops::{Deref, DerefMut},
    os::unix::ffi::OsStrExt,
    sync::Arc,
};

use bstr::{BStr, ByteSlice};
use sys::UserPath;

use crate::error::{ConfigError, Error};

/// The variables by name. Clones share one map until one of them is changed: a process opens
/// several repositories with the same environment.
#[derive(Clone, Debug, Default)]
pub struct Env(Arc<HashMap<OsString, OsString>>);

impl Env {
    /// Returns true if a variable is set, even to the empty string.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(OsStr::new(name))
    }

    /// Returns the value of a variable.
    pub fn bytes(&self, name: &str) -> Option<&BStr> {
        self.0.get(OsStr::new(name)).map(|value| value.as_bytes().as_bstr())
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
}

impl From<HashMap<OsString, OsString>> for Env {
    fn from(variables: HashMap<OsString, OsString>) -> Self {
        Env(Arc::new(variables))
    }
}

impl<const N: usize> From<[(OsString, OsString); N]> for Env {
    fn from(variables: [(OsString, OsString); N]) -> Self {
        variables.into_iter().collect()
    }
}

impl Deref for Env {
    type Target = HashMap<OsString, OsString>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Env {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a> IntoIterator for &'a Env {
    type Item = (&'a OsString, &'a OsString);
    type IntoIter = hash_map::Iter<'a, OsString, OsString>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<(OsString, OsString)> for Env {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        variables.into_iter().collect::<HashMap<_, _>>().into()
    }
}
