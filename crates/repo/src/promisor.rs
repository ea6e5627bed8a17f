//! The remotes of a partial clone that have the omitted objects, and fetching from them.
//!
//! As in Git, `git fetch` reads the names of the objects on its standard input. The remotes are
//! asked in the order of the configuration; the one in the repository's `extensions.partialClone`
//! comes last. Source: Git's technical notes on partial clones.

use std::{
    ffi::OsString,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice};
use format::ObjectId;

use crate::{Env, Error, Extensions, config::Config, objects::Promisors};

/// See [`Promisors`].
#[derive(Debug)]
pub(crate) struct Remotes {
    names: Vec<BString>,
    /// `promisor.quiet`
    quiet: bool,
    dir: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl Remotes {
    /// Returns the configured promisor remotes; `None` if there are none, or if fetching is off
    /// (`GIT_NO_LAZY_FETCH`).
    pub(crate) fn of(
        config: &Config,
        env: &Env,
        extensions: &Extensions,
        child: impl FnOnce() -> (PathBuf, Vec<(OsString, OsString)>),
    ) -> Result<Option<Remotes>, Error> {
        let mut names: Vec<BString> = Vec::new();
        for key in config.names() {
            let Some(rest) = key.strip_prefix(b"remote.") else { continue };
            let promises = match rest.strip_suffix(b".promisor") {
                Some(_) => config.boolean(&key.to_str_lossy())? == Some(true),
                None => rest.ends_with(b".partialclonefilter"),
            };
            let name = rest.rsplitn_str(2, ".").nth(1).unwrap_or_default();
            if promises && !name.starts_with(b"/") && !names.iter().any(|known| known == name) {
                names.push(name.into());
            }
        }
        if let Some(last) = extensions.partial_clone.as_ref().filter(|name| !name.is_empty()) {
            names.retain(|name| name != last);
            names.push(last.clone());
        }
        if names.is_empty() || env.boolean("GIT_NO_LAZY_FETCH")?.unwrap_or(false) {
            return Ok(None);
        }
        let quiet = config.boolean("promisor.quiet")?.unwrap_or(false);
        let (dir, variables) = child();
        Ok(Some(Remotes { names, quiet, dir, variables }))
    }
}

impl Promisors for Remotes {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn fetch(&self, number: usize, missing: &[ObjectId]) -> bool {
        let mut command = Command::new("git");
        command.args(["-c", "fetch.negotiationAlgorithm=noop", "fetch"]);
        command.arg(sys::os_str(&self.names[number]));
        command.args(["--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"]);
        command.args(["--filter=blob:none", "--stdin"]);
        if self.quiet {
            command.arg("--quiet");
        }
        command
            .current_dir(&self.dir)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else { return false };
        if let Some(mut input) = child.stdin.take() {
            let lines: String = missing.iter().map(|oid| format!("{oid}\n")).collect();
            // If `git fetch` stops reading, it prints the reason itself.
            let _ = input.write_all(lines.as_bytes());
        }
        child.wait().is_ok_and(|status| status.success())
    }
}
