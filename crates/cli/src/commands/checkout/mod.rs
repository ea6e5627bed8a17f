//! `sapwood checkout`, `switch` and `restore`: one command in three variants, as in Git.
//!
//! Order: options; the meaning of the first argument (a branch, a commit, a tree, a path); the
//! rules for combinations of options; then [`branch`] or [`restore`] does the work. Nothing is
//! changed before that.

pub(crate) mod branch;
mod obstacles;
mod options;
pub(crate) mod request;
mod restore;

mod rules;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Guess, Repository, keys};
use sapwood::{Dir, ObjectId, switch::has_wildcards};

use self::options::{CHECKOUT, RESTORE, SWITCH};
use self::request::{NewBranch, NewBranchKind, Request, Source, Variant, describe_source};
use crate::{
    commands::{
        obstacles::{
            ATTRIBUTES_OF_PATHSPECS, GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, RECURSING, RECURSION_IS_BOOLEAN,
            WRITING,
        },
        paths,
        record::{Command, Group, Revisions},
    },
    session::{
        Session,
        invocation::Invocation,
        settings::{Reader, Settings, refused},
    },
    term::{
        args::{Set, Table},
        console::{self, text},
        failure::Failure,
        notice,
    },
};

/// The record of `checkout`.
pub(super) const COMMAND: Command = Command {
    name: "checkout",
    summary: "Switch branches or restore working tree files",
    about: "Switches to a branch or commit, or takes files from a commit or from the index. `sapwood switch` \
            and `sapwood restore` each do one of the two.\n\n\
            The plan is made before anything is written: if local changes would be lost, nothing changes. \
            `--dry-run`, which Git does not have, prints the plan. Only paths that differ are read and \
            written, on as many threads as the disk can use (`checkout.workers` sets the number).",
    group: Group::Changes,
    syntax: &CHECKOUT,
    revisions: Revisions::Leading,
    settings: &[GENERAL],
    line: &[RECURSION_IS_BOOLEAN, obstacles::CONFLICTS, ATTRIBUTES_OF_PATHSPECS],
    checks: &[WRITING, RECURSING, &[obstacles::MERGE]],
    run: |invocation, args| run(invocation, args, Variant::Checkout, &CHECKOUT),
    ..Command::BASE
};

/// The record of `switch`.
pub(super) const SWITCH_COMMAND: Command = Command {
    name: "switch",
    summary: "Switch branches",
    about: "Switches to another branch, or creates one. Local changes stay, and a switch that would lose \
            some is refused before anything is written. Only paths that differ between the branches are read \
            and written, in parallel.\n\n\
            `--dry-run`, which Git does not have, prints the plan and changes nothing. `-m` works if nothing \
            needs to be merged.",
    syntax: &SWITCH,
    line: &[RECURSION_IS_BOOLEAN, obstacles::CONFLICTS, NO_ATTRIBUTES_IN_PATHSPECS],
    run: |invocation, args| run(invocation, args, Variant::Switch, &SWITCH),
    ..COMMAND
};

/// The record of `restore`.
pub(super) const RESTORE_COMMAND: Command = Command {
    name: "restore",
    summary: "Restore working tree files",
    about: "Takes files from a commit or from the index into the worktree, the index, or both. Files are \
            written in parallel. `--dry-run`, which Git does not have, prints the plan and changes nothing. \
            `-p` is not supported.",
    syntax: &RESTORE,
    revisions: Revisions::None,
    run: |invocation, args| run(invocation, args, Variant::Restore, &RESTORE),
    ..COMMAND
};

fn run(
    run: &Invocation,
    args: &[BString],
    variant: Variant,
    table: &Table<Set<Request>>,
) -> Result<u8, Failure> {
    // Git opens the repository before it reads the options; here, `-h` works everywhere.
    let parsed = table.parse(args)?;
    let repo = run.open()?;
    let top = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    // Creating a branch changes no file, but Git enters the worktree first.
    if !run.cwd.starts_with(top) {
        Dir::open(top).map_err(Failure::cannot_open(top))?;
    }
    let settings = Settings::read(&repo)?;
    refused::check(&repo, &[Reader::Checkout, Reader::Submodules, Reader::Refs, Reader::Hooks])?;
    let mut request = Request::new(variant);
    request.plain_new_branch =
        variant == Variant::Checkout && args.len() == 2 && args.first().is_some_and(|arg| arg == "-b");
    let rest = parsed.store(&mut request)?;
    request.finish(run, &repo, &settings, rest)
}

