//! A small repository for the targets that need one.

use std::{path::PathBuf, process::Command};

use repo::{OpenOptions, Repository};

/// A temporary repository, removed with this value.
pub struct Fixture(tempfile::TempDir);

impl Fixture {
    /// Creates two commits, a tag, a branch with an upstream, and reflogs, with the `git` in
    /// `PATH`.
    pub fn new() -> Fixture {
        let fixture = Fixture(tempfile::tempdir().expect("a temporary directory"));
        fixture.git("init -q -b main");
        std::fs::write(fixture.path().join("file"), "text").expect("a writable file");
        fixture.git("add file");
        for message in ["first", "second"] {
            fixture.git(&format!("commit -q --allow-empty -m {message}"));
        }
        fixture.git("tag -a -m message tag");
        fixture.git("checkout -q -b topic --track main");
        fixture
    }

    /// The worktree.
    pub fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// Opens the repository.
    pub fn open(&self) -> Repository {
        Repository::open(&OpenOptions { cwd: self.path(), ..OpenOptions::default() }).expect("a repository")
    }

    fn git(&self, args: &str) {
        let mut git = Command::new("git");
        git.args(args.split(' ')).current_dir(self.path()).env("GIT_CONFIG_NOSYSTEM", "1");
        git.env("HOME", self.path());
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "A U Thor");
            git.env(format!("GIT_{role}_EMAIL"), "author@example.com");
            git.env(format!("GIT_{role}_DATE"), "1112911993 -0700");
        }
        assert!(git.status().expect("git can be run").success(), "git {args} succeeds");
    }
}
