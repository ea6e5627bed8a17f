//! The settings of the library, with the warnings that reading and using them prints.

pub(crate) mod rules;

use std::ops::Deref;

use bstr::BString;
use repo::Repository;
pub(crate) use sapwood::settings::{config, expiry, refused, refused::Reader, shared, shared_index_expire};
use sapwood::{refs, settings::Fsync};

use crate::{
    session::{events, invocation::Invocation},
    term::{console, failure::Failure, notice::Printer},
};

/// The settings from the configuration and the environment that commands use.
pub(crate) struct Settings(sapwood::settings::Settings);

impl Deref for Settings {
    type Target = sapwood::settings::Settings;

    fn deref(&self) -> &sapwood::settings::Settings {
        &self.0
    }
}

impl Settings {
    /// Reads the settings. An invalid value is an error with Git's message.
    pub(crate) fn read(repo: &Repository) -> Result<Settings, Failure> {
        let settings = sapwood::settings::Settings::read(repo, &Printer)?;
        Ok(Settings(settings.with_object_warnings(|warning| console::warning(warning))))
    }

    /// See [`sapwood::settings::Settings::for_lookups`].
    pub(crate) fn for_lookups(self) -> Settings {
        Settings(self.0.for_lookups())
    }

    /// See [`sapwood::settings::Settings::for_recording`].
    pub(crate) fn for_recording(self) -> Settings {
        Settings(self.0.for_recording())
    }

    /// See [`sapwood::refs::options`].
    pub(crate) fn refs(&self, repo: &Repository) -> Result<refs::Options, Failure> {
        Ok(sapwood::refs::options(events::printing(repo, self))?)
    }
}

/// `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles`, `GIT_TEST_FSYNC`
pub(crate) fn fsync(run: &Invocation, config: &dyn config::Config) -> Result<Fsync, Failure> {
    let test = run.variable("GIT_TEST_FSYNC").map(BString::from);
    Ok(sapwood::settings::fsync(test.as_ref().map(AsRef::as_ref), config, &Printer)?)
}
