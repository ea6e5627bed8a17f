//! Rules for combinations of arguments and options, and for refs. Nothing is changed. Each
//! violation returns Git's message for it.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{pathspec::Pathspecs, switch::names};
use repo::Repository;

use super::request::{NewBranchKind, Request, Source, Variant};
use crate::{
    commands::paths,
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
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
        let Some(branch) = &self.new_branch else { return Ok(()) };
        let full = new_branch_ref(repo, branch.name.as_bstr())?;
        if branch.kind != NewBranchKind::Reset && repo.find_ref(full.as_bstr())?.is_some() {
            return Err(already_exists(full.as_bstr()));
        }
        Ok(())
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

    pub(super) fn check_switch(
        &self,
        repo: &Repository,
        settings: &Settings,
        source: Option<&Source>,
    ) -> Result<(), Failure> {
        let clash = |one: &str, other: &str| Failure::fatal(format!("'{one}' cannot be used with '{other}'"));
        if self.overlay.is_some() {
            return Err(Failure::fatal("'--[no]-overlay' cannot be used with switching branches"));
        }
        let nothing = source.is_none() && self.new_branch.is_none() && !self.detach;
        if self.side.is_some() {
            let why = match nothing {
                true => "needs the paths to check out",
                false => "cannot be used with switching branches",
            };
            return Err(Failure::fatal(format!("'--ours/--theirs' {why}")));
        }
        if self.force && self.merges() {
            return Err(clash("-f", "-m"));
        }
        if self.discard && self.merges() {
            return Err(clash("--discard-changes", "--merge"));
        }
        if self.detach && self.new_branch.is_some() {
            return Err(clash("--detach", "-b/-B/--orphan"));
        }
        let orphan = self.new_branch.as_ref().is_some_and(|new| new.kind == NewBranchKind::Orphan);
        if orphan && self.track.is_some() {
            return Err(clash("--orphan", "-t"));
        }
        if orphan && self.variant == Variant::Switch && source.is_some() {
            return Err(Failure::fatal("'--orphan' cannot take <start-point>"));
        }
        if self.detach && self.track.is_some() {
            return Err(clash("--detach", "-t"));
        }
        if let Some(source) = source.filter(|source| source.commit.is_none()) {
            return Err(Failure::Fatal(text!("Cannot switch branch to a non-commit '", source.name, "'")));
        }
        if nothing && (self.variant == Variant::Switch || self.plain_new_branch) {
            return Err(Failure::fatal("missing branch or commit argument"));
        }
        match source {
            Some(source)
                if self.variant == Variant::Switch
                    && !self.detach
                    && self.new_branch.is_none()
                    && source.branch.is_none() =>
            {
                Err(a_branch_is_expected(repo, settings, source)?)
            }
            None if self.merges() => {
                Err(Failure::unsupported("option '--merge' without a branch to switch to"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the full name of the branch to create, which may exist.
pub(crate) fn new_branch_ref(repo: &Repository, word: &BStr) -> Result<BString, Failure> {
    if let Some(full) = names::branch_ref(repo, word)? {
        return Ok(full);
    }
    console::report("fatal", text!("'", word, "' is not a valid branch name"));
    let advice = repo.config_bool("advice.refSyntax")?;
    if advice.unwrap_or(true) {
        console::hint("See 'git help check-ref-format'");
        if advice.is_none() {
            console::hint("Disable this message with \"git config set advice.refSyntax false\"");
        }
    }
    Err(Failure::Reported(128))
}

/// Returns the failure for a new branch `full` that exists.
pub(crate) fn already_exists(full: &BStr) -> Failure {
    let short = full.strip_prefix(names::BRANCHES).unwrap_or(full);
    Failure::Fatal(text!("a branch named '", short, "' already exists"))
}

fn a_branch_is_expected(repo: &Repository, settings: &Settings, source: &Source) -> Result<Failure, Failure> {
    let refs = names::expand(repo, source.name.as_bstr())?;
    let what = match &refs[..] {
        [(full, _)] => {
            if let Some(tag) = full.strip_prefix(b"refs/tags/") {
                text!("tag '", tag, "'")
            } else if let Some(branch) = full.strip_prefix(b"refs/remotes/") {
                text!("remote branch '", branch, "'")
            } else {
                text!("'", full, "'")
            }
        }
        _ => text!("commit '", source.name, "'"),
    };
    console::report("fatal", text!("a branch is expected, got ", what));
    if settings.advises(repo, "suggestDetachingHead")? {
        console::hint("If you want to detach HEAD at the commit, try again with the --detach option.");
    }
    Ok(Failure::Reported(128))
}
