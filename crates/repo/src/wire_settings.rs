//! Configuration and environment for the clients of [`wire`].

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use bstr::BStr;

use crate::{
    Env, Error, Repository, StandaloneConfig,
    config::{self, Config},
    config_parameters,
};

impl wire::Settings for Repository {
    fn entries(&self) -> Vec<(&BStr, Option<&BStr>)> {
        entries(&self.config)
    }

    fn string(&self, key: &str) -> Option<&BStr> {
        self.config.string(key)
    }

    fn path(&self, value: &BStr) -> Result<Option<PathBuf>, wire::Error> {
        path(value, self.env())
    }

    fn variable(&self, name: &str) -> Option<&BStr> {
        self.env().bytes(name)
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        variables(self.env())
    }

    fn helper_variables(&self) -> Vec<(OsString, OsString)> {
        let git_dir = self.exported_git_dir().unwrap_or(Path::new(".git"));
        with_variable(self.child_env(), "GIT_DIR", git_dir.into())
    }

    fn child_dir(&self) -> &Path {
        Repository::child_dir(self)
    }

    fn message_printer(&self) -> fn(&str) {
        self.message_sink().0
    }
}

impl wire::Settings for StandaloneConfig {
    fn entries(&self) -> Vec<(&BStr, Option<&BStr>)> {
        entries(self.config_values())
    }

    fn string(&self, key: &str) -> Option<&BStr> {
        self.config_values().string(key)
    }

    fn path(&self, value: &BStr) -> Result<Option<PathBuf>, wire::Error> {
        path(value, self.env())
    }

    fn variable(&self, name: &str) -> Option<&BStr> {
        self.env().bytes(name)
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        variables(self.env())
    }

    fn helper_variables(&self) -> Vec<(OsString, OsString)> {
        let before = self.env().bytes("GIT_CONFIG_PARAMETERS");
        match config_parameters(before, self.command_config()) {
            Some(parameters) => with_variable(self.variables(), "GIT_CONFIG_PARAMETERS", parameters),
            None => self.variables(),
        }
    }

    fn child_dir(&self) -> &Path {
        self.cwd()
    }

    fn message_printer(&self) -> fn(&str) {
        self.message_sink().0
    }
}

impl From<Error> for wire::Error {
    fn from(error: Error) -> wire::Error {
        wire::Error::Caller(error.into())
    }
}

fn entries(config: &Config) -> Vec<(&BStr, Option<&BStr>)> {
    config.configured().into_iter().map(|one| (one.key, one.value)).collect()
}

fn path(value: &BStr, env: &Env) -> Result<Option<PathBuf>, wire::Error> {
    Ok(config::path(value, env)?.map(|path| PathBuf::from(path.as_os_str())))
}

fn variables(env: &Env) -> Vec<(OsString, OsString)> {
    env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Sets a variable.
fn with_variable(
    mut variables: Vec<(OsString, OsString)>,
    name: &str,
    value: OsString,
) -> Vec<(OsString, OsString)> {
    variables.retain(|(known, _)| known != name);
    variables.push((name.into(), value));
    variables
}
