//! Tests of reading repositories, with Git as oracle.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod convert;
mod filters;
mod floors;
mod open;
mod refs;
mod revisions;
mod trust;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use repo::{OpenOptions, Repository};
use testkit::Repo;

/// Returns the path of the oracle.
fn git() -> PathBuf {
    std::env::var_os("SAPWOOD_TEST_GIT").map_or_else(|| "git".into(), PathBuf::from)
}

/// Returns options with the environment of the sandbox, to open the repository from one of its
/// directories.
fn options(at: &Repo<'_>) -> OpenOptions {
    let command = at.command(Path::new("git"));
    let env: HashMap<_, _> =
        command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    OpenOptions { cwd: at.path.clone(), env: env.into(), ..OpenOptions::default() }
}

fn open(at: &Repo<'_>) -> Repository {
    Repository::open(&options(at)).expect("a repository")
}

/// Returns Git's output for one command, without the line end.
fn git_output(at: &Repo<'_>, args: &[&str]) -> String {
    at.git(args).stdout.to_string().trim_end().to_owned()
}

/// Returns the text after `fatal: ` in Git's error, with all its lines.
fn fatal(at: &Repo<'_>, args: &[&str]) -> String {
    let stderr = at.try_git(args).stderr.to_string();
    let start = stderr.find("fatal: ").unwrap_or_else(|| panic!("{args:?} did not fail: {stderr}"));
    stderr[start + 7..].trim_end().to_owned()
}
