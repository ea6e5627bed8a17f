//! Configuration without a repository, and access to the repository of another user.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString};
use format::keys::{BadValue, Name, PathText, Typed, Value};
use sys::UserPath;

use crate::{
    Attempt, Config, Configured, Env, Error, MessageSink, OneSource, OpenOptions, Repository,
    config::{self, MessageContext, Sources},
    disk, open,
};

/// The configuration outside any repository: system, global, command line.
pub struct StandaloneConfig {
    env: Env,
    config: Config,
    message_sink: MessageSink,
    cwd: PathBuf,
    /// `-c key=value`, in order.
    command: Vec<BString>,
}

impl StandaloneConfig {
    /// Reads the configuration.
    pub fn load(options: &OpenOptions) -> Result<StandaloneConfig, Error> {
        let env = options.env.clone();
        let sources = Sources {
            place: Some(&options.cwd),
            command: &options.config,
            message_sink: options.message_sink,
            ..Sources::default()
        };
        let config = config::load(&env, sources)?;
        Ok(StandaloneConfig::of(env, config, options))
    }

    /// Reads the configuration for a repository that is being created. `config` is the file that
    /// will become the configuration of `git_dir`.
    pub fn with_file(
        options: &OpenOptions,
        git_dir: &Path,
        config: &Path,
    ) -> Result<StandaloneConfig, Error> {
        let env = options.env.clone();
        let sources = Sources {
            git_dir: Some(git_dir),
            local: Some(config),
            place: Some(&options.cwd),
            is_being_created: true,
            command: &options.config,
            message_sink: options.message_sink,
            ..Sources::default()
        };
        let config = config::load(&env, sources)?;
        Ok(StandaloneConfig::of(env, config, options))
    }

    /// Returns all settings.
    pub fn config_values(&self) -> &Config {
        &self.config
    }

    fn of(env: Env, config: Config, options: &OpenOptions) -> StandaloneConfig {
        let (cwd, command) = (options.cwd.clone(), options.config.clone());
        StandaloneConfig { env, config, message_sink: options.message_sink, cwd, command }
    }

    pub(crate) fn message_sink(&self) -> MessageSink {
        self.message_sink
    }

    /// Returns the directory that relative paths begin at.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the settings of the command line.
    pub(crate) fn command_config(&self) -> &[BString] {
        &self.command
    }

    /// Returns the environment.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the last value of a key; `Some(None)` for a name without `=`.
    pub fn config_value(&self, key: &(impl Name + ?Sized)) -> Option<Option<BString>> {
        self.config.value(key)
    }

    /// Returns the last value of a key; a name without `=` counts as empty.
    pub fn config_str(&self, key: &(impl Name + ?Sized)) -> Option<BString> {
        self.config.string(key).map(ToOwned::to_owned)
    }

    /// Returns all values of a key, in order.
    pub fn config_all(&self, key: &(impl Name + ?Sized)) -> Vec<BString> {
        self.config.all(key).map(ToOwned::to_owned).collect()
    }

    /// See [`Repository::config_names`].
    pub fn config_names(&self) -> impl Iterator<Item = &BStr> {
        self.config.names()
    }

    /// Returns the value of a setting, or its default. Numbers may have the units k, m and g, which
    /// are powers of 1,024.
    pub fn config<K: Typed>(&self, key: &K) -> Result<K::Value, Error> {
        self.config.get(key)
    }

    /// See [`Repository::config_text`].
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

    /// Returns the last value of a key as a path, with `~` expanded.
    pub fn config_path(&self, key: &impl Typed<Value = Option<PathText>>) -> Result<Option<UserPath>, Error> {
        self.config.path(key, &self.env, MessageContext { message_sink: self.message_sink, top: None })
    }

    /// See [`Repository::config_of`].
    pub fn config_of(&self, one: OneSource<'_>) -> Result<Config, Error> {
        let sources = Sources { message_sink: self.message_sink, ..Sources::default() };
        config::load_one(&self.env, sources, one)
    }

    /// See [`Repository::configured`].
    pub fn configured(&self) -> Vec<Configured<'_>> {
        self.config.configured()
    }
}

impl Repository {
    /// Opens the repository at `git_dir`. A repository of another user is refused unless
    /// `safe.directory` allows it, although the path is explicit.
    pub fn open_owned(options: &OpenOptions, git_dir: &Path) -> Result<Repository, Error> {
        open::check_owner(options, &options.env, git_dir)?;
        Repository::open(&OpenOptions { git_dir: Some(git_dir.to_owned()), ..options.clone() })
    }

    /// Opens the repository at `git_dir` as the source of a clone, with the settings and current
    /// directory of `options`. An explicit path does not make it trusted: a repository of another
    /// user is refused unless `safe.directory` allows it.
    pub fn open_source(options: &OpenOptions, git_dir: &Path) -> Result<Repository, Error> {
        let warnings = open::check_owner(options, &options.env, git_dir)?;
        // The environment of this process does not apply to the source, as if Git were started
        // inside it.
        let mut repo = Repository::open(&OpenOptions {
            cwd: git_dir.to_owned(),
            git_dir: Some(git_dir.to_owned()),
            work_tree: None,
            bare: false,
            is_being_created: false,
            config: Vec::new(),
            env: wire::without_repository(&options.env).into(),
            message_sink: options.message_sink,
            is_created_by_command: false,
            lazy_fetch: options.lazy_fetch.clone(),
        })?;
        repo.warnings = warnings;
        Ok(repo)
    }
}

/// Returns the settings of one file; empty if the file does not exist. Section and variable are in
/// lower case. Includes are not followed.
pub fn config_file(path: &Path) -> Result<Vec<(BString, Option<BString>)>, Error> {
    let bytes = disk::read_optional(path).map_err(Attempt::Read.on(path))?.unwrap_or_default();
    let pairs = format::config::parse(&bytes).map_err(|bad| config::bad_line(bad, path))?;
    Ok(pairs.into_iter().map(|pair| (pair.key, pair.value)).collect())
}
