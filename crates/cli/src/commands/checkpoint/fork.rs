//! `fork`: a workspace that begins with the present state.

use bstr::{BString, ByteSlice as _};
use engine::workspace::{backend::Backend, record::Workspace};
use repo::Repository;
use sapwood::{
    ObjectId,
    checkpoint::fork::{self, Filled, Source},
};
use serde_json::json;

use super::{JSON, QUIET, Request, VERSION, command_line, left_out, open, warn_of};
use crate::{
    commands::{
        record::{Command, Group},
        workspace::{self, context::print_json, create::Branched},
    },
    session::{Session, invocation::Invocation, settings::Settings},
    term::{
        args::{Grammar, Opt, Set, Table},
        console,
        failure::Failure,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood fork [--backend <backend>] [-q] [--json] <name> [<dir>]"],
    options: &[
        Opt::text(
            "--backend <backend>",
            "auto, image, overlay, overlay-user, fuse, btrfs, reflink or copy",
            field!(backend),
        ),
        Opt::text("--fill <state>", "give this workspace a stored state", field!(fill)).hidden(),
        QUIET,
        JSON,
    ],
    grammar: Grammar::Mixed,
};

/// The record of `fork`.
pub(in crate::commands) const COMMAND: Command = Command {
    name: "fork",
    summary: "Create a workspace with the present state",
    about: "Creates a workspace, on a new branch of its name at the commit of HEAD, whose files and index are as \
            they are here: uncommitted work and untracked files are included, and ignored files are not. This \
            worktree goes on undisturbed. Only the files that differ from the commit are written.\n\n\
            With `--backend overlay-user`, which an ordinary user can have where the kernel allows it, only processes \
            that sapwood starts see the files (`sapwood workspace enter`). It is never chosen without being named.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    if let Some(stored) = &request.fill {
        return fill(run, stored);
    }
    let (name, dir) = match &rest[..] {
        [name] => (name.clone(), None),
        [name, dir] => (name.clone(), Some(dir.clone())),
        _ => return Err(Failure::fatal("name the workspace, and at most its directory")),
    };
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let backend = workspace::create::named_backend(request.backend.as_ref())?;
    workspace::create::check_name(run, &name)?;
    let source = fork::source(session.context(run))?;
    let quiet = request.quiet || request.json;
    let commit = source.commit.to_string().into();
    let workspace = match workspace::create::branched(run, Branched { name, commit, dir, backend, quiet })? {
        Ok(workspace) => workspace,
        Err(code) => return Ok(code),
    };
    let filled = if workspace.record.backend == Backend::OverlayUser {
        let stored = source.store(session.context(run), &command_line(run))?;
        let left_out = source.left_out().to_vec();
        Filled { written: fill_inside(run, &workspace, &stored)?, left_out }
    } else {
        fill_outside(run, &repo, &workspace, source)?
    };
    if request.json {
        print_json(&json!({
            "version": VERSION,
            "workspace": workspace::create::document(run, &workspace)?,
            "written": filled.written,
            "leftOut": left_out(&filled.left_out),
        }));
    } else if !request.quiet {
        warn_of(&filled.left_out);
        workspace::create::tell(&workspace);
    }
    Ok(0)
}

/// Gives a workspace whose files this process sees the state.
fn fill_outside(
    run: &Invocation,
    repo: &Repository,
    workspace: &Workspace,
    source: Source,
) -> Result<Filled, Failure> {
    let git_dir = repo.real_common_dir().join("worktrees").join(&workspace.name);
    let opened = fork::open(repo, &workspace.record.dir, &git_dir)?;
    let settings = Settings::read(&opened)?.for_recording();
    let session = Session { invocation: run, repository: &opened, settings: &settings };
    Ok(source.fill(session.context(run), &command_line(run))?)
}

/// Starts this program inside of the workspace, to give it the stored state. Returns the number of
/// files that were written.
fn fill_inside(run: &Invocation, workspace: &Workspace, stored: &ObjectId) -> Result<usize, Failure> {
    let words = ["fork".into(), "--fill".into(), stored.to_string().into()];
    let output = workspace::exec::output(run, workspace, &words)?;
    let written = output.stdout.trim().to_str().ok().and_then(|number| number.parse().ok());
    written.filter(|_| output.status.success()).ok_or_else(|| {
        Failure::error("the workspace did not get the files of its source; its state is its commit")
    })
}

/// Gives the workspace of the current directory a stored state, and prints the number of files that
/// were written.
fn fill(run: &Invocation, stored: &BString) -> Result<u8, Failure> {
    let (repo, settings) = open(run)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let stored =
        ObjectId::from_hex(repo.hash(), stored).ok_or_else(|| Failure::fatal("--fill takes an object"))?;
    let source = Source::read(session.context(run), stored)?;
    let command = source.command();
    let filled = source.fill(session.context(run), &command)?;
    console::out(filled.written.to_string());
    Ok(0)
}
