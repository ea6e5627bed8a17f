//! Brings the clone of an earlier job to the state of its commit, with Git's commands.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice as _};
use repo::keys;
use sys::{FileType, by_path};

use super::{
    Program, Step,
    checkout::Submodules,
    directory::cannot,
    inherited,
    removal::remove,
    steps::{Job, words},
    worktree,
};
use crate::text;

/// The options for a command in a Git directory. Its worktree need not exist, and may not be the
/// one that the configuration names.
const HERE: [&str; 3] = ["--git-dir=.", "-c", "core.worktree=."];

impl<P: Program> Job<'_, P> {
    /// Brings the worktree of an earlier job to the state of its commit. Returns false if that
    /// fails.
    pub(super) fn clean(&mut self) -> Result<bool, P::Error> {
        // A directory in which this fails is emptied.
        if inherited::discard(&self.plan.request.dir).is_err() {
            return Ok(false);
        }
        self.connect()?;
        let request = &self.plan.request;
        // Without a commit there is nothing to reset to.
        let Some(head) = self.answer(&["rev-parse", "--verify", "-q", "HEAD"])? else { return Ok(false) };
        let is_attached = self.answer(&["symbolic-ref", "-q", "HEAD"])?.is_some();
        let detach = [words(&["update-ref", "--no-deref", "HEAD"]), vec![head]].concat();
        if is_attached && self.program.run(self.step(&detach))? != 0 {
            return Ok(false);
        }
        if !self.remove_refs()? {
            return Ok(false);
        }
        let git_dirs = self.submodules()?;
        self.clean_worktree(&request.dir, request.files.submodules, &git_dirs)
    }

    /// Returns the Git directories of submodules, without replacements of objects. One that Git
    /// cannot use is removed: a killed job has left it without a commit, or its refs are damaged.
    fn submodules(&self) -> Result<Vec<PathBuf>, P::Error> {
        let mut usable = Vec::<PathBuf>::new();
        for git_dir in worktree::submodules(&self.plan.request.dir)? {
            if by_path::stat(&git_dir).map_err(cannot("examine", &git_dir))?.is_none() {
                // It lay in one that was removed.
            } else if self.is_usable(&git_dir)? && self.remove_replacements(&git_dir)? {
                usable.push(git_dir);
            } else {
                remove(&git_dir, FileType::Directory)?;
            }
        }
        Ok(usable)
    }

    /// Brings the files in `dir` to the state of HEAD. A submodule that the job wants, and whose
    /// repository is one of `git_dirs`, is cleaned in the same way; another one is emptied.
    fn clean_worktree(&self, dir: &Path, wanted: Submodules, git_dirs: &[PathBuf]) -> Result<bool, P::Error> {
        let list = words(&["ls-files", "-v", "--stage", "-z"]);
        let Some(list) = self.program.read(Step { dir, ..self.step(&list) })? else { return Ok(false) };
        let entries = || list.split(|&byte| byte == 0).filter(|line| !line.is_empty());
        // Git leaves files alone that the index says to be outside of the sparse checkout, or to be
        // unchanged.
        let is_hidden = |line: &[u8]| line[0] == b'S' || line[0].is_ascii_lowercase();
        let succeeds = |args: &[&str]| -> Result<bool, P::Error> {
            Ok(self.program.run(Step { dir, ..self.step(&words(args)) })? == 0)
        };
        if entries().any(is_hidden) && !self.is_sparse(dir)? && !succeeds(&["read-tree", "--empty"])? {
            return Ok(false);
        }
        let below = if wanted == Submodules::Recursive { wanted } else { Submodules::None };
        let mut kept = Vec::new();
        for path in worktree::gitlinks(&list, b"H ".len()) {
            let Some(inner) = worktree::submodule(dir, path) else { return Ok(false) };
            let is_own = wanted != Submodules::None && worktree::is_own_submodule(&inner, git_dirs);
            if is_own && self.clean_worktree(&inner, below, git_dirs)? {
                kept.push(inner);
            } else {
                worktree::empty_submodule(&inner)?;
            }
        }
        if worktree::remove_nested(dir, &kept).is_err() {
            return Ok(false);
        }
        Ok(succeeds(&["clean", "-ffdxq"])? && succeeds(&["reset", "-q", "--hard", "HEAD"])?)
    }

    pub(super) fn is_sparse(&self, dir: &Path) -> Result<bool, P::Error> {
        let args = words(&["config", "--bool", keys::core::SPARSE_CHECKOUT.name()]);
        let answer = self.program.read(Step { dir, ..self.step(&args) })?;
        Ok(answer.is_some_and(|answer| answer.trim_end() == b"true"))
    }

    /// Removes local branches, replacements of objects, and refs that are in the way of those that
    /// the fetch writes. The branch of a linked worktree stays: it may be the only name of commits
    /// that somebody made.
    fn remove_refs(&self) -> Result<bool, P::Error> {
        let format = "--format=%(refname) %(worktreepath)";
        let patterns = ["refs/heads", "refs/remotes/origin", "refs/replace"];
        let list = [words(&["for-each-ref", format]), words(&patterns)].concat();
        let Some(refs) = self.answer_of(list)? else { return Ok(false) };
        let is_unwanted = |line: &[u8]| {
            let (name, worktree) = line.split_once_str(" ").unwrap_or((line, &b""[..]));
            let is_unwanted = if name.starts_with(b"refs/heads/") {
                worktree.trim().is_empty()
            } else {
                name.starts_with(b"refs/replace/") || self.plan.target.conflicts_with(name.as_bstr())
            };
            is_unwanted.then(|| text!("delete ", name, "\n"))
        };
        self.delete_refs(&self.plan.request.dir, &[], refs.lines().filter_map(is_unwanted))
    }

    /// Returns true if the HEAD of a Git directory is a commit.
    fn is_usable(&self, git_dir: &Path) -> Result<bool, P::Error> {
        let question = [words(&HERE), words(&["rev-parse", "--verify", "-q", "HEAD^{commit}"])].concat();
        Ok(self.program.read(Step { dir: git_dir, ..self.step(&question) })?.is_some())
    }

    /// Removes the replacements of objects from a Git directory. Returns false if Git fails.
    fn remove_replacements(&self, git_dir: &Path) -> Result<bool, P::Error> {
        let list = words(&["for-each-ref", "--format=delete %(refname)", "refs/replace"]);
        let list = [words(&HERE), list].concat();
        let Some(refs) = self.program.read(Step { dir: git_dir, ..self.step(&list) })? else {
            return Ok(false);
        };
        self.delete_refs(git_dir, &words(&HERE), refs.lines().map(|line| text!(line, "\n")))
    }

    /// Runs the commands of `update-ref` in `lines`. Returns false if Git fails.
    fn delete_refs(
        &self,
        dir: &Path,
        before: &[BString],
        lines: impl Iterator<Item = BString>,
    ) -> Result<bool, P::Error> {
        let input: BString = bstr::concat(lines).into();
        if input.is_empty() {
            return Ok(true);
        }
        let args = [before, &words(&["update-ref", "--no-deref", "--stdin"])].concat();
        Ok(self.program.run(Step { dir, input: &input, ..self.step(&args) })? == 0)
    }
}
