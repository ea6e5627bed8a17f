//! What can be known without a repository, or of somebody else's.

use std::path::PathBuf;

use bstr::{BStr, BString};

use crate::{
    Env, Error, OpenOptions, Repository,
    config::{self, Config, Sources},
    open,
};

/// The configuration outside of any repository: system, global, command line.
pub struct Outside {
    env: Env,
    config: Config,
}

impl Outside {
    /// Reads it.
    pub fn load(options: &OpenOptions) -> Result<Outside, Error> {
        let env = Env::from(options.env.clone());
        let config = config::load(&env, Sources { command: &options.config, ..Sources::default() })?;
        Ok(Outside { env, config })
    }

    /// Last value of a key; a name without `=` counts as empty.
    pub fn config_str(&self, key: &str) -> Option<BString> {
        self.config.string(key).map(ToOwned::to_owned)
    }

    /// See [`Repository::config_names`].
    pub fn config_names(&self) -> impl Iterator<Item = &BStr> {
        self.config.names()
    }

    /// Last value of a key as a boolean.
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.config.boolean(key)
    }

    /// Last value of a key as a path, `~` expanded.
    pub fn config_path(&self, key: &str) -> Result<Option<PathBuf>, Error> {
        self.config.path(key, &self.env)
    }
}

impl Repository {
    /// Opens the repository at `options.git_dir` to take from it. Naming it does not make it
    /// trusted: one that somebody else owns is refused unless `safe.directory` allows it.
    pub fn open_source(options: &OpenOptions) -> Result<Repository, Error> {
        if let Some(git_dir) = &options.git_dir {
            open::check_owner(options, &Env::from(options.env.clone()), git_dir)?;
        }
        Repository::open(options)
    }
}
