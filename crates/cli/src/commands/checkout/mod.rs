//! `sapwood checkout`, `switch` and `restore`: one command in three dresses, as in Git.
//!
//! Order: options, what the first argument means (a branch, a commit, a tree, a path), the rules
//! about what goes with what; then [`super::branch`] or [`super::paths`] does the work. Nothing has
//! been touched when this file is done.

mod obstacles;
mod options;
mod rules;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::ConflictSide,
    switch::{names, tracking::Track},
};
use format::ObjectId;
use repo::{Guess, Repository, convert::Metadata};

use self::options::{CHECKOUT, RESTORE, SWITCH};
pub(crate) use self::rules::{already_exists, new_branch_ref};
use crate::{
    commands::{
        branch,
        obstacles::{
            GENERAL, RECURSING, WRITING, attributes_of_pathspecs, no_attributes_in_pathspecs,
            recursion_is_boolean,
        },
        paths,
        pathspec_file::PathspecFile,
        record::{Command, Group, Revisions, Traits},
    },
    session::{
        invocation::Invocation,
        revisions::warn_ambiguous,
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        args::{Set, Table, Value},
        console::{self, text},
        failure::Failure,
    },
};

/// Which of the three it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// `checkout`
    Checkout,
    /// `switch`
    Switch,
    /// `restore`
    Restore,
}

/// The record of `checkout`.
pub(super) const COMMAND: Command = Command {
    name: "checkout",
    summary: "Switch branches or restore working tree files",
    group: Group::Changes,
    syntax: &CHECKOUT,
    revisions: Revisions::Leading,
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL],
    line: &[recursion_is_boolean, obstacles::conflicts, attributes_of_pathspecs],
    checks: &[WRITING, RECURSING, &[obstacles::merge]],
    run: |invocation, args| run(invocation, args, Variant::Checkout, &CHECKOUT),
    ..Command::BASE
};

/// The record of `switch`.
pub(super) const SWITCH_COMMAND: Command = Command {
    name: "switch",
    summary: "Switch branches",
    syntax: &SWITCH,
    line: &[recursion_is_boolean, obstacles::conflicts, no_attributes_in_pathspecs],
    run: |invocation, args| run(invocation, args, Variant::Switch, &SWITCH),
    ..COMMAND
};

/// The record of `restore`.
pub(super) const RESTORE_COMMAND: Command = Command {
    name: "restore",
    summary: "Restore working tree files",
    syntax: &RESTORE,
    revisions: Revisions::None,
    run: |invocation, args| run(invocation, args, Variant::Restore, &RESTORE),
    ..COMMAND
};

/// What was asked, as far as the options say.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) variant: Variant,
    pub(crate) quiet: bool,
    pub(crate) dry_run: bool,
    /// `--progress`, `--no-progress`
    pub(crate) progress: Option<bool>,
    /// `-f`
    pub(crate) force: bool,
    /// `-f`, `--discard-changes`
    pub(crate) discard: bool,
    pub(crate) detach: bool,
    pub(crate) overwrite_ignore: bool,
    pub(crate) ignore_other_worktrees: bool,
    /// `-b`, `-c`, `--orphan`, `-B`, `-C`, or guessed from a remote
    pub(crate) new_branch: Option<NewBranch>,
    /// `-l`
    pub(crate) reflog: bool,
    /// `None`: as configured.
    pub(crate) track: Option<Track>,
    guess: Option<bool>,
    pub(crate) overlay: Option<bool>,
    pub(crate) ignore_unmerged: bool,
    pub(crate) ignore_skip_worktree: bool,
    /// `--ours`, `--theirs`
    pub(crate) side: Option<ConflictSide>,
    /// `-m`; `None`: what `--conflict` implies.
    merge: Option<bool>,
    /// `--conflict` names a style.
    conflict: bool,
    /// `restore --source`
    source: Option<BString>,
    staged: Option<bool>,
    worktree: Option<bool>,
    /// `--recurse-submodules`
    pub(crate) recurse: Option<bool>,
    pathspec_file: PathspecFile,
    /// `checkout -b <name>` and nothing else: like `switch -c`.
    plain_new_branch: bool,
    /// Paths were told from a revision by what they are, not by `--`: the count is printed.
    pub(crate) count_paths: bool,
}

/// A branch to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewBranch {
    /// As given.
    pub(crate) name: BString,
    pub(crate) kind: NewBranchKind,
}

/// How a branch is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewBranchKind {
    /// It must not exist.
    Create,
    /// It may.
    Reset,
    /// It is to have no commit.
    Orphan,
}

/// What an argument names.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// As given, `-` and `@{-N}` replaced by the branch they mean.
    pub(crate) name: BString,
    /// Full name, if it is a local branch.
    pub(crate) branch: Option<BString>,
    /// The commit; `None` if it is a tree.
    pub(crate) commit: Option<ObjectId>,
    /// Its tree.
    pub(crate) tree: ObjectId,
    /// What long-running filters are told about it.
    pub(crate) metadata: Metadata,
}

