//! The report after the commit: branch, name, subject and diffstat.

use std::process::Stdio;

use bstr::{BString, ByteSlice as _};
use engine::{
    diff::{self, Pair, stat::Stat},
    pathspec::Pathspecs,
};
use repo::{Head, Person, keys, submodule::Ignore};

use sapwood::{ObjectId, commit::prepare::Prepared};

use super::{Run, message, template::shown_date};
use crate::{
    commands::diffstat,
    session::real_git,
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

/// Settings that affect the diffstat and are not supported here.
const UNKNOWN: [&str; 3] =
    [keys::diff::ALGORITHM.name(), keys::diff::RELATIVE.name(), keys::diff::RENAME_LIMIT.name()];

impl Run<'_> {
    /// Returns the changes of the commit, or `None` if only the real Git can determine them. Call
    /// it before the commit: the trees of HEAD may be of a kind for which the command is handed
    /// over.
    pub(super) fn changes(&self, prepared: &Prepared<'_>) -> Result<Option<Vec<Pair>>, Failure> {
        let repo = self.session.repository;
        let is_known = UNKNOWN.iter().all(|key| repo.config_str(key).is_none());
        if self.plan.request.quiet || prepared.index.sparse || !is_known {
            return Ok(None);
        }
        let tree = self.parent_tree()?;
        let all = Pathspecs::default();
        let ignore = Some(Ignore::None);
        Ok(Some(diff::staged(repo, self.worktree, &prepared.index, tree, &all, ignore, None)?))
    }

    /// Returns the diffstat of the changes, or `None` if only the real Git can determine it. Their
    /// contents can be read after the commit.
    fn diffstat(&self, prepared: &Prepared<'_>, pairs: Vec<Pair>) -> Option<BString> {
        let repo = self.session.repository;
        let pairs = diffstat::with_renames(repo, pairs).ok()??;
        let big = self.session.settings.big_file_threshold;
        let stat = diff::stat::count(repo, &prepared.index, &pairs, big).ok()??;
        Some(self.list_changes(&pairs, stat))
    }

    fn list_changes(&self, pairs: &[Pair], stat: Stat) -> BString {
        if stat.files == 0 {
            return BString::default();
        }
        let mut summary = BString::from(diffstat::totals(stat.files, stat.added, stat.removed));
        let quote_path = self.session.settings.quote_path;
        pairs.iter().for_each(|pair| summary.extend_from_slice(&diffstat::line(pair, quote_path)));
        summary
    }

    /// Prints the report about the new commit. `changes` is the result of [`Run::changes`].
    pub(super) fn summary(
        &self,
        commit: ObjectId,
        author: &Person,
        committer: &Person,
        prepared: &Prepared<'_>,
        changes: Option<Vec<Pair>>,
    ) -> Result<(), Failure> {
        let repo = self.session.repository;
        let place: BString = match &repo.head()? {
            Head::Branch { name, .. } | Head::Unborn { name } => {
                name.strip_prefix(b"refs/heads/").unwrap_or(name).into()
            }
            Head::Detached { .. } | Head::Unresolvable => "detached HEAD".into(),
        };
        let root = if self.plan.head.is_none() { " (root-commit)" } else { "" };
        let text = repo.commit_text(commit)?;
        let shown = text.recode(text.message.as_bstr(), repo.output_encoding().as_bstr());
        let subject = message::subject_of(&shown);
        let mut summary = text!("[", place, root, " ", repo.abbreviate(commit)?, "] ", subject, "\n");
        if author.name_and_mail() != committer.name_and_mail() {
            summary.extend_from_slice(&text!(" Author: ", author.name_and_mail(), "\n"));
        }
        if self.plan.is_date_of_interest() {
            summary.extend_from_slice(&text!(" Date: ", shown_date(author), "\n"));
        }
        console::out_raw(&summary);
        if text.parents.len() > 1 {
            return Ok(());
        }
        match changes.and_then(|pairs| self.diffstat(prepared, pairs)) {
            Some(changes) => console::out_raw(&changes),
            None => self.changes_by_git(commit)?,
        }
        Ok(())
    }

    fn changes_by_git(&self, commit: ObjectId) -> Result<(), Failure> {
        let repo = self.session.repository;
        let Some(mut git) = real_git::command(self.session.invocation) else { return Ok(()) };
        console::flush();
        git.envs(repo.child_env()).current_dir(repo.child_dir()).stdin(Stdio::null());
        git.args(["diff-tree", "--root", "-r", "-M", "--shortstat", "--summary", "--no-commit-id"]);
        let output = git.arg(commit.to_string()).stderr(Stdio::inherit()).output();
        let output = output
            .map_err(|error| Failure::fatal(format!("cannot run git diff-tree: {}", os_error(&error))))?;
        console::out_raw(&output.stdout);
        Ok(())
    }
}
