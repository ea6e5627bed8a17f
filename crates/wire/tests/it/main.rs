//! Tests of connections to real servers.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod floors;
mod http;
mod protocol;

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use testkit::Repo;
use wire::{Error, Settings};

/// The settings of a repository, as Git reads them, and the environment of its sandbox.
struct RepoSettings {
    entries: Vec<(BString, Option<BString>)>,
    variables: HashMap<OsString, OsString>,
    dir: PathBuf,
    print: fn(&str),
}

impl RepoSettings {
    fn of(repo: &Repo<'_>) -> RepoSettings {
        let listed = repo.git(&["config", "--list", "-z"]).stdout;
        let entries = listed.split_str("\0").filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| match entry.split_once_str("\n") {
            Some((key, value)) => (key.into(), Some(value.into())),
            None => (entry.into(), None),
        });
        let command = repo.command(Path::new("git"));
        let variables = command.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
        RepoSettings {
            entries: entries.collect(),
            variables: variables.collect(),
            dir: repo.path.clone(),
            print: |_| {},
        }
    }
}

impl Settings for RepoSettings {
    fn entries(&self) -> Vec<(&BStr, Option<&BStr>)> {
        let entries = self.entries.iter();
        entries.map(|(key, value)| (key.as_bstr(), value.as_ref().map(|value| value.as_bstr()))).collect()
    }

    fn string(&self, key: &str) -> Option<&BStr> {
        let (_, value) =
            self.entries().into_iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()))?;
        Some(value.unwrap_or_default())
    }

    fn path(&self, value: &BStr) -> Result<Option<PathBuf>, Error> {
        Ok(Some(value.to_path_lossy().into_owned()))
    }

    fn variable(&self, name: &str) -> Option<&BStr> {
        self.variables.get(&OsString::from(name)).map(|value| value.as_encoded_bytes().as_bstr())
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.variables.clone().into_iter().collect()
    }

    fn helper_variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables = self.variables();
        variables.push(("GIT_DIR".into(), ".git".into()));
        variables
    }

    fn child_dir(&self) -> &Path {
        &self.dir
    }

    fn message_printer(&self) -> fn(&str) {
        self.print
    }
}
