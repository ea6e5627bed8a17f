//! Everything that new tips need must be here: the real Git's `rev-list` finds out, as in Git.

use std::{io::Write as _, process::Stdio};

use format::ObjectId;
use repo::Repository;

use super::desk::Desk;
use crate::{
    session::real_git,
    term::{console, failure::Failure},
};

impl Desk<'_> {
    /// Refuses to fetch where no real Git can check what came.
    pub(super) fn must_have_git(&self) -> Result<(), Failure> {
        match real_git::find(self.run) {
            Some(_) => Ok(()),
            None => Err(Failure::unsupported("a fetch without a git on PATH")),
        }
    }

    /// Returns true if everything that is reachable from the tips, and from no ref, is here.
    pub(super) fn is_connected(&self, repo: &Repository, tips: &[ObjectId]) -> bool {
        let Some(mut git) = real_git::command(self.run) else { return false };
        git.args(["rev-list", "--objects", "--stdin", "--not", "--all", "--quiet"]);
        git.envs(repo.child_env()).current_dir(repo.child_dir());
        console::flush();
        let child = git.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let asked = child.and_then(|mut child| {
            let names: String = tips.iter().map(|oid| format!("{oid}\n")).collect();
            if let Some(mut input) = child.stdin.take() {
                // If it ends early its exit code says why.
                let _ = input.write_all(names.as_bytes());
            }
            child.wait()
        });
        asked.is_ok_and(|status| status.success())
    }
}
