//! `sapwood reset`: sets HEAD's branch, the index and the worktree to a commit, or paths of the
//! index to a tree.
//!
//! Order: arguments; the check that HEAD can move; index and worktree; then ORIG_HEAD, HEAD and the
//! state files. If the index or the worktree cannot be changed, HEAD stays.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::{
        ChangedEntry, Files, Force, IndexOptions, Merge, Operation, PlanOptions, Sparse, Vouched, plan_index,
    },
    look::LookError,
    pathspec::Pathspecs,
    sparse::Purpose,
    switch::{self, ResetReason, names, state},
};
use format::ObjectId;
use repo::{Repository, convert::Metadata};

use crate::{
    commands::{
        obstacles::{GENERAL, RECURSING, WRITING, attributes_of_pathspecs, recursion_is_boolean},
        paths,
        pathspec_file::PathspecFile,
        record::{Command, Group, Revisions, Traits},
    },
    session::{
        Session,
        apply::{self, Done, PreflightCheck, Recorded, Start, Transaction},
        hooks::Changed,
        invocation::Invocation,
        revisions::warn_ambiguous,
        settings::{
            Settings,
            refused::{self, Reader},
        },
        sparse_index::{self, ExpansionHint},
        submodules,
    },
    term::{
        args::{Grammar, Native::Both, Opt, Set, Table},
        console::{self, text},
        failure::{Failure, requires_patch_if, unserved_if},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Mixed,
    Soft,
    Hard,
    Merge,
    Keep,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Mixed => "mixed",
            Mode::Soft => "soft",
            Mode::Hard => "hard",
            Mode::Merge => "merge",
            Mode::Keep => "keep",
        }
    }
}

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood reset [--mixed | --soft | --hard | --merge | --keep] [-q] [<commit>]",
        "sapwood reset [-q] [<tree-ish>] [--] <pathspec>...",
        "sapwood reset [-q] [--pathspec-from-file [--pathspec-file-nul]] [<tree-ish>]",
        "sapwood reset --patch [<tree-ish>] [--] [<pathspec>...]",
    ],
    options: &[
        Opt::flag("-q, --quiet", "be quiet, only report errors", |request: &mut Request| &mut request.quiet)
            .native(Both),
        Opt::flag("--no-refresh", "skip refreshing the index after reset", |request: &mut Request| {
            &mut request.no_refresh
        })
        .native(Both),
        Opt::new("--mixed", "reset HEAD and index", |request: &mut Request, _| {
            request.take_mode(Mode::Mixed)
        })
        .only()
        .native(Both),
        Opt::new("--soft", "reset only HEAD", |request: &mut Request, _| request.take_mode(Mode::Soft))
            .only()
            .native(Both),
        Opt::new("--hard", "reset HEAD, index and working tree", |request: &mut Request, _| {
            request.take_mode(Mode::Hard)
        })
        .only()
        .native(Both),
        Opt::new("--merge", "reset HEAD, index and working tree", |request: &mut Request, _| {
            request.take_mode(Mode::Merge)
        })
        .only()
        .native(Both),
        Opt::new("--keep", "reset HEAD but keep local changes", |request: &mut Request, _| {
            request.take_mode(Mode::Keep)
        })
        .only()
        .native(Both),
        Opt::new(
            "--recurse-submodules[=<reset>]",
            "control recursive updating of submodules",
            |request: &mut Request, value| {
                request.recurse = Some(submodules::parse(value.on, value.text)?);
                Ok(())
            },
        )
        .native(Both),
        Opt::new("-p, --patch", "select hunks interactively", |_: &mut Request, value| {
            unserved_if(value.on, "option '--patch'")
        }),
        Opt::new(
            "--auto-advance",
            "auto advance to the next file when selecting hunks interactively",
            |_: &mut Request, value| requires_patch_if(!value.on, "--no-auto-advance"),
        ),
        Opt::new("-U, --unified <n>", "generate diffs with <n> lines context", |_: &mut Request, _| {
            requires_patch_if(true, "--unified")
        })
        .only(),
        Opt::new(
            "--inter-hunk-context <n>",
            "show context between diff hunks up to the specified number of lines",
            |_: &mut Request, _| requires_patch_if(true, "--inter-hunk-context"),
        )
        .only(),
        Opt::flag(
            "-N, --intent-to-add",
            "record only the fact that removed paths will be added later",
            |request: &mut Request| &mut request.intent_to_add,
        )
        .native(Both),
        Opt::new("--pathspec-from-file <file>", "read pathspec from file", |request: &mut Request, value| {
            request.pathspec_file.files.extend(value.text);
            Ok(())
        })
        .native(Both),
        Opt::flag(
            "--pathspec-file-nul",
            "with --pathspec-from-file, pathspec elements are separated with NUL character",
            |request: &mut Request| &mut request.pathspec_file.nul,
        )
        .native(Both),
        Opt::flag("--dry-run", "print what would be done, and do nothing", |request: &mut Request| {
            &mut request.dry_run
        }),
    ],
    grammar: Grammar::MixedWithDashes,
};

