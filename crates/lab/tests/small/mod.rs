//! A small repository, and `lab` with Git and a stand-in program for sapwood.

use std::{path::PathBuf, process::Command};

use testkit::{Repo, Sandbox};

/// A repository in a sandbox.
pub(crate) struct Small<'s> {
    pub(crate) sandbox: &'s Sandbox,
    pub(crate) repo: Repo<'s>,
}

impl<'s> Small<'s> {
    /// Creates a repository with a commit of this many files in this many directories.
    pub(crate) fn new(sandbox: &'s Sandbox, files: usize, directories: usize) -> Small<'s> {
        let repo = sandbox.init("small");
        for number in 0..files {
            repo.write(format!("dir{}/file{number}", number % directories), format!("{number}\n"));
        }
        repo.commit("all of it");
        Small { sandbox, repo }
    }

    /// Returns the path of the record.
    pub(crate) fn record(&self) -> PathBuf {
        self.sandbox.path().join("records/lab.json")
    }

    /// Returns `lab` with these arguments. The program `stand_in` replaces sapwood, and `named` is
    /// the option that names the repository.
    pub(crate) fn lab(&self, args: &[&str], named: &str, stand_in: &str) -> Command {
        let mut command = self.without_repo(args, stand_in);
        command.arg(named).arg(&self.repo.path);
        command
    }

    /// Returns `lab` with these arguments, for a command that makes its own repositories.
    #[allow(dead_code)]
    pub(crate) fn without_repo(&self, args: &[&str], stand_in: &str) -> Command {
        let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
        let stand_in = if stand_in == "git" { git.clone() } else { stand_in.into() };
        let link = self.sandbox.path().join("sapwood");
        if std::fs::symlink_metadata(&link).is_err() {
            std::os::unix::fs::symlink(stand_in, &link).expect("a new name");
        }
        let mut command = self.repo.command(env!("CARGO_BIN_EXE_lab").as_ref());
        command.args(args).arg("--git").arg(git).arg("--sapwood").arg(link);
        command.arg("--scratch").arg(self.sandbox.path().join("scratch"));
        command.arg("--record").arg(self.record());
        command.env("CARGO_TARGET_DIR", self.sandbox.path().join("target"));
        command
    }
}