fn run(
    run: &Invocation,
    args: &[BString],
    variant: Variant,
    table: &Table<Set<Request>>,
) -> Result<u8, Failure> {
    // Git opens the repository before it reads the options, but help is help everywhere.
    let parsed = table.parse(args)?;
    let repo = run.open()?;
    let top = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    // A new branch alone changes no file. Git enters the worktree all the same.
    if !run.cwd.starts_with(top) {
        sys::Dir::open(top).map_err(Failure::cannot_open(top))?;
    }
    let settings = Settings::read(run, &repo)?;
    refused::check(&repo, &[Reader::Checkout, Reader::Submodules, Reader::Refs, Reader::Hooks])?;
    let mut request = Request::new(variant);
    request.plain_new_branch =
        variant == Variant::Checkout && args.len() == 2 && args.first().is_some_and(|arg| arg == "-b");
    let rest = parsed.store(&mut request)?;
    request.finish(run, &repo, &settings, rest)
}

/// `--track`
pub(super) fn track(value: Value) -> Result<Track, Failure> {
    match value.text.as_ref().map(|mode| mode.as_bytes()) {
        _ if !value.on => Ok(Track::Never),
        None | Some(b"direct") => Ok(Track::Explicit),
        Some(b"inherit") => Ok(Track::Inherit),
        Some(_) => {
            console::error("option `--track' expects \"direct\" or \"inherit\"");
            Err(Failure::Said(129))
        }
    }
}

impl Request {
    fn new(variant: Variant) -> Request {
        Request {
            variant,
            quiet: false,
            dry_run: false,
            progress: None,
            force: false,
            discard: false,
            detach: false,
            overwrite_ignore: true,
            ignore_other_worktrees: false,
            new_branch: None,
            reflog: false,
            track: None,
            guess: None,
            overlay: None,
            ignore_unmerged: false,
            ignore_skip_worktree: false,
            side: None,
            merge: Some(false),
            conflict: false,
            source: None,
            staged: None,
            worktree: None,
            recurse: None,
            pathspec_file: PathspecFile::default(),
            plain_new_branch: false,
            count_paths: false,
        }
    }

    fn take_conflict(&mut self, value: Value) -> Result<(), Failure> {
        if let Some(style) = value.text.as_ref().filter(|style| !is_conflict_style(style)) {
            console::error(text!("unknown conflict style '", style, "'"));
            return Err(Failure::Said(129));
        }
        self.conflict = value.text.is_some();
        self.merge = self.merge.filter(|&merge| merge || !self.conflict);
        Ok(())
    }

    fn name(&mut self, value: Value, kind: NewBranchKind) -> Result<(), Failure> {
        let branch = value.text.map(|name| NewBranch { name, kind });
        let other = self.new_branch.as_ref().is_some_and(|old| old.kind != kind);
        match branch {
            Some(_) if other => {
                let letter = self.letter();
                let upper = letter.to_ascii_uppercase();
                Err(Failure::fatal(format!(
                    "options '-{letter}', '-{upper}', and '--orphan' cannot be used together"
                )))
            }
            None if other => Ok(()),
            branch => {
                self.new_branch = branch;
                Ok(())
            }
        }
    }

    fn letter(&self) -> char {
        if self.variant == Variant::Switch { 'c' } else { 'b' }
    }

