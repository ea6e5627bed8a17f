//! One interface to the configuration of a repository and to that without a repository.

use bstr::{BStr, BString};
use repo::{Repository, StandaloneConfig};

/// The configuration of a repository, or that without a repository.
pub(crate) trait Config {
    fn names(&self) -> Vec<BString>;
    fn value(&self, name: &str) -> Option<Option<BString>>;
    fn all(&self, name: &str) -> Vec<BString>;
    fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error>;
    fn number(&self, name: &str) -> Result<Option<i32>, repo::Error>;
    fn size(&self, name: &str) -> Result<Option<u64>, repo::Error>;
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

            fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error> {
                self.config_bool(name)
            }

            fn number(&self, name: &str) -> Result<Option<i32>, repo::Error> {
                self.config_int(name)
            }

            fn size(&self, name: &str) -> Result<Option<u64>, repo::Error> {
                self.config_size(name)
            }
        }
    )*};
}

config!(Repository, StandaloneConfig);
