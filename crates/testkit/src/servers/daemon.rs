//! `git daemon`: the protocol `git://`.

use std::{net::SocketAddr, path::PathBuf};

use super::inetd::{Inetd, Plan, read};
use crate::Sandbox;

/// A running `git daemon` that serves every repository below a directory.
pub struct Daemon {
    inetd: Inetd,
    log: PathBuf,
}

impl Daemon {
    /// Serves the repositories below the directory `base` of the sandbox.
    pub fn start(sandbox: &Sandbox, base: &str) -> Daemon {
        Daemon::with(sandbox, base, &[])
    }

    /// Like [`Daemon::start`], with more options of `git daemon`.
    pub fn with(sandbox: &Sandbox, base: &str, options: &[&str]) -> Daemon {
        let here = sandbox.repo(base);
        let log = sandbox.path().join("daemon.log");
        let mut args =
            ["daemon", "--inetd", "--export-all", "--informative-errors"].map(String::from).to_vec();
        args.push("--log-destination=stderr".into());
        args.push(format!("--base-path={}", here.path.display()));
        args.extend(options.iter().map(|option| (*option).to_owned()));
        let plan = Plan::of(&here.git_command());
        Daemon { inetd: Inetd::start(log.clone(), move || plan.command(&args)), log }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.inetd.address()
    }

    /// Returns the URL of a repository below the base.
    pub fn url(&self, repository: &str) -> String {
        format!("git://{}/{repository}", self.address())
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.inetd.accepted()
    }

    /// Returns the messages of the daemon.
    pub fn log(&self) -> String {
        read(&self.log)
    }
}