impl Request {
    /// Resolves the arguments, validates the request, and runs it.
    fn finish(
        mut self,
        run: &Invocation,
        repo: &Repository,
        settings: &Settings,
        mut rest: Vec<BString>,
    ) -> Result<u8, Failure> {
        if self.force {
            self.discard = true;
            self.ignore_unmerged = true;
        }
        let staged = self.staged.unwrap_or(false);
        let worktree = match (self.worktree, self.staged) {
            (Some(worktree), _) => worktree,
            (None, None) => true,
            (None, Some(_)) => false,
        };
        if self.variant == Variant::Restore && self.source.is_none() && staged {
            self.source = Some("HEAD".into());
        }
        self.track_names_the_branch(&rest)?;
        let mut source = None;
        if self.variant == Variant::Restore {
            if let Some(name) = self.source.clone() {
                let oid = repo.rev_parse_or_base(name.as_bstr()).map_err(|error| {
                    Failure::of_name(error, Failure::Fatal(text!("could not resolve '", name, "'")))
                })?;
                source = Some(describe_source(repo, settings, name.as_bstr(), oid)?);
            }
        } else if !rest.is_empty() {
            source = self.take_source(run, repo, settings, &mut rest)?;
        }
        if source.is_some() {
            notice::print_object_store_errors(repo);
        }
        // For `checkout`, a `--` that ended the options is not needed any more.
        if self.variant == Variant::Checkout && rest.first().is_some_and(|arg| arg == "--") {
            rest.remove(0);
        }
        let specs = self.pathspecs(run, repo, &rest, source.as_ref())?;
        let specs = self.pathspec_file.or(specs, self.detach.then_some("--detach"), run, repo)?;
        if !specs.is_empty() {
            self.check_incompatible()?;
        }
        self.check_new_branch(repo)?;
        if !specs.is_empty() {
            self.check_paths(source.as_ref(), staged)?;
            let targets = restore::Targets {
                index: self.variant == Variant::Checkout || staged,
                worktree: self.variant == Variant::Checkout || worktree,
            };
            return restore::run(run, repo, settings, &self, source.as_ref(), specs, targets);
        }
        if self.variant == Variant::Restore {
            return Err(Failure::fatal("you must specify path(s) to restore"));
        }
        self.check_switch(Session { invocation: run, repository: repo, settings }, source.as_ref())?;
        if source.is_none() {
            notice::print_object_store_errors(repo);
        }
        branch::run(run, repo, settings, self, source)
    }

    /// `--track` without a name for the new branch derives it from the start point: `-t
    /// origin/topic`.
    fn track_names_the_branch(&mut self, rest: &[BString]) -> Result<(), Failure> {
        if self.track.is_none() || self.new_branch.is_some() {
            return Ok(());
        }
        let Some(start) = rest.first().filter(|arg| *arg != "--") else {
            return Err(Failure::fatal("--track needs a branch name"));
        };
        let start = start.strip_prefix(b"refs/").unwrap_or(start);
        let start = start.strip_prefix(b"remotes/").unwrap_or(start);
        match start.split_once_str("/") {
            Some((_, name)) if !name.is_empty() => {
                self.new_branch = Some(NewBranch { name: name.into(), kind: NewBranchKind::Create });
                Ok(())
            }
            _ => Err(Failure::fatal(format!("missing branch name; try -{}", self.letter()))),
        }
    }

