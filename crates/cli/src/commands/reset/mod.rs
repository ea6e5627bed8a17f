//! `sapwood reset`: sets HEAD's branch, the index and the worktree to a commit, or paths of the
//! index to a tree.
//!
//! The arguments are guessed here; [`sapwood::reset`] does the rest.

use bstr::{BString, ByteSlice as _};
use engine::pathspec::Pathspecs;
use repo::{Repository, keys};
use sapwood::{
    Error, PlanError,
    reset::{self, ChangedEntry, Mode, Report},
    transaction::Refused,
};

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, RECURSING, RECURSION_IS_BOOLEAN, WRITING},
        paths,
        pathspec_file::{PathspecFile, file_nul, from_file},
        record::{Command, Group, Revisions},
    },
    session::{
        Session,
        index::list_unmerged,
        invocation::Invocation,
        revisions::warn_ambiguous,
        settings::{Reader, Settings, refused},
        submodules,
    },
    term::{
        args::{Both, Grammar, Opt, Set, Table},
        console::{self, text},
        failure::{Failure, Preface, requires_patch_if, unserved_if},
        notice,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood reset [--mixed | --soft | --hard | --merge | --keep] [-q] [<commit>]",
        "sapwood reset [-q] [<tree-ish>] [--] <pathspec>...",
        "sapwood reset [-q] [--pathspec-from-file [--pathspec-file-nul]] [<tree-ish>]",
        "sapwood reset --patch [<tree-ish>] [--] [<pathspec>...]",
    ],
    options: &[
        Opt::flag("-q, --quiet", "be quiet, only report errors", field!(quiet)).native(Both),
        Opt::flag("--no-refresh", "skip refreshing the index after reset", field!(no_refresh)).native(Both),
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
            field!(intent_to_add),
        )
        .native(Both),
        from_file(field!(pathspec_file.files)).native(Both),
        file_nul(field!(pathspec_file.nul)),
        Opt::flag("--dry-run", "print what would be done, and do nothing", field!(dry_run)),
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
    settings: &[GENERAL],
    line: &[RECURSION_IS_BOOLEAN, ATTRIBUTES_OF_PATHSPECS],
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
    let settings = Settings::read(&repo)?;
    refused::check(&repo, &[Reader::Refs, Reader::Hooks])?;
    let (rev, specs) = arguments(run, &repo, &settings, rest)?;
    let specs = request.pathspec_file.or(specs, None, run, &repo)?;
    Reset { run, repo: &repo, settings: &settings, request, rev }.run(specs)
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

struct Reset<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    request: Request,
    rev: BString,
}

impl Reset<'_> {
    fn run(self, specs: Pathspecs) -> Result<u8, Failure> {
        let mode = self.request.mode.unwrap_or_default();
        let has_paths = !specs.is_empty();
        let request = reset::Request {
            revision: self.rev.clone(),
            mode,
            pathspecs: specs,
            intent_to_add: self.request.intent_to_add,
            refresh: !self.request.no_refresh,
            recurse_submodules: self.request.recurse,
            keep: self.run.original_cwd(self.repo),
            reflog_action: self.run.variable("GIT_REFLOG_ACTION").map(BString::from),
            // Here Git shows progress without a terminal and without `--progress`.
            progress: !self.request.quiet,
        };
        let target = reset::resolve(self.repo, &request)?;
        warn_ambiguous(self.repo, self.settings, self.rev.as_bstr(), 1)?;
        notice::print_object_store_errors(self.repo);
        if has_paths && self.request.mode == Some(Mode::Mixed) {
            let name = self.run.program.name();
            console::warning(format!(
                "--mixed with paths is deprecated; use '{name} reset -- <paths>' instead."
            ));
        }
        let session = Session { invocation: self.run, repository: self.repo, settings: self.settings };
        let context = session.context(self.run);
        if self.request.dry_run {
            let plan = reset::preview(context, request, target).map_err(|error| self.refused(mode, error))?;
            plan.iter().for_each(|plan| console::out(plan.to_string().trim_end()));
            return Ok(0);
        }
        let prepared = reset::prepare(context, request, target).map_err(|error| self.refused(mode, error))?;
        let mut executed = prepared.execute()?;
        if mode == Mode::Mixed && self.request.quiet {
            list_unmerged(&executed.report().unmerged);
        }
        executed.refresh()?;
        self.list_changes(executed.report())?;
        let recorded = executed.record()?;
        if recorded.report().is_incomplete {
            return Err(self.failed());
        }
        let moved = recorded.move_head()?;
        if let (Mode::Hard, false, Some(commit)) = (mode, self.request.quiet, moved.report().new) {
            let short = self.repo.abbreviate(commit)?;
            let subject = self.repo.subject(commit)?;
            let gap = if subject.is_empty() { "" } else { " " };
            console::out(text!("HEAD is now at ", short, gap, subject));
        }
        moved.end()?;
        Ok(0)
    }

    fn failed(&self) -> Failure {
        Failure::Fatal(text!("Could not reset index file to revision '", self.rev, "'."))
    }

    /// Returns the failure of a reset that cannot be planned, with Git's messages about its cause.
    fn refused(&self, mode: Mode, error: PlanError) -> Failure {
        match (mode, error) {
            (Mode::Mixed, PlanError::Failed(Error::Refused(Refused::InvalidPath(path)))) => {
                let cause = Preface::Error(text!("invalid path '", path, "'"));
                Failure::Fatal(text!("make_cache_entry failed for path '", path, "'")).after(cause)
            }
            (Mode::Hard | Mode::Merge | Mode::Keep, PlanError::Failed(error @ Error::Refused(_))) => {
                self.failed().after(Preface::Cause(Box::new(error.into())))
            }
            (_, PlanError::Failed(error @ Error::NoHead)) => {
                self.failed().after(Preface::Error(error.to_string().into()))
            }
            (_, error) => error.into(),
        }
    }

    fn list_changes(&self, report: &Report) -> Result<(), Failure> {
        if self.request.quiet {
            return Ok(());
        }
        if !report.changed.is_empty() {
            console::out("Unstaged changes after reset:");
        }
        for ChangedEntry { kind, path, .. } in &report.changed {
            console::out(text!([kind.letter()], "\t", path));
        }
        let took = report.refresh_took.as_secs_f64();
        if took > 2.0 && self.settings.advises(self.repo, keys::advice::RESET_NO_REFRESH)? {
            console::hint(format!(
                "It took {took:.2} seconds to refresh the index after reset.  You can use\n\
                 '--no-refresh' to avoid this."
            ));
        }
        Ok(())
    }
}
