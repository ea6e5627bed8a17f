//! The environment as a value. The library never asks the process for it.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice};

use crate::{Error, config};

/// Variables by name.
#[derive(Clone, Debug, Default)]
pub struct Env(HashMap<OsString, OsString>);

impl Env {
    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable's value as bytes.
    pub fn bytes(&self, name: &str) -> Option<&BStr> {
        self.get(name).map(|value| value.as_bytes().as_bstr())
    }

    /// A variable as a boolean of configuration; `None` if unset.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.bytes(name) else { return Ok(None) };
        config::parse_bool(Some(value))
            .map(Some)
            .ok_or_else(|| Error::new(format!("bad boolean environment value '{value}' for '{name}'")))
    }

    /// A file of Git's in the user's configuration directory.
    pub(crate) fn xdg_config(&self, name: &str) -> Option<PathBuf> {
        let base = match self.get("XDG_CONFIG_HOME").filter(|xdg| !xdg.is_empty()) {
            Some(xdg) => PathBuf::from(xdg),
            None => Path::new(self.get("HOME")?).join(".config"),
        };
        Some(base.join("git").join(name))
    }

    /// All variables, to hand to a child process.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl From<HashMap<OsString, OsString>> for Env {
    fn from(variables: HashMap<OsString, OsString>) -> Self {
        Env(variables)
    }
}
