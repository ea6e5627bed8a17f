//! The patch that `-v` shows below the status, made by the real Git.

use std::{path::Path, process::Stdio};

use bstr::{BString, ByteSlice as _};

use sapwood::{ObjectId, commit::cleanup};

use repo::keys;

use super::Run;
use crate::{
    commands::status::preview::Differences,
    session::{output, real_git},
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

/// How the patch is shown.
pub(super) struct Patch<'a> {
    pub(super) run: &'a Run<'a>,
    /// The file that contains the index.
    pub(super) file: &'a Path,
    /// The scissors line precedes the patch.
    pub(super) cuts: bool,
    /// The patch goes into the draft of the message.
    pub(super) is_template: bool,
}

impl Patch<'_> {
    /// `-v`: the changes to commit. `-v -v`: the unstaged changes, too.
    pub(super) fn show(&self, found: Differences) -> Result<BString, Failure> {
        let verbose = self.run.plan.verbose;
        let mut patch = BString::default();
        if verbose == 0 {
            return Ok(patch);
        }
        let repo = self.run.session.repository;
        let sign = self.run.comment.as_bstr();
        if self.cuts {
            patch.extend_from_slice(&cleanup::scissors(sign));
        }
        let is_commented = self.is_template || repo.config(&keys::status::DISPLAY_COMMENT_PREFIX)?;
        let line =
            |words: &str| if is_commented { text!(sign, " ", words, "\n") } else { text!(words, "\n") };
        let tree = self.run.parent_tree()?.unwrap_or(ObjectId::empty_tree(repo.hash())).to_string();
        let mut staged = vec!["--cached", &tree];
        if verbose > 1 && found.is_committable {
            if self.is_template {
                patch.extend_from_slice(&text!(sign, "\n"));
            }
            patch.extend_from_slice(&line("Changes to be committed:"));
            staged.extend(["--src-prefix=c/", "--dst-prefix=i/"]);
        }
        patch.extend_from_slice(&self.diff(&staged)?);
        if verbose > 1 && found.has_unstaged {
            patch.extend_from_slice(&line("--------------------------------------------------"));
            patch.extend_from_slice(&line("Changes not staged for commit:"));
            patch.extend_from_slice(&self.diff(&["--src-prefix=i/", "--dst-prefix=w/"])?);
        }
        Ok(patch)
    }

    fn diff(&self, args: &[&str]) -> Result<Vec<u8>, Failure> {
        let run = self.run.session.invocation;
        let repo = self.run.session.repository;
        let Some(mut git) = real_git::command(run) else {
            return Err(Failure::fatal("-v needs a git, and there is none"));
        };
        git.envs(repo.child_env()).current_dir(repo.child_dir());
        // Only this command changes the index now.
        git.env("GIT_INDEX_FILE", self.file).env("GIT_OPTIONAL_LOCKS", "0");
        let has_colors = !self.is_template && output::wants_color(run, repo, keys::color::DIFF)?;
        let colors = if has_colors { "--color=always" } else { "--no-color" };
        git.args(["diff", "--no-ext-diff", "--textconv", colors]).args(args);
        console::flush();
        let output = git.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output =
            output.map_err(|error| Failure::fatal(format!("cannot run git diff: {}", os_error(&error))))?;
        Ok(output.stdout)
    }
}