    /// What the arguments mean, whether all goes together, and on to the work.
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
            console::complaints(repo);
        }
        // A `--` that ended the options of `checkout` has done its work by now.
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
            let targets = paths::Targets {
                index: self.variant == Variant::Checkout || staged,
                worktree: self.variant == Variant::Checkout || worktree,
            };
            return paths::run(run, repo, settings, &self, source.as_ref(), &specs, targets);
        }
        if self.variant == Variant::Restore {
            return Err(Failure::fatal("you must specify path(s) to restore"));
        }
        self.check_switch(repo, settings, source.as_ref())?;
        if source.is_none() {
            console::complaints(repo);
        }
        branch::run(run, repo, settings, self, source)
    }

    /// `--track` without a name for the new branch takes it from the start: `-t origin/topic`.
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

    /// Takes the first argument off if it is a revision; guesses a remote branch if it may be one.
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
        let told = match dashes {
            Some(0) => return Ok(None),
            Some(1) => true,
            Some(number) => {
                return Err(Failure::fatal(format!("only one reference expected, {number} given.")));
            }
            None => !takes_paths,
        };
        self.count_paths = !self.quiet && !told;
        let first = rest[0].clone();
        let mut arg = if first == "-" { BString::from("@{-1}") } else { first.clone() };
        let oid = match repo.rev_parse_or_base(arg.as_bstr()) {
            Ok(oid) => oid,
            // It is no path, nor a branch of a remote, for that.
            Err(error) if error.is_final() || error.is_unreadable() && !told => return Err(error.into()),
            Err(error) => {
                paths::warn_ignored(repo, arg.as_bstr());
                let alone = !takes_paths || (rest.len() == 1 && !told) || (rest.len() == 2 && told);
                let wild = !told && arg.iter().any(|&byte| format::wildmatch::is_special(byte));
                let guess = self.guesses(repo)? && alone && !wild;
                let guessed = match guess {
                    true => self.guess_remote(run, repo, arg.as_bstr(), told)?,
                    false => None,
                };
                match guessed {
                    Some((tracking, oid)) => {
                        self.new_branch = Some(NewBranch { name: arg, kind: NewBranchKind::Create });
                        arg = tracking;
                        oid
                    }
                    None if told => {
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
        if takes_paths && told {
            rest.remove(0);
        } else if !told && !rest.is_empty() {
            paths::must_not_be_a_file(run, repo, arg.as_bstr())?;
        }
        Ok(Some(source))
    }

    fn guesses(&self, repo: &Repository) -> Result<bool, Failure> {
        let configured = repo.config_bool("checkout.guess")?.unwrap_or(true);
        Ok(self.guess.unwrap_or(configured) && self.track.is_none() && self.new_branch.is_none())
    }

    fn guess_remote(
        &self,
        run: &Invocation,
        repo: &Repository,
        name: &BStr,
        told: bool,
    ) -> Result<Option<(BString, ObjectId)>, Failure> {
        match repo.guess_remote_branch(name)? {
            Guess::Unique { .. } if !told && paths::is_a_file(repo, name)? => Err(Failure::Fatal(text!(
                "'",
                name,
                "' could be both a local file and a tracking branch.\n\
                     Please use -- (and optionally --no-guess) to disambiguate"
            ))),
            Guess::Unique { tracking, oid, .. } => Ok(Some((tracking, oid))),
            Guess::None => Ok(None),
            Guess::Ambiguous { matches: number } => {
                if repo.config_bool("advice.checkoutAmbiguousRemoteBranchName")?.unwrap_or(true) {
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

    /// Whether nothing but HEAD is asked to change: `switch -c x`, `checkout -b x`.
    pub(crate) fn only_makes_a_branch(&self) -> bool {
        self.variant == Variant::Switch || self.plain_new_branch
    }

    /// `-m`, or a `--conflict` that implies it: what would be refused is merged.
    pub(crate) fn merges(&self) -> bool {
        self.merge.unwrap_or(self.conflict)
    }

    /// Whether progress is to show.
    pub(crate) fn shows_progress(&self) -> bool {
        use std::io::IsTerminal as _;
        self.progress.unwrap_or_else(|| !self.quiet && std::io::stderr().is_terminal())
    }
}

/// A style of conflicts that there is.
pub(crate) fn is_conflict_style(name: &[u8]) -> bool {
    matches!(name, b"merge" | b"diff3" | b"zdiff3")
}

/// As [`describe`], with the warnings Git has for a revision on the command line.
fn describe_source(
    repo: &Repository,
    settings: &Settings,
    spec: &BStr,
    oid: ObjectId,
) -> Result<Source, Failure> {
    let source = describe(repo, spec, oid)?;
    // An expression that is no ref, and for which Git has a name, is looked up once more.
    let once = source.metadata.reference.is_some() || spec.contains_str("...");
    let times = if once { 1 } else { 2 };
    warn_ambiguous(repo, settings, spec, times)?;
    Ok(source)
}

/// What `name`, which resolves to `oid`, is.
pub(crate) fn describe(repo: &Repository, name: &BStr, oid: ObjectId) -> Result<Source, Failure> {
    let given = if name == "@" { BStr::new("HEAD") } else { name };
    // A tag comes before a branch of the same name here, though the branch is checked out.
    let (reference, object) = match names::expand(repo, given)?.into_iter().next() {
        Some((full, target)) => (Some(full), target),
        None => (None, oid),
    };
    let name = names::local_branch(repo, given)?;
    let full = text!(names::BRANCHES, name);
    let branch = match names::is_ref_name(full.as_bstr()) {
        true => repo.find_ref(full.as_bstr())?.map(|tip| (full, tip)),
        false => None,
    };
    let oid = branch.as_ref().map_or(oid, |(_, tip)| *tip);
    let no_tree = |error| Failure::of_name(error, Failure::fatal(format!("unable to read tree ({oid})")));
    let commit = repo.peel_to_commit(oid).map_err(no_tree)?;
    let tree = repo.tree_of(commit.unwrap_or(oid)).map_err(no_tree)?;
    let metadata = Metadata { reference, treeish: Some(commit.unwrap_or(object)) };
    Ok(Source { name, branch: branch.map(|(full, _)| full), commit, tree, metadata })
}
