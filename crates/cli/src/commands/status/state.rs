//! The operations in progress, in the long format.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::operations::{self, Am, Bisect, Rebase};

use sapwood::{ObjectId, status::Sparse};

use super::{
    long::Lines,
    report::{Slot, StatusReport},
};
use crate::term::{console::text, failure::Failure, files};

const HEADER: Option<Slot> = Some(Slot::Header);

/// The number of completed commands of a rebase that are shown, and of remaining ones.
const SHOWN: usize = 2;

impl StatusReport<'_> {
    /// Adds the most important operation in progress, a bisection, and the sparsity of the
    /// worktree.
    pub(super) fn state(&self, lines: &mut Lines<'_>) -> Result<(), Failure> {
        let state = &self.found.operations;
        if state.merge {
            if state.rebase.as_ref().is_some_and(|rebase| rebase.interactive) {
                self.rebase_lists(lines)?;
                lines.raw("\n");
            }
            self.merge(lines);
        } else if let Some(am) = state.am {
            self.am(lines, am);
        } else if let Some(rebase) = &state.rebase {
            self.rebase(lines, rebase)?;
        } else if let Some(commit) = state.cherry_pick {
            self.pick(lines, commit, &CHERRY_PICK)?;
        } else if let Some(commit) = state.revert {
            self.pick(lines, commit, &REVERT)?;
        }
        if let Some(Bisect { from }) = &state.bisect {
            lines.line(
                HEADER,
                match from {
                    Some(from) => text!("You are currently bisecting, started from branch '", from, "'."),
                    None => "You are currently bisecting.".into(),
                },
            );
            self.hint(lines, "use \"git bisect reset\" to get back to the original branch");
            lines.line(HEADER, "");
        }
        let sparse = match self.found.sparse {
            Sparse::No => return Ok(()),
            Sparse::Index => "You are in a sparse checkout.".to_owned(),
            Sparse::Percent(percent) => {
                format!("You are in a sparse checkout with {percent}% of tracked files present.")
            }
        };
        lines.line(HEADER, sparse);
        lines.line(HEADER, "");
        Ok(())
    }

    fn merge(&self, lines: &mut Lines<'_>) {
        if self.found.has_conflicts() {
            lines.line(HEADER, "You have unmerged paths.");
            self.hint(lines, "fix conflicts and run \"git commit\"");
            self.hint(lines, "use \"git merge --abort\" to abort the merge");
        } else {
            lines.line(HEADER, "All conflicts fixed but you are still merging.");
            self.hint(lines, "use \"git commit\" to conclude merge");
        }
        lines.line(HEADER, "");
    }

    fn am(&self, lines: &mut Lines<'_>, am: Am) {
        lines.line(HEADER, "You are in the middle of an am session.");
        match am {
            Am::Patch => self.hint(lines, "fix conflicts and then run \"git am --continue\""),
            Am::EmptyPatch => lines.line(HEADER, "The current patch is empty."),
        }
        self.hint(lines, "use \"git am --skip\" to skip this patch");
        if am == Am::EmptyPatch {
            self.hint(lines, "use \"git am --allow-empty\" to record this patch as an empty commit");
        }
        self.hint(lines, "use \"git am --abort\" to restore the original branch");
        lines.line(HEADER, "");
    }

    fn rebase(&self, lines: &mut Lines<'_>, rebase: &Rebase) -> Result<(), Failure> {
        if rebase.interactive {
            self.rebase_lists(lines)?;
        }
        let message = self.repo.git_dir().join("MERGE_MSG");
        if self.found.has_conflicts() {
            lines.line(HEADER, rebasing(rebase, "rebasing", "rebasing"));
            self.hint(lines, "fix conflicts and then run \"git rebase --continue\"");
            self.hint(lines, "use \"git rebase --skip\" to skip this patch");
            self.hint(lines, "use \"git rebase --abort\" to check out the original branch");
        } else if !rebase.interactive || matches!(files::stat_followed(&message), Ok(Some(_))) {
            lines.line(HEADER, rebasing(rebase, "rebasing", "rebasing"));
            self.hint(lines, "all conflicts fixed: run \"git rebase --continue\"");
        } else if self.is_splitting()? {
            let doing = "splitting a commit while rebasing";
            lines.line(HEADER, rebasing(rebase, doing, "splitting a commit during a rebase"));
            self.hint(lines, "Once your working directory is clean, run \"git rebase --continue\"");
        } else {
            let doing = "editing a commit while rebasing";
            lines.line(HEADER, rebasing(rebase, doing, "editing a commit during a rebase"));
            if !self.request.amends() {
                self.hint(lines, "use \"git commit --amend\" to amend the current commit");
                self.hint(lines, "use \"git rebase --continue\" once you are satisfied with your changes");
            }
        }
        lines.line(HEADER, "");
        Ok(())
    }

    fn is_splitting(&self) -> Result<bool, Failure> {
        let looks = self.found.is_dirty || self.request.amends() || self.request.is_template();
        match (looks, &self.found.head) {
            (true, repo::Head::Detached { oid }) => Ok(operations::is_splitting(self.repo, *oid)?),
            _ => Ok(false),
        }
    }

    fn rebase_lists(&self, lines: &mut Lines<'_>) -> Result<(), Failure> {
        let comment = sapwood::commit::cleanup::comment_sign(self.repo);
        let list = |name: &str| operations::rebase_list(self.repo, name, comment.as_bstr());
        let said = |line: &BString| text!("   ", line);
        let done = list("done")?.unwrap_or_default();
        let todo = list("git-rebase-todo")?;
        if todo.is_none() {
            lines.line(HEADER, "git-rebase-todo is missing.");
        }
        let todo = todo.unwrap_or_default();
        match done.len() {
            0 => lines.line(HEADER, "No commands done."),
            1 => lines.line(HEADER, "Last command done (1 command done):"),
            number => lines.line(HEADER, format!("Last commands done ({number} commands done):")),
        }
        done.iter().skip(done.len().saturating_sub(SHOWN)).for_each(|line| lines.line(HEADER, said(line)));
        if done.len() > SHOWN {
            self.hint(lines, &format!("see more in file {}", self.git_path("rebase-merge/done").display()));
        }
        match todo.len() {
            0 => lines.line(HEADER, "No commands remaining."),
            1 => lines.line(HEADER, "Next command to do (1 remaining command):"),
            number => lines.line(HEADER, format!("Next commands to do ({number} remaining commands):")),
        }
        todo.iter().take(SHOWN).for_each(|line| lines.line(HEADER, said(line)));
        if !todo.is_empty() {
            self.hint(lines, "use \"git rebase --edit-todo\" to view and edit");
        }
        Ok(())
    }

    /// Returns the path of a file in this worktree's Git directory.
    fn git_path(&self, name: &str) -> PathBuf {
        if self.repo.git_dir() == self.repo.common_dir() {
            self.repo.display_common_file(name)
        } else {
            self.repo.git_dir().join(name)
        }
    }

    fn pick(&self, lines: &mut Lines<'_>, commit: Option<ObjectId>, words: &Words) -> Result<(), Failure> {
        let Words { command, doing, alone, operation } = words;
        lines.line(
            HEADER,
            match commit {
                Some(commit) => {
                    format!("You are currently {doing} commit {}.", self.repo.abbreviate(commit)?)
                }
                None => format!("{alone} currently in progress."),
            },
        );
        let go_on = match commit {
            _ if self.found.has_conflicts() => format!("fix conflicts and run \"git {command} --continue\""),
            None => format!("run \"git {command} --continue\" to continue"),
            Some(_) => format!("all conflicts fixed: run \"git {command} --continue\""),
        };
        self.hint(lines, &go_on);
        self.hint(lines, &format!("use \"git {command} --skip\" to skip this patch"));
        self.hint(lines, &format!("use \"git {command} --abort\" to cancel the {operation} operation"));
        lines.line(HEADER, "");
        Ok(())
    }
}

/// The terms for picking commits.
struct Words {
    command: &'static str,
    doing: &'static str,
    alone: &'static str,
    operation: &'static str,
}

const CHERRY_PICK: Words =
    Words { command: "cherry-pick", doing: "cherry-picking", alone: "Cherry-pick", operation: "cherry-pick" };

const REVERT: Words = Words { command: "revert", doing: "reverting", alone: "Revert", operation: "revert" };

fn rebasing(rebase: &Rebase, doing: &str, unknown: &str) -> BString {
    let onto = rebase.onto.as_ref().map_or(BStr::new(""), |onto| onto.as_bstr());
    match &rebase.branch {
        Some(branch) => text!("You are currently ", doing, " branch '", branch, "' on '", onto, "'."),
        None => text!("You are currently ", unknown, "."),
    }
}