    /// Removes the first argument and resolves it if it is a revision, or a remote branch to guess.
    fn take_source(
        &mut self,
        run: &Invocation,
        repo: &Repository,
        settings: &Settings,
        rest: &mut Vec<BString>,
    ) -> Result<Option<Source>, Failure> {
        let takes_paths = self.variant == Variant::Checkout;
        if !takes_paths && rest.len() > 1 {
            return Err(Failure::fatal("only one reference expected"));
        }
        let dashes = if takes_paths { rest.iter().position(|arg| arg == "--") } else { None };
        let is_explicit = match dashes {
            Some(0) => return Ok(None),
            Some(1) => true,
            Some(number) => {
                return Err(Failure::fatal(format!("only one reference expected, {number} given.")));
            }
            None => !takes_paths,
        };
        self.count_paths = !self.quiet && !is_explicit;
        let first = rest[0].clone();
        let mut arg = if first == "-" { BString::from("@{-1}") } else { first.clone() };
        let oid = match repo.rev_parse_or_base(arg.as_bstr()) {
            Ok(oid) => oid,
            // These errors do not mean that the argument may be a path or a remote branch.
            Err(error) if error.is_final() || error.is_unreadable() && !is_explicit => {
                return Err(error.into());
            }
            Err(error) => {
                paths::warn_ignored(repo, arg.as_bstr());
                let alone =
                    !takes_paths || (rest.len() == 1 && !is_explicit) || (rest.len() == 2 && is_explicit);
                let wild = !is_explicit && has_wildcards(arg.as_bstr());
                let guess = self.guesses(repo)? && alone && !wild;
                let guessed =
                    if guess { self.guess_remote(run, repo, arg.as_bstr(), is_explicit)? } else { None };
                match guessed {
                    Some((tracking, oid)) => {
                        self.new_branch = Some(NewBranch { name: arg, kind: NewBranchKind::Create });
                        arg = tracking;
                        oid
                    }
                    None if is_explicit => {
                        if error.is_unreadable() {
                            console::error(error.to_string());
                        }
                        return Err(Failure::Fatal(text!("invalid reference: ", arg)));
                    }
                    None => return Ok(None),
                }
            }
        };
        rest.remove(0);
        let source = describe_source(repo, settings, arg.as_bstr(), oid)?;
        if takes_paths && is_explicit {
            rest.remove(0);
        } else if !is_explicit && !rest.is_empty() {
            paths::must_not_be_a_file(run, repo, arg.as_bstr())?;
        }
        Ok(Some(source))
    }

    fn guesses(&self, repo: &Repository) -> Result<bool, Failure> {
        let configured = repo.config(&keys::checkout::GUESS)?;
        Ok(self.guess.unwrap_or(configured) && self.track.is_none() && self.new_branch.is_none())
    }

    fn guess_remote(
        &self,
        run: &Invocation,
        repo: &Repository,
        name: &BStr,
        is_explicit: bool,
    ) -> Result<Option<(BString, ObjectId)>, Failure> {
        match repo.guess_remote_branch(name)? {
            Guess::Unique { .. } if !is_explicit && paths::is_a_file(repo, name)? => {
                Err(Failure::Fatal(text!(
                    "'",
                    name,
                    "' could be both a local file and a tracking branch.\n\
                     Please use -- (and optionally --no-guess) to disambiguate"
                )))
            }
            Guess::Unique { tracking, oid, .. } => Ok(Some((tracking, oid))),
            Guess::None => Ok(None),
            Guess::Ambiguous { matches: number } => {
                if repo.config(&keys::advice::CHECKOUT_AMBIGUOUS_REMOTE_BRANCH_NAME)? {
                    let program = run.program.name();
                    let command = if self.variant == Variant::Switch { "switch" } else { "checkout" };
                    console::hint(format!(
                        "If you meant to check out a remote tracking branch on, e.g. 'origin',\n\
                         you can do so by fully qualifying the name with the --track option:\n\
                         \n    {program} {command} --track origin/<name>\n\n\
                         If you'd like to always have checkouts of an ambiguous <name> prefer\n\
                         one remote, e.g. the 'origin' remote, consider setting\n\
                         checkout.defaultRemote=origin in your config."
                    ));
                }
                Err(Failure::Fatal(text!(
                    "'",
                    name,
                    "' matched multiple (",
                    number.to_string(),
                    ") remote tracking branches"
                )))
            }
        }
    }
}