#[derive(Default)]
struct Request {
    quiet: bool,
    no_refresh: bool,
    mode: Option<Mode>,
    intent_to_add: bool,
    dry_run: bool,
    recurse: Option<bool>,
    pathspec_file: PathspecFile,
}

/// The record of `reset`.
pub(super) const COMMAND: Command = Command {
    name: "reset",
    summary: "Set `HEAD` or the index to a known state",
    about: "Moves the current branch to a commit, and makes the index, or index and worktree, equal to it. \
            With paths, only their index entries are reset.\n\n\
            `--hard`, `--merge` and `--keep` use the planner of `sapwood switch`: files are written in \
            parallel, and `--dry-run`, which Git does not have, prints the plan. `-p` is not supported.",
    group: Group::Changes,
    syntax: &TABLE,
    revisions: Revisions::Leading,
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL],
    line: &[recursion_is_boolean, attributes_of_pathspecs],
    checks: &[WRITING, RECURSING],
    run,
    ..Command::BASE
};

impl Request {
    fn take_mode(&mut self, mode: Mode) -> Result<(), Failure> {
        self.mode = Some(mode);
        Ok(())
    }
}

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(run, &repo)?;
    refused::check(&repo, &[Reader::Refs, Reader::Hooks])?;
    let (rev, specs) = arguments(run, &repo, &settings, rest)?;
    let specs = request.pathspec_file.or(specs, None, run, &repo)?;
    Reset { run, repo: &repo, settings: &settings, request, rev }.run(&specs)
}

/// Returns the revision (`HEAD` if none is given) and the paths.
fn arguments(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    args: Vec<BString>,
) -> Result<(BString, Pathspecs), Failure> {
    let mut rev = BString::from("HEAD");
    let mut rest = &args[..];
    match &args[..] {
        [] => {}
        [dashes, ..] if dashes == "--" => rest = &args[1..],
        [first, dashes, ..] if dashes == "--" => {
            rev = first.clone();
            rest = &args[2..];
        }
        [first, more @ ..] => {
            let named = repo.rev_parse(first.as_bstr());
            if let Err(error) = &named {
                // This error does not mean that the word may be a path.
                if error.is_unreadable() || error.is_final() {
                    return Err(error.clone().into());
                }
                paths::warn_ignored(repo, first.as_bstr());
            }
            let meant = match named {
                Ok(oid) if !more.is_empty() => match repo.tree_of(oid) {
                    Err(error) if error.is_unreadable() => return Err(error.into()),
                    tree => tree.is_ok(),
                },
                named => named.is_ok(),
            };
            if meant {
                warn_ambiguous(repo, settings, first.as_bstr(), 1)?;
                paths::must_not_be_a_file(run, repo, first.as_bstr())?;
                rev = first.clone();
                rest = more;
            } else {
                paths::must_be_a_file(run, repo, first.as_bstr())?;
            }
        }
    }
    if rev == "@" {
        rev = "HEAD".into();
    }
    Ok((rev, paths::parse(run, repo, rest)?))
}

