//! Rules for combinations of arguments and options, and for refs. Nothing is changed. Each
//! violation returns Git's message for it.

use bstr::BString;
use engine::pathspec::Pathspecs;
use repo::Repository;
use sapwood::switch;

use super::request::{Request, Source, Variant};
use crate::{
    commands::paths,
    session::{Session, invocation::Invocation},
    term::{console::text, failure::Failure},
};

impl Request {
    pub(super) fn pathspecs(
        &self,
        run: &Invocation,
        repo: &Repository,
        rest: &[BString],
        source: Option<&Source>,
    ) -> Result<Pathspecs, Failure> {
        let specs = paths::parse(run, repo, rest)?;
        if let ([only], Some(branch)) = (rest, &self.new_branch)
            && source.and_then(|source| source.commit).is_none()
        {
            return Err(Failure::Fatal(text!(
                "'",
                only,
                "' is not a commit and a branch '",
                branch.name,
                "' cannot be created from it"
            )));
        }
        if let (Some(first), true) = (rest.first(), self.detach) {
            return Err(Failure::Fatal(text!(
                run.program.name(),
                " checkout: --detach does not take a path argument '",
                first,
                "'"
            )));
        }
        Ok(specs)
    }

    pub(super) fn check_new_branch(&self, repo: &Repository) -> Result<(), Failure> {
        let new = self.new_branch.as_ref();
        Ok(new.map_or(Ok(()), |branch| switch::check_new_branch(repo, branch))?)
    }

    /// Checks that at most one option determines how to resolve unmerged paths.
    pub(super) fn check_incompatible(&self) -> Result<(), Failure> {
        let ways = [self.side.is_some(), self.force, self.merges()];
        match ways.into_iter().filter(|&way| way).count() {
            0 | 1 => Ok(()),
            _ => Err(Failure::fatal(
                "git checkout: --ours/--theirs, --force and --merge are incompatible when\n\
                 checking out of the index.",
            )),
        }
    }

    pub(super) fn check_paths(&self, source: Option<&Source>, staged: bool) -> Result<(), Failure> {
        let with_paths =
            |option: &str| Failure::fatal(format!("'{option}' cannot be used with updating paths"));
        if self.track.is_some() {
            return Err(with_paths("--track"));
        }
        if self.reflog {
            return Err(with_paths("-l"));
        }
        if self.detach {
            return Err(with_paths("--detach"));
        }
        if let Some(branch) = &self.new_branch {
            return Err(Failure::Fatal(text!(
                "Cannot update paths and switch to branch '",
                branch.name,
                "' at the same time."
            )));
        }
        self.check_conflicts(source, staged)
    }

    /// Checks `--ours`, `--theirs` and `--merge` with paths.
    fn check_conflicts(&self, source: Option<&Source>, staged: bool) -> Result<(), Failure> {
        if !self.merges() && self.side.is_none() {
            return Ok(());
        }
        if self.ignore_unmerged && self.merges() {
            return Err(Failure::fatal("options '--ignore-unmerged' and '-m' cannot be used together"));
        }
        if self.variant == Variant::Restore && staged {
            let options = match self.side {
                Some(_) => "'--ours' or '--theirs'",
                None => "'--merge' or '--conflict'",
            };
            return Err(Failure::fatal(format!("{options} cannot be used with --staged")));
        }
        if source.is_some() {
            return Err(Failure::fatal(
                "'--merge', '--ours', or '--theirs' cannot be used when checking out of a tree",
            ));
        }
        if self.merges() {
            return Err(Failure::unsupported("option '--merge' with paths"));
        }
        if self.ignore_unmerged {
            return Err(Failure::unsupported("'--ignore-unmerged' with a side of conflicts"));
        }
        Ok(())
    }

    pub(super) fn check_switch(&self, session: Session<'_>, source: Option<&Source>) -> Result<(), Failure> {
        let repo = session.repository;
        let clash = |one: &str, other: &str| Failure::fatal(format!("'{one}' cannot be used with '{other}'"));
        if self.overlay.is_some() {
            return Err(Failure::fatal("'--[no]-overlay' cannot be used with switching branches"));
        }
        let nothing = source.is_none() && self.new_branch.is_none() && !self.detach;
        if self.side.is_some() {
            let why = if nothing {
                "needs the paths to check out"
            } else {
                "cannot be used with switching branches"
            };
            return Err(Failure::fatal(format!("'--ours/--theirs' {why}")));
        }
        if self.force && self.merges() {
            return Err(clash("-f", "-m"));
        }
        if self.discard && self.merges() {
            return Err(clash("--discard-changes", "--merge"));
        }
        switch::check(session.context(session.invocation), &self.switch(session.invocation, repo), source)?;
        if source.is_none() && self.merges() {
            return Err(Failure::unsupported("option '--merge' without a branch to switch to"));
        }
        Ok(())
    }
}
