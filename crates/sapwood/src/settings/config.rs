//! One interface to the configuration of a repository and to that without a repository.

use bstr::{BStr, BString};
use repo::{
    Repository, StandaloneConfig,
    keys::{BadValue, Name, Typed, Value},
};

/// A parser of the value of a setting, which keeps the result.
pub type Parse<'p> = dyn FnMut(Option<&BStr>) -> Result<(), BadValue> + 'p;

/// The configuration of a repository, or that without a repository.
pub trait Config {
    /// Returns the names of all settings, in order, each as often as it is set.
    fn names(&self) -> Vec<BString>;
    /// Returns the last value of a setting. `Some(None)` for a key without `=`.
    fn value(&self, name: &str) -> Option<Option<BString>>;
    /// Returns all values of a setting, in order.
    fn all(&self, name: &str) -> Vec<BString>;
    /// Parses the last value of a setting with `parse`. The error names the setting.
    fn parse(&self, name: &str, parse: &mut Parse<'_>) -> Result<(), repo::Error>;
}

impl dyn Config + '_ {
    /// Returns the value of a setting, or its default.
    pub fn get<K: Typed>(&self, key: &K) -> Result<K::Value, repo::Error> {
        let value = self.get_as(key)?;
        Ok(value.unwrap_or_else(|| K::Value::unset(key.default())))
    }

    /// Returns the last value of a setting that may have values of several types, as one of them.
    pub fn get_as<T: Value>(&self, key: &(impl Name + ?Sized)) -> Result<Option<T>, repo::Error> {
        let mut parsed = None;
        self.parse(key.name(), &mut |value| {
            parsed = T::parse(value)?;
            Ok(())
        })?;
        Ok(parsed)
    }
}

macro_rules! config {
    ($($kind:ty),*) => {$(
        impl Config for $kind {
            fn names(&self) -> Vec<BString> {
                self.config_names().map(BStr::to_owned).collect()
            }

            fn value(&self, name: &str) -> Option<Option<BString>> {
                self.config_value(name)
            }

            fn all(&self, name: &str) -> Vec<BString> {
                self.config_all(name)
            }

            fn parse(&self, name: &str, parse: &mut Parse<'_>) -> Result<(), repo::Error> {
                self.parse_config(name, parse)
            }
        }
    )*};
}

config!(Repository, StandaloneConfig);
