//! Values of settings.

use bstr::{BStr, BString, ByteSlice as _};
use format::keys::{BadValue, Key, Name, PathText, Typed, Value};
use sys::UserPath;

use super::Repository;
use crate::{
    config::{self, Config, Configured, OneSource},
    disk,
    error::{Attempt, Error},
};

/// See [`Repository::into_settings`].
#[derive(Debug)]
pub struct Settings(Config);

impl Repository {
    /// Returns the last value of a key, `section.subsection.name`. A name without `=` counts as
    /// empty.
    pub fn config_str(&self, key: &(impl Name + ?Sized)) -> Option<BString> {
        self.config.string(key).map(ToOwned::to_owned)
    }

    /// Like [`Repository::config_str`], but a name without `=` is an error.
    pub fn config_str_required(&self, key: &impl Name) -> Result<Option<BString>, Error> {
        Ok(self.config.string_required(key.name(), self.message_context())?.map(ToOwned::to_owned))
    }

    fn message_context(&self) -> config::MessageContext<'_> {
        config::MessageContext { message_sink: self.message_sink(), top: self.work_tree() }
    }

    /// Returns the last value of a key; `Some(None)` for a name without `=`.
    pub fn config_value(&self, key: &(impl Name + ?Sized)) -> Option<Option<BString>> {
        self.config.value(key)
    }

    /// Returns the value of a setting, or its default. Numbers may have the units k, m and g, which
    /// are powers of 1,024.
    pub fn config<K: Typed>(&self, key: &K) -> Result<K::Value, Error> {
        self.config.get(key)
    }

    /// Returns the text of a setting, or its default.
    pub fn config_text(&self, key: &impl Typed<Value = BString>) -> BString {
        self.config_str(key).unwrap_or_else(|| BString::unset(key.default()))
    }

    /// Parses the last value of a setting with `parse`. The error names the setting.
    pub fn parse_config(
        &self,
        name: &str,
        parse: &mut dyn FnMut(Option<&BStr>) -> Result<(), BadValue>,
    ) -> Result<(), Error> {
        self.config.parse(name, parse).map(drop)
    }

    /// Returns the last value of a setting that may have values of several types, as one of them.
    pub fn config_as<T: Value>(&self, key: &(impl Name + ?Sized)) -> Result<Option<T>, Error> {
        Ok(self.config.parse(key.name(), &mut T::parse)?.flatten())
    }

    /// Returns the last value of a key as a path, with `~` expanded. A relative path starts at
    /// [`Repository::base_dir`].
    pub fn config_path(&self, key: &impl Typed<Value = Option<PathText>>) -> Result<Option<UserPath>, Error> {
        self.config.path(key, self.env(), self.message_context())
    }

    /// Expands a leading `~` of a path; `None` if there is no such home directory.
    pub fn expanded(&self, path: &BStr) -> Option<UserPath> {
        config::value::interpolate(path, self.env())
    }

    /// Returns the last value of a setting in the file that all worktrees share. Includes are not
    /// followed. A name without `=` counts as `true`.
    pub fn shared_config<T>(&self, key: &Key<T>) -> Result<Option<BString>, Error> {
        let file = self.common_dir().join("config");
        let content = disk::read_optional(&file).map_err(Attempt::Read.on(&file))?;
        let pairs = format::config::parse(&content.unwrap_or_default())
            .map_err(|bad| config::bad_line(bad, &file))?;
        let found = pairs.into_iter().rev().find(|pair| key.is(pair.key.as_bstr()));
        Ok(found.map(|pair| pair.value.unwrap_or_else(|| "true".into())))
    }

    /// Returns all settings with their values at the time when the repository was opened.
    pub fn into_settings(self) -> Settings {
        Settings(self.config)
    }

    /// Restores from `before` the settings that Git's commands read at startup. The conditions of
    /// includes may have changed since then.
    pub fn restore_startup_settings(&mut self, before: Settings) {
        self.config.restore_startup_settings(before.0);
    }

    /// Returns all values of a key, in order.
    pub fn config_all(&self, key: &(impl Name + ?Sized)) -> Vec<BString> {
        self.config.all(key).map(ToOwned::to_owned).collect()
    }

    /// Returns all values of all settings, in the order in which Git reads them.
    pub fn configured(&self) -> Vec<Configured<'_>> {
        self.config.configured()
    }

    /// Returns all settings.
    pub fn config_values(&self) -> &Config {
        &self.config
    }

    /// Reads the settings of one source.
    pub fn config_of(&self, one: OneSource<'_>) -> Result<Config, Error> {
        let sources = config::Sources {
            git_dir: Some(&self.layout.git_dir),
            message_sink: self.options.message_sink,
            ..config::Sources::default()
        };
        config::load_one(self.env(), sources, one)
    }

    /// Returns the names of all settings, in order of appearance. Section and variable are in lower
    /// case, subsections are as written.
    pub fn config_names(&self) -> impl Iterator<Item = &BStr> {
        self.config.names()
    }

    /// Returns the names of the configured remotes, in order of appearance.
    pub fn remotes(&self) -> Vec<BString> {
        self.config.subsections("remote").into_iter().map(ToOwned::to_owned).collect()
    }
}