/// The target of the reset.
enum ResetTarget {
    /// The empty tree: HEAD has no commit yet.
    Nothing,
    Commit(ObjectId),
    Tree(ObjectId),
}

struct Reset<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    request: Request,
    rev: BString,
}

impl Reset<'_> {
    fn run(self, specs: &Pathspecs) -> Result<u8, Failure> {
        let to = self.resolve(specs)?;
        warn_ambiguous(self.repo, self.settings, self.rev.as_bstr(), 1)?;
        console::print_object_store_errors(self.repo);
        match self.request.mode {
            Some(Mode::Mixed) if !specs.is_empty() => {
                let name = self.run.program.name();
                console::warning(format!(
                    "--mixed with paths is deprecated; use '{name} reset -- <paths>' instead."
                ));
            }
            Some(mode) if !specs.is_empty() => {
                return Err(Failure::fatal(format!("Cannot do {} reset with paths.", mode.name())));
            }
            _ => {}
        }
        let mode = self.request.mode.unwrap_or(Mode::Mixed);
        match mode {
            Mode::Soft => {}
            // Inside the Git directory of a repository that is not bare, the index can be reset.
            Mode::Mixed if !self.repo.is_bare() => {}
            Mode::Mixed => {
                return Err(Failure::fatal("mixed reset is not allowed in a bare repository"));
            }
            _ if self.repo.work_tree().is_none() => {
                return Err(Failure::no_worktree());
            }
            _ => {}
        }
        if self.request.intent_to_add && mode != Mode::Mixed {
            return Err(Failure::requires("-N", "--mixed"));
        }
        if matches!(mode, Mode::Soft | Mode::Keep) && self.in_a_merge()? {
            return Err(Failure::fatal(format!(
                "Cannot do a {} reset in the middle of a merge.",
                mode.name()
            )));
        }
        let tree = match to {
            ResetTarget::Nothing => ObjectId::empty_tree(self.repo.hash()),
            ResetTarget::Commit(oid) => self.repo.tree_of(oid)?,
            ResetTarget::Tree(oid) => oid,
        };
        let done = match mode {
            Mode::Soft => match self.request.dry_run {
                true => Done::Planned,
                false => Done::Complete,
            },
            Mode::Mixed => self.index_only(tree, specs, self.preflight_check(&to, specs))?,
            Mode::Hard | Mode::Merge | Mode::Keep => {
                let treeish = match to {
                    ResetTarget::Commit(oid) => oid,
                    _ => tree,
                };
                self.worktree(mode, tree, treeish, self.preflight_check(&to, specs))?
            }
        };
        match done {
            Done::Planned => return Ok(0),
            Done::Incomplete | Done::Unfinished => return Err(self.failed()),
            Done::Complete => {}
        }
        if !specs.is_empty() {
            return Ok(0);
        }
        let refs = self.settings.refs(self.repo)?;
        if let ResetTarget::Commit(commit) = to {
            let reason = match self.run.variable("GIT_REFLOG_ACTION") {
                Some(action) => ResetReason::Action(action.as_bstr()),
                None => ResetReason::To(self.rev.as_bstr()),
            };
            let untold = switch::reset_head(self.repo, &refs, commit, reason).map_err(cannot_reset_head)?;
            if let Some(error) = untold {
                console::error(format!("update_ref failed for ref 'ORIG_HEAD': {error}"));
            }
            if mode == Mode::Hard && !self.request.quiet {
                let short = self.repo.abbreviate(commit)?;
                let subject = self.repo.subject(commit)?;
                let gap = if subject.is_empty() { "" } else { " " };
                console::out(text!("HEAD is now at ", short, gap, subject));
            }
        }
        state::end(self.repo, &refs)?;
        Ok(0)
    }

    /// Returns the check, to run before anything is written, that HEAD can be moved.
    fn preflight_check(&self, to: &ResetTarget, specs: &Pathspecs) -> Option<PreflightCheck<'_>> {
        specs.is_empty().then_some(())?;
        let commit = match *to {
            ResetTarget::Commit(commit) => Some(commit),
            _ => None,
        };
        Some(Box::new(move || {
            let refs = self.settings.refs(self.repo)?;
            let check = |commit| switch::check_reset(self.repo, &refs, commit).map_err(cannot_reset_head);
            commit.map_or(Ok(()), check)
        }))
    }

    fn failed(&self) -> Failure {
        Failure::Fatal(text!("Could not reset index file to revision '", self.rev, "'."))
    }

    fn resolve(&self, specs: &Pathspecs) -> Result<ResetTarget, Failure> {
        let rev = self.rev.as_bstr();
        if rev == "HEAD" && self.head()?.is_none() {
            return Ok(ResetTarget::Nothing);
        }
        let resolve = |what: &str| {
            let invalid = || Failure::Fatal(text!("Failed to resolve '", rev, "' as a valid ", what, "."));
            self.repo.rev_parse(rev).map_err(|error| Failure::of_name(error, invalid()))
        };
        let no_object =
            |error| Failure::of_name(error, Failure::Fatal(text!("Could not parse object '", rev, "'.")));
        if specs.is_empty() {
            let oid = resolve("revision")?;
            if let Some(commit) = self.repo.peel_to_commit(oid).map_err(no_object)? {
                return Ok(ResetTarget::Commit(commit));
            }
            let (kind, _) = self.repo.objects().header(&oid)?;
            let kind = format!("{kind:?}").to_lowercase();
            console::error(format!("object {oid} is a {kind}, not a commit"));
            Err(Failure::Fatal(text!("Could not parse object '", rev, "'.")))
        } else {
            let oid = resolve("tree")?;
            Ok(ResetTarget::Tree(self.repo.tree_of(oid).map_err(no_object)?))
        }
    }

    fn in_a_merge(&self) -> Result<bool, Failure> {
        if state::is_merging(self.repo)? {
            return Ok(true);
        }
        let index = apply::load_raw(self.repo, self.settings)?;
        if index.sparse && sparse_index::wanted(self.repo)?.is_none() {
            sparse_index::report_expansion(self.repo, self.settings, &index, ExpansionHint::Print)?;
        }
        Ok(index.is_unmerged())
    }

    /// Runs `--hard`, `--merge` or `--keep`.
    fn worktree(
        &self,
        mode: Mode,
        tree: ObjectId,
        treeish: ObjectId,
        preflight: Option<PreflightCheck<'_>>,
    ) -> Result<Done, Failure> {
        let mut transaction = Transaction::start(
            Session { invocation: self.run, repository: self.repo, settings: self.settings },
            Start::Sparse { dry_run: self.request.dry_run },
        )?;
        transaction.policy.preflight = preflight;
        // Here Git shows progress without a terminal and without `--progress`.
        transaction.policy.progress = !self.request.quiet;
        transaction.policy.recurses = submodules::wanted(self.request.recurse, self.repo)?;
        // Filters do not get the name of a detached HEAD.
        let reference = names::expand(self.repo, self.rev.as_bstr())?.into_iter().next();
        let reference = reference.map(|(full, _)| full).filter(|full| full.starts_with(b"refs/"));
        transaction.policy.metadata = Metadata { reference, treeish: Some(treeish) };
        let merge = match mode {
            Mode::Keep => {
                let Some(head) = self.head()? else {
                    console::error("You do not have a valid HEAD.");
                    return Err(self.failed());
                };
                Merge::TwoWay { head: Some(self.repo.tree_of(head)?), target: tree }
            }
            _ => Merge::OneWay { target: tree },
        };
        let options = PlanOptions {
            merge,
            force: if mode == Mode::Hard { Force::OverwriteUntracked } else { Force::No },
            files: Files::Update,
            overwrite_ignored: true,
            refresh: false,
            original_cwd: self.run.original_cwd(self.repo),
            sparse: Sparse::Configured,
            operation: Operation::Plumbing,
            vouched: Vouched::Examined,
        };
        if mode == Mode::Hard && !self.request.dry_run {
            transaction.query_monitor()?;
        }
        if mode != Mode::Keep {
            return transaction
                .perform(&options, 128, None)
                .map_err(|failure| self.with_final_message(failure));
        }
        // Local changes that are kept show as unstaged: the whole index is the target's.
        transaction
            .perform_then_index(&options, 128, tree)
            .map_err(|failure| self.with_final_message(failure))
    }

    /// Adds the final message after a refusal that was printed path by path.
    fn with_final_message(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Reported(_) => self.failed(),
            other => other,
        }
    }

    fn head(&self) -> Result<Option<ObjectId>, Failure> {
        Ok(self.repo.head()?.oid())
    }

    /// Runs `--mixed`, with or without paths.
    fn index_only(
        &self,
        tree: ObjectId,
        specs: &Pathspecs,
        preflight: Option<PreflightCheck<'_>>,
    ) -> Result<Done, Failure> {
        let mut transaction = Transaction::start(
            Session { invocation: self.run, repository: self.repo, settings: self.settings },
            Start::IndexOnly { dry_run: self.request.dry_run },
        )?;
        transaction.policy.changed = Changed::IndexAlone;
        transaction.policy.preflight = preflight;
        let patterns = transaction.patterns()?;
        let options = IndexOptions {
            tree,
            sparse: patterns.as_deref(),
            pathspecs: (!specs.is_empty()).then_some(specs),
            intent_to_add: self.request.intent_to_add,
        };
        let purpose = |dir: &BStr| match patterns {
            Some(_) => specs.purpose(dir, Purpose::OneWay(tree)),
            None => Purpose::Files,
        };
        transaction.expand_for(patterns.as_deref(), &purpose)?;
        let index = std::mem::replace(&mut transaction.index, format::index::Index::empty(self.repo.hash()));
        let plan = plan_index(self.repo, index, &options).map_err(|error| match error {
            LookError::InvalidPath(path) => {
                console::error(text!("invalid path '", path, "'"));
                Failure::Fatal(text!("make_cache_entry failed for path '", path, "'"))
            }
            error => transaction.explain(error.into(), Operation::Plumbing, 128),
        })?;
        let needs_full = |before| patterns.as_ref().is_some_and(|by| specs.need_full_index(before, by));
        if transaction.state.before.as_ref().is_some_and(needs_full) {
            transaction.needs_full()?;
        }
        transaction.changes_collapsed(&plan.index)?;
        let done = transaction.carry_out(plan)?;
        if done == Done::Planned {
            return Ok(done);
        }
        if self.request.quiet {
            transaction.list_unmerged();
        }
        if !self.request.no_refresh && self.repo.work_tree().is_some() {
            let started = std::time::Instant::now();
            let unclean = transaction.refresh()?;
            if !self.request.quiet {
                list(&unclean);
                let took = started.elapsed().as_secs_f64();
                if took > 2.0 && self.settings.advises(self.repo, "resetNoRefresh")? {
                    console::hint(format!(
                        "It took {took:.2} seconds to refresh the index after reset.  You can use\n\
                         '--no-refresh' to avoid this."
                    ));
                }
            }
        }
        transaction.finish(Recorded::Yes)?;
        Ok(done)
    }
}

fn cannot_reset_head(error: switch::Error) -> Failure {
    match error.is_missing_committer() {
        true => error.into(),
        false => Failure::error(format!("update_ref failed for ref 'HEAD': {error}")).advised(error.advice()),
    }
}

fn list(unclean: &[ChangedEntry]) {
    if !unclean.is_empty() {
        console::out("Unstaged changes after reset:");
    }
    for ChangedEntry { kind, path, .. } in unclean {
        console::out(text!([kind.letter()], "\t", path));
    }
}
