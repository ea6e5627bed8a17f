//! The summary of changes in submodules (`status.submoduleSummary`). Like Git's status, runs `git
//! submodule summary`.

use std::process::Stdio;

use bstr::ByteSlice as _;

use repo::keys;

use super::{long::Lines, report::StatusReport};
use crate::{
    session::real_git,
    term::{console::text, failure::Failure},
};

/// The commits to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Staged,
    Unstaged,
}

impl StatusReport<'_> {
    /// Adds the summaries of staged and of unstaged changes.
    pub(super) fn summaries(&self, lines: &mut Lines<'_>) -> Result<(), Failure> {
        if self.request.is_summarized(self.repo) {
            [Compared::Staged, Compared::Unstaged].into_iter().try_for_each(|of| self.summary(lines, of))
        } else {
            Ok(())
        }
    }

    fn summary(&self, lines: &mut Lines<'_>, of: Compared) -> Result<(), Failure> {
        let limit = match self.repo.config(&keys::status::SUBMODULE_SUMMARY) {
            Ok(limit) => limit.unwrap_or(-1),
            // The value is `true`.
            Err(_) => -1,
        };
        let Some(mut git) = real_git::command(self.run) else {
            return Err(Failure::fatal("status.submoduleSummary needs a git, and there is none"));
        };
        git.envs(self.repo.child_env()).env(
            "GIT_INDEX_FILE",
            match &self.request.preview {
                Some(preview) => preview.index_file.clone(),
                None => self.repo.index_path(),
            },
        );
        git.current_dir(self.repo.child_dir());
        let (which, title) = match of {
            Compared::Staged => ("--cached", "Submodule changes to be committed:"),
            Compared::Unstaged => ("--files", "Submodules changed but not updated:"),
        };
        git.args(["submodule", "summary", which, "--for-status", "--summary-limit"]).arg(limit.to_string());
        if of == Compared::Staged {
            git.arg(if self.request.amends() { "HEAD^" } else { "HEAD" });
        }
        let said = git.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let said = said.map_err(|error| Failure::fatal(format!("cannot run git submodule: {error}")))?;
        if !said.stdout.is_empty() {
            lines.comment_on(text!(title, "\n\n", said.stdout).as_bstr());
        }
        Ok(())
    }
}
