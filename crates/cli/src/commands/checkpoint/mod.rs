//! `sapwood checkpoint`, `undo`, `redo`, `checkpoints` and `fork`: see [`sapwood::checkpoint`].

mod fork;
pub(crate) mod hook;
mod list;
mod report;
mod request;
mod undo;
mod watch;

use bstr::BString;
use sapwood::checkpoint;

use crate::{
    commands::{
        record::{Command, Group},
        workspace::context::print_json,
    },
    session::{Session, invocation::Invocation},
    term::{
        args::{Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
    },
};

use hook::Call;
use report::{VERSION, document, left_out, shown, warn_of};
use request::{Request, command_line, open};

pub(super) use fork::COMMAND as FORK;
pub(super) use list::COMMAND as LIST;
pub(super) use undo::{REDO, UNDO};

const JSON: Opt<Set<Request>> = Opt::flag("--json", "print one JSON document", field!(json));
const QUIET: Opt<Set<Request>> = Opt::flag("-q, --quiet", "print only errors", field!(quiet));

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood checkpoint [-m <label>] [-q] [--json]",
        "sapwood checkpoint --watch [--settle <milliseconds>] [-m <label>] [-q] [--json]",
        "sapwood checkpoint --hook",
    ],
    options: &[
        Opt::text("-m, --message <label>", "a text that says what the state is", field!(label)),
        Opt::flag(
            "--hook",
            "serve as the hook of a coding agent, which describes the call on standard input",
            field!(hook),
        ),
        Opt::flag(
            "--watch",
            "make a checkpoint whenever something has changed, until a signal",
            field!(watch),
        ),
        Opt::text(
            "--settle <milliseconds>",
            "the pause after a change, before the checkpoint (500)",
            field!(settle),
        ),
        QUIET,
        JSON,
    ],
    grammar: Grammar::Mixed,
};

/// The record of `checkpoint`.
pub(super) const COMMAND: Command = Command {
    name: "checkpoint",
    summary: "Store the state of the worktree and the index",
    about: "Stores all tracked and untracked files, but not ignored ones, and the index, as Git objects under \
            `refs/sapwood/checkpoints/`. `git log --all` does not show them, and `git push --all` does not push \
            them. Nothing in the worktree or the index changes. `sapwood undo` restores the state.\n\n\
            `sapwood.checkpointKeep` (200) and `sapwood.checkpointExpire` (`14.days.ago`) limit the entries of a \
            worktree. Other repositories in the worktree, and files that cannot be read, are left out; a warning \
            names them.\n\n\
            With `--hook` it reads the JSON document that coding agents give their hooks, takes the label and the \
            directory from it, and prints nothing. The exit code of a failure is 1, which no agent takes for a \
            veto. If the document cannot be read, the checkpoint is made all the same, in the current directory. \
            Outside of a repository it does nothing.\n\n\
            With `--watch` it goes on until a signal, and makes a checkpoint whenever a file or the index has \
            changed and nothing else changes for the time of `--settle`; under changes without a pause, every ten \
            seconds. It prints a line for each, or with `--json` a document in a line. The kernel reports the \
            changes. A worktree has one such watcher at most. While a workspace is not mounted, it waits.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

/// Runs `checkpoint`. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    no_arguments(&TABLE.parse(args)?.store(&mut request)?)?;
    match &request {
        Request { hook: true, watch: true, .. } => {
            Err(Failure::fatal("--hook and --watch cannot be used together"))
        }
        Request { watch: false, settle: Some(_), .. } => Err(Failure::fatal("--settle needs --watch")),
        Request { hook: true, .. } => serve(run).or_else(as_error),
        Request { watch: true, .. } => watch::run(run, request),
        _ => make(run, request),
    }
}

/// Serves as the hook of a coding agent.
fn serve(run: &Invocation) -> Result<u8, Failure> {
    let call = Call::read(run)?;
    if let Some(repo) = call.repository(run)?
        && repo.work_tree().is_some()
    {
        run.opened.set(Some(repo));
        make(run, Request { label: Some(call.label), quiet: true, ..Request::default() })?;
    }
    call.error.map_or(Ok(0), Err)
}

/// Agents take some exit codes for a veto of the call.
fn as_error(failure: Failure) -> Result<u8, Failure> {
    match failure {
        failure @ Failure::Signal(_) => Err(failure),
        failure => {
            failure.print();
            Ok(1)
        }
    }
}

/// Makes an entry, and reports it. Returns the exit code.
fn make(run: &Invocation, request: Request) -> Result<u8, Failure> {
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let label = request.label.unwrap_or_default();
    let made = checkpoint::Request { label, command: command_line(run) };
    let made = checkpoint::make(session.context(run), made)?;
    if request.json {
        print_json(&document(&made));
    } else if !request.quiet {
        warn_of(&made.left_out);
        console::out(format!("Checkpoint {}", made.number));
    }
    Ok(0)
}

fn no_arguments(rest: &[BString]) -> Result<(), Failure> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => Err(Failure::fatal(text!("unexpected argument '", extra, "'"))),
    }
}
