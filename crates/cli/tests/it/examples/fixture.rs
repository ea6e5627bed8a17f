//! A Git server and a remote for bases, and scripts that run as on a CI runner.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::{
    Repo, Sandbox,
    disk::NoMountsBelow,
    servers::{Nginx, NginxOptions},
};

use crate::SAPWOOD;

/// A Git server with one repository, and the URL of a remote for bases.
pub(super) struct Fixture {
    nginx: Nginx,
    pub(super) sandbox: Sandbox,
    _mounts: NoMountsBelow,
}

impl Fixture {
    pub(super) fn new() -> Fixture {
        let sandbox = Sandbox::new();
        let work = sandbox.init("work");
        for number in 0..60 {
            work.write(format!("dir{}/file{number}", number % 5), format!("{number}\n"));
        }
        work.commit("one");
        work.git(&["clone", "-q", "--bare", ".", "../server/app.git"]);
        work.git(&["remote", "add", "origin", "../server/app.git"]);
        fs::create_dir(sandbox.path().join("remote")).expect("a new directory");
        fs::create_dir(sandbox.path().join("bin")).expect("a new directory");
        std::os::unix::fs::symlink(SAPWOOD, sandbox.path().join("bin/sapwood")).expect("a new link");
        let config = [("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true")];
        let options = NginxOptions { config: &config, ..NginxOptions::default() };
        let nginx = Nginx::with(&sandbox.path().join("server"), options);
        let mounts = NoMountsBelow::new(&sandbox.path());
        Fixture { nginx, sandbox, _mounts: mounts }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.sandbox.path()
    }

    /// Returns the URL of the repository on the Git server.
    pub(super) fn url(&self) -> String {
        self.nginx.url("git/app.git")
    }

    /// Returns the URL of a remote for bases, which is a directory.
    pub(super) fn remote(&self) -> String {
        format!("file://{}/remote", self.sandbox.path().display())
    }

    pub(super) fn work(&self) -> Repo<'_> {
        self.sandbox.repo("work")
    }

    /// Adds a commit to the server, and returns it.
    pub(super) fn commit(&self, content: &str) -> String {
        self.work().write("dir1/file1", content);
        self.work().commit(content);
        self.work().git(&["push", "-q", "origin", "main"]);
        self.tip()
    }

    pub(super) fn tip(&self) -> String {
        self.work().git(&["rev-parse", "HEAD"]).stdout.to_string().trim().to_owned()
    }

    /// Runs a script as a runner does, in a new directory. Returns that directory.
    pub(super) fn run(&self, name: &str, variables: &[(String, String)], script: &str) -> Repo<'_> {
        let here = self.sandbox.repo(name);
        fs::create_dir_all(&here.path).expect("a directory");
        let mut shell = here.command(Path::new("sh"));
        let path = shell.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
        let path = path.expect("a sandbox has one").to_string_lossy().into_owned();
        shell.env("PATH", format!("{}/bin:{path}", self.sandbox.path().display()));
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = shell.args(["-exc", script]).output().expect("a shell");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}{errors}", String::from_utf8_lossy(&output.stdout));
        here
    }

    /// Asserts that a worktree is clean at a commit, and comes from a base.
    pub(super) fn is_from_base(&self, worktree: &Repo<'_>, commit: &str) {
        assert_eq!(worktree.git(&["rev-parse", "HEAD"]).stdout, format!("{commit}\n").as_str());
        assert_eq!(worktree.git(&["status", "--porcelain"]).stdout, "");
        assert_eq!(worktree.read("dir1/file1"), self.work().read("dir1/file1"));
        let missing = worktree.git(&["rev-list", "--objects", "--missing=print", "HEAD"]).stdout;
        assert!(missing.to_string().lines().any(|line| line.starts_with('?')), "the blobs were fetched");
    }
}
